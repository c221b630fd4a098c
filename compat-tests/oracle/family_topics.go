package oracle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&family{
		name: "topics", weight: 14,
		steps: []maker{
			{14, (*gen).createTopicsOddly},
			{6, (*gen).createWell},
			{10, (*gen).deleteTopicsOddly},
			{8, (*gen).createPartitions},
			{18, (*gen).metadata},
			{8, (*gen).describeTopicPartitions},
			{4, (*gen).electLeaders},
			{4, (*gen).reassign},
			{3, (*gen).listReassignments},
			{3, (*gen).describeLogDirs},
			{6, (*gen).produce},
			{4, (*gen).listOffsets},
			{3, (*gen).fetch},
			{3, (*gen).describeTopicConfigs},
		},
	})
}

func (g *gen) createWell() Step {
	profiles := append([][]string{}, logProfiles...)
	return g.createTopic(oneOf(g.Rand, g.topics...), int32(1+g.IntN(4)), oneOf(g.Rand, profiles...))
}

// newTopic is one entry of a CreateTopics request, good or not.
type newTopic struct {
	name       string
	partitions int32
	factor     int16
	assigned   [][]int32 // index by place
	indices    []int32
	configs    []string
	nullConfig string
}

func (g *gen) newTopic() newTopic {
	t := newTopic{name: oneOf(g.Rand, g.topics...), partitions: oneOf[int32](g.Rand, 1, 1, 2, -1, 3), factor: oneOf[int16](g.Rand, 1, 1, 1, -1)}
	for range 1 + g.IntN(2) {
		if g.chance(40) {
			continue
		}
		switch g.IntN(16) {
		case 0:
			t.name = oneOf(g.Rand, "=", "=.", "=..", "=a b", "=é", "="+strings.Repeat("x", 250), "=__cluster_metadata", "=__consumer_offsets")
		case 1:
			t.name = oneOf(g.Rand, "dot.ted", "dot_ted", "dot.ted_")
		case 2:
			t.partitions = oneOf[int32](g.Rand, 0, -2, 10001, 1<<30)
		case 3:
			t.factor = oneOf[int16](g.Rand, 0, -2, 2, 32767)
		case 4:
			t.assigned, t.partitions, t.factor = [][]int32{{1}, {1}}, -1, -1
		case 5:
			t.assigned = oneOf(g.Rand, [][]int32{{1}}, [][]int32{{2}}, [][]int32{{1, 2}}, [][]int32{{1, 1}}, [][]int32{{}}, [][]int32{{1}, {1, 2}}, [][]int32{{-1}})
			if g.chance(60) {
				t.partitions, t.factor = -1, -1
			}
		case 6:
			t.assigned, t.indices, t.partitions, t.factor = [][]int32{{1}, {1}}, oneOf(g.Rand, []int32{0, 2}, []int32{0, 0}, []int32{1, 0}, []int32{-1, 0}), -1, -1
		case 7, 8, 9:
			key := oneOf(g.Rand, topicKeys...)
			t.configs = append(t.configs, key, oneOf(g.Rand, values...))
		case 10:
			t.configs = append(t.configs, "retention.ms", "1000", "retention.ms", "999999999")
		case 11:
			t.configs = append(t.configs, oneOf(g.Rand, "no.such.key", "", "Retention.ms"), "1")
		case 12:
			t.nullConfig = oneOf(g.Rand, "retention.ms", "cleanup.policy", "no.such.key")
		case 13:
			t.configs = append(t.configs, "min.compaction.lag.ms", "100", "max.compaction.lag.ms", "50")
		case 14:
			t.configs = append(t.configs, oneOf(g.Rand, logProfiles...)...)
		}
	}
	return t
}

func (g *gen) createTopicsOddly() Step {
	var list []newTopic
	var told, made []string
	for range oneOf(g.Rand, 1, 1, 1, 2, 3) {
		t := g.newTopic()
		if g.chance(6) {
			list = append(list, t)
		}
		list = append(list, t)
		told = append(told, fmt.Sprintf("%+v", t))
		made = append(made, t.name)
	}
	if g.chance(3) {
		list, told = nil, nil
	}
	validate := g.chance(25)
	v := g.pick()
	what := fmt.Sprintf("create topics, validate only %v: %s", validate, shortened(strings.Join(told, "; ")))
	return Step{Text: what, Do: func(p *Play) {
		p.ask("admin", v, what, func(s *side) kmsg.Request {
			req := kmsg.NewPtrCreateTopicsRequest()
			req.TimeoutMillis, req.ValidateOnly = 10000, validate
			for _, t := range list {
				rt := kmsg.NewCreateTopicsRequestTopic()
				rt.Topic, rt.NumPartitions, rt.ReplicationFactor = s.name(t.name), t.partitions, t.factor
				for i, replicas := range t.assigned {
					a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
					a.Partition, a.Replicas = int32(i), replicas
					if i < len(t.indices) {
						a.Partition = t.indices[i]
					}
					rt.ReplicaAssignment = append(rt.ReplicaAssignment, a)
				}
				for i := 0; i+1 < len(t.configs); i += 2 {
					c := kmsg.NewCreateTopicsRequestTopicConfig()
					c.Name, c.Value = t.configs[i], kmsg.StringPtr(t.configs[i+1])
					rt.Configs = append(rt.Configs, c)
				}
				if t.nullConfig != "" {
					c := kmsg.NewCreateTopicsRequestTopicConfig()
					c.Name = t.nullConfig
					rt.Configs = append(rt.Configs, c)
				}
				req.Topics = append(req.Topics, rt)
			}
			return req
		})
		var own []string
		for _, n := range made {
			if !strings.HasPrefix(n, "=") {
				own = append(own, n)
			}
		}
		if len(own) > 0 {
			p.led(own...)
			p.identify(own...)
		}
	}}
}

