package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
	"millrace/controller/image"
)

// Metadata (3), versions 0-13. KIP-4, KIP-103 (listeners), KIP-430 (authorized
// operations), KIP-516 (topic ids, by which a topic can be asked from v12),
// KIP-1102 (top-level error, v13).
//
// A missing topic is created where auto.create.topics.enable and the request
// allow it, and is there when the answer says so; Kafka answers
// UNKNOWN_TOPIC_OR_PARTITION while creation is under way, which its clients
// then ask again.

func (b *Broker) metadata(c *call, req *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	resp.AuthorizedOperations = auth.NotAsked
	resp.ControllerID = -1

	all := req.Topics == nil || (c.Version == 0 && len(req.Topics) == 0)
	if !all && refusesMetadata(c.Version, req) {
		for _, t := range req.Topics {
			mt := kmsg.NewMetadataResponseTopic()
			mt.Topic, mt.TopicID = t.Topic, t.TopicID
			mt.AuthorizedOperations = auth.NotAsked
			mt.ErrorCode = kerr.InvalidRequest.Code
			if c.Version >= 12 {
				// Kafka fails on this one, and so do its words.
				mt.ErrorCode, resp.ErrorCode = kerr.UnknownServerError.Code, kerr.UnknownServerError.Code
			}
			if mt.Topic == nil {
				mt.Topic = kmsg.StringPtr("")
			}
			resp.Topics = append(resp.Topics, mt)
		}
		return resp
	}

	var missing []string
	byID := false
	for _, t := range req.Topics {
		byID = byID || t.TopicID != [16]byte{}
	}
	var unresolved []kmsg.MetadataResponseTopic
	var found []*image.Topic
	seen := map[string]bool{}
	switch {
	case all:
		for t := range c.image.Topics() {
			if c.allowed(auth.Describe, auth.Topic, t.Name) {
				found = append(found, t)
			}
		}
	case byID:
		ids := map[[16]byte]bool{}
		for _, rt := range req.Topics {
			if rt.TopicID == ([16]byte{}) || ids[rt.TopicID] {
				continue
			}
			ids[rt.TopicID] = true
			t := c.image.TopicByID(rt.TopicID)
			switch {
			case t == nil:
				unresolved = append(unresolved, refusedTopic(nil, rt.TopicID, kerr.UnknownTopicID.Code))
			case !c.allowed(auth.Describe, auth.Topic, t.Name):
				unresolved = append(unresolved, refusedTopic(nil, rt.TopicID, kerr.TopicAuthorizationFailed.Code))
			default:
				found = append(found, t)
			}
		}
	default:
		for _, rt := range req.Topics {
			name := *rt.Topic
			if seen[name] {
				continue
			}
			seen[name] = true
			switch t := c.image.TopicByName(name); {
			case !c.allowed(auth.Describe, auth.Topic, name):
				unresolved = append(unresolved, refusedTopic(&name, [16]byte{}, kerr.TopicAuthorizationFailed.Code))
			case t != nil:
				found = append(found, t)
			case b.autoCreates(c, req):
				if !c.allowed(auth.Create, auth.Cluster, auth.ClusterName) && !c.allowed(auth.Create, auth.Topic, name) {
					unresolved = append(unresolved, refusedTopic(&name, [16]byte{}, kerr.TopicAuthorizationFailed.Code))
				} else {
					missing = append(missing, name)
				}
			case !validTopicName(name):
				unresolved = append(unresolved, refusedTopic(&name, [16]byte{}, kerr.InvalidTopicException.Code))
			default:
				unresolved = append(unresolved, refusedTopic(&name, [16]byte{}, kerr.UnknownTopicOrPartition.Code))
			}
		}
	}
	if len(missing) > 0 {
		errs := b.autoCreate(c, missing)
		c.image = b.applied()
		for i, name := range missing {
			if t := c.image.TopicByName(name); t != nil {
				found = append(found, t)
			} else {
				unresolved = append(unresolved, refusedTopic(&missing[i], [16]byte{}, errs[i]))
			}
		}
	}

	for br := range c.image.Brokers() {
		if br.Fenced || br.InControlledShutdown {
			continue
		}
		e, ok := b.endpointFor(c.Conn, br)
		if !ok {
			continue
		}
		mb := kmsg.NewMetadataResponseBroker()
		mb.NodeID, mb.Host, mb.Port, mb.Rack = br.ID, e.host, e.port, br.Rack
		resp.Brokers = append(resp.Brokers, mb)
		if resp.ControllerID == -1 {
			// Any live broker forwards to the controller (KIP-590).
			resp.ControllerID = br.ID
		}
	}
	clusterID := c.image.ClusterID()
	resp.ClusterID = &clusterID
	if c.Version >= 8 && c.Version <= 10 && req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = 0
		if c.allowed(auth.Describe, auth.Cluster, auth.ClusterName) {
			resp.AuthorizedOperations = c.operations(auth.Cluster, auth.ClusterName)
		}
	}
	resp.Topics = slices.Grow(resp.Topics, len(found)+len(unresolved))
	for _, t := range found {
		resp.Topics = append(resp.Topics, b.metadataTopic(c, t))
	}
	resp.Topics = append(resp.Topics, unresolved...)
	if c.Version >= 8 && req.IncludeTopicAuthorizedOperations {
		for i := range resp.Topics {
			if t := &resp.Topics[i]; t.Topic != nil && t.ErrorCode != kerr.TopicAuthorizationFailed.Code {
				t.AuthorizedOperations = c.operations(auth.Topic, *t.Topic)
			}
		}
	}
	return resp
}

