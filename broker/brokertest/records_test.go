package brokertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// deleteBelow asks to delete records of one partition, and tells the answer as
// "error at low watermark".
func deleteBelow(t *testing.T, n *Node, c *kgo.Client, topic string, index int32, offset int64) string {
	t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 1000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	rt.Partitions = []kmsg.DeleteRecordsRequestTopicPartition{{Partition: index, Offset: offset}}
	req.Topics = append(req.Topics, rt)
	p := ask[*kmsg.DeleteRecordsResponse](t, n, c, req).Topics[0].Partitions[0]
	return fmt.Sprintf("%d at %d", p.ErrorCode, p.LowWatermark)
}

// earliest is the log start of partition 0 as clients are told it.
func earliest(t *testing.T, c *kgo.Client, topic string) int64 {
	t.Helper()
	got, err := kadm.NewClient(c).ListStartOffsets(context.Background(), topic)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := got.Lookup(topic, 0)
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	return o.Offset
}

func TestDeleteRecordsAnswers(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
		makeTopic(t, n, c, "a", 2)
		makeTopic(t, n, c, "packed", 1, "cleanup.policy", "compact")
		makeTopic(t, n, c, "both", 1, "cleanup.policy", "compact,delete")
		for _, topic := range []string{"a", "packed", "both"} {
			Produce(t, c, topic, "v", 10)
		}
		for _, q := range []struct {
			topic  string
			index  int32
			offset int64
			want   string
		}{
			{"a", 0, 3, "0 at 3"}, {"a", 0, 2, "0 at 3"}, {"a", 0, 11, "1 at -1"}, {"a", 0, -2, "1 at -1"}, {"a", 0, -1, "0 at 10"},
			{"a", 1, 0, "0 at 0"}, {"a", 1, 1, "1 at -1"}, {"a", 2, 0, "3 at -1"}, {"a", -1, 0, "3 at -1"}, {"none", 0, 0, "3 at -1"},
			{"packed", 0, 1, "44 at -1"}, {"packed", 0, 100, "44 at -1"}, {"both", 0, 1, "0 at 1"},
		} {
			if got := deleteBelow(t, n, c, q.topic, q.index, q.offset); got != q.want {
				t.Errorf("%s/%d below %d: %s, want %s", q.topic, q.index, q.offset, got, q.want)
			}
		}
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKeys = []string{"g"}
		ask[*kmsg.FindCoordinatorResponse](t, n, c, find) // which makes the topic
		if got := deleteBelow(t, n, c, "__consumer_offsets", 0, 0); got != "17 at -1" {
			t.Errorf("an internal topic: %s", got)
		}
	})
}

// TestDeletedRecordsStayDeleted: what was answered outlives a stop, a kill at
// once, and a power cut.
func TestDeletedRecordsStayDeleted(t *testing.T) {
	ends := map[string]func(*Node){"power cut": (*Node).PowerCut}
	for name, end := range restarts {
		ends[name] = end
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			bubble(t, map[string]string{"log.flush.interval.messages": "1"}, func(t *testing.T, n *Node) {
				c := n.Client()
				makeTopic(t, n, c, "a", 1)
				Produce(t, c, "a", "v", 20)
				if got := deleteBelow(t, n, c, "a", 0, 7); got != "0 at 7" {
					t.Fatal(got)
				}
				end(n)
				n.Start()
				if at := earliest(t, n.Client(), "a"); at != 7 {
					t.Errorf("the log starts at %d, not 7", at)
				}
				again := Consume(t, n.Client(kgo.ConsumeTopics("a"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), 13)
				if again[0].Offset != 7 || string(again[0].Value) != "v7" {
					t.Errorf("the first record is %d %q", again[0].Offset, again[0].Value)
				}
			})
		})
	}
}

