package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
)

// OffsetDelete (47), version 0. KIP-496.
//
// Topics that may not be read or are not there are refused here; the rest goes
// to the group's coordinator, which is asked even where nothing is left, for its
// word on the group. What it says of the group as a whole is then the answer,
// without any topic.

func (b *Broker) offsetDelete(c *call, req *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	if !c.allowed(auth.Delete, auth.Group, req.Group) {
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return resp
	}
	if req.Group == "" {
		resp.ErrorCode = kerr.InvalidGroupID.Code
		return resp
	}
	rows := map[string]int{}
	row := func(topic string) *kmsg.OffsetDeleteResponseTopic {
		i, ok := rows[topic]
		if !ok {
			i = len(resp.Topics)
			rows[topic] = i
			resp.Topics = append(resp.Topics, kmsg.OffsetDeleteResponseTopic{Topic: topic})
		}
		return &resp.Topics[i]
	}
	refuse := func(topic string, partition int32, code int16) {
		p := kmsg.NewOffsetDeleteResponseTopicPartition()
		p.Partition, p.ErrorCode = partition, code
		out := row(topic)
		out.Partitions = append(out.Partitions, p)
	}
	asked := *req
	asked.Topics = nil
	for _, rt := range req.Topics {
		t := c.image.TopicByName(rt.Topic)
		good := kmsg.NewOffsetDeleteRequestTopic()
		good.Topic = rt.Topic
		allowed := c.allowed(auth.Read, auth.Topic, rt.Topic)
		if !allowed || t == nil {
			row(rt.Topic) // answered even where no partition of it is asked
		}
		for _, rp := range rt.Partitions {
			switch {
			case !allowed:
				refuse(rt.Topic, rp.Partition, kerr.TopicAuthorizationFailed.Code)
			case t == nil || rp.Partition < 0 || int(rp.Partition) >= len(t.Partitions):
				refuse(rt.Topic, rp.Partition, kerr.UnknownTopicOrPartition.Code)
			default:
				good.Partitions = append(good.Partitions, rp)
			}
		}
		if len(good.Partitions) > 0 {
			asked.Topics = append(asked.Topics, good)
		}
	}
	got, code := ask[*kmsg.OffsetDeleteResponse](b, c, req.Group, &asked)
	if code == 0 {
		code = got.ErrorCode
	}
	if code != 0 {
		return &kmsg.OffsetDeleteResponse{ErrorCode: code}
	}
	if len(resp.Topics) == 0 {
		resp.Topics = got.Topics // a topic that was named twice is answered twice
		return resp
	}
	for _, gt := range got.Topics {
		out := row(gt.Topic)
		out.Partitions = append(out.Partitions, gt.Partitions...)
	}
	return resp
}
