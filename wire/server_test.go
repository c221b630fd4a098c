package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"millrace/wire/wiretest"
)

func echo() fake {
	return fake{handle: func(_ context.Context, r *Request) Reply { return answer("ok " + string(r.Body)) }}
}

func TestRequestAndConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen *Request
		w := newWorld(t, ServerOptions{Handler: fake{handle: func(ctx context.Context, r *Request) Reply {
			seen = r
			return Reply{}
		}}})
		defer w.close()
		p := w.dialTo("10.1.2.3", "broker:9093")
		defer p.nc.Close()
		p.other(42, "body")
		p.expect(42, "")
		c := seen.Conn
		if seen.Key != 3 || seen.Version != 1 || seen.CorrelationID != 42 || *seen.ClientID != "c" || string(seen.Body) != "body" || seen.HeaderVersion != 1 {
			t.Errorf("request %+v", seen)
		}
		if c.Listener != "INTERNAL" || c.Principal != "User:ANONYMOUS" || c.Remote.Addr() != netip.MustParseAddr("10.1.2.3") || c.Local.Port() != 9093 || c.ID == 0 {
			t.Errorf("connection %+v", c)
		}
		if c.Context().Err() != nil {
			t.Error("the context of an open connection is done")
		}
		if !seen.Received.Equal(time.Now()) {
			t.Errorf("received %v, now %v", seen.Received, time.Now())
		}
		p.nc.Close()
		synctest.Wait()
		if context.Cause(c.Context()) != ErrClosed {
			t.Errorf("the context of a closed connection says %v", context.Cause(c.Context()))
		}
		seen.Waiting() // late, and harmless
		(&Request{Conn: &Conn{}}).Waiting()
		if (&Conn{}).Context().Err() != nil {
			t.Error("a Conn made by hand has no context")
		}
	})
}

func TestResponseHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ServerOptions{Handler: echo()})
		defer w.close()
		p := w.dial()
		defer p.nc.Close()
		p.send(frame(3, 8, 1, "m"))
		p.expect(1, "ok m")
		p.send(frame(3, 9, 2, "m"))
		p.expect(2, "\x00ok m")
		p.send(frame(keyApiVersions, 3, 3, "v"))
		p.expect(3, "ok v")
		// Of a version that nobody knows the handler sees no body (KIP-511).
		p.send(frame(keyApiVersions, 99, 4, "v"))
		p.expect(4, "ok ")
		p.send(frame(keyApiVersions, -1, 5, "v"))
		p.expect(5, "ok ")
	})
}

func TestServesDecidesByListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := echo()
		h.serves = func(listener string, key, version int16) bool { return listener == "INTERNAL" && key == 1000 }
		w := newWorld(t, ServerOptions{Handler: h})
		defer w.close()
		p := w.dialTo("other", "broker:9093")
		defer p.nc.Close()
		p.send(frame(1000, 0, 1, "raft"))
		p.expect(1, "ok raft")
		q := w.dial()
		q.send(frame(1000, 0, 1, "raft"))
		q.ended()
	})
}

func TestLogLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, logs := observed()
		w := newWorld(t, ServerOptions{Handler: echo(), Logger: logger})
		defer w.close()
		p := w.dial()
		p.send([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
		p.ended()
		synctest.Wait()
		if logs.Len() != 1 || !strings.Contains(fmt.Sprint(logs.All()[0].ContextMap()), "looks like an HTTP request") {
			t.Fatalf("logged %v", logs.All())
		}
		logs.TakeAll()
		time.Sleep(time.Second)
		begun := time.Now()
		for range 100 {
			p := w.dial()
			p.send([]byte{0xff, 0xff, 0xff, 0xff})
			p.ended()
		}
		// Another kind of line is not held back by these.
		p = w.dial()
		p.send([]byte("\x00\x00\x00\x08\x00\x00\x00\x03\x00\x00\x00\x01"))
		p.ended()
		synctest.Wait()
		if n := logs.Len(); n < 2 || n > 2+int(time.Since(begun)/time.Second) {
			t.Errorf("100 bad connections and another in %v wrote %d lines", time.Since(begun), n)
		}
		logs.TakeAll()
		time.Sleep(2 * time.Second)
		p = w.dial()
		p.send([]byte{0xff, 0xff, 0xff, 0xff})
		p.ended()
		synctest.Wait()
		if logs.Len() != 1 || logs.All()[0].ContextMap()["lines_left_out"] == nil {
			t.Errorf("the lines left out are not counted: %v", logs.All())
		}
	})
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 10 * time.Minute
		w := newWorld(t, ServerOptions{Handler: fake{handle: func(_ context.Context, r *Request) Reply {
			if string(r.Body) == "long" {
				time.Sleep(3 * idle)
			}
			if string(r.Body) == "pending" {
				l := newLater()
				time.AfterFunc(3*idle, func() { l.become(answer("late")) })
				return Reply{Pending: l}
			}
			return answer("ok")
		}}})
		defer w.close()
		silent, half, long, pending, busy := w.dial(), w.dial(), w.dial(), w.dial(), w.dial()
		half.send(frame(3, 1, 1, "body")[:10])
		long.other(1, "long")
		pending.produce(1, "pending")
		start := time.Now()
		done := make(chan struct{}, 2)
		for _, p := range []*peer{silent, half} {
			go func() {
				if b, err := io.ReadAll(p.nc); err != nil || len(b) > 0 {
					t.Errorf("an idle connection ended with %q, %v", b, err)
				}
				if d := time.Since(start); d < idle || d > idle+idle/8 {
					t.Errorf("an idle connection was closed after %v", d)
				}
				p.nc.Close()
				done <- struct{}{}
			}()
		}
		for range 6 {
			time.Sleep(idle / 2)
			busy.other(1, "x")
			busy.expect(1, "ok")
		}
		<-done
		<-done
		long.expect(1, "ok")
		pending.expect(1, "late")
		if n := w.server.Stats().Connections["PLAINTEXT"]; n != 3 {
			t.Errorf("%d connections are left, want 3", n)
		}
		for _, p := range []*peer{long, pending, busy} {
			p.nc.Close()
		}
	})
}

// A peer that goes while its request waits is not kept for as long as that waits:
// no longer than a moment if it is known to be gone, no longer than an idle one if it
// has only ended what it sends. Until then it gets its answer, and one that is there
// for however long.
func TestPeersThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 10 * time.Minute
		w := newWorld(t, ServerOptions{IdleTimeout: idle, Handler: fake{handle: func(ctx context.Context, r *Request) Reply {
			if string(r.Body) == "pending" {
				l := newLater()
				context.AfterFunc(r.Conn.Context(), func() { l.become(answer("never")) })
				return Reply{Pending: l}
			}
			wait := time.NewTimer(1000 * time.Hour)
			if string(r.Body) == "soon" {
				wait.Reset(idle / 2)
			}
			r.Waiting()
			select {
			case <-wait.C:
			case <-ctx.Done():
			}
			return answer("ok")
		}}})
		defer w.close()
		left := func(when string, want int) {
			t.Helper()
			if n := w.server.Stats().Connections["PLAINTEXT"]; n != want {
				t.Errorf("%s: %d connections, want %d", when, n, want)
			}
		}
		stays, closed, half, pending := w.dial(), w.dial(), w.dial(), w.dial()
		reset := w.dialTo("elsewhere", "broker:9092")
		stays.other(1, "long")
		closed.other(1, "long")
		reset.other(1, "long")
		half.other(1, "soon")
		pending.produce(1, "pending")
		synctest.Wait()
		closed.nc.Close()
		pending.nc.Close()
		half.nc.(*wiretest.Conn).CloseWrite()
		w.net.Reset("elsewhere", "broker")
		left("at first", 5)
		time.Sleep(idle / 8)
		left("after a moment", 4)
		half.expect(1, "ok")
		half.nc.Close()
		time.Sleep(idle/2 - idle/8)
		left("before the idle time-out", 3)
		time.Sleep(idle / 4)
		left("after it", 1)
		time.Sleep(100 * idle)
		left("long after it", 1)
		stays.nc.Close()
		reset.nc.Close()
	})
}

