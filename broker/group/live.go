package group

import (
	"time"
	"unicode/utf16"

	"millrace/broker/machine"
	"millrace/wire/records"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// state is where a classic group stands. Dead is a group that is not there.
type state int8

const (
	empty state = iota
	preparingRebalance
	completingRebalance
	stable
)

func (s state) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}[s]
}

const dead = "Dead"

// live is a group's soft state. It holds the stored generation too, as that is
// what a rebalance begins with; in Empty and Stable it says the same as the
// records.
type live struct {
	state        state
	since        int64 // ms, of the change to state; -1 unknown
	generation   int32
	protocolType string  // "" for a group that never had members
	protocol     *string // what the generation agreed on; nil without members
	leader       string

	members []*member // in order of joining
	pending []pending // ids given out with MEMBER_ID_REQUIRED

	// initial says that this rebalance began in Empty. It then does not end when
	// all have joined but at joinAt, which moves while newMembers come, until
	// remaining is used up.
	initial    bool
	newMembers bool
	delay      time.Duration
	remaining  time.Duration

	joinAt time.Time // the end of the join phase; zero outside it
	syncAt time.Time // when members that have not synced are dropped; zero: none
	// unsynced counts ids that static members gave up in Stable before they had
	// synced: the group rebalances at syncAt for each of them, too.
	unsynced int

	// subscribed is what the members of a consumer group read; nil when that is
	// not known.
	subscribed map[string]bool
}

// member is one member. A member value belongs to one live; another live's is
// copied before it changes.
type member struct {
	of *live

	id         string
	instance   *string
	clientID   string
	clientHost string
	rebalance  int32 // ms
	session    int32 // ms
	protocols  []protocol
	assignment []byte

	// isNew is set until the first rebalance it takes part in ends.
	isNew       bool
	pendingSync bool
	deadline    time.Time // of its session; zero: none runs
	join        parked
	sync        parked
}

type protocol struct {
	name     string
	metadata []byte
}

// parked is a request that waits for the group.
type parked struct {
	ticket  machine.Ticket // 0: none
	version int16
}

type pending struct {
	id       string
	deadline time.Time
}

func newLive() *live { return &live{state: empty, since: -1} }

// clone copies all but the members, which are copied when they change.
func (l *live) clone() *live {
	c := *l
	c.members = append(make([]*member, 0, len(l.members)+1), l.members...)
	c.pending = append([]pending(nil), l.pending...)
	return &c
}

func (l *live) index(id string) int {
	for i, m := range l.members {
		if m.id == id {
			return i
		}
	}
	return -1
}

// find reads a member; nil if there is none.
func (l *live) find(id string) *member {
	if i := l.index(id); i >= 0 {
		return l.members[i]
	}
	return nil
}

// own gives the member at i to change.
func (l *live) own(i int) *member {
	m := l.members[i]
	if m.of != l {
		c := *m
		c.of = l
		m = &c
		l.members[i] = m
	}
	return m
}

// static finds the member of an instance id; -1 if there is none.
func (l *live) static(instance string) int {
	for i, m := range l.members {
		if m.instance != nil && *m.instance == instance {
			return i
		}
	}
	return -1
}

func (l *live) pendingIndex(id string) int {
	for i, p := range l.pending {
		if p.id == id {
			return i
		}
	}
	return -1
}

// dropAll takes the members at these places out, in one walk. If one of them led,
// the first of those who are left does at once, so that a newcomer does not lead
// before them; Kafka takes any of them.
func (l *live) dropAll(at []int) {
	if len(at) == 0 {
		return
	}
	away := make([]bool, len(l.members))
	for _, i := range at {
		away[i] = true
	}
	led := false
	kept := l.members[:0]
	for i, m := range l.members {
		if away[i] {
			led = led || m.id == l.leader
			continue
		}
		kept = append(kept, m)
	}
	clear(l.members[len(kept):])
	l.members = kept
	if !led {
		return
	}
	l.leader = ""
	if len(l.members) > 0 {
		l.leader = l.members[0].id
	}
}

