package partition

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disktest"
	"millrace/storage/log"
)

// TestWaitingForADescriptorHoldsNoLock: an append for which no file can be opened waits a moment for one, and the
// partition goes on meanwhile.
func TestWaitingForADescriptorHoldsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := disktest.New()
		p := flushing(t, fs)
		defer func() { p.Close() }()
		refuse := func() {
			fs.Refuse(func(op, name string) error {
				if op == "open" || op == "create" || op == "syncdir" {
					return &os.PathError{Op: op, Path: name, Err: syscall.EMFILE}
				}
				return nil
			})
		}
		for _, back := range []bool{true, false} {
			refuse()
			b, h := records(1)
			done := make(chan error, 1)
			go func() {
				_, err := p.Append(b, h, AppendOptions{LeaderEpoch: AnyEpoch})
				done <- err
			}()
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			if !p.mu.TryLock() {
				t.Fatal("the lock is held while the append waits")
			}
			p.mu.Unlock()
			select {
			case err := <-done:
				t.Fatalf("it does not wait: %v", err)
			default:
			}
			if back {
				fs.Refuse(nil)
			}
			if err := <-done; back && err != nil || !back && !errors.Is(err, log.ErrNoDescriptor) {
				t.Errorf("with descriptors %v: %v", back, err)
			}
			fs.Refuse(nil)
			p.Close()
			fs = disktest.New()
			p = flushing(t, fs)
		}
	})
}

// TestPatienceIsSharedByPartitions: who appends to many of them waits for descriptors as long as for one.
func TestPatienceIsSharedByPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*Partition
		for range 10 {
			fs := disktest.New()
			all = append(all, flushing(t, fs))
			fs.Refuse(func(op, name string) error {
				if op == "open" || op == "create" || op == "syncdir" {
					return &os.PathError{Op: op, Path: name, Err: syscall.EMFILE}
				}
				return nil
			})
		}
		begun, tried := time.Now(), 0
		for _, p := range all {
			e := make([]Entry, 1)
			e[0].Batch, e[0].Header = records(1)
			e[0].Options.LeaderEpoch = AnyEpoch
			if p.AppendTogether(e, &tried); !errors.Is(e[0].Err, log.ErrNoDescriptor) {
				t.Errorf("%v", e[0].Err)
			}
			p.Close()
		}
		if took := time.Since(begun); took < 50*time.Millisecond || took > 200*time.Millisecond {
			t.Errorf("ten partitions waited %v", took)
		}
	})
}

// TestBatchesBehindOneWithoutADescriptor: what is appended together with a batch for which no file can be opened stays
// behind it.
func TestBatchesBehindOneWithoutADescriptor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := disktest.New()
		p := flushing(t, fs)
		defer p.Close()
		one, _ := records(1)
		c := defaults()
		c.SegmentBytes = int32(2 * len(one))
		p.SetConfig(c)
		entries := make([]Entry, 4)
		for i := range entries {
			entries[i].Batch, entries[i].Header = records(1)
			entries[i].Options.LeaderEpoch = AnyEpoch
		}
		fs.Refuse(func(op, name string) error {
			if op == "create" && name == "/data/t-0/00000000000000000002.log" {
				return &os.PathError{Op: op, Path: name, Err: syscall.EMFILE}
			}
			return nil
		})
		done := make(chan struct{})
		go func() {
			p.AppendTogether(entries, new(int))
			close(done)
		}()
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if end := p.Log().View().LogEnd(); end != 2 {
			t.Errorf("the log ends at %d, while its next segment waits for a descriptor", end)
		}
		fs.Refuse(nil)
		<-done
		for i, e := range entries {
			if e.Err != nil || int(e.Appended.Base) != i {
				t.Errorf("batch %d is at %d: %v", i, e.Appended.Base, e.Err)
			}
		}
	})
}

// TestReplicatedInPart: what stands in the log before a batch for which no file can be opened counts as what was copied
// whole.
func TestReplicatedInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := disktest.New()
		p := flushing(t, fs)
		defer p.Close()
		b, _ := records(1)
		c := defaults()
		c.FlushMs, c.SegmentBytes = 10, int32(len(b))
		p.SetConfig(c)
		p.BecomeFollower(assign(2, 2, 2, []int32{2}, 1, 2))
		two := append(b, b...)
		batch.Patch(two[len(two)/2:], 1, 2)
		fs.Refuse(func(op, name string) error {
			if op == "create" && name == "/data/t-0/00000000000000000001.log" {
				return &os.PathError{Op: op, Path: name, Err: syscall.EMFILE}
			}
			return nil
		})
		w := NewWaiter()
		var at Watching
		p.Watch(&at, w, OnLogEnd)
		defer p.Unwatch(&at)
		if err := p.Replicate(Copied{LeaderEpoch: 2, From: 0, Records: two}); !errors.Is(err, log.ErrNoDescriptor) {
			t.Fatal(err)
		}
		select {
		case <-w.C():
		default:
			t.Error("nobody is told")
		}
		time.Sleep(11 * time.Millisecond)
		synctest.Wait()
		if flushed := p.Log().FlushedOffset(); flushed != 1 || p.counted != 1 {
			t.Errorf("flushed to %d, %d count", flushed, p.counted)
		}
		fs.Refuse(nil)
		if err := p.Replicate(Copied{LeaderEpoch: 2, From: 1, Records: two[len(two)/2:]}); err != nil {
			t.Fatal(err)
		}
	})
}
