package group

import (
	"fmt"

	"millrace/broker/machine"
	"millrace/wire/records"
)

// Replay is machine.Machine's. It changes hard state and nothing else; the soft
// state of a live group follows when its turn is written.
func (m *Machine) Replay(rec machine.Record) string {
	m.seq++
	k, err := records.DecodeKey(rec.Key)
	if err != nil {
		return err.Error()
	}
	v, err := records.DecodeValue(k, rec.Value)
	if err != nil {
		return fmt.Sprintf("%T: %v", k, err)
	}
	switch k := k.(type) {
	case *records.OffsetCommitKey:
		value, _ := v.(*records.OffsetCommitValue)
		if value == nil {
			m.replayOffset(k.Group, k.Topic, k.Partition, nil, nil)
			break
		}
		m.replayOffset(k.Group, k.Topic, k.Partition, rec.Producer, &offset{
			offset: value.Offset, leaderEpoch: value.LeaderEpoch, metadata: value.Metadata,
			committed: value.CommitTimestamp, expires: value.ExpireTimestamp, topicID: value.TopicId, seq: m.seq,
		})
	case *records.LegacyOffsetCommitKey:
		value, _ := v.(*records.LegacyOffsetCommitValue)
		if value == nil {
			m.replayOffset(k.Group, k.Topic, k.Partition, nil, nil)
			break
		}
		m.replayOffset(k.Group, k.Topic, k.Partition, rec.Producer, &offset{
			offset: value.Offset, leaderEpoch: -1, metadata: value.Metadata,
			committed: value.CommitTimestamp, expires: -1, seq: m.seq,
		})
	case *records.GroupMetadataKey:
		value, _ := v.(*records.GroupMetadataValue)
		m.replayGroup(k.Group, value)
	default:
		return fmt.Sprintf("%T belongs to no group of this kind", k)
	}
	return ""
}

func (m *Machine) replayGroup(id string, v *records.GroupMetadataValue) {
	if v != nil {
		m.ensure(id).stored = v
		return
	}
	g := m.groups[id]
	if g == nil {
		return
	}
	g.stored = nil
	if g.bare() {
		m.remove(g)
		return
	}
	if g.live != nil {
		g.live = newLive()
	}
}

// replayOffset takes an offset; nil is a tombstone, which also ends what open
// transactions have there. A group of which nothing is stored any more stays, in
// loading as in a live machine, until the retention check writes its end, as in
// Kafka.
func (m *Machine) replayOffset(id, topic string, partition int32, p *machine.Producer, o *offset) {
	if o == nil {
		g := m.groups[id]
		if g == nil {
			return
		}
		g.offsets.cut(topic, partition)
		// any order: each is cut by itself.
		for producer, in := range g.txns {
			if in.cut(topic, partition); len(in) == 0 {
				m.endTxn(producer, g)
			}
		}
		return
	}
	g := m.ensure(id)
	if p == nil {
		if g.offsets == nil {
			g.offsets = offsets{}
		}
		g.offsets.put(topic, partition, o)
		return
	}
	if m.txns[p.ID] == nil {
		m.txns[p.ID] = map[string]bool{}
	}
	m.txns[p.ID][id] = true
	if g.txns == nil {
		g.txns = map[int64]offsets{}
	}
	if g.txns[p.ID] == nil {
		g.txns[p.ID] = offsets{}
	}
	g.txns[p.ID].put(topic, partition, o)
}

// endTxn forgets that a transaction has offsets in a group.
func (m *Machine) endTxn(producer int64, g *group) {
	delete(g.txns, producer)
	delete(m.txns[producer], g.id)
	if len(m.txns[producer]) == 0 {
		delete(m.txns, producer)
	}
}

// ReplayMarker is machine.Machine's. An offset that was committed plainly after
// the transaction wrote its own stays: what is later in the log counts.
func (m *Machine) ReplayMarker(mk machine.Marker) {
	m.seq++
	for id := range m.txns[mk.Producer.ID] {
		g := m.groups[id]
		in := g.txns[mk.Producer.ID]
		m.endTxn(mk.Producer.ID, g)
		if mk.Commit {
			g.take(in)
		}
	}
}

// take makes the offsets of a transaction count.
func (g *group) take(in offsets) {
	if g.offsets == nil {
		g.offsets = offsets{}
	}
	for topic, ps := range in {
		for p, o := range ps {
			if was := g.offsets.get(topic, p); was == nil || was.seq < o.seq {
				g.offsets.put(topic, p, o)
			}
		}
	}
}

// loadedAll begins to live: every group is as its records say, every member has
// a fresh session.
func (t *turn) loadedAll() {
	m := t.m
	m.loaded = true
	m.checkAt = t.now.Add(m.c.RetentionCheckInterval)
	for _, id := range m.sortedIDs() {
		g := m.groups[id]
		g.live = fromStored(g.stored, t.now)
		if len(g.live.members) > m.c.MaxSize {
			// group.max.size has become smaller: let the members commit, and shed some.
			t.prepare(id, g.live)
		}
		m.schedule(g, g.live.next())
	}
}