func (l *live) dropPending(i int) {
	l.pending = append(l.pending[:i], l.pending[i+1:]...)
}

// to changes the state.
func (l *live) to(s state, now time.Time) {
	l.state = s
	l.since = now.UnixMilli()
}

// validate checks that a member is who it says it is (KIP-345).
func (l *live) validate(id string, instance *string) int16 {
	if instance != nil {
		i := l.static(*instance)
		if i < 0 {
			return unknownMemberID
		}
		if l.members[i].id != id {
			return fencedInstanceID
		}
	}
	if l.index(id) < 0 {
		return unknownMemberID
	}
	return none
}

// allJoined says that nobody is missing from the join phase.
func (l *live) allJoined() bool {
	return len(l.pending) == 0 && l.awaitingJoin() == len(l.members)
}

func (l *live) awaitingJoin() int {
	n := 0
	for _, m := range l.members {
		if m.join.ticket != 0 {
			n++
		}
	}
	return n
}

// rebalanceTimeout is the largest of the members'.
func (l *live) rebalanceTimeout() time.Duration {
	var ms int32
	for _, m := range l.members {
		ms = max(ms, m.rebalance)
	}
	return time.Duration(ms) * time.Millisecond
}

// supports says whether a joiner's protocols fit the group: its own type, and at
// least one that every member supports too. The joiner itself counts with what
// it supported before.
func (l *live) supports(protocolType string, offered []kmsg.JoinGroupRequestProtocol) bool {
	if l.state == empty {
		return protocolType != "" && len(offered) > 0
	}
	if l.protocolType != protocolType {
		return false
	}
	if len(l.members) == 0 {
		return len(offered) > 0
	}
	shared := l.shared()
	for _, o := range offered {
		if shared[o.Name] {
			return true
		}
	}
	return false
}

// shared are the protocols that every member supports. A join may list as many as
// fit its frame: each list is walked once.
func (l *live) shared() map[string]bool {
	supporters := map[string]int{}
	for i, m := range l.members {
		for _, p := range m.protocols {
			// Only what all before it support counts, and once.
			if supporters[p.name] == i {
				supporters[p.name] = i + 1
			}
		}
	}
	shared := map[string]bool{}
	// any order: each is judged by itself.
	for name, n := range supporters {
		if n == len(l.members) {
			shared[name] = true
		}
	}
	return shared
}

// choose selects the protocol: of those that all support, each member votes for
// the one it lists first. Kafka takes the first of its hash map of those with
// most votes, which is the same every time; a protocol with as many votes wins
// here if it wins there, so that a group that moves from one broker to the other
// keeps its protocol. Where even the map is undecided the earlier vote counts.
func (l *live) choose() string {
	type tally struct {
		name  string
		votes int
	}
	var votes []tally
	places := map[string]int{} // in votes
	shared := l.shared()
	for _, m := range l.members {
		for _, p := range m.protocols {
			if !shared[p.name] {
				continue
			}
			at, voted := places[p.name]
			if !voted {
				at = len(votes)
				places[p.name] = at
				votes = append(votes, tally{name: p.name})
			}
			votes[at].votes++
			break
		}
	}
	best := tally{}
	for _, v := range votes {
		if v.votes > best.votes || v.votes == best.votes && bucket(v.name, len(votes)) < bucket(best.name, len(votes)) {
			best = v
		}
	}
	return best.name
}

// bucket is where a Java hash map of so many entries keeps a string: the map
// lists them by that.
func bucket(s string, entries int) uint32 {
	var h uint32
	for _, unit := range utf16.Encode([]rune(s)) {
		h = 31*h + uint32(unit)
	}
	size := uint32(16)
	for uint32(entries) > size*3/4 {
		size *= 2
	}
	return (h ^ h>>16) & (size - 1)
}

