package brokertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker"
)

// bubble runs f with a started node, and stops the node in order at its end.
func bubble(t *testing.T, props map[string]string, f func(t *testing.T, n *Node)) {
	synctest.Test(t, func(t *testing.T) {
		n := New(t, props)
		defer n.End()
		n.Start()
		f(t, n)
		n.Stop()
	})
}

func TestProduceAndConsume(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		p := n.Client(kgo.AllowAutoTopicCreation())
		Produce(t, p, "events", "v", 500)
		p.Close()
		c := n.Client(kgo.ConsumeTopics("events"), kgo.ConsumerGroup("readers"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer c.Close()
		seen := map[string]bool{}
		for i, r := range Consume(t, c, 500) {
			if r.Offset != int64(i) || seen[string(r.Value)] {
				t.Fatalf("record %d has offset %d and value %q", i, r.Offset, r.Value)
			}
			seen[string(r.Value)] = true
		}
		if err := c.CommitUncommittedOffsets(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}

// restarts are the ways a broker can go and come back.
var restarts = map[string]func(*Node){
	"in order": (*Node).Stop,
	"killed":   (*Node).Kill,
}

func TestWhatWasAcknowledgedOutlivesARestart(t *testing.T) {
	for name, end := range restarts {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, n *Node) {
				p := n.Client(kgo.AllowAutoTopicCreation())
				Produce(t, p, "events", "before", 100)
				first := n.Client(kgo.ConsumeTopics("events"), kgo.ConsumerGroup("readers"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
				got := Consume(t, first, 100)
				if err := first.CommitRecords(context.Background(), got[:40]...); err != nil {
					t.Fatal(err)
				}
				first.Close()
				end(n)
				n.Start()
				Produce(t, p, "events", "after", 10)
				p.Close()
				again := n.Client(kgo.ConsumeTopics("events"), kgo.ConsumerGroup("readers"), kgo.DisableAutoCommit())
				defer again.Close()
				rest := Consume(t, again, 70)
				if len(rest) != 70 || rest[0].Offset != got[40].Offset || string(rest[69].Value) != "after9" {
					t.Fatalf("resumed at %d with %d records, the last is %q", rest[0].Offset, len(rest), rest[len(rest)-1].Value)
				}
				if rest[60].LeaderEpoch <= rest[0].LeaderEpoch {
					t.Errorf("the leader epoch did not grow over the restart: %d, then %d", rest[0].LeaderEpoch, rest[60].LeaderEpoch)
				}
			})
		})
	}
}

func TestNodeIDIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(t, map[string]string{"node.id": "7"})
		defer n.End()
		n.Start()
		cluster := n.Info.ClusterID
		n.Stop()
		n.Configure("node.id", "")
		n.Start()
		if n.Info.NodeID != 7 || n.Info.ClusterID != cluster {
			t.Errorf("node %d of cluster %s came back as node %d of %s", 7, cluster, n.Info.NodeID, n.Info.ClusterID)
		}
		n.Stop()
		n.Configure("node.id", "8")
		if err := n.StartError(); !errors.Is(err, broker.ErrIdentity) {
			t.Errorf("as node 8 in the directory of node 7: %v", err)
		}
	})
}

func TestFlushedRecordsOutliveAPowerCut(t *testing.T) {
	bubble(t, map[string]string{"log.flush.interval.messages": "1"}, func(t *testing.T, n *Node) {
		p := n.Client(kgo.AllowAutoTopicCreation())
		Produce(t, p, "events", "v", 50)
		p.Close()
		n.PowerCut()
		n.Start()
		c := n.Client(kgo.ConsumeTopics("events"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer c.Close()
		if got := Consume(t, c, 50); len(got) != 50 {
			t.Fatalf("%d records", len(got))
		}
	})
}

// TestPowerCutIsNoticed shows the instrument to work: without the flush, the
// same cut loses the same records.
func TestPowerCutIsNoticed(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		p := n.Client(kgo.AllowAutoTopicCreation())
		Produce(t, p, "events", "v", 50)
		p.Close()
		n.PowerCut()
		n.Start()
		adm := n.Client()
		defer adm.Close()
		ends, err := kadm.NewClient(adm).ListEndOffsets(context.Background(), "events")
		if err != nil {
			t.Fatal(err)
		}
		if o, _ := ends.Lookup("events", 0); o.Offset != 0 {
			t.Fatalf("the log end is %d: the disk kept what nobody synced", o.Offset)
		}
	})
}

