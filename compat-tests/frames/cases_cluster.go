package frames

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func clusterCases() []Case {
	return []Case{
		{API: kmsg.ApiVersions, Name: "names and ids", Run: apiVersions},
		{API: kmsg.DescribeCluster, Name: "endpoints", Run: describeCluster},
		{API: kmsg.Metadata, Name: "all", Run: metadataAll},
		{API: kmsg.Metadata, Name: "refused", From: 10, Run: metadataRefused},
		{API: kmsg.Metadata, Name: "created on demand", Run: metadataCreates},
		{API: kmsg.Metadata, Name: "not created", From: 4, Run: metadataMisses},
		{API: kmsg.CreateTopics, Name: "assignments and counts", Run: createShapes},
		{API: kmsg.CreateTopics, Name: "names", Run: createNames},
		{API: kmsg.CreateTopics, Name: "configs", From: 1, Run: createConfigs},
		{API: kmsg.DeleteTopics, Name: "by name", Below: 6, Run: deleteByName},
		{API: kmsg.DeleteTopics, Name: "by name and id", From: 6, Run: deleteByID},
		{API: kmsg.CreatePartitions, Name: "counts", Run: createPartitions},
		{API: kmsg.InitProducerID, Name: "without a transactional id", Run: initProducer},
	}
}

func apiVersions(s *Side) {
	ask := func(what string, f func(*kmsg.ApiVersionsRequest)) {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "frames", "1.0"
		f(req)
		s.AskFor(what, req, func(r kmsg.Response) {
			// What is in the tables has a test of its own.
			a := r.(*kmsg.ApiVersionsResponse)
			s.Check(what+": tables", map[string]any{"keys": len(a.ApiKeys) > 0, "supported": len(a.SupportedFeatures) > 0, "finalized": len(a.FinalizedFeatures) > 0})
		})
	}
	ask("good", func(*kmsg.ApiVersionsRequest) {})
	if s.Version >= 3 {
		for _, name := range []string{"", "a", "-a", "a-", "a.b-c", "a b", "a_b", "ä", ".", strings.Repeat("x", 300)} {
			ask(fmt.Sprintf("name %.9q", name), func(r *kmsg.ApiVersionsRequest) { r.ClientSoftwareName = name })
			ask(fmt.Sprintf("version %.9q", name), func(r *kmsg.ApiVersionsRequest) { r.ClientSoftwareVersion = name })
		}
	}
	if s.Version >= 5 {
		ask("a cluster alone", func(r *kmsg.ApiVersionsRequest) { r.ClusterID = kmsg.StringPtr("x") })
		ask("a node alone", func(r *kmsg.ApiVersionsRequest) { r.NodeID = 1 })
		ask("another cluster", func(r *kmsg.ApiVersionsRequest) { r.ClusterID, r.NodeID = kmsg.StringPtr("x"), 1 })
		m := kmsg.NewPtrDescribeClusterRequest()
		own, ok := s.Do(0, m).Response.(*kmsg.DescribeClusterResponse)
		if !ok {
			s.Fail("no cluster id")
			return
		}
		ask("another node", func(r *kmsg.ApiVersionsRequest) { r.ClusterID, r.NodeID = &own.ClusterID, 77 })
		ask("this one", func(r *kmsg.ApiVersionsRequest) { r.ClusterID, r.NodeID = &own.ClusterID, 1 })
		ask("an empty cluster", func(r *kmsg.ApiVersionsRequest) { r.ClusterID, r.NodeID = kmsg.StringPtr(""), 1 })
		ask("node -2", func(r *kmsg.ApiVersionsRequest) { r.ClusterID, r.NodeID = &own.ClusterID, -2 })
	}
}

