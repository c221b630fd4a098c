// Package partition is one local replica of a partition: its log, its view of the other replicas while it leads, and
// those who wait for it.
//
// It is not the broker: it knows no topic but its own name, no request and no connection, and asks the controller for
// nothing; what it has to say to the controller it leaves to be picked up. Its errors are Go errors, which the broker
// maps to Kafka's codes.
//
// One lock guards everything that changes. It is held for no network, no timer and no sync of the disk, and nobody is
// called while it is held: those who wait are woken by closing a channel or by a send that does not block. Reading takes
// no lock: it works on the log's View and on one immutable role, each behind an atomic pointer.
//
// It promises that an append is acknowledged only when it is as safe as its producer asked, that the high watermark never
// goes back within a leader epoch, and that whoever waits learns of the end of a leadership.
package partition

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"millrace/broker/replica"
	"millrace/controller/config"
	"millrace/storage/batch"
	"millrace/storage/log"
)

// Why a request cannot be served here. Beside these come the errors of storage: *batch.Error, *producer.SequenceError and
// its kin, log.ErrOffsetOutOfRange, *log.OfflineError.
var (
	// ErrNotLeader: another broker leads, or none does (NOT_LEADER_OR_FOLLOWER).
	ErrNotLeader = errors.New("this broker does not lead the partition")
	// ErrNotReplica: a follower asks that is no replica of the partition (NOT_LEADER_OR_FOLLOWER).
	ErrNotReplica = errors.New("the broker is no replica of the partition")
	// ErrGone: the partition is no longer here (UNKNOWN_TOPIC_OR_PARTITION).
	ErrGone = errors.New("the partition is no longer on this broker")
	// ErrNotEnoughReplicas: acks=all before the append (NOT_ENOUGH_REPLICAS).
	ErrNotEnoughReplicas = errors.New("fewer replicas are in sync than min.insync.replicas")
	// ErrNotEnoughReplicasAfterAppend: the ISR shrank meanwhile (NOT_ENOUGH_REPLICAS_AFTER_APPEND).
	ErrNotEnoughReplicasAfterAppend = errors.New("fewer replicas are in sync than min.insync.replicas, after the append")
	// ErrTimedOut: the wait was called off (REQUEST_TIMED_OUT).
	ErrTimedOut = errors.New("timed out waiting for replicas")
	// ErrFencedLeaderEpoch: the asker's leader epoch is over (FENCED_LEADER_EPOCH).
	ErrFencedLeaderEpoch = errors.New("the leader epoch is over")
	// ErrUnknownLeaderEpoch: the asker knows a newer leader epoch than this broker (UNKNOWN_LEADER_EPOCH).
	ErrUnknownLeaderEpoch = errors.New("the leader epoch is not known here yet")
	// ErrOffsetNotAvailable: after an election the high watermark is still behind (OFFSET_NOT_AVAILABLE).
	ErrOffsetNotAvailable = errors.New("the high watermark has not caught up with the start of the leader epoch")
	// ErrOffsetOutOfRange: below the log start or above the log end (OFFSET_OUT_OF_RANGE).
	ErrOffsetOutOfRange = log.ErrOffsetOutOfRange
	// ErrOnlyCompacted: records of a topic that is compacted and nothing else are not deleted (POLICY_VIOLATION).
	ErrOnlyCompacted = errors.New("the topic's cleanup policy is compact alone")
)

// AnyEpoch, in a request, leaves the leader epoch unchecked.
const AnyEpoch = batch.NoLeaderEpoch

// Options are what a partition is made of.
type Options struct {
	Log   *log.Log
	Topic string
	ID    [16]byte
	Index int32
	Self  int32 // this broker's id
	// Config is the topic's; nil is Kafka's defaults.
	Config *config.TopicConfig
	// LagMax is replica.lag.time.max.ms; 0 is Kafka's.
	LagMax time.Duration
	Now    func() time.Time // nil: time.Now
	// Changed is told, outside the lock, that Proposal has something to send. It must not block. Nil: nobody is told.
	Changed func(*Partition)
}

