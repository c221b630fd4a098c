package check_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/storage"
	"millrace/storage/batch"
	"millrace/storage/check"
	"millrace/storage/disktest"
	"millrace/storage/log"
	"millrace/storage/producer"
)

var bits = flag.Int("bits", 5, "how many bits of each file TestCorruptedBytes changes")

// bitsOf is how many bits of a file of a kind are changed.
func bitsOf(kind, of string) int {
	n := *bits
	if testing.Short() {
		n = min(n, 3)
	}
	switch {
	case of == "":
		return 2 * *bits
	case of == "t":
		return n
	case strings.HasSuffix(kind, ".deleted"), strings.HasSuffix(kind, ".cleaned"):
		return (n + 4) / 5 // nobody reads them
	}
	return (n + 1) / 2
}

func report(t testing.TB, fs *disktest.FS) check.Report {
	t.Helper()
	r, err := check.Directory(fs, dir, false)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSoundDirectories(t *testing.T) {
	r := report(t, written(t, true))
	if all := r.All(); len(all) > 0 || !r.Clean || !r.Sound() {
		t.Errorf("closed in order: %v", all)
	}
	if p := r.Partitions; len(p) != 3 || p[0].Segments < 4 || p[0].Batches < 120 || p[0].Records <= p[0].Batches || p[0].Start != 5 {
		t.Errorf("%+v", p)
	} else if p[1].Segments != 2 || p[1].Start != 0 || int64(p[1].End) <= p[1].Records || !strings.HasSuffix(p[2].Dir, "-future") || p[2].Segments != 2 {
		t.Errorf("the cleaned one and the one on its way: %+v", p[1:])
	}
	for seed := range uint64(8) {
		fs := written(t, false)
		if seed > 0 {
			fs = made(t, false)
			fs.Crash(rand.New(rand.NewPCG(seed, 1)))
		}
		r := report(t, fs)
		// A power cut may take a batch and leave those behind it: what goes with it is told, and nothing else is wrong.
		for i := range r.Partitions {
			list := r.Partitions[i].Findings
			r.Partitions[i].Findings = slices.DeleteFunc(list, func(f check.Finding) bool { return f.Cut != nil && f.Cut.Batches > 0 && seed > 0 })
		}
		if r.Clean || !r.Sound() {
			t.Errorf("not closed in order, seed %d: %v", seed, r.All())
		}
		// What an exchange that was left half way has put in the place of segments is looked at as what it will be.
		if p := r.Partitions; seed == 0 && (len(p) != 5 || p[2].Segments != p[1].Segments || p[2].Batches != p[1].Batches || p[2].Start != 0 || p[2].End != p[1].End || p[3].Segments != 4) {
			t.Errorf("%+v", p)
		}
	}
}

// content is everything a broker reads of a directory, of all partitions or of one.
func content(fs *disktest.FS, of string) (string, error) {
	s, err := open(fs)
	if err != nil {
		return "", err
	}
	defer s.Close(false)
	if s.State() != storage.LeftClean {
		return "", errors.New("not closed in order")
	}
	out, _, err := contentOf(s, fs, topics, of)
	return out, err
}

// contentOf is content of what lies in a store; ends has where the logs end.
func contentOf(s *storage.Store, fs *disktest.FS, topics map[string]func() log.Config, of string) (out string, ends map[string]batch.Offset, err error) {
	var all strings.Builder
	ends = map[string]batch.Offset{}
	add := func(name string, l *log.Log) {
		ends[name] = l.View().LogEnd()
		if of != "" && of != name {
			return
		}
		// What cannot be read is not the content that was written.
		text, err := logContent(l.View(), l.Producers())
		if err != nil {
			text = err.Error()
		}
		fmt.Fprintf(&all, "%s\n%s", name, text)
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		l, err := s.Log(topic, topicID(topic), 0, topics[topic]())
		if err != nil {
			return "", nil, err
		}
		add(topic, l)
	}
	future, err := s.ResumeMove("x", topicID("x"), 0)
	if err == nil && future == nil {
		err = errors.New("the move is given up")
	}
	if err != nil {
		return "", nil, err
	}
	add("future", future)
	names, err := fs.ReadDir(dir)
	if err != nil {
		return "", nil, err
	}
	for _, n := range names {
		if strings.HasSuffix(n.Name, "-stray") {
			return "", nil, errors.New("put aside")
		}
	}
	if s.ClusterID() != cluster {
		return "", nil, errors.New("of another cluster") // which the broker's metadata tell
	}
	return all.String(), ends, nil
}

// partitionOf says of which partition a file of a directory is, as contentOf has it; "" for one of the directory's own.
func partitionOf(name string) string {
	in, _, ok := strings.Cut(name[len(dir)+1:], "/")
	switch {
	case !ok:
		return ""
	case strings.HasSuffix(in, "-future"):
		return "future"
	}
	return in[:strings.LastIndexByte(in, '-')]
}

// kindOf is the kind of file that a name stands for, and whose it is where that is a cleaned log or one on its way.
func kindOf(name string) string {
	base := name[strings.LastIndexByte(name, '/')+1:]
	kind := base[strings.LastIndexByte(base, '.')+1:]
	switch kind {
	case "swap", "cleaned", "deleted":
		return base[strings.IndexByte(base, '.')+1:]
	}
	switch partitionOf(name) {
	case "u":
		return "cleaned " + kind
	case "future":
		return "future " + kind
	}
	return kind
}

// uncovered says whether a byte of a cleaned log's file is one that nothing tells of when it is another: there are holes
// between its offsets, so that the base offset of a batch, which its checksum does not cover, may be one of those; and what
// an aborted transaction has written is gone, so that where it began and left the log stable is known to its index alone.
func uncovered(name string, b []byte, at int) bool {
	base := name[strings.LastIndexByte(name, '/')+1:]
	_, suffix, _ := strings.Cut(strings.TrimSuffix(base, ".swap"), ".")
	switch suffix {
	case "": // leader-epoch-checkpoint: an epoch may begin anywhere among the offsets that are gone
		return base == "leader-epoch-checkpoint"
	case "log":
		for pos := 0; pos < len(b); {
			h, err := batch.ParseHeader(b[pos:])
			if err != nil {
				panic(err)
			}
			if at < pos+h.Size() {
				return at-pos < 8
			}
			pos += h.Size()
		}
	case "txnindex":
		return at%34 >= 10 && at%34 < 18 || at%34 >= 26
	}
	return false
}

// tree is every file of the directories.
func tree(t testing.TB, fs *disktest.FS) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	var walk func(d string)
	walk = func(d string) {
		entries, err := fs.ReadDir(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Dir {
				walk(d + "/" + e.Name)
			} else {
				out[d+"/"+e.Name] = fs.Bytes(d + "/" + e.Name)
			}
		}
	}
	walk(dir)
	walk(more)
	return out
}

