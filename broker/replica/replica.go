// Package replica is the leader's view of its followers: how far each has copied, who belongs to the ISR, and so how far
// the high watermark may go.
//
// It is pure: it is told what was appended and fetched and what the controller decided, with the time, and answers with a
// Decision. It stores nothing, asks nobody and does not believe an ISR before the controller has committed it.
//
// It promises that the high watermark never goes back, never passes an in-sync replica (nor one whose admission to the
// ISR is under way), and stands still while the ISR is smaller than min(min.insync.replicas, replication factor).
package replica

import (
	"fmt"
	"slices"
	"time"

	"millrace/storage/batch"
)

// Broker is what the cluster's image says of a broker that holds a replica.
type Broker struct {
	ID int32
	// Epoch is the broker's registration epoch; -1 where it is not known.
	Epoch int64
	// Live says that the broker is registered, not fenced and not in controlled shutdown: it may join an ISR.
	Live bool
}

// Options are what a leader knows when it takes over.
type Options struct {
	Self           int32
	LeaderEpoch    batch.LeaderEpoch
	PartitionEpoch int32
	Brokers        []Broker // the replicas, this one included
	ISR            []int32
	MinISR         int // min.insync.replicas; below 1 counts as 1
	// LagMax is replica.lag.time.max.ms; 0 is Kafka's 30 s.
	LagMax time.Duration
	// LogEnd and HighWatermark are the local log's. Counted is how much of it counts as written: less than LogEnd while
	// a flush is due.
	LogEnd        batch.Offset
	Counted       batch.Offset
	HighWatermark batch.Offset
	// LogStart is the local log's, for LowWatermark.
	LogStart batch.Offset
}

const (
	defaultLagMax = 30 * time.Second
	// retryPause is how long a refused proposal is not made again.
	retryPause = time.Second
	unknown    = batch.NoOffset
)

// Member is a replica of a proposed ISR. Its epoch lets the controller refuse a broker that has since been restarted
// (KIP-841).
type Member struct {
	ID    int32
	Epoch int64
}

// Proposal is an ISR to be asked of the controller (AlterPartition).
type Proposal struct {
	LeaderEpoch    batch.LeaderEpoch
	PartitionEpoch int32
	ISR            []Member // by id
}

// Decision is what follows from an event.
type Decision struct {
	// HighWatermark is the high watermark now; Moved says that this event raised it.
	HighWatermark batch.Offset
	Moved         bool
	// Propose says that Proposal has something new to send.
	Propose bool
}

// follower is what the leader knows of one other replica.
type follower struct {
	Broker
	end         batch.Offset // its log end; unknown before its first fetch in this leadership
	start       batch.Offset // its log start
	fetchEpoch  int64        // the broker epoch it fetches with; -1 before the first, or where it sends none
	leaderEnd   batch.Offset // this log's end at its last fetch
	fetched     time.Time    // when that was
	caughtUp    time.Time    // the last time at which it had everything
	everFetched bool
}

// Leader is the state of one leadership. It is not safe for concurrent use.
type Leader struct {
	o         Options
	followers []follower // by id
	isr       []int32    // committed, sorted
	adding    []int32    // members of the proposal under way that are not in isr
	pending   bool       // a proposal is under way
	proposal  Proposal   // the one under way
	notBefore time.Time  // no proposal before
	end       batch.Offset
	counted   batch.Offset // how much of the local log the high watermark may pass
	epochAt   batch.Offset // the log end at the start of this leadership
	start     batch.Offset
	hw        batch.Offset
}

// NewLeader begins a leadership. Followers of the ISR count as caught up: they have replica.lag.time.max.ms to show that
// they are.
func NewLeader(o Options, now time.Time) (*Leader, Decision) {
	if o.LagMax <= 0 {
		o.LagMax = defaultLagMax
	}
	l := &Leader{o: o, isr: sorted(o.ISR), end: o.LogEnd, counted: o.Counted, epochAt: o.LogEnd, start: o.LogStart, hw: o.HighWatermark}
	if !slices.Contains(l.isr, o.Self) {
		panic(fmt.Sprintf("replica: leader %d is not in its ISR %v", o.Self, o.ISR))
	}
	l.setBrokers(o.Brokers, now)
	return l, l.decide(now)
}