// role is what this broker is to the partition, immutable once published.
type role struct {
	leader     bool
	gone       bool
	leaderID   int32 // -1: none
	epoch      batch.LeaderEpoch
	epochStart batch.Offset // where this leadership began, at the leader
	// since is the first epoch of those this broker has led without a break: nothing it appended from then on was cut.
	since    batch.LeaderEpoch
	replicas []replica.Broker
}

// Partition is one local replica.
type Partition struct {
	log     atomic.Pointer[log.Log] // another one once it was moved
	topic   string
	id      [16]byte
	index   int32
	self    int32
	lagMax  time.Duration
	now     func() time.Time
	changed func(*Partition)

	role     atomic.Pointer[role]
	settings atomic.Pointer[settings]
	enough   atomic.Bool // the ISR is large enough for acks=all

	mu      sync.Mutex // after moving, before Acks.mu
	leader  *replica.Leader
	pepoch  int32        // partition epoch
	counted batch.Offset // how much of the log counts as written; see flush.go
	flush   bool         // a flusher runs
	flusher sync.WaitGroup
	// armed: flushTimer, which is made when it is first needed, runs.
	armed      bool
	flushTimer *time.Timer

	committed waits // for the high watermark
	written   waits // for counted
	watchers  watchers
	propose   bool // Changed is to be told

	moving sync.Mutex              // held while the future log is filled; see move.go
	future atomic.Pointer[log.Log] // that is to take the log's place; nil: none. It changes under mu
	askew  atomic.Bool             // the future log may hold what was cut off from the log
}

// New makes the partition of a log. It has no leader until BecomeLeader or BecomeFollower.
func New(o Options) *Partition {
	p := &Partition{topic: o.Topic, id: o.ID, index: o.Index, self: o.Self, lagMax: o.LagMax, now: o.Now, changed: o.Changed, pepoch: -1}
	if p.now == nil {
		p.now = time.Now
	}
	p.log.Store(o.Log)
	p.role.Store(&role{leaderID: -1, epoch: batch.NoLeaderEpoch})
	p.counted = p.Log().View().LogEnd()
	p.setConfig(o.Config)
	return p
}

// Topic is the topic's name.
func (p *Partition) Topic() string { return p.topic }

// ID is the topic's id.
func (p *Partition) ID() [16]byte { return p.id }

// Index is the partition's index in its topic.
func (p *Partition) Index() int32 { return p.index }

// Log is the partition's log, for those who read its View or size; whoever changes it goes through the partition.
func (p *Partition) Log() *log.Log { return p.log.Load() }

func (p *Partition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.index) }

// State is what the partition is now.
type State struct {
	Leader         bool  // this broker leads
	LeaderID       int32 // -1: none
	LeaderEpoch    batch.LeaderEpoch
	PartitionEpoch int32
	ISR            []int32 // at the leader; sorted
	Followers      []replica.Follower
	Waiting        int // appends that wait for replicas or for a flush
	MinISR         int // min.insync.replicas, at most the number of replicas
	Replicas       int // at the leader
	Producers      int // that the log remembers
	HighWatermark  batch.Offset
	LogStart       batch.Offset
	LogEnd         batch.Offset
}

// State looks at the partition.
func (p *Partition) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, v := p.role.Load(), p.Log().View()
	s := State{Leader: r.leader, LeaderID: r.leaderID, LeaderEpoch: r.epoch, PartitionEpoch: p.pepoch, HighWatermark: v.HighWatermark(), LogStart: v.LogStart(), LogEnd: v.LogEnd(), Waiting: p.committed.len() + p.written.len(), Producers: p.Log().NumProducers()}
	if p.leader != nil {
		s.ISR, s.Followers = p.leader.ISR(), p.leader.Followers()
		s.Replicas = len(s.Followers) + 1
		s.MinISR = min(max(1, p.settings.Load().minISR), s.Replicas)
	}
	return s
}

