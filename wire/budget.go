package wire

import (
	"context"
	"sync"
)

// A budget limits how many bytes requests in progress may stand for. Waiters
// are served in the order they came, so that a large request is not starved by
// small ones.
type budget struct {
	mu      sync.Mutex
	size    int64 // <= 0: no limit
	used    int64
	waiting []*budgetWaiter
}

type budgetWaiter struct {
	n     int64
	ready chan struct{}
}

// tryAcquire is acquire without waiting.
func (b *budget) tryAcquire(n int64) (int64, bool) {
	if b.size <= 0 || n <= 0 {
		return 0, true
	}
	n = min(n, b.size)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 || b.used+n > b.size {
		return 0, false
	}
	b.used += n
	return n, true
}

// acquire takes n bytes, or the whole budget if n is more than that, and
// returns what it took. It waits until they are free or the context is done.
func (b *budget) acquire(ctx context.Context, n int64) (int64, error) {
	if b.size <= 0 || n <= 0 {
		return 0, nil
	}
	n = min(n, b.size)
	b.mu.Lock()
	if len(b.waiting) == 0 && b.used+n <= b.size {
		b.used += n
		b.mu.Unlock()
		return n, nil
	}
	w := &budgetWaiter{n: n, ready: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return n, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.ready:
		// It was granted meanwhile; the caller gives up all the same.
		b.used -= n
	default:
		for i := range b.waiting {
			if b.waiting[i] == w {
				b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
				break
			}
		}
	}
	b.grant()
	return 0, context.Cause(ctx)
}

func (b *budget) release(n int64) {
	if n <= 0 {
		return
	}
	b.mu.Lock()
	b.used -= n
	if b.used < 0 {
		panic("wire: more bytes were given back to the request budget than were taken")
	}
	b.grant()
	b.mu.Unlock()
}

// grant serves waiters from the front. The lock is held.
func (b *budget) grant() {
	for len(b.waiting) > 0 && b.used+b.waiting[0].n <= b.size {
		w := b.waiting[0]
		b.waiting[0] = nil
		b.waiting = b.waiting[1:]
		b.used += w.n
		close(w.ready)
	}
}

func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

const (
	// smallFrame is the length up to which a frame is paid from a reserve of its
	// own, so that heartbeats and fetches get through while large Produce
	// requests fill the budget.
	smallFrame = 64 << 10
	// amplification is how many times its length a decoded request may take
	// (24 was measured, for Metadata v0), Produce apart.
	amplification = 32
	// smallReserve is the size of the reserve for small frames.
	smallReserve = 64 << 20
)

// budgets are those of one kind of listener: the clients', or the reserved ones
// (between brokers, and of controllers), so that a flood of clients does not
// stop replication.
type budgets struct {
	main, small budget
}

func (b *budgets) init(size int64) {
	b.main.size = size
	if size > 0 {
		b.small.size = smallReserve
	}
}

func (b *budgets) forFrame(size int) *budget {
	if size <= smallFrame {
		return &b.small
	}
	return &b.main
}

func (b *budgets) inUse() int64 { return b.main.inUse() + b.small.inUse() }

// cost is what a frame stands for.
func cost(key int16, size int) int64 {
	if key == keyProduce {
		return int64(size)
	}
	return amplification * int64(size)
}