// A reader that never reads holds no budget, is idle in the end, and does not
// hold up a shutdown.
func TestReaderThatNeverReads(t *testing.T) {
	big := strings.Repeat("x", 4<<20)
	for _, how := range []string{"idle", "close", "drain"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var released atomic.Int32
				w := newWorld(t, ServerOptions{Budget: 1 << 20, Handler: fake{handle: func(_ context.Context, r *Request) Reply {
					b := NewBody([]byte(big))
					b.AppendSection(&hookSection{n: 1 << 20, release: func() { released.Add(1) }})
					return Reply{Body: b}
				}}})
				defer w.close()
				p := w.dial()
				defer p.nc.Close()
				p.other(1, "x")
				synctest.Wait()
				if n := w.server.Stats().BudgetInUse; n != 0 {
					t.Errorf("a reply being written holds %d bytes of budget", n)
				}
				start := time.Now()
				switch how {
				case "idle":
					time.Sleep(11 * time.Minute)
				case "close":
					w.server.Close()
				case "drain":
					ctx, cancel := context.WithTimeout(context.Background(), drainTaking/2)
					defer cancel()
					if err := w.server.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Drain: %v", err)
					}
					if d := time.Since(start); d != drainTaking/2 {
						t.Errorf("Drain took %v", d)
					}
				}
				synctest.Wait()
				if n := w.server.Stats().Connections["PLAINTEXT"]; n != 0 {
					t.Errorf("%d connections are left", n)
				}
				if released.Load() != 1 {
					t.Errorf("the section was released %d times", released.Load())
				}
			})
		})
	}
}

// A slow reader is not idle while it makes progress.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 4 << 20
		w := newWorld(t, ServerOptions{Handler: fake{handle: func(context.Context, *Request) Reply {
			b := NewBody(make([]byte, size/2))
			b.AppendSection(&memSection{b: make([]byte, size/2)})
			return Reply{Body: b}
		}}})
		defer w.close()
		p := w.dial()
		defer p.nc.Close()
		p.other(1, "x")
		got, buf := 0, make([]byte, 300<<10)
		for got < size+8 {
			n, err := p.nc.Read(buf)
			if err != nil {
				t.Fatalf("after %d bytes: %v", got, err)
			}
			got += n
			time.Sleep(time.Minute)
		}
	})
}

type hookSection struct {
	n       int
	release func()
}

func (s *hookSection) Len() int                                { return s.n }
func (s *hookSection) ReadAt(p []byte, off int64) (int, error) { return len(p), nil }
func (s *hookSection) SysFile() (*os.File, int64)              { return nil, 0 }
func (s *hookSection) Release()                                { s.release() }

func TestServeAfterClose(t *testing.T) {
	s := NewServer(ServerOptions{Handler: echo()})
	s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(context.Background(), "x", l); !errors.Is(err, ErrServerClosed) {
		t.Errorf("Serve: %v", err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the listener is still open: %v", err)
	}
	if err := s.Drain(context.Background()); err != nil {
		t.Errorf("Drain: %v", err)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ServerOptions{Handler: echo(), Limits: Limits{PerListener: map[string]int{"X": 1}}})
		defer w.close()
		for _, full := range []bool{false, true} {
			l, err := w.net.Listen("broker:7777")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error)
			go func() { done <- w.server.Serve(ctx, "X", l) }()
			var p *peer
			if full {
				p = w.dialTo("client", "broker:7777")
				defer p.nc.Close()
			}
			synctest.Wait()
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Serve: %v", err)
			}
			if full {
				p.other(1, "x")
				p.expect(1, "ok x")
			}
		}
	})
}

// Accepting goes on after a failure such as being out of descriptors.
func TestAcceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, logs := observed()
		s := NewServer(ServerOptions{Handler: echo(), Logger: logger})
		l := &failingListener{fail: 3, closed: make(chan struct{})}
		done := make(chan error)
		go func() { done <- s.Serve(context.Background(), "X", l) }()
		time.Sleep(time.Second)
		if logs.Len() != 1 || l.calls.Load() != 4 {
			t.Errorf("%d calls, %d lines, want 4 and 1", l.calls.Load(), logs.Len())
		}
		s.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

