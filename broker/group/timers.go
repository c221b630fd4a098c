package group

import (
	"container/heap"
	"slices"
	"time"

	"millrace/broker/machine"
	"millrace/wire/records"
)

// timers is a heap of groups by when something may be due. A group's time may
// be too early, since heartbeats move deadlines without touching the heap; it is
// never too late.
type timers []*group

func (h timers) Len() int { return len(h) }
func (h timers) Less(i, j int) bool {
	if !h[i].due.Equal(h[j].due) {
		return h[i].due.Before(h[j].due)
	}
	return h[i].id < h[j].id
}
func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *timers) Push(x any) {
	g := x.(*group)
	g.index = len(*h)
	*h = append(*h, g)
}
func (h *timers) Pop() any {
	old := *h
	g := old[len(old)-1]
	old[len(old)-1] = nil
	g.index = -1
	*h = old[:len(old)-1]
	return g
}

// schedule sets when a group is looked at; zero is never.
func (m *Machine) schedule(g *group, at time.Time) {
	switch {
	case at.IsZero():
		if g.index >= 0 {
			heap.Remove(&m.timers, g.index)
		}
	case g.index < 0:
		g.due = at
		heap.Push(&m.timers, g)
	default:
		g.due = at
		heap.Fix(&m.timers, g.index)
	}
}

// dueBy makes sure that a group is looked at by then.
func (m *Machine) dueBy(g *group, at time.Time) {
	if !at.IsZero() && (g.index < 0 || at.Before(g.due)) {
		m.schedule(g, at)
	}
}

// deadline is when the machine wants to be woken.
func (m *Machine) deadline(now time.Time) time.Time {
	if !m.loaded {
		return time.Time{}
	}
	first := m.checkAt
	at := func(t time.Time) {
		if t.Before(first) {
			first = t
		}
	}
	if len(m.timers) > 0 {
		at(m.timers[0].due)
	}
	if len(m.sweep) > 0 || len(m.gone) > 0 {
		first = now
	}
	if first.Before(m.pauseUntil) {
		return m.pauseUntil
	}
	return first
}

// Bounds on what one turn of timers or housekeeping does, so that requests get between.
const (
	turnRecords = 1000
	turnBytes   = 256 << 10
	turnGroups  = 1000
)

// expire does what is due. A decision holds the records of one group's timers at
// most, so that a refusal touches no other.
func (m *Machine) expire(now time.Time) machine.Decision {
	t := &turn{m: m, now: now, timed: true}
	if !m.loaded || now.Before(m.pauseUntil) {
		return m.finish(t)
	}
	for n := 0; n < turnGroups && len(m.timers) > 0 && !m.timers[0].due.After(now); n++ {
		g := m.timers[0]
		one := &turn{m: m, now: now, timed: true}
		one.due(g.id, one.edit(g.id))
		if len(one.d.Records) > 0 {
			if len(t.d.Replies) > 0 {
				break // next time: the answers so far do not depend on this append
			}
			return m.finish(one)
		}
		one.apply()
		t.d.Replies = append(t.d.Replies, one.d.Replies...)
	}
	if len(t.d.Replies) == 0 {
		m.housekeep(t)
	}
	return m.finish(t)
}

// housekeep removes offsets of deleted topics, and looks for expired ones.
func (m *Machine) housekeep(t *turn) {
	if len(m.gone) > 0 {
		m.removeGone(t)
		return
	}
	if len(m.sweep) == 0 && !m.checkAt.After(t.now) {
		m.sweep = m.sortedIDs()
		m.checkAt = t.now.Add(m.c.RetentionCheckInterval)
	}
	n := 0
	for n < len(m.sweep) && n < turnGroups && !t.full() {
		if g := m.groups[m.sweep[n]]; g != nil && !t.expireOffsets(g) {
			break
		}
		n++
	}
	rest := m.sweep[n:]
	t.after = append(t.after, func() { m.sweep = rest })
}

// expireOffsets adds the tombstones of a group's expired offsets, and of the
// group if nothing is left of it. It is false if there are more than fit the
// turn: the group is then looked at again.
func (t *turn) expireOffsets(g *group) bool {
	l := g.live
	base, may := l.retentionBase()
	if !may && len(g.offsets) > 0 {
		return true
	}
	all := true
	for _, r := range g.refs() {
		o := g.offsets.get(r.topic, r.partition)
		if o == nil || l.state != empty && l.subscribes(r.topic) || g.unstable(r.topic, r.partition) {
			all = false
			continue
		}
		from := base
		if from == -1 {
			from = o.committed
		}
		if !o.expired(t.now, from, t.m.c.OffsetsRetention) {
			all = false
			continue
		}
		if t.full() {
			return false
		}
		t.forget(offsetRef{group: g.id, topic: r.topic, partition: r.partition})
	}
	if all && l.state == empty && len(g.txns) == 0 {
		t.write(&records.GroupMetadataKey{Group: g.id}, nil, 0)
		t.touches(g.id)
	}
	return true
}

// retentionBase says from when a group's offsets are kept for
// offsets.retention.minutes: since it became Empty, or, as -1, since each was
// committed. may is false where offsets do not expire (KIP-211, and
// ClassicGroup.offsetExpirationCondition).
func (l *live) retentionBase() (base int64, may bool) {
	switch {
	case l.protocolType == "":
		return -1, true // a simple consumer's
	case l.state == empty:
		return l.since, true
	case l.state == stable && l.usesConsumerProtocol() && l.subscribed != nil:
		return -1, true
	default:
		return 0, false
	}
}

// imageChanged takes a newer image. Offsets of topics that are gone are removed.
func (t *turn) imageChanged(ev machine.ImageChanged) {
	m := t.m
	m.image = ev.Image
	before := len(m.gone)
	switch {
	case ev.Image == nil:
		return
	case ev.Delta == nil:
		m.findGone(func(topic string, id [16]byte) bool {
			now := ev.Image.TopicByName(topic)
			return now == nil || id != [16]byte{} && now.ID != id
		})
	case len(ev.Delta.DeletedTopics) > 0:
		deleted := map[string][][16]byte{}
		for _, d := range ev.Delta.DeletedTopics {
			deleted[d.Name] = append(deleted[d.Name], d.ID)
		}
		m.findGone(func(topic string, id [16]byte) bool {
			ids := deleted[topic]
			return len(ids) > 0 && (id == [16]byte{} || slices.Contains(ids, id))
		})
	}
	if len(m.gone) > before {
		t.timed = true
		m.removeGone(t)
	}
}

func (m *Machine) findGone(is func(topic string, id [16]byte) bool) {
	for _, id := range m.sortedIDs() {
		g := m.groups[id]
		if len(g.offsets) == 0 && len(g.txns) == 0 {
			continue
		}
		for _, r := range g.refs() {
			if is(r.topic, r.topicID) {
				m.gone = append(m.gone, r)
			}
		}
	}
}

// removeGone adds the next tombstones. An offset that was committed meanwhile
// for a new topic of the same name stays.
func (m *Machine) removeGone(t *turn) {
	n := 0
	for n < len(m.gone) && !t.full() {
		r := m.gone[n]
		n++
		g := m.groups[r.group]
		if g == nil {
			continue
		}
		if o := g.offsets.get(r.topic, r.partition); o != nil && o.topicID != r.topicID {
			continue
		}
		t.forget(r)
	}
	rest := m.gone[n:]
	t.after = append(t.after, func() { m.gone = rest })
}
