package storage

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

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
