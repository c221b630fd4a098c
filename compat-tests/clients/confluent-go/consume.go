package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"millrace/compat-tests/agent"
	"millrace/compat-tests/recfile"
)

// keptMax is how many records a member keeps between two consume steps before it pauses its partitions.
const keptMax = 5000

// member is one consumer of a group. The client rebalances inside Poll, so a goroutine polls between two consume steps and
// keeps what comes for the next one.
type member struct {
	consumer *kafka.Consumer
	topic    string
	stopped  chan struct{}
	idling   sync.WaitGroup

	// mu is held over Poll, within which the client calls rebalanced.
	mu      sync.Mutex
	written map[int32]kafka.Offset // of assigned partitions, the offset after what was written to the output file
	kept    []*kafka.Message
	paused  bool
	closing bool
	w       *recfile.Writer // of the consume step in progress
}

func (c *client) open(r agent.Request) (any, error) {
	config := kafka.ConfigMap{
		"bootstrap.servers": c.bootstrap, "group.id": r.Group, "enable.auto.commit": false, "auto.offset.reset": "earliest",
		"isolation.level": "read_uncommitted",
	}
	if r.Instance != "" {
		config["group.instance.id"] = r.Instance
	}
	if r.Protocol == "consumer" {
		// KIP-848: the broker assigns, by an assignor of its own that the member may name.
		config["group.protocol"] = "consumer"
		if r.Strategy != "" {
			config["group.remote.assignor"] = r.Strategy
		}
	} else {
		strategy := r.Strategy
		if strategy == "" {
			strategy = "range"
		}
		if !slices.Contains([]string{"range", "roundrobin", "cooperative-sticky"}, strategy) {
			return nil, agent.Unsupported("no strategy " + strategy)
		}
		config["partition.assignment.strategy"] = strategy
		config["session.timeout.ms"] = 10000
		config["heartbeat.interval.ms"] = 300 // how soon a member hears of a rebalance
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.consumers[r.Consumer] != nil {
		return nil, fmt.Errorf("consumer %s is open already", r.Consumer)
	}
	consumer, err := kafka.NewConsumer(&config)
	if err != nil {
		return nil, err
	}
	m := &member{consumer: consumer, topic: r.Topic, stopped: make(chan struct{}), written: make(map[int32]kafka.Offset)}
	if err := consumer.SubscribeTopics([]string{r.Topic}, m.rebalanced); err != nil {
		consumer.Close()
		return nil, err
	}
	c.consumers[r.Consumer] = m
	m.idling.Go(m.idle)
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

// rebalanced is called within Poll and Close; the client itself assigns and unassigns after it.
func (m *member) rebalanced(_ *kafka.Consumer, event kafka.Event) error {
	revoked, ok := event.(kafka.RevokedPartitions)
	if !ok {
		return nil
	}
	var offsets []kafka.TopicPartition
	for _, p := range revoked.Partitions {
		if next, ok := m.written[p.Partition]; ok {
			offsets = append(offsets, kafka.TopicPartition{Topic: &m.topic, Partition: p.Partition, Offset: next})
		}
		delete(m.written, p.Partition)
		m.kept = slices.DeleteFunc(m.kept, func(k *kafka.Message) bool { return k.TopicPartition.Partition == p.Partition })
	}
	if len(offsets) == 0 || m.closing || m.consumer.AssignmentLost() {
		return nil
	}
	if m.w != nil {
		if err := m.w.Flush(); err != nil {
			return err
		}
	}
	if err := m.commitOffsets(offsets); err != nil {
		fmt.Fprintln(os.Stderr, "commit of revoked partitions:", err)
	}
	return nil
}

func (m *member) commitOffsets(offsets []kafka.TopicPartition) error {
	committed, err := m.consumer.CommitOffsets(offsets)
	for _, p := range committed {
		err = errors.Join(err, p.Error)
	}
	return err
}

// poll returns the next record, nil if none comes within the time.
func (m *member) poll(limit time.Duration) (*kafka.Message, error) {
	switch e := m.consumer.Poll(int(limit.Milliseconds())).(type) {
	case *kafka.Message:
		return e, e.TopicPartition.Error
	case kafka.Error:
		fmt.Fprintln(os.Stderr, "poll:", e)
		if e.IsFatal() {
			return nil, e
		}
	}
	return nil, nil
}

// idle polls while no step is in progress.
func (m *member) idle() {
	for {
		select {
		case <-m.stopped:
			return
		default:
		}
		m.mu.Lock()
		if len(m.kept) >= keptMax && !m.paused {
			m.pause(true)
		}
		for n := 0; n < 500; n++ {
			limit := time.Duration(0)
			if n == 0 {
				limit = 50 * time.Millisecond
			}
			k, err := m.poll(limit)
			if err != nil {
				fmt.Fprintln(os.Stderr, "poll between two steps:", err)
			}
			if k == nil {
				break
			}
			m.kept = append(m.kept, k)
		}
		m.mu.Unlock()
	}
}

func (m *member) pause(on bool) {
	partitions, err := m.consumer.Assignment()
	if err == nil && on {
		err = m.consumer.Pause(partitions)
	} else if err == nil {
		err = m.consumer.Resume(partitions)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pause or resume:", err)
	}
	m.paused = on
}

func toRecord(k *kafka.Message) *recfile.Record {
	p := k.TopicPartition
	rec := &recfile.Record{Partition: p.Partition, Offset: int64(p.Offset), Timestamp: k.Timestamp.UnixMilli(), Key: k.Key, Value: k.Value}
	for _, h := range k.Headers {
		rec.Headers = append(rec.Headers, recfile.Header{Key: h.Key, Value: h.Value})
	}
	return rec
}

func (c *client) consume(r agent.Request) (any, error) {
	m, err := c.member(r.Consumer)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	count := 0
	if r.Count > 0 {
		if count, err = m.readInto(r.Out, r.Count, time.Duration(r.TimeoutMS)*time.Millisecond); err != nil {
			return nil, err
		}
	}
	owned, err := m.consumer.Assignment()
	if err != nil {
		return nil, err
	}
	assignment := []int32{}
	for _, p := range owned {
		assignment = append(assignment, p.Partition)
	}
	slices.Sort(assignment)
	return map[string]any{"count": count, "assignment": assignment}, nil
}

// readInto appends records to a file until there are count or the time is up.
func (m *member) readInto(path string, count int, limit time.Duration) (int, error) {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	m.w = recfile.NewWriter(out, true)
	defer func() { m.w = nil }()
	deadline := time.Now().Add(limit)
	n := 0
	for ; n < count && len(m.kept) > 0; n++ {
		if err := m.write(m.kept[0]); err != nil {
			return n, err
		}
		m.kept = m.kept[1:]
	}
	for n < count && time.Now().Before(deadline) {
		if m.paused {
			m.pause(false)
		}
		k, err := m.poll(100 * time.Millisecond)
		if err != nil {
			return n, err
		}
		if k == nil {
			continue
		}
		if err := m.write(k); err != nil {
			return n, err
		}
		n++
	}
	return n, m.w.Flush()
}

func (m *member) write(k *kafka.Message) error {
	m.written[k.TopicPartition.Partition] = k.TopicPartition.Offset + 1
	return m.w.Write(toRecord(k))
}

func (c *client) commit(r agent.Request) (any, error) {
	m, err := c.member(r.Consumer)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(stepTimeout)
	for {
		err := m.commitWritten()
		var refused kafka.Error
		if !errors.As(err, &refused) || time.Now().After(deadline) ||
			(refused.Code() != kafka.ErrRebalanceInProgress && refused.Code() != kafka.ErrStaleMemberEpoch) {
			return nil, err
		}
		time.Sleep(100 * time.Millisecond) // the rebalance has to be finished by polling
	}
}

func (m *member) commitWritten() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var offsets []kafka.TopicPartition
	for p, next := range m.written {
		offsets = append(offsets, kafka.TopicPartition{Topic: &m.topic, Partition: p, Offset: next})
	}
	if len(offsets) == 0 {
		return nil
	}
	return m.commitOffsets(offsets)
}

// leave closes the member without committing.
func (m *member) leave() error {
	close(m.stopped)
	m.idling.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closing = true
	return m.consumer.Close()
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
	topic, err := c.topic(r.Topic)
	if err != nil {
		return nil, err
	}
	// The client wants a group name even where partitions are assigned by hand; nobody joins it.
	consumer, err := kafka.NewConsumer(&kafka.ConfigMap{"bootstrap.servers": c.bootstrap, "group.id": "no-group", "enable.auto.commit": false, "auto.offset.reset": "error"})
	if err != nil {
		return nil, err
	}
	m := &member{consumer: consumer, topic: r.Topic, written: make(map[int32]kafka.Offset)}
	defer consumer.Close()
	var asked, starts []kafka.TopicPartition
	for _, p := range topic.Partitions {
		asked = append(asked, kafka.TopicPartition{Topic: &r.Topic, Partition: int32(p.Partition), Offset: kafka.Offset(r.Timestamp)})
	}
	found, err := consumer.OffsetsForTimes(asked, int(stepTimeout.Milliseconds()))
	if err != nil {
		return nil, err
	}
	offsets := make(map[int32]int64)
	for _, p := range found {
		if p.Error != nil {
			return nil, fmt.Errorf("partition %d: %w", p.Partition, p.Error)
		}
		if offsets[p.Partition] = -1; p.Offset >= 0 {
			offsets[p.Partition] = int64(p.Offset)
			starts = append(starts, p)
		}
	}
	if len(starts) > 0 && r.Count > 0 {
		if err := consumer.Assign(starts); err != nil {
			return nil, err
		}
		if _, err := m.readInto(r.Out, r.Count, time.Duration(r.TimeoutMS)*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return map[string]any{"offsets": offsets}, nil
}