// Leading says whether this broker leads, in which epoch, or else who does; it takes no lock.
func (p *Partition) Leading() (leading bool, leaderID int32, epoch batch.LeaderEpoch) {
	r := p.role.Load()
	return r.leader, r.leaderID, r.epoch
}

// Assignment is what an image says of the partition.
type Assignment struct {
	LeaderID       int32 // -1: none
	LeaderEpoch    batch.LeaderEpoch
	PartitionEpoch int32
	ISR            []int32
	Brokers        []replica.Broker // all replicas
}

// BecomeLeader takes the leadership over, or, within the epoch that this broker leads already, the changes of an
// Assignment: a committed ISR, other replicas, their brokers' state. An Assignment older than what is known does nothing.
func (p *Partition) BecomeLeader(a Assignment) error {
	now := p.now()
	p.mu.Lock()
	defer p.unlockAndTell()
	r := p.role.Load()
	switch {
	case r.gone:
		return ErrGone
	case a.LeaderEpoch < r.epoch || a.PartitionEpoch < p.pepoch:
		return nil
	case r.leader && a.LeaderEpoch == r.epoch:
		p.pepoch = a.PartitionEpoch
		p.role.Store(&role{leader: true, leaderID: p.self, epoch: r.epoch, since: r.since, epochStart: r.epochStart, replicas: a.Brokers})
		p.apply(p.leader.Updated(replica.Update{PartitionEpoch: a.PartitionEpoch, ISR: a.ISR, Brokers: a.Brokers}, now))
		p.wake(OnLowWatermark) // a broker that is gone holds it no longer
		return nil
	}
	if faults.sameEpoch {
		// The log goes on in the epoch it has.
	} else if err := p.Log().AssignEpoch(a.LeaderEpoch); err != nil {
		return fmt.Errorf("lead %v in epoch %d: %w", p, a.LeaderEpoch, err)
	}
	v := p.Log().View()
	p.pepoch = a.PartitionEpoch
	since := a.LeaderEpoch
	if r.leader {
		since = r.since
	}
	p.counted = v.LogEnd()
	if p.flush || p.flushDue(now) {
		p.counted = p.Log().FlushedOffset()
		p.startFlush()
	} else if !p.flushed() {
		p.armFlush() // a tail from before a restart
	}
	leader, d := replica.NewLeader(replica.Options{
		Self: p.self, LeaderEpoch: a.LeaderEpoch, PartitionEpoch: a.PartitionEpoch, Brokers: a.Brokers, ISR: a.ISR,
		MinISR: p.settings.Load().minISR, LagMax: p.lagMax, LogEnd: v.LogEnd(), Counted: p.counted, HighWatermark: v.HighWatermark(), LogStart: v.LogStart(),
	}, now)
	p.leader = leader
	p.enough.Store(leader.EnoughISR()) // before anybody sees the role: see Ready
	p.role.Store(&role{leader: true, leaderID: p.self, epoch: a.LeaderEpoch, since: since, epochStart: v.LogEnd(), replicas: a.Brokers})
	p.apply(d)
	p.wakeAll()
	return nil
}

// BecomeFollower ends a leadership, or notes another leader. Whoever waits for an append learns that this broker does not
// lead any more. An Assignment older than what is known does nothing.
func (p *Partition) BecomeFollower(a Assignment) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.role.Load()
	switch {
	case r.gone:
		return ErrGone
	case a.LeaderEpoch < r.epoch || a.PartitionEpoch < p.pepoch:
		return nil
	case a.LeaderEpoch == r.epoch && r.leader:
		return fmt.Errorf("follow %d in %v: this broker leads epoch %d", a.LeaderID, p, r.epoch)
	}
	p.pepoch = a.PartitionEpoch
	next := &role{leaderID: a.LeaderID, epoch: a.LeaderEpoch, replicas: a.Brokers}
	if a.LeaderEpoch == r.epoch && a.LeaderID == r.leaderID {
		p.role.Store(next)
		return nil
	}
	p.role.Store(next)
	p.endLeadership(ErrNotLeader)
	return nil
}

