package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
)

// CreatePartitions (37), versions 0-3. KIP-195, KIP-599.

func (b *Broker) createPartitions(c *call, req *kmsg.CreatePartitionsRequest) *kmsg.CreatePartitionsResponse {
	resp := kmsg.NewPtrCreatePartitionsResponse()
	ask := *req
	ask.Topics = nil
	refuse := func(name string, code int16, msg string) {
		t := kmsg.NewCreatePartitionsResponseTopic()
		t.Topic, t.ErrorCode = name, code
		if msg != "" {
			t.ErrorMessage = &msg
		}
		resp.Topics = append(resp.Topics, t)
	}
	for _, t := range req.Topics {
		if c.allowed(auth.Alter, auth.Topic, t.Topic) {
			ask.Topics = append(ask.Topics, t)
		} else {
			refuse(t.Topic, kerr.TopicAuthorizationFailed.Code, "Topic authorization failed.")
		}
	}
	if len(ask.Topics) > 0 {
		got, err := c.change(&ask, inMillis(req.TimeoutMillis))
		if err != nil {
			code, msg := changeFailed(err)
			for _, t := range ask.Topics {
				refuse(t.Topic, code, msg)
			}
		} else {
			resp.Topics = append(resp.Topics, got.(*kmsg.CreatePartitionsResponse).Topics...)
		}
	}
	return resp
}
