package brokertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// reading is a Fetch request of partitions "topic/index@offset", of at most so
// many bytes in all and in each.
func reading(ids map[string][16]byte, most, each int32, parts ...string) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.SessionEpoch = most, -1
	for _, p := range parts {
		var index, offset int
		topic, rest, _ := strings.Cut(p, "/")
		fmt.Sscanf(rest, "%d@%d", &index, &offset)
		rt := kmsg.NewFetchRequestTopic()
		rt.TopicID = ids[topic]
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = int32(index), int64(offset), each
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
	}
	return req
}

// told is an answer in one line: topic/index: error or bytes.
func told(ids map[string][16]byte, resp *kmsg.FetchResponse) string {
	names := map[[16]byte]string{}
	for name, id := range ids {
		names[id] = name
	}
	var out []string
	if resp.ErrorCode != 0 {
		out = append(out, fmt.Sprintf("error %d", resp.ErrorCode))
	}
	for _, rt := range resp.Topics {
		for _, p := range rt.Partitions {
			what := fmt.Sprintf("%d bytes", len(p.RecordBatches))
			if p.ErrorCode != 0 {
				what = fmt.Sprintf("error %d", p.ErrorCode)
			}
			out = append(out, fmt.Sprintf("%s/%d: %s", names[rt.TopicID], p.Partition, what))
		}
	}
	return strings.Join(out, ", ")
}

func TestFetchAnswers(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		ids := map[string][16]byte{"a": makeTopic(t, n, c, "a", 2), "b": makeTopic(t, n, c, "b", 1), "empty": makeTopic(t, n, c, "empty", 1), "stranger": {1, 2, 3}}
		for range 2 {
			for _, topic := range []string{"a", "b"} {
				if err := produceSequence(n, c, topic, -1, -1); err != nil {
					t.Fatal(err)
				}
			}
		}
		one := int32(len(oneRecord(-1, -1)))
		for _, f := range []struct {
			name       string
			most, each int32
			parts      []string
			want       string
		}{
			{"what is not there comes last", 1 << 20, 1 << 20, []string{"a/9", "stranger/0", "a/0", "b/5", "b/0", "a/1@7"},
				fmt.Sprintf("a/0: %d bytes, b/0: %d bytes, a/1: error 1, stranger/0: error 100, a/9: error 3, b/5: error 3", 2*one, 2*one)},
			{"the first batch comes whole", 1, 1, []string{"empty/0", "a/0", "b/0"}, fmt.Sprintf("empty/0: 0 bytes, a/0: %d bytes, b/0: 0 bytes", one)},
			{"no later one is cut in its first batch", 1 << 20, one - 1, []string{"a/0", "b/0"}, fmt.Sprintf("a/0: %d bytes, b/0: 0 bytes", one)},
			{"a later one may be cut behind it", 1 << 20, one + 5, []string{"a/0", "b/0"}, fmt.Sprintf("a/0: %d bytes, b/0: %d bytes", one+5, one+5)},
			{"below nothing", -1, 1 << 20, []string{"empty/0", "a/0", "b/0"}, fmt.Sprintf("empty/0: 0 bytes, a/0: %d bytes, b/0: 0 bytes", one)},
			{"below nothing in the first", -1, 1 << 20, []string{"a/0", "b/0"}, fmt.Sprintf("a/0: error -1, b/0: %d bytes", one)},
		} {
			if got := told(ids, ask[*kmsg.FetchResponse](t, n, c, reading(ids, f.most, f.each, f.parts...))); got != f.want {
				t.Errorf("%s:\n got %s\nwant %s", f.name, got, f.want)
			}
		}
		// To a follower all that is not there comes in the order of its request.
		follower := reading(ids, 1<<20, 1<<20, "a/9", "stranger/0", "a/0", "b/5")
		follower.ReplicaID, follower.ReplicaState.ID = 5, 5
		if got, want := told(ids, ask[*kmsg.FetchResponse](t, n, c, follower)), "a/0: error 6, a/9: error 3, stranger/0: error 100, b/5: error 3"; got != want {
			t.Errorf("to a follower:\n got %s\nwant %s", got, want)
		}
		bad := reading(ids, 1<<20, 1<<20, "a/0")
		bad.IsolationLevel = 7
		if resp := ask[*kmsg.FetchResponse](t, n, c, bad); resp.ErrorCode != -1 || len(resp.Topics) != 0 {
			t.Errorf("a bad isolation level: %+v", resp)
		}
		// A session that is not there comes first.
		bad.SessionID, bad.SessionEpoch = 55, 3
		if resp := ask[*kmsg.FetchResponse](t, n, c, bad); resp.ErrorCode != kerr.FetchSessionIDNotFound.Code {
			t.Errorf("a bad isolation level in no session: %+v", resp)
		}
	})
}