// TestDeletedSegmentsGo: the files of what was deleted go with retention, not
// before, and the partition's size says so.
func TestDeletedSegmentsGo(t *testing.T) {
	bubble(t, map[string]string{"log.retention.check.interval.ms": "60000"}, func(t *testing.T, n *Node) {
		c := n.Client()
		makeTopic(t, n, c, "a", 1, "internal.segment.bytes", "200", "retention.ms", "-1")
		for range 5 {
			Produce(t, c, "a", strings.Repeat("x", 150), 1)
		}
		before := sizes(t, n, c, "a")["/data a-0"]
		if got := deleteBelow(t, n, c, "a", 0, 4); got != "0 at 4" {
			t.Fatal(got)
		}
		if now := sizes(t, n, c, "a")["/data a-0"]; now != before {
			t.Errorf("%d bytes at once, %d before", now, before)
		}
		time.Sleep(2 * time.Minute)
		after := sizes(t, n, c, "a")["/data a-0"]
		if after*4 > before {
			t.Errorf("%d bytes are left of %d", after, before)
		}
		var onDisk int64
		names, err := n.Disk.ReadDir("/data/a-0")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name.Name, ".log") {
				info, err := n.Disk.Stat("/data/a-0/" + name.Name)
				if err != nil {
					t.Fatal(err)
				}
				onDisk += info.Size
			}
		}
		if onDisk != after {
			t.Errorf("the segments have %d bytes, told are %d", onDisk, after)
		}
	})
}

// sizes asks for directories and tells "dir topic-partition" to size; a
// directory that is offline is there as "dir error".
func sizes(t *testing.T, n *Node, c *kgo.Client, topics ...string) map[string]int64 {
	t.Helper()
	req := kmsg.NewPtrDescribeLogDirsRequest()
	for _, topic := range topics {
		rt := kmsg.NewDescribeLogDirsRequestTopic()
		rt.Topic = topic
		for p := range int32(20) {
			rt.Partitions = append(rt.Partitions, p)
		}
		req.Topics = append(req.Topics, rt)
	}
	out := map[string]int64{}
	for _, d := range ask[*kmsg.DescribeLogDirsResponse](t, n, c, req).Dirs {
		if d.ErrorCode != 0 {
			out[d.Dir+" "+kerr.ErrorForCode(d.ErrorCode).Error()] = -1
		} else if d.TotalBytes != 1<<40 || d.UsableBytes != 1<<39 {
			t.Errorf("%s: %d bytes of %d", d.Dir, d.UsableBytes, d.TotalBytes)
		}
		for _, rt := range d.Topics {
			for _, p := range rt.Partitions {
				out[fmt.Sprintf("%s %s-%d", d.Dir, rt.Topic, p.Partition)] = p.Size
			}
		}
	}
	return out
}

func TestProducersAreDescribed(t *testing.T) {
	bubble(t, map[string]string{"producer.id.expiration.ms": "3600000"}, func(t *testing.T, n *Node) {
		c := n.Client()
		makeTopic(t, n, c, "a", 1)
		for _, sequence := range []int32{0, 1, 2} {
			if err := produceSequence(n, c, "a", 7001, sequence); err != nil {
				t.Fatal(err)
			}
		}
		if err := produceSequence(n, c, "a", 7000, 0); err != nil {
			t.Fatal(err)
		}
		describe := func() string {
			req := kmsg.NewPtrDescribeProducersRequest()
			rt := kmsg.NewDescribeProducersRequestTopic()
			rt.Topic, rt.Partitions = "a", []int32{0, 1}
			req.Topics = append(req.Topics, rt)
			var out []string
			for _, p := range ask[*kmsg.DescribeProducersResponse](t, n, c, req).Topics[0].Partitions {
				s := fmt.Sprintf("%d: %d", p.Partition, p.ErrorCode)
				for _, a := range p.ActiveProducers {
					s += fmt.Sprintf(" [%d epoch %d sequence %d coordinator %d transaction %d]", a.ProducerID, a.ProducerEpoch, a.LastSequence, a.CoordinatorEpoch, a.CurrentTxnStartOffset)
				}
				out = append(out, s)
			}
			return strings.Join(out, ", ")
		}
		const want = "0: 0 [7000 epoch 0 sequence 0 coordinator -1 transaction -1] [7001 epoch 0 sequence 2 coordinator -1 transaction -1], 1: 3"
		if got := describe(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		n.Kill()
		n.Start()
		c = n.Client()
		if got := describe(); got != want {
			t.Errorf("after a kill\ngot  %s\nwant %s", got, want)
		}
		time.Sleep(2 * time.Hour)
		if got := describe(); got != "0: 0, 1: 3" {
			t.Errorf("after they have expired: %s", got)
		}
	})
}
