package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/controller/raftlog"
	"millrace/controller/state"
)

// RaftID is a controller's identity in the raft group: its node id, made to
// begin at 1 because raft's 0 means nobody, and the incarnation of its directory.
func RaftID(node int32, incarnation uint32) uint64 {
	return uint64(node) + 1 + uint64(incarnation)<<32
}

// NodeOf is the node id behind an identity; -1 for nobody.
func NodeOf(id uint64) int32 { return int32(uint32(id)) - 1 }

// IncarnationOf is the incarnation behind an identity.
func IncarnationOf(id uint64) uint32 { return uint32(id >> 32) }

// memberOptions are what a member is made of.
type memberOptions struct {
	directory     [16]byte
	clusterID     string          // for the cluster this member may found
	log           raftlog.Log     // founded or joined
	static        *config.Static  // what decisions need
	seed          func() [32]byte // fresh chance
	raftLogger    raft.Logger
	electionTicks int

	// Compaction: a snapshot is due after so many bytes or entries, and so many
	// entries stay behind it for peers that lag.
	snapshotBytes   int
	snapshotEntries uint64
	keepEntries     uint64

	// verify applies every entry from its bytes too, and compares: a test's check
	// that the working image is what the log says.
	verify bool
	// committed sees every entry as it is applied.
	committed func(*pb.Entry)
}

// ask is a request that waits to be decided.
type ask struct {
	body      kmsg.Request
	principal string
	done      chan answer // has room for one
}

type answer struct {
	resp   kmsg.Response
	offset int64
	err    error
}

// output is what a turn lets out once its state is durable.
type output struct {
	messages []*pb.Message
	image    *image.Image // nil: no new one
	delta    *image.Delta
	answers  []settled
	admitted []settledAdmission
	proposed time.Time    // when the oldest of ours that has committed now was proposed
	snapshot *image.Image // due to be stored; its offset is the index
	conf     *pb.ConfState
	term     uint64 // of the snapshot's index
}

type settled struct {
	to chan answer
	answer
}

// proposal is an entry of ours that is not committed yet.
type proposal struct {
	index  uint64
	at     time.Time // when it was proposed
	image  *image.Image
	delta  *image.Delta
	parked []settled
}

// member is one member of the raft group with its image. One goroutine uses it:
// step, tick, request, then turn.
type member struct {
	o    memberOptions
	id   uint64
	node *raft.RawNode

	committed *image.Image
	applied   uint64
	term      uint64 // of the last entry applied
	conf      *pb.ConfState

	leader uint64 // who leads, 0 unknown
	// While active:
	decider  *state.Decider
	deciding uint64 // the term
	last     uint64 // index of the last entry proposed
	inflight []proposal
	waiting  []ask
	contacts map[uint64]contact // by peer
	heard    []uint64           // peers that answered since the last turn

	admissions []*admission
	changing   uint64 // index of the last change of the group that was proposed here
	changed    uint64 // and of the last one applied

	snapped      uint64 // index of the snapshot in use
	snapshotting bool
	wantSnapshot bool // whatever the log's size
	sinceBytes   int  // entries applied since the last snapshot

	out     output
	pending bool // something to sync
}

// newMember loads a log. Applied is the newest snapshot; raft hands out the
// committed entries behind it.
func newMember(o memberOptions) (*member, error) {
	m := &member{o: o, id: o.log.Self(), committed: image.New()}
	snap, err := o.log.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("loading the metadata: %w", err)
	}
	if err := m.restore(snap); err != nil {
		return nil, err
	}
	m.node, err = raft.NewRawNode(&raft.Config{
		ID: m.id, ElectionTick: o.electionTicks, HeartbeatTick: 1, Storage: o.log, Applied: m.applied,
		MaxSizePerMsg: 1 << 20, MaxCommittedSizePerReady: 16 << 20, MaxInflightMsgs: 256,
		CheckQuorum: true, PreVote: true, DisableProposalForwarding: true, StepDownOnRemoval: true, Logger: o.raftLogger,
	})
	if err != nil {
		return nil, fmt.Errorf("starting raft: %w", err)
	}
	return m, nil
}

// ErrDamaged is why a controller does not start, or stops: what is committed cannot
// be read, or does not follow from what came before.
var ErrDamaged = errors.New("the metadata is damaged")

func damaged(what string, index uint64, err error) error {
	return fmt.Errorf("%w: the %s at metadata offset %d: %w", ErrDamaged, what, index, err)
}

