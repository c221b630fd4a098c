package group

import (
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"millrace/broker/machine"
	"millrace/wire/records"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// offset is one committed offset, as its record says.
type offset struct {
	offset      int64
	leaderEpoch int32
	metadata    string
	committed   int64    // ms
	expires     int64    // ms; -1: the broker's retention counts
	topicID     [16]byte // zero: unknown
	seq         uint64   // of its record
}

// offsets are by topic and partition. The nil value can be read.
type offsets map[string]map[int32]*offset

// offsetRef names an offset, under the topic id it has.
type offsetRef struct {
	group, topic string
	partition    int32
	topicID      [16]byte
}

func (r offsetRef) compare(o offsetRef) int {
	if c := strings.Compare(r.group, o.group); c != 0 {
		return c
	}
	if c := strings.Compare(r.topic, o.topic); c != 0 {
		return c
	}
	return int(r.partition) - int(o.partition)
}

func (in offsets) get(topic string, partition int32) *offset { return in[topic][partition] }

func (in offsets) put(topic string, partition int32, o *offset) {
	if in[topic] == nil {
		in[topic] = map[int32]*offset{}
	}
	in[topic][partition] = o
}

func (in offsets) cut(topic string, partition int32) {
	delete(in[topic], partition)
	if len(in[topic]) == 0 {
		delete(in, topic)
	}
}

// commits is what OffsetCommit and TxnOffsetCommit have in common.
type commits struct {
	group     string
	retention int64 // ms; -1: the broker's
}

// one adds the record of one partition, or says what is wrong with it.
func (t *turn) one(c commits, topic string, topicID [16]byte, partition int32, at int64, epoch int32, metadata *string) int16 {
	text := ""
	if metadata != nil {
		text = *metadata
	}
	if units(text) > t.m.c.OffsetMetadataMaxBytes || len(text) > maxString {
		return offsetMetadataTooLarge
	}
	v := records.NewOffsetCommitValue()
	v.Offset, v.LeaderEpoch, v.Metadata = at, epoch, text
	v.CommitTimestamp = t.now.UnixMilli()
	v.TopicId = topicID
	version := int16(records.OffsetCommitVersion)
	if c.retention != -1 {
		v.ExpireTimestamp = v.CommitTimestamp + c.retention
		version = records.OffsetCommitVersionRetained
	}
	t.write(&records.OffsetCommitKey{Group: c.group, Topic: topic, Partition: partition}, v, version)
	return none
}

// units is the length Kafka compares with offset.metadata.max.bytes: UTF-16
// units, for it asks a Java string.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// commit handles OffsetCommit.
func (t *turn) commit(q machine.Request, r *kmsg.OffsetCommitRequest) {
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Version = r.Version
	code := t.mayCommit(r)
	c := commits{group: r.Group, retention: -1}
	if r.Version >= 2 && r.Version <= 4 {
		c.retention = r.RetentionTimeMillis
	}
	for _, rt := range r.Topics {
		out := kmsg.NewOffsetCommitResponseTopic()
		out.Topic, out.TopicID = rt.Topic, rt.TopicID
		for _, rp := range rt.Partitions {
			p := kmsg.NewOffsetCommitResponseTopicPartition()
			p.Partition, p.ErrorCode = rp.Partition, code
			if code == none && !t.tooMuch() {
				p.ErrorCode = t.one(c, rt.Topic, rt.TopicID, rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata)
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	if t.tooMuch() {
		for _, out := range resp.Topics {
			for i := range out.Partitions {
				out.Partitions[i].ErrorCode = unknownServerError
			}
		}
	}
	if code == none && len(t.d.Records) == 0 && t.m.groups[r.Group] == nil {
		// Nothing was stored, yet a group that was not there is from now on, in
		// memory only.
		t.m.ensure(r.Group).seenFrom = t.m.seq + 1
	}
	t.committed(q.Ticket, r.Group, resp)
}

// committed answers once the offsets are.
func (t *turn) committed(tk machine.Ticket, group string, resp any) {
	w := machine.Wait{}
	if len(t.d.Records) > 0 {
		t.touches(group)
		w.Written = true
	}
	t.reply(tk, resp, w)
}

// mayCommit checks who commits, and keeps a member's session alive.
func (t *turn) mayCommit(r *kmsg.OffsetCommitRequest) int16 {
	if len(r.Group) > maxString {
		return unknownServerError
	}
	g := t.m.groups[r.Group]
	if g == nil {
		switch {
		case r.Generation < 0:
			return none // a simple consumer, or an admin; the record makes the group
		case r.Version >= 9:
			return groupIDNotFound
		default:
			return illegalGeneration
		}
	}
	l := g.live
	switch {
	case r.Generation < 0 && l.state == empty:
		return none
	case r.Generation >= 0 || r.MemberID != "" || r.InstanceID != nil:
		if code := l.validate(r.MemberID, r.InstanceID); code != none {
			return code
		}
		if r.Generation != l.generation {
			return illegalGeneration
		}
	case l.state != empty:
		return unknownMemberID
	}
	switch l.state {
	case completingRebalance:
		// The member knows the new generation, but nobody knows yet who owns what.
		return rebalanceInProgress
	case stable, preparingRebalance:
		t.m.extend(g, r.MemberID, t.now)
	}
	return none
}

// txnCommit handles TxnOffsetCommit: the offsets count when the transaction's
// marker says so.
func (t *turn) txnCommit(q machine.Request, r *kmsg.TxnOffsetCommitRequest) {
	resp := kmsg.NewPtrTxnOffsetCommitResponse()
	resp.Version = r.Version
	code := t.mayTxnCommit(r)
	c := commits{group: r.Group, retention: -1}
	for _, rt := range r.Topics {
		out := kmsg.NewTxnOffsetCommitResponseTopic()
		out.Topic, out.TopicID = rt.Topic, rt.TopicID
		for _, rp := range rt.Partitions {
			p := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			p.Partition, p.ErrorCode = rp.Partition, code
			if code == none && !t.tooMuch() {
				p.ErrorCode = t.one(c, rt.Topic, rt.TopicID, rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata)
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	if t.tooMuch() {
		for _, out := range resp.Topics {
			for i := range out.Partitions {
				out.Partitions[i].ErrorCode = unknownServerError
			}
		}
	}
	if len(t.d.Records) > 0 {
		t.d.Producer = &machine.Producer{ID: r.ProducerID, Epoch: r.ProducerEpoch}
	}
	t.committed(q.Ticket, r.Group, resp)
}

func (t *turn) mayTxnCommit(r *kmsg.TxnOffsetCommitRequest) int16 {
	if r.Group == "" {
		return invalidGroupID
	}
	if len(r.Group) > maxString {
		return unknownServerError
	}
	g := t.m.groups[r.Group]
	if g == nil {
		if r.Generation < 0 {
			return none
		}
		return illegalGeneration
	}
	l := g.live
	if r.Generation < 0 && l.state == empty {
		return none
	}
	if r.Generation < 0 && r.MemberID == "" && r.InstanceID == nil {
		return none // KIP-447 came later than the API: an old client says nothing
	}
	if code := l.validate(r.MemberID, r.InstanceID); code != none {
		return code
	}
	if r.Generation != l.generation {
		return illegalGeneration
	}
	return none
}

// deleteOffsets handles OffsetDelete.
func (t *turn) deleteOffsets(q machine.Request, r *kmsg.OffsetDeleteRequest) {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	resp.Version = r.Version
	g := t.m.groups[r.Group]
	switch {
	case g == nil:
		resp.ErrorCode = groupIDNotFound
	case g.live.state != empty && !g.live.usesConsumerProtocol():
		resp.ErrorCode = nonEmptyGroup
	}
	if resp.ErrorCode != none {
		t.reply(q.Ticket, resp, machine.Wait{})
		return
	}
	gone := map[offsetRef]bool{} // a partition may be named twice, and has one tombstone
	for _, rt := range r.Topics {
		out := kmsg.NewOffsetDeleteResponseTopic()
		out.Topic = rt.Topic
		busy := g.live.state != empty && g.live.subscribes(rt.Topic)
		for _, rp := range rt.Partitions {
			p := kmsg.NewOffsetDeleteResponseTopicPartition()
			p.Partition = rp.Partition
			switch {
			case busy:
				p.ErrorCode = groupSubscribedToTopic
			case g.offsets.get(rt.Topic, rp.Partition) != nil:
				ref := offsetRef{group: r.Group, topic: rt.Topic, partition: rp.Partition}
				if !gone[ref] && !t.tooMuch() {
					t.forget(ref)
				}
				gone[ref] = true
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	if t.tooMuch() {
		resp.ErrorCode, resp.Topics = unknownServerError, nil
	}
	t.committed(q.Ticket, r.Group, resp)
}

// forget adds the tombstone of an offset.
func (t *turn) forget(r offsetRef) {
	t.write(&records.OffsetCommitKey{Group: r.group, Topic: r.topic, Partition: r.partition}, nil, 0)
	t.touches(r.group)
}

// refs lists all offsets of a group, those of open transactions too, in order.
func (g *group) refs() []offsetRef {
	var refs []offsetRef
	add := func(in offsets) {
		for topic, ps := range in {
			for p, o := range ps {
				refs = append(refs, offsetRef{g.id, topic, p, o.topicID})
			}
		}
	}
	add(g.offsets)
	// any order: they are sorted below.
	for _, in := range g.txns {
		add(in)
	}
	slices.SortFunc(refs, offsetRef.compare)
	return slices.CompactFunc(refs, func(a, b offsetRef) bool { return a.compare(b) == 0 })
}

// unstable says whether a transaction that is still open has an offset there.
func (g *group) unstable(topic string, partition int32) bool {
	// any order: it is asked whether any has one.
	for _, in := range g.txns {
		if in.get(topic, partition) != nil {
			return true
		}
	}
	return false
}

// bare says that nothing is stored of the group.
func (g *group) bare() bool { return g.stored == nil && len(g.offsets) == 0 && len(g.txns) == 0 }

// expired says whether an offset's time is up. base is from when the broker's
// retention counts.
func (o *offset) expired(now time.Time, base int64, retention time.Duration) bool {
	if o.expires != -1 {
		return now.UnixMilli() >= o.expires
	}
	return now.UnixMilli()-base >= retention.Milliseconds()
}
