package wire

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// sendfileStep limits one sendfile call.
const sendfileStep = 1 << 30

// sysSendfile is unix.Sendfile; tests count through it.
var sysSendfile = unix.Sendfile

// fileSender sends file bytes from the page cache to a TCP socket, preceded by
// bytes that wait in the socket for them (MSG_MORE), so that header and records
// share segments.
type fileSender struct {
	raw      syscall.RawConn
	step     func(fd uintptr) bool
	progress func()
	disk     gate

	pieces [][]byte
	in     int
	off    int64
	left   int
	err    error
}

func (o *output) canSendfile() bool {
	_, ok := o.nc.(*net.TCPConn)
	return ok
}

// sendfile writes the pieces and then n bytes of the file from pos on, and
// returns how many of those were sent.
func (o *output) sendfile(pieces [][]byte, file *os.File, pos int64, n int) (int, error) {
	f := o.files
	if f == nil {
		raw, err := o.nc.(*net.TCPConn).SyscallConn()
		if err != nil {
			return 0, fmt.Errorf("sending a section: %w", err)
		}
		f = &fileSender{raw: raw, progress: o.progress, disk: o.disk}
		f.step = f.run
		o.files = f
	}
	f.pieces, f.in, f.off, f.left, f.err = pieces, int(file.Fd()), pos, n, nil
	err := f.raw.Write(f.step)
	runtime.KeepAlive(file)
	f.pieces = nil
	sent := n - f.left
	o.counters.sendfileBytes.Add(int64(sent))
	if f.err != nil {
		err = f.err
	}
	if err != nil {
		return sent, fmt.Errorf("sending %d bytes of a section, after %d: %w", n, sent, err)
	}
	return sent, nil
}

// run does what the socket will take; false asks to be called again when it is
// writable.
func (f *fileSender) run(fd uintptr) bool {
	for len(f.pieces) > 0 {
		if len(f.pieces[0]) == 0 {
			f.pieces = f.pieces[1:]
			continue
		}
		n, err := unix.SendmsgN(int(fd), f.pieces[0], nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
		switch err {
		case nil:
			f.pieces[0] = f.pieces[0][n:]
			f.progress()
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			f.err = os.NewSyscallError("sendmsg", err)
			return true
		}
	}
	for f.left > 0 {
		f.disk.enter()
		n, err := sysSendfile(int(fd), f.in, &f.off, min(f.left, sendfileStep))
		f.disk.leave()
		if n > 0 {
			f.left -= n
			f.progress()
		}
		switch err {
		case nil:
			if n == 0 {
				f.err = errShortSection
				return true
			}
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		case unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP:
			f.err = errNoSendfile
			return true
		default:
			f.err = os.NewSyscallError("sendfile", err)
			return true
		}
	}
	return true
}
