package wire

import (
	"net"
	"syscall"
)

// peerOf looks what has become of the peer of a connection that nobody reads from,
// because its request is being handled: ended says that it sends no more, and gone
// that it does not take anything either. One that has just ended may be gone as well
// and not have said so, or still wait for its answer.
func peerOf(nc net.Conn) (ended, gone bool) {
	if p, ok := nc.(interface{ Peer() (ended, gone bool) }); ok {
		return p.Peer() // a network that is no system's
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return false, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false, false // it is closed; whoever has closed it sees to the rest
	}
	raw.Control(func(fd uintptr) { ended, gone = peerOfSocket(int(fd)) })
	return ended, gone
}
