package wire

import (
	"context"
	"net"
	"testing"
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
