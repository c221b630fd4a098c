package frames

import (
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cases of the APIs that are about the cluster itself: quorum, elections,
// reassignments, feature levels, registrations, and ACLs where there is no
// authorizer.
func quorumCases() []Case {
	return []Case{
		{API: kmsg.DescribeQuorum, Name: "partitions", Run: describeQuorum},
		{API: kmsg.ElectLeaders, Name: "elections", Run: electLeaders},
		{API: kmsg.AlterPartitionAssignments, Name: "on one broker", Run: alterReassignments},
		{API: kmsg.ListPartitionReassignments, Name: "on one broker", Run: listReassignments},
		{API: kmsg.UpdateFeatures, Name: "levels", Run: updateFeatures},
		{API: kmsg.UnregisterBroker, Name: "strangers", Run: unregisterStrangers},
		{API: kmsg.DescribeACLs, Name: "without an authorizer", Run: describeACLs},
		{API: kmsg.CreateACLs, Name: "without an authorizer", Run: createACLs},
		{API: kmsg.DeleteACLs, Name: "without an authorizer", Run: deleteACLs},
		{API: kmsg.IncrementalAlterConfigs, Name: "whole topics", Controller: true, Run: changeTopics},
		{API: kmsg.AlterConfigs, Name: "whole topics", Controller: true, Run: replaceWhole},
		{API: kmsg.ApiVersions, Name: "keys of the other listener", From: 5, Controller: true, Run: keysOfBrokers},
	}
}

// onBoth are the APIs that are served on both kinds of listener: each of their
// cases is asked on both.
var onBoth = map[kmsg.Key]bool{
	kmsg.ApiVersions: true, kmsg.CreateTopics: true, kmsg.DeleteTopics: true, kmsg.CreatePartitions: true, kmsg.DescribeConfigs: true,
	kmsg.AlterConfigs: true, kmsg.IncrementalAlterConfigs: true, kmsg.DescribeCluster: true, kmsg.DescribeQuorum: true, kmsg.ElectLeaders: true,
	kmsg.AlterPartitionAssignments: true, kmsg.ListPartitionReassignments: true, kmsg.UpdateFeatures: true, kmsg.UnregisterBroker: true,
	kmsg.DescribeACLs: true, kmsg.CreateACLs: true, kmsg.DeleteACLs: true,
}

// changesConfigs are the APIs whose cases about the broker's own configs are not
// asked on the controller listener: Kafka stores there what its broker listener
// refuses (a node.id, a listener that is none) and stumbles over it at the next
// start. Here both listeners refuse the same. And what is sent of topics without
// values makes Kafka's active controller resign, so that whoever asks beside it is
// told NOT_CONTROLLER: it is asked what is whole (changeTopics).
var changesConfigs = map[kmsg.Key]bool{kmsg.AlterConfigs: true, kmsg.IncrementalAlterConfigs: true}

// onController is what such a case is called more.
const onController = " on the controller"

// alsoOnController gives the cases, and for each of an API that is served on
// both listeners another one that asks the controller's.
func alsoOnController(cases []Case) []Case {
	all := cases
	for _, c := range cases {
		if onBoth[c.API] && !c.Controller && c.Name != "keys nobody has" && !((c.Alone || c.Name == "topics") && changesConfigs[c.API]) {
			c.Controller, c.Name = true, c.Name+onController
			all = append(all, c)
		}
	}
	return all
}

// changeTopics changes topics' configs with nothing left out.
func changeTopics(s *Side) {
	s.createTopic("a", 1)
	a := s.Topic("a")
	for _, validate := range []bool{true, false} {
		ask := func(what string, resources ...kmsg.IncrementalAlterConfigsRequestResource) {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			req.ValidateOnly, req.Resources = validate, resources
			s.Ask(fmt.Sprintf("%s, only validated: %v", what, validate), req)
		}
		ask("one", changing(ofTopic, a, "retention.ms=1000"))
		ask("two", changing(ofTopic, a, "retention.ms=2000", "cleanup.policy=compact"))
		ask("a bad value", changing(ofTopic, a, "retention.ms=x"))
		ask("a bad one beside a good one", changing(ofTopic, a, "flush.ms=5", "retention.ms=x"))
		ask("a key nobody has", changing(ofTopic, a, "no.such=1"))
		ask("a topic there is not", changing(ofTopic, s.Topic("no"), "retention.ms=1"))
		ask("none")
	}
	s.told(a)
}

// replaceWhole is changeTopics for the older API.
func replaceWhole(s *Side) {
	s.createTopic("a", 1)
	a := s.Topic("a")
	for _, validate := range []bool{true, false} {
		ask := func(what, topic string, pairs ...string) {
			req := kmsg.NewPtrAlterConfigsRequest()
			r := kmsg.NewAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = ofTopic, topic
			for _, pair := range pairs {
				key, value, _ := strings.Cut(pair, "=")
				c := kmsg.NewAlterConfigsRequestResourceConfig()
				c.Name, c.Value = key, &value
				r.Configs = append(r.Configs, c)
			}
			req.ValidateOnly, req.Resources = validate, []kmsg.AlterConfigsRequestResource{r}
			s.Ask(fmt.Sprintf("%s, only validated: %v", what, validate), req)
		}
		ask("two", a, "retention.ms=2000", "cleanup.policy=compact")
		ask("one in their place", a, "retention.ms=1000")
		ask("a bad value", a, "retention.ms=x")
		ask("a key nobody has", a, "no.such=1")
		ask("a topic there is not", s.Topic("no"), "retention.ms=1")
	}
	s.told(a)
}

// told records what a broker says of a topic's own configs, once it knows them.
func (s *Side) told(topic string) {
	pause(500)
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: ofTopic, ResourceName: topic, ConfigNames: []string{"retention.ms", "cleanup.policy", "flush.ms"}}}
	s.AskIn(4, "what there is", req)
}

