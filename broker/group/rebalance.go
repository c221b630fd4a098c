package group

import (
	"encoding/binary"
	"time"

	"millrace/broker/machine"
)

// rebalanceOrComplete goes on after a member came or changed.
func (t *turn) rebalanceOrComplete(id string, l *live) {
	if l.state == preparingRebalance {
		t.maybeComplete(id, l)
		return
	}
	t.prepare(id, l)
}

// prepare begins a rebalance.
func (t *turn) prepare(id string, l *live) {
	if l.state == completingRebalance {
		for i := range l.members {
			m := l.own(i)
			m.assignment = []byte{}
			t.answerSync(m, rebalanceInProgress)
		}
	}
	l.syncAt, l.unsynced = time.Time{}, 0
	l.initial = l.state == empty
	l.newMembers = false
	l.to(preparingRebalance, t.now)
	switch {
	case l.initial:
		// Most likely a whole application is starting: more members will come.
		l.delay = t.m.c.InitialRebalanceDelay
		l.remaining = max(l.rebalanceTimeout()-l.delay, 0)
		l.joinAt = t.now.Add(l.delay)
	case l.allJoined():
		t.complete(id, l)
	default:
		l.joinAt = t.now.Add(l.rebalanceTimeout())
	}
}

// maybeComplete ends the join phase if everybody is there. An initial one ends
// only by time.
func (t *turn) maybeComplete(id string, l *live) {
	if l.state == preparingRebalance && !l.initial && l.allJoined() {
		t.complete(id, l)
	}
}

// joinDue is the end of the join phase by time.
func (t *turn) joinDue(id string, l *live) {
	if l.initial && l.newMembers && l.remaining > 0 {
		l.newMembers = false
		next := min(t.m.c.InitialRebalanceDelay, l.remaining)
		l.remaining = max(l.remaining-l.delay, 0)
		l.delay = next
		l.joinAt = t.now.Add(next)
		return
	}
	t.complete(id, l)
}

// complete ends the join phase: dynamic members that did not join are gone,
// static ones stay until their session ends, and a new generation begins.
func (t *turn) complete(id string, l *live) {
	var away []int
	for i, m := range l.members {
		if m.join.ticket == 0 && m.instance == nil {
			away = append(away, i)
		}
	}
	l.dropAll(away)
	if !l.elect() && len(l.members) > 0 {
		// Only static members that are away: wait for them or for their sessions. A
		// rebalance timeout of nothing must not make that a busy wait.
		l.joinAt = t.now.Add(max(l.rebalanceTimeout(), time.Second))
		return
	}
	l.joinAt = time.Time{}
	l.initial = false
	l.generation++
	if len(l.members) == 0 {
		l.protocol = nil
		l.to(empty, t.now)
		l.subscribed = l.subscriptions()
		t.writeGroup(id, l)
		return
	}
	chosen := l.choose()
	l.protocol = &chosen
	l.to(completingRebalance, t.now)
	l.subscribed = l.subscriptions()
	for i := range l.members {
		m := l.own(i)
		m.isNew = false
		m.pendingSync = true
		m.alive(t.now)
	}
	for i := range l.members {
		m := l.own(i)
		if m.join.ticket == 0 {
			continue
		}
		t.reply(m.join.ticket, l.joined(m.join.version, m, true), machine.Wait{})
		m.join = parked{}
	}
	l.syncAt = t.now.Add(l.rebalanceTimeout())
}

// elect keeps the leader if it joined, or takes the first that did.
func (l *live) elect() bool {
	if m := l.find(l.leader); m != nil && m.join.ticket != 0 {
		return true
	}
	for _, m := range l.members {
		if m.join.ticket != 0 {
			l.leader = m.id
			return true
		}
	}
	return false
}

// expel takes the members at these places out, all at once: one by one each would
// walk over those that are left. What they had parked is answered.
func (t *turn) expel(l *live, at []int, code int16) {
	for _, i := range at {
		m := l.own(i)
		t.answerJoin(m, code)
		t.answerSync(m, code)
	}
	l.dropAll(at)
}

// membersLeft goes on after members were taken out.
func (t *turn) membersLeft(id string, l *live) {
	switch l.state {
	case stable, completingRebalance:
		t.prepare(id, l)
	case preparingRebalance:
		t.maybeComplete(id, l)
	}
}

// membersExpired goes on after members, or promised ids, went by time. As in Kafka
// that ends a first rebalance too, if all who are left have joined.
func (t *turn) membersExpired(id string, l *live) {
	if l.state != preparingRebalance {
		t.membersLeft(id, l)
		return
	}
	if l.allJoined() {
		t.complete(id, l)
	}
}

// due does what time has made due in a group.
func (t *turn) due(id string, l *live) {
	late := func(at time.Time) bool { return !at.IsZero() && !at.After(t.now) }
	for i := 0; i < len(l.pending); {
		if late(l.pending[i].deadline) {
			l.dropPending(i)
			if l.state == preparingRebalance {
				t.membersExpired(id, l)
			}
			continue
		}
		i++
	}
	var away []int
	for i, m := range l.members {
		switch {
		case !late(m.deadline):
		case m.awaiting() && !m.isNew:
			// It waits for us. Its session starts anew when it is answered.
			l.own(i).deadline = time.Time{}
		default:
			away = append(away, i)
		}
	}
	t.expel(l, away, unknownMemberID)
	if len(away) > 0 {
		t.membersExpired(id, l)
	}
	if late(l.joinAt) {
		t.joinDue(id, l)
	}
	if late(l.syncAt) {
		t.syncDue(id, l)
	}
}

// syncDue drops the members that did not sync in time.
func (t *turn) syncDue(id string, l *live) {
	l.syncAt = time.Time{}
	var away []int
	for i, m := range l.members {
		if m.pendingSync {
			away = append(away, i)
		}
	}
	t.expel(l, away, unknownMemberID)
	if len(away)+l.unsynced > 0 {
		t.prepare(id, l)
	}
}

// usesConsumerProtocol says that members' metadata is a consumer's subscription.
func (l *live) usesConsumerProtocol() bool { return l.protocolType == consumerProtocolType }

// subscribes says whether a topic counts as read by the group; unknown
// subscriptions of consumers read everything.
func (l *live) subscribes(topic string) bool {
	if l.subscribed == nil {
		return l.usesConsumerProtocol()
	}
	return l.subscribed[topic]
}

// subscriptions are the topics that the members of a consumer group read; nil if
// that cannot be told.
func (l *live) subscriptions() map[string]bool {
	if !l.usesConsumerProtocol() {
		return nil
	}
	topics := map[string]bool{}
	if len(l.members) == 0 {
		return topics
	}
	if l.protocol == nil {
		return nil
	}
	for _, m := range l.members {
		if !addTopics(topics, m.metadata(*l.protocol)) {
			return nil
		}
	}
	return topics
}

// addTopics reads the topics of a ConsumerProtocolSubscription: every version
// begins with an int16 version and the array of names.
func addTopics(topics map[string]bool, b []byte) bool {
	if len(b) < 6 || int16(binary.BigEndian.Uint16(b)) < 0 {
		return false
	}
	n := int32(binary.BigEndian.Uint32(b[2:]))
	b = b[6:]
	if n < 0 {
		return false
	}
	for ; n > 0; n-- {
		if len(b) < 2 {
			return false
		}
		size := int(int16(binary.BigEndian.Uint16(b)))
		b = b[2:]
		if size < 0 || size > len(b) {
			return false
		}
		topics[string(b[:size])] = true
		b = b[size:]
	}
	return true
}
