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

// Whether a lock is held can be asked by who may write nothing.
func TestFree(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	if err := Free(path); err != nil {
		t.Errorf("no file: %v", err)
	}
	l, err := OS{}.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Free(path); !errors.Is(err, ErrLocked) {
		t.Errorf("while it is held: %v", err)
	}
	l.Close()
	for range 2 {
		if err := Free(path); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
	if l, err = (OS{}).Lock(path); err != nil {
		t.Errorf("asking has kept it: %v", err)
	} else {
		l.Close()
	}
}
