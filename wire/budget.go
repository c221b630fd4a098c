package wire

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
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
// returns what it took. It waits until they are free or the context is done. If
// impatient is not nil it is called every now and then meanwhile, and ends the
// wait with its error.
func (b *budget) acquire(ctx context.Context, n int64, impatient func() error) (int64, error) {
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
	var tick <-chan time.Time
	if impatient != nil {
		t := time.NewTicker(impatience)
		defer t.Stop()
		tick = t.C
	}
	var err error
	for err == nil {
		select {
		case <-w.ready:
			return n, nil
		case <-tick:
			err = impatient()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
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
	return 0, err
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

// impatience is how often one that waits for a budget looks whether those who
// hold it deserve it.
const impatience = 500 * time.Millisecond

const (
	// tinyFrame is the length up to which a frame is read without a charge: it
	// takes no more than the buffer it is read into. Whatever else goes on,
	// heartbeats, commits and most fetches get through.
	tinyFrame = 4<<10 - 4
	// smallFrame is the length up to which a frame is paid from a reserve of its
	// own, so that it gets through while large Produce requests fill the budget.
	smallFrame = 64 << 10
	// smallReserve is the size of the reserve for small frames.
	smallReserve = 64 << 20
	// lightRequest is what a request may stand for without a charge.
	lightRequest = 64 << 10
	// neverHeavy is the length up to which no frame stands for much.
	neverHeavy = 1 << 10
	// heavyRequest is what a request may stand for and give it back while it
	// waits; one that holds more memory goes on being charged for it.
	heavyRequest = 4 << 20
	// answering is how many times the memory of a decoded request answering it
	// may take: an entry is looked up, answered by a larger one, and that one
	// encoded.
	answering = 4
	// answeringNumber is what answering an entry of a list of numbers takes beyond
	// that: four bytes name a partition, and its answer is a row as any other.
	answeringNumber = 128
	// answeringProduce is how many times that an entry of a Produce takes: it is short,
	// and the row of its answer long.
	answeringProduce = 2
)

// budgets are those of one kind of listener: the clients', or the reserved ones
// (between brokers, and of controllers), so that a flood of clients does not
// stop replication.
//
// main and small are charged for a frame, until its handler has returned: a small
// one its length before it is read, a large one as its bytes come, a step ahead
// of them. So that several which are half read do not wait for one another for
// ever, one at a time may go beyond the budget (ahead). decoded is charged, once
// a frame is read, what the request stands for when it is decoded and answered.
// Who holds some of that never waits for the others. One that is heavy and waits for
// something else goes on holding it, but not for long while others wait for it.
type budgets struct {
	main, small, decoded budget
	ahead                atomic.Bool
	hurrying             evictor
}

func (b *budgets) init(size int64) {
	b.main.size, b.decoded.size = size, size
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

func (b *budgets) inUse() int64 { return b.main.inUse() + b.small.inUse() + b.decoded.inUse() }

// weight is what a request stands for once it is decoded and answered, its frame
// apart. Of a Produce the decoder keeps slices; but a hundred megabytes can also
// announce millions of nameless topics, or of batches that are none.
func weight(h header, frame []byte) int64 {
	l := layoutOf(h.key, h.version)
	if l == nil {
		return 0
	}
	s := surveyor{walker: walker{b: frame[h.size:], flexible: flexible(h.key, h.version)}}
	s.value(l)
	n := answering*s.memory + answeringNumber*s.numbers
	if h.key == keyProduce {
		if n *= answeringProduce; n <= 2*int64(len(frame)) {
			return 0
		}
	}
	return n
}
