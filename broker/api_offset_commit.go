package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
	"millrace/controller/image"
)

// OffsetCommit (8), versions 0-10; v0 meant ZooKeeper and is served as v1.
// KIP-211 (retention time, v2-v4), KIP-320 (leader epochs), KIP-345 (static
// members), KIP-848 (member epochs; topic ids, v10).
//
// Partitions that may not be read or do not exist are refused here, one by
// one; the rest goes to the group's coordinator as one commit. Where some are
// refused the answer begins with those, and a topic stands in it once; else it
// is the coordinator's, in the order of the request.

func (b *Broker) offsetCommit(c *call, req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	resp := kmsg.NewPtrOffsetCommitResponse()
	answers := topicAnswers{at: map[topicKey]int{}}
	if !c.allowed(auth.Read, auth.Group, req.Group) {
		for i := range req.Topics {
			out := answers.add(&req.Topics[i])
			for _, rp := range req.Topics[i].Partitions {
				out.Partitions = append(out.Partitions, committedPartition(rp.Partition, kerr.GroupAuthorizationFailed.Code))
			}
		}
		resp.Topics = answers.list
		return resp
	}
	commit := *req
	commit.Topics = nil
	var asked []int // the topics of the request that commit's came from
	for i := range req.Topics {
		rt := &req.Topics[i]
		t, code := b.committedTopic(c, rt.Topic, rt.TopicID)
		if code != 0 {
			out := answers.topic(rt)
			for _, rp := range rt.Partitions {
				out.Partitions = append(out.Partitions, committedPartition(rp.Partition, code))
			}
			continue
		}
		good := kmsg.NewOffsetCommitRequestTopic()
		for _, rp := range rt.Partitions {
			if rp.Partition < 0 || int(rp.Partition) >= len(t.Partitions) {
				out := answers.topic(rt)
				out.Partitions = append(out.Partitions, committedPartition(rp.Partition, kerr.UnknownTopicOrPartition.Code))
				continue
			}
			good.Partitions = append(good.Partitions, rp)
		}
		if len(good.Partitions) > 0 {
			good.Topic, good.TopicID = t.Name, t.ID
			commit.Topics = append(commit.Topics, good)
			asked = append(asked, i)
		}
	}
	if len(commit.Topics) > 0 {
		got, code := ask[*kmsg.OffsetCommitResponse](b, c, req.Group, &commit)
		place := answers.add
		if len(answers.list) > 0 {
			place = answers.topic
		}
		for i, good := range commit.Topics {
			out := place(&req.Topics[asked[i]])
			for j, rp := range good.Partitions {
				p := committedPartition(rp.Partition, code)
				if code == 0 {
					p.ErrorCode = got.Topics[i].Partitions[j].ErrorCode
				}
				out.Partitions = append(out.Partitions, p)
			}
		}
	}
	resp.Topics = answers.list
	return resp
}

// topicAnswers collects answers by topic.
type topicAnswers struct {
	list []kmsg.OffsetCommitResponseTopic
	at   map[topicKey]int
}

// topicKey is how a request names a topic: by name, or from v10 on by id.
type topicKey struct {
	name string
	id   [16]byte
}

// topic finds the answer to a topic or begins it. The pointer is good until the
// next call, as is that of add.
func (a *topicAnswers) topic(rt *kmsg.OffsetCommitRequestTopic) *kmsg.OffsetCommitResponseTopic {
	if i, ok := a.at[topicKey{rt.Topic, rt.TopicID}]; ok {
		return &a.list[i]
	}
	a.at[topicKey{rt.Topic, rt.TopicID}] = len(a.list)
	return a.add(rt)
}

// add begins an answer, whether or not there is one already.
func (a *topicAnswers) add(rt *kmsg.OffsetCommitRequestTopic) *kmsg.OffsetCommitResponseTopic {
	t := kmsg.NewOffsetCommitResponseTopic()
	t.Topic, t.TopicID = rt.Topic, rt.TopicID
	a.list = append(a.list, t)
	return &a.list[len(a.list)-1]
}

func committedPartition(partition int32, code int16) kmsg.OffsetCommitResponseTopicPartition {
	p := kmsg.NewOffsetCommitResponseTopicPartition()
	p.Partition, p.ErrorCode = partition, code
	return p
}

// committedTopic finds the topic whose offsets are committed or fetched.
func (b *Broker) committedTopic(c *call, name string, id [16]byte) (*image.Topic, int16) {
	if c.Version >= 10 {
		t := c.image.TopicByID(id)
		if t == nil {
			return nil, kerr.UnknownTopicID.Code
		}
		if !c.allowed(auth.Read, auth.Topic, t.Name) {
			return nil, kerr.TopicAuthorizationFailed.Code
		}
		return t, 0
	}
	if !c.allowed(auth.Read, auth.Topic, name) {
		return nil, kerr.TopicAuthorizationFailed.Code
	}
	t := c.image.TopicByName(name)
	if t == nil {
		return nil, kerr.UnknownTopicOrPartition.Code
	}
	return t, 0
}
