package oracle

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestParties: those of one kind are inside together, those of two never, and who waits
// comes in although more of the others do.
func TestParties(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p parties
		first, second := p.enter(changers), p.enter(changers)
		var asked, changed atomic.Bool
		go func() { defer p.enter(askers)(); asked.Store(true) }()
		synctest.Wait()
		go func() { defer p.enter(changers)(); changed.Store(true) }()
		synctest.Wait()
		first()
		synctest.Wait()
		if asked.Load() || changed.Load() {
			t.Fatal("one came in beside those of the other kind, or before one that waited longer")
		}
		second()
		synctest.Wait()
		if !asked.Load() || !changed.Load() {
			t.Fatal("not all came in")
		}
		var inside [2]atomic.Int32
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				kind := i % 2
				leave := p.enter(kind)
				inside[kind].Add(1)
				if inside[1-kind].Load() > 0 {
					t.Error("both kinds are inside")
				}
				inside[kind].Add(-1)
				leave()
			})
		}
		all.Wait()
	})
}