func describeCluster(s *Side) {
	for _, operations := range []bool{false, true} {
		for _, kind := range []int8{1, 2, 0, 3, -1, 127} {
			for _, fenced := range []bool{false, true} {
				req := kmsg.NewPtrDescribeClusterRequest()
				req.IncludeClusterAuthorizedOperations, req.EndpointType, req.IncludeFencedBrokers = operations, kind, fenced
				s.Ask(fmt.Sprintf("type %d, operations %v, fenced %v", kind, operations, fenced), req)
				if s.Version < 2 {
					break
				}
			}
			if s.Version < 1 {
				break
			}
		}
	}
}

// onlyOurs takes the topics of other cases out of an answer.
func (s *Side) onlyOurs(r kmsg.Response) {
	m := r.(*kmsg.MetadataResponse)
	var kept []kmsg.MetadataResponseTopic
	for _, t := range m.Topics {
		if t.Topic != nil && (strings.HasPrefix(*t.Topic, s.Prefix) || *t.Topic == "__consumer_offsets") {
			kept = append(kept, t)
		}
	}
	m.Topics = kept
}

func metadataAll(s *Side) {
	s.createTopic("a", 2)
	s.createTopic("b", 1)
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations, req.AllowAutoTopicCreation = true, true
	s.AskFor("null", req, s.onlyOurs)
	if s.Version == 0 {
		req.Topics = []kmsg.MetadataRequestTopic{}
		s.AskFor("empty", req, s.onlyOurs)
	}
}

func (s *Side) metadataOf(topics ...kmsg.MetadataRequestTopic) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = topics
	return req
}

func named(name string) kmsg.MetadataRequestTopic {
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &name
	return t
}

func withID(id [16]byte) kmsg.MetadataRequestTopic {
	t := kmsg.NewMetadataRequestTopic()
	t.TopicID = id
	return t
}

func metadataRefused(s *Side) {
	s.createTopic("a", 1)
	s.createTopic("b", 1)
	a, b := s.id("a"), s.id("b")
	both := named(s.Topic("b"))
	both.TopicID = a
	s.Ask("an id", s.metadataOf(withID(a)))
	s.Ask("two ids", s.metadataOf(withID(b), withID(a)))
	s.Ask("an id twice", s.metadataOf(withID(a), withID(a)))
	s.Ask("a stranger", s.metadataOf(withID(stranger)))
	s.Ask("a stranger and an id", s.metadataOf(withID(stranger), withID(a)))
	s.Ask("a name and an id of another", s.metadataOf(both))
	s.Ask("an id and a name", s.metadataOf(withID(a), named(s.Topic("b"))))
	s.Ask("a name and an id", s.metadataOf(named(s.Topic("b")), withID(a)))
	s.Ask("neither", s.metadataOf(withID([16]byte{})))
	s.Ask("a name and neither", s.metadataOf(named(s.Topic("b")), withID([16]byte{})))
	s.Ask("an id and neither", s.metadataOf(withID(a), withID([16]byte{})))
	allowed := s.metadataOf(withID(stranger))
	allowed.AllowAutoTopicCreation = true
	s.Ask("a stranger that might be created", allowed)
	ops := s.metadataOf(withID(a), withID(stranger))
	ops.IncludeTopicAuthorizedOperations, ops.IncludeClusterAuthorizedOperations = true, true
	s.Ask("operations", ops)
}

func metadataMisses(s *Side) {
	s.createTopic("a.b", 1)
	for _, name := range []string{"", ".", "..", "a/b", strings.Repeat("x", 249), strings.Repeat("x", 250), "a b"} {
		req := s.metadataOf(named(name))
		req.IncludeTopicAuthorizedOperations = true
		s.Ask(fmt.Sprintf("%.12q", name), req)
	}
	s.Ask("like another", s.metadataOf(named(s.Topic("a_b"))))
	s.Ask("several", s.metadataOf(named(s.Topic("no")), named(s.Topic("a.b")), named("a b"), named(s.Topic("no"))))
}