func shortened(s string) string {
	if len(s) > 900 {
		return s[:900] + "..."
	}
	return s
}

func (g *gen) deleteTopicsOddly() Step {
	type entry struct {
		topic string
		how   string
	}
	var list []entry
	for range oneOf(g.Rand, 1, 1, 2, 3) {
		list = append(list, entry{g.topic(), oneOf(g.Rand, "name", "name", "name", "id", "id", "both", "neither", "old id")})
	}
	if g.chance(3) {
		list = nil
	}
	v := g.pick()
	what := fmt.Sprintf("delete topics %v", list)
	return Step{Text: what, Do: func(p *Play) {
		// Which of several topics Kafka takes away first is up to a hash map, and a Fetch that waits for
		// them is answered with what is there then.
		list := list
		if len(list) > 1 && slices.ContainsFunc(p.pending, func(x *exchange) bool {
			r, ok := x.req[kafkas].(*kmsg.FetchRequest)
			return ok && len(r.Topics) > 1
		}) {
			list = list[:1]
		}
		if len(list) > 0 && p.partsAwaited() {
			return
		}
		p.ask("admin", v, what, func(s *side) kmsg.Request {
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.TimeoutMillis = 5000
			for _, e := range list {
				req.TopicNames = append(req.TopicNames, s.name(e.topic))
				t := kmsg.NewDeleteTopicsRequestTopic()
				if e.how == "name" || e.how == "both" {
					t.Topic = kmsg.StringPtr(s.name(e.topic))
				}
				switch e.how {
				case "id", "both":
					t.TopicID = s.id(e.topic)
				case "old id":
					t.TopicID = s.oldID(e.topic)
				}
				req.Topics = append(req.Topics, t)
			}
			return req
		})
		p.applied()
		p.settle(offsetTopics)
	}}
}

// partsAwaited says that a Fetch waits for several partitions of one topic: which of them Kafka takes away first, when the
// topic is deleted, is up to a hash map, and it answers then with what is there of the others.
func (p *Play) partsAwaited() bool {
	return slices.ContainsFunc(p.pending, func(x *exchange) bool {
		r, ok := x.req[kafkas].(*kmsg.FetchRequest)
		return ok && (r.SessionEpoch > 0 || slices.ContainsFunc(r.Topics, func(t kmsg.FetchRequestTopic) bool { return len(t.Partitions) > 1 }))
	})
}

func (g *gen) createPartitions() Step {
	type entry struct {
		topic    string
		count    int32
		assigned [][]int32
	}
	var list []entry
	for range oneOf(g.Rand, 1, 1, 1, 2) {
		e := entry{topic: g.topic(), count: oneOf[int32](g.Rand, 2, 3, 3, 4, 5, 1, 0, -1, 20000)}
		if g.chance(25) {
			e.assigned = oneOf(g.Rand, [][]int32{{1}}, [][]int32{{1}, {1}}, [][]int32{{2}}, [][]int32{{1, 2}}, [][]int32{{}}, [][]int32{{1, 1}})
		}
		list = append(list, e)
	}
	validate, v := g.chance(20), g.pick()
	what := fmt.Sprintf("create partitions, validate only %v: %v", validate, list)
	return Step{Text: what, Do: func(p *Play) {
		p.ask("admin", v, what, func(s *side) kmsg.Request {
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.TimeoutMillis, req.ValidateOnly = 5000, validate
			for _, e := range list {
				t := kmsg.NewCreatePartitionsRequestTopic()
				t.Topic, t.Count = s.name(e.topic), e.count
				for _, replicas := range e.assigned {
					t.Assignment = append(t.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: replicas})
				}
				req.Topics = append(req.Topics, t)
			}
			return req
		})
		for _, e := range list {
			if !strings.HasPrefix(e.topic, "=") {
				p.led(e.topic)
			}
		}
		p.settle(nil)
	}}
}

