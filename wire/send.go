package wire

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
)

const (
	// sectionCopyMax is the length up to which a section is read into a buffer
	// and written together with its neighbours. Above it sendfile wins; the
	// crossover was measured at about 8 KiB.
	sectionCopyMax = 8 << 10
	// referMin is the length from which bytes are referred to, not copied, in a
	// gathered write.
	referMin = 4 << 10
	// maxVec and maxHeld limit what one gathered write collects.
	maxVec  = 64
	maxHeld = 256 << 10
	// writeStep limits one Write call, so that a reader that is merely slow is
	// seen to make progress before it counts as idle.
	writeStep = 256 << 10
	// directStep limits one call that Go's scheduler is not told of and that copies,
	// directSection one that sends a part of a file, which is not copied.
	directStep    = 256 << 10
	directSection = 1 << 20
)

// A sender collects replies, in order, and writes them with as few system calls
// as it can. It is taken from a pool for as long as something is to be written.
type sender struct {
	buf    *buffer // small pieces, and what was read of sections
	mark   int     // where the piece being built begins in buf
	end    int
	vec    [][]byte
	n      int       // bytes collected
	owed   int64     // what the replies were counted as
	more   bool      // more of the reply follows what is collected
	full   []*buffer // filled before buf, holding pieces not yet written
	bodies []*Body
	times  []timing    // of the requests answered here, where somebody observes
	bufs   net.Buffers // what WriteTo consumes; here so that it is not allocated
	iov    iovecs      // the like, where the socket is written to directly
}

var senderPool = sync.Pool{New: func() any { return new(sender) }}

func getSender() *sender {
	s := senderPool.Get().(*sender)
	s.buf = getClass(0)
	return s
}

// free gives back the sender and the bodies it still holds.
func (s *sender) free() {
	for i, b := range s.bodies {
		b.Release()
		s.bodies[i] = nil
	}
	s.written()
	putBuffer(s.buf)
	s.buf, s.bodies, s.times, s.more, s.owed = nil, s.bodies[:0], s.times[:0], false, 0
	senderPool.Put(s)
}

// note keeps what is to be observed of a request once its reply is written.
func (s *sender) note(t *timing, server *Server) {
	if t.received == 0 {
		return
	}
	t.queued = server.clock()
	s.times = append(s.times, *t)
}

// cut ends the piece being built.
func (s *sender) cut() {
	if s.end > s.mark {
		s.vec = append(s.vec, s.buf.b[s.mark:s.end:s.end])
		s.mark = s.end
	}
}

// add collects one reply, and writes where there is too much to hold. The body
// belongs to the sender from here on, whatever the outcome.
func (s *sender) add(out *output, correlationID int32, tags bool, body *Body) error {
	if body != nil {
		s.bodies = append(s.bodies, body)
	}
	if int64(body.Len()) > math.MaxInt32-headSize {
		return fmt.Errorf("a reply of %d bytes does not fit a frame", body.Len())
	}
	if len(s.buf.b)-s.end < responseHeaderMax {
		if err := s.room(out); err != nil {
			return err
		}
	}
	head := appendResponseHeader(s.buf.b[s.end:s.end], correlationID, tags, body.Len())
	s.end += len(head)
	s.n += len(head)
	if body == nil {
		return nil
	}
	for i := range body.chunks {
		c := &body.chunks[i]
		s.more = i < len(body.chunks)-1
		var err error
		if c.sec != nil {
			err = s.section(out, c.sec)
		} else {
			err = s.bytes(out, c.b)
		}
		if err != nil {
			return err
		}
	}
	if s.more = false; out.corked() {
		return s.flush(out)
	}
	return nil
}

func (s *sender) bytes(out *output, p []byte) error {
	if len(p) >= referMin {
		s.cut()
		s.vec = append(s.vec, p)
		s.n += len(p)
		if len(s.vec) >= maxVec || s.n >= maxHeld {
			return s.flush(out)
		}
		return nil
	}
	if len(p) > len(s.buf.b)-s.end {
		if err := s.room(out); err != nil {
			return err
		}
	}
	s.end += copy(s.buf.b[s.end:], p)
	s.n += len(p)
	return nil
}

