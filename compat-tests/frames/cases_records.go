package frames

import (
	"fmt"
	"math"
	"millrace/compat-tests/batch"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cases of what lies in partitions: their records, their producers and the
// directories they lie in.
func recordCases() []Case {
	return []Case{
		{API: kmsg.DeleteRecords, Name: "offsets", Run: deleteOffsets},
		{API: kmsg.DeleteRecords, Name: "who and what", Run: deleteErrors},
		{API: kmsg.DeleteRecords, Name: "policies", Run: deletePolicies},
		{API: kmsg.DeleteRecords, Name: "seen by others", Run: deletedSeen},
		{API: kmsg.DescribeProducers, Name: "producers", Run: describeProducers},
		{API: kmsg.DescribeProducers, Name: "who and what", Run: describeProducersErrors},
		{API: kmsg.DescribeLogDirs, Name: "directories", Run: describeDirs},
		{API: kmsg.DescribeLogDirs, Name: "sizes", Run: describeSizes},
	}
}

// below is one partition of a DeleteRecords request.
type below struct {
	topic  string
	index  int32
	offset int64
}

func (s *Side) deleting(parts ...below) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 3000
	for _, p := range parts {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != s.Topic(p.topic) {
			t := kmsg.NewDeleteRecordsRequestTopic()
			t.Topic = s.Topic(p.topic)
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		rp := kmsg.NewDeleteRecordsRequestTopicPartition()
		rp.Partition, rp.Offset = p.index, p.offset
		t.Partitions = append(t.Partitions, rp)
	}
	return req
}

func deleteOffsets(s *Side) {
	s.createTopic("a", 3)
	s.createTopic("empty", 1)
	for i := range int32(3) {
		s.writeTo("a", i, plain("0", "1", "2"))
		s.writeTo("a", i, plain("3", "4"))
	}
	// In the middle of a batch, at its end, back, beyond the end, and the end.
	for _, o := range []int64{0, 1, 1, 3, 2, 0, 6, math.MaxInt64, -2, math.MinInt64, 4, 5, 4, -1, 6} {
		s.Ask(fmt.Sprintf("below %d", o), s.deleting(below{"a", 0, o}))
	}
	s.stored("partition 0", "a", 0)
	s.Ask("high watermark", s.deleting(below{"a", 1, -1}))
	s.Ask("high watermark again", s.deleting(below{"a", 1, -1}))
	for _, o := range []int64{-1, 0, 1} {
		s.Ask(fmt.Sprintf("nothing there, below %d", o), s.deleting(below{"empty", 0, o}))
	}
	s.writeTo("a", 1, plain("5"))
	s.Ask("a record later", s.deleting(below{"a", 1, 6}))
}

func deleteErrors(s *Side) {
	s.createTopic("a", 2)
	s.createTopic("b", 1)
	s.writeTo("a", 0, plain("0", "1", "2", "3"))
	s.writeTo("a", 1, plain("0", "1", "2", "3"))
	s.writeTo("b", 0, plain("0", "1"))
	for _, name := range []string{"no", "", "bad name", strings.Repeat("x", 300)} {
		req := s.deleting(below{name, 0, 0})
		if name == "" {
			req.Topics[0].Topic = ""
		}
		s.Ask(fmt.Sprintf("topic of %d letters", len(name)), req)
	}
	for _, p := range []int32{2, -1, math.MaxInt32, math.MinInt32} {
		s.Ask(fmt.Sprintf("partition %d", p), s.deleting(below{"a", p, 0}))
	}
	for _, name := range []string{"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"} {
		for _, o := range []int64{0, -1, 1 << 40} {
			req := s.deleting(below{"x", 0, o})
			req.Topics[0].Topic = name
			if name == "__transaction_state" || name == "__share_group_state" {
				continue // who has them depends on what else was asked
			}
			s.Ask(fmt.Sprintf("%s below %d", name, o), req)
		}
	}
	s.Ask("nothing", s.deleting())
	none := s.deleting(below{"a", 0, 0})
	none.Topics[0].Partitions = nil
	s.Ask("no partitions", none)
	s.Ask("twice, the last higher", s.deleting(below{"a", 0, 1}, below{"a", 0, 2}))
	s.Ask("twice, the last lower", s.deleting(below{"a", 0, 4}, below{"a", 0, 3}))
	s.Ask("twice, the last bad", s.deleting(below{"a", 0, 4}, below{"a", 0, 9}))
	s.Ask("twice, apart", s.deleting(below{"a", 1, 1}, below{"b", 0, 1}, below{"a", 1, 2}))
	s.Ask("several", s.deleting(below{"a", 0, 4}, below{"a", 1, 9}, below{"no", 0, 0}, below{"b", 0, -1}, below{"b", 7, -1}))
	for _, ms := range []int32{0, -1, math.MinInt32, math.MaxInt32} {
		req := s.deleting(below{"a", 1, 3}, below{"no", 0, 0})
		req.TimeoutMillis = ms
		s.Ask(fmt.Sprintf("within %d ms", ms), req)
	}
}

func deletePolicies(s *Side) {
	for _, policy := range []string{"delete", "compact", "compact,delete", "delete,compact"} {
		name := strings.ReplaceAll(policy, ",", "-")
		s.createTopic(name, 1, "cleanup.policy", policy)
		b := plain("0", "1")
		for i := range b.Records {
			b.Records[i].Key = []byte{byte(i)}
		}
		s.write(name, b)
		for _, o := range []int64{7, -7, 1, -1} {
			s.Ask(fmt.Sprintf("%s: below %d", policy, o), s.deleting(below{name, 0, o}))
		}
		s.Ask(policy+": no such partition", s.deleting(below{name, 3, 1}))
	}
}

// deletedSeen is what other requests say of a log whose start has moved.
func deletedSeen(s *Side) {
	s.createTopic("a", 1)
	s.write("a", plain("0", "1", "2"))
	s.write("a", plain("3"))
	for _, o := range []int64{2, 3, 4} {
		s.Ask(fmt.Sprintf("below %d", o), s.deleting(below{"a", 0, o}))
		for _, at := range []int64{-1, -2, -3, 0} {
			s.AskIn(7, fmt.Sprintf("offset at %d after %d", at, o), s.listing(listed{topic: "a", at: at}))
		}
		s.produceAfter(o)
		epoch := kmsg.NewPtrOffsetForLeaderEpochRequest()
		epoch.ReplicaID = -1
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = s.Topic("a")
		rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		rp.CurrentLeaderEpoch, rp.LeaderEpoch = -1, 0
		t.Partitions = append(t.Partitions, rp)
		epoch.Topics = append(epoch.Topics, t)
		s.AskIn(3, fmt.Sprintf("epoch's end after %d", o), epoch)
	}
	s.stored("the rest", "a", 0)
}

// produceAfter compares what a producer is told of the log start.
func (s *Side) produceAfter(o int64) {
	s.AskIn(9, fmt.Sprintf("a record after %d", o), s.writing(9, -1, part{"a", 0, plain("x").Bytes()}))
}

func (s *Side) producersOf(topic string, partitions ...int32) *kmsg.DescribeProducersRequest {
	req := kmsg.NewPtrDescribeProducersRequest()
	t := kmsg.NewDescribeProducersRequestTopic()
	t.Topic, t.Partitions = s.Topic(topic), partitions
	req.Topics = append(req.Topics, t)
	return req
}

func describeProducers(s *Side) {
	s.createTopic("a", 2)
	s.Ask("none", s.producersOf("a", 0, 1))
	s.write("a", plain("0"))
	s.Ask("a producer without id", s.producersOf("a", 0))
	// Ids that no server gives out, so that both have the same.
	write := func(index int32, id int64, epoch int16, sequence int32, values ...string) {
		b := plain(values...)
		s.writeTo("a", index, b.From(id, epoch, sequence))
	}
	write(0, 900_001, 0, 0, "0", "1", "2")
	s.Ask("one", s.producersOf("a", 0, 1))
	write(0, 900_001, 0, 3, "3")
	write(0, 900_002, 4, 0, "0")
	write(1, 900_001, 7, 0, "0", "1")
	s.Ask("two", s.producersOf("a", 0, 1))
	write(0, 900_001, 1, 0, "0")
	s.Ask("a new epoch", s.producersOf("a", 0, 1))
	s.Do(1, s.deleting(below{"a", 0, -1}))
	s.Ask("its records deleted", s.producersOf("a", 0, 1))
	write(1, 900_003, 0, math.MaxInt32-1, "0", "1")
	s.Ask("the largest sequence", s.producersOf("a", 1))
	write(1, 900_003, 0, 0, "0")
	s.Ask("the sequence starts anew", s.producersOf("a", 1))
}

func describeProducersErrors(s *Side) {
	s.createTopic("a", 1)
	b := plain("0")
	s.write("a", b.From(900_001, 0, 0))
	for _, name := range []string{"no", "", "bad name", strings.Repeat("x", 300)} {
		req := s.producersOf(name, 0, 5)
		if name == "" {
			req.Topics[0].Topic = ""
		}
		s.Ask(fmt.Sprintf("topic of %d letters", len(name)), req)
	}
	s.Ask("partitions", s.producersOf("a", 1, -1, 0, math.MaxInt32))
	s.Ask("no partitions", s.producersOf("a"))
	s.Ask("nothing", kmsg.NewPtrDescribeProducersRequest())
	s.Ask("a partition twice", s.producersOf("a", 0, 0))
	twice := s.producersOf("a", 0)
	twice.Topics = append(twice.Topics, s.producersOf("no", 0).Topics...)
	twice.Topics = append(twice.Topics, s.producersOf("a", 1).Topics...)
	s.Ask("a topic twice", twice)
	offsets := s.producersOf("a", 0)
	offsets.Topics[0].Topic = "__consumer_offsets"
	s.Ask("an internal topic", offsets)
	meta := s.producersOf("a", 0)
	meta.Topics[0].Topic = "__cluster_metadata"
	s.Ask("the metadata", meta)
}

// logDirs asks for the directories and keeps of the answer what is this run's.
func (s *Side) logDirs(what string, topics ...kmsg.DescribeLogDirsRequestTopic) {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Topics = topics
	s.AskFor(what, req, func(r kmsg.Response) {
		resp := r.(*kmsg.DescribeLogDirsResponse)
		for i := range resp.Dirs {
			d := &resp.Dirs[i]
			kept := []kmsg.DescribeLogDirsResponseDirTopic{}
			for _, t := range d.Topics {
				if strings.HasPrefix(t.Topic, s.Prefix) {
					kept = append(kept, t)
				}
			}
			d.Topics = kept
		}
	})
}

func (s *Side) dirTopic(topic string, partitions ...int32) kmsg.DescribeLogDirsRequestTopic {
	t := kmsg.NewDescribeLogDirsRequestTopic()
	t.Topic, t.Partitions = s.Topic(topic), partitions
	return t
}

func describeDirs(s *Side) {
	s.createTopic("a", 3)
	s.createTopic("b", 1)
	s.write("a", plain("0", "1"))
	s.writeTo("a", 2, plain(strings.Repeat("x", 1000)))
	s.logDirs("all") // null
	s.logDirs("none", []kmsg.DescribeLogDirsRequestTopic{}...)
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{}
	s.Ask("an empty list", req)
	s.logDirs("one", s.dirTopic("a", 0))
	s.logDirs("some", s.dirTopic("a", 2, 0), s.dirTopic("b", 0))
	s.logDirs("twice", s.dirTopic("a", 0, 0), s.dirTopic("b", 0), s.dirTopic("a", 0, 1))
	s.logDirs("partitions", s.dirTopic("a", 3, -1, math.MaxInt32, 1))
	s.logDirs("no partitions", s.dirTopic("a"))
	s.logDirs("strangers", s.dirTopic("no", 0), s.dirTopic("bad name", 0), s.dirTopic("a", 0))
	s.logDirs("a stranger alone", s.dirTopic("no", 0))
	offsets := s.dirTopic("a", 0, 1, 2, 3)
	offsets.Topic = "__consumer_offsets"
	s.AskFor("an internal topic", &kmsg.DescribeLogDirsRequest{Topics: []kmsg.DescribeLogDirsRequestTopic{offsets}}, func(r kmsg.Response) {
		for _, d := range r.(*kmsg.DescribeLogDirsResponse).Dirs {
			for _, t := range d.Topics {
				for i := range t.Partitions {
					t.Partitions[i].Size = 0 // other cases write to it
				}
			}
		}
	})
}

// describeSizes holds sizes to the byte, whatever was rolled, compressed or
// deleted.
func describeSizes(s *Side) {
	s.createTopic("a", 1, "segment.bytes", "1048576", "max.message.bytes", "2000000", "retention.ms", "-1")
	s.logDirs("empty")
	for i := range 4 {
		s.write("a", plain(strings.Repeat("x", 700_000+i)))
		s.write("a", plain("v"))
		s.logDirs(fmt.Sprintf("%d", i))
	}
	s.Do(1, s.deleting(below{"a", 0, 1}))
	s.logDirs("a record deleted")
	s.createTopic("packed", 1)
	b := plain(strings.Repeat("y", 10_000))
	b.Codec = batch.Gzip
	s.write("packed", b)
	s.createTopic("repacked", 1, "compression.type", "uncompressed")
	s.write("repacked", b)
	s.logDirs("compressed")
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames = 5000, []string{s.Topic("packed")}
	s.Do(5, req)
	pause(300)
	s.logDirs("a topic deleted")
}
