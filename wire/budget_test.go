package wire

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &budget{size: 100}
		ctx := context.Background()
		take := func(n, want int64) {
			t.Helper()
			if got, err := b.acquire(ctx, n); got != want || err != nil {
				t.Fatalf("acquire(%d) = %d, %v, want %d", n, got, err, want)
			}
		}
		take(60, 60)
		if _, ok := b.tryAcquire(41); ok {
			t.Fatal("took 101 of 100")
		}
		var mu sync.Mutex
		var order []string
		for _, n := range []int64{1000, 80, 30} {
			go func() {
				got, err := b.acquire(ctx, n)
				mu.Lock()
				defer mu.Unlock()
				order = append(order, fmt.Sprintf("%d:%d %v", n, got, err))
			}()
			synctest.Wait()
		}
		if _, ok := b.tryAcquire(1); ok || len(order) > 0 {
			t.Fatal("the queue was jumped")
		}
		cancelled, cancel := context.WithCancelCause(ctx)
		failed := make(chan error)
		go func() {
			_, err := b.acquire(cancelled, 10)
			failed <- err
		}()
		synctest.Wait()
		cancel(ErrDraining)
		if err := <-failed; !errors.Is(err, ErrDraining) {
			t.Fatalf("acquire with a cancelled context: %v", err)
		}
		b.release(60)
		synctest.Wait()
		b.release(100)
		synctest.Wait()
		b.release(80)
		synctest.Wait()
		if got := fmt.Sprint(order); got != "[1000:100 <nil> 80:80 <nil> 30:30 <nil>]" {
			t.Fatalf("served %s", got)
		}
		b.release(30)
		if b.inUse() != 0 {
			t.Fatalf("%d in use at the end", b.inUse())
		}
	})
}

// A waiter that gives up at the moment it is served leaves nothing taken.
func TestBudgetGivenUpWhenServed(t *testing.T) {
	both := 0
	for range 2000 {
		b := &budget{size: 10}
		b.acquire(context.Background(), 10)
		ctx, cancel := context.WithCancelCause(context.Background())
		taken := make(chan int64)
		go func() {
			n, err := b.acquire(ctx, 10)
			if err != nil && n != 0 {
				t.Errorf("acquire = %d, %v", n, err)
			}
			taken <- n
		}()
		for waits := false; !waits; {
			b.mu.Lock()
			waits = len(b.waiting) == 1
			b.mu.Unlock()
			runtime.Gosched()
		}
		cancel(ErrClosed)
		b.release(10)
		if n := <-taken; b.inUse() != n {
			t.Fatalf("%d are in use, %d were taken", b.inUse(), n)
		} else if n == 0 {
			both++
		}
	}
	if both == 0 {
		t.Error("nobody gave up")
	}
}

// Many connections with large frames share a budget that holds few of them, and
// all are served; meanwhile small frames and reserved listeners get through.
func TestBudgetOfManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budgetSize, frameSize, conns = 1 << 20, 300 << 10, 40
		var now, most atomic.Int64
		w := newWorld(t, ServerOptions{Budget: budgetSize, Handler: fake{handle: func(_ context.Context, r *Request) Reply {
			if len(r.Body) > smallFrame {
				most.Store(max(most.Load(), now.Add(int64(len(r.Body)))))
				time.Sleep(time.Second)
				now.Add(-int64(len(r.Body)))
			}
			return answer("ok")
		}}})
		defer w.close()
		body := strings.Repeat("x", frameSize)
		start := time.Now()
		done := make(chan struct{}, conns)
		for range conns {
			p := w.dial()
			go func() {
				p.produce(1, body)
				p.expect(1, "ok")
				p.nc.Close()
				done <- struct{}{}
			}()
		}
		synctest.Wait()
		small := w.dial()
		small.other(1, "small")
		small.expect(1, "ok")
		internal := w.dialTo("other", "broker:9093")
		internal.produce(1, strings.Repeat("x", smallFrame))
		internal.expect(1, "ok")
		if d := time.Since(start); d > time.Second {
			t.Errorf("a small frame and a reserved listener waited %v", d)
		}
		for range conns {
			<-done
		}
		if most.Load() > budgetSize || most.Load() < budgetSize/2 {
			t.Errorf("requests of %d bytes ran at once under a budget of %d", most.Load(), budgetSize)
		}
		small.nc.Close()
		internal.nc.Close()
	})
}

