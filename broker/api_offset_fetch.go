package broker

import (
	"unsafe"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
)

// OffsetFetch (9), versions 0-10; v0 meant ZooKeeper and is served as v1.
// KIP-88 (null topics: all, v2), KIP-447 (requireStable, v7), KIP-709 (many
// groups, v8), KIP-848 (topic ids, v10).
//
// Whatever the version, the coordinator is asked about one group at a time in
// the form of v8 and later; the answer is put back into the form asked for.

func (b *Broker) offsetFetch(c *call, req *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	resp := kmsg.NewPtrOffsetFetchResponse()
	if c.Version >= 8 {
		seen, told := map[string]bool{}, notesTold{}
		for _, g := range req.Groups {
			got := b.fetchOffsets(c, g, req.RequireStable)
			again := told.again(&got)
			if seen[g.Group] && g.Topics == nil || len(got.Topics) == 0 {
				again = sizeOfOffsets(&got)
			}
			if !c.pads(again) {
				return resp
			}
			seen[g.Group] = true
			resp.Groups = append(resp.Groups, got)
		}
		return resp
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = req.Group
	if req.Topics != nil {
		g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(req.Topics))
	}
	for _, t := range req.Topics {
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.Partitions = t.Topic, t.Partitions
		g.Topics = append(g.Topics, gt)
	}
	got := b.fetchOffsets(c, g, req.RequireStable)
	if !c.pads(notesTold{}.again(&got)) {
		return resp
	}
	resp.ErrorCode = got.ErrorCode
	if got.ErrorCode != 0 {
		if c.Version >= 2 {
			return resp
		}
		// v0 and v1 have no top-level error: each partition bears it.
		for _, t := range req.Topics {
			gt := kmsg.NewOffsetFetchResponseGroupTopic()
			gt.Topic = t.Topic
			for _, p := range t.Partitions {
				gt.Partitions = append(gt.Partitions, noOffset(p, got.ErrorCode))
			}
			got.Topics = append(got.Topics, gt)
		}
	}
	for _, gt := range got.Topics {
		t := kmsg.NewOffsetFetchResponseTopic()
		t.Topic = gt.Topic
		for _, gp := range gt.Partitions {
			p := kmsg.NewOffsetFetchResponseTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = gp.Partition, gp.Offset, gp.LeaderEpoch, gp.Metadata, gp.ErrorCode
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// sizeOfOffsets is about what an answer takes in memory.
func sizeOfOffsets(g *kmsg.OffsetFetchResponseGroup) int {
	n := int(unsafe.Sizeof(*g)) + len(g.Group)
	for i := range g.Topics {
		t := &g.Topics[i]
		n += int(unsafe.Sizeof(*t)) + len(t.Topic)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			n += int(unsafe.Sizeof(*p))
			if p.Metadata != nil {
				n += len(*p.Metadata)
			}
		}
	}
	return n
}

// notesTold remembers of which offsets the metadata was told: four bytes ask for
// it, and it may have thousands.
type notesTold map[noteOf]bool

type noteOf struct {
	group, topic string
	partition    int32
}

// again is the size of the metadata in an answer that was told before.
func (told notesTold) again(g *kmsg.OffsetFetchResponseGroup) int {
	n := 0
	for i := range g.Topics {
		t := &g.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if p.Metadata == nil || *p.Metadata == "" {
				continue
			}
			k := noteOf{g.Group, t.Topic, p.Partition}
			if told[k] {
				n += len(*p.Metadata)
			}
			told[k] = true
		}
	}
	return n
}

func noOffset(partition int32, code int16) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.ErrorCode = partition, -1, -1, code
	p.Metadata = kmsg.StringPtr("")
	return p
}

func (b *Broker) fetchOffsets(c *call, g kmsg.OffsetFetchRequestGroup, stable bool) kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group = g.Group
	if !c.allowed(auth.Describe, auth.Group, g.Group) {
		out.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return out
	}
	one := kmsg.NewPtrOffsetFetchRequest()
	one.Version, one.RequireStable = max(8, c.Version), stable
	asked := g
	var refused []kmsg.OffsetFetchResponseGroupTopic
	if g.Topics != nil {
		asked.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(g.Topics))
		for _, t := range g.Topics {
			topic, code := b.committedTopic(c, t.Topic, t.TopicID)
			if code == kerr.UnknownTopicOrPartition.Code {
				// By name Kafka looks only at what was committed.
				code = 0
			}
			if code != 0 {
				rt := kmsg.NewOffsetFetchResponseGroupTopic()
				rt.Topic, rt.TopicID = t.Topic, t.TopicID
				for _, p := range t.Partitions {
					rt.Partitions = append(rt.Partitions, noOffset(p, code))
				}
				refused = append(refused, rt)
				continue
			}
			if topic != nil {
				t.Topic, t.TopicID = topic.Name, topic.ID
			}
			asked.Topics = append(asked.Topics, t)
		}
	}
	one.Groups = []kmsg.OffsetFetchRequestGroup{asked}
	got, code := ask[*kmsg.OffsetFetchResponse](b, c, g.Group, one)
	if code != 0 {
		out.ErrorCode = code
		return out
	}
	out = got.Groups[0]
	out.Group = g.Group
	if out.ErrorCode != 0 {
		out.Topics = nil
		return out
	}
	if g.Topics == nil {
		kept := out.Topics[:0:0]
		for _, t := range out.Topics {
			topic := c.image.TopicByName(t.Topic)
			if !c.allowed(auth.Read, auth.Topic, t.Topic) || (c.Version >= 10 && topic == nil) {
				continue
			}
			if topic != nil {
				t.TopicID = topic.ID
			}
			kept = append(kept, t)
		}
		out.Topics = kept
	}
	for i := range out.Topics {
		if t := c.image.TopicByName(out.Topics[i].Topic); t != nil {
			out.Topics[i].TopicID = t.ID
		}
	}
	out.Topics = append(out.Topics, refused...)
	return out
}
