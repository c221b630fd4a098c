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

// logLimit lets one line of each kind through a second.
type logLimit struct {
	mu    sync.Mutex
	kinds map[string]*lineKind // few: a kind is a message, and those are constants
}

type lineKind struct {
	last    int64
	begun   bool
	dropped int
}

// allow tells whether a line of a kind may be written, and how many were not
// since the last one that was.
func (l *logLimit) allow(kind string, now int64) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kinds[kind]
	if k == nil {
		if l.kinds == nil {
			l.kinds = make(map[string]*lineKind)
		}
		k = new(lineKind)
		l.kinds[kind] = k
	}
	if k.begun && now-k.last < int64(time.Second) {
		k.dropped++
		return 0, false
	}
	k.begun, k.last = true, now
	dropped, k.dropped = k.dropped, 0
	return dropped, true
}