// restore makes the image that of a snapshot.
func (m *member) restore(s *pb.Snapshot) error {
	meta := s.GetMetadata()
	m.applied, m.term, m.conf = meta.GetIndex(), meta.GetTerm(), meta.GetConfState()
	next := image.New()
	if len(s.GetData()) > 0 {
		e, err := image.DecodeEntry(s.GetData())
		if err != nil {
			return damaged("snapshot", m.applied, err)
		}
		if next, err = image.ReplaySnapshot(int64(m.applied), e); err != nil {
			return damaged("snapshot", m.applied, err)
		}
	} else {
		next, _ = next.Apply(int64(m.applied), nil)
	}
	m.publish(next, image.Diff(m.committed, next))
	m.snapped, m.sinceBytes = m.applied, 0
	return nil
}

func (m *member) publish(next *image.Image, delta *image.Delta) {
	m.committed = next
	m.out.image = next
	m.out.delta = m.out.delta.Then(delta)
}

// alone says that this member is the whole group: nobody to tick for.
func (m *member) alone() bool {
	c := m.conf
	return len(c.GetVoters()) == 1 && c.GetVoters()[0] == m.id && len(c.GetLearners()) == 0 && len(c.GetVotersOutgoing()) == 0
}

// campaign starts an election now instead of after a time-out.
func (m *member) campaign() error { return m.node.Campaign() }

// step takes a message from a peer. What a peer sends cannot stop this member.
func (m *member) step(msg *pb.Message) {
	if msg.GetTo() != m.id {
		return // for another incarnation of this node
	}
	_ = m.node.Step(msg)
	if t := msg.GetType(); t == pb.MsgAppResp || t == pb.MsgHeartbeatResp {
		m.hearFrom(msg.GetFrom())
	}
}

func (m *member) tick() { m.node.Tick() }

// undelivered tells raft of a message that did not reach its peer.
func (m *member) undelivered(u Undelivered) {
	if u.Snapshot {
		m.node.ReportSnapshot(u.To, raft.SnapshotFailure)
		return
	}
	m.node.ReportUnreachable(u.To)
}

// request takes a request to decide in the next turn.
func (m *member) request(a ask) { m.waiting = append(m.waiting, a) }

// active says that requests are decided here.
func (m *member) active() bool { return m.decider != nil }

// deadline is when the next turn is due without anything arriving; zero: never.
func (m *member) deadline() time.Time {
	if m.decider == nil {
		return time.Time{}
	}
	return m.decider.Deadline()
}

// turn works everything off, syncs once if anything must be durable, and gives
// what may be let out now.
func (m *member) turn(now time.Time) (output, error) {
	m.note(now)
	for {
		for m.node.HasReady() {
			if err := m.handle(m.node.Ready(), now); err != nil {
				return output{}, err
			}
		}
		if m.decider == nil || !m.decide(now) {
			break
		}
	}
	if m.decider == nil && m.leader != m.id {
		m.refuse()
	}
	if m.pending {
		if err := m.o.log.Sync(); err != nil {
			return output{}, err
		}
		m.pending = false
	}
	m.due()
	out := m.out
	m.out = output{}
	return out, nil
}

func (m *member) handle(rd raft.Ready, now time.Time) error {
	if !raft.IsEmptySnap(rd.Snapshot) {
		// First: one that cannot be read is not to take the place of a log that can.
		if err := m.restore(rd.Snapshot); err != nil {
			return err
		}
		if err := m.o.log.Install(rd.Snapshot); err != nil {
			return err
		}
	}
	if err := m.o.log.Append(rd.HardState, rd.Entries); err != nil {
		return err
	}
	m.pending = m.pending || rd.MustSync
	m.out.messages = append(m.out.messages, rd.Messages...)
	m.follow(rd.SoftState)
	for _, e := range rd.CommittedEntries {
		if err := m.commit(e, now); err != nil {
			return err
		}
	}
	m.node.Advance(rd)
	m.follow(nil)
	return nil
}

// reconfigure takes a change of the group over. That it is committed is synced
// before anybody is told of it: a member that forgets this asks, after a crash,
// the voters of before for their votes, and one of those may be gone for good
// because the group no longer needs it. Raft panics at a change that it cannot
// make.
func (m *member) reconfigure(change pb.ConfChangeI, index uint64) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = damaged("membership change", index, fmt.Errorf("%v", p))
		}
	}()
	m.conf = m.node.ApplyConfChange(change)
	m.changed, m.pending = index, true
	return nil
}