func TestFetchWaits(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		ids := map[string][16]byte{"a": makeTopic(t, n, c, "a", 1), "stranger": {1, 2, 3}}
		if err := produceSequence(n, c, "a", -1, -1); err != nil {
			t.Fatal(err)
		}
		for _, f := range []struct {
			name  string
			least int32
			each  int32
			parts []string
			waits bool
		}{
			{"at the end", 1, 1 << 20, []string{"a/0@1"}, true},
			{"beside what is not there", 1, 1 << 20, []string{"a/0@1", "stranger/0", "a/4"}, true},
			{"only what is not there", 1, 1 << 20, []string{"stranger/0", "a/4"}, false},
			{"out of range", 1, 1 << 20, []string{"a/0@2"}, false},
			{"enough because the first batch comes whole", 50, 10, []string{"a/0"}, false},
			{"too little", 500, 1 << 20, []string{"a/0"}, true},
			{"none asked", 1, 1 << 20, nil, false},
		} {
			req := reading(ids, 1<<20, f.each, f.parts...)
			req.MinBytes, req.MaxWaitMillis = f.least, 5000
			start := time.Now()
			resp := ask[*kmsg.FetchResponse](t, n, c, req)
			if took := time.Since(start); f.waits != (took >= 5*time.Second) {
				t.Errorf("%s: answered after %v: %s", f.name, took, told(ids, resp))
			}
		}
		// Records that come end the wait.
		go func() {
			time.Sleep(time.Second)
			if err := produceSequence(n, n.Client(), "a", -1, -1); err != nil {
				t.Error(err)
			}
		}()
		req := reading(ids, 1<<20, 1<<20, "stranger/0", "a/0@1")
		req.MinBytes, req.MaxWaitMillis = 1, 5000
		start := time.Now()
		resp := ask[*kmsg.FetchResponse](t, n, c, req)
		if took := time.Since(start); took != time.Second || len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
			t.Errorf("woken after %v with %s", took, told(ids, resp))
		}
	})
}

// TestFetchWaitsForItsSegmentOnly: where the log has gone on to another segment, nobody
// waits for more, however little there is in the reader's own.
func TestFetchWaitsForItsSegmentOnly(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		ids := map[string][16]byte{"one": makeTopic(t, n, c, "one", 1), "many": makeTopic(t, n, c, "many", 1, "internal.segment.bytes", "100")}
		write := func(topic string) {
			if err := produceSequence(n, n.Client(), topic, -1, -1); err != nil {
				t.Error(err)
			}
		}
		for _, topic := range []string{"one", "many"} {
			write(topic)
			write(topic)
		}
		const long = 5 * time.Second
		for _, f := range []struct {
			part      string
			isolation int8
			want      time.Duration // after which it is answered
			bytes     bool
		}{
			{"many/0@0", 0, 0, true},
			{"many/0@0", 1, 0, true},
			{"one/0@0", 0, long, true},
			{"many/0@1", 0, time.Second, true}, // a third is written after a second
			{"many/0@3", 0, time.Second, true},
			{"one/0@2", 0, long, true},
		} {
			go func() {
				time.Sleep(time.Second)
				if f.want != 0 {
					write(f.part[:strings.IndexByte(f.part, '/')])
				}
			}()
			req := reading(ids, 1<<20, 1<<20, f.part)
			req.MinBytes, req.MaxWaitMillis, req.IsolationLevel = 10000, int32(long.Milliseconds()), f.isolation
			start := time.Now()
			resp := ask[*kmsg.FetchResponse](t, n, c, req)
			if took := time.Since(start); took != f.want || f.bytes != (len(resp.Topics[0].Partitions[0].RecordBatches) > 0) {
				t.Errorf("%s at isolation %d: after %v, %s", f.part, f.isolation, took, told(ids, resp))
			}
			time.Sleep(time.Second)
		}
	})
}

// TestFetchSessionOutlivesItsTopic goes on with a session by topic id after the
// topic was deleted, and after its name was created anew.
func TestFetchSessionOutlivesItsTopic(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		ids := map[string][16]byte{"a": makeTopic(t, n, c, "a", 2)}
		first := reading(ids, 1<<20, 1<<20, "a/0", "a/1")
		first.SessionEpoch = 0
		id := ask[*kmsg.FetchResponse](t, n, c, first).SessionID
		if id == 0 {
			t.Fatal("no session")
		}
		epoch := int32(0)
		next := func(c *kgo.Client, want string) {
			t.Helper()
			epoch++
			req := reading(ids, 1<<20, 1<<20)
			req.SessionID, req.SessionEpoch = id, epoch
			if got := told(ids, ask[*kmsg.FetchResponse](t, n, c, req)); got != want {
				t.Errorf("epoch %d: %q, want %q", epoch, got, want)
			}
		}
		next(c, "")
		del := kmsg.NewPtrDeleteTopicsRequest()
		del.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: kmsg.StringPtr("a")}}
		del.TimeoutMillis = 5000
		if resp := ask[*kmsg.DeleteTopicsResponse](t, n, c, del); resp.Topics[0].ErrorCode != 0 {
			t.Fatalf("%+v", resp)
		}
		next(c, "a/0: error 3, a/1: error 3")
		next(c, "a/0: error 3, a/1: error 3")
		makeTopic(t, n, c, "a", 1)
		next(c, "a/0: error 103, a/1: error 3") // the new one has one partition
		if got := told(ids, ask[*kmsg.FetchResponse](t, n, c, reading(ids, 1<<20, 1<<20, "a/0"))); got != "a/0: error 100" {
			t.Errorf("without the session: %s", got)
		}
	})
}
