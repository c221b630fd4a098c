package brokertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTopicPages reads topics page by page, with limits of the client's and of
// the broker's.
func TestTopicPages(t *testing.T) {
	bubble(t, map[string]string{"max.request.partition.size.limit": "4"}, func(t *testing.T, n *Node) {
		c := n.Client()
		makeTopic(t, n, c, "b", 5)
		makeTopic(t, n, c, "a", 2)
		makeTopic(t, n, c, "c", 1)
		for _, q := range []struct {
			limit  int32
			topics string
			want   string
		}{
			{100, "", "a:0 a:1 b:0 b:1 | b:2 b:3 b:4 c:0"},
			{3, "c b a a", "a:0 a:1 b:0 | b:1 b:2 b:3 | b:4 c:0"},
			{2, "a b none", "a:0 a:1 | b:0 b:1 | b:2 b:3 | b:4 none!3"},
			{0, "a c", "a:0 | a:1 | c:0"},
			{-7, "c", "c:0"},
		} {
			req := kmsg.NewPtrDescribeTopicPartitionsRequest()
			req.ResponsePartitionLimit = q.limit
			for name := range strings.FieldsSeq(q.topics) {
				req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
			}
			var pages []string
			for range 20 {
				resp := ask[*kmsg.DescribeTopicPartitionsResponse](t, n, c, req)
				var page []string
				for _, rt := range resp.Topics {
					if rt.ErrorCode != 0 {
						page = append(page, fmt.Sprintf("%s!%d", *rt.Topic, rt.ErrorCode))
					}
					for _, p := range rt.Partitions {
						page = append(page, fmt.Sprintf("%s:%d", *rt.Topic, p.Partition))
					}
				}
				pages = append(pages, strings.Join(page, " "))
				if resp.NextCursor == nil {
					break
				}
				req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: resp.NextCursor.Topic, Partition: resp.NextCursor.Partition}
			}
			if got := strings.Join(pages, " | "); got != q.want {
				t.Errorf("%q, %d at a time:\n got %s\nwant %s", q.topics, q.limit, got, q.want)
			}
		}
	})
}

// TestDeletedOffsets deletes committed offsets one by one, with what is not
// there beside them, and over a restart.
func TestDeletedOffsets(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		makeTopic(t, n, c, "a", 2)
		makeTopic(t, n, c, "b", 1)
		var os kadm.Offsets
		for _, topic := range []string{"a", "b"} {
			os.Add(kadm.Offset{Topic: topic, Partition: 0, At: 5, LeaderEpoch: -1})
		}
		os.Add(kadm.Offset{Topic: "a", Partition: 1, At: 6, LeaderEpoch: -1})
		if _, err := kadm.NewClient(c).CommitOffsets(t.Context(), "g", os); err != nil {
			t.Fatal(err)
		}
		del := func(group string, parts ...string) string {
			req := kmsg.NewPtrOffsetDeleteRequest()
			req.Group = group
			for _, p := range parts {
				topic, rest, _ := strings.Cut(p, "/")
				rp := kmsg.NewOffsetDeleteRequestTopicPartition()
				fmt.Sscanf(rest, "%d", &rp.Partition)
				req.Topics = append(req.Topics, kmsg.OffsetDeleteRequestTopic{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{rp}})
			}
			resp := ask[*kmsg.OffsetDeleteResponse](t, n, c, req)
			out := fmt.Sprint(resp.ErrorCode)
			for _, rt := range resp.Topics {
				for _, p := range rt.Partitions {
					out += fmt.Sprintf(" %s/%d:%d", rt.Topic, p.Partition, p.ErrorCode)
				}
			}
			return out
		}
		for _, q := range []struct{ got, want string }{
			{del("none", "a/0"), "69"},
			{del("", "a/0"), "24"},
			{del("g", "none/0", "a/0", "a/9"), "0 none/0:3 a/9:3 a/0:0"},
			{del("g", "a/0"), "0 a/0:0"},
		} {
			if q.got != q.want {
				t.Errorf("%s, want %s", q.got, q.want)
			}
		}
		n.Kill()
		n.Start()
		left, err := kadm.NewClient(n.Client()).FetchOffsets(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range left.Sorted() {
			got = append(got, fmt.Sprintf("%s/%d at %d", o.Topic, o.Partition, o.At))
		}
		if s := strings.Join(got, ", "); s != "a/1 at 6, b/0 at 5" {
			t.Errorf("left are %s", s)
		}
	})
}