type failingListener struct {
	fail   int64
	calls  atomic.Int64
	closed chan struct{}
	once   atomic.Bool
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.calls.Add(1) <= l.fail {
		return nil, os.NewSyscallError("accept", syscall.EMFILE)
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *failingListener) Close() error {
	if !l.once.Swap(true) {
		close(l.closed)
	}
	return nil
}
func (l *failingListener) Addr() net.Addr { return &net.TCPAddr{} }

// late is a listener whose next connection is handed out by the test, also after
// it was closed: as one is that was accepted just before.
type late struct {
	net.Listener
	accepted chan net.Conn
}

func (l late) Accept() (net.Conn, error) {
	if nc, ok := <-l.accepted; ok {
		return nc, nil
	}
	return nil, net.ErrClosed
}

// What a listener accepts while it ends is not served, and what is served under
// its name later is.
func TestEndWhileAccepting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ServerOptions{Handler: echo()})
		defer w.close()
		open := func(addr string) late {
			l, err := w.net.Listen(addr)
			if err != nil {
				t.Fatal(err)
			}
			return late{l, make(chan net.Conn)}
		}
		serve := func(l late) {
			w.served.Go(func() {
				if err := w.server.Serve(context.Background(), "EXTRA", l); err != nil && !errors.Is(err, net.ErrClosed) {
					t.Errorf("Serve: %v", err)
				}
			})
			synctest.Wait()
		}
		connect := func(l late, addr string) *peer {
			p := w.dialTo("client", addr)
			nc, err := l.Listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			l.accepted <- nc
			return p
		}
		old, next := open("broker:9094"), open("broker:9095")
		defer close(old.accepted)
		defer close(next.accepted)
		serve(old)
		before := connect(old, "broker:9094")
		before.other(1, "a")
		before.expect(1, "ok a")
		during := w.dialTo("client", "broker:9094")
		nc, err := old.Listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		w.server.End("EXTRA")
		serve(next)
		old.accepted <- nc
		before.ended()
		during.ended()
		after := connect(next, "broker:9095")
		after.other(2, "b")
		after.expect(2, "ok b")
		for _, p := range []*peer{before, during, after} {
			p.nc.Close()
		}
		synctest.Wait()
		if n, there := w.server.Stats().Connections["EXTRA"]; n != 0 || !there {
			t.Errorf("the listener that is served has %d connections, there: %v", n, there)
		}
	})
}

// A listener that was ended is shown until its last connection is gone, and no
// longer; one that comes back under its name is shown again.
func TestEndedListenersLeaveStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newWorld(t, ServerOptions{Handler: fake{handle: func(context.Context, *Request) Reply {
			<-release
			return answer("late")
		}}})
		defer w.close()
		serve := func(addr string) {
			l, err := w.net.Listen(addr)
			if err != nil {
				t.Fatal(err)
			}
			w.served.Go(func() { w.server.Serve(context.Background(), "EXTRA", l) })
			synctest.Wait()
		}
		shown := func(when string, connections int, want bool) {
			t.Helper()
			st := w.server.Stats()
			n, there := st.Connections["EXTRA"]
			_, accepted := st.AcceptedBy["EXTRA"]
			if n != connections || there != want || accepted != want {
				t.Errorf("%s: %d connections, shown: %v", when, n, there)
			}
		}
		serve("broker:9094")
		shown("served", 0, true)
		p := w.dialTo("client", "broker:9094")
		p.other(1, "a")
		synctest.Wait()
		w.server.End("EXTRA")
		synctest.Wait()
		shown("ended, with a request that runs", 1, true)
		close(release)
		p.expect(1, "late")
		p.ended()
		p.nc.Close()
		synctest.Wait()
		shown("ended", 0, false)
		serve("broker:9095")
		shown("served again", 0, true)
		w.server.End("EXTRA")
		shown("ended with no connection", 0, false)
	})
}
