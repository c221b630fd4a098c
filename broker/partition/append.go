package partition

import (
	"errors"
	"fmt"

	"millrace/storage/batch"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// AppendOptions say how a batch is appended.
type AppendOptions struct {
	// LeaderEpoch is the epoch in which the batch may be appended; AnyEpoch leaves that to whoever leads.
	LeaderEpoch batch.LeaderEpoch
	// Acks of -1 needs enough replicas in sync before the append.
	Acks int16
	// Producer says what is known of the producer's transaction.
	Producer producer.Rules
}

// Appended is what an append did.
type Appended struct {
	Base, Last    batch.Offset // of the original, where the batch is a duplicate
	Duplicate     bool
	MaxTimestamp  int64 // of the original, where the batch is a duplicate
	LeaderEpoch   batch.LeaderEpoch
	LogStart      batch.Offset
	HighWatermark batch.Offset
}

// Entry is one batch of several that are appended together.
type Entry struct {
	// Batch is one that batch.Validate accepted, or one the broker built, and Header its header; its base offset and
	// leader epoch are set in place.
	Batch   []byte
	Header  batch.Header
	Options AppendOptions
	// Appended is what the append did, where Err is nil.
	Appended Appended
	Err      error
}

// Append appends a batch as the leader. b is a batch that batch.Validate accepted, or one the broker built, and h its
// header; its base offset and leader epoch are set in place. Append does not wait, Await does, but a moment for a file
// descriptor where none is left.
func (p *Partition) Append(b []byte, h batch.Header, o AppendOptions) (Appended, error) {
	e := [1]Entry{{Batch: b, Header: h, Options: o}}
	tried := 0
	p.AppendTogether(e[:], &tried)
	return e[0].Appended, e[0].Err
}

// AppendTogether is Append of one batch after the other, each judged by itself, with one write to the log. tried counts
// how often a file descriptor was waited for, over all the partitions that somebody appends to: after some, none is any more.
func (p *Partition) AppendTogether(entries []Entry, tried *int) {
	left := p.appendTogether(entries)
	for ; len(left) > 0 && log.AwaitDescriptor(left[0].Err, *tried); *tried++ {
		left = p.appendTogether(left)
	}
}

// appendTogether leaves the batches from the first one on for which no file could be opened: those behind it may follow
// from it.
func (p *Partition) appendTogether(entries []Entry) (left []Entry) {
	now := p.now()
	p.mu.Lock()
	defer p.unlockAndTell()
	grows := false
	for i := range entries {
		e := &entries[i]
		e.Appended, e.Err = p.gather(e, now.UnixMilli())
		grows = grows || e.Err == nil && !e.Appended.Duplicate
		if errors.Is(e.Err, log.ErrNoDescriptor) {
			entries, left = entries[:i], entries[i:]
			for j := range left {
				left[j].Err = e.Err
			}
			break
		}
	}
	if err := p.Log().WriteGathered(); err != nil {
		for i := range entries {
			if e := &entries[i]; e.Err == nil {
				e.Appended, e.Err = Appended{}, fmt.Errorf("append to %v: %w", p, err)
			}
		}
		return left
	}
	if grows {
		p.grown(now)
	}
	hw := p.Log().View().HighWatermark()
	for i := range entries {
		if e := &entries[i]; e.Err == nil {
			e.Appended.HighWatermark = hw
		}
	}
	return left
}

// gather appends a batch, under the lock, but for the write.
func (p *Partition) gather(e *Entry, now int64) (Appended, error) {
	r := p.role.Load()
	if err := p.offlineOr(r.lead(e.Options.LeaderEpoch)); err != nil {
		return Appended{}, err
	}
	if e.Options.Acks == -1 && !p.leader.EnoughISR() {
		return Appended{}, ErrNotEnoughReplicas
	}
	done, err := p.Log().Gather(e.Batch, e.Header, now, e.Options.Producer)
	if err != nil {
		return Appended{}, fmt.Errorf("append to %v: %w", p, err)
	}
	return Appended{
		Base: done.Base, Last: done.Last, Duplicate: done.Duplicate, MaxTimestamp: done.MaxTimestamp,
		LeaderEpoch: r.epoch, LogStart: done.LogStart,
	}, nil
}
