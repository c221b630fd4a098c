package wire

import (
	"io"
	"net"
	"os"
	"syscall"
)

// sysRead reads from a socket that does not block; tests count through it.
var sysRead = directRead

// socketReader reads from a TCP connection. What comes first after a pause it
// reads as much of as has come, in one call, into a buffer that it takes from
// the pool once the socket has something, and gives back where there is nothing
// yet: a connection that waits holds none.
type socketReader struct {
	raw  syscall.RawConn
	step func(fd uintptr) bool
	look func(fd uintptr) // made when it is first wanted

	now   bool   // what has not come yet is not waited for
	p     []byte // where to; nil: into a buffer of the class
	class int8
	buf   *buffer
	n     int
	err   error

	looker
}

// newSocketReader returns nil for what is not a plain TCP connection.
func newSocketReader(nc net.Conn) *socketReader {
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tc.SyscallConn()
	if err != nil {
		return nil // it is closed; so says whoever reads
	}
	r := &socketReader{raw: raw}
	r.step = r.run
	return r
}

// first waits for the first bytes and returns them at the start of a buffer of a
// class.
func (r *socketReader) first(class int8) (*buffer, int, error) {
	r.class, r.buf, r.n, r.err = class, nil, 0, nil
	err := r.raw.Read(r.step)
	if err == nil {
		err = r.err
	}
	b := r.buf
	r.buf = nil
	return b, r.n, err
}

// Read implements io.Reader.
func (r *socketReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	r.p, r.n, r.err = p, 0, nil
	err := r.raw.Read(r.step)
	if err == nil {
		err = r.err
	}
	r.p = nil
	return r.n, err
}

// try reads what has come; 0 and no error: nothing has.
func (r *socketReader) try(p []byte) (int, error) {
	r.now = true
	defer func() { r.now = false }()
	return r.Read(p)
}

// waiting is how much can be read at once.
func (r *socketReader) waiting() int {
	if r.look == nil {
		r.look = func(fd uintptr) { r.n = directWaiting(int(fd)) }
	}
	if r.raw.Control(r.look) != nil {
		return 0
	}
	return r.n
}

// run reads once; false asks to be called again when the socket has something.
func (r *socketReader) run(fd uintptr) bool {
	p, b := r.p, (*buffer)(nil)
	if p == nil {
		b = getClass(r.class)
		p = b.b
	}
	p = p[:min(len(p), directStep)]
	r.woken()
	for {
		n, err := sysRead(int(fd), p)
		if err == syscall.EAGAIN && !r.now && r.may() {
			n, err = r.again(int(fd), p)
		}
		switch {
		case n > 0:
			r.buf, r.n = b, n
			return true
		case err == syscall.EINTR:
			continue
		}
		putBuffer(b)
		switch err {
		case nil:
			r.err = io.EOF
		case syscall.EAGAIN:
			if !r.now {
				r.parks()
			}
			return r.now
		default:
			r.err = os.NewSyscallError("read", err)
		}
		return true
	}
}
