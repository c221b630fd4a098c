package wire

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// oneByOne is HandleTogether of a handler that has no advantage of it: Handle of each.
func oneByOne(handle func(context.Context, *Request) Reply, ctx context.Context, requests []*Request, replies []Reply) int {
	for i, r := range requests {
		if replies[i] = handle(ctx, r); replies[i].Close || replies[i].Throttle > 0 {
			return i + 1
		}
	}
	return len(requests)
}

// gatherer notes how many requests came to it at once.
type gatherer struct {
	*script
}

func (g gatherer) HandleTogether(ctx context.Context, requests []*Request, replies []Reply) int {
	g.note("%d together", len(requests))
	return oneByOne(g.script.Handle, ctx, requests, replies)
}

func TestProducesTogether(t *testing.T) {
	produce := func(id int32, body string) []byte { return frame(keyProduce, 7, id, body) }
	for name, c := range map[string]struct {
		frames  [][]byte
		diary   []string
		replies []string // after which the connection ends, where it does
		ends    bool
	}{
		"one":            {frames: [][]byte{produce(1, "a")}, diary: []string{"1 together", "1:a"}, replies: []string{"ok a"}},
		"three":          {frames: [][]byte{produce(1, "a"), produce(2, "b"), produce(3, "c")}, diary: []string{"3 together", "1:a", "2:b", "3:c"}, replies: []string{"ok a", "ok b", "ok c"}},
		"another within": {frames: [][]byte{produce(1, "a"), produce(2, "b"), frame(3, 1, 3, "m"), produce(4, "d")}, diary: []string{"2 together", "1:a", "2:b", "3:m", "1 together", "4:d"}, replies: []string{"ok a", "ok b", "ok m", "ok d"}},
		"half of another": {frames: [][]byte{produce(1, "a"), produce(2, "b"), produce(3, strings.Repeat("half", 20))[:30]}, diary: []string{"2 together", "1:a", "2:b"},
			replies: []string{"ok a", "ok b"}},
		"one that closes": {frames: [][]byte{produce(1, "a"), produce(2, "close"), produce(3, "c")}, diary: []string{"3 together", "1:a", "2:close"},
			replies: []string{"ok a"}, ends: true},
		"one that is not served": {frames: [][]byte{produce(1, "a"), produce(2, "b"), frame(keyProduce, 99, 3, "c"), produce(4, "d")}, diary: []string{"2 together", "1:a", "2:b"},
			replies: []string{"ok a", "ok b"}, ends: true},
		"a bad frame behind": {frames: [][]byte{produce(1, "a"), produce(2, "b"), {0xff, 0xff, 0xff, 0xff}}, diary: []string{"2 together", "1:a", "2:b"},
			replies: []string{"ok a", "ok b"}, ends: true},
		"one without an answer": {frames: [][]byte{produce(1, "a"), produce(2, "none"), produce(3, "c")}, diary: []string{"3 together", "1:a", "2:none", "3:c"},
			replies: []string{"ok a", "", "ok c"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			bubble(t, ServerOptions{Handler: gatherer{s}}, s, func(t *testing.T, w *world) {
				p := w.dial()
				defer p.nc.Close()
				p.send(slices.Concat(c.frames...))
				for i, body := range c.replies {
					if body != "" {
						p.expect(int32(i+1), body)
					}
				}
				if c.ends {
					p.ended()
				} else {
					p.silent(time.Second)
				}
				if got := s.read(); !slices.Equal(got, c.diary) {
					t.Errorf("handled %q, want %q", got, c.diary)
				}
			})
		})
	}
}

// What waits does not hold up what came before it: a frame for which there is no budget.
func TestArrivedDoNotWaitForTheBudget(t *testing.T) {
	s := newScript()
	bubble(t, ServerOptions{Handler: gatherer{s}, Budget: 1 << 20}, s, func(t *testing.T, w *world) {
		p := w.dial()
		defer p.nc.Close()
		// Somebody else has all there is for small frames.
		got, ok := w.server.clients.small.tryAcquire(smallReserve)
		if !ok {
			t.Fatal("the reserve is not free")
		}
		p.send(slices.Concat(frame(keyProduce, 7, 1, "a"), frame(keyProduce, 7, 2, "b"), frame(keyProduce, 7, 3, strings.Repeat("x", 8<<10)), frame(keyProduce, 7, 4, "d")))
		p.expect(1, "ok a")
		p.expect(2, "ok b")
		p.silent(time.Second)
		w.server.clients.small.release(got)
		p.expect(3, "ok "+strings.Repeat("x", 8<<10))
		p.expect(4, "ok d")
	})
}