// keysOfBrokers asks a controller for what only brokers answer.
func keysOfBrokers(s *Side) {
	me := "x"
	for _, key := range []int16{-1, 0, 2, 3, 7, 8, 9, 10, 11, 12, 16, 21, 22, 23, 24, 27, 34, 35, 42, 47, 48, 61, 65, 66, 68, 71, 72, 74, 75, 76, 83, 88, 95, 127, 1000} {
		for _, version := range []int16{0, 1, 2, 3} {
			for _, tags := range [][]byte{nil, {0}} {
				s.Bytes(fmt.Sprintf("key %d, version %d, %d tag bytes", key, version, len(tags)), append(header(key, version, &me, tags), make([]byte, 40)...), nil)
			}
		}
	}
}

func describeQuorum(s *Side) {
	topic := func(name string, partitions ...int32) kmsg.DescribeQuorumRequestTopic {
		t := kmsg.DescribeQuorumRequestTopic{Topic: name}
		for _, p := range partitions {
			t.Partitions = append(t.Partitions, kmsg.DescribeQuorumRequestTopicPartition{Partition: p})
		}
		return t
	}
	ask := func(what string, topics ...kmsg.DescribeQuorumRequestTopic) {
		req := kmsg.NewPtrDescribeQuorumRequest()
		req.Topics = topics
		s.AskFor(what, req, func(r kmsg.Response) {
			var known []bool
			for _, t := range r.(*kmsg.DescribeQuorumResponse).Topics {
				for i := range t.Partitions {
					p := &t.Partitions[i]
					known = append(known, p.LeaderEpoch > 0, p.HighWatermark > 0)
					for j := range p.CurrentVoters {
						v := &p.CurrentVoters[j]
						known = append(known, v.LogEndOffset >= p.HighWatermark, v.LastFetchTimestamp > 0, v.LastFetchTimestamp == v.LastCaughtUpTimestamp)
						v.LogEndOffset, v.LastFetchTimestamp, v.LastCaughtUpTimestamp = 0, 0, 0
					}
					p.LeaderEpoch, p.HighWatermark = 0, 0
				}
			}
			s.Check(what+": offsets and times", known)
		})
	}
	const metadata = "__cluster_metadata"
	ask("the partition there is", topic(metadata, 0))
	ask("nothing")
	ask("no partition", topic(metadata))
	ask("a topic twice", topic(metadata, 0), topic(metadata, 0))
	for _, i := range []int32{1, -1, math.MaxInt32} {
		ask(fmt.Sprintf("partition %d", i), topic(metadata, i))
	}
	ask("the same twice", topic(metadata, 0, 0))
	ask("another too", topic(metadata, 0, 1))
	for _, name := range []string{"", "x", "__consumer_offsets", metadata + "x", strings.ToUpper(metadata)} {
		ask(fmt.Sprintf("topic %q", name), topic(name, 0))
		ask(fmt.Sprintf("topic %q too", name), topic(metadata, 0), topic(name, 0, 2))
	}
}

