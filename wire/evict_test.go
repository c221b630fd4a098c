package wire

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Peers that announce large requests and do not send them hold the budget for a
// few seconds at most when somebody waits for it; peers that do send, slowly,
// keep it; and while nobody waits nobody is cut off.
func TestSlowSendersGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		logger, logs := observed()
		w := newWorld(t, ServerOptions{Budget: 4 * size, Handler: echo(), Logger: logger})
		defer w.close()
		half := frame(keyProduce, 3, 1, strings.Repeat("x", size-100))
		var hostile []*peer
		for range 3 {
			p := w.dial()
			defer p.nc.Close()
			for sent := 0; sent < 300<<10; sent += 100 << 10 {
				p.send(half[sent : sent+100<<10])
				synctest.Wait()
			}
			hostile = append(hostile, p)
		}
		slow := w.dial() // 40 KiB a second
		defer slow.nc.Close()
		wrote := make(chan struct{})
		go func() {
			defer close(wrote)
			for rest := half; len(rest) > 0; time.Sleep(time.Second) {
				n := min(len(rest), 40<<10)
				slow.nc.Write(rest[:n])
				rest = rest[n:]
			}
		}()
		time.Sleep(time.Minute / 10)
		if n := w.server.Stats().BudgetInUse; n < 3*(size-100) || logs.Len() != 0 {
			t.Fatalf("%d bytes of budget are held, logged %v", n, logs.All())
		}
		begun := time.Now()
		p := w.dial()
		defer p.nc.Close()
		go p.nc.Write(frame(keyProduce, 3, 7, strings.Repeat("y", size)))
		if id, _, err := p.recv(); err != nil || id != 7 {
			t.Fatalf("answer %d, error %v", id, err)
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("served after %v", took)
		}
		for _, p := range hostile {
			p.ended()
		}
		if id, _, err := slow.recv(); err != nil || id != 1 {
			t.Errorf("the slow one: answer %d, error %v", id, err)
		}
		if logs.Len() != 1 {
			t.Errorf("logged %v", logs.All())
		}
		<-wrote
		synctest.Wait()
		if n := w.server.Stats().BudgetInUse; n != 0 {
			t.Errorf("%d bytes of budget are held at the end", n)
		}
	})
}

// One that drips a byte a second is no sender either.
func TestDrippingSenderGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ServerOptions{Budget: 1 << 20, Handler: echo()})
		defer w.close()
		p := w.dial()
		defer p.nc.Close()
		big := frame(keyProduce, 3, 1, strings.Repeat("x", 1<<20-100))
		p.send(big[:100])
		dripped := make(chan struct{})
		go func() {
			defer close(dripped)
			for i := range 1000 {
				if _, err := p.nc.Write(big[300<<10+i : 300<<10+i+1]); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		q := w.dial()
		defer q.nc.Close()
		begun := time.Now()
		go q.nc.Write(frame(keyProduce, 3, 2, strings.Repeat("y", 100<<10)))
		if id, _, err := q.recv(); err != nil || id != 2 || time.Since(begun) > 7*time.Second {
			t.Errorf("answer %d after %v, error %v", id, time.Since(begun), err)
		}
		<-dripped
	})
}

// Nor is one that has sent much at once and drips then: what came is no credit.
func TestDrippingAfterABurstGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ServerOptions{Budget: 1 << 20, Handler: echo()})
		defer w.close()
		p := w.dial()
		defer p.nc.Close()
		big := frame(keyProduce, 3, 1, strings.Repeat("x", 1<<20-100))
		p.send(big[:900<<10])
		dripped := make(chan struct{})
		go func() {
			defer close(dripped)
			for i := range 100 {
				time.Sleep(time.Second)
				if _, err := p.nc.Write(big[900<<10+i : 900<<10+i+1]); err != nil {
					return
				}
			}
		}()
		q := w.dial()
		defer q.nc.Close()
		begun := time.Now()
		go q.nc.Write(frame(keyProduce, 3, 2, strings.Repeat("y", 500<<10)))
		if id, _, err := q.recv(); err != nil || id != 2 || time.Since(begun) > 2*slowGrace+2*time.Second {
			t.Errorf("answer %d after %v, error %v", id, time.Since(begun), err)
		}
		<-dripped
	})
}

