package wire

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Calls are system calls on sockets, for tests of whole brokers. A call is counted
// before it is made, so that whoever has seen what it brought finds it counted; but
// reads are when they have come back.
type Calls struct {
	Reads     atomic.Int64 // that brought something
	Looks     atomic.Int64 // reads that did not
	Sends     atomic.Int64
	Sendfiles atomic.Int64
	Options   atomic.Int64 // set on a socket
}

// CountCalls counts all calls up to the end of what it returns. No server runs when it
// is called, nor at that end.
func CountCalls() (c *Calls, end func()) {
	c = new(Calls)
	read, send, file, cached, option := sysRead, sysSendmsg, sysSendfile, sysSendCached, sysSetsockopt
	sysRead = func(fd int, p []byte) (int, error) {
		n, err := read(fd, p)
		if n > 0 {
			c.Reads.Add(1)
		} else {
			c.Looks.Add(1)
		}
		return n, err
	}
	sysSendmsg = func(fd int, vec []unix.Iovec, flags int) (int, error) {
		c.Sends.Add(1)
		return send(fd, vec, flags)
	}
	sysSendfile = func(out, in int, off *int64, n int) (int, error) {
		c.Sendfiles.Add(1)
		return file(out, in, off, n)
	}
	sysSendCached = func(out, in int, off *int64, n int) (int, error) {
		c.Sendfiles.Add(1)
		return cached(out, in, off, n)
	}
	sysSetsockopt = func(fd, level, name int, on bool) error {
		c.Options.Add(1)
		return option(fd, level, name, on)
	}
	return c, func() {
		sysRead, sysSendmsg, sysSendfile, sysSendCached, sysSetsockopt = read, send, file, cached, option
	}
}
