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
	"millrace/storage/codec"
	"millrace/storage/disktest"
	"millrace/storage/log"
	"millrace/storage/producer"
)

const (
	dir     = "/data"
	cluster = "aaaaaaaaaaaaaaaaaaaaaA"
)

var bits = flag.Int("bits", 10, "how many bits of each file TestCorruptedBytes changes")

func open(fs *disktest.FS) (*storage.Store, error) {
	return storage.Open(storage.StoreOptions{Dirs: []string{dir}, FS: fs, NodeID: 1, Now: func() time.Time { return time.UnixMilli(1_700_000_100_000) }})
}

func smallConfig() log.Config {
	c := log.DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes, c.IndexBytes = 4000, 150, 4096
	return c
}

// written makes a data directory with a partition in several segments, of plain and compressed batches, producers,
// transactions that ended either way, leader epochs and a log start, and closes it in order or kills it.
func written(t testing.TB, clean bool) *disktest.FS {
	t.Helper()
	fs := made(t, clean)
	if !clean {
		fs.Kill()
	}
	return fs
}

// made is written before its end, where that is not in order.
func made(t testing.TB, clean bool) *disktest.FS {
	t.Helper()
	fs := disktest.New()
	s, err := open(fs)
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
	ts := int64(1_700_000_000_000)
	add := func(o batch.BuilderOptions, r producer.Rules, key, value []byte) {
		t.Helper()
		ts += 7
		u := batch.NewBuilder(o)
		u.Add(ts, key, value)
		if !o.Control {
			u.Add(ts-3, nil, bytes.Repeat([]byte("y"), 20), batch.RecordHeader{Key: "h", Value: []byte("v")})
		}
		h, err := batch.ParseHeader(u.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.AppendWith(u.Bytes(), h, ts, r); err != nil {
			t.Fatal(err)
		}
		l.SetHighWatermark(l.View().LogEnd())
	}
	seq := map[batch.ProducerID]int32{}
	for i := range 60 {
		if i%20 == 0 {
			if err := l.AssignEpoch(batch.LeaderEpoch(i/20 + 1)); err != nil {
				t.Fatal(err)
			}
		}
		add(batch.BuilderOptions{Codec: codec.Kind(i % 5)}, producer.Rules{}, []byte("k"), bytes.Repeat([]byte("x"), 30+i))
		id := batch.ProducerID(10 + i%3)
		add(batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: seq[id]}, producer.Rules{}, nil, []byte("p"))
		seq[id] += 2
		if id = 20; i%4 == 0 {
			add(batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: seq[id], Transactional: true}, producer.Rules{Verified: true}, nil, []byte("txn"))
			seq[id] += 2
		}
		if i%4 == 2 {
			kind := batch.Abort
			if i%8 == 2 {
				kind = batch.Commit
			}
			k, v := batch.Marker{Type: kind, CoordinatorEpoch: 1}.KeyAndValue()
			add(batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: -1, Transactional: true, Control: true}, producer.Rules{Origin: producer.Coordinator}, k, v)
		}
		if i == 40 {
			if err := errors.Join(l.Flush(), s.Checkpoint()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := l.View().Segments(); n < 4 {
		t.Fatalf("%d segments", n)
	}
	if err := l.SetLogStart(5); err != nil {
		t.Fatal(err)
	}
	if !clean {
		return fs
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	return fs
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
	if p := r.Partitions; len(p) != 1 || p[0].Segments < 4 || p[0].Batches < 120 || p[0].Records <= p[0].Batches || p[0].Start != 5 {
		t.Errorf("%+v", p)
	}
	for seed := range uint64(8) {
		fs := written(t, false)
		if seed > 0 {
			fs = made(t, false)
			fs.Crash(rand.New(rand.NewPCG(seed, 1)))
		}
		if r := report(t, fs); r.Clean || !r.Sound() {
			t.Errorf("not closed in order, seed %d: %v", seed, r.All())
		}
	}
}

// content is everything a broker reads of a directory.
func content(fs *disktest.FS) (string, error) {
	s, err := open(fs)
	if err != nil {
		return "", err
	}
	defer s.Close(false)
	if s.State() != storage.LeftClean {
		return "", errors.New("not closed in order")
	}
	l, err := s.Log("t", [16]byte{1}, 0, smallConfig())
	if err != nil {
		return "", err
	}
	names, err := fs.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, n := range names {
		if strings.HasSuffix(n.Name, "-stray") {
			return "", errors.New("put aside")
		}
	}
	if s.ClusterID() != cluster {
		return "", errors.New("of another cluster") // which the broker's metadata tell
	}
	return logContent(l.View(), l.Producers())
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
	base := written(t, true)
	files := map[string][]byte{}
	for _, d := range []string{dir, dir + "/t-0"} {
		entries, err := base.ReadDir(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !e.Dir {
				files[d+"/"+e.Name] = base.Bytes(d + "/" + e.Name)
			}
		}
	}
	restore := func() *disktest.FS {
		fs := disktest.New()
		for name, b := range files {
			fs.Put(name, b)
		}
		return fs
	}
	want, err := content(restore())
	if err != nil {
		t.Fatal(err)
	}
	chance := rand.New(rand.NewPCG(3, 4))
	kinds := map[string][3]int{} // found, refused, harmless
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b := files[name]
		kind := name[strings.LastIndexAny(name, "./")+1:]
		n := *bits
		if testing.Short() {
			n = 6
		}
		for _, i := range chance.Perm(8 * len(b))[:min(n, 8*len(b))] {
			at, bit := i/8, i%8
			fs := restore()
			spoilt := bytes.Clone(b)
			spoilt[at] ^= 1 << bit
			fs.Put(name, spoilt)
			k := kinds[kind]
			if r := report(t, fs); len(r.All()) > 0 {
				k[0]++
			} else if got, err := content(fs); err != nil {
				k[1]++
			} else if got == want {
				k[2]++
			} else {
				t.Errorf("%s: bit %d of byte %d (%q) is neither found nor harmless:\n%s", name, bit, at, b[max(at-10, 0):min(at+10, len(b))], firstDifference(got, want))
			}
			kinds[kind] = k
		}
	}
	for _, kind := range []string{"log", "index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint", "recovery-point-offset-checkpoint", "metadata", "properties", "kafka_cleanshutdown"} {
		if k := kinds[kind]; k[0]+k[1] == 0 {
			t.Errorf("%s: nothing was found: %v", kind, k)
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
