package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
	"millrace/broker/partition"
	"millrace/storage/batch"
)

// OffsetForLeaderEpoch (23), versions 0-4. KIP-101, KIP-279 (the epoch in the
// answer, v1), KIP-320 (for consumers, fenced by their leader epoch, v2).

func (b *Broker) offsetForLeaderEpoch(c *call, req *kmsg.OffsetForLeaderEpochRequest) *kmsg.OffsetForLeaderEpochResponse {
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	broker := c.allowed(auth.ClusterAction, auth.Cluster, auth.ClusterName)
	for _, rt := range req.Topics {
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = rt.Topic
		allowed := broker || c.allowed(auth.Describe, auth.Topic, rt.Topic)
		for _, rp := range rt.Partitions {
			op := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			op.Partition, op.LeaderEpoch, op.EndOffset = rp.Partition, -1, -1
			if !allowed {
				op.ErrorCode = kerr.TopicAuthorizationFailed.Code
			} else if part, code := b.replica(c, rt.Topic, rp.Partition); code != 0 {
				op.ErrorCode = code
			} else {
				current := batch.LeaderEpoch(rp.CurrentLeaderEpoch)
				if c.Version < 2 {
					current = partition.AnyEpoch
				}
				end, err := part.EndOffsetForEpoch(current, batch.LeaderEpoch(rp.LeaderEpoch))
				if op.ErrorCode = codeOf(err); err == nil {
					op.LeaderEpoch, op.EndOffset = int32(end.Epoch), int64(end.EndOffset)
				}
			}
			out.Partitions = append(out.Partitions, op)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// replica finds a local replica by its topic's name.
func (b *Broker) replica(c *call, topic string, index int32) (*partition.Partition, int16) {
	t := c.image.TopicByName(topic)
	if t == nil || index < 0 || int(index) >= len(t.Partitions) {
		return nil, kerr.UnknownTopicOrPartition.Code
	}
	part := b.replicas.served(t.ID, index)
	if part == nil {
		return nil, b.absent(t.ID, index)
	}
	return part, 0
}
