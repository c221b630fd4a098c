// Package group is the machine of one partition of __consumer_offsets: classic
// consumer groups (JoinGroup, SyncGroup, Heartbeat, LeaveGroup) and the offsets
// they and simple consumers commit.
//
// It is pure: a request and the time come in, records, answers and a deadline go
// out (broker/machine). It knows no log and no network, authorises nobody, and
// looks no topic up: the handler has done that, and has put both the name and
// the id of each topic into the request.
//
// What it promises:
//
//   - Hard state is what the records say: a group's last stored generation with
//     members and assignment, and the offsets. It changes in Replay alone.
//   - Soft state is the rebalance in progress: who has joined, who waits, whose
//     session runs out when. An event edits a copy of its group's soft state; the
//     copy takes the place of the old one when the records of the same decision
//     are written, or at once if there are none. A refused append leaves no trace.
//   - Soft state is not stored. A group is loaded as Stable, each member with a
//     fresh session, or Empty if it has none.
//   - Answers are in order of joining or of the request, or sorted; never in map
//     order.
//
// Behaviour follows Kafka 4.4's GroupMetadataManager, ClassicGroup and
// OffsetMetadataManager; where it is on purpose different a comment says so.
package group

import (
	"container/heap"
	"slices"
	"strings"
	"time"

	"millrace/broker/machine"
	"millrace/controller/image"
	"millrace/wire/records"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Config are the broker's settings for groups. Zero takes Kafka's default,
// except for InitialRebalanceDelay, where it is no delay.
type Config struct {
	MinSessionTimeout      time.Duration // group.min.session.timeout.ms, 6 s
	MaxSessionTimeout      time.Duration // group.max.session.timeout.ms, 30 min
	InitialRebalanceDelay  time.Duration // group.initial.rebalance.delay.ms
	MaxSize                int           // group.max.size, 2147483647
	OffsetsRetention       time.Duration // offsets.retention.minutes, 7 days
	RetentionCheckInterval time.Duration // offsets.retention.check.interval.ms, 10 min
	OffsetMetadataMaxBytes int           // offset.metadata.max.bytes, 4096
}

// newMemberJoinTimeout ends the join of a member that does not know its id yet
// and so cannot send heartbeats. It is no config in Kafka either.
const newMemberJoinTimeout = 5 * time.Minute

// retryPause is how long after a refused append what timers wanted is tried
// again.
const retryPause = time.Second

func (c *Config) fill() {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.MinSessionTimeout, 6*time.Second)
	set(&c.MaxSessionTimeout, 30*time.Minute)
	set(&c.OffsetsRetention, 7*24*time.Hour)
	set(&c.RetentionCheckInterval, 10*time.Minute)
	if c.MaxSize == 0 {
		c.MaxSize = 1<<31 - 1
	}
	if c.OffsetMetadataMaxBytes == 0 {
		c.OffsetMetadataMaxBytes = 4096
	}
}

// Machine holds the groups of one partition. It is a machine.Machine.
type Machine struct {
	c      Config
	groups map[string]*group
	image  *image.Image
	loaded bool

	// waiting is the turn whose records the driver is appending.
	waiting *turn

	timers     timers // groups by when something is due
	checkAt    time.Time
	sweep      []string    // a retention check under way: the groups still to look at
	gone       []offsetRef // offsets of deleted topics, to be removed
	pauseUntil time.Time   // no timers before; set by a refusal

	seq  uint64                    // counts replayed records: their order in the log
	txns map[int64]map[string]bool // open transactions: producer id, the groups it has offsets in
}

// group is one group: the hard state, and the soft state beside it.
type group struct {
	id string

	stored  *records.GroupMetadataValue // nil: only offsets are stored
	offsets offsets
	txns    map[int64]offsets // of open transactions, by producer id; none is empty

	live *live // nil while loading

	// seenFrom is the machine's seq from which reads see it. A group that was made
	// without a record is not seen before the shard's next record, whatever that is
	// of: Kafka reads groups as they were when the last record was committed.
	seenFrom uint64

	due   time.Time // not later than the first thing due in live
	index int       // in timers; -1 outside
}

// New gives an empty machine.
func New(c Config) *Machine {
	c.fill()
	return &Machine{c: c, groups: map[string]*group{}, txns: map[int64]map[string]bool{}}
}

// ensure finds a group or makes an empty one.
func (m *Machine) ensure(id string) *group {
	g := m.groups[id]
	if g == nil {
		g = &group{id: id, index: -1}
		if m.loaded {
			g.live = newLive()
		}
		m.groups[id] = g
	}
	return g
}

// seen is the soft state of a group as reads see it; nil if they see none.
func (m *Machine) seen(id string) *live {
	if g := m.groups[id]; g != nil && g.seenFrom <= m.seq {
		return g.live
	}
	return nil
}

func (m *Machine) remove(g *group) {
	if g.index >= 0 {
		heap.Remove(&m.timers, g.index)
	}
	delete(m.groups, g.id)
}

// sortedIDs lists the groups by id.
func (m *Machine) sortedIDs() []string {
	ids := make([]string, 0, len(m.groups))
	// any order: they are sorted below.
	for id := range m.groups {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, strings.Compare)
	return ids
}

// turn is the handling of one event: the decision as it grows, and the edited
// copies of soft state that take effect with it.
type turn struct {
	m     *Machine
	now   time.Time
	d     machine.Decision
	edits []edit
	after []func() // what else takes effect with the records
	timed bool     // timers asked for it: after a refusal, they ask again
	// unwritten is what follows from a refusal, told by code; nil: nothing.
	unwritten func(t *turn, code int16)
	bytes     int // of the records
}

type edit struct {
	id string
	lv *live
}