// Close ends everything that goes on here: the broker stops, or the partition was deleted. The log is the store's to
// close.
func (p *Partition) Close() {
	p.mu.Lock()
	r := *p.role.Load()
	r.leader, r.gone = false, true
	p.role.Store(&r)
	p.endLeadership(ErrGone)
	p.disarmFlush()
	p.endMove()
	p.mu.Unlock()
	p.flusher.Wait()
	p.awaitFilling()
}

// endLeadership fails whoever waits for an append and wakes whoever waits for anything else.
func (p *Partition) endLeadership(why error) {
	p.leader = nil
	p.enough.Store(false)
	p.committed.fail(why)
	p.written.fail(why)
	p.wakeAll()
}

// Ready says, without a lock, whether an append would be refused for who leads or for the ISR: Kafka looks at these
// before it looks at the batch. Append looks again.
func (p *Partition) Ready(epoch batch.LeaderEpoch, acks int16) error {
	for {
		r := p.role.Load()
		if err := p.offlineOr(r.lead(epoch)); err != nil {
			return err
		}
		if acks != -1 || p.enough.Load() {
			return nil
		}
		if p.role.Load() == r {
			return ErrNotEnoughReplicas
		}
		// That may have been said of another leadership.
	}
}

// lead checks that this broker leads, in that epoch.
func (r *role) lead(epoch batch.LeaderEpoch) error {
	if err := r.current(epoch); err != nil {
		return err
	}
	if !r.leader {
		return ErrNotLeader
	}
	return nil
}

// current checks an asker's leader epoch.
func (r *role) current(epoch batch.LeaderEpoch) error {
	switch {
	case r.gone:
		return ErrGone
	case epoch == AnyEpoch || epoch == r.epoch:
		return nil
	case epoch < r.epoch:
		return ErrFencedLeaderEpoch
	}
	return ErrUnknownLeaderEpoch
}

// grown takes note, under the lock, that the leader's log has a new end, and has readers see it.
func (p *Partition) grown(now time.Time) {
	l := p.Log()
	end := l.End()
	if l.Flushes() {
		l.Publish() // a flush looks at what readers see
	}
	switch {
	case p.flush && !faults.ackUnflushed:
		// What is being flushed is not written yet, nor what came after it.
	case p.flushDue(now) && !faults.ackUnflushed:
		p.startFlush()
	default:
		p.counted = end
		p.armFlush()
	}
	p.apply(p.leader.Appended(end, p.counted, now))
	l.Publish() // where the high watermark has not moved
	p.written.reach(p.counted)
	p.wake(OnLogEnd)
}

// apply carries out, under the lock, what the replication machine decided.
func (p *Partition) apply(d replica.Decision) {
	p.enough.Store(p.leader.EnoughISR())
	if d.Moved {
		p.Log().SetHighWatermark(d.HighWatermark)
		if p.committed.any() {
			var err error
			if !p.leader.EnoughAfter() {
				err = ErrNotEnoughReplicasAfterAppend
			}
			p.committed.reachWith(d.HighWatermark, err)
		}
		p.wake(OnHighWatermark)
	}
	if d.Propose {
		p.propose = true
	}
}

// unlockAndTell ends a change: what has to be told outside is told when the lock is free.
func (p *Partition) unlockAndTell() {
	tell := p.propose && p.changed != nil
	p.propose = false
	p.mu.Unlock()
	if tell {
		p.changed(p)
	}
}

