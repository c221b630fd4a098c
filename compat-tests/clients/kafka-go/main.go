// Command kafka-go is the compatibility suite's agent for segmentio's kafka-go: it makes the client's calls that the driver
// asks for over the agent protocol (PROTOCOL.md), and checks nothing itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"millrace/compat-tests/agent"
	"millrace/compat-tests/recfile"
)

const stepTimeout = 60 * time.Second

type client struct {
	bootstrap string
	addr      net.Addr
	admin     *kafka.Client

	mu        sync.Mutex
	consumers map[string]*member
}

func main() {
	bootstrap, _ := agent.Flags()
	addr := kafka.TCP(bootstrap)
	c := &client{bootstrap: bootstrap, addr: addr, admin: &kafka.Client{Addr: addr, Timeout: stepTimeout}, consumers: make(map[string]*member)}
	hello := agent.Hello{Client: "kafka-go", Version: moduleVersion(), Cannot: []string{"empty-value", "empty-header-value"},
		Note: "its Reader hands empty values over as null ones"}
	err := agent.Serve(os.Stdin, os.Stdout, hello, map[string]agent.Func{
		"create-topic":     c.createTopic,
		"produce":          c.produce,
		"consumer-open":    c.open,
		"consume":          c.consume,
		"commit":           c.commit,
		"consumer-close":   c.close,
		"seek-time":        c.seekTime,
		"describe-topic":   c.describeTopic,
		"describe-configs": c.describeConfigs,
		"describe-group":   c.describeGroup,
		"lag":              c.lag,
		"delete-topic":     c.deleteTopic,
		"delete-group":     c.deleteGroup,
	})
	for _, m := range c.consumers {
		m.leave()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// moduleVersion is the one the program was built with, as the table is to name it.
func moduleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/segmentio/kafka-go" {
				return m.Version
			}
		}
	}
	return "unknown"
}

func stepContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), stepTimeout)
}

func (c *client) createTopic(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	topic := kafka.TopicConfig{Topic: r.Topic, NumPartitions: int(r.Partitions), ReplicationFactor: 1}
	for k, v := range r.Configs {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: k, ConfigValue: v})
	}
	resp, err := c.admin.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err != nil {
		return nil, err
	}
	return nil, resp.Errors[r.Topic]
}

// balancer sends a record where it says, and a record that names no partition where one of the client's own does.
type balancer struct{ own kafka.Murmur2Balancer }

func (b *balancer) Balance(m kafka.Message, partitions ...int) int {
	if to := m.WriterData.(int32); to >= 0 {
		return int(to)
	}
	return b.own.Balance(m, partitions...)
}

func (c *client) produce(r agent.Request) (any, error) {
	if r.Idempotent {
		return nil, agent.Unsupported("the client's Writer has no idempotence")
	}
	codecs := map[string]kafka.Compression{"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}
	codec, ok := codecs[r.Codec]
	if !ok {
		return nil, agent.Unsupported("no codec " + r.Codec)
	}
	limit := stepTimeout
	if r.TimeoutMS > 0 {
		limit = time.Duration(r.TimeoutMS) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	in, err := os.Open(r.File)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var mu sync.Mutex
	count := 0
	offsets := make(map[int32]int64)
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	w := &kafka.Writer{
		Addr:         c.addr,
		Topic:        r.Topic,
		Balancer:     &balancer{},
		BatchSize:    2000,
		BatchBytes:   4_000_000,
		BatchTimeout: 5 * time.Millisecond,
		RequiredAcks: map[string]kafka.RequiredAcks{"": kafka.RequireAll, "all": kafka.RequireAll, "1": kafka.RequireOne, "0": kafka.RequireNone}[r.Acks],
		Compression:  codec,
		Transport:    transport,
		Completion: func(messages []kafka.Message, err error) {
			if err != nil {
				return // WriteMessages reports it too
			}
			mu.Lock()
			defer mu.Unlock()
			count += len(messages)
			for _, m := range messages {
				p := int32(m.Partition)
				offsets[p] = max(offsets[p], m.Offset)
			}
		},
	}
	sendErr := send(ctx, w, recfile.NewReader(in, false))
	if err := errors.Join(sendErr, w.Close()); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	if r.Acks == "0" { // then the client knows no offsets
		return map[string]any{"count": count}, nil
	}
	return map[string]any{"count": count, "offsets": offsets}, nil
}

// send writes the records some thousands at a time: each call waits for its records' acknowledgements, and asking for that
// in the background instead would hold them all in memory.
func send(ctx context.Context, w *kafka.Writer, records *recfile.Reader) error {
	const some = 10_000
	batch := make([]kafka.Message, 0, some)
	for {
		rec, err := records.Read()
		if err != nil && err != io.EOF {
			return err
		}
		if err == nil {
			m := kafka.Message{Key: rec.Key, Value: rec.Value, WriterData: rec.Partition}
			if rec.Timestamp >= 0 {
				m.Time = time.UnixMilli(rec.Timestamp)
			}
			for _, h := range rec.Headers {
				m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
			}
			batch = append(batch, m)
		}
		if len(batch) == some || err == io.EOF {
			if writeErr := w.WriteMessages(ctx, batch...); writeErr != nil {
				var each kafka.WriteErrors
				if errors.As(writeErr, &each) {
					for _, one := range each {
						if one != nil {
							return fmt.Errorf("%d of %d records: %w", each.Count(), len(batch), one)
						}
					}
				}
				return writeErr
			}
			batch = batch[:0]
		}
		if err == io.EOF {
			return nil
		}
	}
}

// topic asks for a topic's description.
func (c *client) topic(ctx context.Context, name string) (kafka.Topic, error) {
	resp, err := c.admin.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{name}})
	if err != nil {
		return kafka.Topic{}, err
	}
	for _, t := range resp.Topics {
		if t.Name == name {
			return t, t.Error
		}
	}
	return kafka.Topic{}, fmt.Errorf("the answer does not name the topic %s", name)
}

