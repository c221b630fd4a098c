package wire

import (
	"context"
	"net/netip"
	"time"
)

// Conn is what a handler may know of a connection.
type Conn struct {
	// ID is unique within a server.
	ID       uint64
	Listener string
	// Local and Remote are zero when the transport has no IP addresses.
	Local, Remote netip.AddrPort
	// Principal is "User:ANONYMOUS" until something authenticates the peer.
	Principal string
	// SoftwareName and SoftwareVersion are what the client called itself
	// (KIP-511). Handlers of one connection run on one goroutine, so the
	// ApiVersions handler sets them without a lock and other goroutines leave
	// them alone.
	SoftwareName, SoftwareVersion string

	ctx context.Context
}

// Anonymous is the principal of a peer that did not authenticate.
const Anonymous = "User:ANONYMOUS"

// Context is cancelled when the connection is closed. Unlike the context given
// to Handle it outlives a Drain: replies are still written then.
func (c *Conn) Context() context.Context {
	if c.ctx == nil {
		return context.Background()
	}
	return c.ctx
}

// A Request is one frame with its header parsed.
type Request struct {
	Key, Version  int16
	CorrelationID int32
	// ClientID is nil when the client sent null.
	ClientID *string
	// Body is what follows the header. The body of a Produce lives in a pooled
	// buffer and is valid only until HandleTogether returns; any other may be kept. It
	// is nil for an ApiVersions of an unsupported version, which nobody can
	// parse.
	Body []byte
	// HeaderVersion is the version of the request header: 0, 1 or 2.
	HeaderVersion int8
	Conn          *Conn
	Received      time.Time
	// Mark is the handler's own: it comes back in the Timing of the request.
	Mark uint8

	owner   *connection
	waiting int64 // when it first waited, of server.clock; kept where somebody observes
}

// Waiting tells the server that the handler is about to wait: for data, for a
// group to form, for a coordinator. The request's part of the budget is given
// back, unless it is a heavy one.
// Calling it more than once, or on a Request made by hand, is harmless. It is
// for the goroutine that runs Handle, before Handle returns. The body stays
// valid.
func (r *Request) Waiting() {
	if r.owner != nil {
		if r.owner.server.options.Observe != nil && r.waiting == 0 {
			r.waiting = r.owner.server.clock()
		}
		r.owner.lend()
	}
}

// A Reply is what a handler makes of a request. The zero Reply answers with an
// empty body.
type Reply struct {
	// Body follows the response header, which the server writes.
	Body *Body
	// Pending is a reply that is not ready yet. It is for Produce alone: the
	// server goes on to read further Produces while it waits. Everything else
	// in the Reply is ignored.
	Pending Pending
	// None: the request has no answer (Produce with acks=0).
	None bool
	// Close ends the connection, without an answer to this request, after the
	// replies that are due before it.
	Close bool
	// Throttle: the reply goes out at once; no further request of the
	// connection is started before this much time has passed.
	Throttle time.Duration
}

// Pending is a reply that becomes ready later. One that takes much memory is told to
// be ready at once, when it has waited long and others wait for that, if it has a
// method Hurry().
type Pending interface {
	// Done is closed when Reply may be called. It must be closed eventually.
	Done() <-chan struct{}
	// Reply is called once, after Done.
	Reply() Reply
}

// A Handler answers requests.
type Handler interface {
	// Serves tells whether a key is served in a version on a listener. If not,
	// the connection is closed; except for ApiVersions, which then comes to
	// Handle with a nil Body, to be answered in version 0 (KIP-511).
	Serves(listener string, key, version int16) bool
	// Handle answers a request that is no Produce. It runs on the connection's own goroutine and
	// may block; before it waits for anything but a lock or a disk it calls
	// Request.Waiting. The context is cancelled when the connection is closed,
	// when the server drains, and when a request that takes much memory has waited
	// long and others wait for that: then it answers with what it has.
	Handle(ctx context.Context, r *Request) Reply
	// HandleTogether answers Produces that have come together on one connection, one at least, where Handle answers
	// one: replies, of which there are as many as requests, are the zero Reply before. It says how many it
	// has answered, which is all, or those up to one with Close or Throttle; those behind a Throttle are asked for once
	// more.
	HandleTogether(ctx context.Context, requests []*Request, replies []Reply) int
}
