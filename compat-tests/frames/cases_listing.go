package frames

import (
	"fmt"
	"math"
	"millrace/compat-tests/batch"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func listingCases() []Case {
	return []Case{
		{API: kmsg.ListOffsets, Name: "old offsets", Below: 1, Run: listOld},
		{API: kmsg.ListOffsets, Name: "times", From: 1, Run: listTimes},
		{API: kmsg.ListOffsets, Name: "who and what", Run: listErrors},
		{API: kmsg.ListOffsets, Name: "append time", From: 1, Run: listAppendTime},
		{API: kmsg.OffsetForLeaderEpoch, Name: "epochs", Run: endOffsets},
	}
}

// listed is one partition of a ListOffsets request.
type listed struct {
	topic string
	index int32
	at    int64
	epoch *int32
	most  int32 // v0; 0: 10
}

func (s *Side) listing(parts ...listed) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	req.TimeoutMillis = 2000
	for _, p := range parts {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != s.Topic(p.topic) {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = s.Topic(p.topic)
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch, rp.MaxNumOffsets = p.index, p.at, -1, 10
		if p.epoch != nil {
			rp.CurrentLeaderEpoch = *p.epoch
		}
		if p.most != 0 {
			rp.MaxNumOffsets = p.most
		}
		t.Partitions = append(t.Partitions, rp)
	}
	return req
}

func listOld(s *Side) {
	s.createTopic("a", 1, "segment.bytes", "1048576", "max.message.bytes", "2000000")
	s.createTopic("empty", 1)
	big := plain(strings.Repeat("x", 900_000))
	for range 4 {
		s.write("a", big) // each in a segment of its own
		s.write("a", plain("v"))
	}
	hour := int64(3600e3)
	now := time.Now().UnixMilli()
	for _, topic := range []string{"a", "empty"} {
		for _, most := range []int32{10, 1, 2, 4, 5, math.MaxInt32} {
			s.Ask(fmt.Sprintf("%s: latest, %d", topic, most), s.listing(listed{topic: topic, at: -1, most: most}))
		}
		s.Ask(topic+": earliest", s.listing(listed{topic: topic, at: -2}))
		s.Ask(topic+": an hour ago", s.listing(listed{topic: topic, at: now - hour}))
		s.Ask(topic+": in an hour", s.listing(listed{topic: topic, at: now + hour}))
		s.Ask(topic+": in an hour, 3", s.listing(listed{topic: topic, at: now + hour, most: 3}))
		s.Ask(topic+": at 0", s.listing(listed{topic: topic, at: 0}))
		s.Ask(topic+": at -3", s.listing(listed{topic: topic, at: -3}))
		s.Ask(topic+": at -7", s.listing(listed{topic: topic, at: -7}))
		s.Ask(topic+": fewer than none", s.listing(listed{topic: topic, at: -1, most: -1}))
		none := s.listing(listed{topic: topic, at: -1})
		none.Topics[0].Partitions[0].MaxNumOffsets = 0
		s.Ask(topic+": none", none)
		for _, replica := range []int32{-2, 1, 7} {
			req := s.listing(listed{topic: topic, at: -1})
			req.ReplicaID = replica
			s.Ask(fmt.Sprintf("%s: replica %d", topic, replica), req)
		}
	}
	s.Ask("the same twice", s.listing(listed{topic: "a", at: -1}, listed{topic: "a", at: -2}))
}

func listTimes(s *Side) {
	s.createTopic("a", 1)
	s.createTopic("empty", 1)
	stamped := func(times ...int64) batch.Batch {
		b := batch.Of()
		for _, t := range times {
			r := batch.Valued("v")
			r.At = t
			b.Records = append(b.Records, r)
		}
		return b
	}
	s.write("a", stamped(0, 10, 20))
	s.write("a", stamped(30))
	s.write("a", stamped(25, 50, 50, 40))
	s.write("a", stamped(45))
	for _, topic := range []string{"a", "empty"} {
		for _, t := range []int64{-1, -2, -3, -4, -5, -6, -7, -100, math.MinInt64} {
			s.Ask(fmt.Sprintf("%s at %d", topic, t), s.listing(listed{topic: topic, at: t}))
		}
		for _, t := range []int64{-1, 0, 1, 10, 11, 25, 26, 31, 45, 50, 51} {
			s.Ask(fmt.Sprintf("%s after %d", topic, t), s.listing(listed{topic: topic, at: then + t}))
		}
		s.Ask(topic+" at the beginning of time", s.listing(listed{topic: topic, at: 0}))
		s.Ask(topic+" at its end", s.listing(listed{topic: topic, at: math.MaxInt64}))
		for _, level := range []int8{1, 2, -1} {
			for _, t := range []int64{-1, -2, -3, then + 5, then + 500} {
				req := s.listing(listed{topic: topic, at: t})
				req.IsolationLevel = level
				s.Ask(fmt.Sprintf("%s at %d, isolation %d", topic, t-then, level), req)
			}
		}
	}
	none := stamped(1, 2)
	none.First, none.Records[0].At, none.Records[1].At = -1, 0, 0
	s.createTopic("timeless", 1)
	s.write("timeless", none)
	for _, t := range []int64{-1, -2, -3, 0, then} {
		s.Ask(fmt.Sprintf("timeless at %d", t), s.listing(listed{topic: "timeless", at: t}))
	}
}

func listErrors(s *Side) {
	s.createTopic("a", 2)
	s.write("a", plain("0", "1"))
	s.Ask("topic", s.listing(listed{topic: "no", at: -1}))
	s.Ask("malformed name", s.listing(listed{topic: "a b", at: -1}))
	for _, p := range []int32{2, -1, math.MaxInt32, math.MinInt32} {
		s.Ask(fmt.Sprintf("partition %d", p), s.listing(listed{topic: "a", index: p, at: -1}))
		s.Ask(fmt.Sprintf("partition %d and bad time", p), s.listing(listed{topic: "a", index: p, at: -99}))
	}
	s.Ask("nothing", s.listing())
	s.Ask("several", s.listing(listed{topic: "a", at: -1}, listed{topic: "a", index: 1, at: -2}, listed{topic: "no", at: -1}))
	if s.Version > 0 {
		s.Ask("twice", s.listing(listed{topic: "a", at: -1}, listed{topic: "a", at: -2}, listed{topic: "a", index: 1, at: -1}))
		s.Ask("twice, apart", s.listing(listed{topic: "a", at: -1}, listed{topic: "no", at: -1}, listed{topic: "a", at: -1}))
		s.Ask("three times a stranger", s.listing(listed{topic: "no", at: -1}, listed{topic: "no", at: -1}, listed{topic: "no", at: -1}))
	}
	hollow := s.listing(listed{topic: "no", at: -1}, listed{topic: "a", at: -1}, listed{topic: "b", at: -1})
	hollow.Topics[1].Partitions = nil
	s.Ask("a topic without partitions", hollow)
	hollow.Topics[0].Partitions, hollow.Topics[2].Partitions = nil, nil
	s.Ask("topics without partitions", hollow)
	hollow.IsolationLevel = 7
	s.Ask("topics without partitions at an isolation level that is none", hollow)
	for _, replica := range []int32{-2, -3, 0, 1, 7} {
		for _, t := range []int64{-1, -2, then} {
			req := s.listing(listed{topic: "a", at: t})
			req.ReplicaID = replica
			s.Ask(fmt.Sprintf("replica %d at %d", replica, t-then), req)
		}
	}
	if s.Version >= 4 {
		for _, e := range []int32{0, 1, 9, -2, math.MinInt32} {
			for _, t := range []int64{-1, -2, then} {
				s.Ask(fmt.Sprintf("epoch %d at %d", e, t-then), s.listing(listed{topic: "a", at: t, epoch: &e}))
			}
		}
		s.Ask("an epoch of a stranger", s.listing(listed{topic: "no", at: -1, epoch: batch.To(int32(7))}))
		s.Ask("a bad epoch and a bad time", s.listing(listed{topic: "a", at: -99, epoch: batch.To(int32(7))}))
	}
}

func listAppendTime(s *Side) {
	s.createTopic("a", 1, "message.timestamp.type", "LogAppendTime")
	s.write("a", plain("0", "1", "2"))
	for _, t := range []int64{0, then} {
		o := s.Do(s.Version, s.listing(listed{topic: "a", at: t}))
		if resp, ok := o.Response.(*kmsg.ListOffsetsResponse); ok {
			p := resp.Topics[0].Partitions[0]
			s.Check(fmt.Sprintf("at %d", t-then), map[string]any{"error": p.ErrorCode, "offset": p.Offset, "epoch": p.LeaderEpoch, "recent": time.Now().UnixMilli()-p.Timestamp < 60e3})
		} else {
			s.Fail("%v", o)
		}
	}
	if s.Version >= 7 {
		s.AskFor("largest time", s.listing(listed{topic: "a", at: -3}), func(r kmsg.Response) {
			p := &r.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
			if time.Now().UnixMilli()-p.Timestamp < 60e3 {
				p.Timestamp = 1
			}
		})
	}
}

func endOffsets(s *Side) {
	s.createTopic("a", 2)
	s.createTopic("empty", 1)
	s.write("a", plain("0", "1"))
	type asked struct {
		topic          string
		index          int32
		current, epoch int32
	}
	ask := func(what string, parts ...asked) {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.ReplicaID = -1
		for _, p := range parts {
			if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != s.Topic(p.topic) {
				t := kmsg.NewOffsetForLeaderEpochRequestTopic()
				t.Topic = s.Topic(p.topic)
				req.Topics = append(req.Topics, t)
			}
			t := &req.Topics[len(req.Topics)-1]
			rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = p.index, p.current, p.epoch
			t.Partitions = append(t.Partitions, rp)
		}
		s.Ask(what, req)
	}
	for _, topic := range []string{"a", "empty"} {
		for _, e := range []int32{0, 1, 9, -1, -2, math.MaxInt32} {
			ask(fmt.Sprintf("%s: epoch %d", topic, e), asked{topic, 0, -1, e})
		}
		if s.Version >= 2 {
			for _, e := range []int32{0, 1, 9, -2, math.MinInt32} {
				ask(fmt.Sprintf("%s: current epoch %d", topic, e), asked{topic, 0, e, 0})
			}
		}
	}
	ask("topic", asked{"no", 0, -1, 0})
	for _, p := range []int32{2, -1, math.MaxInt32} {
		ask(fmt.Sprintf("partition %d", p), asked{"a", p, -1, 0})
	}
	ask("several", asked{"a", 0, -1, 0}, asked{"a", 1, -1, 0}, asked{"no", 0, -1, 0}, asked{"empty", 0, -1, 0})
	ask("twice", asked{"a", 0, -1, 0}, asked{"a", 0, -1, 5})
	ask("none")
	if s.Version >= 3 {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		for _, replica := range []int32{-2, -1, 7} {
			req.ReplicaID = replica
			t := kmsg.NewOffsetForLeaderEpochRequestTopic()
			t.Topic = s.Topic("a")
			rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			rp.CurrentLeaderEpoch = -1
			t.Partitions = append(t.Partitions, rp)
			req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{t}
			s.Ask(fmt.Sprintf("replica %d", replica), req)
		}
	}
}
