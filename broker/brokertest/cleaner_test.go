package brokertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// put sends records written as key=value, each as a batch of its own; one without = is a tombstone.
func (s *shown) put(records ...string) {
	s.Helper()
	for _, r := range records {
		k, v, ok := strings.Cut(r, "=")
		x := kgo.Record{Key: []byte(k)}
		if ok {
			x.Value = []byte(v)
		}
		if err := s.produce(x); err != nil {
			s.Fatal(err)
		}
	}
}

// held is what a consumer reads of the topic from its start to its end.
func (s *shown) held() string {
	s.Helper()
	ctx := context.Background()
	ends, err := s.adm.ListEndOffsets(ctx, "events")
	if err != nil {
		s.Fatal(err)
	}
	end, _ := ends.Lookup("events", 0)
	c := s.n.Client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"events": {0: kgo.NewOffset().AtStart()}}))
	defer c.Close()
	var out []string
	for at := int64(0); at < end.Offset; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			s.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			text := fmt.Sprintf("%d:%s", r.Offset, r.Key)
			if r.Value != nil {
				text += "=" + string(r.Value)
			}
			out = append(out, text)
			at = r.Offset + 1
		})
	}
	return strings.Join(out, " ")
}

// tight makes each batch a segment of its own.
var tight = map[string]string{"cleanup.policy": "compact", "internal.segment.bytes": "80"}

