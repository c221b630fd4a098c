// Package wiretest is an in-memory network for tests: buffered connections with
// deadlines and half-close, delays, and cuts.
//
// It has no goroutines and blocks only on sync.Cond and channels, and its timers
// are those of package time, so that a whole cluster on it lives inside a
// testing/synctest bubble. Make the Network inside the bubble.
//
// It does not model packet loss, reordering or congestion: a connection delivers
// all bytes in order, late, or not at all.
package wiretest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// DefaultBuffer is how many bytes one direction of a connection holds before a
// writer blocks.
const DefaultBuffer = 256 << 10

// A Network connects named hosts. Names are what stands before the colon of an
// address; names that are no IP addresses are given one.
type Network struct {
	mu        sync.Mutex
	changed   sync.Cond // cuts
	buffer    int
	listeners map[string]*listener
	hosts     map[string]netip.Addr
	names     map[netip.Addr]string
	nextPort  int
	cuts      map[pair]bool
	delays    map[pair]time.Duration
	conns     map[*Conn]struct{}
}

// pair is an unordered pair of hosts.
type pair struct{ a, b string }

func pairOf(a, b string) pair {
	if b < a {
		a, b = b, a
	}
	return pair{a, b}
}

// New returns an empty network.
func New() *Network {
	n := &Network{
		buffer:    DefaultBuffer,
		listeners: make(map[string]*listener),
		hosts:     make(map[string]netip.Addr),
		names:     make(map[netip.Addr]string),
		nextPort:  32768,
		cuts:      make(map[pair]bool),
		delays:    make(map[pair]time.Duration),
		conns:     make(map[*Conn]struct{}),
	}
	n.changed.L = &n.mu
	return n
}

// SetBuffer changes how many bytes one direction of a new connection holds.
func (n *Network) SetBuffer(bytes int) {
	n.mu.Lock()
	n.buffer = max(bytes, 1)
	n.mu.Unlock()
}

// addr gives a host and port an address. The lock is held.
func (n *Network) addr(host string, port int) *net.TCPAddr {
	ip, ok := n.hosts[host]
	if !ok {
		var err error
		if ip, err = netip.ParseAddr(host); err != nil {
			i := len(n.hosts) + 1
			ip = netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			if host == "localhost" {
				ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
			}
		}
		n.hosts[host] = ip
		if _, taken := n.names[ip]; !taken {
			n.names[ip] = host
		}
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(port)))
}

// key identifies an address whatever its host is called. The lock is held.
func (n *Network) key(host string, port int) string { return n.addr(host, port).String() }

// canonical is the first name that a host was given. The lock is held.
func (n *Network) canonical(host string) string {
	return n.names[n.addr(host, 0).AddrPort().Addr()]
}

func split(addr string) (string, int, error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q: %w", p, err)
	}
	if host == "" {
		host = "localhost"
	}
	return host, int(port), nil
}

// Listen listens on "host:port"; port 0 takes a free one.
func (n *Network) Listen(addr string) (net.Listener, error) {
	host, port, err := split(addr)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", addr, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == 0 {
		port = n.freePort()
	}
	key := n.key(host, port)
	if n.listeners[key] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: n.addr(host, port), Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	l := &listener{network: n, host: host, key: key, addr: n.addr(host, port)}
	l.changed.L = &l.mu
	n.listeners[key] = l
	return l, nil
}

func (n *Network) freePort() int {
	n.nextPort++
	if n.nextPort > 65535 {
		n.nextPort = 32769
	}
	return n.nextPort
}

// Dial connects from the host "client". It has the shape that kgo and the
// broker-to-broker client take.
func (n *Network) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return n.dial(ctx, "client", addr)
}

// Dialer returns a Dial that connects from the named host.
func (n *Network) Dialer(from string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) { return n.dial(ctx, from, addr) }
}

