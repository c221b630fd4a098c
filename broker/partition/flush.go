package partition

import (
	"time"
)

// Flushing is group commit. flush.messages and flush.ms say when a flush is due; from then until it is done the log
// counts as written only up to where it was: acks=1 waits for that, and the high watermark does not pass it. Appends go
// on meanwhile, and the next flush takes all of them. With flush.messages=1 every append waits for the disk, and what is
// acknowledged survives power loss; with larger values Kafka too acknowledges what no flush is due for.

// flushDue says, under the lock, whether the configs ask for a flush.
func (p *Partition) flushDue(now time.Time) bool {
	return p.log.FlushDue(now.UnixMilli())
}

// startFlush starts, under the lock, the flusher.
func (p *Partition) startFlush() {
	p.flush = true
	p.flusher.Add(1)
	go p.flushUntilDone()
}

// flushUntilDone flushes until no flush is due.
func (p *Partition) flushUntilDone() {
	defer p.flusher.Done()
	for p.flushOnce() {
	}
}

// flushOnce flushes what there is and says whether another flush is due.
func (p *Partition) flushOnce() (again bool) {
	err := p.log.Flush()
	now := p.now()
	p.mu.Lock()
	defer p.unlockAndTell()
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
		p.counted = max(p.counted, p.log.FlushedOffset())
	} else {
		p.flush = false
		p.counted = p.log.View().LogEnd()
	}
	p.written.reach(p.counted)
	if p.leader != nil {
		p.apply(p.leader.Appended(p.log.View().LogEnd(), p.counted, now))
	}
	return again
}
