package brokertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"go.uber.org/zap"
)

// TestUnreadableBytes: whoever asks for what lies behind 200 zeros in a segment is answered as by Apache Kafka 4.4.0, and the
// log says where they are, once.
func TestUnreadableBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(t, nil)
		defer n.End()
		lines := n.Observe(zap.WarnLevel)
		n.Start()
		c := n.Client(kgo.DefaultProduceTopic("a"))
		makeTopic(t, n, c, "a", 1)
		begun := time.Now().UnixMilli()
		var ends []int64
		const file = "/data/a-0/00000000000000000000.log"
		for range 5 {
			Produce(t, c, "a", "v", 20)
			ends = append(ends, int64(len(n.Disk.Bytes(file))))
			time.Sleep(time.Second)
		}
		n.Stop()
		b := n.Disk.Bytes(file)
		clear(b[ends[2]-50 : ends[2]+150])
		n.Disk.Put(file, b)
		n.Start()

		// Only what is asked about is capped.
		capped := func(key kmsg.Key, version int16) *kversion.Versions {
			v := kversion.Stable()
			v.SetMaxKeyVersion(key.Int16(), version)
			return v
		}
		fetch := func(version int16, offset int64, isolation int8) string {
			c := n.Client(kgo.MaxVersions(capped(kmsg.Fetch, version)))
			defer c.Close()
			req := kmsg.NewPtrFetchRequest()
			req.MaxBytes, req.SessionEpoch, req.IsolationLevel = 1<<20, -1, isolation
			rt := kmsg.NewFetchRequestTopic()
			rt.Topic, rt.TopicID = "a", topicID(t, c, "a")
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.FetchOffset, rp.PartitionMaxBytes = offset, 1<<20
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			resp := ask[*kmsg.FetchResponse](t, n, c, req)
			if resp.Version != version {
				t.Fatalf("asked in version %d", resp.Version)
			}
			p := resp.Topics[0].Partitions[0]
			return fmt.Sprintf("%s %d %d %d %t", word(p.ErrorCode), p.HighWatermark, p.LastStableOffset, p.LogStartOffset, len(p.RecordBatches) > 0)
		}
		list := func(version int16, timestamp int64) string {
			c := n.Client(kgo.MaxVersions(capped(kmsg.ListOffsets, version)))
			defer c.Close()
			req := kmsg.NewPtrListOffsetsRequest()
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = "a"
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Timestamp = timestamp
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			p := ask[*kmsg.ListOffsetsResponse](t, n, c, req).Topics[0].Partitions[0]
			return fmt.Sprintf("%s %d %d", word(p.ErrorCode), p.Offset, p.Timestamp)
		}
		for range 3 {
			for _, version := range []int16{4, 12, 18} {
				for isolation := range int8(2) {
					if got := fetch(version, 90, isolation); got != "CORRUPT_MESSAGE -1 -1 -1 false" {
						t.Errorf("Fetch %d behind them: %s", version, got)
					}
				}
			}
			if got := fetch(18, 45, 0); got != "fine 100 100 0 true" {
				t.Errorf("Fetch before them: %s", got)
			}
			for _, version := range []int16{1, 7} {
				if got := list(version, begun+4000); got != "CORRUPT_MESSAGE -1 -1" {
					t.Errorf("ListOffsets %d behind them: %s", version, got)
				}
			}
			if got := list(7, -3); got != "CORRUPT_MESSAGE -1 -1" {
				t.Errorf("ListOffsets of the largest timestamp: %s", got)
			}
			if got := list(7, begun+1000); !strings.HasPrefix(got, "fine 20 ") {
				t.Errorf("ListOffsets before them: %s", got)
			}
		}
		all := lines.FilterMessageSnippet("bytes of a log cannot be read").All()
		if total := lines.TakeAll(); len(all) != 1 || len(total) > 2 { // the start has seen the damage too
			t.Fatalf("told: %v", total)
		}
		if f := all[0].ContextMap(); f["topic"] != "a" || f["partition"] != int64(0) && f["partition"] != int32(0) || f["file"] != file || f["position"] != ends[2] || !strings.Contains(fmt.Sprint(f["error"]), "no batch at position") {
			t.Errorf("told: %v", f)
		}
		n.Disk.Refuse(func(op, name string) error {
			if op == "read" && name == file {
				return errDisk
			}
			return nil
		})
		for range 3 {
			if got := fetch(18, 0, 0); got != "KAFKA_STORAGE_ERROR -1 -1 -1 false" {
				t.Errorf("Fetch from a disk that fails: %s", got)
			}
		}
		if all := lines.TakeAll(); len(all) != 1 || all[0].ContextMap()["file"] != file || !strings.Contains(fmt.Sprint(all[0].ContextMap()["error"]), "input/output error") {
			t.Errorf("told of a disk that fails: %v", all)
		}
		n.Disk.Refuse(nil)
		n.Stop()
	})
}

// TestUnreadableInTwoSegments: segments that are damaged alike are each told of, by their files.
func TestUnreadableInTwoSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(t, nil)
		defer n.End()
		lines := n.Observe(zap.WarnLevel)
		n.Start()
		c := n.Client(kgo.DefaultProduceTopic("a"), kgo.ProducerBatchCompression(kgo.NoCompression()))
		id := makeTopic(t, n, c, "a", 1, "segment.bytes", "1048576")
		for range 3 {
			Produce(t, c, "a", strings.Repeat("v", 600_000), 1)
		}
		n.Stop()
		files := []string{"/data/a-0/00000000000000000000.log", "/data/a-0/00000000000000000001.log"}
		for _, file := range files {
			b := n.Disk.Bytes(file)
			clear(b[:61])
			n.Disk.Put(file, b)
		}
		n.Start()
		for range 2 {
			for offset := range int64(2) {
				req := kmsg.NewPtrFetchRequest()
				req.MaxBytes, req.SessionEpoch = 1<<20, -1
				rt := kmsg.NewFetchRequestTopic()
				rt.Topic, rt.TopicID = "a", id
				rp := kmsg.NewFetchRequestTopicPartition()
				rp.FetchOffset, rp.PartitionMaxBytes = offset, 1<<20
				rt.Partitions = append(rt.Partitions, rp)
				req.Topics = append(req.Topics, rt)
				if got := word(ask[*kmsg.FetchResponse](t, n, c, req).Topics[0].Partitions[0].ErrorCode); got != "CORRUPT_MESSAGE" {
					t.Errorf("Fetch at %d: %s", offset, got)
				}
			}
		}
		var told []string
		for _, l := range lines.FilterMessageSnippet("bytes of a log cannot be read").All() {
			told = append(told, fmt.Sprint(l.ContextMap()["file"], " ", l.ContextMap()["position"]))
		}
		if want := []string{files[0] + " 0", files[1] + " 0"}; !slices.Equal(told, want) {
			t.Errorf("told of %v, not of %v", told, want)
		}
		n.Stop()
	})
}
