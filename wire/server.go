package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// ServerOptions configure a Server. Handler is needed; the zero value of
// everything else works.
type ServerOptions struct {
	Handler Handler
	// Logger may be nil.
	Logger *zap.Logger
	// MaxRequestBytes is socket.request.max.bytes; 0 means Kafka's 100 MiB.
	MaxRequestBytes int32
	// Budget is queued.max.request.bytes: the length of the frames that are read
	// and handled at once, and again what these stand for once they are decoded
	// and answered, and again what is kept of replies that peers do not take.
	// Frames of up to 64 KiB, and the reserved listeners, have reserves of their
	// own. A request that stands for more than the budget is refused. While
	// others wait for the budget, whoever holds it and does not send the rest of
	// a frame is cut off; while replies take more than it, who does not read
	// them. 0 or less means no limit.
	Budget int64
	// IdleTimeout is connections.max.idle.ms; 0 means Kafka's ten minutes, a
	// negative value none. A peer that has sent part of a frame, or that does not
	// read its replies, is idle as well; one that waits for an answer is not, as
	// long as it may be there.
	IdleTimeout time.Duration
	Limits      Limits
	// ReservedListeners are those between brokers and of controllers. They do not
	// count against Limits.MaxConnections.
	ReservedListeners []string
	// SendBuffer and ReceiveBuffer are socket.send.buffer.bytes and
	// socket.receive.buffer.bytes; 0 or less leaves the choice to the system.
	SendBuffer, ReceiveBuffer int
	// Observe, if not nil, is told what each request took that came to its handler,
	// once its reply was written or given up, with a connection that broke for
	// example. It is called on the connection's goroutines and must not block.
	Observe func(Timing)
	// PoisonBuffers overwrites the body of every Produce once its handler has
	// returned. It is for tests, whose handlers are to fail loudly if they keep
	// such bytes.
	PoisonBuffers bool
}

// Stats is what a server did and is doing.
type Stats struct {
	Connections   map[string]int // by listener; of those that were ended, until their last is gone
	BudgetInUse   int64
	SendfileBytes int64
	Requests      int64
	Accepted      int64
	// RefusedPerIP counts connections closed for their address's limit.
	RefusedPerIP int64
	// RepliesInMemory is what is kept of replies until peers take them.
	RepliesInMemory int64
	// AcceptedBy and Idle count, by listener, the connections there were and
	// those that were closed for being idle.
	AcceptedBy, Idle map[string]int64
}

type counters struct {
	sendfileBytes atomic.Int64
	requests      atomic.Int64
	accepted      atomic.Int64
	refusedPerIP  atomic.Int64
}

// A Server serves the Kafka protocol on any number of listeners.
type Server struct {
	options  ServerOptions
	log      *zap.Logger
	start    time.Time
	clients  budgets
	reserved budgets
	counters counters
	lines    logLimit
	owed     atomic.Int64 // of replies in memory, by all connections
	evicting [2]evictor
	disk     *diskGate
	shelves  *shelves
	// Of requests that run, Produce and Fetch apart.
	light, large gate
	lastLarge    [kmsg.MaxKey + 1]atomic.Int64 // when a kind of request last had a large reply
	draining     atomic.Bool
	stopped      chan struct{} // closed when draining begins
	running      sync.WaitGroup

	mu        sync.Mutex
	changed   sync.Cond // connections, limits, or the server's state
	limits    Limits
	relimited chan struct{} // closed when limits change; replaced then
	listeners map[string]*listener
	open      map[net.Listener]string // listener's name
	conns     map[*connection]struct{}
	perIP     map[netip.Addr]int
	total     int // connections on listeners that are not reserved
	lastID    uint64
	rate      bucket
	sweeping  bool
}

// listener is what connections of one listener name share.
type listener struct {
	name     string
	reserved bool
	budgets  *budgets
	count    int
	ended    bool // it goes when its last connection does
	accepted int64
	idle     int64 // closed for being idle
	rate     bucket
}

