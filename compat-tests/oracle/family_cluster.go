package oracle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func init() {
	register(&family{
		name: "cluster", weight: 7, length: 24,
		steps: []maker{
			{6, (*gen).apiVersions},
			{6, (*gen).describeCluster},
			{5, (*gen).describeQuorum},
			{5, (*gen).updateFeatures},
			{3, (*gen).unregister},
			{8, (*gen).acls},
			{8, (*gen).telemetryGet},
			{8, (*gen).telemetryPush},
			{5, (*gen).findCoordinator},
			{10, (*gen).malformed},
			{3, (*gen).metadata},
			{2, (*gen).initProducer},
		},
	})
	register(&family{
		name: "malformed", weight: 6, length: 30,
		open:  func(g *gen) []Step { return g.createTopics([]string{}) },
		steps: []maker{{10, (*gen).malformed}, {4, (*gen).emptied}},
	})
}

// pause is a pause of milliseconds, for what a server does behind its answer.
func pause(ms int) { time.Sleep(time.Duration(ms) * time.Millisecond) }

func (g *gen) apiVersions() Step {
	name, version := oneOf(g.Rand, "lib", "a.b-c", "", "-x", "a b", "é"), oneOf(g.Rand, "1", "1.2.3", "", "-")
	cluster, node := oneOf(g.Rand, nil, nil, kmsg.StringPtr("other"), kmsg.StringPtr(""), kmsg.StringPtr("=")), oneOf[int32](g.Rand, -1, -1, 1, 7)
	return g.asking("reader", fmt.Sprintf("versions for %q %q, node %d", name, version, node), func(s *side) kmsg.Request {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion, req.ClusterID, req.NodeID = name, version, cluster, node
		if cluster != nil && *cluster == "=" {
			req.ClusterID = s.cluster // its own, once it was told
		}
		return req
	})
}

func (g *gen) describeCluster() Step {
	operations, kind, fenced := g.chance(50), oneOf[int8](g.Rand, 1, 1, 1, 2, 0, 3), g.chance(50)
	return g.asking("admin", fmt.Sprintf("describe cluster, operations %v, endpoints %d, fenced %v", operations, kind, fenced), func(s *side) kmsg.Request {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.IncludeClusterAuthorizedOperations, req.EndpointType, req.IncludeFencedBrokers = operations, kind, fenced
		return req
	})
}

func (g *gen) describeQuorum() Step {
	topic, index := oneOf(g.Rand, "=__cluster_metadata", "=__cluster_metadata", "a", "="), oneOf[int32](g.Rand, 0, 0, 0, 1, -1)
	empty := g.chance(10)
	return g.asking("admin", fmt.Sprintf("describe quorum %s/%d, of nothing %v", topic, index, empty), func(s *side) kmsg.Request {
		req := kmsg.NewPtrDescribeQuorumRequest()
		if !empty {
			req.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: s.name(topic), Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{Partition: index}}}}
		}
		return req
	})
}

// updateFeatures only tries; in version 0, where a request cannot, it asks for what is refused.
func (g *gen) updateFeatures() Step {
	type update struct {
		feature string
		level   int16
		kind    int8
	}
	var list []update
	for range oneOf(g.Rand, 1, 1, 2, 0) {
		list = append(list, update{oneOf(g.Rand, "metadata.version", "metadata.version", "kraft.version", "no.such.feature", ""), oneOf[int16](g.Rand, 0, 1, 7, 32, 33, 34, 99, -1), oneOf[int8](g.Rand, 1, 1, 2, 3, 0, 9)})
	}
	down, v := g.chance(20), g.pick().above(1)
	if g.chance(15) {
		v = g.pick().below(1)
		list = []update{{oneOf(g.Rand, "no.such.feature", "", "metadata.version"), 99, 1}, {"no.such.feature", 1, 1}}[g.IntN(2):]
	}
	return g.askingIn("admin", v, fmt.Sprintf("update features %v, down %v", list, down), func(s *side) kmsg.Request {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.TimeoutMillis, req.ValidateOnly = 3000, true
		for _, u := range list {
			req.FeatureUpdates = append(req.FeatureUpdates, kmsg.UpdateFeaturesRequestFeatureUpdate{Feature: u.feature, MaxVersionLevel: u.level, AllowDowngrade: down, UpgradeType: u.kind})
		}
		return req
	})
}

