package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/agent"
	"millrace/compat-tests/recfile"
)

// member is one consumer of a group. kgo heartbeats and rebalances in the background, so nothing polls between two
// consume steps; records it has fetched ahead it drops itself when their partition is taken away.
type member struct {
	client *kgo.Client
	topic  string

	mu       sync.Mutex
	assigned map[int32]bool
	written  map[int32]kgo.EpochOffset // the next offset after what was written to the output file
}

func (f *franz) open(r agent.Request) (any, error) {
	m := &member{topic: r.Topic, assigned: make(map[int32]bool), written: make(map[int32]kgo.EpochOffset)}
	balancers := map[string]kgo.GroupBalancer{
		"": kgo.RangeBalancer(), "range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
		"sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	balancer, ok := balancers[r.Strategy]
	if !ok {
		return nil, agent.Unsupported("no strategy " + r.Strategy)
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(f.bootstrap),
		kgo.ConsumerGroup(r.Group),
		kgo.ConsumeTopics(r.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.Balancers(balancer),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.HeartbeatInterval(300 * time.Millisecond), // how soon a member hears of a rebalance
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, p := range parts[m.topic] {
				m.assigned[p] = true
			}
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, _ *kgo.Client, parts map[string][]int32) {
			if err := m.commit(ctx, parts[m.topic]); err != nil {
				fmt.Fprintln(os.Stderr, "commit of revoked partitions:", err)
			}
			m.drop(parts[m.topic])
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			m.drop(parts[m.topic])
		}),
	}
	if r.Instance != "" {
		opts = append(opts, kgo.InstanceID(r.Instance))
	}
	if r.Protocol == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	m.client = client
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.consumers[r.Consumer] != nil {
		client.Close()
		return nil, fmt.Errorf("consumer %s is open already", r.Consumer)
	}
	f.consumers[r.Consumer] = m
	return nil, nil
}

func (f *franz) member(name string) (*member, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.consumers[name]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("no consumer %s is open", name)
}

func (m *member) drop(parts []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range parts {
		delete(m.assigned, p)
		delete(m.written, p)
	}
}

// commit commits what was written of the named partitions.
func (m *member) commit(ctx context.Context, parts []int32) error {
	m.mu.Lock()
	offsets := make(map[int32]kgo.EpochOffset)
	for _, p := range parts {
		if o, ok := m.written[p]; ok {
			offsets[p] = o
		}
	}
	m.mu.Unlock()
	if len(offsets) == 0 {
		return nil
	}
	var failed error
	m.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{m.topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			if failed = err; err != nil {
				return
			}
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					if err := kerr.ErrorForCode(p.ErrorCode); err != nil && failed == nil {
						failed = fmt.Errorf("partition %d: %w", p.Partition, err)
					}
				}
			}
		})
	return failed
}

func (m *member) assignment() []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	parts := slices.Sorted(maps.Keys(m.assigned))
	if parts == nil {
		parts = []int32{}
	}
	return parts
}

func (f *franz) consume(r agent.Request) (any, error) {
	m, err := f.member(r.Consumer)
	if err != nil {
		return nil, err
	}
	count := 0
	if r.Count > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.TimeoutMS)*time.Millisecond)
		defer cancel()
		count, err = m.readInto(ctx, r.Out, r.Count)
		if err != nil {
			return nil, err
		}
	}
	return map[string]any{"count": count, "assignment": m.assignment()}, nil
}

// readInto appends records to a file until there are count or the context is done.
func (m *member) readInto(ctx context.Context, path string, count int) (int, error) {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	w := recfile.NewWriter(out, true)
	n := 0
	for n < count && ctx.Err() == nil {
		fetches := m.client.PollRecords(ctx, min(count-n, 10_000))
		var failed error
		fetches.EachError(func(t string, p int32, err error) {
			if ctx.Err() == nil && failed == nil {
				failed = fmt.Errorf("%s-%d: %w", t, p, err)
			}
		})
		fetches.EachRecord(func(k *kgo.Record) {
			if err := w.Write(fromKgo(k)); err != nil && failed == nil {
				failed = err
			}
			n++
		})
		if err := w.Flush(); err != nil && failed == nil { // before a rebalance may commit these records
			failed = err
		}
		m.mu.Lock()
		fetches.EachRecord(func(k *kgo.Record) {
			m.written[k.Partition] = kgo.EpochOffset{Epoch: k.LeaderEpoch, Offset: k.Offset + 1}
		})
		m.mu.Unlock()
		m.client.AllowRebalance()
		if failed != nil {
			return n, failed
		}
	}
	return n, nil
}

func fromKgo(k *kgo.Record) *recfile.Record {
	rec := &recfile.Record{Partition: k.Partition, Offset: k.Offset, Timestamp: k.Timestamp.UnixMilli(), Key: k.Key, Value: k.Value}
	for _, h := range k.Headers {
		rec.Headers = append(rec.Headers, recfile.Header{Key: h.Key, Value: h.Value})
	}
	return rec
}

func (f *franz) commit(r agent.Request) (any, error) {
	m, err := f.member(r.Consumer)
	if err != nil {
		return nil, err
	}
	ctx, cancel := stepContext()
	defer cancel()
	return nil, m.commit(ctx, m.assignment())
}

func (f *franz) close(r agent.Request) (any, error) {
	m, err := f.member(r.Consumer)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	delete(f.consumers, r.Consumer)
	f.mu.Unlock()
	m.mu.Lock()
	clear(m.written) // leaving revokes, and closing does not commit
	m.mu.Unlock()
	m.client.CloseAllowingRebalance()
	return nil, nil
}

func (f *franz) seekTime(r agent.Request) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.TimeoutMS)*time.Millisecond)
	defer cancel()
	listed, err := f.admin.ListOffsetsAfterMilli(ctx, r.Timestamp, r.Topic)
	if err != nil {
		return nil, err
	}
	offsets := make(map[int32]int64)
	start := make(map[int32]kgo.Offset)
	for p, l := range listed[r.Topic] {
		if l.Err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, l.Err)
		}
		// kadm turns the broker's "no such record" into the end offset with timestamp -1.
		if l.Timestamp == -1 {
			offsets[p] = -1
			continue
		}
		offsets[p] = l.Offset
		start[p] = kgo.NewOffset().At(l.Offset)
	}
	if len(start) > 0 && r.Count > 0 {
		client, err := kgo.NewClient(kgo.SeedBrokers(f.bootstrap), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.Topic: start}))
		if err != nil {
			return nil, err
		}
		defer client.Close()
		m := &member{client: client, topic: r.Topic, written: make(map[int32]kgo.EpochOffset)}
		if _, err := m.readInto(ctx, r.Out, r.Count); err != nil {
			return nil, err
		}
	}
	return map[string]any{"offsets": offsets}, nil
}
