package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
)

// ListPartitionReassignments (46), version 0. KIP-455.
//
// Null topics are all. What is unknown, or not being reassigned, is left out.
// The controller answers: it knows of changes that are not applied here yet.

func (b *Broker) listPartitionReassignments(c *call, req *kmsg.ListPartitionReassignmentsRequest) *kmsg.ListPartitionReassignmentsResponse {
	resp := kmsg.NewPtrListPartitionReassignmentsResponse()
	refuse := func(code int16, msg string) *kmsg.ListPartitionReassignmentsResponse {
		resp.ErrorCode = code
		if msg != "" {
			resp.ErrorMessage = &msg
		}
		return resp
	}
	if !c.allowed(auth.Describe, auth.Cluster, auth.ClusterName) {
		return refuse(kerr.ClusterAuthorizationFailed.Code, errorText(kerr.ClusterAuthorizationFailed.Code))
	}
	// Kafka answers a question at once, and does not look at its time-out.
	got, err := c.change(req, b.requestTimeout())
	if err != nil {
		return refuse(changeFailed(err))
	}
	return got.(*kmsg.ListPartitionReassignmentsResponse)
}
