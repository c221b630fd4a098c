package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disktest"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// house is a store on a test disk and what a test knows of it.
type house struct {
	t     *testing.T
	fs    *disktest.FS
	dirs  []string
	clock time.Time
	s     *Store
}

func newHouse(t *testing.T, dirs ...string) *house {
	if len(dirs) == 0 {
		dirs = []string{"/data"}
	}
	h := &house{t: t, fs: disktest.New(), dirs: dirs, clock: time.UnixMilli(1_700_000_000_000)}
	for _, d := range dirs {
		h.fs.Put(d+"/lost+found", nil) // the directory is there, durably
	}
	h.open()
	h.ok(h.s.WriteMeta("cluster", 1))
	return h
}

func (h *house) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) try(node int32) (*Store, error) {
	return Open(StoreOptions{Dirs: h.dirs, FS: h.fs, NodeID: node, Now: func() time.Time { return h.clock }})
}

func (h *house) open() {
	h.t.Helper()
	s, err := h.try(1)
	h.ok(err)
	h.s = s
}

func (h *house) log(topic string, id byte, partition int32) *log.Log {
	h.t.Helper()
	l, err := h.s.Log(topic, [16]byte{id}, partition, log.DefaultConfig())
	h.ok(err)
	return l
}

// add appends n batches of one record and makes the high watermark follow.
func (h *house) add(l *log.Log, n int) {
	h.t.Helper()
	for range n {
		appendTo(h.t, l, batch.BuilderOptions{}, producer.Rules{}, h.clock.UnixMilli(), nil, []byte("value"))
	}
	l.SetHighWatermark(l.View().LogEnd())
}

func (h *house) end(l *log.Log, want batch.Offset) {
	h.t.Helper()
	if got := l.View().LogEnd(); got != want {
		h.t.Fatalf("log end %d, want %d", got, want)
	}
}

func (h *house) exists(name string) bool {
	_, err := h.fs.Stat(name)
	return err == nil
}

// TestCleanStopReadsEnds: a start after a stop in order reads of segments no more than where the newest one ends: with one read,
// of the bytes behind the newest entry of its index, however long it is.
func TestCleanStopReadsEnds(t *testing.T) {
	h := newHouse(t)
	c := log.DefaultConfig()
	ends := [5]batch.Offset{0, 3, 300, 600, 3000}
	for p := range int32(5) {
		l := h.log("t", 1, p)
		h.ok(l.AssignEpoch(0)) // as one that is led has
		h.add(l, int(ends[p]))
		if p == 3 {
			h.ok(l.Roll())
			h.add(l, 3)
			ends[p] += 3
		}
	}
	h.s.SetBrokerEpoch(42)
	h.ok(h.s.Close(true))
	if h.exists("/data/.lock") || !h.exists("/data/.kafka_cleanshutdown") {
		t.Fatal("a clean stop leaves the wrong files")
	}
	opened := map[string]int{}
	h.fs.Refuse(func(op, name string) error {
		if op == "open" {
			opened[name]++
		}
		return nil
	})
	h.open()
	if h.exists("/data/.kafka_cleanshutdown") {
		t.Fatal("the mark of a clean stop stays")
	}
	if h.s.PreviousBrokerEpoch() != 42 || h.s.ClusterID() != "cluster" {
		t.Fatal(h.s.PreviousBrokerEpoch(), h.s.ClusterID())
	}
	for p, end := range ends {
		before := h.fs.Counts()
		l := h.log("t", 1, int32(p))
		h.end(l, end)
		if l.View().HighWatermark() != end {
			t.Fatalf("high watermark %d", l.View().HighWatermark())
		}
		// Beside the segment: the topic id, the epochs, the producers, and of an index its last entry.
		got := h.fs.Counts().Since(before)
		if reads := 6; got.Reads > reads || got.Bytes > int64(c.IndexIntervalBytes)+600 {
			t.Errorf("partition %d costs %+v", p, got)
		}
	}
	for name, n := range opened {
		if suffix := name[strings.LastIndexByte(name, '.')+1:]; n > 1 || suffix == "timeindex" || suffix == "log" && strings.HasPrefix(name, "/data/t-3/") && !strings.HasSuffix(name, "600.log") {
			t.Errorf("%s is opened %d times", name, n)
		}
	}
	if len(opened) < 10 {
		t.Errorf("opened: %v", opened)
	}
}

