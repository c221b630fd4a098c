package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"millrace/compat-tests/agent"
	"millrace/compat-tests/recfile"
)

func sortByID[T any](list []T, id func(T) int32) {
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(id(a), id(b)) })
}

// member is one consumer of a group. Sarama heartbeats in the background and runs one goroutine per partition, its claim;
// the claims write to the output file of the consume step in progress, and keep what comes between two steps, when the
// client is paused.
type member struct {
	group  sarama.ConsumerGroup
	topic  string
	cancel context.CancelFunc
	ended  chan struct{} // the consume loop is over

	mu       sync.Mutex
	session  sarama.ConsumerGroupSession // nil between two sessions
	claims   map[int32]sarama.ConsumerGroupSession
	written  map[int32]int64 // of claimed partitions, the offset after what was written to the output file
	kept     map[int32][]*sarama.ConsumerMessage
	out      *output // of the consume step in progress
	closing  bool
	groupErr error // the last one that the client reported
}

// output takes the records of one consume step.
type output struct {
	w      *recfile.Writer
	wanted int
	count  int
	done   chan struct{} // closed when count has reached wanted, or writing failed
	failed error
}

func (o *output) write(m *sarama.ConsumerMessage) {
	rec := &recfile.Record{Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp.UnixMilli(), Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		rec.Headers = append(rec.Headers, recfile.Header{Key: string(h.Key), Value: h.Value})
	}
	err := o.w.Write(rec)
	if err != nil && o.failed == nil {
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
	strategies := map[string]func() sarama.BalanceStrategy{
		"": sarama.NewBalanceStrategyRange, "range": sarama.NewBalanceStrategyRange, "roundrobin": sarama.NewBalanceStrategyRoundRobin,
		"sticky": sarama.NewBalanceStrategySticky, "cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
	}
	strategy, ok := strategies[r.Strategy]
	if !ok {
		return nil, agent.Unsupported("no strategy " + r.Strategy)
	}
	config := c.config()
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy()}
	config.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond // how soon a member hears of a rebalance
	config.Consumer.Group.InstanceId = r.Instance
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Return.Errors = true
	group, err := sarama.NewConsumerGroup(c.bootstrap, r.Group, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{group: group, topic: r.Topic, cancel: cancel, ended: make(chan struct{}), claims: make(map[int32]sarama.ConsumerGroupSession),
		written: make(map[int32]int64), kept: make(map[int32][]*sarama.ConsumerMessage)}
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
	go func() {
		for err := range group.Errors() {
			fmt.Fprintln(os.Stderr, r.Consumer+":", err)
			m.mu.Lock()
			m.groupErr = err
			m.mu.Unlock()
		}
	}()
	go func() {
		defer close(m.ended)
		for ctx.Err() == nil {
			// Returns after each rebalance that ends a session.
			if err := group.Consume(ctx, []string{m.topic}, m); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, r.Consumer+": consume:", err)
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
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

// Setup begins a session.
func (m *member) Setup(s sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session = s
	return nil
}

// Cleanup ends a session; all its claims have returned.
func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session = nil
	return nil
}

// ConsumeClaim runs as long as the member has the partition. At its end it commits what was written of it.
func (m *member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	p := claim.Partition()
	m.mu.Lock()
	m.claims[p] = s
	if m.out == nil {
		m.group.Pause(map[string][]int32{m.topic: {p}})
	}
	m.mu.Unlock()
	for {
		select {
		case <-s.Context().Done():
			m.release(s, p)
			return nil
		case message, ok := <-claim.Messages():
			if !ok {
				m.release(s, p)
				return nil
			}
			m.mu.Lock()
			if m.out == nil || m.out.count >= m.out.wanted {
				m.kept[p] = append(m.kept[p], message)
			} else {
				m.out.write(message)
				m.written[p] = message.Offset + 1
			}
			m.mu.Unlock()
		}
	}
}

// release forgets a partition and commits what was written of it. The lock is held over the commit: no consume step may
// write meanwhile.
func (m *member) release(s sarama.ConsumerGroupSession, p int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, ok := m.written[p]
	delete(m.written, p)
	delete(m.kept, p)
	delete(m.claims, p)
	if !ok || m.closing {
		return
	}
	if m.out != nil {
		if err := m.out.w.Flush(); err != nil {
			fmt.Fprintln(os.Stderr, "flush before a commit:", err)
			return
		}
	}
	s.MarkOffset(m.topic, p, next, "")
	s.Commit()
}

func (m *member) assignment() []int32 {
	parts := []int32{}
	for p := range m.claims {
		parts = append(parts, p)
	}
	slices.Sort(parts)
	return parts
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
	return map[string]any{"count": count, "assignment": m.assignment()}, nil
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
	for p, messages := range m.kept {
		n := min(len(messages), count-out.count)
		for _, message := range messages[:n] {
			out.write(message)
			m.written[p] = message.Offset + 1
		}
		m.kept[p] = messages[n:]
		if out.count == count {
			break
		}
	}
	if out.count < count {
		// Nothing is kept any more, so what comes now may be written at once.
		m.out = out
		m.group.ResumeAll()
	}
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
	m.group.PauseAll()
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
	if m.session == nil {
		return nil, errors.New("the member is not in the group")
	}
	for p, next := range m.written {
		m.session.MarkOffset(m.topic, p, next, "")
	}
	m.session.Commit() // what goes wrong comes through the group's errors alone
	return nil, nil
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
	partitions, err := c.plain.Partitions(r.Topic)
	if err != nil {
		return nil, err
	}
	offsets := make(map[int32]int64)
	found := 0
	for _, p := range partitions {
		if offsets[p], err = c.plain.GetOffset(r.Topic, p, r.Timestamp); err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
		if offsets[p] >= 0 {
			found++
		}
	}
	if found == 0 || r.Count == 0 {
		return map[string]any{"offsets": offsets}, nil
	}
	file, err := os.OpenFile(r.Out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	out := &output{w: recfile.NewWriter(file, true), wanted: r.Count, done: make(chan struct{})}
	consumer, err := sarama.NewConsumer(c.bootstrap, c.config())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var readers []sarama.PartitionConsumer
	defer func() {
		for _, reader := range readers {
			reader.AsyncClose()
		}
		wg.Wait()
	}()
	for p, offset := range offsets {
		if offset < 0 {
			continue
		}
		reader, err := consumer.ConsumePartition(r.Topic, p, offset)
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p, err)
		}
		readers = append(readers, reader)
		wg.Go(func() {
			for message := range reader.Messages() {
				mu.Lock()
				if out.count < out.wanted {
					out.write(message)
				}
				mu.Unlock()
			}
		})
	}
	timer := time.NewTimer(time.Duration(r.TimeoutMS) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-out.done:
	case <-timer.C:
	}
	mu.Lock()
	defer mu.Unlock()
	if err := errors.Join(out.failed, out.w.Flush()); err != nil {
		return nil, err
	}
	return map[string]any{"offsets": offsets}, nil
}
