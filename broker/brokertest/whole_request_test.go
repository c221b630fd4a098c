package brokertest

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestOneUnknownResourceTypeRefusesAll: Kafka describes nothing where one of the
// resources is of a type that has no configs.
func TestOneUnknownResourceTypeRefusesAll(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		makeTopic(t, n, c, "a", 1)
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: 2, ResourceName: "a"}, {ResourceType: 3, ResourceName: "a"}}
		for _, r := range ask[*kmsg.DescribeConfigsResponse](t, n, c, req).Resources {
			if r.ErrorCode != 42 || len(r.Configs) != 0 {
				t.Errorf("type %d: error %d, %d configs", r.ResourceType, r.ErrorCode, len(r.Configs))
			}
		}
	})
}

// TestUnknownIsolationLevel: Kafka falls over an isolation level that is none,
// but only where there is a partition to read.
func TestUnknownIsolationLevel(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		ids := map[string][16]byte{"a": makeTopic(t, n, c, "a", 1)}
		for parts, want := range map[string]int16{"a/0": -1, "stranger/0": 0} {
			req := reading(ids, 1<<20, 1<<20, parts)
			req.IsolationLevel = 7
			if got := ask[*kmsg.FetchResponse](t, n, c, req); got.ErrorCode != want {
				t.Errorf("%s: error %d, want %d", parts, got.ErrorCode, want)
			}
		}
	})
}

// TestOffsetDeleteOfATopicTwice: what was asked twice is answered twice.
func TestOffsetDeleteOfATopicTwice(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		id := makeTopic(t, n, c, "a", 1)
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey, find.CoordinatorKeys = "g", []string{"g"}
		ask[*kmsg.FindCoordinatorResponse](t, n, c, find)
		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Group, commit.Generation = "g", -1
		ct := kmsg.NewOffsetCommitRequestTopic()
		ct.Topic, ct.TopicID, ct.Partitions = "a", id, []kmsg.OffsetCommitRequestTopicPartition{{Offset: 1}}
		commit.Topics = append(commit.Topics, ct)
		if got := ask[*kmsg.OffsetCommitResponse](t, n, c, commit); got.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatalf("%+v", got)
		}
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = "g"
		one := kmsg.OffsetDeleteRequestTopic{Topic: "a", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}
		req.Topics = []kmsg.OffsetDeleteRequestTopic{one, one}
		if got := ask[*kmsg.OffsetDeleteResponse](t, n, c, req); got.ErrorCode != 0 || len(got.Topics) != 2 {
			t.Errorf("%+v", got)
		}
	})
}

// TestNoAbortedListWhereNothingIsRead: read_committed tells aborted transactions
// with what was read, not where epochs diverge, nor to what is no consumer.
func TestNoAbortedListWhereNothingIsRead(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		ids := map[string][16]byte{"a": makeTopic(t, n, c, "a", 1)}
		if err := produceSequence(n, c, "a", -1, -1); err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			at        string
			replica   int32
			last      int32
			list, cut bool
		}{{"a/0", -1, -1, true, false}, {"a/0", -3, -1, false, false}, {"a/0@100", -1, 0, false, true}} {
			req := reading(ids, 1<<20, 1<<20, x.at)
			req.IsolationLevel, req.ReplicaID, req.ReplicaState.ID = 1, x.replica, x.replica
			req.Topics[0].Partitions[0].LastFetchedEpoch = x.last
			got := ask[*kmsg.FetchResponse](t, n, c, req).Topics[0].Partitions[0]
			if (got.AbortedTransactions != nil) != x.list || (got.DivergingEpoch.Epoch >= 0) != x.cut {
				t.Errorf("%+v: %v, %+v", x, got.AbortedTransactions, got.DivergingEpoch)
			}
		}
		// Nor with a batch that does not fit, unless there is no room at all, or nothing to read.
		ids["b"] = makeTopic(t, n, c, "b", 1)
		if err := produceSequence(n, c, "b", -1, -1); err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			at   string
			max  int32
			list bool
		}{{"b/0", 10, false}, {"b/0", 0, true}, {"b/0@1", 10, true}, {"b/0", 1 << 20, true}} {
			req := reading(ids, 1<<20, x.max, "a/0", x.at)
			req.IsolationLevel = 1
			got := ask[*kmsg.FetchResponse](t, n, c, req)
			if len(got.Topics) != 2 || len(got.Topics[0].Partitions[0].RecordBatches) == 0 || (got.Topics[1].Partitions[0].AbortedTransactions != nil) != x.list {
				t.Errorf("%+v: %+v", x, got.Topics)
			}
		}
	})
}