func TestCrashRecoversAll(t *testing.T) {
	for seed := range uint64(30) {
		h := newHouse(t)
		a, b := h.log("a", 1, 0), h.log("b", 2, 0)
		h.add(a, 10)
		h.ok(a.Flush())
		h.add(a, 5)
		h.add(b, 7)
		h.ok(h.s.Checkpoint())
		h.fs.Crash(rand.New(rand.NewPCG(seed, 1)))
		h.open()
		if got := h.log("a", 1, 0).View().LogEnd(); got < 10 || got > 15 {
			t.Fatalf("seed %d: a ends at %d", seed, got)
		}
		if h.s.PreviousBrokerEpoch() != -1 {
			t.Fatal("a crash has a broker epoch")
		}
		h.log("b", 2, 0)
		h.ok(h.s.Close(true))
		h.open()
		h.log("a", 1, 0)
	}
}

func TestCheckpointsFollow(t *testing.T) {
	h := newHouse(t)
	l := h.log("t", 1, 0)
	h.log("empty", 2, 0)
	h.add(l, 3)
	file := func(name string) string { return string(h.fs.Bytes("/data/" + name)) }
	h.ok(h.s.Housekeep(h.clock.Add(4 * time.Second)))
	if got := file(highWatermarkFile); got != "" {
		t.Fatalf("written too early: %q", got)
	}
	h.ok(h.s.Housekeep(h.clock.Add(5 * time.Second)))
	if got := file(highWatermarkFile); got != "0\n1\nt 0 3\n" {
		t.Fatalf("high watermarks: %q", got)
	}
	if got := file(recoveryPointFile); got != "" {
		t.Fatalf("written too early: %q", got)
	}
	h.ok(l.Flush())
	h.ok(h.s.Housekeep(h.clock.Add(60 * time.Second)))
	if got := file(recoveryPointFile); got != "0\n1\nt 0 3\n" {
		t.Fatalf("recovery points: %q", got)
	}
	if got := file(logStartFile); got != "" {
		t.Fatalf("log starts without any: %q", got)
	}
	before := h.fs.Ops()
	h.ok(h.s.Housekeep(h.clock.Add(120 * time.Second)))
	if h.fs.Ops() != before {
		t.Fatal("checkpoints are written although nothing changed")
	}
	h.ok(l.SetLogStart(2))
	h.ok(h.s.Housekeep(h.clock.Add(180 * time.Second)))
	if got := file(logStartFile); got != "0\n1\nt 0 2\n" {
		t.Fatalf("log starts: %q", got)
	}
	// A truncation below the recovery point lowers it first.
	h.ok(l.Truncate(2))
	if got := file(recoveryPointFile); got != "0\n1\nt 0 2\n" {
		t.Fatalf("recovery points after a truncation: %q", got)
	}
}

func TestUnreadableCheckpoint(t *testing.T) {
	h := newHouse(t)
	l := h.log("t", 1, 0)
	h.add(l, 3)
	h.ok(h.s.Checkpoint())
	h.fs.Kill()
	h.fs.Put("/data/"+highWatermarkFile, []byte("rubbish"))
	h.open()
	l = h.log("t", 1, 0)
	h.end(l, 3)
	if l.View().HighWatermark() != 0 {
		t.Fatal(l.View().HighWatermark())
	}
	h.fs.Kill()
	h.fs.Put("/data/"+recoveryPointFile, []byte("rubbish"))
	if _, err := h.try(1); !errors.Is(err, ErrNoDirectory) {
		t.Fatalf("without recovery points what was flushed is not known: %v", err)
	}
}

// BenchmarkStart opens a directory with a thousand partitions after a clean stop.
func BenchmarkStart(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "data")
	const partitions = 1000
	start := func() *Store {
		s, err := Open(StoreOptions{Dirs: []string{dir}, NodeID: 1})
		if err != nil {
			b.Fatal(err)
		}
		for p := range int32(partitions) {
			l, err := s.Log("topic", [16]byte{1}, p, log.DefaultConfig())
			if err != nil {
				b.Fatal(err)
			}
			if err := l.AssignEpoch(1); err != nil {
				b.Fatal(err)
			}
		}
		return s
	}
	s := start()
	if err := s.WriteMeta("c", 1); err != nil {
		b.Fatal(err)
	}
	for p := range int32(partitions) {
		l, _ := s.Log("topic", [16]byte{1}, p, log.DefaultConfig())
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(1, nil, []byte(fmt.Sprint(p)))
		h, _ := batch.ParseHeader(u.Bytes())
		if _, err := l.Append(u.Bytes(), h, 1); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(true); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s := start()
		if err := s.Close(true); err != nil {
			b.Fatal(err)
		}
	}
}
