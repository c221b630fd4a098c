package wire

import "golang.org/x/sys/unix"

func peerOfSocket(fd int) (ended, gone bool) {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	if n, err := unix.Poll(p, 0); n < 1 || err != nil {
		return false, false
	}
	gone = p[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	return gone || p[0].Revents&unix.POLLRDHUP != 0, gone
}