func sorted(ids []int32) []int32 {
	s := slices.Clone(ids)
	slices.Sort(s)
	return slices.Compact(s)
}

// setBrokers takes over the replicas, keeping what is known of those that stay.
func (l *Leader) setBrokers(brokers []Broker, now time.Time) {
	fs := make([]follower, 0, len(brokers))
	for _, b := range brokers {
		if b.ID == l.o.Self {
			continue
		}
		f := follower{end: unknown, start: unknown, fetchEpoch: -1, leaderEnd: unknown}
		if i := l.index(b.ID); i >= 0 {
			f = l.followers[i]
		} else if slices.Contains(l.isr, b.ID) {
			f.caughtUp = now
		}
		f.Broker = b
		fs = append(fs, f)
	}
	slices.SortFunc(fs, func(a, b follower) int { return int(a.ID) - int(b.ID) })
	l.followers = fs
	l.o.Brokers = slices.Clone(brokers)
}

func (l *Leader) index(id int32) int {
	for i := range l.followers {
		if l.followers[i].ID == id {
			return i
		}
	}
	return -1
}

// Appended takes note of the local log's end and of how much of it counts as written: where acknowledged records have to
// survive power loss, what is flushed.
func (l *Leader) Appended(end, counted batch.Offset, now time.Time) Decision {
	l.end, l.counted = max(l.end, end), max(l.counted, counted)
	return l.decide(now)
}

// StaleBrokerError refuses a fetch of an earlier life of a broker.
type StaleBrokerError struct {
	ID          int32
	Epoch, Last int64
}

func (e *StaleBrokerError) Error() string {
	return fmt.Sprintf("replica %d fetches with broker epoch %d, which is smaller than %d", e.ID, e.Epoch, e.Last)
}

// NotReplicaError refuses a fetch of a broker that holds no replica.
type NotReplicaError struct{ ID int32 }

func (e *NotReplicaError) Error() string { return fmt.Sprintf("broker %d is no replica", e.ID) }

// Fetch is a follower's fetch that was served.
type Fetch struct {
	ID          int32
	BrokerEpoch int64        // -1: fetch version below 15
	Offset      batch.Offset // where it fetches from: its log end
	LogStart    batch.Offset // its log start
	LeaderEnd   batch.Offset // this log's end when its records were read
}

// Known says whether the broker holds a replica.
func (l *Leader) Known(id int32) bool { return id == l.o.Self || l.index(id) >= 0 }