// NewServer returns a Server. It starts nothing before Serve.
func NewServer(o ServerOptions) *Server {
	if o.Handler == nil {
		panic("wire: a server needs a handler")
	}
	if o.MaxRequestBytes <= 0 {
		o.MaxRequestBytes = 100 << 20
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 10 * time.Minute
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	s := &Server{
		options:   o,
		log:       o.Logger,
		start:     time.Now(),
		limits:    o.Limits,
		relimited: make(chan struct{}),
		stopped:   make(chan struct{}),
		disk:      newDiskGate(gateWidth),
		shelves:   newShelves(),
		light:     make(gate, handlersWidth),
		large:     make(gate, handlersWidth),
		listeners: make(map[string]*listener),
		open:      make(map[net.Listener]string),
		conns:     make(map[*connection]struct{}),
		perIP:     make(map[netip.Addr]int),
	}
	s.changed.L = &s.mu
	s.clients.init(o.Budget)
	s.reserved.init(o.Budget)
	return s
}

func (s *Server) clock() int64 { return int64(time.Since(s.start)) }

// Stats returns the present numbers.
func (s *Server) Stats() Stats {
	st := Stats{
		Connections:   make(map[string]int),
		AcceptedBy:    make(map[string]int64),
		Idle:          make(map[string]int64),
		BudgetInUse:   s.clients.inUse() + s.reserved.inUse(),
		SendfileBytes: s.counters.sendfileBytes.Load(),
		Requests:      s.counters.requests.Load(),
		Accepted:      s.counters.accepted.Load(),
		RefusedPerIP:  s.counters.refusedPerIP.Load(),

		RepliesInMemory: s.owed.Load(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range s.listeners {
		st.Connections[name], st.AcceptedBy[name], st.Idle[name] = l.count, l.accepted, l.idle
	}
	return st
}

// ErrServerClosed is returned by Serve on a server that was drained or closed
// before.
var ErrServerClosed = errors.New("wire: the server is closed")

// Serve accepts connections on l, which it closes in the end, until the context
// is done, the listener fails, or the server is drained or closed. Connections
// live on after the context is done. Several listeners may share a name.
func (s *Server) Serve(ctx context.Context, name string, l net.Listener) error {
	ln, err := s.register(name, l)
	if err != nil {
		l.Close()
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		l.Close()
		s.mu.Lock()
		s.changed.Broadcast()
		s.mu.Unlock()
	})
	defer func() {
		stop()
		l.Close()
		s.mu.Lock()
		delete(s.open, l)
		s.mu.Unlock()
		s.running.Done()
	}()
	var pause time.Duration
	for {
		if !s.waitForRate(ctx, ln) {
			return nil
		}
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			s.accept(ctx, ln, l, nc)
			continue
		}
		if ctx.Err() != nil || s.draining.Load() {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accepting on listener %s: %w", name, err)
		}
		// Out of file descriptors, most likely. It passes when connections close.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.logLimited("accepting failed", zap.String("listener", name), zap.Error(err))
		if !s.sleep(ctx, pause) {
			return nil
		}
	}
}

func (s *Server) register(name string, l net.Listener) (*listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return nil, ErrServerClosed
	}
	ln := s.listeners[name]
	if ln == nil {
		ln = &listener{name: name, budgets: &s.clients}
		for _, r := range s.options.ReservedListeners {
			if r == name {
				ln.reserved, ln.budgets = true, &s.reserved
			}
		}
		s.listeners[name] = ln
	}
	s.open[l], ln.ended = name, false
	s.running.Add(1)
	if !s.sweeping {
		s.sweeping = true
		s.running.Add(1)
		go s.sweep()
	}
	return ln, nil
}

// sleep waits; false if the server stops accepting meanwhile.
func (s *Server) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-s.stopped:
	}
	return false
}

// accept starts a connection, once the limits allow one more.
func (s *Server) accept(ctx context.Context, ln *listener, from net.Listener, nc net.Conn) {
	if tc, ok := nc.(*net.TCPConn); ok {
		if s.options.SendBuffer > 0 {
			tc.SetWriteBuffer(s.options.SendBuffer)
		}
		if s.options.ReceiveBuffer > 0 {
			tc.SetReadBuffer(s.options.ReceiveBuffer)
		}
	}
	c := &connection{server: s, listener: ln, nc: nc}
	c.changed.L = &c.mu
	c.Conn = Conn{Listener: ln.name, Local: addrPort(nc.LocalAddr()), Remote: addrPort(nc.RemoteAddr()), Principal: Anonymous}
	c.in = frameReader{src: nc, max: int(s.options.MaxRequestBytes), poison: s.options.PoisonBuffers, progress: c.received, grow: c.grow, shelves: s.shelves}
	if r := newSocketReader(nc); r != nil {
		c.in.src, c.in.first, c.in.try, c.in.waiting, c.in.several = r, r.first, r.try, r.waiting, r.cameTogether
	}
	c.out = output{nc: nc, progress: c.taken, counters: &s.counters, disk: s.disk}
	c.Conn.ctx, c.cancelConn = context.WithCancelCause(context.Background())
	// Not a child of the other: shut cancels both, and a parent keeps a map.
	c.handling, c.cancelHandling = context.WithCancelCause(context.Background())
	c.touch()

	if !s.admit(ctx, c, from) {
		c.cancelConn(ErrClosed)
		c.cancelHandling(ErrClosed)
		nc.Close()
		return
	}
	go c.serve()
}

func addrPort(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		ap := t.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return netip.AddrPort{}
}

