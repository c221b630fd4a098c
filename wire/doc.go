// Package wire speaks the Kafka protocol over a byte stream: it accepts
// connections, cuts the stream into frames, parses request headers, keeps
// replies in the order Kafka's clients rely on, and moves bytes of segment
// files to sockets. It also holds the client that one broker uses to talk to
// another.
//
// It knows no topic, no partition and no disk: what a request means is the
// business of the [Handler], and file bytes reach it as [Section] values.
//
// What it promises:
//
//   - Requests of one connection are handled in the order they arrived and
//     answered in that order. Only Produce may overlap: a Produce is handled
//     while at most 31 earlier Produces of its connection still wait; any other
//     request starts when everything before it has been answered.
//   - No memory is allocated on the word of a length field: buffers grow as
//     bytes arrive, and what may be held by requests in progress is limited by
//     one budget (queued.max.request.bytes).
//   - A malformed frame ends its connection, after the replies that are due
//     before it, with one rate-limited line in the log. It never panics.
//   - Every Section that a handler hands over is released exactly once,
//     whatever becomes of the connection.
//   - An idle connection costs one goroutine and no buffer.
package wire
