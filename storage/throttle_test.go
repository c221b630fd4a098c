package storage

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Several that share a rate keep it together, whatever the pieces are; time in which nothing is done earns nothing.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThrottle(1000)
		time.Sleep(time.Hour)
		begun := time.Now()
		var all sync.WaitGroup
		for _, piece := range []int{1, 100, 2500} {
			all.Go(func() {
				for range 5000 / piece {
					if err := th.wait(t.Context(), nil, piece); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if d := time.Since(begun); d < 15*time.Second-slack || d > 16*time.Second {
			t.Errorf("three times 5000 at 1000 a second took %v", d)
		}
	})
}

// Another rate counts at once for who waits already, a stop ends the wait, and so does the end of the context.
func TestThrottleWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThrottle(1)
		ctx, cancel := context.WithCancel(t.Context())
		begun, stop := time.Now(), make(chan struct{})
		took := make([]time.Duration, 3)
		var all sync.WaitGroup
		for i, end := range []<-chan struct{}{nil, nil, stop} {
			of := t.Context()
			if i == 1 {
				of = ctx
			}
			all.Go(func() {
				if err := th.wait(of, end, 4000); (err != nil) != (i == 1) {
					t.Errorf("wait %d: %v", i, err)
				}
				took[i] = time.Since(begun)
			})
		}
		time.Sleep(10 * time.Second)
		close(stop)
		synctest.Wait()
		time.Sleep(10 * time.Second)
		cancel()
		synctest.Wait()
		time.Sleep(10*time.Second + longest/2)
		th.setRate(100_000)
		all.Wait()
		// Of 12000 about 30 are through; the rest is, in an eighth of a second, and so before the clock is looked at again.
		if took[2] != 10*time.Second || took[1] != 20*time.Second || took[0] < 30*time.Second+longest/2+100*time.Millisecond || took[0] >= 31*time.Second {
			t.Errorf("they waited %v", took)
		}
	})
}

// A rate that is no number, which the config takes as Kafka does, holds nobody up,
// and is forgotten with the next one.
func TestThrottleWithoutNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThrottle(math.NaN())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		for range 3 {
			if err := th.wait(ctx, nil, 1000); err != nil {
				t.Fatal(err)
			}
		}
		th.setRate(100)
		if err := th.wait(ctx, nil, 1000); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d < 9*time.Second || d > 11*time.Second {
			t.Errorf("1000 at 100 a second took %v", d)
		}
	})
}