func ids(brokers []kafka.Broker) []int {
	list := []int{}
	for _, b := range brokers {
		list = append(list, b.ID)
	}
	return list
}

func (c *client) describeTopic(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	topic, err := c.topic(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	type partition struct {
		ID       int   `json:"id"`
		Leader   int   `json:"leader"`
		Replicas []int `json:"replicas"`
		ISR      []int `json:"isr"`
	}
	parts := []partition{}
	for _, p := range topic.Partitions {
		if p.Error != nil {
			return nil, fmt.Errorf("partition %d: %w", p.ID, p.Error)
		}
		parts = append(parts, partition{p.ID, p.Leader.ID, ids(p.Replicas), ids(p.Isr)})
	}
	slices.SortFunc(parts, func(a, b partition) int { return a.ID - b.ID })
	return map[string]any{"partitions": parts}, nil
}

func (c *client) describeConfigs(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	resp, err := c.admin.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: r.Topic}},
	})
	if err != nil {
		return nil, err
	}
	configs := make(map[string]*string)
	for _, resource := range resp.Resources {
		if resource.Error != nil {
			return nil, resource.Error
		}
		for _, e := range resource.ConfigEntries {
			if configs[e.ConfigName] = &e.ConfigValue; e.IsSensitive {
				configs[e.ConfigName] = nil
			}
		}
	}
	return map[string]any{"configs": configs}, nil
}

func (c *client) describeGroup(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	resp, err := c.admin.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{r.Group}})
	if err != nil {
		return nil, err
	}
	if len(resp.Groups) != 1 {
		return nil, fmt.Errorf("%d groups were described, not 1", len(resp.Groups))
	}
	g := resp.Groups[0]
	if g.Error != nil {
		return nil, g.Error
	}
	return map[string]any{"state": g.GroupState, "members": len(g.Members)}, nil
}

func (c *client) lag(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	topic, err := c.topic(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	var partitions []int
	var ends []kafka.OffsetRequest
	for _, p := range topic.Partitions {
		partitions = append(partitions, p.ID)
		ends = append(ends, kafka.LastOffsetOf(p.ID))
	}
	fetched, err := c.admin.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: r.Group, Topics: map[string][]int{r.Topic: partitions}})
	if err == nil {
		err = fetched.Error
	}
	if err != nil {
		return nil, err
	}
	listed, err := c.admin.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{r.Topic: ends}})
	if err != nil {
		return nil, err
	}
	end := make(map[int]int64)
	for _, p := range listed.Topics[r.Topic] {
		if p.Error != nil {
			return nil, fmt.Errorf("partition %d: %w", p.Partition, p.Error)
		}
		end[p.Partition] = p.LastOffset
	}
	lag := make(map[int]int64)
	for _, p := range fetched.Topics[r.Topic] {
		if p.Error != nil {
			return nil, fmt.Errorf("partition %d: %w", p.Partition, p.Error)
		}
		if p.CommittedOffset >= 0 {
			lag[p.Partition] = end[p.Partition] - p.CommittedOffset
		}
	}
	return map[string]any{"lag": lag}, nil
}

func (c *client) deleteTopic(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	resp, err := c.admin.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{r.Topic}})
	if err != nil {
		return nil, err
	}
	return nil, resp.Errors[r.Topic]
}

func (c *client) deleteGroup(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	resp, err := c.admin.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{r.Group}})
	if err != nil {
		return nil, err
	}
	return nil, resp.Errors[r.Group]
}
