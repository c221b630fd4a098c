package wire

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// script is a handler that keeps a diary, and takes Produces as the test says:
// a body that begins with "wait" becomes pending under that name.
type script struct {
	mu      sync.Mutex
	diary   []string
	pending map[string]*later
	other   func(ctx context.Context, r *Request) Reply
}

func newScript() *script { return &script{pending: make(map[string]*later)} }

func (s *script) note(format string, args ...any) {
	s.mu.Lock()
	s.diary = append(s.diary, fmt.Sprintf(format, args...))
	s.mu.Unlock()
}

func (s *script) read() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.diary)
}

func (s *script) later(name string) *later {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending[name] == nil {
		s.pending[name] = newLater()
	}
	return s.pending[name]
}

func (s *script) Serves(_ string, key, version int16) bool { return key < 50 && version < 20 }

func (s *script) Handle(ctx context.Context, r *Request) Reply {
	body := string(r.Body)
	s.note("%d:%s", r.CorrelationID, body)
	if r.Key != keyProduce {
		if s.other != nil {
			return s.other(ctx, r)
		}
		return answer("ok " + body)
	}
	switch {
	case strings.HasPrefix(body, "wait"):
		return Reply{Pending: s.later(body)}
	case body == "none":
		return Reply{None: true}
	case body == "close":
		return Reply{Close: true}
	case body == "throttle":
		return Reply{Body: NewBody([]byte("throttled")), Throttle: time.Second}
	}
	return answer("ok " + body)
}

// HandleTogether takes Produces one after the other, so that what holds of one at a time is seen to hold of several.
func (s *script) HandleTogether(ctx context.Context, requests []*Request, replies []Reply) int {
	return oneByOne(s.Handle, ctx, requests, replies)
}

func bubble(t *testing.T, o ServerOptions, s *script, play func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if o.Handler == nil {
			o.Handler = s
		}
		w := newWorld(t, o)
		defer w.close()
		play(t, w)
	})
}

func TestProducesOverlap(t *testing.T) {
	s := newScript()
	bubble(t, ServerOptions{}, s, func(t *testing.T, w *world) {
		p := w.dial()
		defer p.nc.Close()
		p.produce(1, "wait a")
		p.produce(2, "wait b")
		p.produce(3, "now")
		p.produce(4, "none")
		synctest.Wait()
		if got, want := s.read(), []string{"1:wait a", "2:wait b", "3:now", "4:none"}; !slices.Equal(got, want) {
			t.Fatalf("handled %v, want all four to overlap", got)
		}
		p.silent(time.Second)
		s.later("wait b").become(answer("b"))
		p.silent(time.Second)
		s.later("wait a").become(answer("a"))
		p.expect(1, "a")
		p.expect(2, "b")
		p.expect(3, "ok now")
		p.produce(5, "now")
		p.expect(5, "ok now")
	})
}

func TestOtherRequestsWaitForPendingProduces(t *testing.T) {
	s := newScript()
	bubble(t, ServerOptions{}, s, func(t *testing.T, w *world) {
		p := w.dial()
		defer p.nc.Close()
		p.produce(1, "wait a")
		p.other(2, "metadata")
		p.produce(3, "wait c")
		synctest.Wait()
		if got := s.read(); len(got) != 1 {
			t.Fatalf("handled %v while a Produce was pending", got)
		}
		s.later("wait a").become(answer("a"))
		synctest.Wait()
		if got := s.read(); len(got) != 3 {
			t.Fatalf("handled %v after the Produce was answered", got)
		}
		p.expect(1, "a")
		p.expect(2, "ok metadata")
		s.later("wait c").become(answer("c"))
		p.expect(3, "c")
	})
}

// A request that blocks in its handler holds up everything behind it.
func TestOneRequestAtATime(t *testing.T) {
	s := newScript()
	bubble(t, ServerOptions{}, s, func(t *testing.T, w *world) {
		release := make(chan struct{})
		s.other = func(context.Context, *Request) Reply { <-release; return answer("late") }
		p := w.dial()
		defer p.nc.Close()
		p.other(1, "fetch")
		p.produce(2, "now")
		p.other(3, "x")
		p.silent(time.Second)
		if got := s.read(); len(got) != 1 {
			t.Fatalf("handled %v while the first was being handled", got)
		}
		close(release)
		p.expect(1, "late")
		p.expect(2, "ok now")
		p.expect(3, "late")
	})
}

