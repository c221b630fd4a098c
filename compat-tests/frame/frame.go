// Package frame speaks raw Kafka frames to a server and tells how it answered:
// decoded, closed, or not at all. It chooses no version and retries nothing, so
// that two servers asked the same are compared on the same bytes.
package frame

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Outcome is how a server answered one frame.
type Outcome struct {
	// Response is the decoded answer; nil if there was none.
	Response kmsg.Response
	// Closed: the server closed the connection instead of answering.
	Closed bool
	// Silent: nothing came within the time given.
	Silent bool
	// Bad says why an answer could not be decoded.
	Bad string
	// Correlation is the id of the request that the answer names.
	Correlation int32
	Took        time.Duration
}

// String is the outcome as a person reads it.
func (o Outcome) String() string {
	switch {
	case o.Closed:
		return "connection closed"
	case o.Silent:
		return "no answer"
	case o.Bad != "":
		return "an answer that does not decode: " + o.Bad
	}
	b, err := json.MarshalIndent(o.Response, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Conn is a connection for raw frames.
type Conn struct {
	nc       net.Conn
	id       int32
	ClientID string
	Patience time.Duration // how long an answer may take; 0: 10 s
}

// Dial connects to HOST:PORT.
func Dial(addr string) (*Conn, error) {
	nc, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &Conn{nc: nc, ClientID: "frame"}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.nc.Close() }

// Encode makes a request's frame without its length: header and body, in the
// version the request bears, which need not be one its type knows.
func (c *Conn) Encode(req kmsg.Request) []byte {
	c.id++
	b := kmsg.NewRequestFormatter(kmsg.FormatterClientID(c.ClientID)).AppendRequest(nil, req, c.id)
	return b[4:]
}

// Ask sends a request and reads its answer.
func (c *Conn) Ask(req kmsg.Request) Outcome {
	return c.Send(c.Encode(req), req.ResponseKind())
}

// Send sends a frame's bytes behind their length, and reads one answer as a
// response of the given kind, whose version is set. A kind of nil only waits
// for how the server reacts. An answer to another request is a bad one.
func (c *Conn) Send(frame []byte, kind kmsg.Response) Outcome {
	o := c.SendRaw(sized(frame), kind)
	if o.Response != nil && len(frame) >= 8 {
		if want := int32(binary.BigEndian.Uint32(frame[4:])); o.Correlation != want {
			return Outcome{Bad: fmt.Sprintf("an answer to request %d, not %d", o.Correlation, want), Took: o.Took}
		}
	}
	return o
}

// Push sends a frame's bytes behind their length and reads nothing: for a
// request that has no answer.
func (c *Conn) Push(frame []byte) error {
	c.nc.SetDeadline(time.Now().Add(5 * time.Second))
	_, err := c.nc.Write(sized(frame))
	return err
}

func sized(frame []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
}

// SendRaw sends bytes as they are, length and all.
func (c *Conn) SendRaw(raw []byte, kind kmsg.Response) Outcome {
	patience := c.Patience
	if patience == 0 {
		patience = 10 * time.Second
	}
	start := time.Now()
	c.nc.SetDeadline(start.Add(patience))
	if _, err := c.nc.Write(raw); err != nil {
		return c.failed(err, start)
	}
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		return c.failed(err, start)
	}
	n := int(int32(binary.BigEndian.Uint32(size[:])))
	if n < 4 || n > 200<<20 {
		return Outcome{Bad: fmt.Sprintf("a length of %d", n), Took: time.Since(start)}
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(c.nc, body); err != nil {
		return c.failed(err, start)
	}
	o := Outcome{Response: kind, Correlation: int32(binary.BigEndian.Uint32(body)), Took: time.Since(start)}
	if kind == nil {
		return o
	}
	body = body[4:]
	// The header of ApiVersions' answer has no tags in any version (KIP-511).
	if kind.IsFlexible() && kmsg.Key(kind.Key()) != kmsg.ApiVersions {
		if len(body) == 0 || body[0] != 0 {
			return Outcome{Bad: "a response header with tags", Took: o.Took}
		}
		body = body[1:]
	}
	if err := kind.ReadFrom(body); err != nil {
		return Outcome{Bad: err.Error(), Took: o.Took}
	}
	return o
}

func (c *Conn) failed(err error, start time.Time) Outcome {
	var timeout net.Error
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return Outcome{Silent: true, Took: time.Since(start)}
	}
	return Outcome{Closed: true, Took: time.Since(start)}
}