// TestSilentMemberIsExpired joins by hand: a member that nobody heartbeats for.
// (kgo's own group code blocks on a mutex while it waits, which stops a
// bubble's clock.)
func TestSilentMemberIsExpired(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		join := kmsg.NewPtrJoinGroupRequest()
		join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = "readers", 10000, 10000, "consumer"
		join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{}}}
		joined, err := join.RequestWith(context.Background(), c)
		if err != nil || joined.ErrorCode != kerr.MemberIDRequired.Code {
			t.Fatalf("first join: %+v %v", joined, err)
		}
		join.MemberID = joined.MemberID
		if joined, err = join.RequestWith(context.Background(), c); err != nil || joined.ErrorCode != 0 {
			t.Fatalf("second join: %+v %v", joined, err)
		}
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Group, sync.MemberID, sync.Generation = "readers", join.MemberID, joined.Generation
		sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
		if synced, err := sync.RequestWith(context.Background(), c); err != nil || synced.ErrorCode != 0 {
			t.Fatalf("sync: %+v %v", synced, err)
		}
		time.Sleep(9 * time.Second)
		waitForGroup(t, n, c, "readers", "Stable", 1)
		time.Sleep(2 * time.Second)
		waitForGroup(t, n, c, "readers", "Empty", 0)
	})
}

func waitForGroup(t *testing.T, n *Node, c *kgo.Client, group, state string, members int) {
	t.Helper()
	var last string
	for range 100 {
		g, err := kadm.NewClient(c).DescribeGroups(context.Background(), group)
		if err != nil {
			t.Fatal(err)
		}
		if last = fmt.Sprintf("%s with %d members", g[group].State, len(g[group].Members)); g[group].State == state && len(g[group].Members) == members {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("group %s is %s, not %s with %d", group, last, state, members)
}

func TestOffsetsExpire(t *testing.T) {
	bubble(t, map[string]string{"offsets.retention.minutes": "60", "offsets.retention.check.interval.ms": "60000"}, func(t *testing.T, n *Node) {
		p := n.Client(kgo.AllowAutoTopicCreation())
		defer p.Close()
		Produce(t, p, "events", "v", 1)
		adm := kadm.NewClient(p)
		var os kadm.Offsets
		os.Add(kadm.Offset{Topic: "events", Partition: 0, At: 1, LeaderEpoch: -1})
		if _, err := adm.CommitOffsets(context.Background(), "simple", os); err != nil {
			t.Fatal(err)
		}
		committed := func() int64 {
			t.Helper()
			got, err := adm.FetchOffsets(context.Background(), "simple")
			if err != nil {
				t.Fatal(err)
			}
			if o, ok := got.Lookup("events", 0); ok {
				return o.At
			}
			return -1
		}
		time.Sleep(55 * time.Minute)
		if at := committed(); at != 1 {
			t.Fatalf("after 55 minutes the offset is %d", at)
		}
		time.Sleep(10 * time.Minute)
		if at := committed(); at != -1 {
			t.Fatalf("after 65 minutes the offset is still %d", at)
		}
	})
}

func TestProducersExpire(t *testing.T) {
	bubble(t, map[string]string{"producer.id.expiration.ms": "3600000"}, func(t *testing.T, n *Node) {
		p := n.Client(kgo.AllowAutoTopicCreation())
		defer p.Close()
		Produce(t, p, "events", "v", 1)
		id, _, err := p.ProducerID(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		// A sequence with a gap is refused while the producer is known, and taken
		// as the first of a new one when it is forgotten.
		gap := func() error {
			return produceSequence(n, p, "events", id, 1000)
		}
		if err := gap(); err != kerr.OutOfOrderSequenceNumber {
			t.Fatalf("a gap in the sequence: %v", err)
		}
		time.Sleep(90 * time.Minute)
		if err := gap(); err != nil {
			t.Fatalf("after expiry: %v", err)
		}
	})
}

// produceSequence sends one batch of a producer by hand.
func produceSequence(n *Node, c *kgo.Client, topic string, id int64, sequence int32) error {
	r := kmsg.NewPtrProduceRequest()
	r.Acks, r.TimeoutMillis = -1, 1000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	meta, err := kadm.NewClient(c).Metadata(context.Background(), topic)
	if err != nil {
		return err
	}
	t.TopicID = meta.Topics[topic].ID
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = oneRecord(id, sequence)
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	resp, err := c.Broker(int(n.Info.NodeID)).Request(context.Background(), r)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
}
