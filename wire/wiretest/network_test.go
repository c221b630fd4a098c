package wiretest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect returns both ends of a connection from host a to host b.
func connect(t *testing.T, n *Network) (a, b net.Conn) {
	t.Helper()
	l, err := n.Listen("b:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = n.Dialer("a")(context.Background(), "tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func bubble(t *testing.T, f func(t *testing.T, n *Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, New()) })
}

func TestBothWays(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network) {
		a, b := connect(t, n)
		if a.RemoteAddr().String() != b.LocalAddr().String() || b.RemoteAddr().String() != a.LocalAddr().String() {
			t.Errorf("%v-%v, %v-%v", a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr())
		}
		big := bytes.Repeat([]byte("0123456789"), 200000)
		for _, ends := range [][2]net.Conn{{a, b}, {b, a}} {
			go func() {
				if m, err := ends[0].Write(big); m != len(big) || err != nil {
					t.Errorf("wrote %d bytes, error %v", m, err)
				}
			}()
			got := make([]byte, len(big))
			if _, err := io.ReadFull(ends[1], got); err != nil || !bytes.Equal(got, big) {
				t.Errorf("read something else, error %v", err)
			}
		}
		if a.(*Conn).CloseWrite() != nil {
			t.Error("CloseWrite failed")
		}
		if _, err := b.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("after a FIN: %v", err)
		}
		io.WriteString(b, "still")
		b.Close()
		if got, err := io.ReadAll(a); string(got) != "still" || err != nil {
			t.Errorf("after a half-close: %q, %v", got, err)
		}
		if _, err := a.Write([]byte("x")); err == nil {
			t.Error("wrote after CloseWrite")
		}
		a.Close()
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read of a closed connection: %v", err)
		}
		if err := a.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second Close: %v", err)
		}
		if n.Conns() != 0 {
			t.Errorf("%d ends are open", n.Conns())
		}
	})
}

func TestCloseWithUnreadBytesResets(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network) {
		a, b := connect(t, n)
		io.WriteString(a, "unread")
		b.Close()
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: %v", err)
		}
		if _, err := a.Write([]byte("x")); err == nil {
			t.Error("wrote to a closed end")
		}
		a.Close()
	})
}

func TestDeadlines(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network) {
		n.SetBuffer(100)
		a, b := connect(t, n)
		defer a.Close()
		defer b.Close()
		start := time.Now()
		a.SetReadDeadline(start.Add(time.Second))
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("read: %v after %v", err, time.Since(start))
		}
		var timeout net.Error
		_, err := a.Read(make([]byte, 1))
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("not a time-out: %v", err)
		}
		a.SetDeadline(time.Now().Add(time.Second))
		if m, err := a.Write(make([]byte, 101)); m != 100 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("wrote %d bytes, error %v", m, err)
		}
		a.SetDeadline(time.Time{})
		io.ReadFull(b, make([]byte, 100))
		if _, err := a.Write([]byte("x")); err != nil {
			t.Errorf("write after a deadline was lifted: %v", err)
		}
		go func() {
			time.Sleep(time.Second)
			b.SetReadDeadline(time.Unix(1, 0))
		}()
		b.Read(make([]byte, 1))
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a read was not woken: %v", err)
		}
		b.SetWriteDeadline(time.Unix(1, 0))
		if _, err := b.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write past its deadline: %v", err)
		}
	})
}

func TestDelay(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network) {
		n.Delay("a", "b", 50*time.Millisecond)
		start := time.Now()
		a, b := connect(t, n)
		defer b.Close()
		if d := time.Since(start); d != 100*time.Millisecond {
			t.Errorf("connecting took %v, want a round trip", d)
		}
		start = time.Now()
		io.WriteString(a, "one")
		time.Sleep(10 * time.Millisecond)
		io.WriteString(a, "two")
		a.Close()
		buf := make([]byte, 10)
		for i, want := range []string{"one", "two", ""} {
			m, err := b.Read(buf)
			if string(buf[:m]) != want || (err == io.EOF) != (want == "") {
				t.Fatalf("read %q, %v", buf[:m], err)
			}
			if d := time.Since(start); d != 50*time.Millisecond+time.Duration(min(i, 1))*10*time.Millisecond {
				t.Errorf("%q arrived after %v", want, d)
			}
		}
	})
}

