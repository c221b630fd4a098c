package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"millrace/compat-tests/agent"
	"millrace/compat-tests/recfile"
)

// member is one consumer of a group: the client's ConsumerGroup, which joins and heartbeats in the background, and in each
// generation one Reader for each partition. The Readers write to the output file of the consume step in progress; between
// two steps they wait, each with a record in its hand.
type member struct {
	bootstrap string
	topic     string
	group     *kafka.ConsumerGroup
	cancel    context.CancelFunc
	ended     chan struct{} // the loop over generations is over

	mu         sync.Mutex
	wake       *sync.Cond // a consume step began, or a generation ended
	generation *kafka.Generation
	assigned   []int
	written    map[int]int64 // of assigned partitions, the offset after what was written to the output file
	out        *output       // of the consume step in progress
	closing    bool
}

// output takes the records of one consume step.
type output struct {
	w      *recfile.Writer
	wanted int
	count  int
	done   chan struct{} // closed when count has reached wanted
	failed error
}

func (o *output) write(m kafka.Message) {
	rec := &recfile.Record{Partition: int32(m.Partition), Offset: m.Offset, Timestamp: m.Time.UnixMilli(), Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		rec.Headers = append(rec.Headers, recfile.Header{Key: h.Key, Value: h.Value})
	}
	if err := o.w.Write(rec); err != nil && o.failed == nil {
		o.failed = err
	}
	if o.count++; o.count == o.wanted {
		close(o.done)
	}
}

func (c *client) open(r agent.Request) (any, error) {
	if r.Protocol == "consumer" {
		return nil, agent.Unsupported("the client has no group protocol but the classic one")
	}
	if r.Instance != "" {
		return nil, agent.Unsupported("the client has no static members")
	}
	balancers := map[string]kafka.GroupBalancer{"": kafka.RangeGroupBalancer{}, "range": kafka.RangeGroupBalancer{}, "roundrobin": kafka.RoundRobinGroupBalancer{}}
	b, ok := balancers[r.Strategy]
	if !ok {
		return nil, agent.Unsupported("no strategy " + r.Strategy)
	}
	complain := kafka.LoggerFunc(func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, r.Consumer+": "+format+"\n", args...)
	})
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: r.Group, Brokers: []string{c.bootstrap}, Topics: []string{r.Topic}, GroupBalancers: []kafka.GroupBalancer{b},
		HeartbeatInterval: 300 * time.Millisecond, // how soon a member hears of a rebalance
		SessionTimeout:    10 * time.Second, RebalanceTimeout: 10 * time.Second, JoinGroupBackoff: 200 * time.Millisecond,
		StartOffset: kafka.FirstOffset, Timeout: 15 * time.Second, ErrorLogger: complain,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{bootstrap: c.bootstrap, topic: r.Topic, group: group, cancel: cancel, ended: make(chan struct{}), written: make(map[int]int64)}
	m.wake = sync.NewCond(&m.mu)
	c.mu.Lock()
	taken := c.consumers[r.Consumer] != nil
	if !taken {
		c.consumers[r.Consumer] = m
	}
	c.mu.Unlock()
	if taken {
		cancel()
		group.Close()
		return nil, fmt.Errorf("consumer %s is open already", r.Consumer)
	}
	go m.run(ctx)
	return nil, nil
}

func (c *client) member(name string) (*member, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.consumers[name]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("no consumer %s is open", name)
}

// run starts the Readers of one generation after another.
func (m *member) run(ctx context.Context) {
	defer close(m.ended)
	for {
		g, err := m.group.Next(ctx)
		if errors.Is(err, kafka.ErrGroupClosed) || ctx.Err() != nil {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "next generation:", err)
			continue
		}
		m.mu.Lock()
		m.generation, m.assigned = g, nil
		for _, p := range g.Assignments[m.topic] {
			m.assigned = append(m.assigned, p.ID)
			g.Start(func(ctx context.Context) { m.read(ctx, g, p) })
		}
		slices.Sort(m.assigned)
		m.mu.Unlock()
	}
}