// metadataCreates asks until the answer is there: what Kafka answers meanwhile
// is its own.
func metadataCreates(s *Side) {
	s.createTopic("c.d", 1)
	req := s.metadataOf(named(s.Topic("fresh")))
	req.AllowAutoTopicCreation = true
	for range 200 {
		if got, ok := s.Do(s.Version, req).Response.(*kmsg.MetadataResponse); ok && got.Topics[0].ErrorCode == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.Ask("created", req)
	for _, name := range []string{"a b", ".", s.Topic("c_d")} {
		req := s.metadataOf(named(name))
		req.AllowAutoTopicCreation = true
		s.Ask(fmt.Sprintf("%.12q", name), req)
	}
}

func (s *Side) creating(topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = 10000, topics
	return req
}

func newTopic(name string, partitions int32, rf int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, rf
	for i := 0; i+1 < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		t.Configs = append(t.Configs, c)
	}
	return t
}

func createShapes(s *Side) {
	manual := func(name string, partitions int32, rf int16, replicas ...[]int32) kmsg.CreateTopicsRequestTopic {
		t := newTopic(s.Topic(name), partitions, rf)
		for i, r := range replicas {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = int32(i), r
			t.ReplicaAssignment = append(t.ReplicaAssignment, a)
		}
		return t
	}
	ask := func(what string, topics ...kmsg.CreateTopicsRequestTopic) { s.Ask(what, s.creating(topics...)) }
	for _, n := range []int32{0, -2, math.MinInt32, 10001, math.MaxInt32} {
		ask(fmt.Sprintf("%d partitions", n), newTopic(s.Topic("counts"), n, 1))
	}
	for _, n := range []int16{0, -2, 2, math.MaxInt16, math.MinInt16} {
		ask(fmt.Sprintf("replication %d", n), newTopic(s.Topic("counts"), 1, n))
	}
	ask("both bad", newTopic(s.Topic("counts"), 0, 0))
	ask("too many in all", newTopic(s.Topic("m1"), 9000, 1), newTopic(s.Topic("m2"), 1001, 1))
	ask("a count and a default", newTopic(s.Topic("default1"), 2, -1), newTopic(s.Topic("default2"), -1, 1))
	ask("assigned", manual("assigned", -1, -1, []int32{1}, []int32{1}, []int32{1}))
	ask("assigned, with partitions", manual("a1", 1, -1, []int32{1}))
	ask("assigned, with replication", manual("a2", -1, 1, []int32{1}))
	ask("a broker twice", manual("a3", -1, -1, []int32{1, 1}))
	ask("no broker", manual("a4", -1, -1, []int32{}))
	ask("a stranger", manual("a5", -1, -1, []int32{2}))
	ask("one and a stranger", manual("a6", -1, -1, []int32{1, 2}))
	ask("unequal", manual("a7", -1, -1, []int32{1}, []int32{1, 2}))
	ask("a negative broker", manual("a8", -1, -1, []int32{-1}))
	twice := manual("a9", -1, -1, []int32{1}, []int32{1})
	twice.ReplicaAssignment[1].Partition = 0
	ask("a partition twice", twice)
	gap := manual("a10", -1, -1, []int32{1}, []int32{1})
	gap.ReplicaAssignment[0].Partition, gap.ReplicaAssignment[1].Partition = 1, 2
	ask("not from 0", gap)
	gap.ReplicaAssignment[0].Partition, gap.ReplicaAssignment[1].Partition = -1, 0
	ask("from -1", gap)
	swapped := manual("a11", -1, -1, []int32{1}, []int32{1})
	swapped.ReplicaAssignment[0].Partition, swapped.ReplicaAssignment[1].Partition = 1, 0
	ask("in another order", swapped)
	ask("good and bad", newTopic(s.Topic("mixed"), 1, 1), newTopic(s.Topic("mixed2"), 0, 1), newTopic("a b", 1, 1))
	ask("the same three times", newTopic(s.Topic("again"), 1, 1), newTopic(s.Topic("other"), 1, 1), newTopic(s.Topic("again"), 2, 1), newTopic(s.Topic("again"), 1, 1))
	if s.Version >= 1 {
		v := s.creating(newTopic(s.Topic("v1"), 2, 1, "retention.ms", "77"), newTopic(s.Topic("assigned"), 1, 1), newTopic(s.Topic("v2"), 0, 1), newTopic(s.Topic("v3"), 1, 1, "x", "y"))
		v.ValidateOnly = true
		s.Ask("only validated", v)
		s.AskIn(4, "not there", s.metadataOf(named(s.Topic("v1"))))
	}
}

