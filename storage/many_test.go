package storage

import (
	"runtime"
	"testing"

	"millrace/storage/batch"
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
		appendTo(t, l, batch.BuilderOptions{}, producer.Rules{}, 1, nil, nil)
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	return fs
}

func openMany(t *testing.T, fs *disktest.FS, n int) (*Store, []*log.Log) {
	t.Helper()
	s := openTest(t, fs)
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
// order.
func TestManyPartitions(t *testing.T) {
	const n = 2000
	fs := manyLogs(t, n)
	calls, before := fs.Counts(), heap()
	s, logs := openMany(t, fs, n)
	weight := (heap() - before) / n
	c := fs.Counts().Since(calls)
	runtime.KeepAlive(logs)
	t.Logf("%d bytes for each, %+v", weight, c)
	if weight > 4096 {
		t.Errorf("an idle partition weighs %d bytes", weight)
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
}
