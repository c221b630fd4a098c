package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
	"millrace/broker/partition"
	"millrace/storage/batch"
)

// ListOffsets (2), versions 0-11. KIP-79 (v1), KIP-98 (isolation, v2), KIP-320
// (leader epochs, v4), KIP-734 (offset of the largest timestamp, v7), KIP-405
// (earliest local, v8; last tiered, v9), KIP-1005, KIP-1023 (earliest pending
// upload, v11).
//
// v0, which 4.x dropped, answers with several offsets: the log end and the
// segments' starts.

// debugReplica is the replica id of Kafka's tools that read from any replica.
const debugReplica = -2

func (b *Broker) listOffsets(c *call, req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	resp := kmsg.NewPtrListOffsetsResponse()
	type asked struct {
		topic string
		index int32
	}
	times := map[asked]int{}
	for _, rt := range req.Topics {
		for _, rp := range rt.Partitions {
			times[asked{rt.Topic, rp.Partition}]++
		}
	}
	for _, rt := range req.Topics {
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = rt.Topic
		allowed := c.allowed(auth.Describe, auth.Topic, rt.Topic)
		for _, rp := range rt.Partitions {
			op := kmsg.NewListOffsetsResponseTopicPartition()
			op.Partition, op.Offset, op.Timestamp, op.LeaderEpoch = rp.Partition, -1, -1, -1
			op.OldStyleOffsets = []int64{}
			switch {
			case !allowed:
				op.ErrorCode = kerr.TopicAuthorizationFailed.Code
			case c.Version > 0 && times[asked{rt.Topic, rp.Partition}] > 1:
				op.ErrorCode = kerr.InvalidRequest.Code
			default:
				op.ErrorCode = b.listOffset(c, req, rt.Topic, &rp, &op)
			}
			out.Partitions = append(out.Partitions, op)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// minVersion is the first version that knows a special time (KAFKA-12886 and
// the KIPs above).
func minVersion(timestamp int64) int16 {
	switch timestamp {
	case partition.MaxTimestamp:
		return 7
	case partition.EarliestLocal:
		return 8
	case partition.LastTiered:
		return 9
	case partition.EarliestPending:
		return 11
	}
	return 0
}

func (b *Broker) listOffset(c *call, req *kmsg.ListOffsetsRequest, topic string, rp *kmsg.ListOffsetsRequestTopicPartition, op *kmsg.ListOffsetsResponseTopicPartition) int16 {
	t := c.image.TopicByName(topic)
	if t == nil || rp.Partition < 0 || int(rp.Partition) >= len(t.Partitions) {
		return kerr.UnknownTopicOrPartition.Code
	}
	if c.Version > 0 && (rp.Timestamp < partition.EarliestPending || c.Version < minVersion(rp.Timestamp)) {
		return kerr.UnsupportedVersion.Code
	}
	part := b.replicas.get(t.ID, rp.Partition)
	if part == nil {
		return b.absent(t.ID, rp.Partition)
	}
	ask := partition.ListRequest{
		Timestamp: rp.Timestamp, Isolation: partition.Isolation(req.IsolationLevel), CurrentLeaderEpoch: batch.LeaderEpoch(rp.CurrentLeaderEpoch),
		AnyReplica: req.ReplicaID == debugReplica,
	}
	if c.Version < 4 {
		ask.CurrentLeaderEpoch = partition.AnyEpoch
	}
	if req.ReplicaID >= 0 {
		ask.Isolation = partition.ReadAll
	}
	found, err := part.ListOffset(ask)
	if err != nil {
		if errors.Is(err, partition.ErrOffsetNotAvailable) && c.Version < 5 {
			return kerr.LeaderNotAvailable.Code // KIP-207: older clients do not know 78
		}
		return codeOf(err)
	}
	op.Offset, op.Timestamp, op.LeaderEpoch = int64(found.Offset), found.Timestamp, int32(found.LeaderEpoch)
	return 0
}
