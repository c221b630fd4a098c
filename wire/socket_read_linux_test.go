package wire

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// overTCP serves a connection of its own on loopback. end closes both.
func overTCP(t *testing.T, s *Server) (nc net.Conn, end func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, "PLAINTEXT", l) }()
	if nc, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	return nc, func() {
		nc.Close()
		cancel()
		s.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// Large Produces that have come together are answered together; one of which a
// part is missing holds up no answer.
func TestLargeProducesAreAnsweredTogether(t *testing.T) {
	const size = 66 << 10
	body := strings.Repeat("x", size)
	begin := make(chan struct{})
	var handled atomic.Int32
	s := NewServer(ServerOptions{ReceiveBuffer: 400 << 10, Handler: fake{handle: func(_ context.Context, r *Request) Reply {
		if handled.Add(1) == 1 {
			<-begin // the small one; meanwhile the others come
		}
		return answer(fmt.Sprint(len(r.Body)))
	}}})
	nc, end := overTCP(t, s)
	real := sysSendmsg
	defer func() { sysSendmsg = real }()
	defer end() // when it returns, the connection's goroutine has ended
	p := &peer{t: t, nc: nc}
	p.produce(3, "small")
	var sent []byte
	for i := range int32(3) {
		sent = append(sent, frame(keyProduce, 7, i, body)...)
	}
	cut := len(sent) - size/2 // of the third, one half
	p.send(sent[:cut])
	// The other side has it all once nothing is left to be sent, or acknowledged.
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for left, deadline := 1, time.Now().Add(time.Minute); left > 0 || handled.Load() == 0; time.Sleep(time.Millisecond) {
		if err := raw.Control(func(fd uintptr) { left, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Skip("the system's buffers are too small")
		}
	}
	var writes atomic.Int32
	sysSendmsg = func(fd int, vec []unix.Iovec, flags int) (int, error) {
		writes.Add(1)
		return real(fd, vec, flags)
	}
	close(begin)
	p.expect(3, "5")
	for i := range int32(2) {
		p.expect(i, fmt.Sprint(size))
	}
	if n := writes.Load(); n != 2 {
		t.Errorf("the first answer and the two behind it in %d writes", n)
	}
	p.send(sent[cut:])
	p.expect(2, fmt.Sprint(size))
}

// A small request over TCP is read in one call, and several that have come
// together are too.
func TestOneReadForEachRequest(t *testing.T) {
	reads, read := 0, 0 // on the connection's goroutine, before its reply
	defer func() { sysRead = directRead }()
	sysRead = func(fd int, p []byte) (int, error) {
		n, err := directRead(fd, p)
		if n > 0 {
			reads++
			read += n
		}
		return n, err
	}
	s := NewServer(ServerOptions{Handler: fake{handle: func(_ context.Context, r *Request) Reply { return answer(string(r.Body)) }}})
	nc, end := overTCP(t, s)
	p := &peer{t: t, nc: nc}
	sent := 0
	for i := range int32(20) {
		small := frame(keyProduce, 7, i, "small")
		sent += len(small)
		p.send(small)
		p.expect(i, "small")
	}
	a, b, c := frame(keyProduce, 7, 20, "a"), frame(keyProduce, 7, 21, "b"), frame(keyProduce, 7, 22, "c")
	sent += len(a) + len(b) + len(c)
	p.send(a, b, c)
	for i, body := range []string{"a", "b", "c"} {
		p.expect(int32(20+i), body)
	}
	end()                            // when it returns, the connection's goroutine has ended
	if reads != 21 || read != sent { // what is read after the first read is not counted
		t.Errorf("%d reads for 20 requests and three that came together, which took %d bytes of %d", reads, read, sent)
	}
}
