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
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &budget{size: 100}
		ctx := context.Background()
		take := func(n, want int64) {
			t.Helper()
			if got, err := b.acquire(ctx, n, nil); got != want || err != nil {
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
				got, err := b.acquire(ctx, n, nil)
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
			_, err := b.acquire(cancelled, 10, nil)
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
		b.acquire(context.Background(), 10, nil)
		ctx, cancel := context.WithCancelCause(context.Background())
		taken := make(chan int64)
		go func() {
			n, err := b.acquire(ctx, 10, nil)
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
		// One may run ahead of the budget.
		if most.Load() > budgetSize+frameSize || most.Load() < budgetSize/2 {
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

// Half a frame is charged for what the buffer holds that it is read into, and gives
// that back when its connection ends.
func TestBudgetOfHalfAFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ServerOptions{Budget: 1 << 20, Handler: echo()})
		defer w.close()
		b := frame(keyProduce, 7, 1, strings.Repeat("x", 900<<10))
		for sent, want := range map[int]int64{100: 16 << 10, 20 << 10: 64 << 10, 100 << 10: 256 << 10, 300 << 10: int64(len(b) - 4)} {
			p := w.dial()
			p.send(b[:min(sent, 200<<10)])
			synctest.Wait()
			p.send(b[min(sent, 200<<10):sent])
			synctest.Wait()
			if n := w.server.Stats().BudgetInUse; n != want {
				t.Errorf("%d bytes of a frame of %d hold %d bytes of budget, want %d", sent, len(b), n, want)
			}
			p.nc.Close()
			synctest.Wait()
			if n := w.server.Stats().BudgetInUse; n != 0 {
				t.Errorf("a connection that has ended holds %d bytes of budget", n)
			}
		}
	})
}

// Frames that are half read and together more than the budget do not wait for one
// another for ever.
func TestHalfReadFramesDoNotLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ServerOptions{Budget: 1 << 20, Handler: echo()})
		defer w.close()
		b := frame(keyProduce, 7, 1, strings.Repeat("x", 900<<10))
		begun := time.Now()
		var all sync.WaitGroup
		for range 10 {
			p := w.dial()
			all.Go(func() {
				defer p.nc.Close()
				var reading sync.WaitGroup
				reading.Go(func() {
					if id, _, err := p.recv(); err != nil || id != 1 {
						t.Errorf("answer %d, error %v", id, err)
					}
				})
				for rest := b; len(rest) > 0; time.Sleep(50 * time.Millisecond) {
					n := min(len(rest), 100<<10)
					if _, err := p.nc.Write(rest[:n]); err != nil {
						t.Error(err)
						break
					}
					rest = rest[n:]
				}
				reading.Wait()
			})
		}
		all.Wait()
		if d := time.Since(begun); d > 10*time.Second {
			t.Errorf("ten frames took %v", d)
		}
		synctest.Wait()
		if n := w.server.Stats().BudgetInUse; n != 0 {
			t.Errorf("%d bytes are held at the end", n)
		}
	})
}

// What a request stands for: nothing much for a real Produce, and several times
// what decoding takes for one of nothing but topics, and for any other request.
func TestWeight(t *testing.T) {
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
	short := kmsg.NewPtrProduceRequest()
	short.Topics = []kmsg.ProduceRequestTopic{{Partitions: make([]kmsg.ProduceRequestTopicPartition, 10_000)}}
	for i := range short.Topics[0].Partitions {
		short.Topics[0].Partitions[i].Records = make([]byte, 30)
	}
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Topics = make([]kmsg.MetadataRequestTopic, 1000)
	weigh := func(req kmsg.Request, version int16) int64 {
		req.SetVersion(version)
		f := frame(req.Key(), version, 1, string(req.AppendTo(nil)))[4:]
		h, err := parseHeader(f)
		if err != nil {
			t.Fatal(err)
		}
		return weight(h, f)
	}
	for v := int16(0); v <= req.MaxVersion(); v++ {
		if n := weigh(real, v); n > lightRequest {
			t.Errorf("v%d: a real Produce weighs %d", v, n)
		}
		// The row of the answer, what finds rows given twice, and what the answer is encoded to.
		const row = int64(unsafe.Sizeof(kmsg.ProduceResponseTopicPartition{})) + 100 + 80
		if n := weigh(short, v); n < 10_000*row {
			t.Errorf("v%d: a Produce of 10000 batches that are none weighs %d", v, n)
		}
		if n := weigh(req, v); n < 4000*48*answering {
			t.Errorf("v%d: a Produce of 4000 topics and partitions weighs %d", v, n)
		}
	}
	if n := weigh(metadata, 0); n < 1000*48*answering || n > 1000*100*answering {
		t.Errorf("a Metadata of 1000 topics weighs %d", n)
	}
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Partitions: make([]int32, 10_000)}}
	for v := int16(0); v <= elect.MaxVersion(); v++ {
		// The rows of the answer, while their list grows, and what they are encoded to.
		const row = 2*int64(unsafe.Sizeof(kmsg.ElectLeadersResponseTopicPartition{})) + 80
		if n := weigh(elect, v); n < 10_000*row {
			t.Errorf("v%d: an election of 10000 partitions weighs %d", v, n)
		}
	}
	if n := weight(header{key: 1000}, make([]byte, 1<<20)); n != 0 {
		t.Errorf("a private request weighs %d", n)
	}
}