// TestNegativeLimit: a fetch that may hold less than nothing fails for the first partition that has records, unless one
// was refused before.
func TestNegativeLimit(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		ids := map[string][16]byte{"a": makeTopic(t, n, c, "a", 1), "b": makeTopic(t, n, c, "b", 1)}
		for topic := range ids {
			if err := produceSequence(n, c, topic, -1, -1); err != nil {
				t.Fatal(err)
			}
		}
		for first, want := range map[string][2]int16{"a/0": {-1, 0}, "a/0@100": {1, 0}, "a/0@1": {0, 0}} {
			got := ask[*kmsg.FetchResponse](t, n, c, reading(ids, -1, 1<<20, first, "b/0"))
			if a, b := got.Topics[0].Partitions[0], got.Topics[1].Partitions[0]; a.ErrorCode != want[0] || b.ErrorCode != want[1] || len(b.RecordBatches) == 0 {
				t.Errorf("%s: %d, %d with %d bytes", first, a.ErrorCode, b.ErrorCode, len(b.RecordBatches))
			}
		}
	})
}

// TestProduceFallsOverBytesBeforeCodecs: bytes that are no batch refuse a whole
// request, and codecs that there are not, up to version 6; the bytes are looked for
// in all partitions first, wherever they are to go.
func TestProduceFallsOverBytesBeforeCodecs(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		versions := kversion.Stable()
		versions.SetMaxKeyVersion(0, 5)
		c := n.Client(kgo.MaxVersions(versions), kgo.RetryTimeout(0))
		makeTopic(t, n, n.Client(), "a", 1)
		good := oneRecord(-1, -1)
		codec := bytes.Clone(good)
		codec[22] |= 5
		binary.BigEndian.PutUint32(codec[17:], crc32.Checksum(codec[21:], crc32.MakeTable(crc32.Castagnoli)))
		magic := bytes.Clone(good)
		magic[16] = 3
		for _, x := range []struct {
			parts []producePart
			want  []int16
		}{
			{[]producePart{{0, good}, {7, codec}}, []int16{0, 3}},
			{[]producePart{{0, codec}, {7, good}}, []int16{-1, -1}},
			{[]producePart{{7, good}, {0, codec}}, []int16{-1, -1}},
			{[]producePart{{0, codec}, {-1, magic}}, []int16{2, 2}},
			{[]producePart{{-1, magic}, {0, codec}}, []int16{2, 2}},
		} {
			if codes := produceCodes(t, n, c, 1, x.parts); !slices.Equal(codes, x.want) {
				t.Errorf("%v: %d, want %d", x.parts, codes, x.want)
			}
		}
	})
}

// TestProduceFallsOverLaterMessages: a set whose later bytes are no message refuses a
// whole request, whatever its acks, where it is for a partition that is there.
func TestProduceFallsOverLaterMessages(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		versions := kversion.Stable()
		versions.SetMaxKeyVersion(0, 2)
		c := n.Client(kgo.MaxVersions(versions), kgo.RetryTimeout(0))
		makeTopic(t, n, n.Client(), "a", 1)
		message := kmsg.MessageV0{Value: []byte("v")}
		message.MessageSize = int32(len(message.AppendTo(nil)) - 12)
		message.CRC = int32(crc32.ChecksumIEEE(message.AppendTo(nil)[16:]))
		good := message.AppendTo(nil)
		short := bytes.Clone(good)
		short[11] = 13
		called := bytes.Clone(good)
		called[16] = 2
		behind := func(b []byte) []byte { return append(bytes.Clone(good), b...) }
		for _, x := range []struct {
			parts []producePart
			want  []int16
		}{
			{[]producePart{{0, good}}, []int16{0}},
			{[]producePart{{0, behind(short)}}, []int16{2}},
			{[]producePart{{0, called}}, []int16{-1}},
			{[]producePart{{0, behind(called)}, {7, good}}, []int16{-1, -1}},
			{[]producePart{{0, good}, {7, behind(short)}}, []int16{0, 3}},
			{[]producePart{{0, good}, {7, short}}, []int16{2, 2}},
		} {
			if codes := produceCodes(t, n, c, -1, x.parts); !slices.Equal(codes, x.want) {
				t.Errorf("%v: %d, want %d", x.parts, codes, x.want)
			}
		}
	})
}

// producePart is what a request brings for one partition.
type producePart struct {
	index   int32
	records []byte
}

// produceCodes sends a request to topic a and returns the codes of its partitions.
func produceCodes(t *testing.T, n *Node, c *kgo.Client, acks int16, parts []producePart) (codes []int16) {
	t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 1000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "a"
	for _, p := range parts {
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = p.index, p.records
		topic.Partitions = append(topic.Partitions, rp)
	}
	req.Topics = append(req.Topics, topic)
	for _, p := range ask[*kmsg.ProduceResponse](t, n, c, req).Topics[0].Partitions {
		codes = append(codes, p.ErrorCode)
	}
	return codes
}