// room replaces a full buffer by one of the next size, since more is to come, or
// writes what there is.
func (s *sender) room(out *output) error {
	if s.buf.class == smallClasses-1 {
		return s.flush(out)
	}
	s.cut()
	s.full = append(s.full, s.buf)
	s.buf, s.mark, s.end = getClass(s.buf.class+1), 0, 0
	return nil
}

func (s *sender) section(out *output, sec Section) error {
	n := sec.Len()
	if n <= sectionCopyMax || !out.canSend() {
		return s.copySection(out, sec, 0)
	}
	file, pos := sec.SysFile()
	if file == nil {
		return s.copySection(out, sec, 0)
	}
	s.cut()
	sent, err := out.send(s, file, pos, n)
	s.written()
	if errors.Is(err, errNoSendfile) {
		return s.copySection(out, sec, sent)
	}
	return err
}

// copySection reads the section, from an offset in it, through the buffer. What
// does not lie in memory takes a place at the gate; the rest must not wait for it.
func (s *sender) copySection(out *output, sec Section, from int) error {
	file, pos := sec.SysFile()
	for off := from; off < sec.Len(); {
		if s.end == len(s.buf.b) {
			if err := s.room(out); err != nil {
				return err
			}
		}
		want := min(sec.Len()-off, len(s.buf.b)-s.end)
		n, err := readCached(file, s.buf.b[s.end:s.end+want], pos+int64(off)), error(nil)
		if n < want {
			n, err = out.disk.read(func() (int, error) { return sec.ReadAt(s.buf.b[s.end:s.end+want], int64(off)) })
		}
		if n < want {
			if err == nil || errors.Is(err, io.EOF) {
				err = errShortSection
			}
			return fmt.Errorf("reading %d bytes of a section at %d of %d: %w", want, off, sec.Len(), err)
		}
		s.end += n
		s.n += n
		off += n
	}
	return nil
}

// flush writes what was collected.
func (s *sender) flush(out *output) error {
	s.cut()
	if len(s.vec) == 0 && !out.corked() {
		return nil
	}
	err := out.write(s)
	s.written()
	return err
}

// written forgets what was collected.
func (s *sender) written() {
	clear(s.vec)
	s.vec, s.mark, s.end, s.n = s.vec[:0], 0, 0, 0
	for i, b := range s.full {
		putBuffer(b)
		s.full[i] = nil
	}
	s.full = s.full[:0]
}

// output is the writing side of a connection.
type output struct {
	nc       net.Conn
	progress func(n int) // called whenever bytes were taken
	counters *counters
	disk     *diskGate
	socket   *socketWriter // made when the first reply is sent
}

func (o *output) write(s *sender) error {
	if o.canSend() {
		_, err := o.send(s, nil, 0, 0)
		return err
	}
	if len(s.vec) > 1 && s.n <= writeStep {
		s.bufs = s.vec
		n, err := s.bufs.WriteTo(o.nc)
		s.bufs = nil
		if n > 0 {
			o.progress(int(n))
		}
		return err
	}
	for _, p := range s.vec {
		for len(p) > 0 {
			n, err := o.nc.Write(p[:min(len(p), writeStep)])
			if n > 0 {
				o.progress(int(n))
			}
			if err != nil {
				return err
			}
			p = p[n:]
		}
	}
	return nil
}

// errNoSendfile: the file or the socket cannot do it; the bytes are copied.
var errNoSendfile = errors.New("sendfile is not supported here")

// A gate limits how many do something at once.
type gate chan struct{}

// handlersWidth is how many requests of a kind run at once; Kafka's num.io.threads
// is 8.
const handlersWidth = 16

func (g gate) enter() { g <- struct{}{} }
func (g gate) leave() { <-g }
