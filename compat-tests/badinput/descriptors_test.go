//go:build compat && linux

package badinput

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFewDescriptors: a broker that may open few files serves partitions that are
// more than those, to consumers that each ask for all of them, while they are
// written to, and starts again.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	const (
		partitions = 60
		each       = 40 // records of a partition at a time
		readers    = 3
	)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "data")
	v := start(t, dir, "ulimit -n 64", "offsets.topic.num.partitions=1")
	client := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(v.Bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
		if err != nil {
			t.Fatal(err)
		}
		return cl
	}
	w := client()
	req := kmsg.NewPtrCreateTopicsRequest()
	ct := kmsg.NewCreateTopicsRequestTopic()
	ct.Topic, ct.NumPartitions, ct.ReplicationFactor = topic, partitions, 1
	req.Topics = append(req.Topics, ct)
	if _, err := req.RequestWith(ctx, w); err != nil {
		t.Fatal(err)
	}
	fill := func(round int) error {
		var rs []*kgo.Record
		for i := range partitions * each {
			p := i % partitions
			rs = append(rs, &kgo.Record{Topic: topic, Partition: int32(p), Value: fmt.Appendf(nil, "%d-%d-%d-%0500d", round, p, i/partitions, 0)})
		}
		return w.ProduceSync(ctx, rs...).FirstErr()
	}
	if err := fill(0); err != nil {
		t.Fatal(err)
	}
	from := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		from[p] = kgo.NewOffset().At(0)
	}
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() {
			cl := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchMaxWait(200*time.Millisecond))
			defer cl.Close()
			next := map[int32]int64{}
			for n := 0; n < 3*partitions*each; {
				fs := cl.PollFetches(ctx)
				if ctx.Err() != nil {
					t.Errorf("reader %d has %d records of %d", i, n, 3*partitions*each)
					return
				}
				fs.EachError(func(_ string, p int32, err error) { t.Logf("reader %d is told of partition %d: %v", i, p, err) })
				fs.EachRecord(func(r *kgo.Record) {
					if r.Offset != next[r.Partition] {
						t.Errorf("partition %d: offset %d follows %d", r.Partition, r.Offset, next[r.Partition]-1)
					}
					next[r.Partition] = r.Offset + 1
					n++
				})
			}
		})
	}
	for round := 1; round < 3; round++ {
		if err := fill(round); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	w.Close()
	for _, clean := range []bool{true, false} {
		if clean {
			if err := v.Stop(); err != nil {
				t.Fatal(err)
			}
		} else {
			v.Kill()
		}
		v = start(t, dir, "ulimit -n 64", "offsets.topic.num.partitions=1")
		cl := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
		for n := 0; n < 3*partitions*each; n += cl.PollFetches(ctx).NumRecords() {
			if ctx.Err() != nil {
				t.Fatalf("clean %v: %d records are there after a start, of %d", clean, n, 3*partitions*each)
			}
		}
		cl.Close()
	}
	v.ends(t)
}
