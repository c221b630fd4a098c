package wire

import (
	"fmt"
	"sync"
)

// Produces of one connection that have come together are handled together: what they bring for one partition is one write
// then, and their replies go out as one.

// mostTogether is how many are handled at once. How many bytes of large ones is bounded by runBytes, and small ones lie in
// one buffer.
const mostTogether = 32

// arrival is a Produce that was read.
type arrival struct {
	frame []byte
	buf   *buffer // of its own, which a large one came in
	charge
}

// together is Produces that were read and are to be handled together, and what that takes. It is pooled: who waits has
// none.
type together struct {
	arrived  []arrival
	requests []*Request
	timings  []timing
	replies  []Reply
}

var togetherPool = sync.Pool{New: func() any { return new(together) }}

// arrive takes a Produce that was read, and handles it unless another has come whole.
func (c *connection) arrive(frame []byte, buf *buffer) error {
	if c.arrived == nil {
		c.arrived = togetherPool.Get().(*together)
	}
	g := c.arrived
	g.arrived = append(g.arrived, arrival{frame, buf, c.charge})
	another := !c.ahead && len(g.arrived) < mostTogether && c.mayWait(len(g.arrived)) && c.in.another()
	c.charge = charge{}
	if another {
		return nil
	}
	return c.handleArrived()
}

// mayWait says whether so many more replies may wait, and another.
func (c *connection) mayWait(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)+n < maxPending
}

// handleArrived handles the Produces that were read, in order. It is called before anything is waited for.
func (c *connection) handleArrived() error {
	g, current := c.arrived, c.charge
	if g == nil {
		return nil
	}
	c.arrived, c.charge = nil, charge{}
	if len(g.arrived) > 1 && c.in.several != nil {
		c.in.several()
	}
	defer func() {
		c.charge = current
		for i := range g.arrived {
			c.handled(&g.arrived[i])
		}
		clear(g.arrived)
		clear(g.requests)
		clear(g.replies)
		g.arrived, g.requests, g.timings, g.replies = g.arrived[:0], g.requests[:0], g.timings[:0], g.replies[:0]
		togetherPool.Put(g)
	}()
	for rest := g.arrived; len(rest) > 0; {
		n, err := c.handleTogether(g, rest)
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// handled gives back what a Produce has taken.
func (c *connection) handled(a *arrival) {
	a.giveBack(c.listener.budgets)
	if a.frame != nil {
		c.in.done(a.frame, a.buf)
		a.frame = nil
	}
}

// handleTogether handles some Produces and says how many: all, or those up to one after which the connection is to pause.
func (c *connection) handleTogether(g *together, arrived []arrival) (int, error) {
	g.requests, g.timings, g.replies = g.requests[:0], g.timings[:0], g.replies[:0]
	var failed error
	for i := range arrived {
		r, t, err := c.begin(arrived[i].frame)
		if failed = err; err != nil {
			break // those before it are answered
		}
		g.requests, g.timings, g.replies = append(g.requests, r), append(g.timings, t), append(g.replies, Reply{})
	}
	n := c.runTogether(g)
	var heavy int64
	var waiting []Pending
	for i := range n {
		if p, a := g.replies[i].Pending, &arrived[i]; p != nil && a.weighed > heavyRequest {
			heavy, a.weighed = heavy+a.weighed, 0
			waiting = append(waiting, p)
		}
		c.handled(&arrived[i])
		c.ran(g.requests[i], &g.replies[i], &g.timings[i])
	}
	if waiting != nil {
		defer c.holdWhilePending(heavy, waiting)
	}
	for i := range n {
		q := answered(g.requests[i], g.replies[i], g.timings[i])
		if err := c.reply(q, i < n-1); err != nil {
			for i++; i < n; i++ {
				q := answered(g.requests[i], g.replies[i], g.timings[i])
				c.drop(&q)
			}
			return n, err
		}
	}
	if n < len(g.requests) {
		return n, nil
	}
	return n, failed
}

// runTogether has the handler answer, and says how many it has.
func (c *connection) runTogether(g *together) int {
	if len(g.requests) == 0 {
		return 0
	}
	c.waits.Add(1)
	defer c.endWait()
	if g.timings[0].received != 0 {
		now := c.server.clock()
		for i := range g.timings {
			g.timings[i].started = now
		}
	}
	n := c.server.options.Handler.HandleTogether(c.handling, g.requests, g.replies)
	if n < 1 || n > len(g.requests) {
		panic(fmt.Sprintf("wire: the handler says that it has answered %d of %d requests", n, len(g.requests)))
	}
	c.server.counters.requests.Add(int64(n))
	return n
}