func TestAtMost32Pending(t *testing.T) {
	s := newScript()
	bubble(t, ServerOptions{}, s, func(t *testing.T, w *world) {
		p := w.dial()
		defer p.nc.Close()
		for i := range 40 {
			p.produce(int32(i), fmt.Sprintf("wait %d", i))
		}
		synctest.Wait()
		if got := len(s.read()); got != maxPending {
			t.Fatalf("%d Produces were started, want %d", got, maxPending)
		}
		s.later("wait 0").become(answer("0"))
		p.expect(0, "0")
		synctest.Wait()
		if got := len(s.read()); got != maxPending+1 {
			t.Fatalf("%d Produces were started after one reply, want %d", got, maxPending+1)
		}
		for i := 1; i < 40; i++ {
			s.later(fmt.Sprintf("wait %d", i)).become(answer(fmt.Sprint(i)))
		}
		for i := 1; i < 40; i++ {
			p.expect(int32(i), fmt.Sprint(i))
		}
	})
}

// Whatever closes a connection does so behind the replies that are due.
func TestCloseInOrder(t *testing.T) {
	bad := map[string]func(p *peer){
		"reply says close": func(p *peer) { p.produce(2, "close") },
		"unknown key":      func(p *peer) { p.send(frame(77, 0, 2, "")) },
		"unknown version":  func(p *peer) { p.send(frame(3, 99, 2, "")) },
		"negative length":  func(p *peer) { p.send([]byte{0xff, 0xff, 0xff, 0xff}) },
		"zero length":      func(p *peer) { p.send([]byte{0, 0, 0, 0}) },
		"header cut":       func(p *peer) { p.send([]byte{0, 0, 0, 8, 0, 3, 0, 1, 0, 0, 0, 2}) },
		"client id cut":    func(p *peer) { p.send([]byte{0, 0, 0, 10, 0, 3, 0, 1, 0, 0, 0, 2, 0, 1}) },
		"too long":         func(p *peer) { p.send([]byte{0x7f, 0xff, 0xff, 0xff}) },
	}
	for name, spoil := range bad {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			logger, logs := observed()
			bubble(t, ServerOptions{Logger: logger}, s, func(t *testing.T, w *world) {
				p := w.dial()
				p.produce(1, "wait a")
				spoil(p)
				p.silent(time.Second)
				s.later("wait a").become(answer("a"))
				p.expect(1, "a")
				p.ended()
				synctest.Wait()
				wantLines := 1
				if name == "reply says close" {
					wantLines = 0
				}
				if logs.Len() != wantLines {
					t.Errorf("%d lines were logged, want %d: %v", logs.Len(), wantLines, logs.All())
				}
			})
		})
	}
}

// What is queued behind a pending reply that turns into a close is not answered.
func TestPendingBecomesClose(t *testing.T) {
	s := newScript()
	bubble(t, ServerOptions{}, s, func(t *testing.T, w *world) {
		p := w.dial()
		p.produce(1, "wait a")
		p.produce(2, "wait b")
		p.produce(3, "now")
		synctest.Wait()
		s.later("wait b").become(Reply{Close: true})
		p.silent(time.Second)
		s.later("wait a").become(answer("a"))
		p.expect(1, "a")
		// The peer is not asked whether it agrees.
		time.Sleep(linger)
		synctest.Wait()
		if n := w.server.Stats().Connections["PLAINTEXT"]; n != 0 {
			t.Errorf("%d connections are open", n)
		}
		p.ended()
	})
}

