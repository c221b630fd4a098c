package storage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"millrace/storage/batch"
	"millrace/storage/check"
	"millrace/storage/disk"
	"millrace/storage/disktest"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// handled is a directory in which somebody did something by hand while no broker used it.
type handled struct {
	t      *testing.T
	fs     *disktest.FS
	s      *Store
	logs   *observer.ObservedLogs
	config log.Config
}

const handledTopic = "t"

func (x *handled) ok(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *handled) name(base int, suffix string) string {
	return fmt.Sprintf("/data/t-0/%020d%s", base, suffix)
}

func (x *handled) open() {
	x.t.Helper()
	core, logs := observer.New(zap.WarnLevel)
	s, err := Open(StoreOptions{Dirs: []string{"/data"}, FS: x.fs, NodeID: 1, Logger: zap.New(core), Now: func() time.Time { return time.UnixMilli(1_700_000_000_000) }})
	x.ok(err)
	x.s, x.logs = s, logs
}

func (x *handled) log(at Where) *log.Log {
	x.t.Helper()
	l, err := x.s.LogAt(at, handledTopic, [16]byte{1}, 0, x.config)
	x.ok(err)
	return l
}

// filled is a directory with a log of 40 records in four segments, the first two of one leader epoch and the others of
// another, which begins at 3, closed in order or killed when 35 were flushed.
func filled(t *testing.T, clean bool) *handled {
	t.Helper()
	x := &handled{t: t, fs: disktest.New(), config: log.DefaultConfig()}
	x.config.IndexIntervalBytes = 100
	x.fs.Put("/data/lost+found", nil)
	x.open()
	x.ok(x.s.WriteMeta("cluster", 1))
	l := x.log(Where{New: true})
	for i := range 40 {
		if i%20 == 0 {
			x.ok(l.AssignEpoch(batch.LeaderEpoch(1 + i/20)))
		}
		if i > 0 && i%10 == 0 {
			x.ok(l.Roll())
		}
		appendTo(t, l, batch.BuilderOptions{Producer: true, ProducerID: 7, BaseSequence: int32(i)}, producer.Rules{}, 1_700_000_000_000+int64(i), nil, []byte("value"))
		l.SetHighWatermark(l.View().LogEnd())
		if i == 34 {
			x.ok(l.SetLogStart(3))
			x.ok(l.Flush())
			x.ok(x.s.Checkpoint())
		}
	}
	if clean {
		x.ok(x.s.Close(true))
	} else {
		x.fs.Kill()
	}
	return x
}

// reads are the offsets that a reader is given, from the log start on.
func (x *handled) reads(l *log.Log) (out []batch.Offset) {
	x.t.Helper()
	v := l.View()
	for at := v.LogStart(); at < v.LogEnd(); {
		s, err := v.Read(at, v.LogEnd(), 1, true)
		x.ok(err)
		if s.Len() == 0 {
			s.Release()
			break
		}
		b := make([]byte, s.Len())
		_, _ = s.ReadAt(b, 0)
		s.Release()
		x.ok(batch.CheckCRC(b))
		h, err := batch.ParseHeader(b)
		x.ok(err)
		out = append(out, h.BaseOffset)
		at = h.NextOffset()
	}
	return out
}

// span is offsets as reads gives them: those of each pair, from the first up to the second.
func span(pairs ...batch.Offset) (out []batch.Offset) {
	for i := 0; i < len(pairs); i += 2 {
		for o := pairs[i]; o < pairs[i+1]; o++ {
			out = append(out, o)
		}
	}
	return out
}

