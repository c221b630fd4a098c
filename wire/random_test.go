package wire

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// jungle is a handler for random clients. A body says what to do: "now" answer,
// "later" answer within a while, "none" do not answer, "file" answer with bytes
// and sections. It checks what may run beside what.
type jungle struct {
	t     *testing.T
	seg   *segment
	tick  time.Duration
	mu    sync.Mutex
	perID map[uint64]*jungleConn

	overlaps, closes, together atomic.Int64
}

type jungleConn struct {
	running int
	pending int
}

func (j *jungle) conn(id uint64) *jungleConn {
	if j.perID[id] == nil {
		j.perID[id] = &jungleConn{}
	}
	return j.perID[id]
}

func (j *jungle) Serves(_ string, key, version int16) bool { return key <= 3 && version < 20 }

func (j *jungle) Handle(ctx context.Context, r *Request) Reply {
	what, _, _ := strings.Cut(string(r.Body), " ")
	j.mu.Lock()
	c := j.conn(r.Conn.ID)
	c.running++
	if c.running > 1 {
		j.t.Errorf("two handlers of a connection at once")
	}
	if c.pending > 0 {
		j.overlaps.Add(1)
		if r.Key != keyProduce {
			j.t.Errorf("key %d is handled while %d Produces are pending", r.Key, c.pending)
		}
		if c.pending >= maxPending {
			j.t.Errorf("%d Produces are pending", c.pending)
		}
	}
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		c.running--
		j.mu.Unlock()
	}()
	reply := Reply{Body: NewBody([]byte(fmt.Sprint("re ", r.CorrelationID)))}
	switch what {
	case "later":
		l := newLater()
		j.mu.Lock()
		c.pending++
		j.mu.Unlock()
		time.AfterFunc(time.Duration(rand.IntN(5))*j.tick, func() {
			j.mu.Lock()
			c.pending--
			j.mu.Unlock()
			l.become(reply)
		})
		return Reply{Pending: l}
	case "none":
		return Reply{None: true}
	case "close":
		j.closes.Add(1)
		return Reply{Close: true, Body: reply.Body}
	case "throttle":
		reply.Throttle = j.tick
	case "wait":
		r.Waiting()
		select {
		case <-ctx.Done():
		case <-time.After(j.tick):
		}
	case "file":
		for _, n := range []int{100, 20 << 10, 8 << 10, 300 << 10} {
			n = 1 + rand.IntN(n)
			reply.Body.AppendSection(j.seg.section(rand.IntN(len(j.seg.b)-n), n))
		}
	}
	return reply
}

// HandleTogether is Handle of each.
func (j *jungle) HandleTogether(ctx context.Context, requests []*Request, replies []Reply) int {
	j.together.Add(int64(len(requests)))
	return oneByOne(j.Handle, ctx, requests, replies)
}

// play is one client: it sends random requests, many at a time, and checks that
// the answers come in order and complete. Some clients go away in the middle.
func (j *jungle) play(nc net.Conn, rng *rand.Rand, requests int) {
	defer nc.Close()
	type due struct {
		id   int32
		body string
	}
	expected := make(chan due, requests)
	leaves := rng.IntN(4) == 0
	var out [][]byte
	for id := range int32(requests) {
		what := []string{"now", "later", "later", "none", "throttle", "wait", "file"}[rng.IntN(7)]
		key := int16(keyProduce)
		if rng.IntN(4) == 0 {
			key = 3
			if what == "later" {
				what = "wait"
			}
		}
		if id == int32(requests)-1 {
			what = "close"
		}
		n := []int{0, 10, 3000, 100 << 10}[rng.IntN(4)]
		out = append(out, frame(key, 7, id, what+" "+strings.Repeat("x", n)))
		if what != "none" && what != "close" {
			expected <- due{id, fmt.Sprint("re ", id)}
		}
	}
	close(expected)
	pauses := rng.IntN(2) == 0
	cut := rng.IntN(requests)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i, f := range out {
			if leaves && i == cut {
				nc.Write(f[:len(f)/2])
				nc.Close()
				return
			}
			if _, err := nc.Write(f); err != nil && !leaves {
				// The server may close before it has read what is behind a close.
				j.t.Errorf("writing request %d: %v", i, err)
			}
			if pauses && i%7 == 0 {
				time.Sleep(j.tick)
			}
		}
	})
	defer wg.Wait()
	for d := range expected {
		var head [8]byte
		if _, err := io.ReadFull(nc, head[:]); err != nil {
			if !leaves {
				j.t.Errorf("waiting for reply %d: %v", d.id, err)
			}
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[:])-4)
		if _, err := io.ReadFull(nc, body); err != nil {
			if !leaves {
				j.t.Errorf("reading reply %d: %v", d.id, err)
			}
			return
		}
		if id := int32(binary.BigEndian.Uint32(head[4:])); id != d.id || !strings.HasPrefix(string(body), d.body) {
			j.t.Errorf("got reply %d %.20q, want %d %q", id, body, d.id, d.body)
			return
		}
	}
	if b, err := io.ReadAll(nc); len(b) > 0 || err != nil && !leaves {
		j.t.Errorf("after the last reply: %d bytes, error %v", len(b), err)
	}
}

func (j *jungle) check(s *Server) {
	st := s.Stats()
	if st.BudgetInUse != 0 || st.Connections["PLAINTEXT"] != 0 {
		j.t.Errorf("left at the end: %+v", st)
	}
	if n := j.overlaps.Load(); n < 50 {
		j.t.Errorf("only %d requests were handled while Produces were pending: this world is idle", n)
	}
	if n := j.together.Load(); n < 100 {
		j.t.Errorf("only %d Produces were handled together with others", n)
	}
	if n := j.closes.Load(); n < 8 {
		j.t.Errorf("only %d connections were closed in order", n)
	}
}

func TestRandomClients(t *testing.T) {
	seg := newSegment(t, 1<<20)
	j := &jungle{t: t, seg: seg, tick: time.Millisecond, perID: make(map[uint64]*jungleConn)}
	s, addr := serveTCP(t, ServerOptions{Handler: j, Budget: 400 << 10, PoisonBuffers: true})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			j.play(dialTCP(t, addr), rand.New(rand.NewPCG(uint64(i), 1)), 60)
		})
	}
	wg.Wait()
	if err := s.Drain(context.Background()); err != nil {
		t.Error(err)
	}
	j.check(s)
}

func TestRandomClientsInABubble(t *testing.T) {
	seg := newSegment(t, 1<<20)
	synctest.Test(t, func(t *testing.T) {
		j := &jungle{t: t, seg: seg, tick: 10 * time.Millisecond, perID: make(map[uint64]*jungleConn)}
		w := newWorld(t, ServerOptions{Handler: j, Budget: 400 << 10})
		defer w.close()
		w.net.Delay("client", "broker", 3*time.Millisecond)
		var wg sync.WaitGroup
		for i := range 20 {
			p := w.dial()
			wg.Go(func() { j.play(p.nc, rand.New(rand.NewPCG(uint64(i), 2)), 60) })
		}
		wg.Wait()
		if err := w.server.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		j.check(w.server)
	})
}
