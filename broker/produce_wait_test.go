package broker

import (
	"context"
	"math"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/wire"
)

// Nothing is kept for an answer that nobody asks for any more, however long the
// producer was ready to wait, nor for one that was given.
func TestNothingIsKeptForALostAnswer(t *testing.T) {
	for _, lost := range []bool{true, false} {
		conn, cancel := context.WithCancel(t.Context())
		kept := func() weak.Pointer[produceWait] {
			w := &produceWait{req: kmsg.NewPtrProduceRequest()}
			w.acks.Expect(0)
			release := w.limit(conn, 24*time.Hour)
			if !lost {
				release()
			}
			return weak.Make(w)
		}()
		if lost {
			cancel()
		}
		for n := 0; kept.Value() != nil; n++ {
			if n == 1000 {
				t.Errorf("lost: %v: the wait is kept", lost)
				break
			}
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
		cancel()
	}
}

// A Produce that waits holds nothing of what came, whatever came with it.
func TestAPendingProduceHoldsNothingThatCame(t *testing.T) {
	b, _ := replicated(t)
	waiting, kept := func() (wire.Pending, weak.Pointer[byte]) {
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis, req.Version = -1, math.MaxInt32, 9
		rp := kmsg.ProduceRequestTopicPartition{Records: oneRecord(t)}
		req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{rp}}}
		for _, tags := range []*kmsg.Tags{&req.UnknownTags, &req.Topics[0].UnknownTags, &req.Topics[0].Partitions[0].UnknownTags} {
			tags.Set(7, make([]byte, 1<<10))
		}
		r := &wire.Request{Version: 9, Body: req.AppendTo(nil), Conn: &wire.Conn{}}
		kept, replies := weak.Make(&r.Body[0]), make([]wire.Reply, 1)
		dispatcher{b}.HandleTogether(t.Context(), []*wire.Request{r}, replies)
		return replies[0].Pending, kept
	}()
	if waiting == nil {
		t.Fatal("it does not wait")
	}
	for n := 0; kept.Value() != nil; n++ {
		if n == 1000 {
			t.Fatal("what came is held")
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	waiting.(interface{ Hurry() }).Hurry()
	<-waiting.Done()
	waiting.Reply().Body.Release()
}
