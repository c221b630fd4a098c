package wire

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Memory that a peer could keep by doing nothing is taken back when others need
// it: the budget of a frame whose rest does not come, the bytes of a reply that
// is not read. As long as nobody needs it a peer may be as slow as the idle
// time-out allows.

const (
	// stalled is how long nothing may come of a frame for which the budget is
	// held, while others wait for the budget.
	stalled = 2 * time.Second
	// untaken is how long nothing may be taken of a reply while replies fill more
	// memory than they may, and soonUntaken while they fill twice as much.
	untaken     = 500 * time.Millisecond
	soonUntaken = 100 * time.Millisecond
	// drainTaking is how long nothing may be taken of a reply while the server
	// drains.
	drainTaking = time.Second
	// smallReply is what a reply may hold without being counted.
	smallReply = 4 << 10
	// roomTries is how often a request looks whether there is room for its reply.
	roomTries = 60
	// evictPause is how often connections are looked through.
	evictPause = 50 * time.Millisecond
)

// Replies of largeReply and more make their kind of request a large one, for
// largeTime.
const (
	largeReply = 128 << 10
	largeTime  = time.Minute
)

// noteReply notes that a kind of request is one with large replies.
func (s *Server) noteReply(key int16, body *Body) {
	if body.Len() >= largeReply && key >= 0 && int(key) < len(s.lastLarge) && body.memory() >= largeReply {
		s.lastLarge[key].Store(max(s.clock(), 1))
	}
}

func (s *Server) isLarge(key int16) bool {
	if key < 0 || int(key) >= len(s.lastLarge) {
		return false
	}
	last := s.lastLarge[key].Load()
	return last != 0 && time.Duration(s.clock()-last) < largeTime
}

// evictor sees to it that one goroutine at a time looks through the connections,
// and not too often.
type evictor struct{ last atomic.Int64 }

func (e *evictor) due(now int64) bool {
	last := e.last.Load()
	return (last == 0 || now-last >= int64(evictPause)) && e.last.CompareAndSwap(last, max(now, 1))
}

// evictSenders cuts off whoever holds a budget for a frame that does not come.
// Those who wait for a budget call it.
func (s *Server) evictSenders() {
	now := s.clock()
	if !s.evicting[0].due(now) {
		return
	}
	var slow []*connection
	s.mu.Lock()
	for c := range s.conns {
		if c.sendsSlowly(now) {
			slow = append(slow, c)
		}
	}
	s.mu.Unlock()
	for _, c := range slow {
		s.logLimited("closing a connection: its request does not come, and others wait", c.field())
		c.shut(ErrClosed)
	}
}

func (c *connection) sendsSlowly(now int64) bool {
	since := c.frame.since.Load()
	if since == 0 || c.waits.Load() > 0 {
		return false
	}
	return time.Duration(now-max(since, c.lastActive.Load())) >= stalled || c.frame.slow(now)
}

// owe counts a reply that is to be written, as what it returns, and makes room if
// replies take too much.
func (c *connection) owe(body *Body) int64 {
	n := body.memory()
	if n <= smallReply {
		return 0
	}
	if c.owed.Add(n) == n {
		c.taking.watch(c.server.clock())
	}
	total, most := c.server.owed.Add(n), c.server.options.Budget
	if most > 0 && total > most {
		c.server.evictReaders(total - most)
	}
	return n
}

// pay forgets so much of what was owed, since it has been written or given up.
func (c *connection) pay(n int64) {
	if n == 0 {
		return
	}
	if c.owed.Add(-n) == 0 {
		c.taking.end()
	}
	c.server.owed.Add(-n)
}

// waitForRoom waits until unread replies no longer fill the memory, but not for
// long: then they belong to peers that read, slowly.
func (s *Server) waitForRoom(ctx context.Context) {
	for range roomTries {
		excess := s.owed.Load() - s.options.Budget
		if excess <= 0 {
			return
		}
		s.evictReaders(excess)
		if !s.sleep(ctx, evictPause) {
			return
		}
	}
}

// readsSlowly says that nothing was taken of a reply for so long, or too little since it is
// due, which a peer that takes a little now and then could draw out for ever.
func (c *connection) readsSlowly(now int64, patience time.Duration) bool {
	return c.waits.Load() == 0 && (time.Duration(now-c.lastActive.Load()) >= patience || c.taking.slow(now))
}

// evictReaders cuts off who does not read, the greediest first, until excess
// bytes of replies are free.
func (s *Server) evictReaders(excess int64) {
	now := s.clock()
	if !s.evicting[1].due(now) {
		return
	}
	patience := untaken
	if excess > s.options.Budget {
		patience = soonUntaken
	}
	type debtor struct {
		*connection
		owed int64
	}
	var idle []debtor
	s.mu.Lock()
	for c := range s.conns {
		if n := c.owed.Load(); n > 0 && c.readsSlowly(now, patience) {
			idle = append(idle, debtor{c, n})
		}
	}
	s.mu.Unlock()
	slices.SortFunc(idle, func(a, b debtor) int { return cmp.Or(cmp.Compare(b.owed, a.owed), cmp.Compare(a.ID, b.ID)) })
	for _, d := range idle {
		if excess <= 0 {
			return
		}
		excess -= d.owed
		s.logLimited("closing a connection: its replies are not read, and fill the memory", zap.Int64("bytes", d.owed), d.field())
		d.shut(ErrClosed)
	}
}

// cutUnread cuts off who takes nothing of what is due. It is for a server that
// drains: whoever is left then is waited for, or does not read.
func (s *Server) cutUnread() {
	now := s.clock()
	var idle []*connection
	s.mu.Lock()
	for c := range s.conns {
		if c.waits.Load() == 0 && time.Duration(now-c.lastActive.Load()) >= drainTaking {
			idle = append(idle, c)
		}
	}
	s.mu.Unlock()
	for _, c := range idle {
		c.shut(ErrClosed)
	}
}
