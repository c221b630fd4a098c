package broker

import (
	"unsafe"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/auth"
)

// DescribeProducers (61), version 0. KIP-664.
//
// Any replica of a partition answers, with the producers its log remembers:
// those that have written there and were not forgotten since, sorted by id.

func (b *Broker) describeProducers(c *call, req *kmsg.DescribeProducersRequest) *kmsg.DescribeProducersResponse {
	resp := kmsg.NewPtrDescribeProducersResponse()
	seen := map[replicaKey]bool{}
	for _, rt := range req.Topics {
		out := kmsg.NewDescribeProducersResponseTopic()
		out.Topic = rt.Topic
		t := c.image.TopicByName(rt.Topic)
		var code int16
		switch {
		case !validTopicName(rt.Topic):
			code = kerr.InvalidTopicException.Code
		case !c.allowed(auth.Read, auth.Topic, rt.Topic):
			code = kerr.TopicAuthorizationFailed.Code
		case t == nil:
			code = kerr.UnknownTopicOrPartition.Code
		}
		for _, index := range rt.Partitions {
			p := kmsg.NewDescribeProducersResponseTopicPartition()
			p.Partition, p.ErrorCode = index, code
			if code == 0 {
				b.activeProducers(c, t.ID, index, len(t.Partitions), &p)
				k := replicaKey{t.ID, index}
				if seen[k] && !c.pads(len(p.ActiveProducers)*int(unsafe.Sizeof(kmsg.DescribeProducersResponseTopicPartitionActiveProducer{}))) {
					return resp
				}
				seen[k] = p.ErrorCode == 0
			}
			if p.ErrorCode != 0 && !c.pads(int(unsafe.Sizeof(p))) {
				return resp
			}
			if code != 0 {
				p.ErrorMessage = kmsg.StringPtr(errorText(code)) // of a partition's own error there is no text
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (b *Broker) activeProducers(c *call, topic [16]byte, index int32, partitions int, p *kmsg.DescribeProducersResponseTopicPartition) {
	if index < 0 || int(index) >= partitions {
		p.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return
	}
	part := b.replicas.served(topic, index)
	if part == nil {
		p.ErrorCode = b.absent(topic, index)
		return
	}
	for _, e := range part.Producers() {
		a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		a.ProducerID, a.ProducerEpoch, a.LastSequence = int64(e.ProducerID), int32(e.Epoch), e.LastSequence
		a.LastTimestamp, a.CoordinatorEpoch, a.CurrentTxnStartOffset = e.Timestamp, e.CoordinatorEpoch, int64(e.TxnFirstOffset)
		p.ActiveProducers = append(p.ActiveProducers, a)
	}
}