// refusesMetadata says whether the request asks in a way that Kafka refuses
// for every topic it lists: by id before v12, or by neither name nor id. Beside
// an id from v12 on whatever has none is passed over.
func refusesMetadata(version int16, req *kmsg.MetadataRequest) bool {
	ids, nameless := false, false
	for _, t := range req.Topics {
		ids = ids || t.TopicID != [16]byte{}
		nameless = nameless || t.Topic == nil
	}
	if version < 12 {
		return ids || nameless
	}
	return nameless && !ids
}

func refusedTopic(name *string, id [16]byte, code int16) kmsg.MetadataResponseTopic {
	mt := kmsg.NewMetadataResponseTopic()
	mt.Topic, mt.TopicID, mt.ErrorCode = name, id, code
	mt.AuthorizedOperations = auth.NotAsked
	if name != nil {
		mt.IsInternal = isInternal(*name)
	}
	return mt
}

func (b *Broker) metadataTopic(c *call, t *image.Topic) kmsg.MetadataResponseTopic {
	mt := kmsg.NewMetadataResponseTopic()
	mt.Topic, mt.TopicID, mt.IsInternal = &t.Name, t.ID, isInternal(t.Name)
	mt.AuthorizedOperations = auth.NotAsked
	mt.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i, p := range t.Partitions {
		mp := &mt.Partitions[i]
		*mp = kmsg.NewMetadataResponseTopicPartition()
		mp.Partition, mp.Leader, mp.LeaderEpoch = p.Index, p.Leader, p.LeaderEpoch
		mp.Replicas, mp.ISR = p.Replicas, p.ISR
		for _, r := range p.Replicas {
			if !b.reachable(c, p, r) {
				mp.OfflineReplicas = append(mp.OfflineReplicas, r)
			}
		}
		if c.Version == 0 && len(mp.OfflineReplicas) > 0 {
			// v0 clients expect only live replicas and a 9 (ReplicaNotAvailable).
			mp.Replicas = without(p.Replicas, mp.OfflineReplicas)
			mp.ISR = without(p.ISR, mp.OfflineReplicas)
			mp.ErrorCode = kerr.ReplicaNotAvailable.Code
		}
		if leader := c.image.Broker(p.Leader); p.Leader < 0 || leader == nil || leader.Fenced {
			mp.ErrorCode, mp.Leader = kerr.LeaderNotAvailable.Code, -1
		} else if _, ok := b.endpointFor(c.Conn, leader); !ok {
			mp.Leader = -1
			mp.ErrorCode = kerr.ListenerNotFound.Code
			if c.Version < 6 {
				mp.ErrorCode = kerr.LeaderNotAvailable.Code
			}
		}
	}
	return mt
}

// reachable says whether a client finds a replica of a partition: its broker lives
// and shows the client a listener, and its directory works.
func (b *Broker) reachable(c *call, p *image.Partition, id int32) bool {
	br := c.image.Broker(id)
	if br == nil || br.Fenced || !br.Holds(p) {
		return false
	}
	_, ok := b.endpointFor(c.Conn, br)
	return ok
}

func without(list, gone []int32) []int32 {
	var out []int32
	for _, x := range list {
		if !slices.Contains(gone, x) {
			out = append(out, x)
		}
	}
	return out
}

// autoCreates says whether this request may create the topics it misses.
func (b *Broker) autoCreates(c *call, req *kmsg.MetadataRequest) bool {
	return b.config.Bool("auto.create.topics.enable") && (c.Version < 4 || req.AllowAutoTopicCreation)
}
