package group

import (
	"time"

	"millrace/broker/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func syncResponse(version, code int16) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupResponse()
	r.Version = version
	r.ErrorCode = code
	r.MemberAssignment = []byte{}
	return r
}

func (l *live) synced(version int16, m *member) *kmsg.SyncGroupResponse {
	r := syncResponse(version, none)
	protocolType := l.protocolType
	r.ProtocolType = &protocolType
	r.Protocol = l.protocol
	r.MemberAssignment = m.assignment
	return r
}

// sync handles SyncGroup.
func (t *turn) sync(q machine.Request, r *kmsg.SyncGroupRequest) {
	fail := func(code int16) { t.reply(q.Ticket, syncResponse(r.Version, code), machine.Wait{}) }
	if r.Version >= 5 && (r.ProtocolType == nil || r.Protocol == nil) {
		fail(inconsistentProtocol) // KIP-559
		return
	}
	if r.Group == "" {
		fail(invalidGroupID)
		return
	}
	l := t.look(r.Group)
	if l == nil {
		fail(unknownMemberID)
		return
	}
	if code := l.validate(r.MemberID, r.InstanceID); code != none {
		fail(code)
		return
	}
	switch {
	case r.Generation != l.generation:
		fail(illegalGeneration)
		return
	case r.ProtocolType != nil && *r.ProtocolType != l.protocolType,
		r.Protocol != nil && (l.protocol == nil || *r.Protocol != *l.protocol):
		fail(inconsistentProtocol)
		return
	}
	switch l.state {
	case empty:
		fail(unknownMemberID)
	case preparingRebalance:
		fail(rebalanceInProgress)
	case completingRebalance:
		t.syncCompleting(q, r)
	case stable:
		m := l.own(l.index(r.MemberID))
		m.pendingSync = false
		l.maybeAllSynced()
		t.m.extend(t.m.groups[r.Group], m.id, t.now)
		t.reply(q.Ticket, l.synced(r.Version, m), machine.Wait{Keys: []string{r.Group}})
	}
}

// syncCompleting parks a sync; the leader's brings the assignment, which is
// stored and then given to all that wait for it.
func (t *turn) syncCompleting(q machine.Request, r *kmsg.SyncGroupRequest) {
	l := t.look(r.Group)
	if r.MemberID == l.leader {
		l = t.edit(r.Group) // there will be records, so it may be refused
	}
	m := l.own(l.index(r.MemberID))
	t.answerSync(m, rebalanceInProgress) // an earlier one, whose client is gone
	m.sync = parked{q.Ticket, r.Version}
	m.pendingSync = false
	if m.id != l.leader {
		l.maybeAllSynced()
		t.m.dueBy(t.m.groups[r.Group], m.deadline)
		return
	}
	assigned := map[string][]byte{}
	for _, a := range r.GroupAssignment {
		assigned[a.MemberID] = a.MemberAssignment
	}
	for i := range l.members {
		m := l.own(i)
		m.assignment = assigned[m.id]
		if m.assignment == nil {
			m.assignment = []byte{}
		}
	}
	t.writeGroup(r.Group, l)
	t.unwritten = func(t *turn, code int16) { t.unassigned(r.Group, code) }
	l.to(stable, t.now)
	for i := range l.members {
		m := l.own(i)
		if m.sync.ticket == 0 {
			continue
		}
		t.reply(m.sync.ticket, l.synced(m.sync.version, m), machine.Wait{Written: true})
		m.sync = parked{}
		m.alive(t.now)
	}
	l.maybeAllSynced()
}

// unassigned is what becomes of a group whose assignments are not taken, as when
// they are larger than a record may be: all who wait for them are told, and it
// rebalances.
func (t *turn) unassigned(id string, code int16) {
	l := t.edit(id)
	for i := range l.members {
		t.answerSync(l.own(i), code)
	}
	t.prepare(id, l)
}

// maybeAllSynced stops waiting for syncs when there are none to come.
func (l *live) maybeAllSynced() {
	if l.unsynced > 0 {
		return
	}
	for _, m := range l.members {
		if m.pendingSync {
			return
		}
	}
	l.syncAt = time.Time{}
}

// answerSync answers a member's parked sync with an error.
func (t *turn) answerSync(m *member, code int16) {
	if m.sync.ticket == 0 {
		return
	}
	t.reply(m.sync.ticket, syncResponse(m.sync.version, code), machine.Wait{})
	m.sync = parked{}
	m.alive(t.now)
}

// heartbeat handles Heartbeat. It edits nothing but the member's deadline, which
// may take effect whatever happens.
func (t *turn) heartbeat(q machine.Request, r *kmsg.HeartbeatRequest) {
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.Version = r.Version
	resp.ErrorCode = t.beat(r)
	t.reply(q.Ticket, resp, machine.Wait{})
}

func (t *turn) beat(r *kmsg.HeartbeatRequest) int16 {
	if r.Group == "" {
		return invalidGroupID
	}
	g := t.m.groups[r.Group]
	if g == nil {
		return unknownMemberID
	}
	l := g.live
	if code := l.validate(r.MemberID, r.InstanceID); code != none {
		return code
	}
	if r.Generation != l.generation {
		return illegalGeneration
	}
	if l.state == empty {
		return unknownMemberID
	}
	t.m.extend(g, r.MemberID, t.now)
	if l.state == preparingRebalance {
		return rebalanceInProgress
	}
	return none
}

// extend starts a member's session anew, outside any turn's edits.
func (m *Machine) extend(g *group, id string, now time.Time) {
	i := g.live.index(id)
	if i < 0 {
		return
	}
	mb := g.live.own(i)
	mb.alive(now)
	m.dueBy(g, mb.deadline)
}
