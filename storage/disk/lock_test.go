package disk

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// A clean stop takes the lock's file away while it holds the lock. Whoever opened
// that file a moment before may not take it for the lock: the next one makes a new
// file, and there would be two holders.
func TestLockOutlivesItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	var holders, taken atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 3000 {
				l, err := OS{}.Lock(path)
				if errors.Is(err, ErrLocked) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				taken.Add(1)
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				holders.Add(-1) // without its file it is given back
				if err := (OS{}).Remove(path); err != nil {
					t.Error(err)
				}
				l.Close()
			}
		})
	}
	wg.Wait()
	if taken.Load() < 100 {
		t.Errorf("taken %d times", taken.Load())
	}
}
