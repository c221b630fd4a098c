package broker

import (
	"context"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/twmb/franz-go/pkg/kmsg"
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
