package state

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/image"
)

// alterPartition takes ISR changes that partition leaders propose.
func (d *Decider) alterPartition(req *kmsg.AlterPartitionRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterPartitionResponse)
	if !d.knows(req.BrokerID, req.BrokerEpoch) {
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
		return resp
	}
	for _, asked := range req.Topics {
		out := kmsg.NewAlterPartitionResponseTopic()
		out.Topic, out.TopidID = asked.Topic, asked.TopicID
		t, missing := d.working.TopicByID(asked.TopicID), kerr.UnknownTopicID
		if req.Version < 2 {
			t, missing = d.working.TopicByName(asked.Topic), kerr.UnknownTopicOrPartition
		}
		for _, p := range asked.Partitions {
			one := kmsg.NewAlterPartitionResponseTopicPartition()
			one.Partition = p.Partition
			if t == nil {
				one.ErrorCode = missing.Code
			} else {
				d.alterISR(req, t, p, &one)
			}
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (d *Decider) alterISR(req *kmsg.AlterPartitionRequest, t *image.Topic, asked kmsg.AlterPartitionRequestTopicPartition, out *kmsg.AlterPartitionResponseTopicPartition) {
	// The topic's value is that of the request's start; the partition may have
	// changed since.
	p := d.working.TopicByID(t.ID).Partition(asked.Partition)
	members := asked.NewEpochISR
	if req.Version < 3 {
		members = nil
		for _, id := range asked.NewISR {
			members = append(members, kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: id, BrokerEpoch: -1})
		}
	}
	if err := d.checkISR(req, p, asked, members); err != nil {
		out.ErrorCode = err.Code
		return
	}
	isr := make([]int32, len(members))
	for i, m := range members {
		isr[i] = m.BrokerID
	}
	r := changeOf(t, p)
	if !slices.Equal(isr, p.ISR) {
		r.Isr = isr
	}
	if asked.LeaderRecoveryState != p.LeaderRecoveryState {
		r.LeaderRecoveryState = asked.LeaderRecoveryState
	}
	if r.Isr != nil || r.LeaderRecoveryState >= 0 {
		d.write(d.finish(p, r, nobody))
		p = d.working.TopicByID(t.ID).Partition(asked.Partition)
	}
	if p.Leader != req.BrokerID {
		// The change ended a reassignment, and this leader with it.
		out.ErrorCode = kerr.NewLeaderElected.Code
		if req.Version < 2 {
			out.ErrorCode = kerr.FencedLeaderEpoch.Code
		}
		return
	}
	out.LeaderID, out.LeaderEpoch, out.ISR = p.Leader, p.LeaderEpoch, p.ISR
	out.LeaderRecoveryState, out.PartitionEpoch = p.LeaderRecoveryState, p.PartitionEpoch
}

func (d *Decider) checkISR(req *kmsg.AlterPartitionRequest, p *image.Partition, asked kmsg.AlterPartitionRequestTopicPartition,
	members []kmsg.AlterPartitionRequestTopicPartitionNewEpochISR) *kerr.Error {
	switch {
	case p == nil:
		return kerr.UnknownTopicOrPartition
	case asked.LeaderEpoch > p.LeaderEpoch || asked.PartitionEpoch > p.PartitionEpoch:
		return kerr.NotController // it knows more than we do: another leads the metadata
	case asked.LeaderEpoch < p.LeaderEpoch:
		return kerr.FencedLeaderEpoch
	case req.BrokerID != p.Leader:
		return kerr.InvalidRequest
	case asked.PartitionEpoch < p.PartitionEpoch:
		return kerr.InvalidUpdateVersion
	case len(members) == 0:
		return kerr.InvalidRequest
	}
	led := false
	for i, m := range members {
		again := slices.ContainsFunc(members[:i], func(o kmsg.AlterPartitionRequestTopicPartitionNewEpochISR) bool { return o.BrokerID == m.BrokerID })
		if again || !slices.Contains(p.Replicas, m.BrokerID) {
			return kerr.InvalidRequest
		}
		led = led || m.BrokerID == p.Leader
	}
	const recovering = 1
	switch {
	case !led:
		return kerr.InvalidRequest
	case asked.LeaderRecoveryState == recovering && len(members) > 1:
		return kerr.InvalidRequest
	case asked.LeaderRecoveryState == recovering && p.LeaderRecoveryState != recovering:
		return kerr.InvalidRequest
	}
	for _, m := range members {
		b := d.working.Broker(m.BrokerID)
		// Only who lives, on a disk that does, may come in; who is out of the ISR need not (KIP-841).
		if !d.can(p, m.BrokerID) || m.BrokerEpoch != -1 && m.BrokerEpoch != b.Epoch {
			if req.Version < 2 {
				return kerr.OperationNotAttempted
			}
			return kerr.IneligibleReplica
		}
	}
	return nil
}