func (g *gen) metadata() Step {
	type entry struct {
		topic string
		how   string
	}
	var list []entry
	mode := oneOf(g.Rand, "some", "some", "some", "some", "some", "none", "all")
	if mode == "some" {
		for range oneOf(g.Rand, 1, 1, 2, 3) {
			list = append(list, entry{g.topic(), oneOf(g.Rand, "name", "name", "name", "name", "id", "id", "both", "neither", "old id")})
		}
	}
	create, cluster, operations := g.chance(10), g.chance(20), g.chance(30)
	v := g.pick()
	if !create {
		v = v.above(4) // before, topics are always created on demand
	}
	what := fmt.Sprintf("metadata of %s %v, create %v, operations %v %v", mode, list, create, cluster, operations)
	return Step{Text: what, Do: func(p *Play) {
		p.ask("reader", v, what, func(s *side) kmsg.Request {
			req := kmsg.NewPtrMetadataRequest()
			req.AllowAutoTopicCreation, req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = create, cluster, operations
			switch mode {
			case "none":
				req.Topics = []kmsg.MetadataRequestTopic{}
			case "all":
				req.Topics = nil
			}
			for _, e := range list {
				t := kmsg.NewMetadataRequestTopic()
				if e.how == "name" || e.how == "both" {
					t.Topic = kmsg.StringPtr(s.name(e.topic))
				}
				switch e.how {
				case "id", "both":
					t.TopicID = s.id(e.topic)
				case "old id":
					t.TopicID = s.oldID(e.topic)
				}
				req.Topics = append(req.Topics, t)
			}
			return req
		})
		if create {
			p.led(g.topics...)
			p.identify(g.topics...)
		}
	}}
}

func (g *gen) describeTopicPartitions() Step {
	var list []string
	for range 1 + g.IntN(3) {
		list = append(list, g.topic())
	}
	limit := oneOf[int32](g.Rand, 2000, 2000, 1, 2, 3, 0, -1)
	cursor, index, other := g.chance(35), g.partition(), g.chance(15)
	at := oneOf(g.Rand, list...)
	if other {
		at = g.topic()
	}
	return g.asking("reader", fmt.Sprintf("describe topic partitions of %v, limit %d, cursor %v %s/%d", list, limit, cursor, at, index), func(s *side) kmsg.Request {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = limit
		for _, t := range list {
			req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: s.name(t)})
		}
		if cursor {
			req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: s.name(at), Partition: index}
		}
		return req
	})
}

func (g *gen) electLeaders() Step {
	kind, topic, indices := oneOf[int8](g.Rand, 0, 0, 1, 1, 2, -1), g.topic(), []int32{g.partition(), 0}
	if g.chance(15) {
		indices = []int32{}
	}
	return g.asking("admin", fmt.Sprintf("elect leaders kind %d of %s %v", kind, topic, indices), func(s *side) kmsg.Request {
		req := kmsg.NewPtrElectLeadersRequest()
		req.ElectionType, req.TimeoutMillis = kind, 3000
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic, t.Partitions = s.name(topic), indices
		req.Topics = append(req.Topics, t)
		return req
	})
}

func (g *gen) reassign() Step {
	topic, index, change := g.topic(), g.partition(), g.chance(70)
	replicas := oneOf(g.Rand, []int32{1}, []int32{1}, nil, []int32{}, []int32{2}, []int32{1, 2}, []int32{1, 1}, []int32{-1})
	v := g.pick()
	what := fmt.Sprintf("reassign %s/%d to %v (null %v), factor may change %v", topic, index, replicas, replicas == nil, change)
	return Step{Text: what, Do: func(p *Play) {
		p.ask("admin", v, what, func(s *side) kmsg.Request {
			req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
			req.TimeoutMillis, req.AllowReplicationFactorChange = 3000, change
			t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
			t.Topic = s.name(topic)
			rp := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
			rp.Partition, rp.Replicas = index, replicas
			t.Partitions = append(t.Partitions, rp)
			req.Topics = append(req.Topics, t)
			return req
		})
		p.applied()
	}}
}

func (g *gen) listReassignments() Step {
	topic, indices, all := g.topic(), []int32{g.partition()}, g.chance(30)
	return g.asking("admin", fmt.Sprintf("list reassignments of %s %v, all %v", topic, indices, all), func(s *side) kmsg.Request {
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		req.TimeoutMillis = 3000
		if !all {
			t := kmsg.NewListPartitionReassignmentsRequestTopic()
			t.Topic, t.Partitions = s.name(topic), indices
			req.Topics = append(req.Topics, t)
		}
		return req
	})
}
