package wire

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Section is a run of bytes of a file that will not change while the Section
// is held. The server releases it once its last byte was written or the reply
// was given up. One that holds its bytes in memory, or makes them there as it is
// read, says how many with a method Memory() int; it is read in order, again only
// from its start.
type Section interface {
	// Len is the number of bytes announced in the reply.
	Len() int
	// ReadAt reads at an offset relative to the start of the section.
	ReadAt(p []byte, off int64) (int, error)
	// SysFile gives the file and the position of the section's first byte in
	// it, for sendfile(2); the file is nil if there is no such file.
	SysFile() (*os.File, int64)
	// Release gives the section back. It is called exactly once.
	Release()
}

// errShortSection means that a section yielded fewer bytes than it announced.
// The length is on the wire by then, so the connection cannot be saved.
var errShortSection = errors.New("section yielded fewer bytes than announced")

// chunk is a run of bytes, or a section. While a fetch reply is being encoded,
// from and to delimit bytes of a buffer that may still move.
type chunk struct {
	b        []byte
	sec      Section
	from, to int
}

// A Body is the body of a reply: a list of chunks, each bytes or a section. It
// is written once; after a handler has returned it the Body belongs to the
// server and may be reused, so a handler must not return the same Body twice.
type Body struct {
	n      int
	chunks []chunk
	first  [1]chunk
	// buf backs byte chunks made by this package's encoders and is reused with
	// the Body; nil for bytes that belong to others.
	buf    []byte
	pooled bool
}

// maxPooledReply bounds what an encoder's buffer may keep while it waits in the
// pool, so that one huge Metadata reply does not stay resident.
const maxPooledReply = 64 << 10

var bodyPool = sync.Pool{New: func() any { return new(Body) }}

// NewBody returns a Body of the given bytes, which must not change until the
// reply has been written.
func NewBody(b []byte) *Body {
	body := &Body{}
	if len(b) > 0 {
		body.Append(b)
	}
	return body
}

func pooledBody() *Body {
	b := bodyPool.Get().(*Body)
	b.pooled = true
	return b
}

// Append adds bytes, which must not change until the reply has been written.
func (b *Body) Append(p []byte) {
	if b.chunks == nil {
		b.chunks = b.first[:0]
	}
	b.chunks = append(b.chunks, chunk{b: p})
	b.n += len(p)
}

// AppendSection adds a section; the Body owns it from here on.
func (b *Body) AppendSection(s Section) {
	if b.chunks == nil {
		b.chunks = b.first[:0]
	}
	b.chunks = append(b.chunks, chunk{sec: s})
	b.n += s.Len()
}

// Len is the number of bytes of the body.
func (b *Body) Len() int {
	if b == nil {
		return 0
	}
	return b.n
}

// memory is how much the body keeps in memory while it is written: its bytes,
// and what is copied of small sections.
func (b *Body) memory() int64 {
	if b == nil {
		return 0
	}
	var bytes, copied int
	for i := range b.chunks {
		c := &b.chunks[i]
		switch {
		case c.sec == nil:
			bytes += len(c.b)
		case held(c.sec) > 0:
			bytes += held(c.sec)
		case c.sec.Len() <= sectionCopyMax:
			copied += c.sec.Len()
		}
	}
	return int64(bytes + min(copied, maxHeld))
}

// held is what a section that is made in memory says it holds.
func held(s Section) int {
	if m, ok := s.(interface{ Memory() int }); ok {
		return m.Memory()
	}
	return 0
}

// Bytes copies the body into one slice, reading its sections. It is meant for
// envelopes and tests; the Body can still be written afterwards.
func (b *Body) Bytes() ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	out := make([]byte, 0, b.n)
	for _, c := range b.chunks {
		if c.sec == nil {
			out = append(out, c.b...)
			continue
		}
		at := len(out)
		out = out[:at+c.sec.Len()]
		if n, err := c.sec.ReadAt(out[at:], 0); n < c.sec.Len() {
			return nil, fmt.Errorf("reading a section of %d bytes: %w", c.sec.Len(), errors.Join(errShortSection, err))
		}
	}
	return out, nil
}

// Release gives back every section of a Body that will not be written. The
// server calls it for the bodies it was given.
func (b *Body) Release() {
	if b == nil {
		return
	}
	for i := range b.chunks {
		if s := b.chunks[i].sec; s != nil {
			b.chunks[i].sec = nil
			s.Release()
		}
	}
	if !b.pooled {
		b.chunks, b.n = nil, 0
		return
	}
	clear(b.chunks)
	b.chunks = b.chunks[:0]
	if cap(b.chunks) > 256 {
		b.chunks = nil
	}
	b.n = 0
	if cap(b.buf) > maxPooledReply {
		b.buf = nil
	}
	b.buf = b.buf[:0]
	b.pooled = false
	bodyPool.Put(b)
}

// Encode returns the body of a response, whose version must be set.
func Encode(resp kmsg.Response) *Body {
	b := pooledBody()
	b.buf = resp.AppendTo(b.buf[:0])
	b.Append(b.buf)
	return b
}