// Replies that are not read are given up, the largest first, when they fill the
// memory; who reads gets everything.
func TestUnreadRepliesAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, limit = 1 << 20, 16 << 20
		logger, logs := observed()
		w := newWorld(t, ServerOptions{Budget: limit, Logger: logger, Handler: fake{handle: func(_ context.Context, r *Request) Reply {
			return answer(strings.Repeat("r", size))
		}}})
		defer w.close()
		var most int64
		for range 100 {
			p := w.dial()
			defer p.nc.Close()
			p.other(1, "x")
			synctest.Wait()
			most = max(most, w.server.Stats().RepliesInMemory)
			time.Sleep(100 * time.Millisecond)
		}
		if most > limit+2*size || most < limit/2 {
			t.Errorf("replies filled %d bytes, the limit is %d", most, limit)
		}
		q := w.dial()
		defer q.nc.Close()
		q.other(5, "x")
		if id, body, err := q.recv(); err != nil || id != 5 || len(body) != size {
			t.Errorf("one that reads: %d, %d bytes, error %v", id, len(body), err)
		}
		if n := len(logs.FilterMessageSnippet("not read").All()); n == 0 || n > 11 {
			t.Errorf("%d lines", n)
		}
		w.server.Close()
		if n := w.server.Stats().RepliesInMemory; n != 0 {
			t.Errorf("%d bytes of replies are counted at the end", n)
		}
	})
}

// Nor does one keep its reply who takes a little of it now and then; one that reads is let be, and has no credit for it later.
func TestDrippingReadersAreGivenUp(t *testing.T) {
	for rate, want := range map[int]bool{slowestRate / 2: true, 2 * slowestRate: false} {
		synctest.Test(t, func(t *testing.T) {
			c := &connection{server: NewServer(ServerOptions{Handler: echo()})}
			const each = 90 * time.Millisecond
			slow := func(rate int, d time.Duration) bool {
				for range d / each {
					time.Sleep(each)
					c.taken(rate * int(each) / int(time.Second))
				}
				return c.readsSlowly(c.server.clock(), untaken)
			}
			owed := c.owe(NewBody(make([]byte, 1<<20)))
			if slow(rate, slowGrace/2) {
				t.Errorf("at %d bytes a second: given up at once", rate)
			}
			if slow(rate, 2*slowGrace) != want {
				t.Errorf("at %d bytes a second: not %v", rate, want)
			}
			if slow(100*slowestRate, 2*slowGrace) {
				t.Error("given up when it takes much")
			}
			if !slow(slowestRate/2, 2*slowGrace) {
				t.Error("not given up for what it has taken before")
			}
			if c.pay(owed); c.readsSlowly(c.server.clock(), untaken) {
				t.Error("nothing is owed, and it reads slowly")
			}
			if c.waits.Add(1); c.owe(NewBody(make([]byte, 1<<20))) > 0 && slow(1, 2*slowGrace) {
				t.Error("given up while it waits for somebody else")
			}
		})
	}
}

// Few requests run at once, whoever waits aside; and those that run wait while
// unread replies fill the memory, so that not even a thousand at once fill it.
func TestFewRequestsRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, limit, conns = 1 << 20, 16 << 20, 300
		var running, most, waiting atomic.Int64
		h := fake{handle: func(_ context.Context, r *Request) Reply {
			if string(r.Body) == "wait" {
				r.Waiting()
				waiting.Add(1)
				time.Sleep(time.Hour)
				return answer("late")
			}
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(10 * time.Millisecond)
			running.Add(-1)
			if string(r.Body) == "small" {
				return answer("ok")
			}
			return answer(strings.Repeat("r", size))
		}}
		w := newWorld(t, ServerOptions{Budget: limit, Handler: h})
		defer w.close()
		for range 3 * handlersWidth {
			p := w.dial()
			defer p.nc.Close()
			p.other(1, "wait")
		}
		first := w.dial()
		defer first.nc.Close()
		first.other(1, "large") // and so are all others of its kind
		if id, _, err := first.recv(); err != nil || id != 1 {
			t.Fatalf("answer %d, error %v", id, err)
		}
		for range conns {
			p := w.dial()
			defer p.nc.Close()
			p.other(1, "large")
		}
		synctest.Wait()
		begun := time.Now()
		p := w.dial()
		defer p.nc.Close()
		p.other(7, "small")
		reserved := w.dialTo("other", "broker:9093")
		defer reserved.nc.Close()
		reserved.other(8, "small")
		reserved.expect(8, "ok")
		other := w.dial()
		defer other.nc.Close()
		other.send(frame(18, 1, 9, "small"))
		other.expect(9, "ok")
		if d := time.Since(begun); d > 20*time.Millisecond {
			t.Errorf("between brokers, and of another kind, a request took %v", d)
		}
		var held int64
		done := make(chan struct{})
		go func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
					held = max(held, w.server.Stats().RepliesInMemory)
				}
			}
		}()
		p.expect(7, "ok")
		if d := time.Since(begun); d > time.Minute {
			t.Errorf("one that reads waited %v", d)
		}
		close(done)
		synctest.Wait()
		if n := most.Load(); n < handlersWidth || n > handlersWidth+2 {
			t.Errorf("%d requests ran at once, want %d", n, handlersWidth)
		}
		if waiting.Load() != 3*handlersWidth {
			t.Errorf("%d requests got to where they wait", waiting.Load())
		}
		if held > limit+(handlersWidth+1)*size || held < limit {
			t.Errorf("replies filled %d bytes, the limit is %d", held, limit)
		}
		w.server.Close()
		if n := w.server.Stats(); n.RepliesInMemory != 0 || n.BudgetInUse != 0 || len(w.server.light)+len(w.server.large) != 0 {
			t.Errorf("at the end %+v, %d and %d in the gates", n, len(w.server.light), len(w.server.large))
		}
	})
}

