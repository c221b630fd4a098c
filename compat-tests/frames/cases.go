package frames

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// Cases are all cases, by API.
func Cases() []Case {
	var all []Case
	all = append(all, topicCases()...)
	all = append(all, groupCases()...)
	all = append(all, groupAdminCases()...)
	all = append(all, offsetCases()...)
	all = append(all, produceCases()...)
	all = append(all, fetchCases()...)
	all = append(all, oldSetCases()...)
	all = append(all, configCases()...)
	all = append(all, alterConfigsCases()...)
	all = append(all, clusterCases()...)
	all = append(all, connectionCases()...)
	all = append(all, listingCases()...)
	all = append(all, recordCases()...)
	all = append(all, moveCases()...)
	all = append(all, compactionCases()...)
	all = append(all, offsetDeleteCases()...)
	all = append(all, topicPageCases()...)
	all = append(all, telemetryCases()...)
	all = append(all, quorumCases()...)
	return alsoOnController(all)
}

// WarmUp brings a fresh server to where its group coordinators and producer
// ids are there, so that cases meet no start-up answers.
func WarmUp(addr string) error {
	c, err := frame.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for range 200 {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorKey = 3, "warm-up"
		found, ok := c.Ask(find).Response.(*kmsg.FindCoordinatorResponse)
		id := kmsg.NewPtrInitProducerIDRequest()
		id.Version = 4
		given, ok2 := c.Ask(id).Response.(*kmsg.InitProducerIDResponse)
		ready := ok && ok2 && found.ErrorCode == 0 && given.ErrorCode == 0
		for _, g := range []string{"a", "b", "c", "d"} { // one in each of four partitions
			hb := kmsg.NewPtrHeartbeatRequest()
			hb.Group, hb.MemberID = g, "nobody"
			got, ok := c.Ask(hb).Response.(*kmsg.HeartbeatResponse)
			ready = ready && ok && got.ErrorCode == 25
		}
		if ready {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.New("coordinators did not come up")
}

// createTopic makes a topic to work on and waits until its partitions have
// leaders.
func (s *Side) createTopic(name string, partitions int32, configs ...string) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = s.Topic(name), partitions, 1
	for i := 0; i+1 < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	s.Do(5, req)
	for range 500 {
		m := kmsg.NewPtrMetadataRequest()
		mt := kmsg.NewMetadataRequestTopic()
		mt.Topic = kmsg.StringPtr(s.Topic(name))
		m.Topics = append(m.Topics, mt)
		got, ok := s.Do(9, m).Response.(*kmsg.MetadataResponse)
		if ok && len(got.Topics) == 1 && got.Topics[0].ErrorCode == 0 && s.serves(name, int32(len(got.Topics[0].Partitions))) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.err = errors.New("topic " + s.Topic(name) + " did not come up")
}

// serves says whether every partition answers its end offset: a Kafka leader
// may be named some milliseconds before it serves.
func (s *Side) serves(name string, partitions int32) bool {
	l := kmsg.NewPtrListOffsetsRequest()
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = s.Topic(name)
	for p := range partitions {
		lp := kmsg.NewListOffsetsRequestTopicPartition()
		lp.Partition, lp.Timestamp, lp.CurrentLeaderEpoch = p, -1, -1
		t.Partitions = append(t.Partitions, lp)
	}
	l.ReplicaID = -1
	l.Topics = append(l.Topics, t)
	got, ok := s.Do(5, l).Response.(*kmsg.ListOffsetsResponse)
	if !ok || len(got.Topics) != 1 {
		return false
	}
	for _, p := range got.Topics[0].Partitions {
		if p.ErrorCode != 0 {
			return false
		}
	}
	return true
}

// topicID asks for the id of a topic of this run; zero if there is none.
func (s *Side) topicID(name string) [16]byte { return s.idOf(s.Topic(name)) }

// idOf asks for a topic's id.
func (s *Side) idOf(topic string) [16]byte {
	m := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = kmsg.StringPtr(topic)
	m.Topics = append(m.Topics, mt)
	if got, ok := s.Do(12, m).Response.(*kmsg.MetadataResponse); ok && len(got.Topics) == 1 {
		return got.Topics[0].TopicID
	}
	return [16]byte{}
}