// No more replies wait than may, however many Produces come at once.
func TestTogetherWithinWhatMayWait(t *testing.T) {
	s := newScript()
	bubble(t, ServerOptions{Handler: gatherer{s}}, s, func(t *testing.T, w *world) {
		p := w.dial()
		defer p.nc.Close()
		var all []byte
		for i := range int32(3 * maxPending) {
			all = append(all, frame(keyProduce, 7, i, fmt.Sprint("wait ", i))...)
		}
		p.send(all)
		synctest.Wait()
		handled := 0
		for _, line := range s.read() {
			if !strings.HasSuffix(line, "together") {
				handled++
			}
		}
		if handled != maxPending {
			t.Errorf("%d wait, want %d", handled, maxPending)
		}
		for i := range int32(3 * maxPending) {
			s.later(fmt.Sprint("wait ", i)).become(answer(fmt.Sprint("re ", i)))
			p.expect(i, fmt.Sprint("re ", i))
		}
	})
}

// Large frames, which have a buffer each, are handled together as well, up to so many bytes.
func TestLargeProducesTogether(t *testing.T) {
	const n, size = 24, 64 << 10
	var most, handled atomic.Int64
	h := largeTogether{fake: fake{handle: func(_ context.Context, r *Request) Reply {
		// Until two more lie in the socket, if it takes them.
		for tries := 0; most.Load() < 2 && handled.Load() < n-2 && r.owner.in.waiting() < 2*size+100 && tries < 500; tries++ {
			time.Sleep(time.Millisecond)
		}
		handled.Add(1)
		if len(r.Body) != size || r.Body[0] != r.Body[size-1] || r.Body[0] != byte('a'+r.CorrelationID) {
			return answer("wrong bytes")
		}
		return answer("ok")
	}}, most: &most}
	s, addr := serveTCP(t, ServerOptions{Handler: h, PoisonBuffers: true, ReceiveBuffer: 1 << 20})
	nc := dialTCP(t, addr)
	defer nc.Close()
	p := &peer{t: t, nc: nc}
	var all []byte
	for i := range int32(n) {
		all = append(all, frame(keyProduce, 7, i, strings.Repeat(string(rune('a'+i)), size))...)
	}
	go nc.Write(all)
	for i := range int32(n) {
		p.expect(i, "ok")
	}
	if handled.Load() != n || most.Load() < 2 || most.Load() > runBytes/size+1 {
		t.Errorf("%d were handled, up to %d together", handled.Load(), most.Load())
	}
	nc.Close()
	if err := s.Drain(context.Background()); err != nil {
		t.Error(err)
	}
	if u := s.Stats().BudgetInUse; u != 0 {
		t.Errorf("%d bytes of budget were not given back", u)
	}
}

type largeTogether struct {
	fake
	most *atomic.Int64
}

func (h largeTogether) HandleTogether(ctx context.Context, requests []*Request, replies []Reply) int {
	h.most.Store(max(h.most.Load(), int64(len(requests))))
	return oneByOne(h.fake.Handle, ctx, requests, replies)
}

// TestAnother tells what can be read while what was read before is in use: what lies in the buffer, and, behind a large frame, what
// lies in the socket, but not more than runBytes on end.
func TestAnother(t *testing.T) {
	produce := func(n int) []byte { return frame(keyProduce, 7, 1, strings.Repeat("x", n)) }
	for name, c := range map[string]struct {
		first, read int // the first frame's body, and how much of the rest comes with it
		rest        []byte
		waiting     int
		want        bool
	}{
		"nothing":                   {first: 100},
		"a whole one":               {first: 100, rest: produce(50), read: 1000, want: true},
		"the rest in the socket":    {first: 100, rest: produce(5000), read: 100, waiting: 5000},
		"no Produce":                {first: 100, rest: frame(3, 1, 2, "m"), read: 1000},
		"behind a large one":        {first: 100 << 10, rest: produce(5000), read: headSize, waiting: 5100, want: true},
		"little behind a large one": {first: 100 << 10, rest: produce(5000), read: headSize, waiting: 4000},
		"more than a run":           {first: 100 << 10, rest: produce(runBytes), read: headSize, waiting: 2 * runBytes},
	} {
		t.Run(name, func(t *testing.T) {
			one := produce(c.first)
			stream := append(one, c.rest[:min(c.read, len(c.rest))]...)
			f := newFrameReader(bytes.NewReader(stream), 1<<20)
			f.class = smallClasses - 1
			f.first = firstOf(f.src)
			f.waiting = func() int { return c.waiting }
			if _, _, err := f.next(); err != nil {
				t.Fatal(err)
			}
			b, buf, err := f.body(true)
			if err != nil {
				t.Fatal(err)
			}
			if got := f.another(); got != c.want {
				t.Errorf("another: %v", got)
			}
			f.done(b, buf)
			f.close()
		})
	}
}