func with(configs map[string]string, more ...string) map[string]string {
	out := map[string]string{}
	for k, v := range configs {
		out[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

func TestCompactionConfigs(t *testing.T) {
	const whole = "0:a=1 1:b=1 2:a=2 3:x=1"
	levels(t, []effect{
		{topic: "cleanup.policy", broker: "log.cleanup.policy", value: "compact,delete", beside: map[string]string{"internal.segment.bytes": "80", "retention.ms": "3600000"},
			see: func(s *shown) string {
				s.put("a=1", "b=1", "a=2", "x=1")
				time.Sleep(time.Minute)
				early := s.held()
				time.Sleep(2 * time.Hour)
				return early + ", then " + s.left()
			}, without: whole + ", then 0 left", with: "1:b=1 2:a=2 3:x=1, then 0 left"},
		{topic: "min.cleanable.dirty.ratio", broker: "log.cleaner.min.cleanable.ratio", value: "0.9", beside: tight,
			see: func(s *shown) string {
				s.put("a=1", "b=1", "a=2", "x=1")
				time.Sleep(time.Minute)
				early := s.held()
				s.put("a=3", "b=2", "x=2")
				time.Sleep(time.Minute)
				return early + ", then " + s.held()
			}, without: "1:b=1 2:a=2 3:x=1, then 3:x=1 4:a=3 5:b=2 6:x=2", with: "1:b=1 2:a=2 3:x=1, then 1:b=1 2:a=2 3:x=1 4:a=3 5:b=2 6:x=2"},
		{topic: "delete.retention.ms", broker: "log.cleaner.delete.retention.ms", value: "1000", beside: tight,
			see: func(s *shown) string {
				s.put("a=1", "a", "x=1")
				time.Sleep(time.Minute)
				early := s.held()
				s.put("b=1", "c=1", "x=2")
				time.Sleep(time.Minute)
				return early + ", then " + s.held()
			}, without: "1:a 2:x=1, then 1:a 2:x=1 3:b=1 4:c=1 5:x=2", with: "1:a 2:x=1, then 2:x=1 3:b=1 4:c=1 5:x=2"},
		{topic: "min.compaction.lag.ms", broker: "log.cleaner.min.compaction.lag.ms", value: "3600000", beside: tight,
			see: func(s *shown) string {
				s.put("a=1", "b=1", "a=2", "x=1")
				time.Sleep(time.Minute)
				early := s.held()
				time.Sleep(time.Hour)
				return early + ", then " + s.held()
			}, without: "1:b=1 2:a=2 3:x=1, then 1:b=1 2:a=2 3:x=1", with: whole + ", then 1:b=1 2:a=2 3:x=1"},
		{topic: "max.compaction.lag.ms", broker: "log.cleaner.max.compaction.lag.ms", value: "120000", beside: with(tight, "min.cleanable.dirty.ratio", "1"),
			see: func(s *shown) string {
				s.put("a=1", "b=1", "a=2", "x=1")
				time.Sleep(time.Minute)
				early := s.held()
				time.Sleep(2 * time.Minute)
				return early + ", then " + s.held()
			}, without: whole + ", then " + whole, with: whole + ", then 1:b=1 2:a=2 3:x=1"},
		{broker: "log.cleaner.backoff.ms", value: "3600000", beside: tight,
			see: func(s *shown) string {
				s.put("a=1", "b=1", "a=2", "x=1")
				time.Sleep(time.Minute)
				early := s.held()
				time.Sleep(time.Hour)
				return early + ", then " + s.held()
			}, without: "1:b=1 2:a=2 3:x=1, then 1:b=1 2:a=2 3:x=1", with: whole + ", then 1:b=1 2:a=2 3:x=1"},
		{broker: "log.cleaner.io.max.bytes.per.second", value: "1", beside: tight,
			see: func(s *shown) string {
				s.put("a=1", "b=1", "a=2", "x=1")
				time.Sleep(2 * time.Minute)
				early := s.held()
				time.Sleep(time.Hour)
				return early + ", then " + s.held()
			}, without: "1:b=1 2:a=2 3:x=1, then 1:b=1 2:a=2 3:x=1", with: whole + ", then 1:b=1 2:a=2 3:x=1"},
		{static: map[string]string{"log.cleaner.enable": "false"}, beside: tight,
			see: func(s *shown) string {
				s.put("a=1", "b=1", "a=2", "x=1")
				time.Sleep(time.Hour)
				return s.held()
			}, without: "1:b=1 2:a=2 3:x=1", with: whole},
	})
}

// TestOffsetsAreCompacted commits many times: what the coordinator's topic holds stays small, and after a stop and after
// a kill every group is where it was.
func TestOffsetsAreCompacted(t *testing.T) {
	bubble(t, map[string]string{"offsets.topic.num.partitions": "1", "offsets.topic.segment.bytes": "1048576"}, func(t *testing.T, n *Node) {
		ctx := context.Background()
		s := newShown(t, n)
		if _, err := s.adm.CreateTopic(ctx, 4, 1, nil, "events"); err != nil {
			t.Fatal(err)
		}
		commit := func(group string, at int64) {
			t.Helper()
			list := kadm.Offsets{}
			for p := range int32(4) {
				list.Add(kadm.Offset{Topic: "events", Partition: p, At: at, LeaderEpoch: -1, Metadata: strings.Repeat("m", 1000)})
			}
			if err := s.adm.CommitAllOffsets(ctx, group, list); err != nil {
				t.Fatal(err)
			}
		}
		const groups, rounds = 5, 150
		for i := range rounds {
			for g := range groups {
				commit(fmt.Sprint("g", g), int64(i))
			}
		}
		size := func() (total int) {
			files, err := n.Disk.ReadDir("/data/__consumer_offsets-0")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if strings.HasSuffix(f.Name, ".log") {
					total += len(n.Disk.Bytes("/data/__consumer_offsets-0/" + f.Name))
				}
			}
			return total
		}
		if before := size(); before < groups*rounds*4000 {
			t.Fatalf("%d bytes are too few to be compacted", before)
		}
		check := func(when string) {
			t.Helper()
			for g := range groups {
				got, err := s.adm.FetchOffsets(ctx, fmt.Sprint("g", g))
				if err != nil {
					t.Fatal(err)
				}
				for p := range int32(4) {
					if o, ok := got.Lookup("events", p); !ok || o.At != rounds-1 || o.Metadata != strings.Repeat("m", 1000) {
						t.Errorf("%s: group %d, partition %d: %+v", when, g, p, o)
					}
				}
			}
		}
		time.Sleep(2 * time.Minute)
		if after := size(); after > 1<<20+200_000 {
			t.Errorf("%d bytes are left: what was rolled is to be compacted", after)
		}
		check("compacted")
		s.c.Close()
		for _, end := range []func(){n.Stop, n.Kill, n.PowerCut} {
			end()
			n.Start()
			s = newShown(t, n)
			check("started again")
			s.c.Close()
		}
	})
}
