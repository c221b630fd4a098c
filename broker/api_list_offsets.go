package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/broker/auth"
	"millrace/broker/partition"
	"millrace/storage/batch"
)

// ListOffsets (2), versions 0-11. KIP-79 (v1), KIP-98 (isolation, v2), KIP-320
// (leader epochs, v4), KIP-734 (offset of the largest timestamp, v7), KIP-405
// (earliest local, v8; last tiered, v9), KIP-1005, KIP-1023 (earliest pending
// upload, v11).
//
// v0, which 4.x dropped, answers with several offsets: the log end, and the
// segments' starts by the time of their files.

// The replica ids of those that are none: consumers, and Kafka's tools that
// read from any replica.
const (
	consumerReplica = -1
	debugReplica    = -2
)

func (b *Broker) listOffsets(c *call, req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	resp := kmsg.NewPtrListOffsetsResponse()
	type asked struct {
		topic string
		index int32
	}
	if c.Version >= 2 && req.IsolationLevel != 0 && req.IsolationLevel != 1 {
		// Kafka does not come as far as to look at the partitions.
		for _, rt := range req.Topics {
			out := kmsg.NewListOffsetsResponseTopic()
			out.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				out.Partitions = append(out.Partitions, unlisted(rp.Partition, kerr.UnknownServerError.Code))
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp
	}
	// A partition asked twice is refused, once; a topic asked twice is answered
	// once. Version 0 knows neither: it answers each time, and looks at every
	// segment's file for it.
	times := map[asked]int{}
	for _, rt := range req.Topics {
		for _, rp := range rt.Partitions {
			times[asked{rt.Topic, rp.Partition}]++
		}
	}
	rows := map[string]int{}
	for _, rt := range req.Topics {
		allowed := c.allowed(auth.Describe, auth.Topic, rt.Topic)
		if len(rt.Partitions) == 0 && allowed && c.Version > 0 {
			continue // answers are gathered by partition
		}
		row, again := rows[rt.Topic]
		if !again || c.Version == 0 {
			row = len(resp.Topics)
			rows[rt.Topic] = row
			resp.Topics = append(resp.Topics, kmsg.ListOffsetsResponseTopic{Topic: rt.Topic})
		}
		out := &resp.Topics[row]
		for _, rp := range rt.Partitions {
			op := unlisted(rp.Partition, 0)
			key := asked{rt.Topic, rp.Partition}
			n := times[key]
			switch {
			case n == 0:
				continue // told already
			case !allowed:
				op.ErrorCode = kerr.TopicAuthorizationFailed.Code
			case c.Version > 0 && n > 1:
				op.ErrorCode, times[key] = kerr.InvalidRequest.Code, 0
			default:
				op.ErrorCode = b.listOffset(c, req, rt.Topic, &rp, &op)
				if n > 1 && !c.pads(b.segmentsOf(c, rt.Topic, rp.Partition)*looked+len(op.OldStyleOffsets)*16) {
					return resp
				}
			}
			out.Partitions = append(out.Partitions, op)
		}
	}
	return resp
}

// looked is what a look at one segment's file counts for, where a partition is asked again: it is time more than bytes.
const looked = 256

// segmentsOf is how many files a look-up of version 0 asks the time of.
func (b *Broker) segmentsOf(c *call, topic string, index int32) int {
	t := c.image.TopicByName(topic)
	if t == nil || t.Partition(index) == nil {
		return 0
	}
	part := b.replicas.served(t.ID, index)
	if part == nil {
		return 0
	}
	return part.Log().View().Segments() + 1
}

func unlisted(index int32, code int16) kmsg.ListOffsetsResponseTopicPartition {
	p := kmsg.NewListOffsetsResponseTopicPartition()
	p.Partition, p.ErrorCode, p.Offset, p.Timestamp, p.LeaderEpoch = index, code, -1, -1, -1
	p.OldStyleOffsets = []int64{}
	return p
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
	if rp.Timestamp < partition.EarliestPending || c.Version < minVersion(rp.Timestamp) {
		return kerr.UnsupportedVersion.Code
	}
	t := c.image.TopicByName(topic)
	if t == nil || rp.Partition < 0 || int(rp.Partition) >= len(t.Partitions) {
		return kerr.UnknownTopicOrPartition.Code
	}
	part := b.replicas.served(t.ID, rp.Partition)
	if part == nil {
		return b.absent(t.ID, rp.Partition)
	}
	if c.Version == 0 {
		list, err := part.OldOffsets(partition.OldRequest{
			Timestamp: rp.Timestamp, Most: rp.MaxNumOffsets, Consumer: req.ReplicaID == consumerReplica, AnyReplica: req.ReplicaID == debugReplica,
		})
		for _, o := range list {
			op.OldStyleOffsets = append(op.OldStyleOffsets, int64(o))
		}
		b.tellUnreadable(part, err, zap.Int64("timestamp", rp.Timestamp))
		return codeOf(err)
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
		b.tellUnreadable(part, err, zap.Int64("timestamp", rp.Timestamp))
		if errors.Is(err, partition.ErrOffsetNotAvailable) && c.Version < 5 {
			return kerr.LeaderNotAvailable.Code // KIP-207: older clients do not know 78
		}
		return codeOf(err)
	}
	op.Offset, op.Timestamp, op.LeaderEpoch = int64(found.Offset), found.Timestamp, int32(found.LeaderEpoch)
	return 0
}
