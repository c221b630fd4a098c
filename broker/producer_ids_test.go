package broker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestProducerIDs(t *testing.T) {
	blocks := 0
	p := newProducerIDs(func(context.Context) (int64, int32, error) {
		blocks++
		return int64(1000 * blocks), 2, nil
	})
	if err := p.fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{1000, 1001, 2000, 2001, 3000} {
		if id, err := p.next(t.Context()); id != want || err != nil {
			t.Errorf("got %d, %v, want %d", id, err, want)
		}
	}
}

// Without a controller everybody waits the same time, not each after the other.
func TestProducersWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProducerIDs(func(ctx context.Context) (int64, int32, error) {
			<-ctx.Done()
			return 0, 0, ctx.Err()
		})
		begin := time.Now()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, err := p.next(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(begin); took > producerIDTimeout {
			t.Errorf("the last of them waited for %v", took)
		}
	})
}