func electLeaders(s *Side) {
	s.createTopic("a", 2)
	s.createTopic("b", 1)
	topic := func(name string, partitions ...int32) kmsg.ElectLeadersRequestTopic {
		return kmsg.ElectLeadersRequestTopic{Topic: name, Partitions: partitions}
	}
	a, b := s.Topic("a"), s.Topic("b")
	kinds := []int8{0, 1, 2, -1, math.MaxInt8}
	if s.Version == 0 {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		for _, ms := range []int32{5000, 0, -1} {
			ask := func(what string, topics ...kmsg.ElectLeadersRequestTopic) {
				req := kmsg.NewPtrElectLeadersRequest()
				req.ElectionType, req.TimeoutMillis, req.Topics = kind, ms, topics
				s.AskFor(fmt.Sprintf("%s, election %d, %d ms", what, kind, ms), req, func(r kmsg.Response) {
					resp := r.(*kmsg.ElectLeadersResponse)
					if topics != nil {
						return
					}
					var kept []kmsg.ElectLeadersResponseTopic
					for _, t := range resp.Topics {
						if strings.HasPrefix(t.Topic, s.Prefix) {
							kept = append(kept, t)
						}
					}
					resp.Topics = kept
				})
			}
			ask("all")
			ask("none", []kmsg.ElectLeadersRequestTopic{}...)
			ask("one", topic(a, 0))
			ask("two topics", topic(b, 0), topic(a, 1, 0))
			ask("partitions there are not", topic(a, 0, 2, -1, 1, math.MaxInt32))
			ask("topics there are not", topic(s.Topic("no"), 0, 1), topic(a, 0), topic("", 0))
			ask("a partition twice", topic(a, 1, 1, 0))
			ask("a topic twice", topic(a, 1), topic(a, 1, 0))
			ask("no partitions", topic(a), topic(s.Topic("no")))
		}
	}
	req := kmsg.NewPtrElectLeadersRequest()
	req.TimeoutMillis, req.Topics = 5000, []kmsg.ElectLeadersRequestTopic{}
	s.Ask("an empty list", req)
	s.AskIn(9, "what there is", s.metadataOf(named(a), named(b)))
}

func alterReassignments(s *Side) {
	s.createTopic("a", 2)
	s.createTopic("b", 1)
	a, b := s.Topic("a"), s.Topic("b")
	type part = kmsg.AlterPartitionAssignmentsRequestTopicPartition
	on := func(i int32, replicas ...int32) part {
		return part{Partition: i, Replicas: append([]int32{}, replicas...)}
	}
	cancel := func(i int32) part { return part{Partition: i} }
	topic := func(name string, parts ...part) kmsg.AlterPartitionAssignmentsRequestTopic {
		return kmsg.AlterPartitionAssignmentsRequestTopic{Topic: name, Partitions: parts}
	}
	for _, change := range []bool{true, false} {
		ask := func(what string, ms int32, topics ...kmsg.AlterPartitionAssignmentsRequestTopic) {
			req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
			req.TimeoutMillis, req.AllowReplicationFactorChange, req.Topics = ms, change, topics
			s.Ask(fmt.Sprintf("%s, the factor may change: %v", what, change), req)
		}
		ask("nothing", 5000)
		ask("nothing in no time", 0)
		ask("where it is", 5000, topic(a, on(0, 1)))
		ask("where all are", 5000, topic(a, on(1, 1), on(0, 1)), topic(b, on(0, 1)))
		ask("cancelled", 5000, topic(a, cancel(0)))
		ask("one cancelled, one not", 5000, topic(a, cancel(0), on(1, 1)))
		ask("nowhere", 5000, topic(a, on(0)))
		ask("twice on a broker", 5000, topic(a, on(0, 1, 1)))
		ask("on a stranger", 5000, topic(a, on(0, 2)))
		ask("on a stranger too", 5000, topic(a, on(0, 1, 2)))
		ask("on a negative one", 5000, topic(a, on(0, -1)))
		ask("on a stranger twice", 5000, topic(a, on(0, 7, 7)))
		ask("a partition there is not", 5000, topic(a, on(9, 1), cancel(9), on(-1, 1), on(9, 5, 5)))
		ask("a topic there is not", 5000, topic(s.Topic("no"), on(0, 1), cancel(1)), topic("", on(0, 1)))
		ask("no partitions", 5000, topic(a), topic(s.Topic("no")))
		ask("a partition twice", 5000, topic(a, on(0, 1), on(0, 1), cancel(0), on(0)))
		ask("a topic twice", 5000, topic(a, on(0, 1)), topic(a, on(0, 1)))
		for _, ms := range []int32{0, -1} {
			ask(fmt.Sprintf("in %d ms", ms), ms, topic(a, on(0, 1), on(5)), topic(s.Topic("no"), cancel(0)))
		}
		if s.Version == 0 {
			break
		}
	}
	s.AskIn(9, "what there is", s.metadataOf(named(a), named(b)))
}

