package wire

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
)

// queued is a reply in its place.
type queued struct {
	correlationID int32
	tags          bool
	reply         Reply
	timing        timing
	owed          int64 // what it was counted as by owe
}

// reply puts a reply where it belongs: out, into the queue, or, if another is replied
// to next, among the held ones.
func (c *connection) reply(q queued, hold bool) error {
	q.settle(c.server)
	if q.reply.Pending == nil && (q.reply.Close || q.reply.None) {
		q.reply.Body.Release()
		if q.timing.received != 0 {
			q.timing.queued = q.timing.ready
			c.observed([]timing{q.timing})
		}
		if q.reply.Throttle > 0 {
			c.mute(q.reply.Throttle)
		}
		if q.reply.Close {
			return errEnd
		}
		if c.held != nil && !hold && !c.flushHeld() {
			return errEnd
		}
		return nil
	}
	if q.reply.Pending != nil && !c.flushHeld() {
		c.drop(&q)
		return errEnd
	}
	if q.reply.Pending == nil {
		q.owed = c.owe(q.reply.Body)
	}
	queued, ok := c.enqueue(q)
	if !ok {
		return errEnd
	}
	if queued {
		return nil
	}
	if c.held == nil {
		c.held = getSender()
	}
	c.held.owed += q.owed
	c.held.note(&q.timing, c.server)
	err := c.held.add(&c.out, q.correlationID, q.tags, q.reply.Body)
	if err != nil {
		c.writeFailed(err)
		return errEnd
	}
	if q.reply.Throttle > 0 {
		c.mute(q.reply.Throttle)
	} else if hold && c.held.n < maxHeld {
		return nil
	}
	if !c.flushHeld() {
		return errEnd
	}
	return nil
}

// settle replaces a pending reply that is ready by what it became.
func (q *queued) settle(s *Server) {
	for q.reply.Pending != nil {
		select {
		case <-q.reply.Pending.Done():
			q.resolve(s)
		default:
			return
		}
	}
}

// resolve replaces a pending reply that is ready.
func (q *queued) resolve(s *Server) {
	q.reply = q.reply.Pending.Reply()
	if q.timing.received != 0 && q.reply.Pending == nil {
		q.timing.settled(s.clock(), &q.reply)
	}
}

// drop gives up a reply, also one that is not there yet.
func (c *connection) drop(q *queued) {
	if q.reply.Pending == nil {
		q.reply.Body.Release()
	}
	c.pay(q.owed)
	if q.timing.received != 0 {
		t := q.timing
		t.givenUp(c.server.clock())
		c.observed([]timing{t})
	}
}

// flushHeld writes the replies that were held back. It is false when the
// connection is broken.
func (c *connection) flushHeld() bool {
	if c.held == nil {
		return true
	}
	s := c.held
	c.held = nil
	err := s.flush(&c.out)
	c.observed(s.times)
	c.pay(s.owed)
	s.free()
	if err != nil {
		c.writeFailed(err)
	}
	return err == nil
}

// enqueue adds a reply behind those that wait; a reply that is ready is not
// queued if none do. ok is false when the connection is broken.
func (c *connection) enqueue(q queued) (done, ok bool) {
	c.mu.Lock()
	if c.broken {
		c.mu.Unlock()
		c.drop(&q)
		return false, false
	}
	if len(c.queue) == 0 && q.reply.Pending == nil {
		c.mu.Unlock()
		return false, true
	}
	c.queue = append(c.queue, q)
	start := !c.writing
	c.writing = true
	c.mu.Unlock()
	if start {
		go c.writeQueue()
	}
	return true, true
}

// waitPending waits until at most n replies are due. It is false when the
// connection is broken.
func (c *connection) waitPending(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) > n && !c.broken {
		c.changed.Wait()
	}
	return !c.broken
}

// waitWriter waits until the writing goroutine has ended.
func (c *connection) waitWriter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.writing {
		c.changed.Wait()
	}
}

// writeQueue writes queued replies as they become ready, in order, and ends when
// none is left.
func (c *connection) writeQueue() {
	for {
		c.mu.Lock()
		if c.broken && len(c.queue) > 0 {
			dropped := c.queue
			c.queue = nil // for good: nothing enters the queue of a broken connection
			c.mu.Unlock()
			for i := range dropped {
				c.drop(&dropped[i])
			}
			continue
		}
		if len(c.queue) == 0 {
			c.writing = false
			c.changed.Broadcast()
			c.mu.Unlock()
			return
		}
		head := c.queue[0]
		c.mu.Unlock()
		c.writeReady(head)
	}
}