// TestDoneByHand removes what a broker needs while it is stopped. Each has an outcome that is told and goes no further: what
// is not there is not served, all else is, and the checker says what is missing.
func TestDoneByHand(t *testing.T) {
	remove := func(names ...string) func(*handled) {
		return func(x *handled) {
			for _, name := range names {
				if err := x.fs.Remove("/data/" + name); err != nil {
					panic(err)
				}
			}
		}
	}
	segment := func(base int, suffix string) string { return fmt.Sprintf("t-0/%020d%s", base, suffix) }
	checkpoints := []string{recoveryPointFile, logStartFile, highWatermarkFile}
	const epochs = "t-0/leader-epoch-checkpoint"
	for what, c := range map[string]struct {
		do    func(*handled)
		reads []batch.Offset // what is read afterwards, of one that was closed in order
		end   batch.Offset
		// said is what the start tells, and found what the checker does; mended says that the next start mends it.
		said, found string
		mended      bool
		killedSaid  string // what the start tells where it was killed; "-": nothing, "": the same
	}{
		"a segment in the middle": {do: remove(segment(10, ".log")), reads: span(3, 10, 20, 40), end: 40,
			said: "segment is missing: its indexes are removed", found: "there is no segment of that offset"},
		"the first segment": {do: remove(segment(0, ".log")), reads: span(10, 40), end: 40,
			said: "segment is missing: its indexes are removed", found: "begins at 3, the log at 10"},
		"the last segment": {do: remove(segment(30, ".log")), reads: span(3, 30), end: 30,
			said: "log ends below its recovery point", found: "says that t-0 was flushed to"},
		"the last segment and its indexes": {do: remove(segment(30, ".log"), segment(30, ".index"), segment(30, ".timeindex")), reads: span(3, 30), end: 30,
			said: "log ends below its recovery point", found: "says that t-0 was flushed to"},
		"the last batch": {do: func(x *handled) {
			b := x.fs.Bytes(x.name(30, ".log"))
			last := 0
			for at := 0; at < len(b); {
				h, err := batch.ParseHeader(b[at:])
				x.ok(err)
				last, at = at, at+h.Size()
			}
			x.fs.Put(x.name(30, ".log"), b[:last])
		}, reads: span(3, 39), end: 39,
			said: "log ends below its recovery point", found: "says that t-0 was flushed to", killedSaid: "-"},
		"bytes behind the last batch": {do: func(x *handled) {
			x.fs.Put(x.name(30, ".log"), append(x.fs.Bytes(x.name(30, ".log")), make([]byte, 99)...))
		},
			reads: span(3, 40), end: 40,
			said: "log was cut at the first bad batch", found: "which cuts 99 bytes", mended: true},
		"all segments": {do: remove(segment(0, ".log"), segment(10, ".log"), segment(20, ".log"), segment(30, ".log")), end: 3,
			said: "log ends below its recovery point", found: "it has no segment"},
		"the partition's directory": {do: func(x *handled) { x.ok(x.fs.RemoveAll("/data/t-0")) },
			said: "log is not there: it begins anew", found: "names t-0, which is not there"},
		"all checkpoints": {do: remove(checkpoints...), reads: span(0, 40), end: 40,
			said: "checkpoint is missing where a stop in order has left one", found: "recovery-point-offset-checkpoint: is not there", killedSaid: "-"},
		"the leader epochs": {do: remove(epochs), reads: span(3, 40), end: 40,
			said: "leader epochs are read from the segments", found: "is not there, and the batch is of epoch 1", mended: true},
		"the topic id": {do: remove("t-0/partition.metadata"), reads: span(3, 40), end: 40,
			said: "files were made anew or dropped", found: "partition.metadata: is not there", mended: true},
		"an index": {do: remove(segment(10, ".index")), reads: span(3, 40), end: 40,
			said: "files were made anew or dropped", found: "an index is missing", mended: true},
		"the producers": {do: remove(segment(40, ".snapshot"), segment(30, ".snapshot"), segment(20, ".snapshot"), segment(10, ".snapshot")), reads: span(3, 40), end: 40, said: "-"},
	} {
		for _, clean := range []bool{true, false} {
			t.Run(what+map[bool]string{true: ", closed in order", false: ", killed"}[clean], func(t *testing.T) {
				x := filled(t, clean)
				if what == "the producers" && !clean {
					x.fs.Put(x.name(40, ".snapshot"), nil) // it has none
				}
				c.do(x)
				r, err := check.Directory(x.fs, "/data", false)
				x.ok(err)
				found := ""
				for _, f := range r.All() {
					if strings.Contains(f.String(), c.found) && (f.Mended == c.mended || !clean) {
						found = f.String()
					}
				}
				if (c.found != "" && clean && found == "") || clean && r.Sound() != (c.mended || c.found == "") {
					t.Errorf("the checker does not say %q: %v", c.found, r.All())
				}
				x.open()
				l := x.log(Where{Directory: x.s.DirectoryID()})
				if got := x.reads(l); fmt.Sprint(got) != fmt.Sprint(c.reads) || l.View().LogEnd() != c.end {
					t.Errorf("of a log that ends at %d is read %v, want %v of one that ends at %d", l.View().LogEnd(), got, c.reads, c.end)
				}
				said := c.said
				if !clean && c.killedSaid != "" {
					said = c.killedSaid
				}
				if n := x.logs.FilterMessage(said).Len(); said != "-" && n != 1 {
					t.Errorf("%q is said %d times: %v", said, n, x.logs.All())
				}
				if said == "-" && x.logs.Len() > 0 {
					t.Errorf("it says %v", x.logs.All())
				}
				want := "[{1 3} {2 20}]"
				switch {
				case len(c.reads) == 0:
					want = "[]"
				case c.reads[0] != 3:
					want = fmt.Sprintf("[{1 %d} {2 20}]", c.reads[0])
				}
				if got := fmt.Sprint(l.View().Epochs().Entries()); got != want && what != "all checkpoints" {
					t.Errorf("leader epochs %s, want %s", got, want)
				}
				// It goes on, behind all that is left, and the next start has nothing to say.
				end := l.View().LogEnd()
				x.ok(l.AssignEpoch(3))
				appendTo(t, l, batch.BuilderOptions{}, producer.Rules{}, 1_700_000_001_000, nil, []byte("goes on"))
				x.ok(x.s.Close(true))
				x.open()
				l = x.log(Where{Directory: x.s.DirectoryID()})
				if got := x.reads(l); fmt.Sprint(got) != fmt.Sprint(append(c.reads, end)) || x.logs.Len() > 0 {
					t.Errorf("the next start reads %v and says %v", got, x.logs.All())
				}
				x.ok(x.s.Close(true))
				// Of records that are back, behind a log start that was forgotten, the leader epoch is not known any more.
				if r, err := check.Directory(x.fs, "/data", false); err != nil || !r.Sound() || len(r.All()) > 0 && what != "all checkpoints" {
					t.Errorf("behind it the checker says %v, %v", r.All(), err)
				}
			})
		}
	}
}