// A peer that reads nothing does not hold up the end; one whose request is still
// being handled, and one that reads slowly, are waited for.
func TestDrainDoesNotWaitForWhoDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ServerOptions{Handler: fake{handle: func(_ context.Context, r *Request) Reply {
			if string(r.Body) == "slow" {
				time.Sleep(3 * time.Second)
				return answer("done")
			}
			return answer(strings.Repeat("r", 4<<20))
		}}})
		defer w.close()
		deaf, late, slow := w.dial(), w.dial(), w.dial()
		deaf.other(1, "large")
		late.other(2, "slow")
		slow.other(3, "large")
		synctest.Wait()
		begun := time.Now()
		ended := make(chan error)
		go func() { ended <- w.server.Drain(context.Background()) }()
		go func() {
			defer slow.nc.Close()
			left := 8 + 4<<20
			for b := make([]byte, 256<<10); left > 0; time.Sleep(100 * time.Millisecond) {
				n, err := slow.nc.Read(b)
				if err != nil {
					t.Errorf("a slow reader, %d bytes before the end: %v", left, err)
					return
				}
				left -= n
			}
		}()
		late.expect(2, "done")
		late.nc.Close()
		if err := <-ended; err != nil {
			t.Errorf("Drain: %v", err)
		}
		if d := time.Since(begun); d > 10*time.Second {
			t.Errorf("draining took %v", d)
		}
		deaf.nc.Close()
	})
}

// Whoever looks while it begins anew to be measured how quickly a frame comes does
// not take one that came quickly for one that drips.
func TestSendersAreMeasuredWhole(t *testing.T) {
	s := NewServer(ServerOptions{Handler: echo()})
	s.start = s.start.Add(-time.Hour)
	c := &connection{server: s}
	c.touch()
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		slow := 0
		for {
			select {
			case <-stop:
				done <- slow
				return
			default:
			}
			if c.sendsSlowly(c.lastActive.Load()) {
				slow++
			}
		}
	}()
	long := s.clock() - int64(2*slowGrace)
	for i := range int64(200_000) {
		c.frame.bytes.Store(1 << 40)
		c.frame.since.Store(long - i)
		c.received(1)
		if c.frame.bytes.Load() != 1 {
			t.Fatal("what came has credit for later")
		}
	}
	close(stop)
	if n := <-done; n > 0 {
		t.Errorf("taken for a slow sender %d times", n)
	}
}

