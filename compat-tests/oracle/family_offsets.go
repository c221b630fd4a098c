package oracle

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&family{
		name: "offsets", weight: 12,
		open: func(g *gen) []Step { return g.createTopics([]string{}) },
		steps: []maker{
			{30, (*gen).simpleCommit},
			{22, (*gen).offsetFetch},
			{8, (*gen).offsetDelete},
			{5, (*gen).deleteGroups},
			{5, (*gen).describeGroups},
			{4, (*gen).listGroups},
			{5, (*gen).findCoordinator},
			{5, (*gen).truncatedTopic},
			{3, (*gen).createPartitions},
			{3, (*gen).join},
		},
	})
}

// committed is what is committed for one partition.
type committed struct {
	topic    string
	index    int32
	offset   int64
	epoch    int32
	metadata *string
	old      bool
}

func (c committed) String() string {
	m := "null"
	if c.metadata != nil {
		m = fmt.Sprint(len(*c.metadata))
	}
	return fmt.Sprintf("%s/%d at %d epoch %d metadata %s old id %v", c.topic, c.index, c.offset, c.epoch, m, c.old)
}

func (g *gen) committed() []committed {
	var list []committed
	for range oneOf(g.Rand, 0, 1, 1, 1, 1, 2, 3) {
		c := committed{topic: g.topic(), index: g.partition(), offset: oneOf[int64](g.Rand, 0, 1, 5, 77, -1, -2, 1<<40), epoch: oneOf[int32](g.Rand, -1, -1, 0, 5)}
		c.metadata = oneOf(g.Rand, kmsg.StringPtr(""), kmsg.StringPtr("m"), nil, kmsg.StringPtr(strings.Repeat("m", 4096)), kmsg.StringPtr(strings.Repeat("m", 4097)), kmsg.StringPtr("é€"))
		c.old = g.chance(5)
		list = append(list, c)
	}
	return list
}

func committing(s *side, group string, list []committed) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group, r.Generation, r.RetentionTimeMillis = s.name(group), -1, -1
	for _, c := range list {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = s.name(c.topic), s.id(c.topic)
		if c.old {
			t.TopicID = s.oldID(c.topic)
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.Timestamp = c.index, c.offset, c.epoch, c.metadata, -1
		if n := len(r.Topics); n > 0 && r.Topics[n-1].Topic == t.Topic && r.Topics[n-1].TopicID == t.TopicID {
			r.Topics[n-1].Partitions = append(r.Topics[n-1].Partitions, p)
			continue
		}
		t.Partitions = append(t.Partitions, p)
		r.Topics = append(r.Topics, t)
	}
	return r
}

func (g *gen) simpleCommit() Step {
	group, list := oneOf(g.Rand, "g1", "g1", "g1", "g1", classicGroup), g.committed()
	generation, member := oneOf[int32](g.Rand, -1, -1, -1, -1, 0, 1, -5), oneOf(g.Rand, "", "", "", "nobody")
	static := g.chance(5)
	retention := oneOf[int64](g.Rand, -1, -1, -1, 86400000, 1, 1)
	v := g.pick()
	what := fmt.Sprintf("commit to %s generation %d member %q for %d: %v", group, generation, member, retention, list)
	return Step{Text: what, Do: func(p *Play) {
		p.ask("committer", v, what, func(s *side) kmsg.Request {
			r := committing(s, group, list)
			r.Generation, r.MemberID, r.RetentionTimeMillis = generation, member, retention
			if static {
				r.InstanceID = kmsg.StringPtr("i-m2")
			}
			return r
		})
		p.settleGroup()
	}}
}

func (g *gen) offsetFetch() Step {
	type wanted struct {
		group  string
		all    bool
		topics []place
		member bool
	}
	var list []wanted
	for range oneOf(g.Rand, 1, 1, 1, 2) {
		w := wanted{group: oneOf(g.Rand, "g1", "g1", classicGroup, classicGroup, "no-group", "="), all: g.chance(25), member: g.chance(10)}
		if !w.all {
			for range g.IntN(4) {
				w.topics = append(w.topics, place{g.topic(), g.partition()})
			}
		}
		if len(list) == 1 && list[0].group == w.group {
			continue
		}
		list = append(list, w)
	}
	stable := g.chance(30)
	old, zero := g.chance(5), g.chance(4)
	v := g.pick()
	if list[0].all {
		v = v.above(2) // null is all from version 2 on
	}
	return g.askingIn("committer", v, fmt.Sprintf("fetch offsets %v, stable %v, old id %v, zero id %v", list, stable, old, zero), func(s *side) kmsg.Request {
		r := kmsg.NewPtrOffsetFetchRequest()
		r.RequireStable, r.Group = stable, s.name(list[0].group)
		for i, w := range list {
			rg := kmsg.NewOffsetFetchRequestGroup()
			rg.Group = s.name(w.group)
			if w.member {
				rg.MemberID, rg.MemberEpoch = kmsg.StringPtr("nobody"), 3
			}
			if !w.all {
				rg.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
				if i == 0 {
					r.Topics = []kmsg.OffsetFetchRequestTopic{}
				}
			}
			for _, at := range w.topics {
				t := kmsg.NewOffsetFetchRequestGroupTopic()
				t.Topic, t.TopicID, t.Partitions = s.name(at.topic), s.id(at.topic), []int32{at.index}
				if old {
					t.TopicID = s.oldID(at.topic)
				}
				if zero {
					t.TopicID = [16]byte{}
				}
				rg.Topics = append(rg.Topics, t)
				if i == 0 {
					one := kmsg.NewOffsetFetchRequestTopic()
					one.Topic, one.Partitions = t.Topic, t.Partitions
					r.Topics = append(r.Topics, one)
				}
			}
			r.Groups = append(r.Groups, rg)
		}
		return r
	})
}

func (g *gen) offsetDelete() Step {
	group := oneOf(g.Rand, "g1", "g1", classicGroup, "no-group", "=")
	var list []place
	for range g.IntN(4) {
		list = append(list, place{g.topic(), g.partition()})
	}
	return g.asking("committer", fmt.Sprintf("delete offsets of %s: %v", group, list), func(s *side) kmsg.Request {
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = s.name(group)
		for _, at := range list {
			t := kmsg.NewOffsetDeleteRequestTopic()
			t.Topic = s.name(at.topic)
			t.Partitions = append(t.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: at.index})
			r.Topics = append(r.Topics, t)
		}
		return r
	})
}

func (g *gen) findCoordinator() Step {
	// Of the coordinators of transactions (1) and of share groups (2, with a key that
	// is none) no more can be asked before they are served: asking makes their topics.
	kind := oneOf[int8](g.Rand, 0, 0, 0, 3, -1, 2)
	keys := oneOf(g.Rand, []string{"g1"}, []string{"g1", classicGroup}, []string{"="}, []string{}, []string{"g1", "g1"}, []string{"=g:x:0"}, []string{"=:AAAAAAAAAAAAAAAAAAAAAQ:0"})
	return g.asking("committer", fmt.Sprintf("find coordinators of %v, kind %d", keys, kind), func(s *side) kmsg.Request {
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.CoordinatorType = kind
		for _, k := range keys {
			r.CoordinatorKeys = append(r.CoordinatorKeys, s.name(k))
			r.CoordinatorKey = s.name(k)
		}
		return r
	})
}