func createNames(s *Side) {
	s.createTopic("a.b", 1)
	ask := func(what string, names ...string) {
		var list []kmsg.CreateTopicsRequestTopic
		for _, n := range names {
			list = append(list, newTopic(n, 1, 1))
		}
		s.Ask(what, s.creating(list...))
	}
	for _, name := range []string{"", ".", "..", "a/b", "a b", "ä", "a\x00", "a:b", strings.Repeat("x", 250), "__cluster_metadata"} {
		ask(fmt.Sprintf("%.12q", name), name)
	}
	ask("longest", s.Topic(strings.Repeat("y", 249-len(s.Topic("")))))
	ask("internal", "__consumer_offsets")
	ask("collides", s.Topic("a_b"))
	ask("collide with each other", s.Topic("m.n"), s.Topic("m_n"))
	ask("bad and good", s.Topic("good"), s.Topic("a_b"), "no good", s.Topic("good2"))
}

func createConfigs(s *Side) {
	n := 0
	ask := func(configs ...string) {
		n++
		req := s.creating(newTopic(s.Topic(fmt.Sprintf("c%d", n)), 1, 1, configs...))
		req.ValidateOnly = true // topics are dear to Kafka
		s.Ask(fmt.Sprintf("%.60q", configs), req)
	}
	for _, c := range [][]string{
		{"retention.ms", "-1"}, {"retention.ms", "-2"}, {"retention.ms", "1.5"}, {"retention.ms", ""}, {"retention.ms", " 5 "}, {"retention.ms", "99999999999999999999"},
		{"cleanup.policy", "compact,delete"}, {"cleanup.policy", "compact, delete"}, {"cleanup.policy", ""}, {"cleanup.policy", "shred"}, {"cleanup.policy", "compact,compact"},
		{"compression.type", "lz4"}, {"compression.type", "LZ4"}, {"compression.type", "rar"}, {"min.insync.replicas", "0"}, {"min.insync.replicas", "5"},
		{"segment.bytes", "1048576"}, {"segment.bytes", "1048575"}, {"segment.bytes", "2147483648"}, {"max.message.bytes", "-1"}, {"max.message.bytes", "0"},
		{"message.timestamp.type", "LogAppendTime"}, {"message.timestamp.type", "logappendtime"}, {"message.format.version", "3.0"}, {"message.timestamp.difference.max.ms", "5"},
		{"unclean.leader.election.enable", "TRUE"}, {"unclean.leader.election.enable", "yes"}, {"min.cleanable.dirty.ratio", "1.1"}, {"min.cleanable.dirty.ratio", "0.5"},
		{"min.compaction.lag.ms", "10", "max.compaction.lag.ms", "5"}, {"remote.storage.enable", "true"}, {"remote.storage.enable", "false"},
		{"local.retention.ms", "5", "retention.ms", "3"}, {"compression.gzip.level", "10"}, {"compression.gzip.level", "0"}, {"compression.zstd.level", "-200000"},
		{"leader.replication.throttled.replicas", "*"}, {"leader.replication.throttled.replicas", "0:1,1:2"}, {"leader.replication.throttled.replicas", "x"},
		{"retention.ms", "5", "retention.ms", "6"}, {"no.such.key", "1"}, {"", "1"}, {"index.interval.bytes", "-1"}, {"segment.ms", "0"}, {"segment.jitter.ms", "-1"},
		{"preallocate", "true"}, {"file.delete.delay.ms", "0"}, {"flush.messages", "0"}, {"delete.retention.ms", "-1"}, {"message.timestamp.after.max.ms", "-1"},
	} {
		ask(c...)
	}
	null := newTopic(s.Topic("null"), 1, 1, "retention.ms", "1")
	null.Configs[0].Value = nil
	s.Ask("a null value", s.creating(null))
	for _, ms := range []int32{0, -1} {
		odd := s.creating(newTopic(s.Topic(fmt.Sprintf("in%d", ms)), 1, 1), newTopic(s.Topic("bad"), 0, 1))
		odd.TimeoutMillis = ms
		s.Ask(fmt.Sprintf("in %d ms", ms), odd)
	}
	time.Sleep(200 * time.Millisecond)
	s.AskIn(4, "what became of it", s.metadataOf(named(s.Topic("in0"))))
	s.AskIn(4, "what became of the other", s.metadataOf(named(s.Topic("in-1"))))
}

