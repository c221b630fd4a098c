package wire

import (
	"sync"
	"time"
)

// bucket is a token bucket. Its owner locks.
type bucket struct {
	tokens float64
	last   int64 // nanoseconds
	begun  bool
}

// rateBurst is how many seconds' worth may come at once.
const rateBurst = 10

// delay takes a token and tells how long to wait before using it. A rate of 0
// is no limit.
func (b *bucket) delay(now int64, rate float64) time.Duration {
	if rate <= 0 {
		b.begun = false
		return 0
	}
	most := rate * rateBurst
	if !b.begun {
		b.tokens, b.begun = most, true
	} else {
		b.tokens = min(b.tokens+float64(now-b.last)/1e9*rate, most)
	}
	b.last = now
	b.tokens--
	if b.tokens >= 0 {
		return 0
	}
	return time.Duration(-b.tokens / rate * 1e9)
}

// logLimit lets ten lines a second through.
type logLimit struct {
	mu      sync.Mutex
	second  int64
	n       int
	dropped int
}

const linesPerSecond = 10

// allow tells whether a line may be written, and how many were not since the
// last one that was.
func (l *logLimit) allow(now int64) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if second := now / int64(time.Second); second != l.second {
		l.second, l.n = second, 0
	}
	if l.n >= linesPerSecond {
		l.dropped++
		return 0, false
	}
	l.n++
	dropped, l.dropped = l.dropped, 0
	return dropped, true
}
