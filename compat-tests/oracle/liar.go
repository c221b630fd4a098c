package oracle

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Lie is a fault planted between the oracle and a server, to show that the
// oracle finds it. What it changes in requests and answers goes on changed.
type Lie struct {
	Request func(req kmsg.Request)
	Answer  func(req kmsg.Request, resp kmsg.Response)
	// Down is told the server's data directory while it is down between its end and
	// its new start.
	Down func(dir string) error
}

// Liar stands in front of a server and tells a lie.
type Liar struct {
	Addr     string
	upstream string
	lie      Lie
	l        net.Listener
	mu       sync.Mutex
	conns    []net.Conn
}

// NewLiar listens on a free port of 127.0.0.1 in front of a server.
func NewLiar(upstream string, lie Lie) (*Liar, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening in front of %s: %w", upstream, err)
	}
	x := &Liar{Addr: l.Addr().String(), upstream: upstream, lie: lie, l: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go x.serve(c)
		}
	}()
	return x, nil
}

// Close ends it and all its connections.
func (x *Liar) Close() {
	x.l.Close()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.conns {
		c.Close()
	}
}

func (x *Liar) serve(client net.Conn) {
	server, err := net.Dial("tcp", x.upstream)
	if err != nil {
		client.Close()
		return
	}
	x.mu.Lock()
	x.conns = append(x.conns, client, server)
	x.mu.Unlock()
	var mu sync.Mutex
	asked := map[int32]kmsg.Request{} // by correlation id, as the client sent it
	go func() {
		defer server.Close()
		for {
			b, err := readFrame(client)
			if err != nil {
				return
			}
			if req, body := decodeRequest(b); req != nil {
				mu.Lock()
				asked[int32(binary.BigEndian.Uint32(b[4:]))] = req
				mu.Unlock()
				if x.lie.Request != nil {
					changed, _ := decodeRequest(b)
					x.lie.Request(changed)
					b = changed.AppendTo(b[:len(b)-body])
				}
			}
			if writeFrame(server, b) != nil {
				return
			}
		}
	}()
	defer client.Close()
	for {
		b, err := readFrame(server)
		if err != nil || len(b) < 4 {
			return
		}
		id := int32(binary.BigEndian.Uint32(b))
		mu.Lock()
		req := asked[id]
		delete(asked, id)
		mu.Unlock()
		if req != nil && x.lie.Answer != nil {
			resp := req.ResponseKind()
			resp.SetVersion(req.GetVersion())
			head := 4
			if resp.IsFlexible() && kmsg.Key(resp.Key()) != kmsg.ApiVersions {
				head = 5
			}
			if len(b) >= head && resp.ReadFrom(b[head:]) == nil {
				x.lie.Answer(req, resp)
				b = resp.AppendTo(b[:head:head])
			}
		}
		if writeFrame(client, b) != nil {
			return
		}
	}
}

// decodeRequest decodes a frame, and says how long its body is; nil if it is
// none that can be.
func decodeRequest(b []byte) (kmsg.Request, int) {
	if len(b) < 10 {
		return nil, 0
	}
	key, version := int16(binary.BigEndian.Uint16(b)), int16(binary.BigEndian.Uint16(b[2:]))
	req := kmsg.RequestForKey(key)
	if req == nil || version < 0 || version > req.MaxVersion() {
		return nil, 0
	}
	req.SetVersion(version)
	at := 10
	if n := int16(binary.BigEndian.Uint16(b[8:])); n > 0 {
		at += int(n)
	}
	if req.IsFlexible() {
		at++ // no tags
	}
	if at > len(b) || req.ReadFrom(b[at:]) != nil {
		return nil, 0
	}
	return req, len(b) - at
}

func readFrame(c net.Conn) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > 200<<20 {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(c, b)
	return b, err
}

func writeFrame(c net.Conn, b []byte) error {
	_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}
