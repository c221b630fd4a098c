package wire

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// sendfileStep limits one sendfile call that the scheduler knows of.
const sendfileStep = 1 << 30

// sysSendfile is for what may have to be read from the disk first, sysSendCached
// for what is in the page cache; tests count through them.
var (
	sysSendfile   = unix.Sendfile
	sysSendCached = directSendfile
	sysSendmsg    = directSendmsg
	sysSetsockopt = directSetsockopt
)

// iovecs are what one gathered write is made of.
type iovecs [16]unix.Iovec

// socketWriter writes to a TCP connection: bytes, and parts of files, which go
// from the page cache to the socket. Bytes before a part of a file wait in the
// socket for it (MSG_MORE), so that header and records share segments.
type socketWriter struct {
	raw      syscall.RawConn
	step     func(fd uintptr) bool
	progress func(n int)
	disk     *diskGate

	// cork is whether more of the reply follows: what is sent meanwhile does not go
	// out, each part with a wake-up of the peer, before there is a whole segment.
	cork, corked bool

	pieces [][]byte
	iov    *iovecs
	in     int
	off    int64
	left   int
	err    error
}

// canSend says whether send may be used.
func (o *output) canSend() bool {
	_, ok := o.nc.(*net.TCPConn)
	return ok
}

// cut ends the socket both ways without closing it; false if it is none that send
// is used on. It fails only where the connection has gone already.
func (o *output) cut() bool {
	tc, ok := o.nc.(*net.TCPConn)
	if ok {
		tc.CloseWrite()
		tc.CloseRead()
	}
	return ok
}

// send writes what the sender has collected, and then n bytes of a file from pos
// on, and returns how many of those were sent. Without a file n is 0.
func (o *output) send(s *sender, file *os.File, pos int64, n int) (int, error) {
	w := o.socket
	if w == nil {
		raw, err := o.nc.(*net.TCPConn).SyscallConn()
		if err != nil {
			return 0, fmt.Errorf("sending a reply: %w", err)
		}
		w = &socketWriter{raw: raw, progress: o.progress, disk: o.disk}
		w.step = w.run
		o.socket = w
	}
	w.pieces, w.iov, w.in, w.off, w.left, w.err = s.vec, &s.iov, -1, pos, n, nil
	w.cork = s.more && (file != nil || w.corked)
	if file != nil {
		w.in = int(file.Fd())
	}
	err := w.raw.Write(w.step)
	runtime.KeepAlive(file)
	w.pieces, w.iov = nil, nil
	if w.err != nil {
		err = w.err
	}
	sent := n - w.left
	if file == nil {
		return 0, err
	}
	o.counters.sendfileBytes.Add(int64(sent))
	if err != nil {
		return sent, fmt.Errorf("sending %d bytes of a section, after %d: %w", n, sent, err)
	}
	return sent, nil
}

// corked says whether something is held back until the reply's end.
func (o *output) corked() bool { return o.socket != nil && o.socket.corked }

// run does what the socket will take; false asks to be called again when it is
// writable.
func (w *socketWriter) run(fd uintptr) bool {
	if w.cork && !w.corked {
		w.setCork(int(fd))
	}
	if !w.sendAll(fd) {
		return false
	}
	if w.err == nil && w.corked && !w.cork {
		w.setCork(int(fd))
	}
	return true
}

// setCork goes without where the socket does not hold back, as those of MPTCP on
// older systems.
func (w *socketWriter) setCork(fd int) {
	switch err := sysSetsockopt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, w.cork); {
	case err == nil:
		w.corked = w.cork
	case w.corked:
		w.err = os.NewSyscallError("setsockopt", err)
	}
}

func (w *socketWriter) sendAll(fd uintptr) bool {
	for len(w.pieces) > 0 {
		vec, flags := w.gather()
		if len(vec) == 0 {
			break
		}
		n, err := sysSendmsg(int(fd), vec, flags)
		switch err {
		case nil:
			w.took(n)
			w.progress(n)
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			w.err = os.NewSyscallError("sendmsg", err)
			return true
		}
	}
	for w.left > 0 {
		n, err := w.sendfile(int(fd))
		if n > 0 {
			w.left -= n
			w.progress(n)
		}
		switch err {
		case nil:
			if n == 0 {
				w.err = errShortSection
				return true
			}
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP:
			w.err = errNoSendfile
			return true
		default:
			w.err = os.NewSyscallError("sendfile", err)
			return true
		}
	}
	return true
}

// sendfile sends what comes next of the file. A thread that waits for the disk
// is one that others have to do without: it takes a place at the gate. What lies in
// memory does not wait for those.
func (w *socketWriter) sendfile(fd int) (int, error) {
	switch n := min(w.left, directSection); {
	case !inMemory(w.in, w.off, n):
		return w.disk.send(func() (int, error) {
			return sysSendfile(fd, w.in, &w.off, min(w.left, sendfileStep))
		})
	case w.disk.stirred():
		return sysSendfile(fd, w.in, &w.off, n)
	default:
		return sysSendCached(fd, w.in, &w.off, n)
	}
}

// gather fills the vector with pieces, and says whether more is to follow them.
func (w *socketWriter) gather() (vec []unix.Iovec, flags int) {
	k, bytes := 0, 0
	more := w.left > 0
	for _, p := range w.pieces {
		if len(p) == 0 {
			continue
		}
		if k == len(w.iov) || bytes == directStep {
			more = true
			break
		}
		n := min(len(p), directStep-bytes)
		w.iov[k].Base = &p[0]
		w.iov[k].SetLen(n)
		k, bytes, more = k+1, bytes+n, more || n < len(p)
	}
	flags = unix.MSG_NOSIGNAL
	if more {
		flags |= unix.MSG_MORE
	}
	return w.iov[:k], flags
}

// took goes past n bytes of the pieces.
func (w *socketWriter) took(n int) {
	clear(w.iov[:]) // a pooled sender holds on to nothing
	for len(w.pieces) > 0 && n >= len(w.pieces[0]) {
		n -= len(w.pieces[0])
		w.pieces = w.pieces[1:]
	}
	if n > 0 {
		w.pieces[0] = w.pieces[0][n:]
	}
}
