package frames

import "github.com/twmb/franz-go/pkg/kmsg"

func topicCases() []Case {
	return []Case{
		{API: kmsg.Metadata, Name: "by name", Run: func(s *Side) {
			s.createTopic("a", 3)
			s.createTopic("b", 1)
			ask := func(what string, names ...string) {
				req := kmsg.NewPtrMetadataRequest()
				req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = true, true
				req.Topics = []kmsg.MetadataRequestTopic{}
				for _, n := range names {
					t := kmsg.NewMetadataRequestTopic()
					t.Topic = kmsg.StringPtr(s.Topic(n))
					req.Topics = append(req.Topics, t)
				}
				s.Ask(what, req)
			}
			ask("one", "a")
			ask("two", "b", "a")
			ask("twice the same", "a", "a")
			if s.Version >= 4 {
				ask("missing", "no")
				ask("malformed", "a b")
			}
			if s.Version >= 1 {
				ask("none")
			}
		}},
		{API: kmsg.Metadata, Name: "by id", From: 10, Run: func(s *Side) {
			s.createTopic("a", 1)
			for _, id := range [][16]byte{s.topicID("a"), {1, 2, 3}, {}} {
				req := kmsg.NewPtrMetadataRequest()
				t := kmsg.NewMetadataRequestTopic()
				t.TopicID = id
				req.Topics = append(req.Topics, t)
				s.Ask("an id", req)
			}
			req := kmsg.NewPtrMetadataRequest()
			byID, byName := kmsg.NewMetadataRequestTopic(), kmsg.NewMetadataRequestTopic()
			byID.TopicID, byName.Topic = s.topicID("a"), kmsg.StringPtr(s.Topic("a"))
			req.Topics = append(req.Topics, byID, byName)
			s.Ask("an id and a name", req)
		}},
		{API: kmsg.CreateTopics, Name: "good and bad", Run: func(s *Side) {
			ask := func(what string, validate bool, topics ...kmsg.CreateTopicsRequestTopic) {
				req := kmsg.NewPtrCreateTopicsRequest()
				req.TimeoutMillis, req.ValidateOnly = 10000, validate
				req.Topics = topics
				s.Ask(what, req)
			}
			topic := func(name string, partitions int32, rf int16, configs ...string) kmsg.CreateTopicsRequestTopic {
				t := kmsg.NewCreateTopicsRequestTopic()
				t.Topic, t.NumPartitions, t.ReplicationFactor = s.Topic(name), partitions, rf
				for i := 0; i+1 < len(configs); i += 2 {
					c := kmsg.NewCreateTopicsRequestTopicConfig()
					c.Name, c.Value = configs[i], &configs[i+1]
					t.Configs = append(t.Configs, c)
				}
				return t
			}
			ask("good", false, topic("a", 2, 1))
			ask("exists", false, topic("a", 2, 1))
			ask("defaults", false, topic("b", -1, -1))
			ask("twice", false, topic("c", 1, 1), topic("c", 1, 1))
			ask("no partitions", false, topic("d", 0, 1))
			ask("replication 2", false, topic("d", 1, 2))
			ask("replication 0", false, topic("d", 1, 0))
			ask("bad name", false, topic("d e", 1, 1))
			ask("collides", false, topic("x.y", 1, 1))
			ask("collides 2", false, topic("x_y", 1, 1))
			ask("configs", false, topic("e", 1, 1, "retention.ms", "1000", "cleanup.policy", "compact"))
			ask("bad config value", false, topic("f", 1, 1, "retention.ms", "x"))
			ask("unknown config", false, topic("f", 1, 1, "no.such", "1"))
			ask("tiny segment", false, topic("f", 1, 1, "segment.bytes", "10"))
			ask("none", false)
			if s.Version >= 1 {
				ask("validate only", true, topic("g", 3, 1, "retention.ms", "5"))
				ask("still not there", true, topic("g", 3, 1))
			}
			manual := topic("h", -1, -1)
			for _, r := range [][]int32{{1}, {1}} {
				a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
				a.Partition, a.Replicas = int32(len(manual.ReplicaAssignment)), r
				manual.ReplicaAssignment = append(manual.ReplicaAssignment, a)
			}
			ask("manual", false, manual)
			manual.Topic, manual.NumPartitions = s.Topic("i"), 2
			ask("manual with a count", false, manual)
			manual.Topic, manual.NumPartitions = s.Topic("j"), -1
			manual.ReplicaAssignment[1].Partition = 5
			ask("manual with a gap", false, manual)
			manual.ReplicaAssignment[1].Partition, manual.ReplicaAssignment[1].Replicas = 1, []int32{9}
			ask("manual on a stranger", false, manual)
		}},
	}
}
