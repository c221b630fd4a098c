package wire

import (
	"context"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// SendBuffer and ReceiveBuffer are the sizes of a connection's socket buffers.
// Linux tells twice what was asked for.
func TestSocketBuffers(t *testing.T) {
	sizes := func(o ServerOptions) (send, receive int) {
		o.Handler = nobody{}
		s := NewServer(o)
		_, end := overTCP(t, s)
		defer end()
		for s.Stats().Accepted == 0 {
			time.Sleep(time.Millisecond)
		}
		s.mu.Lock()
		for c := range s.conns {
			raw, err := c.nc.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			if err := raw.Control(func(fd uintptr) {
				send, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
				receive, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
			}); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Unlock()
		return send, receive
	}
	if send, receive := sizes(ServerOptions{SendBuffer: 30000, ReceiveBuffer: 40000}); send != 60000 || receive != 80000 {
		t.Errorf("buffers of %d and %d bytes", send, receive)
	}
	if send, receive := sizes(ServerOptions{}); send == 60000 || receive == 80000 {
		t.Errorf("not set: buffers of %d and %d bytes", send, receive)
	}
}

// nobody serves nothing.
type nobody struct{}

func (nobody) Serves(string, int16, int16) bool { return false }

func (nobody) Handle(context.Context, *Request) Reply { return Reply{Close: true} }