// follow keeps up with who leads. A leadership may end and begin again between
// two looks; the term tells.
func (m *member) follow(soft *raft.SoftState) {
	status := m.node.BasicStatus()
	m.leader = status.SoftState.Lead
	if soft != nil {
		m.leader = soft.Lead
	}
	if m.decider != nil && (status.RaftState != raft.StateLeader || status.GetTerm() != m.deciding) {
		m.stepDown()
	}
}

// stepDown drops the working image. What was proposed may yet be committed by
// another leader; who asked has to ask again.
func (m *member) stepDown() {
	m.decider = nil
	for _, p := range m.inflight {
		for _, s := range p.parked {
			s.answer = answer{err: errNotController}
			m.out.answers = append(m.out.answers, s)
		}
	}
	m.inflight = nil
	m.refuse()
}

// refuse answers what waits to be decided.
func (m *member) refuse() {
	for _, a := range m.waiting {
		m.out.answers = append(m.out.answers, settled{to: a.done, answer: answer{err: errNotController}})
	}
	m.waiting = nil
	for len(m.admissions) > 0 {
		m.settle(m.admissions[0], admitted{err: errNotController})
	}
}

// commit applies a committed entry.
func (m *member) commit(e *pb.Entry, now time.Time) error {
	m.applied, m.term = e.GetIndex(), e.GetTerm()
	m.sinceBytes += len(e.GetData()) + 64
	if m.o.committed != nil {
		m.o.committed(e)
	}
	var cc pb.ConfChangeV2
	switch e.GetType() {
	case pb.EntryNormal:
		return m.commitNormal(e, now)
	case pb.EntryConfChange:
		var old pb.ConfChange
		if err := proto.Unmarshal(e.GetData(), &old); err != nil {
			return damaged("membership change", e.GetIndex(), err)
		}
		if err := m.reconfigure(&old, e.GetIndex()); err != nil {
			return err
		}
	case pb.EntryConfChangeV2:
		if err := proto.Unmarshal(e.GetData(), &cc); err != nil {
			return damaged("membership change", e.GetIndex(), err)
		}
		if err := m.reconfigure(&cc, e.GetIndex()); err != nil {
			return err
		}
	}
	m.publish(m.committed.Apply(int64(e.GetIndex()), nil))
	return nil
}

func (m *member) commitNormal(e *pb.Entry, now time.Time) error {
	index := e.GetIndex()
	own := len(m.inflight) > 0 && m.inflight[0].index == index && m.deciding == e.GetTerm()
	if !own || m.o.verify {
		next, delta, err := m.replay(e)
		if err != nil {
			return err
		}
		if own && !image.Equal(next, m.inflight[0].image) {
			panic(fmt.Sprintf("controller: the working image at metadata offset %d is not what its entry makes", index))
		}
		if !own {
			m.publish(next, delta)
		}
	}
	if own {
		p := m.inflight[0]
		m.inflight = m.inflight[1:]
		if m.out.proposed.IsZero() {
			m.out.proposed = p.at
		}
		m.publish(p.image, p.delta)
		m.out.answers = append(m.out.answers, p.parked...)
	}
	if m.decider == nil && len(e.GetData()) == 0 {
		m.begin(e.GetTerm(), now)
	}
	return nil
}

// replay makes the next image from an entry's bytes.
func (m *member) replay(e *pb.Entry) (*image.Image, *image.Delta, error) {
	index := int64(e.GetIndex())
	if len(e.GetData()) == 0 {
		next, delta := m.committed.Apply(index, nil)
		return next, delta, nil
	}
	content, err := image.DecodeEntry(e.GetData())
	if err != nil {
		return nil, nil, damaged("entry", e.GetIndex(), err)
	}
	if content.Term != e.GetTerm() {
		content = &image.Entry{} // decided on an image that this is not
	}
	next, delta, err := m.committed.Replay(index, content)
	if err != nil {
		return nil, nil, damaged("entry", e.GetIndex(), err)
	}
	return next, delta, nil
}

// begin starts deciding when the first entry of our own term is applied: then
// all that earlier terms committed is in the image.
func (m *member) begin(term uint64, now time.Time) {
	status := m.node.BasicStatus()
	if status.RaftState != raft.StateLeader || status.GetTerm() != term {
		return
	}
	m.decider = state.New(state.Options{NodeID: NodeOf(m.id), Static: m.o.static}, m.committed, now)
	m.deciding, m.last, m.inflight, m.changing = term, m.applied, nil, 0
	m.contacts, m.heard = map[uint64]contact{}, nil
}