// look reads a group's soft state as this turn sees it; nil if there is no such
// group.
func (t *turn) look(id string) *live {
	for _, e := range t.edits {
		if e.id == id {
			return e.lv
		}
	}
	if g := t.m.groups[id]; g != nil {
		return g.live
	}
	return nil
}

// edit gives the copy of a group's soft state that this turn may change, of a
// new group if there is none.
func (t *turn) edit(id string) *live {
	for _, e := range t.edits {
		if e.id == id {
			return e.lv
		}
	}
	lv := newLive()
	if g := t.m.groups[id]; g != nil {
		lv = g.live.clone()
	}
	t.edits = append(t.edits, edit{id, lv})
	return lv
}

func (t *turn) reply(tk machine.Ticket, body any, w machine.Wait) {
	t.d.Replies = append(t.d.Replies, machine.Reply{Ticket: tk, Body: body, Wait: w})
}

func (t *turn) write(k records.Key, v records.Value, version int16) {
	r := machine.Record{Key: records.EncodeKey(k)}
	if v != nil {
		r.Value = records.EncodeValue(v, version)
	}
	t.d.Records = append(t.d.Records, r)
	t.bytes += len(r.Key) + len(r.Value)
}

// mostBytes bounds the records of one request: every record holds the group's
// name, which may be as long as a string can be, and a request of a megabyte lists
// a hundred thousand partitions. It is far above what a log takes as one batch,
// so that nothing is refused here that would be written.
const mostBytes = 32 << 20

// tooMuch says that a request makes more records than that, and drops them: it
// is answered as an append is that was refused for its size.
func (t *turn) tooMuch() bool {
	if t.bytes <= mostBytes {
		return false
	}
	t.d.Records = nil
	return true
}

// full says that housekeeping has enough for one batch.
func (t *turn) full() bool { return len(t.d.Records) >= turnRecords || t.bytes >= turnBytes }

func (t *turn) touches(id string) {
	if !slices.Contains(t.d.Keys, id) {
		t.d.Keys = append(t.d.Keys, id)
	}
}

// apply lets a turn take effect.
func (t *turn) apply() {
	for _, e := range t.edits {
		g := t.m.ensure(e.id)
		g.live = e.lv
		t.m.schedule(g, e.lv.next())
	}
	t.edits = nil
	for _, f := range t.after {
		f()
	}
	t.after = nil
}

// finish ends a turn: without records it takes effect, with records it waits for
// Written or Refused.
func (m *Machine) finish(t *turn) machine.Decision {
	if len(t.d.Records) == 0 {
		t.apply()
	} else {
		m.waiting = t
	}
	t.d.Deadline = m.deadline(t.now)
	return t.d
}

// Handle is machine.Machine's.
func (m *Machine) Handle(now time.Time, ev machine.Event) machine.Decision {
	t := &turn{m: m, now: now}
	if w := m.waiting; w != nil {
		m.waiting = nil
		switch ev := ev.(type) {
		case machine.Written:
			w.apply()
		case machine.Refused:
			m.refused(w, now)
			if w.unwritten != nil {
				w.unwritten(t, ev.Code)
			}
		default:
			panic("group: an event came while records were waiting to be written")
		}
		return m.finish(t)
	}
	switch ev := ev.(type) {
	case machine.Request:
		t.request(ev)
	case machine.Expire:
		return m.expire(now)
	case machine.Loaded:
		t.loadedAll()
	case machine.ImageChanged:
		t.imageChanged(ev)
	}
	return m.finish(t)
}

// refused forgets a turn. What timers wanted is still due and is tried again a
// little later; until then nothing else is done by time, since it would fare no
// better.
func (m *Machine) refused(w *turn, now time.Time) {
	if w.timed {
		m.pauseUntil = now.Add(retryPause)
	}
}

func (t *turn) request(q machine.Request) {
	switch r := q.Body.(type) {
	case *kmsg.JoinGroupRequest:
		t.join(q, r)
	case *kmsg.SyncGroupRequest:
		t.sync(q, r)
	case *kmsg.HeartbeatRequest:
		t.heartbeat(q, r)
	case *kmsg.LeaveGroupRequest:
		t.leave(q, r)
	case *kmsg.OffsetCommitRequest:
		t.commit(q, r)
	case *kmsg.TxnOffsetCommitRequest:
		t.txnCommit(q, r)
	case *kmsg.OffsetFetchRequest:
		t.fetch(q, r)
	case *kmsg.OffsetDeleteRequest:
		t.deleteOffsets(q, r)
	case *kmsg.DescribeGroupsRequest:
		t.describe(q, r)
	case *kmsg.ListGroupsRequest:
		t.list(q, r)
	case CountOffsets:
		t.countOffsets(q)
	case *kmsg.DeleteGroupsRequest:
		t.deleteGroups(q, r)
	default:
		panic("group: a request that no handler should have sent here")
	}
}

// Kafka's error codes as they are used here.
const (
	none                   int16 = 0
	unknownServerError     int16 = -1
	offsetMetadataTooLarge int16 = 12
	illegalGeneration      int16 = 22
	inconsistentProtocol   int16 = 23
	invalidGroupID         int16 = 24
	unknownMemberID        int16 = 25
	invalidSessionTimeout  int16 = 26
	rebalanceInProgress    int16 = 27
	nonEmptyGroup          int16 = 68
	groupIDNotFound        int16 = 69
	memberIDRequired       int16 = 79
	groupMaxSizeReached    int16 = 81
	fencedInstanceID       int16 = 82
	groupSubscribedToTopic int16 = 86
	unstableOffsetCommit   int16 = 88
)

const (
	classicType          = "classic"
	consumerProtocolType = "consumer"
	maxString            = records.MaxString
)
