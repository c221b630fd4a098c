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

// wait tells how long there is no token; take takes one. A rate of 0 is no limit.
func (b *bucket) wait(now int64, rate float64) time.Duration {
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
	if b.tokens >= 1 {
		return 0
	}
	return time.Duration(min((1-b.tokens)/rate, longestWait.Seconds()) * 1e9)
}

// longestWait is when it is looked again at the latest.
const longestWait = time.Hour

func (b *bucket) take() { b.tokens-- }

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
