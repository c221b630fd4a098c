package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// maxPending is how many Produces of a connection may wait for their replies.
	maxPending = 32
	// linger is how long, and lingerBytes how much, is read and dropped after the
	// last reply of a connection that the server ends. Closing a socket with
	// unread bytes in it resets the connection, and the reset could overtake that
	// reply.
	linger      = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

var (
	// ErrDraining is the cause of a cancelled handler context while the server
	// drains.
	ErrDraining = errors.New("the server is draining")
	// ErrClosed is the cause of a cancelled context of a closed connection.
	ErrClosed = errors.New("the connection is closed")
	errIdle   = fmt.Errorf("%w: idle for too long", ErrClosed)
)

// connection is one accepted connection. Its reading goroutine (serve) reads,
// handles, and writes the replies that are ready. Only while Produces are
// pending is there a second goroutine (writeQueue), which then does all writing.
//
// Lock order: server.mu is never held while connection.mu is taken, nor the
// other way round.
type connection struct {
	Conn
	server   *Server
	listener *listener
	nc       net.Conn
	in       frameReader
	out      output

	handling       context.Context // cancelled by drain and close
	cancelHandling context.CancelCauseFunc
	cancelConn     context.CancelCauseFunc

	lastActive atomic.Int64 // of server.clock
	ending     atomic.Bool  // no further request is read: the listener has gone
	// waits counts what the connection waits for that is not the peer's doing:
	// such a connection is not idle.
	waits atomic.Int32

	// Of the reading goroutine:
	clientID *string // the last one seen
	held     *sender // replies to be written together with the next
	budget   *budget // what the current frame was charged to
	charged  int64
	ahead    bool  // the current frame goes beyond the budget
	gate     gate  // what the current request holds a place of, or nil
	weighed  int64 // what the current request was charged for being decoded

	// Of both, for those who evict:
	frameSince atomic.Int64 // when a charged frame began to be read, of server.clock; 0: none is
	frameBytes atomic.Int64 // how much of it has come
	owed       atomic.Int64 // bytes of replies in memory, being written

	mu       sync.Mutex
	changed  sync.Cond
	queue    []queued // replies due, the first of them pending; in order
	writing  bool     // writeQueue runs
	broken   bool     // nothing can be written any more
	unmuteAt time.Time
}

// queued is a reply in its place.
type queued struct {
	correlationID int32
	tags          bool
	reply         Reply
	timing        timing
}

// errEnd ends a connection without a line in the log.
var errEnd = errors.New("end of the connection")

func (c *connection) serve() {
	err := c.readRequests()
	if isCut(err) {
		c.shut(ErrClosed) // nobody is there to be answered
	}
	// What is due before the end is still written.
	c.giveBack()
	c.leaveGate()
	if c.flushHeld() && c.waitPending(0) {
		c.farewell(err)
	}
	c.report(err)
	c.shut(ErrClosed)
	c.in.close()
	c.waitWriter()
	if c.held != nil {
		c.held.free()
	}
	c.paid()
	c.server.forget(c)
}

// readRequests reads and handles requests until the connection is to end.
func (c *connection) readRequests() error {
	for {
		if c.server.draining.Load() || c.ending.Load() {
			return errEnd
		}
		size, key, err := c.in.next()
		if err != nil {
			return err
		}
		if err := c.admit(size, key); err != nil {
			return err
		}
		frame, buf, err := c.in.body(key == keyProduce)
		c.frameSince.Store(0)
		if err != nil {
			return err
		}
		if err = c.weigh(frame); err == nil {
			err = c.handle(key, frame, buf)
		} else if key == keyProduce {
			c.in.done(frame, buf)
		}
		if err != nil {
			return err
		}
	}
}

