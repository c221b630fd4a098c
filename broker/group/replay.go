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
	if len(g.offsets) == 0 && g.pending == 0 {
		m.remove(g)
		return
	}
	if g.live != nil {
		g.live = newLive()
	}
}

// replayOffset takes an offset; nil is a tombstone, which also ends what open
// transactions have there.
func (m *Machine) replayOffset(id, topic string, partition int32, p *machine.Producer, o *offset) {
	if o == nil {
		g := m.groups[id]
		if g == nil {
			return
		}
		cut(g.offsets, topic, partition)
		if g.pending > 0 {
			for _, groups := range m.txns {
				if to := groups[id]; to != nil && cut(to.offsets, topic, partition) {
					g.pending--
				}
			}
		}
		if !m.loaded && g.stored == nil && len(g.offsets) == 0 && g.pending == 0 {
			m.remove(g)
		}
		return
	}
	g := m.ensure(id)
	if p == nil {
		if g.offsets == nil {
			g.offsets = map[string]map[int32]*offset{}
		}
		put(g.offsets, topic, partition, o)
		return
	}
	groups := m.txns[p.ID]
	if groups == nil {
		groups = map[string]*txnOffset{}
		m.txns[p.ID] = groups
	}
	if groups[id] == nil {
		groups[id] = &txnOffset{offsets: map[string]map[int32]*offset{}}
	}
	if get(groups[id].offsets, topic, partition) == nil {
		g.pending++
	}
	put(groups[id].offsets, topic, partition, o)
}

// ReplayMarker is machine.Machine's. An offset that was committed plainly after
// the transaction wrote its own stays: what is later in the log counts.
func (m *Machine) ReplayMarker(mk machine.Marker) {
	m.seq++
	groups := m.txns[mk.Producer.ID]
	delete(m.txns, mk.Producer.ID)
	for id, to := range groups {
		g := m.groups[id]
		if g == nil {
			continue // deleted meanwhile, and its offsets here with it
		}
		for topic, ps := range to.offsets {
			for p, o := range ps {
				g.pending--
				if !mk.Commit {
					continue
				}
				if was := get(g.offsets, topic, p); was != nil && was.seq > o.seq {
					continue
				}
				if g.offsets == nil {
					g.offsets = map[string]map[int32]*offset{}
				}
				put(g.offsets, topic, p, o)
			}
		}
		if !m.loaded && g.stored == nil && len(g.offsets) == 0 && g.pending == 0 {
			m.remove(g)
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