func TestCut(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network) {
		a, b := connect(t, n)
		defer a.Close()
		defer b.Close()
		io.WriteString(a, "before")
		n.Cut("b", "a")
		io.WriteString(a, "after")
		b.SetReadDeadline(time.Now().Add(time.Hour))
		if m, err := b.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read %d bytes through a cut, error %v", m, err)
		}
		b.SetReadDeadline(time.Time{})
		l, err := n.Listen("b:77")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := n.Dialer("a")(ctx, "tcp", "b:77"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dialled through a cut: %v", err)
		}
		c, err := n.Dialer("c")(context.Background(), "tcp", "b:77")
		if err != nil {
			t.Fatalf("the cut concerns others too: %v", err)
		}
		c.Close()
		time.AfterFunc(time.Second, func() { n.Heal("a", "b") })
		d, err := n.Dialer("a")(context.Background(), "tcp", "b:77")
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
		got := make([]byte, 11)
		if _, err := io.ReadFull(b, got); string(got) != "beforeafter" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		n.Isolate("a")
		io.WriteString(b, "x")
		a.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := a.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read on an isolated host: %v", err)
		}
		a.SetReadDeadline(time.Time{})
		n.Rejoin("a")
		if m, err := a.Read(got); m != 1 || err != nil {
			t.Errorf("read %d bytes, %v after Rejoin", m, err)
		}
	})
}

func TestReset(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network) {
		a, b := connect(t, n)
		io.WriteString(a, "lost")
		time.AfterFunc(time.Second, func() { n.Reset("a", "b") })
		_, err := a.Read(make([]byte, 1))
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a reads %v", err)
		}
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("b reads %v", err)
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("b writes %v", err)
		}
		a.Close()
		b.Close()
	})
}

func TestListen(t *testing.T) {
	bubble(t, func(t *testing.T, n *Network) {
		ctx := context.Background()
		if _, err := n.Dial(ctx, "tcp", "b:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dialling nobody: %v", err)
		}
		l, err := n.Listen("b:1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Listen("b:1"); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("listening twice: %v", err)
		}
		// By name and by the address it was given.
		for _, addr := range []string{"b:1", l.Addr().String()} {
			c, err := n.Dial(ctx, "tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			s, _ := l.Accept()
			s.Close()
			c.Close()
		}
		waiting, err := n.Dial(ctx, "tcp", "b:1")
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan error)
		l.Close()
		go func() {
			_, err := l.Accept()
			accepted <- err
		}()
		if err := <-accepted; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept of a closed listener: %v", err)
		}
		if _, err := waiting.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a connection that nobody accepted: %v", err)
		}
		waiting.Close()
		if l.Close() == nil {
			t.Error("closed twice")
		}
		if n.Conns() != 0 {
			t.Errorf("%d ends are open", n.Conns())
		}
		if l, err = n.Listen("b:1"); err != nil {
			t.Errorf("listening again: %v", err)
		}
		l.Close()
		for _, bad := range []string{"b", "b:x", "b:70000"} {
			if _, err := n.Listen(bad); err == nil {
				t.Errorf("listens on %q", bad)
			}
			if _, err := n.Dial(ctx, "tcp", bad); err == nil {
				t.Errorf("dials %q", bad)
			}
		}
		local, err := n.Listen("127.0.0.1:5")
		if err != nil {
			t.Fatal(err)
		}
		defer local.Close()
		c, err := n.Dial(ctx, "tcp", "localhost:5")
		if err != nil || !strings.HasPrefix(c.RemoteAddr().String(), "127.0.0.1:") {
			t.Errorf("localhost: %v", err)
		}
		c.Close()
	})
}
