package floor

import (
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// sendfile writes an answer: each part's header and its bytes of the file, all
// within one turn of the socket's poller where it has room. Parts go out
// together (TCP_CORK), not each by itself.
func sendfile(nc *net.TCPConn, pieces []piece, at int64) error {
	raw, err := nc.SyscallConn()
	if err != nil {
		return err
	}
	i, head, from := 0, pieces[0].head, at
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		if len(pieces) > 1 {
			if failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 1); failed != nil {
				return true
			}
		}
		for {
			for len(head) > 0 {
				n, err := unix.SendmsgN(int(fd), head, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
				if err == unix.EAGAIN {
					return false
				}
				if err != nil {
					failed = err
					return true
				}
				head = head[n:]
			}
			for end := at + int64(len(pieces[i].body)); from < end; {
				n, err := unix.Sendfile(int(fd), int(pieces[i].f.Fd()), &from, int(end-from))
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
			if i++; i == len(pieces) {
				if i > 1 {
					failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 0)
				}
				return true
			}
			head, from = pieces[i].head, at
		}
	})
	if failed != nil {
		return failed
	}
	return err
}

func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
