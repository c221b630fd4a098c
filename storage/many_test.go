package storage

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/disktest"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// manyLogs is a disk with so many partitions of one record each, closed in order.
func manyLogs(t *testing.T, n int) *disktest.FS {
	t.Helper()
	fs := disktest.New()
	s := openTest(t, fs)
	for i := range n {
		l, err := s.Log("topic", [16]byte{1}, int32(i), log.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.AssignEpoch(0); err != nil {
			t.Fatal(err)
		}
		appendTo(t, l, batch.BuilderOptions{}, producer.Rules{}, 1, nil, nil)
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	return fs
}

// openMany opens them in a store that may have so many files open.
func openMany(t *testing.T, fs *disktest.FS, n, read, written int) (*Store, []*log.Log) {
	t.Helper()
	s, err := Open(StoreOptions{Dirs: []string{"/a", "/b"}, FS: fs, NodeID: 1, OpenFiles: read, WrittenFiles: written})
	if err != nil {
		t.Fatal(err)
	}
	logs := make([]*log.Log, n)
	for i := range logs {
		var err error
		if logs[i], err = s.Log("topic", [16]byte{1}, int32(i), log.DefaultConfig()); err != nil {
			t.Fatal(err)
		}
		if err := logs[i].AssignEpoch(1); err != nil {
			t.Fatal(err)
		}
		if logs[i].View().LogEnd() != 1 {
			t.Fatal(logs[i].View().LogEnd())
		}
	}
	return s, logs
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestManyPartitions: what an idle partition weighs in memory, and what a start asks of the disk for it after a stop in
// order: which files there are and how long the segment is, whose they are, the epochs, the producers as they were at the
// end, and whether the segment ends there. Of a small segment no index is opened.
func TestManyPartitions(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	fs := manyLogs(t, n)
	fs.Refuse(func(op, name string) error {
		if op == "open" && strings.HasSuffix(name, "index") {
			return errors.New("is opened at a start")
		}
		return nil
	})
	calls, before := fs.Counts(), heap()
	const mostRead, mostWritten = 100, 300 // files that may be open, far fewer than there are
	s, logs := openMany(t, fs, n, mostRead, mostWritten)
	weight := (heap() - before) / int64(n)
	c := fs.Counts().Since(calls)
	t.Logf("%d bytes for each, %+v", weight, c)
	if weight > 3500 {
		t.Errorf("an idle partition weighs %d bytes", weight)
	}
	if most := 4*n + 50; c.Opens > most || c.Reads > most || c.Looks > 2*n+50 || c.Changes > 50 || c.Bytes > int64(n)*200 {
		t.Errorf("%d partitions cost %+v", n, c)
	}
	// All are written to, and some then read in a segment that is not: as many files stay open as may, and no more.
	fs.Refuse(nil)
	for _, l := range logs {
		appendTo(t, l, batch.BuilderOptions{}, producer.Rules{}, 1, nil, nil)
		if _, written := s.files.Open(); written > mostWritten {
			t.Fatalf("%d files that are written to are open", written)
		}
	}
	for _, l := range logs[:2*mostRead] {
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		sec, err := l.View().Read(0, 1, 100, true)
		if err != nil {
			t.Fatal(err)
		}
		sec.Release()
		if read, _ := s.files.Open(); read > mostRead {
			t.Fatalf("%d files that are read are open", read)
		}
	}
	if read, written := s.files.Open(); read < mostRead/2 || written < mostWritten/2 {
		t.Errorf("only %d files that are read are open, and %d that are written to", read, written)
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
}

// TestFewDescriptors writes to many partitions where few files may be open, in one round after the other.
func TestFewDescriptors(t *testing.T) {
	const n, bound = 300, 16
	fs := disktest.New()
	s, err := Open(StoreOptions{Dirs: []string{"/a"}, FS: fs, NodeID: 1, OpenFiles: bound, WrittenFiles: bound})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for i := range n {
			l, err := s.Log("t", [16]byte{1}, int32(i), log.DefaultConfig())
			if err != nil {
				t.Fatal(err)
			}
			appendTo(t, l, batch.BuilderOptions{}, producer.Rules{}, 1, nil, nil)
		}
		if read, written := s.files.Open(); read > bound || written > bound {
			t.Fatalf("%d files that are read are open, %d that are written to", read, written)
		}
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	if read, written := s.files.Open(); read != 0 || written != 0 {
		t.Errorf("%d and %d files are open after a stop", read, written)
	}
}

func TestShareOfDescriptors(t *testing.T) {
	for limit, want := range map[int][2]int{256: {32, 128}, 1024: {128, 512}, 1 << 20: {1024, 1 << 19}, 1: {1, 1}} {
		if read, written := openFiles(limit); read != want[0] || written != want[1] {
			t.Errorf("of %d: %d and %d", limit, read, written)
		}
	}
	if disk.MaxOpen() < 64 {
		t.Errorf("the system lets a process open %d files", disk.MaxOpen())
	}
}