func listReassignments(s *Side) {
	s.createTopic("a", 2)
	topic := func(name string, partitions ...int32) kmsg.ListPartitionReassignmentsRequestTopic {
		return kmsg.ListPartitionReassignmentsRequestTopic{Topic: name, Partitions: partitions}
	}
	for _, ms := range []int32{5000, 0, -1} {
		ask := func(what string, topics []kmsg.ListPartitionReassignmentsRequestTopic) {
			req := kmsg.NewPtrListPartitionReassignmentsRequest()
			req.TimeoutMillis, req.Topics = ms, topics
			s.Ask(fmt.Sprintf("%s in %d ms", what, ms), req)
		}
		ask("all", nil)
		ask("none", []kmsg.ListPartitionReassignmentsRequestTopic{})
		ask("one", []kmsg.ListPartitionReassignmentsRequestTopic{topic(s.Topic("a"), 0)})
		ask("some there are not", []kmsg.ListPartitionReassignmentsRequestTopic{topic(s.Topic("a"), 0, 9, -1), topic(s.Topic("no"), 0), topic("")})
	}
}

func updateFeatures(s *Side) {
	type update = kmsg.UpdateFeaturesRequestFeatureUpdate
	to := func(name string, level int16, how int8) update {
		return update{Feature: name, MaxVersionLevel: level, UpgradeType: how}
	}
	const metadata = "metadata.version"
	for _, validate := range []bool{true, false} {
		ask := func(what string, ms int32, updates ...update) {
			req := kmsg.NewPtrUpdateFeaturesRequest()
			req.TimeoutMillis, req.ValidateOnly, req.FeatureUpdates = ms, validate, updates
			s.Ask(fmt.Sprintf("%s, only validated: %v", what, validate), req)
		}
		ask("nothing", 5000)
		for _, ms := range []int32{5000, 0, -1} {
			ask(fmt.Sprintf("where it is, in %d ms", ms), ms, to(metadata, 33, 1))
			ask(fmt.Sprintf("where there is nothing, in %d ms", ms), ms, to(metadata, 34, 1))
		}
		for _, how := range []int8{0, 1, 2, 3, 4, -1} {
			for _, level := range []int16{34, 33, 32, 31, 7, 6, 1, 0, -1, math.MaxInt16, math.MinInt16} {
				ask(fmt.Sprintf("metadata to %d by %d", level, how), 5000, to(metadata, level, how))
			}
			for _, name := range []string{"nope", "", "Metadata.Version", strings.Repeat("x", 300)} {
				ask(fmt.Sprintf("%.9q to 1 by %d", name, how), 5000, to(name, 1, how))
				ask(fmt.Sprintf("%.9q to 0 by %d", name, how), 5000, to(name, 0, how))
			}
			ask(fmt.Sprintf("kraft.version to 0 by %d", how), 5000, to("kraft.version", 0, how))
			ask(fmt.Sprintf("kraft.version to 2 by %d", how), 5000, to("kraft.version", 2, how))
		}
		ask("good and bad", 5000, to(metadata, 33, 1), to("nope", 1, 1))
		ask("bad and good", 5000, to("nope", 1, 1), to(metadata, 33, 1))
		ask("two bad", 5000, to("nope", 1, 1), to(metadata, 40, 1))
		ask("two good", 5000, to("kraft.version", 0, 1), to(metadata, 33, 1))
		ask("one twice", 5000, to(metadata, 33, 1), to(metadata, 33, 1))
		ask("one twice, the last bad", 5000, to(metadata, 33, 1), to(metadata, 99, 1))
		ask("one twice, the first bad", 5000, to(metadata, 99, 1), to(metadata, 33, 1))
		if s.Version == 0 {
			req := kmsg.NewPtrUpdateFeaturesRequest()
			req.TimeoutMillis, req.FeatureUpdates = 5000, []update{{Feature: metadata, MaxVersionLevel: 32, AllowDowngrade: true}}
			s.Ask("a downgrade that is allowed", req)
			break
		}
	}
}

