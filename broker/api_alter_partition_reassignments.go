package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
)

// AlterPartitionReassignments (45), versions 0-1. KIP-455, KIP-860 (whether the
// replication factor may change, v1).
//
// A null replica list cancels what runs. The controller decides
// (controller/state); a reassignment to replicas that are all in sync already is
// over when it is answered.

func (b *Broker) alterPartitionReassignments(c *call, req *kmsg.AlterPartitionAssignmentsRequest) *kmsg.AlterPartitionAssignmentsResponse {
	resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	resp.AllowReplicationFactorChange = true
	refuse := func(code int16, msg string) *kmsg.AlterPartitionAssignmentsResponse {
		resp.ErrorCode = code
		if msg != "" {
			resp.ErrorMessage = &msg
		}
		for _, asked := range req.Topics {
			t := kmsg.NewAlterPartitionAssignmentsResponseTopic()
			t.Topic = asked.Topic
			for _, one := range asked.Partitions {
				p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
				p.Partition, p.ErrorCode, p.ErrorMessage = one.Partition, code, resp.ErrorMessage
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp
	}
	if !c.allowed(auth.Alter, auth.Cluster, auth.ClusterName) {
		return refuse(kerr.ClusterAuthorizationFailed.Code, errorText(kerr.ClusterAuthorizationFailed.Code))
	}
	for _, asked := range req.Topics {
		partitions := func(yield func(int32) bool) {
			for i := range asked.Partitions {
				if !yield(asked.Partitions[i].Partition) {
					return
				}
			}
		}
		if !c.padsAbsent(asked.Topic, partitions) {
			return resp
		}
	}
	asked := 0
	for _, t := range req.Topics {
		asked += len(t.Partitions)
	}
	if !c.padsPartitions(asked) {
		return resp
	}
	within := inMillis(req.TimeoutMillis)
	if len(req.Topics) == 0 {
		within = b.requestTimeout() // nothing is to be done in that time
	}
	got, err := c.change(req, within)
	if err != nil {
		return refuse(changeFailed(err))
	}
	return got.(*kmsg.AlterPartitionAssignmentsResponse)
}