// logContent is everything a broker reads of a log.
func logContent(v *log.View, producers any) (string, error) {
	var out strings.Builder
	// The high watermark is not among them: leaders bring it up again.
	fmt.Fprintln(&out, v.LogStart(), v.LogEnd(), v.Epochs().Entries(), producers)
	if n := v.LogEnd() - v.LogStart(); n > 10000 {
		return "", fmt.Errorf("%d offsets", n)
	}
	for at := v.LogStart(); at < v.LogEnd(); {
		sec, err := v.Read(at, v.LogEnd(), 1<<20, true)
		if err != nil {
			return "", err
		}
		p := make([]byte, sec.Len())
		_, err = sec.ReadAt(p, 0)
		sec.Release()
		if err != nil && err != io.EOF {
			return "", err
		}
		for len(p) > 0 {
			h, err := batch.ParseHeader(p)
			if err != nil {
				return "", err
			}
			if h.Size() > len(p) {
				return "", fmt.Errorf("a batch of %d bytes at %d, of which %d are read", h.Size(), h.BaseOffset, len(p))
			}
			if err := batch.CheckCRC(p[:h.Size()]); err != nil {
				return "", err
			}
			fmt.Fprintf(&out, "%d %x\n", h.BaseOffset, p[:h.Size()])
			at, p = h.NextOffset(), p[h.Size():]
		}
	}
	for o := v.LogStart(); o < v.LogEnd(); o++ {
		sec, err := v.Read(o, v.LogEnd(), 100, true)
		if err != nil {
			return "", err
		}
		p := make([]byte, batch.HeaderSize)
		_, err = sec.ReadAt(p, 0)
		sec.Release()
		if err != nil && err != io.EOF {
			return "", err
		}
		h, _ := batch.ParseHeader(p)
		aborted, err := v.Aborted(o, min(o+9, v.LogEnd()))
		fmt.Fprintln(&out, o, h.BaseOffset, aborted, err)
	}
	for ts := int64(1_700_000_000_000); ts < 1_700_000_002_000; ts += 5 {
		f, ok, err := v.OffsetForTime(ts, v.LogEnd())
		fmt.Fprintln(&out, ts, f, ok, err)
	}
	return out.String(), nil
}

