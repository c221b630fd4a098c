package wire

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the observer is told of: a request that is worked on, one that waits, a
// Produce whose answer comes later, and one without an answer.
func TestTimings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen []Timing
		pending := newLater()
		w := newWorld(t, ServerOptions{
			Observe: func(o Timing) {
				mu.Lock()
				seen = append(seen, o)
				mu.Unlock()
			},
			Handler: fake{handle: func(_ context.Context, r *Request) Reply {
				switch r.Key {
				case int16(kmsg.Metadata):
					time.Sleep(3 * time.Millisecond)
					return answer("worked")
				case int16(kmsg.Fetch):
					r.Mark = 7
					time.Sleep(time.Millisecond)
					r.Waiting()
					time.Sleep(20 * time.Millisecond)
					return answer("waited")
				}
				if r.CorrelationID == 3 {
					return Reply{Pending: pending}
				}
				return Reply{None: true}
			}},
		})
		defer w.close()
		p := w.dial()
		defer p.nc.Close()
		time.Sleep(time.Millisecond) // off the clock's zero
		for i, key := range []kmsg.Key{kmsg.Metadata, kmsg.Fetch, kmsg.Produce, kmsg.Produce} {
			p.send(frame(int16(key), 1, int32(i+1), ""))
			synctest.Wait()
			time.Sleep(50 * time.Millisecond)
		}
		pending.become(answer("late"))
		synctest.Wait()
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 4 {
			t.Fatalf("%d timings: %+v", len(seen), seen)
		}
		const ms = time.Millisecond
		work, fetch, none, late := seen[0], seen[1], seen[2], seen[3]
		if work.Key != int16(kmsg.Metadata) || work.Local != 3*ms || work.Remote != 0 || work.Total != 3*ms || work.ResponseBytes != len("worked") || work.Listener != "PLAINTEXT" {
			t.Errorf("worked: %+v", work)
		}
		if fetch.Mark != 7 || fetch.Local != ms || fetch.Remote != 20*ms || fetch.Total != 21*ms {
			t.Errorf("waited: %+v", fetch)
		}
		if none.ResponseBytes != 0 || none.Key != int16(kmsg.Produce) {
			t.Errorf("no answer: %+v", none)
		}
		if late.Local != 0 || late.Remote < 90*ms || late.Total != late.Remote || late.ResponseBytes != len("late") {
			t.Errorf("late: %+v", late)
		}
	})
}

// Replies that are never written are told of as well: the one that a broken
// connection was waiting for, those behind it, and one that comes too late to be
// queued.
func TestTimingsOfDroppedReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen []Timing
		w := newWorld(t, ServerOptions{
			Observe: func(o Timing) {
				mu.Lock()
				seen = append(seen, o)
				mu.Unlock()
			},
			Handler: fake{handle: func(_ context.Context, r *Request) Reply {
				switch r.CorrelationID {
				case 1:
					return Reply{Pending: newLater()}
				case 3:
					time.Sleep(10 * time.Second) // the peer goes away meanwhile
				}
				return answer("never read")
			}},
		})
		defer w.close()
		p := w.dial()
		time.Sleep(time.Millisecond)
		for i := range int32(3) {
			p.send(frame(int16(kmsg.Produce), 3, i+1, ""))
			synctest.Wait()
		}
		time.Sleep(time.Second)
		w.server.mu.Lock()
		for c := range w.server.conns {
			c.shut(ErrClosed)
		}
		w.server.mu.Unlock()
		time.Sleep(time.Minute)
		p.nc.Close()
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 3 {
			t.Fatalf("%d timings of 3 requests: %+v", len(seen), seen)
		}
		for i, o := range seen {
			if o.ResponseBytes != 0 || o.Total < time.Second || o.Queue < 0 || o.Local < 0 || o.Remote < 0 || o.ResponseQueue < 0 || o.Send < 0 {
				t.Errorf("timing %d: %+v", i, o)
			}
		}
		if first := seen[0]; first.Remote != time.Second || first.Total != time.Second {
			t.Errorf("the reply that was waited for: %+v", first)
		}
	})
}