// admit waits until a request may be read: until everything before it has been
// answered (or, for a Produce, until few enough wait), the connection is not
// muted, and the budget has room for it.
func (c *connection) admit(size int, key int16) error {
	limit := 0
	if key == keyProduce {
		limit = maxPending - 1
	} else if !c.flushHeld() {
		return errEnd
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

// errAhead ends a wait for the budget: the frame goes on without.
var errAhead = errors.New("ahead of the budget")

// grow charges the frame being read for n bytes in all.
func (c *connection) grow(n int) error {
	if c.ahead || c.budget.size <= 0 {
		return nil
	}
	got, ok := c.budget.tryAcquire(int64(n) - c.charged)
	if !ok {
		var err error
		c.frameSince.Store(0) // not the peer's time
		got, err = c.wait(c.budget, int64(n)-c.charged, func() error {
			c.server.evictSenders()
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
	if c.frameSince.Load() == 0 {
		c.frameBytes.Store(0)
		c.frameSince.Store(max(c.server.clock(), 1))
	}
	return nil
}

// wait waits for a budget that has not enough. It may take long; earlier replies
// do not wait for it.
func (c *connection) wait(b *budget, n int64, impatient func() error) (int64, error) {
	if !c.flushHeld() {
		return 0, errEnd
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
		if got, err = c.wait(b, n, nil); err != nil {
			return err
		}
	}
	c.weighed = got
	return nil
}

// giveBack returns the current request's part of the budgets.
func (c *connection) giveBack() {
	if c.charged > 0 {
		c.budget.release(c.charged)
		c.charged = 0
	}
	if c.ahead {
		c.ahead = false
		c.listener.budgets.ahead.Store(false)
	}
	if c.weighed > 0 {
		c.listener.budgets.decoded.release(c.weighed)
		c.weighed = 0
	}
}

// lend returns it while the request waits, unless that is heavy: the memory is
// still taken.
func (c *connection) lend() {
	c.leaveGate()
	if c.weighed <= heavyRequest {
		c.giveBack()
	}
}

func (c *connection) endWait() {
	c.touch()
	c.waits.Add(-1)
}

func (c *connection) touch() { c.lastActive.Store(c.server.clock()) }

// enterGate waits until few enough requests run. A decoded request may be small
// and its answer take many megabytes while it is made: a thousand made at once
// would be more than any budget. Produce and Fetch are not made of memory, and
// who waits has left the gate, so that those inside need no more than the
// processors and the disk. Requests whose kind has lately had large answers have
// a gate of their own, and wait inside while replies that nobody reads fill the
// memory; they hold up nobody but each other.
func (c *connection) enterGate(key int16) error {
	s := c.server
	if key == keyProduce || key == keyFetch || c.listener.reserved {
		return nil
	}
	g, large := s.light, s.isLarge(key)
	if large {
		g = s.large
	}
	select {
	case g <- struct{}{}:
	default:
		if !c.flushHeld() {
			return errEnd
		}
		c.waits.Add(1)
		defer c.endWait()
		select {
		case g <- struct{}{}:
		case <-c.handling.Done():
			return errEnd
		}
	}
	c.gate = g
	if most := s.options.Budget; large && most > 0 && s.owed.Load() > most {
		c.waits.Add(1)
		defer c.endWait()
		s.waitForRoom(c.handling)
	}
	return nil
}

func (c *connection) leaveGate() {
	if c.gate != nil {
		c.gate.leave()
		c.gate = nil
	}
}

// received notes that bytes have come.
func (c *connection) received(n int) {
	c.touch()
	if c.frameSince.Load() != 0 {
		c.frameBytes.Add(int64(n))
	}
}

// waitUnmuted waits until a throttled connection may go on.
func (c *connection) waitUnmuted() error {
	c.mu.Lock()
	until := c.unmuteAt
	c.mu.Unlock()
	if until.IsZero() {
		return nil
	}
	wait := time.Until(until)
	if wait <= 0 {
		return nil
	}
	if !c.flushHeld() {
		return errEnd
	}
	c.waits.Add(1)
	defer c.endWait()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.handling.Done():
		return errEnd
	}
}

func (c *connection) mute(d time.Duration) {
	until := time.Now().Add(d)
	c.mu.Lock()
	if until.After(c.unmuteAt) {
		c.unmuteAt = until
	}
	c.mu.Unlock()
}

// handle handles one frame. buf is the buffer of its own that a large Produce
// came in.
func (c *connection) handle(key int16, frame []byte, buf *buffer) error {
	q, err := c.answer(frame)
	c.giveBack()
	if key == keyProduce {
		c.in.done(frame, buf)
	}
	if err != nil {
		return err
	}
	return c.reply(q, key == keyProduce)
}

// answer parses the header and has the handler answer.
func (c *connection) answer(frame []byte) (queued, error) {
	h, err := parseHeader(frame)
	if err != nil {
		return queued{}, &requestError{h: h, err: err}
	}
	served := c.server.options.Handler.Serves(c.Listener, h.key, h.version)
	if !served && h.key != keyApiVersions {
		return queued{}, &requestError{h: h, err: errNotServed}
	}
	// A reply written since admit may have muted the connection.
	if err := c.waitUnmuted(); err != nil {
		return queued{}, err
	}
	var received int64
	if c.server.options.Observe != nil {
		received = max(c.server.clock(), 1)
	}
	r := &Request{
		Key:           h.key,
		Version:       h.version,
		CorrelationID: h.correlationID,
		ClientID:      c.internClientID(h.clientID),
		HeaderVersion: h.own,
		Conn:          &c.Conn,
		Received:      time.Now(),
		owner:         c,
	}
	if served {
		r.Body = frame[h.size:len(frame):len(frame)]
	}
	if err := c.enterGate(h.key); err != nil {
		return queued{}, err
	}
	c.waits.Add(1)
	c.server.counters.requests.Add(1)
	var t timing
	if c.server.options.Observe != nil {
		t = timing{key: h.key, version: h.version, request: int32(len(frame)), received: received, started: c.server.clock()}
	}
	reply := c.server.options.Handler.Handle(c.handling, r)
	c.endWait()
	if t.received != 0 {
		t.mark, t.waiting = r.Mark, r.waiting
		now := c.server.clock()
		if reply.Pending == nil {
			t.settled(now, &reply)
		} else if t.waiting == 0 {
			t.waiting = now
		}
	}
	if reply.Pending == nil {
		c.owe(reply.Body)
		c.server.noteReply(h.key, reply.Body)
	}
	c.leaveGate()
	return queued{h.correlationID, flexibleResponse(h.key, h.version), reply, t}, nil
}

func (c *connection) internClientID(b []byte) *string {
	if b == nil {
		return nil
	}
	if c.clientID == nil || *c.clientID != string(b) {
		s := string(b)
		c.clientID = &s
	}
	return c.clientID
}

// reply puts a reply where it belongs: out, into the queue, or, if it is a
// Produce's and another Produce has arrived whole, among the held ones.
func (c *connection) reply(q queued, produce bool) error {
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
		if c.held != nil && !c.in.produceReady() && !c.flushHeld() {
			return errEnd
		}
		return nil
	}
	if q.reply.Pending != nil && !c.flushHeld() {
		q.drop()
		return errEnd
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
	c.held.note(&q.timing, c.server)
	err := c.held.add(&c.out, q.correlationID, q.tags, q.reply.Body)
	if err != nil {
		c.writeFailed(err)
		return errEnd
	}
	if q.reply.Throttle > 0 {
		c.mute(q.reply.Throttle)
	} else if produce && c.held.n < maxHeld && c.in.produceReady() {
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

// drop gives up a reply.
func (q *queued) drop() {
	if q.reply.Pending == nil {
		q.reply.Body.Release()
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
	s.free()
	c.paid()
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
		q.drop()
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
		if len(c.queue) == 0 || c.broken {
			for i := range c.queue {
				c.queue[i].drop()
			}
			clear(c.queue)
			c.queue = c.queue[:0]
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

// writeReady waits for the reply at the head of the queue and writes it together
// with those behind it that are ready as well.
func (c *connection) writeReady(q queued) {
	c.waits.Add(1)
	for q.reply.Pending != nil {
		select {
		case <-q.reply.Pending.Done():
			q.resolve(c.server)
			continue
		case <-c.Conn.ctx.Done():
		}
		c.endWait()
		c.writeFailed(context.Cause(c.Conn.ctx))
		return
	}
	c.endWait()

	s := getSender()
	defer func() {
		c.observed(s.times)
		s.free()
		c.paid()
	}()
	var mute time.Duration
	taken := 0
	for pending := true; ; {
		taken++
		if pending {
			c.owe(q.reply.Body)
		}
		if q.reply.Close {
			q.reply.Body.Release()
			if err := s.flush(&c.out); err != nil {
				c.writeFailed(err)
			} else {
				c.endByWriter(taken)
			}
			return
		}
		mute = max(mute, q.reply.Throttle)
		s.note(&q.timing, c.server)
		if q.reply.None {
			q.reply.Body.Release()
		} else if err := s.add(&c.out, q.correlationID, q.tags, q.reply.Body); err != nil {
			c.dequeue(taken)
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
		q.settle(c.server)
		if q.reply.Pending != nil {
			break
		}
	}
	if mute > 0 {
		c.mute(mute)
	}
	err := s.flush(&c.out)
	c.dequeue(taken)
	if err != nil {
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
func (c *connection) endByWriter(taken int) {
	c.dequeue(taken)
	c.mu.Lock()
	c.broken = true
	c.changed.Broadcast()
	c.mu.Unlock()
	c.farewell(nil)
	c.shut(ErrClosed)
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

// shut closes the connection and cancels its contexts.
func (c *connection) shut(cause error) {
	c.cancelConn(cause)
	c.cancelHandling(cause)
	c.nc.Close()
}

// farewell sees to it that the last reply arrives: it ends the sending side and
// drops what the peer has sent until the peer closes too, for a short while. It
// is not needed when the peer has ended already.
func (c *connection) farewell(err error) {
	if errors.Is(err, io.EOF) {
		return
	}
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if c.nc.SetReadDeadline(time.Now().Add(linger)) != nil {
		return
	}
	b := getClass(0)
	defer putBuffer(b)
	for left := lingerBytes; left > 0; {
		n, err := c.nc.Read(b.b)
		if err != nil {
			return
		}
		left -= n
	}
}

var (
	errNotServed = errors.New("the api key is not served here in this version")
	errTooHeavy  = errors.New("the request stands for more than queued.max.request.bytes")
)

// requestError is a request that ends its connection.
type requestError struct {
	h   header
	err error
}

func (e *requestError) Error() string {
	return fmt.Sprintf("request with api key %d, version %d: %v", e.h.key, e.h.version, e.err)
}

func (e *requestError) Unwrap() error { return e.err }

// report logs why the connection ends, if that is worth a line.
func (c *connection) report(err error) {
	var bad *frameError
	var refused *requestError
	switch {
	case errors.As(err, &bad):
		c.server.logLimited("closing a connection: a bad frame", zap.Error(err), c.field())
	case errors.Is(err, errNotServed):
		c.server.logLimited("closing a connection: a request that is not served", zap.Error(err), c.field())
	case errors.Is(err, errTooHeavy):
		c.server.logLimited("closing a connection: a request that is too large", zap.Error(err), c.field())
	case errors.As(err, &refused):
		c.server.logLimited("closing a connection: a bad request header", zap.Error(err), c.field())
	case errors.Is(err, errEnd), isGone(err), isTimeout(err):
	default:
		c.server.logLimited("closing a connection: reading failed", zap.Error(err), c.field())
	}
}

func (c *connection) field() zap.Field {
	return zap.String("peer", c.Listener+" "+c.nc.RemoteAddr().String())
}
