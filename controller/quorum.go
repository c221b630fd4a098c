package controller

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// DescribeQuorum is the one request that is answered from raft itself and not
// decided: who leads, who votes, and how far each is. Kafka's words for it are
// the log end and high watermark of its metadata partition; here both are one
// past a raft index, so that a replica without lag has the leader's log end.

const (
	metadataTopic     = "__cluster_metadata"
	metadataPartition = 0
)

// contact is what the leader knows of a peer's last sign of life. Zero times
// are unknown.
type contact struct {
	heard    time.Time
	end      uint64    // the leader's last index then
	caughtUp time.Time // the last moment at which the peer had all that there was
}

// hearFrom notes that a peer has answered. The moment is that of the turn.
func (m *member) hearFrom(peer uint64) {
	if m.decider != nil && !slices.Contains(m.heard, peer) {
		m.heard = append(m.heard, peer)
	}
}

// note takes the peers heard of since the last turn over into their contacts.
func (m *member) note(now time.Time) {
	if len(m.heard) == 0 {
		return
	}
	heard := m.heard
	m.heard = nil
	last, err := m.o.log.LastIndex()
	if err != nil || m.decider == nil {
		return
	}
	m.node.WithProgress(func(peer uint64, _ raft.ProgressType, p tracker.Progress) {
		if !slices.Contains(heard, peer) {
			return
		}
		c := m.contacts[peer]
		switch {
		case p.Match >= last:
			c.caughtUp = now
		case !c.heard.IsZero() && p.Match >= c.end && c.heard.After(c.caughtUp):
			c.caughtUp = c.heard // it has by now all that there was when it was last heard of
		}
		c.heard, c.end = now, last
		m.contacts[peer] = c
	})
}

// quorum answers a DescribeQuorum request. Only the leader is asked.
func (m *member) quorum(req *kmsg.DescribeQuorumRequest, now time.Time) *kmsg.DescribeQuorumResponse {
	resp := req.ResponseKind().(*kmsg.DescribeQuorumResponse)
	resp.ErrorMessage = kmsg.StringPtr("")
	if len(req.Topics) != 1 || req.Topics[0].Topic != metadataTopic || len(req.Topics[0].Partitions) != 1 || req.Topics[0].Partitions[0].Partition != metadataPartition {
		// There is but one partition to ask for. Who asks for anything else as well
		// is told so everywhere.
		for _, asked := range req.Topics {
			t := kmsg.DescribeQuorumResponseTopic{Topic: asked.Topic}
			for _, p := range asked.Partitions {
				t.Partitions = append(t.Partitions, kmsg.DescribeQuorumResponseTopicPartition{
					Partition: p.Partition, ErrorCode: kerr.UnknownTopicOrPartition.Code, ErrorMessage: kmsg.StringPtr(kerr.UnknownTopicOrPartition.Description),
				})
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp
	}
	last, err := m.o.log.LastIndex()
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = kerr.KafkaStorageError.Code, kmsg.StringPtr(err.Error())
		return resp
	}
	status := m.node.BasicStatus()
	p := kmsg.DescribeQuorumResponseTopicPartition{
		Partition: metadataPartition, ErrorMessage: kmsg.StringPtr(""), LeaderID: NodeOf(m.id), LeaderEpoch: int32(status.GetTerm()),
		HighWatermark: int64(m.applied) + 1,
	}
	match := map[uint64]uint64{}
	m.node.WithProgress(func(peer uint64, _ raft.ProgressType, at tracker.Progress) { match[peer] = at.Match })
	describe := func(ids []uint64) []kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
		var out []kmsg.DescribeQuorumResponseTopicPartitionReplicaState
		for _, id := range ids {
			s := kmsg.DescribeQuorumResponseTopicPartitionReplicaState{ReplicaID: NodeOf(id), LastFetchTimestamp: -1, LastCaughtUpTimestamp: -1, LogEndOffset: -1}
			// Its directory is told of from kraft.version 1 on, which is not offered
			// (KIP-853); raft itself knows its nodes by their directories at any level.
			if id == m.id {
				s.LogEndOffset, s.LastFetchTimestamp, s.LastCaughtUpTimestamp = int64(last)+1, now.UnixMilli(), now.UnixMilli()
			} else if c := m.contacts[id]; !c.heard.IsZero() {
				s.LogEndOffset, s.LastFetchTimestamp = int64(match[id])+1, c.heard.UnixMilli()
				if !c.caughtUp.IsZero() {
					s.LastCaughtUpTimestamp = c.caughtUp.UnixMilli()
				}
			}
			out = append(out, s)
		}
		slices.SortFunc(out, func(a, b kmsg.DescribeQuorumResponseTopicPartitionReplicaState) int {
			return int(a.ReplicaID) - int(b.ReplicaID)
		})
		return out
	}
	p.CurrentVoters, p.Observers = describe(m.conf.GetVoters()), describe(m.conf.GetLearners())
	resp.Topics = []kmsg.DescribeQuorumResponseTopic{{Topic: metadataTopic, Partitions: []kmsg.DescribeQuorumResponseTopicPartition{p}}}
	return resp
}
