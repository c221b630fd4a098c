package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
)

// ElectLeaders (43), versions 0-2. KIP-183, KIP-460 (unclean elections and an
// error for the whole request, v1).
//
// A null list of topics is all partitions: of those only the ones that needed
// an election are told, beneath the names of all topics. An empty list asks for
// nothing, whatever the election and the time.

func (b *Broker) electLeaders(c *call, req *kmsg.ElectLeadersRequest) *kmsg.ElectLeadersResponse {
	resp := kmsg.NewPtrElectLeadersResponse()
	refuse := func(code int16, msg string) *kmsg.ElectLeadersResponse {
		resp.ErrorCode = code
		for _, asked := range req.Topics {
			t := kmsg.NewElectLeadersResponseTopic()
			t.Topic = asked.Topic
			for _, i := range asked.Partitions {
				p := kmsg.NewElectLeadersResponseTopicPartition()
				p.Partition, p.ErrorCode = i, code
				if msg != "" {
					p.ErrorMessage = &msg
				}
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp
	}
	if !c.allowed(auth.Alter, auth.Cluster, auth.ClusterName) {
		return refuse(kerr.ClusterAuthorizationFailed.Code, errorText(kerr.ClusterAuthorizationFailed.Code))
	}
	if req.Topics != nil && len(req.Topics) == 0 {
		return resp
	}
	for _, asked := range req.Topics {
		if !c.padsAbsent(asked.Topic, slices.Values(asked.Partitions)) {
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
	got, err := c.change(req, inMillis(req.TimeoutMillis))
	if err != nil {
		return refuse(changeFailed(err))
	}
	return got.(*kmsg.ElectLeadersResponse)
}