// errGivenUp ends a wait for a reply: its listener was ended, and nobody waits any more.
var errGivenUp = errors.New("the reply was given up")

// ready waits for a reply. It is an error when the connection ends before, or those
// that wait on an ended listener have had their time. A drain waits for longer.
func (c *connection) ready(q *queued) error {
	c.waits.Add(1)
	defer c.endWait()
	handling := c.handling.Done()
	for q.reply.Pending != nil {
		select {
		case <-q.reply.Pending.Done():
			q.resolve(c.server)
		case <-c.Conn.ctx.Done():
			return context.Cause(c.Conn.ctx)
		case <-handling:
			if q.settle(c.server); q.reply.Pending != nil && c.ending.Load() && !c.server.draining.Load() {
				return errGivenUp
			}
			handling = nil
		}
	}
	if c.taking.watched() {
		c.taking.watch(c.server.clock()) // nothing could be taken until now
	}
	return nil
}

// writeReady waits for the reply at the head of the queue and writes it together
// with those behind it that are ready as well.
func (c *connection) writeReady(q queued) {
	pending := q.reply.Pending != nil
	if err := c.ready(&q); err == errGivenUp {
		c.giveUp()
		return
	} else if err != nil {
		c.writeFailed(err)
		return
	}
	s, taken := getSender(), 0
	defer func() {
		c.pay(s.owed) // before the next is owed
		c.dequeue(taken)
		c.observed(s.times)
		s.free()
	}()
	var mute time.Duration
	for {
		taken++
		if pending {
			q.owed = c.owe(q.reply.Body)
		}
		s.owed += q.owed
		s.note(&q.timing, c.server)
		if q.reply.Close {
			q.reply.Body.Release()
			if err := s.flush(&c.out); err != nil {
				c.writeFailed(err)
			} else {
				c.endByWriter()
			}
			return
		}
		mute = max(mute, q.reply.Throttle)
		if q.reply.None {
			q.reply.Body.Release()
		} else if err := s.add(&c.out, q.correlationID, q.tags, q.reply.Body); err != nil {
			c.writeFailed(err)
			return
		}
		c.mu.Lock()
		if taken == len(c.queue) {
			c.mu.Unlock()
			break
		}
		q = c.queue[taken]
		c.mu.Unlock()
		pending = q.reply.Pending != nil
		if q.settle(c.server); q.reply.Pending != nil {
			break
		}
	}
	if mute > 0 {
		c.mute(mute)
	}
	if err := s.flush(&c.out); err != nil {
		c.writeFailed(err)
	}
}

// dequeue removes the first n replies, which were written.
func (c *connection) dequeue(n int) {
	c.mu.Lock()
	left := copy(c.queue, c.queue[n:])
	clear(c.queue[left:])
	c.queue = c.queue[:left]
	c.changed.Broadcast()
	c.mu.Unlock()
}

// endByWriter ends the connection after a reply that said Close: what is queued
// behind it is not answered, and the reader, which may be blocked, is woken.
func (c *connection) endByWriter() {
	c.mu.Lock()
	c.broken = true
	c.changed.Broadcast()
	c.mu.Unlock()
	c.farewell(nil)
	c.shut(ErrClosed)
}

// giveUp ends the connection behind what was written: the rest of what is due is not
// answered. The reader, which reads no more, ends it so that the last reply arrives.
func (c *connection) giveUp() {
	c.mu.Lock()
	c.broken, c.gaveUp = true, true
	c.changed.Broadcast()
	c.mu.Unlock()
}

// settled waits until all that is due was written, or given up; it is false where the
// connection broke.
func (c *connection) settled() bool {
	if !c.flushHeld() {
		return false
	}
	if c.waitPending(0) {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gaveUp
}

// writeFailed notes that nothing more can be written and wakes the reader.
func (c *connection) writeFailed(err error) {
	c.mu.Lock()
	first := !c.broken
	c.broken = true
	c.changed.Broadcast()
	c.mu.Unlock()
	if first && (errors.Is(err, errShortSection) || !isGone(err)) {
		c.server.logLimited("closing a connection: a reply could not be written", zap.Error(err), c.field())
	}
	c.shut(ErrClosed)
}
