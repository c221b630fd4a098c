package raw

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/bench/floor"
)

// patience is how long an answer may take.
const patience = 60 * time.Second

// conn is a connection whose answers are read into one buffer.
type conn struct {
	nc  net.Conn
	buf []byte
	// What lies in buf[from:have] was read behind the last answer.
	from, have int
}

// dial connects; a hello makes the other side a floor.
func dial(addr string, hello []byte) (*conn, error) {
	nc, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	if _, err := nc.Write(hello); err != nil {
		nc.Close()
		return nil, err
	}
	return &conn{nc: nc, buf: make([]byte, 64<<10)}, nil
}

func hello(k floor.Kind, size, batch, parts int) []byte {
	if k == 0 {
		return nil
	}
	return floor.Hello(k, size, batch, parts)
}

func (c *conn) write(frame []byte) error {
	c.nc.SetWriteDeadline(time.Now().Add(patience))
	_, err := c.nc.Write(frame)
	return err
}

// read reads one answer without its length. The bytes are valid until the next.
func (c *conn) read() ([]byte, error) {
	c.nc.SetReadDeadline(time.Now().Add(patience))
	for {
		size := -1
		if c.have-c.from >= 4 {
			size = int(int32(binary.BigEndian.Uint32(c.buf[c.from:])))
			if size < 4 || size > 1<<30 {
				return nil, fmt.Errorf("an answer of %d bytes", size)
			}
			if c.have-c.from >= 4+size {
				b := c.buf[c.from+4 : c.from+4+size]
				c.from += 4 + size
				return b, nil
			}
		}
		if c.from > 0 {
			c.have = copy(c.buf, c.buf[c.from:c.have])
			c.from = 0
		}
		if 4+size > len(c.buf) {
			c.buf = append(c.buf, make([]byte, 4+size-len(c.buf))...)
		}
		n, err := c.nc.Read(c.buf[c.have:])
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		c.have += n
	}
}

// ask sends a request and decodes its answer.
func (c *conn) ask(req kmsg.Request) (kmsg.Response, error) {
	if err := c.write(encode(req)); err != nil {
		return nil, err
	}
	b, err := c.read()
	if err != nil {
		return nil, err
	}
	return decode(req, b)
}

func decode(req kmsg.Request, b []byte) (kmsg.Response, error) {
	resp := req.ResponseKind()
	b = b[4:]
	if resp.IsFlexible() && kmsg.Key(resp.Key()) != kmsg.ApiVersions {
		if len(b) == 0 || b[0] != 0 {
			return nil, fmt.Errorf("an answer to %s whose header has tags", kmsg.NameForKey(req.Key()))
		}
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		return nil, fmt.Errorf("decode the answer to %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	return resp, nil
}

func failed(what string, code int16) error {
	return fmt.Errorf("%s: %w", what, kerr.ErrorForCode(code))
}
