package brokertest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ask sends a request as it is to the one broker.
func ask[R kmsg.Response](t *testing.T, n *Node, c *kgo.Client, req kmsg.Request) R {
	t.Helper()
	resp, err := c.Broker(int(n.Info.NodeID)).Request(context.Background(), req)
	if err != nil {
		t.Fatalf("%T: %v", req, err)
	}
	return resp.(R)
}

// makeTopic creates a topic and returns its id.
func makeTopic(t *testing.T, n *Node, c *kgo.Client, name string, partitions int32, configs ...string) [16]byte {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, 1
	for i := 0; i+1 < len(configs); i += 2 {
		rt.Configs = append(rt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: configs[i], Value: &configs[i+1]})
	}
	req.Topics = append(req.Topics, rt)
	got := ask[*kmsg.CreateTopicsResponse](t, n, c, req).Topics[0]
	if got.ErrorCode != 0 {
		t.Fatalf("creating %s: %d %v", name, got.ErrorCode, got.ErrorMessage)
	}
	return got.TopicID
}

// TestProduceAnswers asks for several partitions at once, of which some are
// refused: which error each gets, and whose log start is told.
func TestProduceAnswers(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		ids := map[string][16]byte{
			"a": makeTopic(t, n, c, "a", 3), "b": makeTopic(t, n, c, "b", 1), "none": makeTopic(t, n, c, "none", 1, "max.message.bytes", "0"),
		}
		good := oneRecord(-1, -1)
		at := func(place int, v byte) []byte {
			b := bytes.Clone(good)
			b[place] = v
			return b
		}
		short := bytes.Clone(good)
		binary.BigEndian.PutUint32(short[8:], 13)
		type part struct {
			topic   string
			index   int32
			records []byte
		}
		for _, c2 := range []struct {
			name  string
			parts []part
			want  string
		}{
			{"one that begins no batch refuses all", []part{{"a", 0, good}, {"a", 1, short}, {"b", 0, good}}, "a/0: 2 at -1 of -1! a/1: 2 at -1 of -1! b/0: 2 at -1 of -1!"},
			{"a corrupt one refuses itself", []part{{"a", 0, good}, {"a", 1, at(17, good[17]+1)}}, "a/0: 0 at 0 of 0 a/1: 2 at -1 of -1"},
			{"the log is known", []part{{"a", 0, at(7, 1)}}, "a/0: 87 at -1 of 0"},
			{"the log is not known", []part{{"a", 0, good[:30]}}, "a/0: 87 at -1 of -1"},
			{"a topic that comes again is answered once", []part{{"a", 0, good}, {"b", 0, good}, {"a", 1, good}}, "a/0: 0 at 1 of 0 a/1: 0 at 0 of 0 b/0: 0 at 0 of 0"},
			{"the last of a partition counts", []part{{"a", 2, good[:30]}, {"b", 0, good}, {"a", 2, good}}, "b/0: 0 at 1 of 0 a/2: 0 at 0 of 0"},
			{"nothing fits", []part{{"none", 0, good}}, "none/0: 10 at -1 of -1"},
		} {
			req := kmsg.NewPtrProduceRequest()
			req.Acks, req.TimeoutMillis = 1, 1000
			names := map[[16]byte]string{}
			for _, p := range c2.parts {
				if len(req.Topics) == 0 || req.Topics[len(req.Topics)-1].TopicID != ids[p.topic] {
					req.Topics = append(req.Topics, kmsg.ProduceRequestTopic{Topic: p.topic, TopicID: ids[p.topic]})
				}
				rt := &req.Topics[len(req.Topics)-1]
				names[ids[p.topic]] = p.topic
				rt.Partitions = append(rt.Partitions, kmsg.ProduceRequestTopicPartition{Partition: p.index, Records: bytes.Clone(p.records)})
			}
			var got string
			for _, rt := range ask[*kmsg.ProduceResponse](t, n, c, req).Topics {
				for _, p := range rt.Partitions {
					got += fmt.Sprintf(" %s/%d: %d at %d of %d", names[rt.TopicID], p.Partition, p.ErrorCode, p.BaseOffset, p.LogStartOffset)
					if p.ErrorMessage != nil {
						got += "!"
					}
				}
			}
			if got != " "+c2.want {
				t.Errorf("%s:\n got%s\nwant %s", c2.name, got, c2.want)
			}
		}
	})
}