func (g *gen) unregister() Step {
	broker := oneOf[int32](g.Rand, 2, -1, 77)
	return g.asking("admin", fmt.Sprintf("unregister broker %d", broker), func(s *side) kmsg.Request {
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = broker
		return req
	})
}

// acls asks of access control, which is off.
func (g *gen) acls() Step {
	kind, pattern, operation, permission := kmsg.ACLResourceType(1+g.IntN(7)), kmsg.ACLResourcePatternType(1+g.IntN(4)), kmsg.ACLOperation(1+g.IntN(15)), kmsg.ACLPermissionType(1+g.IntN(3))
	name, principal, host := oneOf(g.Rand, kmsg.StringPtr("a"), kmsg.StringPtr("*"), kmsg.StringPtr(""), nil), oneOf(g.Rand, kmsg.StringPtr("User:u"), kmsg.StringPtr("u"), nil), oneOf(g.Rand, kmsg.StringPtr("*"), kmsg.StringPtr("10.0.0.0/8"), nil)
	ask, none := g.IntN(3), g.chance(10)
	if g.chance(5) {
		kind = 0
	}
	return g.asking("admin", fmt.Sprintf("acls, request %d, of none %v: %v %v %v %v", ask, none, kind, pattern, operation, permission), func(s *side) kmsg.Request {
		switch ask {
		case 0:
			req := kmsg.NewPtrDescribeACLsRequest()
			req.ResourceType, req.ResourcePatternType, req.Operation, req.PermissionType = kind, pattern, operation, permission
			req.ResourceName, req.Principal, req.Host = name, principal, host
			return req
		case 1:
			req := kmsg.NewPtrDeleteACLsRequest()
			if !none {
				req.Filters = append(req.Filters, kmsg.DeleteACLsRequestFilter{ResourceType: kind, ResourceName: name, ResourcePatternType: pattern, Principal: principal, Host: host, Operation: operation, PermissionType: permission})
			}
			return req
		}
		req := kmsg.NewPtrCreateACLsRequest()
		c := kmsg.CreateACLsRequestCreation{ResourceType: kind, ResourcePatternType: pattern, Operation: operation, PermissionType: permission}
		for _, f := range []struct {
			from *string
			to   *string
		}{{name, &c.ResourceName}, {principal, &c.Principal}, {host, &c.Host}} {
			if f.from != nil {
				*f.to = *f.from
			}
		}
		if !none {
			req.Creations = append(req.Creations, c)
		}
		return req
	})
}

// undisturbed is asking while nobody changes a subscription to clients' metrics.
func (g *gen) undisturbed(client, what string, build func(s *side) kmsg.Request) Step {
	step := g.asking(client, what, build)
	return Step{Text: step.Text, Do: func(p *Play) {
		defer p.subscriptions.enter(askers)()
		step.Do(p)
	}}
}

func (g *gen) telemetryGet() Step {
	client, mode := oneOf(g.Rand, "t0", "t1"), oneOf(g.Rand, "new", "its own", "its own", "made up")
	return g.undisturbed(client, "telemetry subscriptions, "+mode, func(s *side) kmsg.Request {
		req := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
		switch mode {
		case "its own":
			if t := s.telemetry[client]; t != nil {
				req.ClientInstanceID = t.instance
			}
		case "made up":
			// Reserved ids all sequences would have in common.
			h := fnv.New128a()
			h.Write([]byte(s.name(client)))
			h.Sum(req.ClientInstanceID[:0])
		}
		return req
	})
}