// decide decides what waits and proposes it as one entry. It says whether it
// proposed anything.
func (m *member) decide(now time.Time) bool {
	d := m.decider
	next, err := m.o.log.LastIndex()
	if err != nil {
		m.stepDown()
		return false
	}
	index := next + 1
	d.Begin(int64(index))
	if m.membership() {
		return true
	}
	m.firstRecords()
	d.Expire(now)
	var parked []settled
	for len(m.waiting) > 0 {
		a := m.waiting[0]
		if req, ok := a.body.(*kmsg.DescribeQuorumRequest); ok {
			m.waiting = m.waiting[1:]
			m.out.answers = append(m.out.answers, settled{to: a.done, answer: answer{resp: m.quorum(req, now), offset: int64(m.applied)}})
			continue
		}
		out := d.Decide(now, &state.Request{Body: a.body, Principal: a.principal, Seed: m.o.seed()})
		if out.Again {
			break
		}
		m.waiting = m.waiting[1:]
		s := settled{to: a.done, answer: answer{resp: out.Response}}
		if out.Unsupported {
			s.answer = answer{err: fmt.Errorf("%s: %w", kmsg.NameForKey(a.body.Key()), ErrUnsupported)}
		}
		parked = append(parked, s)
	}
	entry, working, delta := d.Batch()
	if entry == nil {
		m.park(m.last, parked)
		return false
	}
	entry.Term = m.deciding
	if err := m.node.Propose(entry.Append(nil)); err != nil {
		if !errors.Is(err, raft.ErrProposalDropped) {
			panic(fmt.Sprintf("controller: proposing at metadata offset %d: %v", index, err))
		}
		for _, s := range parked {
			s.answer = answer{err: errNotController}
			m.out.answers = append(m.out.answers, s)
		}
		m.stepDown()
		return false
	}
	m.last = index
	for i := range parked {
		parked[i].offset = int64(index)
	}
	m.inflight = append(m.inflight, proposal{index: index, at: now, image: working, delta: delta, parked: parked})
	return true
}

// park keeps answers that rest on the entry at index until that is committed.
func (m *member) park(index uint64, parked []settled) {
	for i := range parked {
		parked[i].offset = int64(index)
	}
	if n := len(m.inflight); n > 0 {
		m.inflight[n-1].parked = append(m.inflight[n-1].parked, parked...)
		return
	}
	m.out.answers = append(m.out.answers, parked...)
}

// firstRecords writes what a new cluster, or a controller new to it, begins with.
func (m *member) firstRecords() {
	working := m.decider.Working()
	me := image.Node{ID: NodeOf(m.id), Incarnation: IncarnationOf(m.id), Directory: m.o.directory}
	if working.ClusterID() == "" {
		id := m.o.clusterID
		if id == "" {
			id = newClusterID(m.o.seed())
		}
		m.decider.Found(id, []image.Node{me})
		return
	}
	if known := working.Node(me.ID); known == nil || known.Incarnation <= me.Incarnation && *known != me {
		m.decider.Record(me)
	}
}

// due asks for a snapshot when the log behind the last one has grown enough.
func (m *member) due() {
	first, err := m.o.log.FirstIndex()
	if err != nil || m.snapshotting || m.applied < first {
		return
	}
	if !m.wantSnapshot && m.sinceBytes < m.o.snapshotBytes && m.applied-first+1 < m.o.snapshotEntries+m.kept() {
		return
	}
	m.snapshotting, m.wantSnapshot, m.sinceBytes = true, false, 0
	m.out.snapshot, m.out.conf, m.out.term = m.committed, m.conf, m.term
}

// encodeSnapshot makes the snapshot that a turn asked for. It may run anywhere.
func encodeSnapshot(out output) *pb.Snapshot {
	return &pb.Snapshot{
		Data: out.snapshot.Snapshot().Append(nil),
		Metadata: pb.EnsureSnapshotMetadata(&pb.SnapshotMetadata{
			ConfState: out.conf, Index: new(uint64(out.snapshot.Offset())), Term: new(out.term),
		}),
	}
}

// compact puts a stored snapshot to use; nil when storing it failed.
func (m *member) compact(meta *pb.SnapshotMetadata) error {
	m.snapshotting = false
	if meta == nil {
		return nil
	}
	if m.snapped >= meta.GetIndex() {
		return nil // one from the leader came first
	}
	m.snapped = meta.GetIndex()
	return m.o.log.Compact(meta, meta.GetIndex()-min(meta.GetIndex(), m.kept()))
}

// kept is how many entries stay behind a snapshot: peers that lag a little need
// not be sent all of it then.
func (m *member) kept() uint64 {
	if m.alone() {
		return 0
	}
	return m.o.keepEntries
}
