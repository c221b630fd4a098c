package partition

import (
	"errors"
	"math"
	"time"

	"millrace/storage/log"
)

// Flushing is group commit. flush.messages and flush.ms say when a flush is due; from then until it is done the log
// counts as written only up to where it was: acks=1 waits for that, and the high watermark does not pass it. Appends go
// on meanwhile, and the next flush takes all of them. With flush.messages=1 every append waits for the disk, and what is
// acknowledged survives power loss; with larger values Kafka too acknowledges what no flush is due for.
//
// flush.ms counts from the last flush, as in Kafka; there a scheduler looks at it, once in a life by default. Here a
// timer runs while there is something to flush, so that nothing stays unflushed for longer.

// flushDue says, under the lock, whether the configs ask for a flush.
func (p *Partition) flushDue(now time.Time) bool {
	return p.Log().FlushDue(now.UnixMilli())
}

// flushed says, under the lock, that there is nothing left to flush.
func (p *Partition) flushed() bool { return p.Log().FlushedOffset() >= p.Log().View().LogEnd() }

// startFlush starts, under the lock, the flusher, unless it runs.
func (p *Partition) startFlush() {
	if p.flush {
		return
	}
	p.flush = true
	p.flusher.Add(1)
	go p.flushUntilDone()
}

// armFlush sees to it, under the lock, that somebody looks when flush.ms is over. The flusher does so itself.
func (p *Partition) armFlush() {
	ms := p.settings.Load().flushMs
	if p.armed || p.flush || ms > math.MaxInt64/int64(time.Millisecond) {
		return
	}
	p.armed = true
	after := time.Duration(ms) * time.Millisecond
	if p.flushTimer == nil {
		p.flushTimer = time.AfterFunc(after, p.flushTime)
		return
	}
	p.flushTimer.Reset(after)
}

func (p *Partition) disarmFlush() {
	if p.armed {
		p.armed = false
		p.flushTimer.Stop()
	}
}

// flushTime is what the timer calls.
func (p *Partition) flushTime() {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	switch {
	case p.role.Load().gone || p.flushed():
	case p.flushDue(now):
		p.startFlush()
	default:
		p.armFlush() // somebody else has flushed meanwhile, but not all
	}
}

// flushUntilDone flushes until no flush is due.
func (p *Partition) flushUntilDone() {
	defer p.flusher.Done()
	for p.flushOnce() {
	}
}

// flushOnce flushes what there is and says whether another flush is due.
func (p *Partition) flushOnce() (again bool) {
	l := p.Log()
	err := l.Flush()
	for n := 0; log.AwaitDescriptor(err, n); n++ {
		err = l.Flush()
	}
	now := p.now()
	p.mu.Lock()
	defer p.unlockAndTell()
	if l != p.Log() && !p.role.Load().gone {
		return true // what was flushed is not the log any more
	}
	if errors.Is(err, log.ErrNoDescriptor) && !p.role.Load().gone {
		return true // it has waited a while for one; who waits here goes on waiting
	}
	if err != nil {
		// The directory is given up: nothing that waits here will ever be safe.
		p.flush = false
		p.committed.fail(err)
		p.written.fail(err)
		p.wakeAll()
		return false
	}
	again = !p.role.Load().gone && p.flushDue(now)
	if again {
		p.counted = max(p.counted, p.Log().FlushedOffset())
	} else {
		p.flush = false
		p.counted = p.Log().View().LogEnd()
		p.disarmFlush()
		if !p.flushed() && !p.role.Load().gone {
			p.armFlush()
		}
	}
	if p.leader != nil {
		p.apply(p.leader.Appended(p.Log().View().LogEnd(), p.counted, now))
	}
	p.written.reach(p.counted) // now that consumers see it: who is told may read at once
	return again
}