func (g *gen) telemetryPush() Step {
	client, mode := oneOf(g.Rand, "t0", "t1"), oneOf(g.Rand, "its own", "its own", "unknown subscription", "reserved", "zero")
	terminating, codec, size := g.chance(25), oneOf[int8](g.Rand, 0, 0, 0, 9), 0
	if g.chance(20) {
		size = 1<<20 + 1 // a byte more than is taken
	}
	return g.undisturbed(client, fmt.Sprintf("push telemetry, %s, terminating %v, codec %d, %d bytes", mode, terminating, codec, size), func(s *side) kmsg.Request {
		req := kmsg.NewPtrPushTelemetryRequest()
		req.Terminating, req.CompressionType, req.Metrics = terminating, codec, make([]byte, size)
		if t := s.telemetry[client]; t != nil {
			req.ClientInstanceID, req.SubscriptionID = t.instance, t.id
		}
		switch mode {
		case "unknown subscription":
			req.SubscriptionID++
		case "reserved":
			req.ClientInstanceID = [16]byte{15: 1}
		case "zero":
			req.ClientInstanceID = [16]byte{}
		}
		return req
	})
}

// within says that a byte belongs to a text in a request.
func within(raw []byte, text string, at int) bool {
	from := max(0, at-len(text)+1)
	return from < len(raw) && bytes.Contains(raw[from:min(len(raw), at+len(text))], []byte(text))
}

// makesTopics says that a byte is among those that say of a Metadata request whether it makes topics, which stay as they
// are: an answer says otherwise what was made.
func makesTopics(raw []byte, at int) bool {
	return kmsg.Key(binary.BigEndian.Uint16(raw)) == kmsg.Metadata && at >= len(raw)-4
}

// malformed sends a request whose bytes are spoiled: cut, longer, with lengths
// that promise more, of a version or an API that is none.
func (g *gen) malformed() Step {
	mode := oneOf(g.Rand, "cut", "cut", "cut", "longer", "a flipped byte", "a flipped byte", "a flipped byte", "a version too high", "version -1", "an unknown API", "no header", "a length in it too high")
	at, by := g.Float64(), byte(1+g.IntN(255))
	inner := oneOf(g.Rand, (*gen).metadata, (*gen).listOffsets, (*gen).describeConfigs, (*gen).describeGroups, (*gen).offsetFetch, (*gen).findCoordinator, (*gen).describeCluster, (*gen).listGroups,
		(*gen).describeTopicPartitions, (*gen).describeProducers, (*gen).listReassignments, (*gen).describeLogDirs, (*gen).apiVersions, (*gen).epochEnd)(g)
	return Step{Text: "spoiled, " + mode + ": " + inner.Text, Do: func(p *Play) {
		var flip *byte
		p.spoil = func(raw []byte) []byte {
			switch mode {
			case "cut":
				return raw[:8+int(at*float64(len(raw)-8))]
			case "longer":
				return append(raw, by, 0, 1)
			case "a flipped byte":
				i := 10 + int(at*float64(len(raw)-10))
				if makesTopics(raw, i) {
					break
				}
				if within(raw, p.kafka().prefix, i) {
					break // what is made bears this play's name: others leave it out of their lists
				}
				if i < len(raw) {
					if flip == nil {
						// Texts stay texts: Java puts U+FFFD in place of what is none. What the first
						// server gets changed the second gets, too: an id has other bytes there.
						flip = &by
						if raw[i] >= ' ' {
							small := by & 0x1f
							flip = &small
						}
					}
					raw[i] ^= *flip
				}
			case "a version too high":
				binary.BigEndian.PutUint16(raw[2:], binary.BigEndian.Uint16(raw[2:])+30)
			case "version -1":
				binary.BigEndian.PutUint16(raw[2:], 0xffff)
			case "an unknown API":
				binary.BigEndian.PutUint16(raw, 1000+uint16(by))
			case "no header":
				return raw[:3]
			case "a length in it too high":
				i := 10 + int(at*float64(len(raw)-10))
				if makesTopics(raw, i+1) {
					break
				}
				for j := i; j < i+2 && j < len(raw); j++ {
					raw[j] = 0x7f
				}
			}
			return raw
		}
		inner.Do(p)
		p.spoil = nil
	}}
}
