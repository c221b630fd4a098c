package storage

import (
	"context"
	"sync"
	"time"
)

// throttle keeps what several goroutines do under a rate. Who went over it waits until all of it is within the rate
// again; a new rate counts at once, also for what was done before.
type throttle struct {
	mu   sync.Mutex
	rate float64 // a second
	debt float64
	at   time.Time
	set  chan struct{} // closed when the rate changes
}

const (
	// slack is the wait that is not worth a timer; the debt stays.
	slack = 20 * time.Millisecond
	// longest is a wait after which the clock is looked at again.
	longest = time.Second
)

func newThrottle(rate float64) *throttle {
	return &throttle{rate: rate, at: time.Now(), set: make(chan struct{})}
}

// setRate changes the rate.
func (t *throttle) setRate(rate float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if rate == t.rate {
		return
	}
	t.settle()
	t.rate = rate
	close(t.set)
	t.set = make(chan struct{})
}

func (t *throttle) settle() {
	now := time.Now()
	if t.debt -= now.Sub(t.at).Seconds() * t.rate; !(t.debt > 0) {
		t.debt = 0
	}
	t.at = now
}

// wait takes note of n and waits as long as the rate asks for, or until ctx ends or stop is closed.
func (t *throttle) wait(ctx context.Context, stop <-chan struct{}, n int) error {
	t.mu.Lock()
	t.settle()
	t.debt += float64(n)
	for {
		seconds, set := t.debt/t.rate, t.set
		t.mu.Unlock()
		if err := ctx.Err(); err != nil || !(seconds > slack.Seconds()) { // a rate that is no number is none
			return err
		}
		timer := time.NewTimer(time.Duration(min(seconds, longest.Seconds()) * float64(time.Second)))
		select {
		case <-timer.C:
		case <-set:
		case <-ctx.Done():
		case <-stop:
			timer.Stop()
			return nil
		}
		timer.Stop()
		t.mu.Lock()
		t.settle()
	}
}