func deleting(names ...string) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames = 5000, names
	return req
}

func deleteByName(s *Side) {
	for _, t := range []string{"a", "b", "c", "d"} {
		s.createTopic(t, 2)
	}
	s.Ask("one", deleting(s.Topic("a")))
	s.Ask("again", deleting(s.Topic("a")))
	s.Ask("unknown and malformed", deleting("a b", "", s.Topic("no"), "."))
	s.Ask("twice", deleting(s.Topic("b"), s.Topic("b")))
	s.Ask("twice, and another", deleting(s.Topic("b"), s.Topic("c"), s.Topic("b")))
	s.Ask("two", deleting(s.Topic("b"), s.Topic("d")))
	s.Ask("none", deleting())
	s.createTopic("a", 1)
	s.Ask("made anew", deleting(s.Topic("a")))
	s.createTopic("e", 1)
	for _, ms := range []int32{0, -1} {
		odd := deleting(s.Topic("no"), s.Topic("e"))
		odd.TimeoutMillis = ms
		s.Ask(fmt.Sprintf("in %d ms", ms), odd)
	}
	time.Sleep(200 * time.Millisecond)
	s.AskIn(4, "what is left", s.metadataOf(named(s.Topic("e"))))
}

func deleteByID(s *Side) {
	for _, t := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		s.createTopic(t, 1)
	}
	ids := map[string][16]byte{}
	for _, t := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		ids[t] = s.id(t)
	}
	type entry struct {
		name string // "" null
		id   [16]byte
	}
	ask := func(what string, entries ...entry) {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis = 5000
		for _, e := range entries {
			t := kmsg.NewDeleteTopicsRequestTopic()
			if t.TopicID = e.id; e.name != "" {
				t.Topic = kmsg.StringPtr(s.Topic(e.name))
			}
			req.Topics = append(req.Topics, t)
		}
		s.Ask(what, req)
	}
	ask("a name", entry{name: "a"})
	ask("it again", entry{name: "a"})
	ask("its id", entry{id: ids["a"]})
	ask("an id", entry{id: ids["b"]})
	ask("it again by name", entry{name: "b"})
	ask("both", entry{name: "c", id: ids["c"]})
	ask("a name and a stranger's id", entry{name: "c", id: stranger})
	ask("neither", entry{})
	ask("a stranger", entry{id: stranger})
	ask("a stranger twice", entry{id: stranger}, entry{id: stranger})
	ask("an id twice", entry{id: ids["c"]}, entry{id: ids["c"]})
	ask("a name twice", entry{name: "d"}, entry{name: "d"})
	ask("a name twice and its id", entry{name: "d"}, entry{name: "d"}, entry{id: ids["d"]})
	ask("a name, and its id", entry{name: "e"}, entry{id: ids["e"]})
	ask("several", entry{name: "f"}, entry{id: ids["g"]}, entry{name: "no"}, entry{id: stranger})
	ask("none")
}

