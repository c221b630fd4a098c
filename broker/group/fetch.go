package group

import (
	"slices"
	"strings"

	"millrace/broker/machine"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answered is one partition of an OffsetFetch, whatever the version.
type answered struct {
	offset   int64
	epoch    int32
	metadata string
	code     int16
}

// fetch handles OffsetFetch: one group up to v7, several from v8 on. Member id
// and epoch (v9) matter to consumer groups of KIP-848 only; classic and missing
// groups ignore them.
func (t *turn) fetch(q machine.Request, r *kmsg.OffsetFetchRequest) {
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.Version = r.Version
	stable := r.Version >= 7 && r.RequireStable
	if r.Version < 8 {
		if r.Topics == nil && r.Version >= 2 {
			for _, topic := range t.m.committedTopics(r.Group) {
				out := kmsg.NewOffsetFetchResponseTopic()
				out.Topic = topic
				for _, p := range t.m.committedPartitions(r.Group, topic) {
					out.Partitions = append(out.Partitions, oldStyle(p, t.m.offsetOf(r.Group, topic, [16]byte{}, p, stable)))
				}
				if len(out.Partitions) > 0 {
					resp.Topics = append(resp.Topics, out)
				}
			}
		}
		for _, rt := range r.Topics {
			out := kmsg.NewOffsetFetchResponseTopic()
			out.Topic = rt.Topic
			for _, p := range rt.Partitions {
				out.Partitions = append(out.Partitions, oldStyle(p, t.m.offsetOf(r.Group, rt.Topic, t.m.topicID(rt.Topic), p, stable)))
			}
			resp.Topics = append(resp.Topics, out)
		}
		t.reply(q.Ticket, resp, machine.Wait{Keys: []string{r.Group}})
		return
	}
	var keys []string
	for _, rg := range r.Groups {
		keys = append(keys, rg.Group)
		out := kmsg.NewOffsetFetchResponseGroup()
		out.Group = rg.Group
		if rg.Topics == nil {
			t.fetchAll(&out, stable)
		}
		for _, rt := range rg.Topics {
			id := rt.TopicID
			if id == ([16]byte{}) {
				id = t.m.topicID(rt.Topic)
			}
			topic := kmsg.NewOffsetFetchResponseGroupTopic()
			topic.Topic, topic.TopicID = rt.Topic, rt.TopicID
			for _, p := range rt.Partitions {
				topic.Partitions = append(topic.Partitions, newStyle(p, t.m.offsetOf(rg.Group, rt.Topic, id, p, stable)))
			}
			out.Topics = append(out.Topics, topic)
		}
		resp.Groups = append(resp.Groups, out)
	}
	t.reply(q.Ticket, resp, machine.Wait{Keys: keys})
}

// fetchAll lists all committed offsets of a group, by topic and partition.
func (t *turn) fetchAll(out *kmsg.OffsetFetchResponseGroup, stable bool) {
	for _, name := range t.m.committedTopics(out.Group) {
		topic := kmsg.NewOffsetFetchResponseGroupTopic()
		topic.Topic, topic.TopicID = name, t.m.topicID(name)
		for _, p := range t.m.committedPartitions(out.Group, name) {
			topic.Partitions = append(topic.Partitions, newStyle(p, t.m.offsetOf(out.Group, name, [16]byte{}, p, stable)))
		}
		if len(topic.Partitions) > 0 {
			out.Topics = append(out.Topics, topic)
		}
	}
}

func oldStyle(partition int32, a answered) kmsg.OffsetFetchResponseTopicPartition {
	p := kmsg.NewOffsetFetchResponseTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = partition, a.offset, a.epoch, &a.metadata, a.code
	return p
}

func newStyle(partition int32, a answered) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = partition, a.offset, a.epoch, &a.metadata, a.code
	return p
}

// topicID is the id of a topic as the image has it; zero if that is not known.
func (m *Machine) topicID(name string) [16]byte {
	if m.image == nil {
		return [16]byte{}
	}
	if topic := m.image.TopicByName(name); topic != nil {
		return topic.ID
	}
	return [16]byte{}
}

// offsetOf is what is committed for a partition. An offset that was committed
// for another topic of that name does not count; a zero id asks for any.
func (m *Machine) offsetOf(group, topic string, id [16]byte, partition int32, stable bool) answered {
	nothing := answered{offset: -1, epoch: -1}
	g := m.groups[group]
	if g == nil {
		return nothing
	}
	if stable && g.unstable(topic, partition) {
		nothing.code = unstableOffsetCommit // KIP-447
		return nothing
	}
	o := g.offsets.get(topic, partition)
	if o == nil || o.otherTopic(id) {
		return nothing
	}
	return answered{offset: o.offset, epoch: o.leaderEpoch, metadata: o.metadata}
}

// otherTopic says that an offset belongs to a topic of the same name but another
// id. What is not known is no difference.
func (o *offset) otherTopic(id [16]byte) bool {
	zero := [16]byte{}
	return id != zero && o.topicID != zero && o.topicID != id
}

// committedTopics lists the topics a group has offsets of, sorted.
func (m *Machine) committedTopics(group string) []string {
	g := m.groups[group]
	if g == nil {
		return nil
	}
	topics := make([]string, 0, len(g.offsets))
	for topic := range g.offsets {
		topics = append(topics, topic)
	}
	slices.SortFunc(topics, strings.Compare)
	return topics
}

// committedPartitions lists the partitions of a topic that have an offset. One
// under another topic id is left out. One that a transaction is about to change is
// not, and told of as unstable where stable offsets are asked for (KIP-447).
func (m *Machine) committedPartitions(group, topic string) []int32 {
	g := m.groups[group]
	id := m.topicID(topic)
	var ps []int32
	for p, o := range g.offsets[topic] {
		if o.otherTopic(id) {
			continue
		}
		ps = append(ps, p)
	}
	slices.Sort(ps)
	return ps
}
