package wire

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// charge is what a request has been charged for.
type charge struct {
	budget  *budget // what its frame was charged to
	charged int64
	ahead   bool  // the frame goes beyond the budget
	weighed int64 // for being decoded
}

// admit waits until a request may be read: until everything before it has been
// answered (or, for a Produce, until few enough wait), the connection is not
// muted, and the budget has room for it.
func (c *connection) admit(size int, key int16) error {
	limit := 0
	if key == keyProduce {
		limit = maxPending - 1
	}
	if !c.waitPending(limit) {
		return errEnd
	}
	if err := c.waitUnmuted(); err != nil {
		return err
	}
	if size <= tinyFrame {
		return nil
	}
	c.budget = c.listener.budgets.forFrame(size)
	if c.budget == &c.listener.budgets.main {
		return nil // it pays as it comes
	}
	return c.grow(size)
}

// grow charges the frame being read for n bytes in all, which may be fewer than it
// was charged for.
func (c *connection) grow(n int) error {
	if c.ahead || c.budget.size <= 0 {
		return nil
	}
	if less := c.charged - int64(n); less > 0 {
		c.budget.release(less)
		c.charged -= less
		return nil
	}
	got, ok := c.budget.tryAcquire(int64(n) - c.charged)
	if !ok {
		c.frame.end() // not the peer's time
		err := c.handleArrived()
		if err != nil {
			return err
		}
		c.in.shrink()
		got, err = c.wait(c.budget, int64(n)-c.charged, func() error {
			c.server.evictSenders()
			c.server.hurryHolders(c.listener.budgets)
			if c.charged > 0 && c.listener.budgets.ahead.CompareAndSwap(false, true) {
				return errAhead
			}
			return nil
		})
		if errors.Is(err, errAhead) {
			c.ahead, err = true, nil
		}
		if err != nil {
			return err
		}
	}
	c.charged += got
	if !c.frame.watched() {
		c.frame.watch(c.server.clock())
	}
	return nil
}

// wait waits for a budget that has not enough. It may take long; what came before
// does not wait for it.
func (c *connection) wait(b *budget, n int64, impatient func() error) (int64, error) {
	if err := c.handleArrived(); err != nil {
		return 0, err
	}
	c.waits.Add(1)
	defer c.endWait()
	got, err := b.acquire(c.handling, n, impatient)
	if err != nil && !errors.Is(err, errAhead) {
		err = errEnd
	}
	return got, err
}

// weigh charges a request that was read for what it stands for.
func (c *connection) weigh(frame []byte) error {
	b := &c.listener.budgets.decoded
	if b.size <= 0 || len(frame) <= neverHeavy {
		return nil
	}
	h, err := parseHeader(frame)
	if err != nil || !c.server.options.Handler.Serves(c.Listener, h.key, h.version) {
		return nil // it will be refused for that
	}
	n := weight(h, frame)
	if n <= lightRequest {
		return nil
	}
	if n > b.size && !c.listener.reserved {
		return &requestError{h: h, err: fmt.Errorf("%w: %d bytes in memory, the limit is %d", errTooHeavy, n, b.size)}
	}
	got, ok := b.tryAcquire(n)
	if !ok {
		got, err = c.wait(b, n, func() error {
			c.server.hurryHolders(c.listener.budgets)
			return nil
		})
		if err != nil {
			return err
		}
	}
	c.weighed = got
	return nil
}

// giveBack returns the current request's part of the budgets.
func (c *connection) giveBack() {
	c.charge.giveBack(c.listener.budgets)
}

func (p *charge) giveBack(b *budgets) {
	if p.charged > 0 {
		p.budget.release(p.charged)
		p.charged = 0
	}
	if p.ahead {
		p.ahead = false
		b.ahead.Store(false)
	}
	if p.weighed > 0 {
		b.decoded.release(p.weighed)
		p.weighed = 0
	}
}

// lend returns it while the request waits, unless that is heavy: the memory is
// still taken.
func (c *connection) lend() {
	c.leaveGate()
	if c.weighed <= heavyRequest {
		c.giveBack()
		return
	}
	if h := c.holds.Load(); h != nil {
		h.since.CompareAndSwap(0, max(c.server.clock(), 1))
	}
}

// holdTime is how long a heavy request may wait while others wait for what it was
// charged. It is longer than the waits that clients ask for; but one may also ask
// for weeks.
const holdTime = 30 * time.Second

// holding is a heavy request that is being handled.
type holding struct {
	since atomic.Int64            // since when it waits, of server.clock; 0: it does not
	end   context.CancelCauseFunc // has it answer
}

// errHurried is the cause of a cancelled handler context when the request has
// waited for long and others need what it holds.
var errHurried = errors.New("others need the memory that the request takes")

// answerable is the context that a request is handled with; done ends it.
func (c *connection) answerable() (ctx context.Context, done func()) {
	if c.weighed <= heavyRequest {
		return c.handling, func() {}
	}
	ctx, cancel := context.WithCancelCause(c.handling)
	c.holds.Store(&holding{end: cancel})
	return ctx, func() {
		c.holds.Store(nil)
		cancel(nil)
	}
}

// holdWhilePending holds what heavy Produces were charged until their replies have
// been written, and their connection with them: the rows of an answer that waits take
// as much as those that were asked. Who is told to hurry and does not take the answer
// either is cut off.
func (c *connection) holdWhilePending(weighed int64, waiting []Pending) {
	h, told := &holding{}, false
	h.end = func(cause error) {
		if told {
			c.shut(ErrClosed)
			return
		}
		told = true
		for _, p := range waiting {
			if p, ok := p.(interface{ Hurry() }); ok {
				p.Hurry()
			}
		}
		h.since.Store(max(c.server.clock(), 1))
	}
	h.since.Store(max(c.server.clock(), 1))
	c.holds.Store(h)
	c.waitPending(0)
	c.holds.Store(nil)
	c.listener.budgets.decoded.release(weighed)
}

// hurryHolders has heavy requests that have waited for long, or whose peer sends no
// more, answer with what they have. Those who wait for a budget of theirs call it.
func (s *Server) hurryHolders(b *budgets) {
	now := s.clock()
	if !b.hurrying.due(now) {
		return
	}
	var waiting []*connection
	s.mu.Lock()
	for c := range s.conns {
		if h := c.holds.Load(); h != nil && c.listener.budgets == b && h.since.Load() != 0 {
			waiting = append(waiting, c)
		}
	}
	s.mu.Unlock()
	for _, c := range waiting {
		h := c.holds.Load()
		if h == nil {
			continue
		}
		since := h.since.Load()
		if since == 0 {
			continue
		}
		long := time.Duration(now-since) >= holdTime
		if !long {
			long, _ = peerOf(c.nc) // it may not be there any more
		}
		if long && h.since.CompareAndSwap(since, 0) {
			s.logLimited("a request that waits is answered early: others need the memory that it takes", c.field())
			h.end(errHurried)
		}
	}
}

func (c *connection) endWait() {
	c.touch()
	c.waits.Add(-1)
}