// A heavy request that waits keeps what it was charged as long as nobody needs it,
// and not for long when somebody does; then it is answered, and its connection goes
// on. One that takes little memory, or that has just begun to wait, is let alone.
func TestHeavyRequestsDoNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, logs := observed()
		w := newWorld(t, ServerOptions{Budget: 24 << 20, Logger: logger, Handler: fake{handle: func(ctx context.Context, r *Request) Reply {
			if r.Version == 0 {
				return answer("at once")
			}
			r.Waiting()
			<-ctx.Done()
			return answer("waited")
		}}})
		defer w.close()
		metadata := func(topics int, version int16, id int32) []byte {
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = make([]kmsg.MetadataRequestTopic, topics)
			req.SetVersion(version)
			return frame(3, version, id, string(req.AppendTo(nil)))
		}
		light, waits := w.dial(), w.dial()
		defer light.nc.Close()
		defer waits.nc.Close()
		const heavy = 100_000
		light.send(metadata(1, 1, 1))
		waits.send(metadata(heavy, 1, 2))
		time.Sleep(24 * time.Hour)
		if n := w.server.Stats().BudgetInUse; n < 12<<20 || logs.Len() != 0 {
			t.Fatalf("%d bytes of budget are held, logged %v", n, logs.All())
		}
		other := w.dial()
		defer other.nc.Close()
		begun := time.Now()
		other.nc.SetReadDeadline(begun.Add(10 * time.Minute))
		other.send(metadata(heavy, 0, 3))
		other.expect(3, "at once")
		if took := time.Since(begun); took > time.Second {
			t.Errorf("beside one that has waited for long: served after %v", took)
		}
		waits.expect(2, "waited")
		waits.send(metadata(heavy, 1, 4))
		synctest.Wait()
		begun = time.Now()
		other.nc.SetReadDeadline(begun.Add(10 * time.Minute))
		other.send(metadata(heavy, 0, 5))
		other.expect(5, "at once")
		if took := time.Since(begun); took < holdTime || took > holdTime+time.Second {
			t.Errorf("beside one that has just begun to wait: served after %v", took)
		}
		waits.expect(4, "waited")
		waits.send(metadata(heavy, 1, 6))
		synctest.Wait()
		waits.nc.Close()
		time.Sleep(2 * time.Second) // lines of the log are limited
		begun = time.Now()
		other.send(metadata(heavy, 0, 7))
		other.expect(7, "at once")
		if took := time.Since(begun); took > time.Second {
			t.Errorf("beside one that is gone: served after %v", took)
		}
		light.silent(time.Second)
		if logs.Len() != 3 {
			t.Errorf("logged %v", logs.All())
		}
	})
}

// hurried is a pending reply that can be hurried.
type hurried struct{ *later }

func (h hurried) Hurry() { h.become(answer("hurried")) }

// A heavy Produce whose reply waits holds what it was charged, and its connection.
// When others need that it is answered early, and cut off if it does not take the
// answer.
func TestHeavyProducesDoNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := strings.Repeat("r", 1<<20)
		w := newWorld(t, ServerOptions{Budget: 24 << 20, Handler: fake{handle: func(ctx context.Context, r *Request) Reply {
			switch l := newLater(); {
			case r.Key != keyProduce || len(r.Body) < 100_000:
				return answer("at once")
			case r.CorrelationID == 1:
				return Reply{Pending: hurried{l}}
			default:
				time.AfterFunc(time.Minute, func() { l.become(answer(large)) })
				return Reply{Pending: l}
			}
		}}})
		defer w.close()
		heavy := func(id int32) []byte {
			req := kmsg.NewPtrProduceRequest()
			req.SetVersion(7)
			req.Topics = []kmsg.ProduceRequestTopic{{Partitions: make([]kmsg.ProduceRequestTopicPartition, 40_000)}}
			return frame(keyProduce, 7, id, string(req.AppendTo(nil)))
		}
		metadata := kmsg.NewPtrMetadataRequest()
		metadata.Topics = make([]kmsg.MetadataRequestTopic, 100_000)
		other := w.dial()
		defer other.nc.Close()
		needs := func(when string, least, most time.Duration) {
			t.Helper()
			begun := time.Now()
			other.nc.SetReadDeadline(begun.Add(10 * time.Minute))
			other.send(frame(3, 0, 9, string(metadata.AppendTo(nil))))
			other.expect(9, "at once")
			if took := time.Since(begun); took < least || took > most {
				t.Errorf("%s: served after %v", when, took)
			}
		}
		p := w.dial()
		defer p.nc.Close()
		p.send(heavy(1))
		p.produce(2, "small")
		p.silent(time.Second)
		if n := w.server.Stats().BudgetInUse; n < 8<<20 {
			t.Fatalf("%d bytes of budget are held", n)
		}
		needs("beside one that waits", holdTime-2*time.Second, holdTime+time.Second)
		p.expect(1, "hurried")
		p.expect(2, "at once")

		p.send(heavy(3))
		synctest.Wait()
		needs("beside one that cannot hurry, and is not read", 2*holdTime, 2*holdTime+2*time.Second)
		if _, err := io.Copy(io.Discard, p.nc); isTimeout(err) {
			t.Error("it is not cut off")
		}
	})
}
