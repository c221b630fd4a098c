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
	clientID *string   // the last one seen
	held     *sender   // replies to be written together with the next, of those that are being replied to
	charge             // of the current request
	gate     gate      // what the current request holds a place of, or nil
	arrived  *together // Produces that were read; nil: none

	// Of both, for those who evict:
	frame  pace                    // of a charged frame
	taking pace                    // of what is owed
	owed   atomic.Int64            // bytes of replies in memory, being written
	holds  atomic.Pointer[holding] // of the current request; nil: it is not heavy

	mu       sync.Mutex
	changed  sync.Cond
	queue    []queued // replies due, the first of them pending; in order
	writing  bool     // writeQueue runs
	broken   bool     // nothing can be written any more
	gaveUp   bool     // and what was written is to arrive: those that waited had their time
	unmuteAt time.Time
}

// errEnd ends a connection without a line in the log.
var errEnd = errors.New("end of the connection")

func (c *connection) serve() {
	err := c.readRequests()
	if e := c.handleArrived(); e != nil {
		err = e
	}
	if isCut(err) {
		c.shut(ErrClosed) // nobody is there to be answered
	}
	// What is due before the end is still written.
	c.giveBack()
	c.leaveGate()
	if c.settled() {
		c.farewell(err)
	}
	c.report(err)
	c.shut(ErrClosed)
	c.in.close()
	c.waitWriter()
	c.nc.Close()
	if c.held != nil {
		c.pay(c.held.owed)
		c.held.free()
	}
	c.server.forget(c)
}

// readRequests reads and handles requests until the connection is to end.
func (c *connection) readRequests() error {
	for {
		if c.arrived == nil && (c.server.draining.Load() || c.ending.Load()) {
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
		c.frame.end()
		if err != nil {
			return err
		}
		if err = c.weigh(frame); err == nil {
			if key == keyProduce {
				err = c.arrive(frame, buf)
			} else {
				err = c.handle(key, frame)
			}
		} else if key == keyProduce {
			c.in.done(frame, buf)
		}
		if err != nil {
			return err
		}
	}
}

// errAhead ends a wait for the budget: the frame goes on without.
var errAhead = errors.New("ahead of the budget")

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
	c.frame.moved(n, c.lastActive.Load())
}

// taken notes that the peer has taken bytes.
func (c *connection) taken(n int) {
	c.touch()
	c.taking.moved(n, c.lastActive.Load())
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
	if err := c.handleArrived(); err != nil {
		return err
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

// handle handles one frame that is no Produce.
func (c *connection) handle(key int16, frame []byte) error {
	r, t, err := c.begin(frame)
	if err != nil {
		return err
	}
	if err := c.enterGate(key); err != nil {
		return err
	}
	reply := c.run(r, &t)
	c.leaveGate()
	c.giveBack()
	return c.reply(answered(r, reply, t), false)
}

// begin makes a request of a frame.
func (c *connection) begin(frame []byte) (*Request, timing, error) {
	h, err := parseHeader(frame)
	if err != nil {
		return nil, timing{}, &requestError{h: h, err: err}
	}
	served := c.server.options.Handler.Serves(c.Listener, h.key, h.version)
	if !served && h.key != keyApiVersions {
		return nil, timing{}, &requestError{h: h, err: errNotServed}
	}
	// A reply written since admit may have muted the connection.
	if err := c.waitUnmuted(); err != nil {
		return nil, timing{}, err
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
	var t timing
	if c.server.options.Observe != nil {
		t = timing{key: h.key, version: h.version, request: int32(len(frame)), received: max(c.server.clock(), 1)}
	}
	return r, t, nil
}

// run has the handler answer.
func (c *connection) run(r *Request, t *timing) Reply {
	c.waits.Add(1)
	c.server.counters.requests.Add(1)
	if t.received != 0 {
		t.started = c.server.clock()
	}
	ctx, done := c.answerable()
	reply := c.server.options.Handler.Handle(ctx, r)
	done()
	c.endWait()
	c.ran(r, &reply, t)
	return reply
}

// ran takes note of a reply that the handler has made.
func (c *connection) ran(r *Request, reply *Reply, t *timing) {
	if t.received != 0 {
		t.mark, t.waiting = r.Mark, r.waiting
		now := c.server.clock()
		if reply.Pending == nil {
			t.settled(now, reply)
		} else if t.waiting == 0 {
			t.waiting = now
		}
	}
	if reply.Pending == nil {
		c.server.noteReply(r.Key, reply.Body)
	}
}

// answered puts a reply in its place.
func answered(r *Request, reply Reply, t timing) queued {
	return queued{correlationID: r.CorrelationID, tags: flexibleResponse(r.Key, r.Version), reply: reply, timing: t}
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

// shut ends the connection and cancels its contexts. It waits for nobody, since
// one goroutine shuts many: Close would wait for the calls that use the socket,
// and one that sends a part of a file may be waiting for the disk. Such a socket
// is ended both ways here, which the peer sees and which wakes whoever waits for
// the peer; serve closes it when nothing uses it any more.
func (c *connection) shut(cause error) {
	c.cancelConn(cause)
	c.cancelHandling(cause)
	if !c.out.cut() {
		c.nc.Close()
	}
}

// ended says whether the connection was shut. It may be in the books for longer, as
// long as the disk has it wait.
func (c *connection) ended() bool { return c.Conn.ctx.Err() != nil }

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
