package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
)

// UnregisterBroker (64), version 0. KIP-631.
//
// A broker that is not registered: BROKER_ID_NOT_REGISTERED. One that unregisters
// itself runs on without its partitions, its heartbeats refused, until it is
// started again.

func (b *Broker) unregisterBroker(c *call, req *kmsg.UnregisterBrokerRequest) *kmsg.UnregisterBrokerResponse {
	resp := kmsg.NewPtrUnregisterBrokerResponse()
	refuse := func(code int16, msg string) *kmsg.UnregisterBrokerResponse {
		resp.ErrorCode = code
		if msg != "" {
			resp.ErrorMessage = &msg
		}
		return resp
	}
	if !c.allowed(auth.Alter, auth.Cluster, auth.ClusterName) {
		return refuse(kerr.ClusterAuthorizationFailed.Code, errorText(kerr.ClusterAuthorizationFailed.Code))
	}
	got, err := c.change(req, b.requestTimeout())
	if err != nil {
		return refuse(changeFailed(err))
	}
	resp = got.(*kmsg.UnregisterBrokerResponse)
	if resp.ErrorCode == 0 {
		resp.ErrorMessage = kmsg.StringPtr("") // Kafka's, where it has no words
	}
	return resp
}
