package wire

import (
	"sync/atomic"
	"time"
)

// A pace is how quickly bytes move that others may have to wait for: those of a frame
// that the budget is held for, or of a reply that takes memory. One goroutine moves them,
// any may look.
type pace struct {
	since atomic.Int64 // of server.clock; 0: nothing is watched
	bytes atomic.Int64 // how many have moved since
}

const (
	// slowestRate is what may be waited for, once it has had some time.
	slowestRate = 32 << 10 // bytes a second
	slowGrace   = 5 * time.Second
)

// watch begins anew. The time goes first: see slow.
func (p *pace) watch(now int64) {
	p.since.Store(max(now, 1))
	p.bytes.Store(0)
}

func (p *pace) watched() bool { return p.since.Load() != 0 }

func (p *pace) end() { p.since.Store(0) }

// moved notes that bytes have moved. That they moved quickly until now is no credit for
// later.
func (p *pace) moved(n int, now int64) {
	since := p.since.Load()
	if since == 0 {
		return
	}
	if took := time.Duration(now - since); took >= slowGrace && !tooSlow(p.bytes.Load(), took) {
		p.watch(now)
	}
	p.bytes.Add(int64(n))
}

// slow says that they move too slowly to be waited for.
func (p *pace) slow(now int64) bool {
	since := p.since.Load()
	if since == 0 {
		return false
	}
	took := time.Duration(now - since)
	// Bytes that are counted from another time on say nothing about this one.
	return took >= slowGrace && tooSlow(p.bytes.Load(), took) && p.since.Load() == since
}

func tooSlow(n int64, took time.Duration) bool { return float64(n) < slowestRate*took.Seconds() }