// TestRestoredCopy opens a directory that was copied while it was stopped, so that all files are of today: it is what it was.
func TestRestoredCopy(t *testing.T) {
	root := t.TempDir()
	dirs := []string{filepath.Join(root, "first"), filepath.Join(root, "copy")}
	seen := func(dir string, fill bool) string {
		core, logs := observer.New(zap.WarnLevel)
		s, err := Open(StoreOptions{Dirs: []string{dir}, NodeID: 1, Logger: zap.New(core)})
		must(0, err)
		must(0, s.WriteMeta("cluster", 1))
		c := log.DefaultConfig()
		c.RetentionMs = 3600 * 1000
		l := must(s.Log("t", [16]byte{1}, 0, c))
		now := time.Now().UnixMilli()
		if fill {
			must(0, l.AssignEpoch(1))
			for i := range 10 {
				if i == 5 {
					must(0, l.Roll())
				}
				appendTo(t, l, batch.BuilderOptions{Producer: true, ProducerID: 7, BaseSequence: int32(i)}, producer.Rules{}, now-1000+int64(i), []byte("k"), []byte("v"))
			}
			l.SetHighWatermark(10)
			must(0, l.SetLogStart(2))
		}
		out := fmt.Sprint(l.View().LogStart(), l.View().LogEnd(), l.View().HighWatermark(), l.View().Epochs().Entries(), l.View().Segments(), l.Producers(), s.State(), s.DirectoryID(), s.ClusterID())
		for at := l.View().LogStart(); at < l.View().LogEnd(); at++ {
			sec := must(l.View().Read(at, l.View().LogEnd(), 1, true))
			b := make([]byte, sec.Len())
			_, _ = sec.ReadAt(b, 0)
			sec.Release()
			out += fmt.Sprintf("\n%x", b)
		}
		if logs.Len() > 0 {
			t.Errorf("%s: the start says %v", dir, logs.All())
		}
		must(0, s.Close(true))
		return out
	}
	seen(dirs[0], true)
	old := time.Now().Add(-48 * time.Hour)
	must(0, filepath.WalkDir(dirs[0], func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			err = os.Chtimes(path, old, old)
		}
		return err
	}))
	must(0, os.CopyFS(dirs[1], os.DirFS(dirs[0])))
	a, b := seen(dirs[0], false), seen(dirs[1], false)
	if a != b || !strings.Contains(a, LeftClean.String()) {
		t.Errorf("the copy is read as\n%s\nand not as\n%s", b, a)
	}
	if r, err := check.Directory(disk.OS{}, dirs[1], false); err != nil || len(r.All()) > 0 {
		t.Errorf("the copy: %v, %v", r.All(), err)
	}
	// Both at once would be one directory twice.
	if s, err := Open(StoreOptions{Dirs: dirs, NodeID: 1}); err == nil {
		_ = s.Close(false)
		t.Error("a directory and its copy are opened as two")
	}
}
