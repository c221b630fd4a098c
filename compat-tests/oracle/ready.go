package oracle

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// looks are for what a server comes to by itself. The pauses between them grow:
// on a busy machine it would come to it later for being asked.
type looks struct {
	begun time.Time
	pause time.Duration // before the next look; 0: 2 ms
}

// again pauses before another look; false when it has taken too long.
func (l *looks) again() bool {
	if l.begun.IsZero() {
		l.begun, l.pause = time.Now(), max(l.pause, 2*time.Millisecond)
	}
	if time.Since(l.begun) > agreement {
		return false
	}
	time.Sleep(l.pause)
	l.pause = min(l.pause*3/2, 50*time.Millisecond)
	return true
}

// applied waits until Kafka's broker has applied all metadata that its
// controller has agreed on: Kafka answers a change before, Millrace does not.
func (p *Play) applied() {
	if p.over {
		return
	}
	if err := p.kafka().catchUp(); err != nil {
		p.fail(err)
	}
}

func (s *side) catchUp() error {
	c, err := s.conn("watch")
	if err != nil {
		return err
	}
	c.Patience = patience
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	quorum.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	o := c.Ask(quorum)
	r, ok := o.Response.(*kmsg.DescribeQuorumResponse)
	if !ok || len(r.Topics) != 1 {
		return fmt.Errorf("asking %s for its quorum: %v", s.addr, o)
	}
	want := r.Topics[0].Partitions[0].HighWatermark - 1
	for l := (looks{}); ; {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "oracle", "1"
		kind := req.ResponseKind()
		kind.SetVersion(3)
		v, ok := c.Send(c.Encode(req), kind).Response.(*kmsg.ApiVersionsResponse)
		if !ok {
			return fmt.Errorf("%s does not tell its versions", s.addr)
		}
		if v.FinalizedFeaturesEpoch >= want {
			return nil
		}
		if !l.again() {
			return fmt.Errorf("%s has not applied its metadata up to %d", s.addr, want)
		}
	}
}

// made waits until a topic that was created is there, and led.
func (p *Play) made(topic string) {
	s := p.kafka()
	id, ok := s.topics[s.name(topic)]
	if !ok {
		p.led(topic)
		return
	}
	for l := (looks{}); !p.over && !s.there(topic, id) && l.again(); {
	}
}

// there says that a server's broker knows a topic, and leads its partitions.
func (s *side) there(topic string, id [16]byte) bool {
	c, err := s.conn("watch")
	if err != nil {
		return true
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 10
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(s.name(topic))
	req.Topics = append(req.Topics, rt)
	r, ok := c.Ask(req).Response.(*kmsg.MetadataResponse)
	return ok && len(r.Topics) == 1 && r.Topics[0].ErrorCode == 0 && r.Topics[0].TopicID == id && s.leads(r)
}

// led waits until every partition of the topics that exist is led, which in
// Kafka takes a moment more than to be made.
func (p *Play) led(topics ...string) {
	p.applied()
	for l := (looks{}); !p.over && !p.kafka().allLed(topics) && l.again(); {
	}
}

func (s *side) allLed(topics []string) bool {
	c, err := s.conn("watch")
	if err != nil {
		return true
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(s.name(t))
		req.Topics = append(req.Topics, rt)
	}
	kind := req.ResponseKind()
	kind.SetVersion(9)
	r, ok := c.Send(c.Encode(req), kind).Response.(*kmsg.MetadataResponse)
	return !ok || s.leads(r)
}

// leads says that a broker leads the partitions that it tells of.
func (s *side) leads(r *kmsg.MetadataResponse) bool {
	c, err := s.conn("watch")
	if err != nil {
		return true
	}
	offsets := kmsg.NewPtrListOffsetsRequest()
	offsets.Version, offsets.ReplicaID = 5, -1
	for _, t := range r.Topics {
		if t.ErrorCode != 0 || t.Topic == nil {
			continue
		}
		ot := kmsg.NewListOffsetsRequestTopic()
		ot.Topic = *t.Topic
		for _, part := range t.Partitions {
			op := kmsg.NewListOffsetsRequestTopicPartition()
			op.Partition, op.Timestamp, op.CurrentLeaderEpoch = part.Partition, -1, -1
			ot.Partitions = append(ot.Partitions, op)
		}
		offsets.Topics = append(offsets.Topics, ot)
	}
	if len(offsets.Topics) == 0 {
		return true
	}
	okind := offsets.ResponseKind()
	okind.SetVersion(5)
	got, ok := c.Send(c.Encode(offsets), okind).Response.(*kmsg.ListOffsetsResponse)
	if !ok {
		return true
	}
	for _, t := range got.Topics {
		for _, part := range t.Partitions {
			if part.ErrorCode == 6 || part.ErrorCode == 3 || part.ErrorCode == 5 || part.ErrorCode == 9 {
				return false
			}
		}
	}
	return true
}
