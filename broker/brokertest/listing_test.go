package brokertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestListOffsetsAnswers asks for partitions that are there and not, once and
// again, at times that are known and not.
func TestListOffsetsAnswers(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		makeTopic(t, n, c, "a", 2)
		for range 3 {
			if err := produceSequence(n, c, "a", -1, -1); err != nil {
				t.Fatal(err)
			}
		}
		for _, q := range []struct {
			parts     string // topic/index@time ...
			isolation int8
			want      string
		}{
			{"a/0@-1 a/1@-1 a/0@-1", 0, "a/0: 42, a/1: 0 at 0"},
			{"a/0@-1 b/0@-1 a/1@-2", 0, "a/0: 0 at 3, a/1: 0 at 0, b/0: 3"},
			{"b/0@-1 b/0@-1 b/0@-1", 0, "b/0: 42"},
			{"b/0@-9 a/7@-9 a/0@-7", 0, "a/0: 35, a/7: 35, b/0: 35"},
			{"a/0@-3 a/1@-3", 0, "a/0: 0 at 0, a/1: 0 at -1"},
			{"a/0@-1 a/0@-1 b/1@-99", 3, "a/0: -1, a/0: -1, b/1: -1"},
			{"a b/0@-1", 0, "b/0: 3"}, // answers are gathered by partition
			{"a b/0@-1", 3, "a, b/0: -1"},
		} {
			req := kmsg.NewPtrListOffsetsRequest()
			req.ReplicaID, req.IsolationLevel = -1, q.isolation
			for p := range strings.FieldsSeq(q.parts) {
				topic, rest, some := strings.Cut(p, "/")
				if !some {
					req.Topics = append(req.Topics, kmsg.ListOffsetsRequestTopic{Topic: topic})
					continue
				}
				rp := kmsg.NewListOffsetsRequestTopicPartition()
				fmt.Sscanf(rest, "%d@%d", &rp.Partition, &rp.Timestamp)
				req.Topics = append(req.Topics, kmsg.ListOffsetsRequestTopic{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{rp}})
			}
			var got []string
			for _, rt := range ask[*kmsg.ListOffsetsResponse](t, n, c, req).Topics {
				if len(rt.Partitions) == 0 {
					got = append(got, rt.Topic)
				}
				for _, p := range rt.Partitions {
					s := fmt.Sprintf("%s/%d: %d", rt.Topic, p.Partition, p.ErrorCode)
					if p.ErrorCode == 0 {
						s += fmt.Sprintf(" at %d", p.Offset)
					}
					got = append(got, s)
				}
			}
			slices.Sort(got)
			if s := strings.Join(got, ", "); s != q.want {
				t.Errorf("%s:\n got %s\nwant %s", q.parts, s, q.want)
			}
		}
	})
}