// Fetched takes note of a follower's fetch.
func (l *Leader) Fetched(f Fetch, now time.Time) (Decision, error) {
	i := l.index(f.ID)
	if i < 0 {
		return Decision{HighWatermark: l.hw}, &NotReplicaError{ID: f.ID}
	}
	r := &l.followers[i]
	if f.BrokerEpoch != -1 && f.BrokerEpoch < r.fetchEpoch {
		return Decision{HighWatermark: l.hw}, &StaleBrokerError{ID: f.ID, Epoch: f.BrokerEpoch, Last: r.fetchEpoch}
	}
	switch {
	case f.Offset >= f.LeaderEnd:
		r.caughtUp = later(r.caughtUp, now)
	case r.everFetched && f.Offset >= r.leaderEnd:
		// It now has all there was at its last fetch: it was caught up then.
		r.caughtUp = later(r.caughtUp, r.fetched)
	}
	r.end, r.start, r.leaderEnd, r.fetched, r.everFetched, r.fetchEpoch = f.Offset, f.LogStart, f.LeaderEnd, now, true, f.BrokerEpoch
	return l.decide(now), nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Update is what a newer image says of the partition within the same leadership.
type Update struct {
	PartitionEpoch int32
	ISR            []int32
	Brokers        []Broker
}

// Updated takes note of a committed ISR and of the replicas and their brokers' state. An older partition epoch changes
// the brokers only.
func (l *Leader) Updated(u Update, now time.Time) Decision {
	if u.PartitionEpoch >= l.o.PartitionEpoch {
		if u.PartitionEpoch > l.o.PartitionEpoch {
			l.settle()
		}
		isr := sorted(u.ISR)
		for _, id := range isr {
			if i := l.index(id); i >= 0 && !slices.Contains(l.isr, id) && !slices.Contains(l.adding, id) {
				// Put in by somebody else, an operator's reassignment for one: it gets its time to show that it keeps up.
				l.followers[i].caughtUp = later(l.followers[i].caughtUp, now)
			}
		}
		l.o.PartitionEpoch, l.isr = u.PartitionEpoch, isr
	}
	if u.Brokers != nil {
		l.setBrokers(u.Brokers, now)
	}
	return l.decide(now)
}

// Refused takes note that the controller has certainly not carried out the proposal of that partition epoch. As long as it
// may have, the members that the proposal adds must hold the high watermark.
func (l *Leader) Refused(partitionEpoch int32, now time.Time) Decision {
	if l.pending && l.proposal.PartitionEpoch == partitionEpoch {
		l.settle()
		l.notBefore = now.Add(retryPause)
	}
	return l.decide(now)
}

func (l *Leader) settle() { l.pending, l.adding, l.proposal = false, nil, Proposal{} }

// SetMinISR takes note of a change of min.insync.replicas.
func (l *Leader) SetMinISR(n int, now time.Time) Decision {
	l.o.MinISR = n
	return l.decide(now)
}

// Expire looks at the clock: followers that lag too long are proposed out of the ISR.
func (l *Leader) Expire(now time.Time) Decision { return l.decide(now) }

// decide raises the high watermark and finds what there is to propose.
func (l *Leader) decide(now time.Time) Decision {
	d := Decision{}
	if hw := l.reached(now); hw > l.hw || (faults.goBack && hw < l.hw) {
		l.hw, d.Moved = hw, true
	}
	d.HighWatermark = l.hw
	d.Propose = l.propose(now)
	return d
}

// reached is how far every replica that counts has copied.
func (l *Leader) reached(now time.Time) batch.Offset {
	if len(l.isr) < l.minISR() && !faults.ignoreMin {
		return l.hw
	}
	hw := l.counted
	if faults.passFollowers {
		return hw
	}
	for i := range l.followers {
		f := &l.followers[i]
		if f.end < hw && (slices.Contains(l.isr, f.ID) || (slices.Contains(l.adding, f.ID) && !faults.passJoining) || l.joining(f, now)) {
			hw = f.end
		}
	}
	return hw
}

// joining says that the follower is not in the ISR but on its way: waiting for it lets it join, where a leader that
// outruns it would keep it out for ever.
func (l *Leader) joining(f *follower, now time.Time) bool {
	return l.caughtUp(f, now) && l.eligible(f) && f.end >= l.hw
}

func (l *Leader) caughtUp(f *follower, now time.Time) bool {
	return f.end == l.end || (!f.caughtUp.IsZero() && now.Sub(f.caughtUp) <= l.o.LagMax)
}

// eligible says that the controller would take the follower into the ISR.
func (l *Leader) eligible(f *follower) bool {
	return f.Live && (f.fetchEpoch == -1 || f.Epoch == -1 || f.fetchEpoch == f.Epoch)
}

func (l *Leader) minISR() int { return min(max(1, l.o.MinISR), len(l.followers)+1) }

// propose makes a proposal if the ISR should change and none is under way.
func (l *Leader) propose(now time.Time) bool {
	if l.pending || now.Before(l.notBefore) {
		return false
	}
	isr := make([]int32, 0, len(l.followers)+1)
	changed := false
	for _, id := range l.isr {
		if id == l.o.Self {
			isr = append(isr, id)
			continue
		}
		if i := l.index(id); i >= 0 && !l.caughtUp(&l.followers[i], now) {
			changed = true
			continue
		}
		isr = append(isr, id)
	}
	var adding []int32
	for i := range l.followers {
		f := &l.followers[i]
		// It must have all that is committed. The high watermark this leader began with may lag behind the true one,
		// which lies nowhere above the log end it began with.
		if f.everFetched && (f.end >= max(l.hw, l.epochAt) || faults.joinBehind) && !slices.Contains(l.isr, f.ID) && l.eligible(f) && (l.caughtUp(f, now) || faults.joinBehind) {
			adding, changed = append(adding, f.ID), true
			isr = append(isr, f.ID)
		}
	}
	if !changed {
		return false
	}
	slices.Sort(isr)
	p := Proposal{LeaderEpoch: l.o.LeaderEpoch, PartitionEpoch: l.o.PartitionEpoch}
	for _, id := range isr {
		m := Member{ID: id, Epoch: -1}
		for _, b := range l.o.Brokers {
			if b.ID == id {
				m.Epoch = b.Epoch
			}
		}
		p.ISR = append(p.ISR, m)
	}
	l.pending, l.adding, l.proposal = true, adding, p
	return true
}

// Proposal is the proposal under way, if there is one.
func (l *Leader) Proposal() (Proposal, bool) { return l.proposal, l.pending }

// HighWatermark is the high watermark.
func (l *Leader) HighWatermark() batch.Offset { return l.hw }

// ISR is the committed ISR, sorted. The caller must not change it.
func (l *Leader) ISR() []int32 { return l.isr }

// PartitionEpoch is the newest one known.
func (l *Leader) PartitionEpoch() int32 { return l.o.PartitionEpoch }

// EnoughISR says whether an acks=all append may begin: the committed ISR has min(min.insync.replicas, replicas) members.
func (l *Leader) EnoughISR() bool { return len(l.isr) >= l.minISR() }

// EnoughAfter is EnoughISR for an append that has reached the high watermark: members about to join count.
func (l *Leader) EnoughAfter() bool { return len(l.isr)+len(l.adding) >= l.minISR() }

// SetLogStart takes note of the local log's start.
func (l *Leader) SetLogStart(o batch.Offset) { l.start = max(l.start, o) }

// LowWatermark is the lowest log start of the live replicas: what DeleteRecords waits for.
func (l *Leader) LowWatermark() batch.Offset {
	low := l.start
	for i := range l.followers {
		if f := &l.followers[i]; f.Live {
			low = min(low, f.start)
		}
	}
	return low
}

// Follower is a replica's progress, for those who ask (DescribeTopicPartitions' lag, preferred read replicas).
type Follower struct {
	ID       int32
	LogEnd   batch.Offset // -1 before its first fetch
	LogStart batch.Offset
	CaughtUp time.Time
	InSync   bool
}

// Followers are the other replicas, by id.
func (l *Leader) Followers() []Follower {
	out := make([]Follower, 0, len(l.followers))
	for i := range l.followers {
		f := &l.followers[i]
		out = append(out, Follower{ID: f.ID, LogEnd: f.end, LogStart: f.start, CaughtUp: f.caughtUp, InSync: slices.Contains(l.isr, f.ID)})
	}
	return out
}

// Deadline is when Expire should be called next, zero where nothing waits for the clock: a follower that lags is by then
// out of the ISR, or no longer waited for.
func (l *Leader) Deadline(now time.Time) time.Time {
	var d time.Time
	sooner := func(t time.Time) {
		if d.IsZero() || t.Before(d) {
			d = t
		}
	}
	for i := range l.followers {
		f := &l.followers[i]
		if f.end == l.end {
			continue
		}
		if t := f.caughtUp.Add(l.o.LagMax + 1); t.After(now) {
			sooner(t)
		} else if !l.pending && slices.Contains(l.isr, f.ID) {
			sooner(later(now, l.notBefore))
		}
	}
	return d
}
