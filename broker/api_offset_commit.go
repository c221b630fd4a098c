package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
	"millrace/controller/image"
)

// OffsetCommit (8), versions 0-10; v0 meant ZooKeeper and is served as v1.
// KIP-211 (retention time, v2-v4), KIP-320 (leader epochs), KIP-345 (static
// members), KIP-848 (member epochs; topic ids, v10).
//
// Partitions that may not be read or do not exist are refused here, one by
// one; the rest goes to the group's coordinator as one commit.

func (b *Broker) offsetCommit(c *call, req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	resp := kmsg.NewPtrOffsetCommitResponse()
	ask0 := *req
	ask0.Topics = nil
	readable := c.allowed(auth.Read, auth.Group, req.Group)
	// Where an answer of the machine goes: by the place in the request.
	type place struct{ topic, partition int }
	var places [][]place
	for _, rt := range req.Topics {
		t, code := b.committedTopic(c, rt.Topic, rt.TopicID)
		out := kmsg.NewOffsetCommitResponseTopic()
		out.Topic, out.TopicID = rt.Topic, rt.TopicID
		good := kmsg.NewOffsetCommitRequestTopic()
		var at []place
		for _, rp := range rt.Partitions {
			op := kmsg.NewOffsetCommitResponseTopicPartition()
			op.Partition, op.ErrorCode = rp.Partition, code
			switch {
			case !readable:
				op.ErrorCode = kerr.GroupAuthorizationFailed.Code
			case code != 0:
			case rp.Partition < 0 || int(rp.Partition) >= len(t.Partitions):
				op.ErrorCode = kerr.UnknownTopicOrPartition.Code
			default:
				good.Partitions = append(good.Partitions, rp)
				at = append(at, place{len(resp.Topics), len(out.Partitions)})
			}
			out.Partitions = append(out.Partitions, op)
		}
		resp.Topics = append(resp.Topics, out)
		if len(good.Partitions) > 0 {
			good.Topic, good.TopicID = t.Name, t.ID
			ask0.Topics = append(ask0.Topics, good)
			places = append(places, at)
		}
	}
	if len(ask0.Topics) == 0 && (len(req.Topics) > 0 || !readable) {
		return resp
	}
	got, code := ask[*kmsg.OffsetCommitResponse](b, c, req.Group, &ask0)
	for i, at := range places {
		for j, p := range at {
			out := &resp.Topics[p.topic].Partitions[p.partition]
			if out.ErrorCode = code; code == 0 {
				out.ErrorCode = got.Topics[i].Partitions[j].ErrorCode
			}
		}
	}
	return resp
}

// committedTopic finds the topic whose offsets are committed or fetched.
func (b *Broker) committedTopic(c *call, name string, id [16]byte) (*image.Topic, int16) {
	if c.Version >= 10 {
		t := c.image.TopicByID(id)
		if t == nil {
			return nil, kerr.UnknownTopicID.Code
		}
		if !c.allowed(auth.Read, auth.Topic, t.Name) {
			return nil, kerr.TopicAuthorizationFailed.Code
		}
		return t, 0
	}
	if !c.allowed(auth.Read, auth.Topic, name) {
		return nil, kerr.TopicAuthorizationFailed.Code
	}
	t := c.image.TopicByName(name)
	if t == nil {
		return nil, kerr.UnknownTopicOrPartition.Code
	}
	return t, 0
}