// TestCorruptedBytes changes bytes of every kind of file of a directory that was closed in order: each change is found, or
// the start refuses the directory or puts the partition aside, or everything reads as before.
func TestCorruptedBytes(t *testing.T) {
	files := tree(t, written(t, true))
	restore := func() *disktest.FS {
		fs := disktest.New()
		for name, b := range files {
			fs.Put(name, b)
		}
		return fs
	}
	want := map[string]string{}
	for _, of := range []string{"", "t", "u", "future"} {
		var err error
		if want[of], err = content(restore(), of); err != nil || len(want[of]) < 1000 {
			t.Fatalf("of %q: %d bytes, %v", of, len(want[of]), err)
		}
	}
	chance := rand.New(rand.NewPCG(3, 4))
	kinds := map[string][3]int{} // found, refused, harmless
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(name, dir+"/") {
			continue
		}
		b, kind, of := files[name], kindOf(name), partitionOf(name)
		n := bitsOf(kind, of)
		for _, i := range chance.Perm(8 * len(b))[:min(n, 8*len(b))] {
			at, bit := i/8, i%8
			fs := restore()
			spoilt := bytes.Clone(b)
			spoilt[at] ^= 1 << bit
			fs.Put(name, spoilt)
			k := kinds[kind]
			if r := report(t, fs); len(r.All()) > 0 {
				k[0]++
			} else if got, err := content(fs, of); err != nil {
				k[1]++
			} else if got == want[of] || of == "u" && uncovered(name, b, at) {
				k[2]++
			} else {
				t.Errorf("%s: bit %d of byte %d (%q) is neither found nor harmless:\n%s", name, bit, at, b[max(at-10, 0):min(at+10, len(b))], firstDifference(got, want[of]))
			}
			kinds[kind] = k
		}
	}
	for _, kind := range []string{
		"log", "index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint", "metadata",
		"cleaned log", "cleaned index", "cleaned timeindex", "cleaned txnindex", "cleaned snapshot", "cleaned leader-epoch-checkpoint", "cleaned metadata",
		"future log", "future index", "future timeindex", "future snapshot", "future leader-epoch-checkpoint", "future metadata",
		"recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint", "properties", "kafka_cleanshutdown",
	} {
		if k := kinds[kind]; k[0]+k[1] == 0 {
			t.Errorf("%s: nothing was found: %v", kind, k)
		}
	}
	for _, kind := range []string{"log.deleted", "index.deleted", "timeindex.deleted", "txnindex.deleted"} {
		if k := kinds[kind]; k[0]+k[1] > 0 || k[2] == 0 {
			t.Errorf("%s, which a start removes: %v", kind, k)
		}
	}
	t.Logf("found, refused, harmless: %v", kinds)
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("%.200s\n%.200s", x[i], y[i])
		}
	}
	return fmt.Sprintf("%d lines, %d lines", len(x), len(y))
}