// Proposal is the ISR to be asked of the controller, while one is under way.
func (p *Partition) Proposal() (replica.Proposal, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader == nil {
		return replica.Proposal{}, false
	}
	return p.leader.Proposal()
}

// ProposalRefused says that the controller has certainly not carried out the proposal of that partition epoch and will not
// (INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED): another may be made after a pause. An answer that did not come, or one
// that calls the proposal out of date (INVALID_UPDATE_VERSION, FENCED_LEADER_EPOCH, NEW_LEADER_ELECTED), is no such
// refusal: the proposal may be in force, and the members it adds hold the high watermark until an Assignment tells.
//
// An accepted proposal comes back as an Assignment with a newer partition epoch; ISRCommitted says the same sooner.
func (p *Partition) ProposalRefused(partitionEpoch int32) {
	now := p.now()
	p.mu.Lock()
	defer p.unlockAndTell()
	if p.leader != nil {
		p.apply(p.leader.Refused(partitionEpoch, now))
	}
}

// ISRCommitted says what the controller answered to a proposal that it accepted.
func (p *Partition) ISRCommitted(epoch batch.LeaderEpoch, partitionEpoch int32, isr []int32) {
	now := p.now()
	p.mu.Lock()
	defer p.unlockAndTell()
	if r := p.role.Load(); !r.leader || r.epoch != epoch || partitionEpoch < p.pepoch {
		return
	}
	p.pepoch = partitionEpoch
	p.apply(p.leader.Updated(replica.Update{PartitionEpoch: partitionEpoch, ISR: isr}, now))
}

// FollowerFetched takes note of a follower's fetch that Read has served in that leader epoch; it may raise the high
// watermark.
func (p *Partition) FollowerFetched(epoch batch.LeaderEpoch, f replica.Fetch) error {
	now := p.now()
	p.mu.Lock()
	defer p.unlockAndTell()
	if err := p.role.Load().lead(epoch); err != nil {
		return err
	}
	low := p.leader.LowWatermark()
	d, err := p.leader.Fetched(f, now)
	if err != nil {
		return fmt.Errorf("fetch from %v: %w", p, err)
	}
	p.apply(d)
	if p.leader.LowWatermark() != low {
		p.wake(OnLowWatermark)
	}
	return nil
}

// Expire looks at the clock and says when to look again, zero where nothing waits for it: followers that lag too long
// are proposed out of the ISR.
func (p *Partition) Expire() time.Time {
	now := p.now()
	p.mu.Lock()
	defer p.unlockAndTell()
	if p.leader == nil {
		return time.Time{}
	}
	p.apply(p.leader.Expire(now))
	return p.leader.Deadline(now)
}

// Gone says whether the partition was closed.
func (p *Partition) Gone() bool { return p.role.Load().gone }

// Retain applies retention, and says which segments went and why.
func (p *Partition) Retain() ([]string, error) {
	now := p.now()
	p.mu.Lock()
	defer p.unlockAndTell()
	if p.role.Load().gone {
		return nil, nil
	}
	gone, err := p.Log().Retain(now)
	p.startMoved()
	if err != nil {
		return gone, fmt.Errorf("apply retention to %v: %w", p, err)
	}
	return gone, nil
}

// Exclusive runs a function while nothing changes the log, or answers ErrGone without calling it.
func (p *Partition) Exclusive(f func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role.Load().gone {
		return ErrGone
	}
	return f()
}

// ExpireProducers forgets producers that wrote nothing for so many ms.
func (p *Partition) ExpireProducers(ms int64) {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.role.Load().gone {
		p.Log().ExpireProducers(now.UnixMilli(), ms)
	}
}

// startMoved takes note, under the lock, of the log's start.
func (p *Partition) startMoved() {
	if p.leader == nil {
		return
	}
	low := p.leader.LowWatermark()
	p.leader.SetLogStart(p.Log().View().LogStart())
	if p.leader.LowWatermark() != low {
		p.wake(OnLowWatermark)
	}
}
