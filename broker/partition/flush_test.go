package partition

import (
	"testing"
	"testing/synctest"
	"time"

	"millrace/storage/disktest"
)

// TestFlushMs: what was appended is durable no later than flush.ms after, whoever looks at the clock.
func TestFlushMs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := flushing(t, disktest.New())
		defer p.Close()
		c := defaults()
		c.FlushMs = 10
		p.SetConfig(c)
		for round := range 3 {
			time.Sleep(time.Second)
			appendTo(t, p, 1, 1) // due at once: the last flush is long ago
			synctest.Wait()
			time.Sleep(3 * time.Millisecond)
			ap := appendTo(t, p, 1, 1)
			synctest.Wait()
			if flushed := p.Log().FlushedOffset(); flushed != ap.Base {
				t.Errorf("round %d: flushed to %d, 3 ms after a flush to %d", round, flushed, ap.Base)
			}
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			if flushed := p.Log().FlushedOffset(); flushed <= ap.Last {
				t.Errorf("round %d: flushed to %d, flush.ms after an append to %d", round, flushed, ap.Last)
			}
		}
		appendTo(t, p, 1, 1)
		p.Close()
		time.Sleep(time.Second) // a timer that outlives Close has nothing to do
	})
}

// A follower's log is flushed as a leader's is.
func TestFlushMsOfAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := flushing(t, disktest.New())
		defer p.Close()
		c := defaults()
		c.FlushMs = 10
		p.SetConfig(c)
		p.BecomeFollower(assign(2, 2, 2, []int32{2}, 1, 2))
		b, _ := records(3)
		if err := p.Replicate(Copied{LeaderEpoch: 2, From: 0, Records: b, HighWatermark: 3}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Millisecond)
		synctest.Wait()
		if flushed := p.Log().FlushedOffset(); flushed != 3 {
			t.Errorf("flushed to %d", flushed)
		}
	})
}
