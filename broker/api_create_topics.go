package broker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
)

// CreateTopics (19), versions 0-7. KIP-4, KIP-464 (-1 counts), KIP-525 (the
// answer tells counts and configs from v5), KIP-516 (topic ids, v7).
//
// The broker authorises; the controller decides (controller/state). The answer
// waits until this broker has applied the change, so that its client's next
// request sees the topic; Kafka's client may meet
// UNKNOWN_TOPIC_OR_PARTITION there for a moment.

func (b *Broker) createTopics(c *call, req *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsResponse {
	resp := kmsg.NewPtrCreateTopicsResponse()
	all := c.allowed(auth.Create, auth.Cluster, auth.ClusterName)
	ask := *req
	ask.Topics = nil
	refused := map[string]bool{}
	for _, t := range req.Topics {
		if all || c.allowed(auth.Create, auth.Topic, t.Topic) {
			ask.Topics = append(ask.Topics, t)
			continue
		}
		if refused[t.Topic] {
			continue
		}
		refused[t.Topic] = true
		resp.Topics = append(resp.Topics, failedTopic(t.Topic, kerr.TopicAuthorizationFailed.Code, "Authorization failed."))
	}
	if len(ask.Topics) > 0 {
		got, err := c.change(&ask, inMillis(req.TimeoutMillis))
		if err != nil {
			code, msg := changeFailed(err)
			for _, t := range ask.Topics {
				resp.Topics = append(resp.Topics, failedTopic(t.Topic, code, msg))
			}
		} else {
			resp.Topics = append(resp.Topics, got.(*kmsg.CreateTopicsResponse).Topics...)
		}
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.ErrorCode == 0 && !c.allowed(auth.DescribeConfigs, auth.Topic, t.Topic) {
			// KIP-525: who may not read configs is told neither them nor the counts.
			t.ConfigErrorCode = kerr.TopicAuthorizationFailed.Code
			t.NumPartitions, t.ReplicationFactor, t.Configs = -1, -1, nil
		}
	}
	return resp
}

func failedTopic(name string, code int16, msg string) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic, t.ErrorCode = name, code
	if msg != "" {
		t.ErrorMessage = &msg
	}
	t.NumPartitions, t.ReplicationFactor = -1, -1
	t.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	return t
}

// inMillis is the time that a request gives to a change of metadata.
func inMillis(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }

// millis is a Produce request's own time-out. A request that gives none, or one
// that makes no sense, still gets one attempt.
func millis(ms int32) time.Duration { return max(time.Duration(ms)*time.Millisecond, time.Millisecond) }