func unregisterStrangers(s *Side) {
	for _, id := range []int32{2, 0, -1, math.MaxInt32, math.MinInt32} {
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = id
		s.Ask(fmt.Sprintf("broker %d", id), req)
	}
}

// acl is what the three ACL APIs have in common, by Kafka's codes.
type acl struct {
	kind, pattern, operation, permission int8
}

var acls = []acl{
	{2, 3, 3, 3}, {1, 1, 1, 1}, {2, 4, 2, 2}, {4, 3, 12, 3}, {7, 3, 13, 3}, {2, 2, 3, 3}, {5, 3, 15, 3}, // good
	{0, 3, 3, 3}, {2, 0, 3, 3}, {2, 3, 0, 3}, {2, 3, 3, 0}, // UNKNOWN
	{99, 3, 3, 3}, {2, 99, 3, 3}, {2, 3, 99, 3}, {2, 3, 3, 99}, {-1, 3, 3, 3}, // what nobody knows
}

func describeACLs(s *Side) {
	for _, x := range acls {
		for _, name := range []*string{nil, kmsg.StringPtr(""), kmsg.StringPtr("x")} {
			req := kmsg.NewPtrDescribeACLsRequest()
			req.ResourceType, req.ResourceName, req.ResourcePatternType = kmsg.ACLResourceType(x.kind), name, kmsg.ACLResourcePatternType(x.pattern)
			req.Operation, req.PermissionType = kmsg.ACLOperation(x.operation), kmsg.ACLPermissionType(x.permission)
			s.Ask(fmt.Sprintf("%v of %v", x, name != nil), req)
		}
	}
}

func createACLs(s *Side) {
	creation := func(x acl, name, principal, host string) kmsg.CreateACLsRequestCreation {
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType, c.ResourceName, c.ResourcePatternType = kmsg.ACLResourceType(x.kind), name, kmsg.ACLResourcePatternType(x.pattern)
		c.Operation, c.PermissionType, c.Principal, c.Host = kmsg.ACLOperation(x.operation), kmsg.ACLPermissionType(x.permission), principal, host
		return c
	}
	ask := func(what string, creations ...kmsg.CreateACLsRequestCreation) {
		req := kmsg.NewPtrCreateACLsRequest()
		req.Creations = creations
		s.Ask(what, req)
	}
	ask("none")
	for _, x := range acls {
		ask(fmt.Sprintf("%v", x), creation(x, "x", "User:a", "*"))
	}
	ask("without words", creation(acls[0], "", "", ""))
	ask("a bad principal and a good one", creation(acls[0], "x", "a", "*"), creation(acls[0], "x", "User:a", "not a host"))
	ask("one twice", creation(acls[0], "x", "User:a", "*"), creation(acls[0], "x", "User:a", "*"))
	ask("good and unknown", creation(acls[0], "x", "User:a", "*"), creation(acls[7], "x", "User:a", "*"))
}

func deleteACLs(s *Side) {
	filter := func(x acl) kmsg.DeleteACLsRequestFilter {
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourcePatternType = kmsg.ACLResourceType(x.kind), kmsg.ACLResourcePatternType(x.pattern)
		f.Operation, f.PermissionType = kmsg.ACLOperation(x.operation), kmsg.ACLPermissionType(x.permission)
		return f
	}
	ask := func(what string, filters ...kmsg.DeleteACLsRequestFilter) {
		req := kmsg.NewPtrDeleteACLsRequest()
		req.Filters = filters
		s.Ask(what, req)
	}
	ask("none")
	for _, x := range acls {
		ask(fmt.Sprintf("%v", x), filter(x))
	}
	ask("several", filter(acls[0]), filter(acls[1]), filter(acls[0]))
	ask("good and unknown", filter(acls[0]), filter(acls[7]))
}
