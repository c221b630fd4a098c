package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
)

// DeleteTopics (20), versions 0-6. KIP-4, KIP-516 (by id, v6), KIP-599.
//
// delete.topic.enable=false refuses every topic with TOPIC_DELETION_DISABLED
// (73), before v3 with INVALID_REQUEST. A topic is named or given by id, never
// both; one asked twice is refused once.

func (b *Broker) deleteTopics(c *call, req *kmsg.DeleteTopicsRequest) *kmsg.DeleteTopicsResponse {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	ask := kmsg.NewPtrDeleteTopicsRequest()
	ask.Version, ask.TimeoutMillis = 6, req.TimeoutMillis
	entries := req.Topics
	if c.Version < 6 {
		entries = nil
		for _, name := range req.TopicNames {
			entries = append(entries, kmsg.DeleteTopicsRequestTopic{Topic: kmsg.StringPtr(name)})
		}
	}
	if !b.config.Bool("delete.topic.enable") {
		code := kerr.TopicDeletionDisabled.Code
		if c.Version < 3 {
			code = kerr.InvalidRequest.Code
		}
		for _, e := range entries {
			resp.Topics = append(resp.Topics, undeleted(e.Topic, e.TopicID, code, ""))
		}
		return resp
	}
	for _, e := range entries {
		name := ""
		if e.Topic != nil {
			name = *e.Topic
		} else if t := c.image.TopicByID(e.TopicID); t != nil {
			name = t.Name
		}
		if name == "" || (e.Topic != nil && e.TopicID != [16]byte{}) || c.allowed(auth.Delete, auth.Topic, name) {
			ask.Topics = append(ask.Topics, e)
			continue
		}
		// Who may not even describe the topic is not told what its id names.
		told := e.Topic
		if told == nil && c.allowed(auth.Describe, auth.Topic, name) {
			told = &name
		}
		resp.Topics = append(resp.Topics, undeleted(told, e.TopicID, kerr.TopicAuthorizationFailed.Code, "Topic authorization failed."))
	}
	if len(ask.Topics) > 0 {
		got, err := c.change(ask, inMillis(req.TimeoutMillis))
		if err != nil {
			code, msg := changeFailed(err)
			for _, e := range ask.Topics {
				resp.Topics = append(resp.Topics, undeleted(e.Topic, e.TopicID, code, msg))
			}
		} else {
			resp.Topics = append(resp.Topics, got.(*kmsg.DeleteTopicsResponse).Topics...)
		}
	}
	if c.Version < 6 {
		for i := range resp.Topics {
			if resp.Topics[i].Topic == nil {
				resp.Topics[i].Topic = kmsg.StringPtr("")
			}
		}
	}
	return resp
}

func undeleted(name *string, id [16]byte, code int16, msg string) kmsg.DeleteTopicsResponseTopic {
	t := kmsg.NewDeleteTopicsResponseTopic()
	t.Topic, t.TopicID, t.ErrorCode = name, id, code
	if msg != "" {
		t.ErrorMessage = &msg
	}
	return t
}