func createPartitions(s *Side) {
	s.createTopic("a", 2)
	s.createTopic("b", 1)
	growing := func(name string, count int32, assignment ...[]int32) kmsg.CreatePartitionsRequestTopic {
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = s.Topic(name), count
		for _, r := range assignment {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = r
			t.Assignment = append(t.Assignment, a)
		}
		return t
	}
	ask := func(what string, validate bool, topics ...kmsg.CreatePartitionsRequestTopic) {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.TimeoutMillis, req.ValidateOnly, req.Topics = 5000, validate, topics
		s.Ask(what, req)
	}
	ask("only validated", true, growing("a", 5))
	for _, n := range []int32{2, 1, 0, -1, math.MinInt32, 10003, math.MaxInt32} {
		ask(fmt.Sprintf("to %d", n), false, growing("a", n))
		ask(fmt.Sprintf("to %d, only validated", n), true, growing("a", n))
	}
	ask("to 3", false, growing("a", 3))
	ask("to 3 again", false, growing("a", 3))
	ask("unknown", false, growing("no", 3))
	ask("unknown, bad count", false, growing("no", -3))
	ask("twice", false, growing("a", 4), growing("a", 4))
	ask("twice, and another", false, growing("a", 4), growing("b", 2), growing("a", 5))
	ask("assigned", false, growing("a", 5, []int32{1}, []int32{1}))
	ask("assigned too few", false, growing("a", 7, []int32{1}))
	ask("assigned too many", false, growing("a", 6, []int32{1}, []int32{1}))
	ask("assigned none", false, growing("a", 6, []int32{}))
	ask("a broker twice", false, growing("a", 6, []int32{1, 1}))
	ask("a stranger", false, growing("a", 6, []int32{3}))
	ask("two replicas", false, growing("a", 6, []int32{1, 3}))
	ask("good and bad", false, growing("a", 6), growing("no", 2), growing("b", 1))
	ask("none", false)
	for _, ms := range []int32{0, -1} {
		odd := kmsg.NewPtrCreatePartitionsRequest()
		odd.TimeoutMillis, odd.Topics = ms, []kmsg.CreatePartitionsRequestTopic{growing("b", 3+ms), growing("no", 2)}
		s.Ask(fmt.Sprintf("in %d ms", ms), odd)
	}
	for range 250 { // Kafka answers before its brokers know
		m, ok := s.Do(9, s.metadataOf(named(s.Topic("a")), named(s.Topic("b")))).Response.(*kmsg.MetadataResponse)
		if ok && len(m.Topics[0].Partitions)+len(m.Topics[1].Partitions) == 8 {
			break
		}
		pause(20)
	}
	s.AskIn(9, "what there is", s.metadataOf(named(s.Topic("a")), named(s.Topic("b"))))
}

func initProducer(s *Side) {
	ask := func(what string, f func(*kmsg.InitProducerIDRequest)) {
		req := kmsg.NewPtrInitProducerIDRequest()
		f(req)
		s.Ask(what, req)
	}
	ask("good", func(*kmsg.InitProducerIDRequest) {})
	ask("another", func(*kmsg.InitProducerIDRequest) {})
	for _, t := range []int32{0, -1, math.MaxInt32} {
		ask(fmt.Sprintf("time-out %d", t), func(r *kmsg.InitProducerIDRequest) { r.TransactionTimeoutMillis = t })
	}
	ask("empty transactional id", func(r *kmsg.InitProducerIDRequest) { r.TransactionalID = kmsg.StringPtr("") })
	if s.Version >= 3 {
		ask("an id alone", func(r *kmsg.InitProducerIDRequest) { r.ProducerID = 5 })
		ask("an epoch alone", func(r *kmsg.InitProducerIDRequest) { r.ProducerEpoch = 5 })
		ask("both", func(r *kmsg.InitProducerIDRequest) { r.ProducerID, r.ProducerEpoch = 5, 5 })
		ask("both negative", func(r *kmsg.InitProducerIDRequest) { r.ProducerID, r.ProducerEpoch = -5, -5 })
		ask("empty and an id alone", func(r *kmsg.InitProducerIDRequest) { r.TransactionalID, r.ProducerID = kmsg.StringPtr(""), 5 })
	}
}