// A request larger than the budget runs alone, and what waits to be answered
// holds none of it.
func TestBudgetIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		waiting := make(chan struct{})
		s.other = func(ctx context.Context, r *Request) Reply {
			r.Waiting()
			r.Waiting()
			<-waiting
			return answer("late")
		}
		w := newWorld(t, ServerOptions{Budget: 1 << 20, Handler: s})
		defer w.close()
		p, q := w.dial(), w.dial()
		defer p.nc.Close()
		defer q.nc.Close()
		name := "wait" + strings.Repeat("x", 3<<20)
		p.produce(1, name)
		q.other(1, strings.Repeat("y", 100<<10)) // stands for 3.2 MB
		synctest.Wait()
		if got := len(s.read()); got != 2 {
			t.Fatalf("%d requests were handled", got)
		}
		if n := w.server.Stats().BudgetInUse; n != 0 {
			t.Errorf("two waiting replies hold %d bytes of budget", n)
		}
		s.later(name).become(answer("a"))
		p.expect(1, "a")
		close(waiting)
		q.expect(1, "late")
	})
}

// What half a frame has taken goes back when its connection ends.
func TestBudgetOfHalfAFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ServerOptions{Budget: 1 << 20, Handler: echo()})
		defer w.close()
		p, q := w.dial(), w.dial()
		b := frame(keyProduce, 7, 1, strings.Repeat("x", 900<<10))
		p.send(b[:100<<10])
		go q.nc.Write(b) // more than the network holds
		synctest.Wait()
		if n := w.server.Stats().BudgetInUse; n != int64(len(b)-4) {
			t.Errorf("half a frame of %d bytes holds %d bytes of budget", len(b), n)
		}
		p.nc.Close()
		_, body, err := q.recv()
		if err != nil || len(body) != 3+900<<10 {
			t.Errorf("got %d bytes, error %v", len(body), err)
		}
		q.nc.Close()
	})
}

func TestAmplifies(t *testing.T) {
	req := kmsg.NewPtrProduceRequest()
	for range 2000 {
		topic := kmsg.NewProduceRequestTopic()
		topic.Partitions = make([]kmsg.ProduceRequestTopicPartition, 1)
		req.Topics = append(req.Topics, topic)
	}
	real := kmsg.NewPtrProduceRequest()
	for range 20 {
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = "a-topic-name"
		for p := range 5 {
			topic.Partitions = append(topic.Partitions, kmsg.ProduceRequestTopicPartition{Partition: int32(p), Records: make([]byte, 100)})
		}
		real.Topics = append(real.Topics, topic)
	}
	for v := int16(0); v <= req.MaxVersion(); v++ {
		for _, c := range []struct {
			req     *kmsg.ProduceRequest
			entries int
			want    bool
		}{{req, 4000, true}, {real, 120, false}} {
			if v >= 13 && c.want {
				// An id of 16 bytes makes an entry cost less than its worth.
				continue
			}
			c.req.Version = v
			b := c.req.AppendTo(nil)
			if n := produceEntries(b, v); n != c.entries {
				t.Errorf("v%d: counted %d topics and partitions, want %d", v, n, c.entries)
			}
			f := frame(keyProduce, v, 1, string(b))[4:]
			if got := amplifies(f); got != c.want {
				t.Errorf("v%d: amplifies = %v, want %v", v, got, c.want)
			}
		}
	}
}

// A Produce stands for its length, any other request for 32 times its length,
// until its handler says that it waits.
func TestCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var before, after int64
		var w *world
		w = newWorld(t, ServerOptions{Budget: 1 << 30, Handler: fake{handle: func(_ context.Context, r *Request) Reply {
			before = w.server.Stats().BudgetInUse
			r.Waiting()
			after = w.server.Stats().BudgetInUse
			return answer("ok")
		}}})
		defer w.close()
		p := w.dial()
		defer p.nc.Close()
		for _, n := range []int{0, 1000, smallFrame, 1 << 20} {
			for key, times := range map[int16]int64{keyProduce: 1, 3: 32} {
				f := frame(key, 1, 1, strings.Repeat("x", n))
				p.send(f)
				p.expect(1, "ok")
				if want := times * int64(len(f)-4); before != want || after != 0 {
					t.Errorf("a frame of %d bytes with key %d was charged %d, want %d; while it waited %d", len(f)-4, key, before, want, after)
				}
			}
		}
	})
}

// A Produce of nothing but topics is charged like any other request.
func TestAmplifyingProduceIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inUse int64
		var w *world
		w = newWorld(t, ServerOptions{Budget: 64 << 20, Handler: fake{handle: func(_ context.Context, r *Request) Reply {
			inUse = w.server.Stats().BudgetInUse
			return answer("ok")
		}}})
		defer w.close()
		req := kmsg.NewPtrProduceRequest()
		req.Version = 7
		req.Topics = make([]kmsg.ProduceRequestTopic, 20000)
		body := string(req.AppendTo(nil))
		p := w.dial()
		defer p.nc.Close()
		p.produce(1, body)
		p.expect(1, "ok")
		if want := int64(amplification * (len(body) + 11)); inUse != want {
			t.Errorf("charged %d, want %d", inUse, want)
		}
	})
}
