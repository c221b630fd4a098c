package storage

import (
	"flag"
	"fmt"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/disktest"
	"millrace/storage/log"
	"millrace/storage/producer"
)

var partitions = flag.Int("partitions", 100, "how many partitions TestRecoveryCost recovers")

// unclean makes a disk with partitions that were killed: so many rolled segments of so many batches in each
// and a newest segment that was flushed once. It says how many bytes lie in the newest segments and in the rolled ones.
func unclean(t *testing.T, n, rolled, batches int) (fs *disktest.FS, tails, below int64) {
	t.Helper()
	fs = disktest.New()
	h := openTest(t, fs)
	now := time.Now().UnixMilli() // no producer is forgotten
	for i := range n {
		l, err := h.Log("t", [16]byte{1}, int32(i), log.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		add := func(seq int) {
			appendTo(t, l, batch.BuilderOptions{Producer: true, ProducerID: 7, BaseSequence: int32(seq)}, producer.Rules{}, now, nil, make([]byte, 200))
		}
		for seq := range rolled * batches {
			add(seq)
			if (seq+1)%batches == 0 {
				if err := l.Roll(); err != nil {
					t.Fatal(err)
				}
			}
		}
		// The recovery point lies in the newest segment, which is read from its start.
		before := l.Size()
		for seq := range 10 {
			add(rolled*batches + seq)
			if seq == 0 {
				if err := l.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		below, tails = below+before, tails+l.Size()-before
	}
	if err := h.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	fs.Kill()
	return fs, tails, below
}

func openTest(t *testing.T, fs *disktest.FS) *Store {
	t.Helper()
	s, err := Open(StoreOptions{Dirs: []string{"/a", "/b"}, FS: fs, NodeID: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// recoverAll opens all logs and says what it cost.
func recoverAll(t *testing.T, fs *disktest.FS, n int) (disktest.Counts, *Store) {
	t.Helper()
	s := openTest(t, fs)
	before := fs.Counts()
	var list []Wanted
	for i := range n {
		list = append(list, Wanted{Topic: "t", ID: [16]byte{1}, Partition: int32(i), Config: log.DefaultConfig})
	}
	s.OpenLogs(list, 2)
	for i := range n {
		l, err := s.LogAt(Where{}, "t", [16]byte{1}, int32(i), log.DefaultConfig())
		if err != nil || l.View().LogEnd() == 0 {
			t.Fatal(l, err)
		}
	}
	return fs.Counts().Since(before), s
}

// TestRecoveryCost: what a start after a crash asks of the disk depends on what lies behind the recovery points. Of a
// segment below it only the length is asked for, however long it is.
func TestRecoveryCost(t *testing.T) {
	n := *partitions
	cost := func(rolled, batches int) disktest.Counts {
		fs, tails, below := unclean(t, n, rolled, batches)
		c, s := recoverAll(t, fs, n)
		defer s.Close(false)
		for i := range n {
			if l, err := s.LogAt(Where{}, "t", [16]byte{1}, int32(i), log.DefaultConfig()); err != nil || len(l.Producers()) != 1 {
				t.Fatalf("partition %d does not know its producer: %v", i, err)
			}
		}
		t.Logf("%d partitions, %d bytes in the newest segments and %d below in %d segments each: %+v", n, tails, below, rolled, c)
		// Beside the tail a log reads its topic id, the snapshot at the segment's base, the epochs.
		if most := tails + int64(n)*200; c.Bytes > most {
			t.Errorf("%d bytes are read, %d lie in the newest segments", c.Bytes, tails)
		}
		if most := n * (22 + rolled); c.Calls() > most {
			t.Errorf("%d system calls, at most %d are to be made", c.Calls(), most)
		}
		return c
	}
	short, long, many := cost(2, 3), cost(2, 60), cost(12, 3)
	if short != long {
		t.Errorf("longer segments below the recovery point cost %+v instead of %+v", long, short)
	}
	many.Looks -= n * 10 // each segment is asked for its length
	if short != many {
		t.Errorf("more segments below the recovery point cost %+v instead of %+v", many, short)
	}
}

// TestRecoveryOfTenGigabytes: two thousand partitions with ten gigabytes below their recovery points, in segments that end
// there, and at most a megabyte each behind them. Of what is below not a byte is read: there is none, the files are holes.
func TestRecoveryOfTenGigabytes(t *testing.T) {
	const n, rolled = 2000, 5 << 20
	fs := disktest.New()
	h := openTest(t, fs)
	tails, below := int64(0), int64(0)
	large, at := make([]byte, 32<<10), time.Now().UnixMilli() // no producer is forgotten
	for i := range n {
		l, err := h.Log("t", [16]byte{1}, int32(i), log.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		// Every fourth has five idempotent producers, whom a snapshot at the end of the closed segment names.
		by := func(id int, seq int32) batch.BuilderOptions {
			if i%4 != 0 {
				return batch.BuilderOptions{}
			}
			return batch.BuilderOptions{Producer: true, ProducerID: batch.ProducerID(id), BaseSequence: seq}
		}
		for id := range 5 {
			appendTo(t, l, by(id, 0), producer.Rules{}, at, nil, nil)
		}
		if i%2 == 0 { // the two orders of flush and roll
			err = l.Flush()
		}
		if err == nil {
			err = l.Roll()
		}
		if err == nil && i%2 == 1 {
			err = l.Flush()
		}
		if err != nil || l.RecoveryPoint() != 5 {
			t.Fatal(l.RecoveryPoint(), err)
		}
		before := l.Size()
		tail := 2
		if i%100 == 0 {
			tail = 31 // close to a megabyte
		}
		for seq := range tail {
			value := large
			if tail == 2 {
				value = large[:300]
			}
			appendTo(t, l, by(0, int32(1+seq)), producer.Rules{}, at, nil, value)
		}
		tails += l.Size() - before
		f, err := fs.Open(l.Dir()+"/00000000000000000000.log", disk.Write)
		if err == nil {
			err = f.Truncate(rolled)
		}
		if err != nil {
			t.Fatal(err)
		}
		below += rolled
	}
	if err := h.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	fs.Kill()
	begun := time.Now()
	c, s := recoverAll(t, fs, n)
	t.Logf("%d bytes behind the recovery points and %d below: %+v in %v", tails, below, c, time.Since(begun))
	defer s.Close(false)
	for i := range n {
		l, err := s.LogAt(Where{}, "t", [16]byte{1}, int32(i), log.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		var known []int32
		for _, e := range l.Producers() {
			known = append(known, e.LastSequence)
		}
		tail := int32(l.View().LogEnd()) - 5
		if want := []int32{tail, 0, 0, 0, 0}; i%4 == 0 && !slices.Equal(known, want) || i%4 != 0 && known != nil || tail != 2 && tail != 31 {
			t.Fatalf("partition %d ends %d batches behind its closed segment, and knows producers with the sequences %v", i, tail, known)
		}
	}
	// A batch that reaches over the end of what is read at a time is read twice. A fourth reads a snapshot.
	if most := tails*5/4 + n*200 + n/4*(14+5*46); c.Bytes > most || c.Bytes < tails {
		t.Errorf("%d bytes are read, %d lie behind the recovery points", c.Bytes, tails)
	}
	if most := n*22 + 2*int(tails>>18); c.Calls() > most {
		t.Errorf("%d system calls, at most %d are to be made", c.Calls(), most)
	}
}

// TestUnboundedRecoveryIsSeen shows that the counting would notice: without the checkpoints every segment is read.
func TestUnboundedRecoveryIsSeen(t *testing.T) {
	fs, tails, below := unclean(t, 4, 3, 30)
	for _, dir := range []string{"/a", "/b"} {
		fs.Put(dir+"/"+recoveryPointFile, checkpoint{}.encode())
	}
	c, s := recoverAll(t, fs, 4)
	defer s.Close(false)
	if c.Bytes < tails+below {
		t.Errorf("%d bytes are read of %d", c.Bytes, tails+below)
	}
}

// TestLogsOpenSideBySide: the directories open their logs at the same time, and each as many as it is told. What is opened
// waits until that many are.
func TestLogsOpenSideBySide(t *testing.T) {
	const n, perDirectory = 20, 3
	fs, _, _ := unclean(t, n, 1, 1)
	s := openTest(t, fs)
	var list []Wanted
	for i := range n {
		list = append(list, Wanted{Topic: "t", ID: [16]byte{1}, Partition: int32(i), Config: log.DefaultConfig})
	}
	var mu sync.Mutex
	begun := map[string]map[string]bool{"/a": {}, "/b": {}} // the logs of each directory that wait, or have waited
	together := make(chan struct{})
	fs.Slow(func(name string) time.Duration {
		at := path.Dir(name)
		mu.Lock()
		logs := begun[path.Dir(at)]
		if logs == nil {
			mu.Unlock()
			return 0
		}
		logs[at] = true
		if len(begun["/a"]) == perDirectory && len(begun["/b"]) == perDirectory {
			select {
			case <-together:
			default:
				close(together)
			}
		}
		mu.Unlock()
		select {
		case <-together:
		case <-t.Context().Done():
		}
		return 0
	})
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		s.OpenLogs(list, perDirectory)
	}()
	select {
	case <-together:
	case <-time.After(20 * time.Second):
		mu.Lock()
		t.Errorf("opened side by side are %d logs of one directory and %d of the other, not %d of each", len(begun["/a"]), len(begun["/b"]), perDirectory)
		close(together)
		mu.Unlock()
	}
	<-opened
	fs.Slow(nil)
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	if len(begun["/a"])+len(begun["/b"]) != n {
		t.Errorf("%d logs were opened", len(begun["/a"])+len(begun["/b"]))
	}
	_, s = recoverAll(t, fs, n)
	defer s.Close(false)
	for i := range n {
		l, err := s.LogAt(Where{}, "t", [16]byte{1}, int32(i), log.DefaultConfig())
		if err != nil || l.View().LogEnd() != 11 {
			t.Fatal(fmt.Sprint(l.View().LogEnd()), err)
		}
	}
}

// BenchmarkRecovery reads what lies behind the recovery point of one log.
func BenchmarkRecovery(b *testing.B) {
	dir := b.TempDir() + "/t-0"
	l, _, err := log.Open(log.Options{Dir: dir, Topic: "t"})
	if err != nil {
		b.Fatal(err)
	}
	for range 4096 {
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(1, nil, make([]byte, 16<<10))
		h, err := batch.ParseHeader(u.Bytes())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := l.Append(u.Bytes(), h, 1); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(l.Size())
	l.Abandon()
	for b.Loop() {
		l, r, err := log.Open(log.Options{Dir: dir, Topic: "t"})
		if err != nil || r.Cut != nil {
			b.Fatal(r, err)
		}
		l.Abandon()
	}
}
