package wire

import (
	"io"
	"net"
	"os"
	"syscall"
)

// sysRead is syscall.Read; tests count through it.
var sysRead = syscall.Read

// firstReader reads what comes first after a pause of a TCP connection: as much
// as has come, in one call. It takes a buffer from the pool once the socket has
// something, and gives it back where there is nothing yet, so that a connection
// that waits holds none.
type firstReader struct {
	raw  syscall.RawConn
	step func(fd uintptr) bool

	class int8
	buf   *buffer
	n     int
	err   error
}

// newFirstReader is the read of a firstReader; nil for what is not a plain TCP connection.
func newFirstReader(nc net.Conn) func(class int8) (*buffer, int, error) {
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tc.SyscallConn()
	if err != nil {
		return nil // it is closed; so says whoever reads
	}
	r := &firstReader{raw: raw}
	r.step = r.run
	return r.read
}

// read waits for the first bytes and returns them at the start of a buffer of a
// class.
func (r *firstReader) read(class int8) (*buffer, int, error) {
	r.class, r.buf, r.n, r.err = class, nil, 0, nil
	err := r.raw.Read(r.step)
	if err == nil {
		err = r.err
	}
	b := r.buf
	r.buf = nil
	return b, r.n, err
}

// run reads once; false asks to be called again when the socket has something.
func (r *firstReader) run(fd uintptr) bool {
	b := getClass(r.class)
	for {
		n, err := sysRead(int(fd), b.b)
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
			return false
		default:
			r.err = os.NewSyscallError("read", err)
		}
		return true
	}
}