// A frame is charged its length, from four kilobytes on, and what it stands for
// when that is much; until its handler says that it waits, unless it is heavy. That of a
// Produce does not wait.
func TestCharges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var before, after int64
		var w *world
		w = newWorld(t, ServerOptions{Budget: 1 << 30, Handler: fake{serves: func(string, int16, int16) bool { return true }, handle: func(_ context.Context, r *Request) Reply {
			before = w.server.Stats().BudgetInUse
			r.Waiting()
			after = w.server.Stats().BudgetInUse
			return answer("ok")
		}}})
		defer w.close()
		p := w.dial()
		defer p.nc.Close()
		metadata := func(n int) []byte {
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = make([]kmsg.MetadataRequestTopic, n)
			return frame(3, 0, 1, string(req.AppendTo(nil)))
		}
		const entry = answering * (32 + stringMemory)
		for _, c := range []struct {
			name          string
			frame         []byte
			charged, kept int64
		}{
			{"a tiny Produce", frame(keyProduce, 3, 1, strings.Repeat("x", 4000)), 0, 0},
			{"a small Produce", frame(keyProduce, 3, 1, strings.Repeat("x", 5000)), 5011, 5011},
			{"a large Produce", frame(keyProduce, 3, 1, strings.Repeat("x", 1<<20)), 1<<20 + 11, 1<<20 + 11},
			{"a private request", frame(1000, 0, 1, strings.Repeat("x", 1<<20)), 1<<20 + 11, 0},
			{"a light Metadata", metadata(100), 0, 0},
			{"a Metadata", metadata(10000), 10000*(2+entry) + 15, 0},
			{"a heavy Metadata", metadata(100000), 100000*(2+entry) + 15, 100000*(2+entry) + 15},
		} {
			p.send(c.frame)
			p.expect(1, "ok")
			if before != c.charged || after != c.kept {
				t.Errorf("%s: charged %d, and %d while it waited, want %d and %d", c.name, before, after, c.charged, c.kept)
			}
			if n := w.server.Stats().BudgetInUse; n != 0 {
				t.Errorf("%s: %d are still charged at the end", c.name, n)
			}
		}
	})
}

// A request that stands for more than the whole budget is refused, except
// between brokers.
func TestTooHeavy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, logs := observed()
		w := newWorld(t, ServerOptions{Budget: 8 << 20, Handler: echo(), Logger: logger, ReservedListeners: []string{"INTERNAL"}})
		defer w.close()
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = make([]kmsg.MetadataRequestTopic, 1<<20)
		b := frame(3, 0, 1, string(req.AppendTo(nil)))
		p := w.dial()
		p.other(9, "x")
		p.expect(9, "ok x")
		go p.nc.Write(b)
		p.ended()
		synctest.Wait()
		if logs.Len() != 1 || !strings.Contains(fmt.Sprint(logs.All()[0].ContextMap()), "queued.max.request.bytes") {
			t.Errorf("logged %v", logs.All())
		}
		q := w.dialTo("other", "broker:9093")
		defer q.nc.Close()
		go q.nc.Write(b)
		if id, _, err := q.recv(); err != nil || id != 1 {
			t.Errorf("between brokers: answer %d, error %v", id, err)
		}
		if n := w.server.Stats().BudgetInUse; n != 0 {
			t.Errorf("%d bytes are still charged", n)
		}
	})
}
