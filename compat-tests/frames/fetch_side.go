package frames

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// read is one partition of a Fetch request.
type read struct {
	topic     string
	index     int32
	offset    int64
	max       int32 // 0: a MiB; use none for zero
	epoch     *int32
	lastEpoch *int32
	id        *[16]byte
}

// none is a limit of no bytes.
const none = -1 << 20

// reading is a Fetch request that waits for nothing; parts of one topic that
// stand together share an entry.
func (s *Side) reading(version int16, parts ...read) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.ReplicaID, req.MaxBytes = version, -1, 50<<20
	req.ReplicaState.ID, req.ReplicaState.Epoch = -1, -1
	req.SessionEpoch = -1
	for _, p := range parts {
		name, topicID := s.Topic(p.topic), [16]byte{}
		if version >= 13 {
			if topicID = s.id(p.topic); p.id != nil {
				topicID = *p.id
			}
		}
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != name || req.Topics[n-1].TopicID != topicID {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = name, topicID
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p.index, p.offset, 1<<20
		rp.CurrentLeaderEpoch, rp.LastFetchedEpoch, rp.LogStartOffset = -1, -1, -1
		switch {
		case p.max == none:
			rp.PartitionMaxBytes = 0
		case p.max != 0:
			rp.PartitionMaxBytes = p.max
		}
		if p.epoch != nil {
			rp.CurrentLeaderEpoch = *p.epoch
		}
		if p.lastEpoch != nil {
			rp.LastFetchedEpoch = *p.lastEpoch
		}
		t.Partitions = append(t.Partitions, rp)
	}
	return req
}

func (s *Side) fetch(what string, parts ...read) frame.Outcome {
	return s.Ask(what, s.reading(s.Version, parts...))
}

// timed asks and compares whether the answer took about as long as told.
func (s *Side) timed(what string, want time.Duration, req kmsg.Request) frame.Outcome {
	o := s.Ask(what, req)
	if want == 0 {
		s.Check(what+" at once", o.Took < 2*time.Second)
	} else {
		s.Check(what+" waits", o.Took >= want-20*time.Millisecond)
	}
	return o
}