// metadata is what the member said for a protocol; nil if it does not support
// it.
func (m *member) metadata(name string) []byte {
	for i := len(m.protocols) - 1; i >= 0; i-- {
		if m.protocols[i].name == name {
			return m.protocols[i].metadata
		}
	}
	return nil
}

// matches says that a joiner's protocols are what they were.
func (m *member) matches(offered []kmsg.JoinGroupRequestProtocol) bool {
	if len(offered) != len(m.protocols) {
		return false
	}
	for i, o := range offered {
		if o.Name != m.protocols[i].name || string(o.Metadata) != string(m.protocols[i].metadata) {
			return false
		}
	}
	return true
}

// awaiting says that the member waits for the group and so need not send
// heartbeats.
func (m *member) awaiting() bool { return m.join.ticket != 0 || m.sync.ticket != 0 }

// alive starts the session anew.
func (m *member) alive(now time.Time) {
	m.deadline = now.Add(time.Duration(m.session) * time.Millisecond)
}

func protocolsOf(offered []kmsg.JoinGroupRequestProtocol) []protocol {
	ps := make([]protocol, len(offered))
	for i, o := range offered {
		ps[i] = protocol{o.Name, o.Metadata}
		if ps[i].metadata == nil {
			ps[i].metadata = []byte{}
		}
	}
	return ps
}

// next is when the first thing is due; zero if nothing is.
func (l *live) next() time.Time {
	var first time.Time
	at := func(t time.Time) {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	for _, m := range l.members {
		at(m.deadline)
	}
	for _, p := range l.pending {
		at(p.deadline)
	}
	at(l.joinAt)
	at(l.syncAt)
	return first
}

// fromStored is the soft state that a load begins with.
func fromStored(v *records.GroupMetadataValue, now time.Time) *live {
	l := newLive()
	if v == nil {
		return l
	}
	l.since = v.CurrentStateTimestamp
	l.generation = v.Generation
	l.protocolType = v.ProtocolType
	l.protocol = v.Protocol
	if v.Protocol == nil && len(v.Members) > 0 {
		l.protocol = new(string) // nothing that Kafka writes
	}
	if v.Leader != nil {
		l.leader = *v.Leader
	}
	for i := range v.Members {
		s := &v.Members[i]
		m := &member{
			of: l, id: s.MemberId, instance: s.GroupInstanceId, clientID: s.ClientId, clientHost: s.ClientHost,
			rebalance: s.RebalanceTimeout, session: s.SessionTimeout, assignment: s.Assignment,
		}
		if m.rebalance == -1 {
			m.rebalance = m.session
		}
		subscription := s.Subscription
		if subscription == nil {
			subscription = []byte{}
		}
		m.protocols = []protocol{{*l.protocol, subscription}}
		m.alive(now)
		l.members = append(l.members, m)
	}
	if len(l.members) > 0 {
		l.state = stable
	}
	l.subscribed = l.subscriptions()
	return l
}

// toStored is the record of a group as it stands.
func (l *live) toStored() *records.GroupMetadataValue {
	v := records.NewGroupMetadataValue()
	v.ProtocolType = l.protocolType
	v.Generation = l.generation
	v.Protocol = l.protocol
	if l.leader != "" {
		leader := l.leader
		v.Leader = &leader
	}
	v.CurrentStateTimestamp = l.since
	for _, m := range l.members {
		s := records.NewMemberMetadata()
		s.MemberId, s.GroupInstanceId, s.ClientId, s.ClientHost = m.id, m.instance, m.clientID, m.clientHost
		s.RebalanceTimeout, s.SessionTimeout = m.rebalance, m.session
		s.Subscription = m.metadata(*l.protocol)
		s.Assignment = m.assignment
		v.Members = append(v.Members, *s)
	}
	return v
}

// writeGroup adds the record of a group's edited state to the decision.
func (t *turn) writeGroup(id string, l *live) {
	t.write(&records.GroupMetadataKey{Group: id}, l.toStored(), records.GroupMetadataVersion)
	t.touches(id)
}
