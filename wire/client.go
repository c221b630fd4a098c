package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ClientOptions configure a Client; the zero value works.
type ClientOptions struct {
	// Dial makes the connection; nil means TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// ClientID goes into every request header.
	ClientID string
	// MaxResponseBytes limits a response; 0 means no limit but the protocol's.
	MaxResponseBytes int32
}

// A Client is a connection to a broker or controller whose versions are known:
// it sends requests in the version they say and negotiates nothing. Any number
// of goroutines may use it; requests go out in the order of the calls, and later
// ones do not wait for the answers to earlier ones.
//
// When anything goes wrong on the connection every call fails, and the Client is
// of no further use: see Done.
type Client struct {
	nc      net.Conn
	max     int
	format  *kmsg.RequestFormatter
	done    chan struct{}
	shelves *shelves
	longest int // of the answers that came, within maxTrust; the reading goroutine's

	sending chan struct{} // holds one token: the right to write
	scratch []byte        // of whoever holds it

	mu      sync.Mutex
	nextID  int32
	waiting map[int32]*call
	err     error
}

// call is a request without an answer yet.
type call struct {
	tags   bool
	pooled bool    // the response may be read into a pooled buffer
	frame  *buffer // the response
	body   []byte  // of frame
	ready  chan error
	gone   bool // nobody waits any more
}

// Dial connects to a broker.
func Dial(ctx context.Context, addr string, o ClientOptions) (*Client, error) {
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	nc, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", addr, err)
	}
	return NewClient(nc, o), nil
}