// Nor is a handler that runs meanwhile, and waits.
func TestPendingBecomesCloseWhileHandling(t *testing.T) {
	l := newLater()
	h := fake{handle: func(ctx context.Context, r *Request) Reply {
		if string(r.Body) == "pending" {
			return Reply{Pending: l}
		}
		<-ctx.Done()
		return answer("too late")
	}}
	synctest.Test(t, func(t *testing.T) {
		l = newLater()
		w := newWorld(t, ServerOptions{Handler: h})
		defer w.close()
		p := w.dial()
		p.produce(1, "pending")
		synctest.Wait()
		p.produce(2, "blocks")
		synctest.Wait()
		l.become(Reply{Close: true})
		time.Sleep(linger)
		synctest.Wait()
		if n := w.server.Stats().Connections["PLAINTEXT"]; n != 0 {
			t.Errorf("%d connections are open", n)
		}
		p.ended()
	})
}

// A reply that is held goes out even if the next Produce has none, or closes.
func TestHeldBeforeNone(t *testing.T) {
	s := newScript()
	bubble(t, ServerOptions{}, s, func(t *testing.T, w *world) {
		p := w.dial()
		p.send(frame(keyProduce, 7, 1, "now"), frame(keyProduce, 7, 2, "none"))
		p.expect(1, "ok now")
		p.send(frame(keyProduce, 7, 3, "now"), frame(keyProduce, 7, 4, "close"))
		p.expect(3, "ok now")
		p.ended()
	})
}

func TestPendingBecomesNone(t *testing.T) {
	s := newScript()
	bubble(t, ServerOptions{}, s, func(t *testing.T, w *world) {
		p := w.dial()
		defer p.nc.Close()
		p.produce(1, "wait a")
		p.produce(2, "now")
		synctest.Wait()
		s.later("wait a").become(Reply{None: true})
		p.expect(2, "ok now")
	})
}

func TestAnswerAfterFIN(t *testing.T) {
	s := newScript()
	bubble(t, ServerOptions{}, s, func(t *testing.T, w *world) {
		p := w.dial()
		p.produce(1, "wait a")
		p.nc.(interface{ CloseWrite() error }).CloseWrite()
		p.silent(time.Second)
		s.later("wait a").become(answer("a"))
		p.expect(1, "a")
		p.ended()
	})
}

func TestAnswerOfBlockedHandlerAfterFIN(t *testing.T) {
	s := newScript()
	s.other = func(ctx context.Context, r *Request) Reply {
		time.Sleep(time.Second)
		return answer("late")
	}
	bubble(t, ServerOptions{}, s, func(t *testing.T, w *world) {
		p := w.dial()
		p.other(1, "fetch")
		p.nc.(interface{ CloseWrite() error }).CloseWrite()
		p.expect(1, "late")
		p.ended()
	})
}

func TestThrottle(t *testing.T) {
	for _, pipelined := range []bool{false, true} {
		t.Run(fmt.Sprintf("pipelined=%v", pipelined), func(t *testing.T) {
			s := newScript()
			bubble(t, ServerOptions{}, s, func(t *testing.T, w *world) {
				p := w.dial()
				defer p.nc.Close()
				start := time.Now()
				if pipelined {
					p.send(frame(keyProduce, 7, 1, "throttle"), frame(keyProduce, 7, 2, "now"))
				} else {
					p.produce(1, "throttle")
				}
				p.expect(1, "throttled")
				if d := time.Since(start); d != 0 {
					t.Errorf("the throttled reply took %v", d)
				}
				if !pipelined {
					p.produce(2, "now")
				}
				synctest.Wait()
				if got := s.read(); len(got) != 1 {
					t.Fatalf("handled %v while muted", got)
				}
				p.expect(2, "ok now")
				if d := time.Since(start); d != time.Second {
					t.Errorf("the next request was answered after %v, want 1s", d)
				}
			})
		})
	}
}

// A pending reply that is throttled mutes the reader as well.
func TestPendingThrottle(t *testing.T) {
	s := newScript()
	bubble(t, ServerOptions{}, s, func(t *testing.T, w *world) {
		p := w.dial()
		defer p.nc.Close()
		p.produce(1, "wait a")
		synctest.Wait()
		s.later("wait a").become(Reply{Body: NewBody([]byte("a")), Throttle: time.Minute})
		p.expect(1, "a")
		start := time.Now()
		p.produce(2, "now")
		p.expect(2, "ok now")
		if d := time.Since(start); d != time.Minute {
			t.Errorf("the next request was answered after %v, want 1m", d)
		}
	})
}

