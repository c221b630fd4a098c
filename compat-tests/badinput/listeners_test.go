//go:build compat && linux

package badinput

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/compat-tests/launch"
)

// freeAddresses gives loopback addresses that nobody listens on.
func freeAddresses(t *testing.T, n int) (list []string) {
	t.Helper()
	seen := map[string]bool{}
	for len(list) < n {
		a, err := launch.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		if !seen[a] {
			seen[a], list = true, append(list, a)
		}
	}
	return list
}

// TestListenersChangeUnderLoad: a listener moves from port to port, and the limits
// of connections go up and down, while clients produce to it and fetch from it. Each record is stored once and in order, and
// everybody is served when it is over.
func TestListenersChangeUnderLoad(t *testing.T) {
	t.Parallel()
	const partitions, turns = 3, 40
	addresses := freeAddresses(t, 4)
	dir := filepath.Join(t.TempDir(), "data")
	fixed, ports := addresses[0], addresses[1:]
	all := func(moving string) string { return "PLAINTEXT://" + fixed + ",MOVING://" + moving }
	v := start(t, dir, "", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,MOVING:PLAINTEXT", "listeners="+all(ports[0]))

	const load = "moving-load"
	admin := v.client(t)
	made, err := kadm.NewClient(admin).CreateTopics(t.Context(), partitions, 1, nil, load)
	admin.Close()
	if err != nil || made.Error() != nil {
		t.Fatal(err, made.Error())
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	client := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(ports...), kgo.AllowAutoTopicCreation(), kgo.MetadataMinAge(50 * time.Millisecond),
			kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.RequestRetries(1 << 20), kgo.UnknownTopicRetries(-1),
			kgo.DialTimeout(time.Second)}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		return cl
	}
	var wg sync.WaitGroup
	var acked, seen atomic.Int64
	sent := make([]int, partitions)
	for p := range partitions {
		cl := client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(load), kgo.MaxBufferedRecords(200))
		wg.Go(func() {
			defer cl.Close()
			for ctx.Err() == nil {
				cl.Produce(context.WithoutCancel(ctx), &kgo.Record{Partition: int32(p), Value: strconv.AppendInt(nil, int64(sent[p]), 10)}, func(_ *kgo.Record, err error) {
					if err != nil {
						t.Errorf("a record of partition %d: %v", p, err)
					}
					acked.Add(1)
				})
				if sent[p]++; sent[p]%50 == 0 {
					time.Sleep(5 * time.Millisecond)
				}
			}
			if err := cl.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	reader := client(kgo.ConsumeTopics(load), kgo.ConsumerGroup("moving-group"))
	wg.Go(func() {
		defer reader.Close()
		for ctx.Err() == nil {
			seen.Add(int64(reader.PollFetches(ctx).NumRecords()))
		}
	})

	rng := rand.New(rand.NewPCG(7, 7))
	port := 0
	change := func(key, value string) {
		t.Helper()
		s := setting{"1", key, &value}
		if value == "" {
			s.value = nil
		}
		if code, message := v.set(t, s); code != 0 {
			t.Errorf("%v: error %d %q", s, code, message)
		}
	}
	for turn := range turns {
		switch rng.IntN(5) {
		case 0, 1:
			port = (port + 1 + rng.IntN(len(ports)-1)) % len(ports)
			change("listeners", all(ports[port]))
		case 2:
			change("max.connections.per.ip", strconv.Itoa(12+rng.IntN(20)))
		case 3:
			change("listener.name.moving.max.connections", strconv.Itoa(2+rng.IntN(10)))
		default:
			change("listener.name.moving.max.connection.creation.rate", strconv.Itoa(5+rng.IntN(20)))
		}
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
		if turn%8 == 7 {
			for _, key := range []string{"max.connections.per.ip", "listener.name.moving.max.connections", "listener.name.moving.max.connection.creation.rate"} {
				change(key, "")
			}
			// The load goes on.
			before, read := acked.Load(), seen.Load()
			for end := time.Now().Add(prompt); acked.Load() == before || seen.Load() == read; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("after turn %d nothing goes on: %d acknowledged, %d read", turn, before, read)
				}
			}
		}
	}
	stop()
	wg.Wait()
	t.Logf("%d records were acknowledged, %d read meanwhile", acked.Load(), seen.Load())
	v.holdsNumbers(t, load, sent)
	v.check(t, 2*budget+allowance)
	v.ends(t)
	// The end of it: a restart with the last of the dynamic listeners.
	v = start(t, dir, "", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,MOVING:PLAINTEXT", "listeners="+all(ports[0]))
	v.check(t, 2*budget+allowance)
	v.ends(t)
}

// holdsNumbers wants in each partition of a topic the numbers from 0, each once
// and in order.
func (v *victim) holdsNumbers(t *testing.T, in string, counts []int) {
	t.Helper()
	offsets := map[int32]kgo.Offset{}
	left := 0
	for p, n := range counts {
		offsets[int32(p)] = kgo.NewOffset().AtStart()
		left += n
	}
	cl := v.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{in: offsets}))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*prompt)
	defer cancel()
	next := make([]int, len(counts))
	for left > 0 {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("reading %s, of %v there were %v: %v", in, counts, next, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if want := fmt.Sprint(next[r.Partition]); string(r.Value) != want || r.Offset != int64(next[r.Partition]) {
				t.Fatalf("partition %d offset %d: %s, want %s", r.Partition, r.Offset, strings.ToValidUTF8(string(r.Value), "?"), want)
			}
			next[r.Partition]++
			left--
		})
	}
}