// NewClient makes a Client of a connection, which it owns from here on.
func NewClient(nc net.Conn, o ClientOptions) *Client {
	c := &Client{
		nc:      nc,
		max:     math.MaxInt32,
		format:  kmsg.NewRequestFormatter(kmsg.FormatterClientID(o.ClientID)),
		done:    make(chan struct{}),
		shelves: newShelves(),
		sending: make(chan struct{}, 1),
		waiting: make(map[int32]*call),
	}
	if o.MaxResponseBytes > 0 {
		c.max = int(o.MaxResponseBytes)
	}
	go c.read()
	return c
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err is why the connection ended, nil while it has not.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection and waits for its goroutine.
func (c *Client) Close() {
	c.fail(ErrClosed)
	<-c.done
}

// Do sends a request and returns its response.
func (c *Client) Do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	resp := req.ResponseKind()
	// The response keeps slices of what it was read from.
	err := c.exchange(ctx, req, false, func(body []byte) error {
		return decodeResponse(resp, body)
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// DoInPlace is Do for large responses: the response is decoded in the buffer it
// was received into and is valid only until use returns, whose error it passes
// on.
func (c *Client) DoInPlace(ctx context.Context, req kmsg.Request, use func(kmsg.Response) error) error {
	return c.exchange(ctx, req, true, func(body []byte) error {
		resp := req.ResponseKind()
		if err := decodeResponse(resp, body); err != nil {
			return err
		}
		return use(resp)
	})
}

func decodeResponse(resp kmsg.Response, body []byte) error {
	if err := resp.ReadFrom(body); err != nil {
		return fmt.Errorf("decoding a %s response v%d of %d bytes: %w", kmsg.NameForKey(resp.Key()), resp.GetVersion(), len(body), err)
	}
	return nil
}

// Send writes a request that has no answer (Produce with acks=0).
func (c *Client) Send(ctx context.Context, req kmsg.Request) error {
	return c.write(ctx, req, nil)
}

func (c *Client) exchange(ctx context.Context, req kmsg.Request, pooled bool, use func(body []byte) error) error {
	w := &call{
		tags:   req.IsFlexible() && req.Key() != keyApiVersions,
		pooled: pooled,
		ready:  make(chan error, 1),
	}
	if err := c.write(ctx, req, w); err != nil {
		return err
	}
	var err error
	select {
	case err = <-w.ready:
	case <-ctx.Done():
		c.mu.Lock()
		select {
		case err = <-w.ready:
		default:
			w.gone = true
			err = context.Cause(ctx)
		}
		c.mu.Unlock()
	}
	if err != nil {
		return fmt.Errorf("%s request to %s: %w", kmsg.NameForKey(req.Key()), c.nc.RemoteAddr(), err)
	}
	err = use(w.body)
	c.shelves.put(w.frame, 0)
	return err
}

// write sends a request and, unless w is nil, enters it among those that wait.
func (c *Client) write(ctx context.Context, req kmsg.Request, w *call) error {
	select {
	case c.sending <- struct{}{}:
	case <-c.done:
		return c.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.sending }()
	// Of a turn and a context that are both there, select takes any: a context that is done
	// must not cost the connection when nothing of the request is on it.
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	id := c.nextID
	c.nextID++
	if c.nextID < 0 {
		c.nextID = 0
	}
	if w != nil {
		c.waiting[id] = w
	}
	c.mu.Unlock()

	c.scratch = c.format.AppendRequest(c.scratch[:0], req, id)
	b := c.scratch
	if cap(c.scratch) > maxPooledReply {
		c.scratch = nil
	}
	// A context that ends while the peer does not read leaves half a request on
	// the wire, so it ends the connection.
	stop := context.AfterFunc(ctx, func() { c.nc.SetWriteDeadline(time.Unix(1, 0)) })
	_, err := c.nc.Write(b)
	if !stop() && (err == nil || errors.Is(err, os.ErrDeadlineExceeded)) {
		err = context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("sending a %s request to %s: %w", kmsg.NameForKey(req.Key()), c.nc.RemoteAddr(), err)
		c.fail(err)
	}
	return err
}

// fail ends the connection; the first reason counts. Those that wait are told by
// the reading goroutine.
func (c *Client) fail(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
	c.nc.Close()
}

// read hands responses to those that wait for them, until the connection ends.
func (c *Client) read() {
	err := c.readResponses()
	c.fail(err)
	c.shelves.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, w := range c.waiting {
		w.ready <- c.err
		delete(c.waiting, id)
	}
	close(c.done)
}

func (c *Client) readResponses() error {
	var head [9]byte
	for {
		if _, err := io.ReadFull(c.nc, head[:8]); err != nil {
			return fmt.Errorf("reading a response from %s: %w", c.nc.RemoteAddr(), err)
		}
		size := int(int32(binary.BigEndian.Uint32(head[:])))
		id := int32(binary.BigEndian.Uint32(head[4:]))
		if size < 4 || size > c.max {
			return fmt.Errorf("reading a response from %s: invalid frame length %d", c.nc.RemoteAddr(), size)
		}
		c.mu.Lock()
		w := c.waiting[id]
		c.mu.Unlock()
		if w == nil {
			return fmt.Errorf("reading a response from %s: nobody asked with correlation id %d", c.nc.RemoteAddr(), id)
		}
		frame, err := c.readGrowing(size-4, w.pooled)
		if err != nil {
			return fmt.Errorf("reading a response from %s: %w", c.nc.RemoteAddr(), err)
		}
		body := frame.b[: size-4 : size-4]
		if w.tags {
			if body, err = skipTags(body); err != nil {
				c.shelves.put(frame, 0)
				return fmt.Errorf("reading a response from %s: %w", c.nc.RemoteAddr(), err)
			}
		}
		c.mu.Lock()
		delete(c.waiting, id)
		w.frame, w.body = frame, body
		if w.gone {
			c.shelves.put(frame, 0)
		} else {
			w.ready <- nil
		}
		c.mu.Unlock()
	}
}

// firstAnswer limits what is allocated of an answer before any of it has come.
const firstAnswer = 2 << 20

// readGrowing reads n bytes into a buffer that grows as they arrive. One that is
// pooled goes back to the shelves.
func (c *Client) readGrowing(n int, pooled bool) (*buffer, error) {
	var buf *buffer
	trusted := max(firstAnswer, c.longest)
	switch {
	case n > trusted:
		buf = c.shelves.growing(n)
	case pooled:
		buf = c.shelves.get(n)
	}
	if buf == nil {
		buf = &buffer{b: make([]byte, min(n, trusted)), class: kept}
	}
	have := 0
	for {
		m, err := io.ReadFull(c.nc, buf.b[have:min(n, len(buf.b))])
		have += m
		if err != nil {
			c.shelves.put(buf, have)
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if have == n {
			break
		}
		next := &buffer{b: make([]byte, min(n, 2*have)), class: kept}
		copy(next.b, buf.b[:have])
		buf = next
	}
	c.longest = max(c.longest, min(n, maxTrust))
	buf.used = max(buf.used, n)
	if !pooled && buf.class != kept {
		return &buffer{b: c.shelves.keep(buf, n), class: kept}, nil
	}
	return buf, nil
}