// Small Produces that arrived together are answered with one write; so are
// pending ones that become ready together.
func TestTogether(t *testing.T) {
	s := newScript()
	bubble(t, ServerOptions{}, s, func(t *testing.T, w *world) {
		p := w.dial()
		defer p.nc.Close()
		var frames [][]byte
		for i := range 10 {
			frames = append(frames, frame(keyProduce, 7, int32(i), fmt.Sprint(i)))
		}
		frames = append(frames, frame(3, 1, 10, "m"), frame(keyProduce, 7, 11, "p"))
		p.send(frames...)
		synctest.Wait()
		for i := range 10 {
			p.expect(int32(i), "ok "+fmt.Sprint(i))
		}
		p.expect(10, "ok m")
		p.expect(11, "ok p")
		if n := w.writes.Swap(0); n != 3 {
			t.Errorf("ten Produces, a Metadata and a Produce took %d writes, want 3", n)
		}
		for i := range 5 {
			p.produce(int32(i), fmt.Sprintf("wait %d", i))
		}
		synctest.Wait()
		for i := 4; i >= 0; i-- {
			s.later(fmt.Sprintf("wait %d", i)).become(answer("x"))
		}
		for i := range 5 {
			p.expect(int32(i), "x")
		}
		if n := w.writes.Swap(0); n != 1 {
			t.Errorf("five replies that became ready together took %d writes, want 1", n)
		}
	})
}

func TestDrainAnswersWhatWasRead(t *testing.T) {
	s := newScript()
	s.other = func(ctx context.Context, r *Request) Reply {
		r.Waiting()
		<-ctx.Done()
		if context.Cause(ctx) != ErrDraining || r.Conn.Context().Err() != nil {
			return answer("cause " + context.Cause(ctx).Error())
		}
		return answer("what there is")
	}
	bubble(t, ServerOptions{}, s, func(t *testing.T, w *world) {
		fetching, producing, idle, half := w.dial(), w.dial(), w.dial(), w.dial()
		fetching.other(1, "fetch")
		producing.produce(1, "wait a")
		half.send(frame(3, 1, 1, "body")[:9])
		synctest.Wait()
		done := make(chan error)
		go func() { done <- w.server.Drain(context.Background()) }()
		synctest.Wait()
		fetching.expect(1, "what there is")
		fetching.ended()
		idle.ended()
		half.ended()
		producing.silent(time.Second)
		if _, err := w.net.Dial(context.Background(), "tcp", "broker:9092"); err == nil {
			t.Error("a draining server still takes connections")
		}
		s.later("wait a").become(answer("a"))
		producing.expect(1, "a")
		producing.ended()
		if err := <-done; err != nil {
			t.Errorf("Drain: %v", err)
		}
	})
}

// Requests that have arrived but were not begun are left alone by a drain.
func TestDrainBeginsNothing(t *testing.T) {
	s := newScript()
	s.other = func(ctx context.Context, r *Request) Reply {
		<-ctx.Done()
		return answer("last")
	}
	bubble(t, ServerOptions{}, s, func(t *testing.T, w *world) {
		p := w.dial()
		p.send(frame(3, 1, 1, "a"), frame(3, 1, 2, "b"), frame(keyProduce, 7, 3, "c"))
		synctest.Wait()
		go w.server.Drain(context.Background())
		p.expect(1, "last")
		p.ended()
		if got := s.read(); len(got) != 1 {
			t.Errorf("handled %v", got)
		}
	})
}

func TestDrainGivesUp(t *testing.T) {
	s := newScript()
	bubble(t, ServerOptions{}, s, func(t *testing.T, w *world) {
		p := w.dial()
		p.produce(1, "wait for ever")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		start := time.Now()
		if err := w.server.Drain(ctx); err == nil {
			t.Error("Drain succeeded with a reply pending")
		}
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("Drain took %v, want 5s", d)
		}
		p.nc.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := io.ReadAll(p.nc); err != nil {
			t.Errorf("the connection ended with %v", err)
		}
		p.nc.Close()
	})
}