func (n *Network) dial(ctx context.Context, from, addr string) (net.Conn, error) {
	host, port, err := split(addr)
	if err != nil {
		return nil, fmt.Errorf("dialing %s: %w", addr, err)
	}
	stop := context.AfterFunc(ctx, func() {
		n.mu.Lock()
		n.changed.Broadcast()
		n.mu.Unlock()
	})
	defer stop()
	n.mu.Lock()
	defer n.mu.Unlock()
	remote := n.addr(host, port)
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: remote, Err: err}
	}
	// A cut swallows the SYN, it does not refuse it.
	p := pairOf(n.canonical(from), n.canonical(host))
	for n.cuts[p] && ctx.Err() == nil {
		n.changed.Wait()
	}
	if d := n.delays[p]; d > 0 && ctx.Err() == nil {
		n.mu.Unlock()
		t := time.NewTimer(2 * d)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
		n.mu.Lock()
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	l := n.listeners[n.key(host, port)]
	if l == nil {
		return fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	local := n.addr(from, n.freePort())
	there, back := newPipe(n, p, n.buffer), newPipe(n, p, n.buffer)
	client := &Conn{network: n, pair: p, local: local, remote: l.addr, in: back, out: there}
	server := &Conn{network: n, pair: p, local: l.addr, remote: local, in: there, out: back}
	client.peer, server.peer = server, client
	if !l.offer(server) {
		return fail(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	n.conns[client] = struct{}{}
	n.conns[server] = struct{}{}
	return client, nil
}

// Cut parts two hosts: what is on its way between them, and all that is written
// later, waits for Heal; new connections do too.
func (n *Network) Cut(a, b string) { n.set(a, b, true) }

// Heal ends a Cut.
func (n *Network) Heal(a, b string) { n.set(a, b, false) }

func (n *Network) set(a, b string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := pairOf(n.canonical(a), n.canonical(b))
	if cut {
		n.cuts[p] = true
	} else {
		delete(n.cuts, p)
	}
	n.changed.Broadcast()
	for c := range n.conns {
		if c.pair == p {
			c.in.setCut(cut)
		}
	}
}

// Isolate cuts a host from every host the network knows, itself apart; Rejoin
// ends that.
func (n *Network) Isolate(host string) { n.setAll(host, true) }

// Rejoin heals every cut of a host.
func (n *Network) Rejoin(host string) { n.setAll(host, false) }

func (n *Network) setAll(host string, cut bool) {
	n.mu.Lock()
	self := n.canonical(host)
	others := make([]string, 0, len(n.names))
	for _, name := range n.names {
		if name != self {
			others = append(others, name)
		}
	}
	n.mu.Unlock()
	for _, o := range others {
		n.set(self, o, cut)
	}
}

// Delay makes everything written between two hosts from now on arrive d later.
func (n *Network) Delay(a, b string, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := pairOf(n.canonical(a), n.canonical(b))
	n.delays[p] = d
	for c := range n.conns {
		if c.pair == p {
			c.in.setDelay(d)
		}
	}
}

// Reset breaks every connection between two hosts, as a reset does: both ends see
// ECONNRESET, and what was on its way is lost.
func (n *Network) Reset(a, b string) {
	n.mu.Lock()
	p := pairOf(n.canonical(a), n.canonical(b))
	var conns []*Conn
	for c := range n.conns {
		if c.pair == p {
			conns = append(conns, c)
			delete(n.conns, c)
		}
	}
	n.mu.Unlock()
	for _, c := range conns {
		c.in.reset()
	}
}

// Conns is the number of open connection ends.
func (n *Network) Conns() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}

type listener struct {
	network *Network
	host    string
	key     string
	addr    *net.TCPAddr

	mu      sync.Mutex
	changed sync.Cond
	queue   []*Conn
	closed  bool
}

// offer queues a connection for Accept. The network's lock is held; it comes
// before the listener's.
func (l *listener) offer(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.queue = append(l.queue, c)
	l.changed.Signal()
	return true
}

func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.changed.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	c := l.queue[0]
	l.queue = l.queue[1:]
	return c, nil
}

// Close stops listening; connections that nobody accepted are reset.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	l.closed = true
	queue := l.queue
	l.queue = nil
	l.changed.Broadcast()
	l.mu.Unlock()

	l.network.mu.Lock()
	if l.network.listeners[l.key] == l {
		delete(l.network.listeners, l.key)
	}
	l.network.mu.Unlock()
	for _, c := range queue {
		c.in.reset()
		c.out.reset()
		c.forget()
		c.peer.forget()
	}
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }

// A Conn is one end of a connection.
type Conn struct {
	network       *Network
	pair          pair
	local, remote *net.TCPAddr
	peer          *Conn
	in, out       *pipe
}

func (c *Conn) opError(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// Read reads what has arrived.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	return n, c.opError("read", err)
}

// Write blocks while the buffer is full.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.out.write(b)
	return n, c.opError("write", err)
}

// Close closes both directions; the peer still reads what was written. As with
// TCP, closing with unread bytes resets the connection.
func (c *Conn) Close() error {
	unread, first := c.in.closeRead()
	if !first {
		return c.opError("close", net.ErrClosed)
	}
	if unread {
		c.out.reset()
	} else {
		c.out.closeWrite(true)
	}
	c.forget()
	return nil
}

func (c *Conn) forget() {
	c.network.mu.Lock()
	delete(c.network.conns, c)
	c.network.mu.Unlock()
}

// CloseWrite ends the sending direction.
func (c *Conn) CloseWrite() error {
	c.out.closeWrite(false)
	return nil
}

// Peer says whether the other end sends no more, as far as this one could know, and
// whether the connection was reset.
func (c *Conn) Peer() (ended, gone bool) { return c.in.state() }

func (c *Conn) LocalAddr() net.Addr  { return c.local }
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

func (c *Conn) SetDeadline(t time.Time) error {
	c.in.readDeadline.set(t)
	c.out.writeDeadline.set(t)
	return nil
}

func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.readDeadline.set(t)
	return nil
}

func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.writeDeadline.set(t)
	return nil
}
