package partition

import (
	"fmt"

	"millrace/storage/batch"
	"millrace/storage/producer"
)

// Position is where a follower fetches next.
type Position struct {
	Offset      batch.Offset // the log end
	LastEpoch   batch.LeaderEpoch
	LogStart    batch.Offset
	LeaderID    int32
	LeaderEpoch batch.LeaderEpoch
}

// Position says what to ask the leader for; it takes no lock.
func (p *Partition) Position() Position {
	r, v := p.role.Load(), p.Log().View()
	return Position{Offset: v.LogEnd(), LastEpoch: v.LatestEpoch(), LogStart: v.LogStart(), LeaderID: r.leaderID, LeaderEpoch: r.epoch}
}

// Copied is what a leader answered to a follower's fetch.
type Copied struct {
	LeaderEpoch   batch.LeaderEpoch // the epoch the fetch was made in
	From          batch.Offset      // where it fetched from
	Records       []byte
	HighWatermark batch.Offset
	LogStart      batch.Offset
}

// follows checks, under the lock, that what a leader sent in that epoch still counts.
func (p *Partition) follows(epoch batch.LeaderEpoch) error {
	r := p.role.Load()
	switch {
	case r.gone:
		return ErrGone
	case r.leader || epoch < r.epoch:
		return ErrFencedLeaderEpoch
	case epoch > r.epoch:
		return ErrUnknownLeaderEpoch
	}
	return nil
}

// Replicate appends what was copied from the leader, whose checksums are compared, and takes over its high watermark and
// log start as far as the log reaches.
func (p *Partition) Replicate(c Copied) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.follows(c.LeaderEpoch); err != nil {
		return err
	}
	v := p.Log().View()
	if c.From != v.LogEnd() {
		return fmt.Errorf("replicate to %v: fetched from %d, but the log now ends at %d", p, c.From, v.LogEnd())
	}
	if len(c.Records) > 0 {
		_, err := p.Log().AppendAsFollower(c.Records)
		if end := p.Log().View().LogEnd(); end > c.From { // also what stands there before an error
			p.counted = end
			p.wake(OnLogEnd)
			if p.flushDue(p.now()) {
				p.startFlush()
			}
			p.armFlush()
		}
		if err != nil {
			return fmt.Errorf("replicate to %v: %w", p, err)
		}
	}
	v = p.Log().View()
	hw := min(c.HighWatermark, v.LogEnd())
	if faults.followerAhead {
		hw = v.LogEnd()
	}
	if hw > v.HighWatermark() {
		p.Log().SetHighWatermark(hw)
		p.wake(OnHighWatermark)
		v = p.Log().View()
	}
	if start := min(c.LogStart, v.HighWatermark()); start > v.LogStart() {
		if err := p.Log().SetLogStart(start); err != nil {
			return fmt.Errorf("move the log start of %v to %d: %w", p, start, err)
		}
	}
	return nil
}

// Truncate cuts the log to where it agrees with the leader's.
func (p *Partition) Truncate(epoch batch.LeaderEpoch, to batch.Offset) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.follows(epoch); err != nil {
		return err
	}
	p.askew.Store(true)
	if err := p.Log().Truncate(to); err != nil {
		return fmt.Errorf("truncate %v to %d: %w", p, to, err)
	}
	p.counted = p.Log().View().LogEnd()
	p.wakeAll()
	return nil
}

// TruncateFully empties the log and begins it anew at start: the leader's log begins behind this one's end.
func (p *Partition) TruncateFully(epoch batch.LeaderEpoch, start batch.Offset) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.follows(epoch); err != nil {
		return err
	}
	p.askew.Store(true)
	if err := p.Log().TruncateFully(start); err != nil {
		return fmt.Errorf("begin %v anew at %d: %w", p, start, err)
	}
	p.counted = p.Log().View().LogEnd()
	p.wakeAll()
	return nil
}

// Producers are the producers the log remembers, by id, for DescribeProducers.
func (p *Partition) Producers() []producer.Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Log().Producers()
}

// HasTransaction says whether the producer has a transaction open here in that epoch, so that its next batch needs no
// verification.
func (p *Partition) HasTransaction(id batch.ProducerID, e batch.ProducerEpoch) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Log().HasTransaction(id, e)
}

// Verifying notes that a first batch of a transaction is being verified with its coordinator.
func (p *Partition) Verifying(id batch.ProducerID, e batch.ProducerEpoch, sequence int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Log().Verifying(id, e, sequence)
}