// read hands the records of one partition over until the generation ends; then it commits what was written of them.
func (m *member) read(ctx context.Context, g *kafka.Generation, from kafka.PartitionAssignment) {
	stop := context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.wake.Broadcast()
	})
	defer stop()
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{m.bootstrap}, Topic: m.topic, Partition: from.ID, MaxBytes: 8 << 20, MaxWait: 500 * time.Millisecond, QueueCapacity: 1000,
		ReadBackoffMin: 10 * time.Millisecond, ReadBackoffMax: 100 * time.Millisecond,
	})
	defer reader.Close()
	err := reader.SetOffset(from.Offset)
	for err == nil {
		var message kafka.Message
		if message, err = reader.FetchMessage(ctx); err != nil {
			break
		}
		m.mu.Lock()
		for m.out == nil && ctx.Err() == nil {
			m.wake.Wait()
		}
		if err = ctx.Err(); err == nil {
			m.out.write(message)
			m.written[from.ID] = message.Offset + 1
			if m.out.count == m.out.wanted {
				m.out = nil
			}
		}
		m.mu.Unlock()
	}
	if ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "reading partition %d: %v\n", from.ID, err)
		<-ctx.Done() // returning would end the generation
	}
	// The lock is held over the commit: no consume step may write meanwhile.
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation == g {
		m.assigned = nil
	}
	next, ok := m.written[from.ID]
	delete(m.written, from.ID)
	if !ok || m.closing {
		return
	}
	if m.out != nil {
		if err := m.out.w.Flush(); err != nil {
			fmt.Fprintln(os.Stderr, "flush before a commit:", err)
			return
		}
	}
	if err := g.CommitOffsets(map[string]map[int]int64{m.topic: {from.ID: next}}); err != nil {
		fmt.Fprintf(os.Stderr, "commit of partition %d, which is taken away: %v\n", from.ID, err)
	}
}

func (c *client) consume(r agent.Request) (any, error) {
	m, err := c.member(r.Consumer)
	if err != nil {
		return nil, err
	}
	count := 0
	if r.Count > 0 {
		if count, err = m.readInto(r.Out, r.Count, time.Duration(r.TimeoutMS)*time.Millisecond); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return map[string]any{"count": count, "assignment": append([]int{}, m.assigned...)}, nil
}

// readInto appends records to a file until there are count or the time is up.
func (m *member) readInto(path string, count int, limit time.Duration) (int, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	out := &output{w: recfile.NewWriter(file, true), wanted: count, done: make(chan struct{})}
	m.mu.Lock()
	m.out = out
	m.wake.Broadcast()
	m.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-out.done:
	case <-timer.C:
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out = nil
	return out.count, errors.Join(out.failed, out.w.Flush())
}

func (c *client) commit(r agent.Request) (any, error) {
	m, err := c.member(r.Consumer)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.written) == 0 {
		return nil, nil
	}
	return nil, m.generation.CommitOffsets(map[string]map[int]int64{m.topic: m.written})
}

// leave closes the member without committing.
func (m *member) leave() error {
	m.mu.Lock()
	m.closing = true
	m.mu.Unlock()
	m.cancel()
	<-m.ended
	return m.group.Close()
}

func (c *client) close(r agent.Request) (any, error) {
	m, err := c.member(r.Consumer)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	delete(c.consumers, r.Consumer)
	c.mu.Unlock()
	return nil, m.leave()
}

func (c *client) seekTime(r agent.Request) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.TimeoutMS)*time.Millisecond)
	defer cancel()
	topic, err := c.topic(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	var asked []kafka.OffsetRequest
	for _, p := range topic.Partitions {
		asked = append(asked, kafka.TimeOffsetOf(p.ID, time.UnixMilli(r.Timestamp)))
	}
	resp, err := c.admin.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{r.Topic: asked}})
	if err != nil {
		return nil, err
	}
	offsets := make(map[int]int64)
	for _, p := range resp.Topics[r.Topic] {
		if p.Error != nil {
			return nil, fmt.Errorf("partition %d: %w", p.Partition, p.Error)
		}
		offsets[p.Partition] = -1
		for offset := range p.Offsets { // at most one, as one time was asked for
			offsets[p.Partition] = offset
		}
	}
	file, err := os.OpenFile(r.Out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	out := &output{w: recfile.NewWriter(file, true), wanted: r.Count, done: make(chan struct{})}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	for p, offset := range offsets {
		if offset < 0 {
			continue
		}
		wg.Go(func() {
			reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{c.bootstrap}, Topic: r.Topic, Partition: p, MaxBytes: 8 << 20, MaxWait: 500 * time.Millisecond})
			defer reader.Close()
			err := reader.SetOffset(offset)
			for err == nil {
				var message kafka.Message
				if message, err = reader.FetchMessage(reading); err != nil {
					break
				}
				mu.Lock()
				if out.count < out.wanted {
					out.write(message)
				}
				mu.Unlock()
			}
			if reading.Err() == nil {
				mu.Lock()
				failed = errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	if r.Count > 0 {
		select {
		case <-out.done:
		case <-ctx.Done():
		}
	}
	stop()
	wg.Wait()
	if err := errors.Join(failed, out.failed, out.w.Flush()); err != nil {
		return nil, err
	}
	return map[string]any{"offsets": offsets}, nil
}