const (
	// sweepPause is how often it is looked at least.
	sweepPause = 40 * time.Second
	// endedTime is how long one waits at most whose peer has ended its side.
	endedTime = 10 * time.Minute
)

// sweep closes idle connections, and those whose peer is gone while its request
// waits: nobody reads from these, and the wait may be one of weeks.
func (s *Server) sweep() {
	defer s.running.Done()
	idle := s.options.IdleTimeout
	if idle < 0 {
		idle = math.MaxInt64
	}
	pause := min(max(idle/16, 10*time.Millisecond), sweepPause)
	ending := min(idle, endedTime)
	t := time.NewTicker(pause)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.stopped:
			return
		}
		now := s.clock()
		var expired, waiting []*connection
		s.mu.Lock()
		for c := range s.conns {
			switch silent := time.Duration(now - c.lastActive.Load()); {
			case c.ended() || silent < pause:
			case c.waits.Load() > 0:
				waiting = append(waiting, c)
			case silent > idle:
				expired = append(expired, c)
				c.listener.idle++
			}
		}
		s.mu.Unlock()
		for _, c := range expired {
			s.log.Debug("closing an idle connection", c.field())
			c.shut(errIdle)
		}
		for _, c := range waiting {
			// One that has ended may still take its answer, but not be waited for longer than others.
			if ended, gone := peerOf(c.nc); gone || ended && time.Duration(now-c.lastActive.Load()) > ending {
				s.log.Debug("closing a connection: its peer is gone", c.field())
				c.shut(ErrClosed)
			}
		}
	}
}

// stop stops accepting and returns the connections there are.
func (s *Server) stop() []*connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining.Swap(true) {
		close(s.stopped)
	}
	for l := range s.open {
		l.Close()
	}
	s.changed.Broadcast()
	conns := make([]*connection, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}

// Drain stops accepting and reading, cancels the contexts of running handlers
// with ErrDraining, lets what has been read be answered, and closes the
// connections; peers that do not take their replies are not waited for longer
// than a second. When the context is done it closes what is left, and returns the
// context's error.
func (s *Server) Drain(ctx context.Context) error {
	for _, c := range s.stop() {
		c.cancelHandling(ErrDraining)
		// Wakes a reader that waits for a request.
		c.nc.SetReadDeadline(time.Unix(1, 0))
	}
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	look := time.NewTicker(drainTaking / 4)
	defer look.Stop()
	for left := true; left; {
		select {
		case <-done:
			s.shelves.close()
			return nil
		case <-look.C:
			s.cutUnread()
		case <-ctx.Done():
			left = false
		}
	}
	s.Close()
	<-done
	return fmt.Errorf("draining connections: %w", context.Cause(ctx))
}

// End ends what is served now under a listener's name: nothing is accepted, what
// has been read is answered, for which those that wait get a second, and nothing
// more is read. A Produce that has no answer after that second gets none, nor do
// those behind it: their connection is closed, as Kafka closes all of them at once.
// With its last connection the listener leaves Stats. Whoever is
// served under that name later is not concerned.
func (s *Server) End(listener string) {
	s.mu.Lock()
	// any order: each is closed by itself.
	for l, name := range s.open {
		if name == listener {
			l.Close()
			delete(s.open, l) // one that is just being accepted is not admitted
		}
	}
	if ln := s.listeners[listener]; ln != nil {
		ln.ended = true
		s.dropEnded(ln)
		s.changed.Broadcast() // one may wait for a place
	}
	var conns []*connection
	for c := range s.conns {
		if c.listener.name == listener {
			conns = append(conns, c)
		}
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.ending.Store(true)
		c.nc.SetReadDeadline(time.Unix(1, 0))
		time.AfterFunc(drainTaking, func() { c.cancelHandling(ErrDraining) })
	}
}

// Close stops accepting and closes every connection at once. It returns when
// every handler has returned; their contexts are cancelled.
func (s *Server) Close() {
	for _, c := range s.stop() {
		c.shut(ErrClosed)
	}
	s.running.Wait()
	s.shelves.close()
}

// isGone tells whether an error only says that the peer, or this side, has ended
// the connection.
func isGone(err error) bool {
	return isCut(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, ErrClosed) || errors.Is(err, ErrDraining) || errors.Is(err, io.ErrClosedPipe)
}

// isCut tells whether an error says that the connection is gone both ways, and
// not only that the peer sends no more.
func isCut(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, net.ErrClosed)
}

// logLimited logs at most one line a second of each message, so that a peer
// cannot fill the disk with them.
func (s *Server) logLimited(msg string, fields ...zap.Field) {
	dropped, ok := s.lines.allow(msg, s.clock())
	if !ok {
		return
	}
	if dropped > 0 {
		fields = append(fields, zap.Int("lines_left_out", dropped))
	}
	s.log.Warn(msg, fields...)
}