// TestPlantedUnsoundness makes directories that contradict themselves in ways that no checksum tells.
func TestPlantedUnsoundness(t *testing.T) {
	replaceIn := func(name, old, new string) func(*disktest.FS) {
		return func(fs *disktest.FS) {
			b := fs.Bytes(dir + "/" + name)
			if !bytes.Contains(b, []byte(old)) {
				panic(fmt.Sprintf("%s: %q", name, b))
			}
			fs.Put(dir+"/"+name, bytes.ReplaceAll(b, []byte(old), []byte(new)))
		}
	}
	end := report(t, written(t, true)).Partitions[0].End
	for what, c := range map[string]struct {
		clean bool
		spoil func(*disktest.FS)
		file  string
	}{
		"recovery point ahead of its log": {clean: false, spoil: func(fs *disktest.FS) {
			fs.Put(dir+"/recovery-point-offset-checkpoint", []byte("0\n1\nt 0 9999\n"))
		}, file: "recovery-point-offset-checkpoint"},
		"recovery point behind a log closed in order": {clean: true, spoil: replaceIn("recovery-point-offset-checkpoint", fmt.Sprint(end), fmt.Sprint(end-1)), file: "recovery-point-offset-checkpoint"},
		"snapshot newer than its log": {clean: true, spoil: func(fs *disktest.FS) {
			fs.Put(fmt.Sprintf("%s/t-0/%020d.snapshot", dir, end+1), producer.EncodeSnapshot(nil))
		}, file: ".snapshot"},
		"snapshot of another time": {clean: true, spoil: func(fs *disktest.FS) {
			fs.Put(fmt.Sprintf("%s/t-0/%020d.snapshot", dir, end), producer.EncodeSnapshot([]producer.Entry{{ProducerID: 10, LastSequence: 1, LastOffset: 3, OffsetDelta: 1, TxnFirstOffset: -1}}))
		}, file: ".snapshot"},
		"index without its log's batches": {clean: true, spoil: func(fs *disktest.FS) {
			name := fmt.Sprintf("%s/t-0/%020d.log", dir, 0)
			b := fs.Bytes(name)
			h, _ := batch.ParseHeader(b)
			fs.Put(name, b[:h.Size()])
		}, file: "index"},
		"time index that lacks its last entry": {clean: true, spoil: func(fs *disktest.FS) {
			name := fmt.Sprintf("%s/t-0/%020d.timeindex", dir, 0)
			b := fs.Bytes(name)
			fs.Put(name, b[:len(b)-12])
		}, file: ".timeindex"},
		"transaction index that lacks an entry": {clean: true, spoil: func(fs *disktest.FS) {
			entries, _ := fs.ReadDir(dir + "/t-0")
			for _, e := range entries {
				if strings.HasSuffix(e.Name, ".txnindex") {
					b := fs.Bytes(dir + "/t-0/" + e.Name)
					fs.Put(dir+"/t-0/"+e.Name, b[34:])
					return
				}
			}
			panic("no transaction index")
		}, file: ".txnindex"},
		"epochs of another log": {clean: true, spoil: replaceIn("t-0/leader-epoch-checkpoint", "\n3 ", "\n4 "), file: "leader-epoch-checkpoint"},
	} {
		t.Run(what, func(t *testing.T) {
			fs := written(t, c.clean)
			c.spoil(fs)
			r := report(t, fs)
			for _, f := range r.All() {
				if !f.Mended && strings.HasSuffix(f.File, c.file) {
					t.Log(f)
					return
				}
			}
			t.Errorf("not found in %s: %v", c.file, r.All())
		})
	}
}

// TestFutureIsNoUnsoundness stops a broker in order while a log is on its way to another directory: the checkpoints there
// name it by what it will be called.
func TestFutureIsNoUnsoundness(t *testing.T) {
	fs := disktest.New()
	s, err := storage.Open(storage.StoreOptions{Dirs: []string{dir, "/other"}, FS: fs, NodeID: 1, Now: func() time.Time { return time.UnixMilli(1_700_000_100_000) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WriteMeta(cluster, 1); err != nil {
		t.Fatal(err)
	}
	l, err := s.Log("t", [16]byte{1}, 0, smallConfig())
	if err != nil {
		t.Fatal(err)
	}
	to := "/other"
	if strings.HasPrefix(l.Dir(), to) {
		to = dir
	}
	f, err := s.BeginMove("t", [16]byte{1}, 0, to)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*log.Log{l, f} {
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(1_700_000_000_000, nil, []byte("v"))
		h, _ := batch.ParseHeader(u.Bytes())
		if _, err := x.Append(u.Bytes(), h, 1_700_000_000_000); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	if b := string(fs.Bytes(to + "/recovery-point-offset-checkpoint")); !strings.Contains(b, "t 0 1") {
		t.Fatalf("the checkpoint says %q", b)
	}
	r, err := check.Directory(fs, to, false)
	if err != nil || !r.Clean || !r.Sound() || len(r.Partitions) != 1 || r.Partitions[0].Records != 1 {
		t.Errorf("%v, %v", r, err)
	}
	// It is looked at like others.
	name := r.Partitions[0].Dir + "/00000000000000000000.log"
	b := bytes.Clone(fs.Bytes(name))
	b[len(b)-2] ^= 1
	fs.Put(name, b)
	if r, err = check.Directory(fs, to, false); err != nil || r.Sound() || !strings.HasSuffix(r.Partitions[0].Dir, "-future") {
		t.Errorf("spoilt: %v, %v", r.All(), err)
	}
}
