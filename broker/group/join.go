package group

import (
	"encoding/hex"
	"time"

	"millrace/broker/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// joinResponse is the answer to a join, complete but for what success adds.
func joinResponse(version, code int16, memberID string) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	r.Version = version
	r.ErrorCode = code
	r.Generation = -1
	r.MemberID = memberID
	if version < 7 {
		r.Protocol = kmsg.StringPtr("")
	}
	return r
}

// joined is the answer to a member of the current generation. Only the leader
// gets the list of members, and only where list says so.
func (l *live) joined(version int16, m *member, list bool) *kmsg.JoinGroupResponse {
	r := joinResponse(version, none, m.id)
	r.Generation = l.generation
	protocolType := l.protocolType
	r.ProtocolType = &protocolType
	r.Protocol = l.protocol
	r.LeaderID = l.leader
	if !list || m.id != l.leader {
		return r
	}
	for _, o := range l.members {
		e := kmsg.NewJoinGroupResponseMember()
		e.MemberID, e.InstanceID = o.id, o.instance
		e.ProtocolMetadata = o.metadata(*l.protocol)
		r.Members = append(r.Members, e)
	}
	return r
}

// freshID is the id of a new member: Kafka puts a random UUID behind the client
// id, or behind the instance id of a static member.
func freshID(q machine.Request, instance *string) string {
	u := q.Fresh
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	h := hex.EncodeToString(u[:])
	id := q.Client.ID
	if instance != nil {
		id = *instance
	}
	return id + "-" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// uuidRoom is what freshID adds.
const uuidRoom = 1 + 36

// join handles JoinGroup.
func (t *turn) join(q machine.Request, r *kmsg.JoinGroupRequest) {
	fail := func(code int16, memberID string) {
		t.reply(q.Ticket, joinResponse(r.Version, code, memberID), machine.Wait{})
	}
	session := time.Duration(r.SessionTimeoutMillis) * time.Millisecond
	switch {
	case r.Group == "":
		fail(invalidGroupID, r.MemberID)
		return
	case session < t.m.c.MinSessionTimeout || session > t.m.c.MaxSessionTimeout:
		fail(invalidSessionTimeout, r.MemberID)
		return
	case !fits(r):
		fail(unknownServerError, r.MemberID)
		return
	}
	j := joiner{t: t, q: q, r: r, id: r.MemberID, rebalance: max(r.RebalanceTimeoutMillis, 0)}
	if r.Version == 0 {
		j.rebalance = r.SessionTimeoutMillis
	}
	now := t.look(r.Group)
	created := now == nil
	if created {
		if r.MemberID != "" {
			fail(unknownMemberID, r.MemberID)
			return
		}
		now = newLive()
	}
	switch {
	case !now.accepts(r.MemberID, t.m.c.MaxSize):
		// It is out, also if it was only promised an id. As in Kafka that does not end
		// the join phase, though nobody may be missing from it any more.
		if i := now.index(r.MemberID); i >= 0 {
			t.expel(t.edit(r.Group), []int{i}, unknownMemberID)
		} else if i := now.pendingIndex(r.MemberID); i >= 0 {
			t.edit(r.Group).dropPending(i)
		}
		fail(groupMaxSizeReached, "")
		return
	case !now.supports(r.ProtocolType, r.Protocols):
		fail(inconsistentProtocol, r.MemberID)
		if created {
			// As in Kafka: a join that is refused leaves an Empty group behind.
			t.edit(r.Group)
			t.writeGroup(r.Group, newborn(t.now))
		}
		return
	}
	j.old = now
	if r.MemberID == "" {
		j.newcomer()
	} else {
		j.known()
	}
	if created && len(t.d.Records) == 0 && len(t.edits) > 0 {
		// The group begins to exist with a record of its own, so that it is there
		// after a failover too.
		t.writeGroup(r.Group, newborn(t.now))
	}
}

// newborn is what is stored of a group before its first generation.
func newborn(now time.Time) *live {
	l := newLive()
	l.since = now.UnixMilli()
	return l
}

// fits says that the strings of a join can be stored.
func fits(r *kmsg.JoinGroupRequest) bool {
	if len(r.Group) > maxString || len(r.MemberID) > maxString || len(r.ProtocolType) > maxString {
		return false
	}
	if r.InstanceID != nil && len(*r.InstanceID)+uuidRoom > maxString {
		return false
	}
	for _, p := range r.Protocols {
		if len(p.Name) > maxString {
			return false
		}
	}
	return true
}

// accepts applies group.max.size. While a rebalance gathers its members those
// who have joined count, so that an oversized group sheds the last to rejoin.
func (l *live) accepts(id string, most int) bool {
	m := l.find(id)
	switch l.state {
	case empty:
		return true
	case preparingRebalance:
		return m != nil && m.join.ticket != 0 || l.awaitingJoin() < most
	default:
		return m != nil || len(l.members) < most
	}
}

// joiner is one join on its way.
type joiner struct {
	t         *turn
	q         machine.Request
	r         *kmsg.JoinGroupRequest
	old       *live // as it was before
	id        string
	rebalance int32
}

func (j *joiner) fail(code int16) {
	j.t.reply(j.q.Ticket, joinResponse(j.r.Version, code, j.id), machine.Wait{})
}

// newcomer is a join without a member id.
func (j *joiner) newcomer() {
	if len(j.q.Client.ID)+uuidRoom > maxString {
		j.fail(unknownServerError)
		return
	}
	j.id = freshID(j.q, j.r.InstanceID)
	l := j.t.edit(j.r.Group)
	switch {
	case j.r.InstanceID != nil:
		if i := l.static(*j.r.InstanceID); i >= 0 {
			j.replaceStatic(l, i)
			return
		}
		j.add(l)
	case j.r.Version >= 4:
		// KIP-394: the client has to come back with the id, so that a client that
		// gave up waiting leaves no member behind.
		l.pending = append(l.pending, pending{j.id, j.t.now.Add(time.Duration(j.r.SessionTimeoutMillis) * time.Millisecond)})
		j.fail(memberIDRequired)
	default:
		j.add(l)
	}
}

// known is a join of somebody who has a member id.
func (j *joiner) known() {
	if i := j.old.pendingIndex(j.id); i >= 0 {
		if j.r.InstanceID != nil {
			// A static member is never given an id to come back with. Kafka has no
			// better answer.
			j.id = ""
			j.fail(unknownServerError)
			return
		}
		l := j.t.edit(j.r.Group)
		l.dropPending(i)
		j.add(l)
		return
	}
	if code := j.old.validate(j.id, j.r.InstanceID); code != none {
		j.fail(code)
		return
	}
	m := j.old.find(j.id)
	switch j.old.state {
	case preparingRebalance:
		j.rejoin()
	case completingRebalance:
		if m.matches(j.r.Protocols) {
			// It did not get the answer to its join.
			j.again(m, true)
			return
		}
		j.rejoin()
	case stable:
		// The leader may want a rebalance for what the members' metadata does not
		// show, such as a topic with more partitions.
		if j.old.leader == j.id || !m.matches(j.r.Protocols) {
			j.rejoin()
			return
		}
		j.again(m, false)
	default:
		j.fail(unknownMemberID)
	}
}

// again answers with the generation as it is.
func (j *joiner) again(m *member, list bool) {
	j.t.reply(j.q.Ticket, j.old.joined(j.r.Version, m, list), machine.Wait{Keys: []string{j.r.Group}})
}

// add makes a member of the joiner.
func (j *joiner) add(l *live) {
	if l.state == preparingRebalance && l.initial {
		l.newMembers = true
	}
	if len(l.members) == 0 {
		l.protocolType = j.r.ProtocolType
	}
	m := &member{
		of: l, id: j.id, instance: j.r.InstanceID, clientID: j.q.Client.ID, clientHost: j.q.Client.Host,
		rebalance: j.rebalance, session: j.r.SessionTimeoutMillis, protocols: protocolsOf(j.r.Protocols),
		assignment: []byte{}, isNew: true, join: parked{j.q.Ticket, j.r.Version},
		// It cannot send heartbeats before it knows its id. If its client is gone
		// nothing tells us, so that a long rebalance would gather dead members.
		deadline: j.t.now.Add(newMemberJoinTimeout),
	}
	if l.leader == "" {
		l.leader = m.id
	}
	l.members = append(l.members, m)
	j.t.rebalanceOrComplete(j.r.Group, l)
}

// rejoin parks the join of a member and takes over what it says.
func (j *joiner) rejoin() {
	l := j.t.edit(j.r.Group)
	j.update(l, l.own(l.index(j.id)))
	j.t.rebalanceOrComplete(j.r.Group, l)
}

func (j *joiner) update(l *live, m *member) {
	m.protocols = protocolsOf(j.r.Protocols)
	m.rebalance = j.rebalance
	m.session = j.r.SessionTimeoutMillis
	// Kafka lets an earlier join of the member that still waits hang; its client
	// has most likely gone. Here it is let go.
	j.t.answerJoin(m, rebalanceInProgress)
	m.join = parked{j.q.Ticket, j.r.Version}
}

// replaceStatic gives the instance's membership to the joiner under a new id;
// whoever holds the old one is fenced (KIP-345).
func (j *joiner) replaceStatic(l *live, i int) {
	t := j.t
	m := l.own(i)
	oldLeader := l.leader
	t.answerJoin(m, fencedInstanceID)
	t.answerSync(m, fencedInstanceID)
	if l.leader == m.id {
		l.leader = j.id
	}
	if m.pendingSync && l.state == stable {
		// Kafka goes on waiting for the id's sync, which nobody can send any more.
		m.pendingSync = false
		l.unsynced++
	}
	m.id = j.id
	m.isNew = false
	m.alive(t.now)
	j.update(l, m)
	switch l.state {
	case stable:
		if l.choose() != *l.protocol {
			t.prepare(j.r.Group, l)
			return
		}
		// The generation stays; the new id is stored, with what the member said
		// now.
		m.join = parked{}
		l.subscribed = l.subscriptions()
		isLeader := l.leader == m.id
		resp := l.joined(j.r.Version, m, j.r.Version >= 9)
		if j.r.Version >= 9 {
			resp.SkipAssignment = isLeader // KIP-814
		} else {
			// An older client would take itself for the leader and assign again; it
			// is told of a leader that does not exist any more.
			resp.LeaderID = oldLeader
		}
		t.writeGroup(j.r.Group, l)
		t.reply(j.q.Ticket, resp, machine.Wait{Written: true})
	case completingRebalance:
		// The leader may already assign to the old id.
		t.prepare(j.r.Group, l)
	default:
		t.maybeComplete(j.r.Group, l)
	}
}

// answerJoin answers a member's parked join with an error.
func (t *turn) answerJoin(m *member, code int16) {
	if m.join.ticket == 0 {
		return
	}
	id := m.id
	if code == unknownMemberID {
		id = "" // it is to join as somebody new
	}
	t.reply(m.join.ticket, joinResponse(m.join.version, code, id), machine.Wait{})
	m.join = parked{}
}
