package floor

import (
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// sendfile writes a header and a part of a file, all within one turn of the
// socket's poller where it has room.
func sendfile(nc *net.TCPConn, head []byte, f *os.File, at int64, size int) error {
	raw, err := nc.SyscallConn()
	if err != nil {
		return err
	}
	left, end := head, at+int64(size)
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		for len(left) > 0 {
			n, err := unix.SendmsgN(int(fd), left, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
			if err == unix.EAGAIN {
				return false
			}
			if err != nil {
				failed = err
				return true
			}
			left = left[n:]
		}
		for at < end {
			n, err := unix.Sendfile(int(fd), int(f.Fd()), &at, int(end-at))
			if err == unix.EAGAIN {
				return false
			}
			if err == nil && n == 0 {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				failed = err
				return true
			}
		}
		return true
	})
	if failed != nil {
		return failed
	}
	return err
}

func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
