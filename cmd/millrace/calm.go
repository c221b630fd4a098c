package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// calmLook is how often it is looked whether the process has come to rest.
	calmLook = 5 * time.Second
	// calmAllocs is what a process at rest allocates between two looks at most.
	calmAllocs = 1 << 20
	// calmHeap is a heap that is not worth the trouble.
	calmHeap = 16 << 20
	// calmPause is how many looks are left out after one that brought little: two
	// minutes, after which Go would look for garbage by itself.
	calmPause = int(2 * time.Minute / calmLook)
)

// calm gives the heap's spare memory back to the system once the process has come to
// rest. Go looks for garbage when some has been made, or every two minutes, empties
// its pools only at the second look, and returns pages slowly: what a burst of large
// requests left would stay for minutes. Under load nothing changes.
type calm struct {
	samples [3]metrics.Sample
	allocs  uint64 // until the last look
	held    uint64 // by the heap, at the last look
	worked  bool   // not at rest since memory was last given back
	pause   int
}

func newCalm() *calm {
	c := &calm{}
	for i, name := range []string{"/gc/heap/allocs:bytes", "/memory/classes/heap/objects:bytes", "/memory/classes/heap/free:bytes"} {
		c.samples[i].Name = name
	}
	c.read()
	return c
}

func (c *calm) read() (allocated uint64) {
	metrics.Read(c.samples[:])
	allocated = c.samples[0].Value.Uint64() - c.allocs
	c.allocs += allocated
	c.held = c.samples[1].Value.Uint64() + c.samples[2].Value.Uint64() - uint64(len(spareHeap))
	return allocated
}

// look says whether the process has come to rest and its heap may be worth a look.
func (c *calm) look() bool {
	if c.pause > 0 {
		c.pause--
	}
	if c.read() > calmAllocs {
		c.worked = true
		return false
	}
	return c.worked && c.pause == 0 && c.held > calmHeap
}

// giveBack collects twice: what lies in pools is garbage only then.
func (c *calm) giveBack() {
	before := c.held
	runtime.GC()
	debug.FreeOSMemory()
	c.read()
	c.worked = false
	if c.held > before/4*3 {
		c.pause = calmPause
	}
}

// run looks until the context is done.
func (c *calm) run(ctx context.Context) {
	t := time.NewTicker(calmLook)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if c.look() {
				c.giveBack()
			}
		case <-ctx.Done():
			return
		}
	}
}
