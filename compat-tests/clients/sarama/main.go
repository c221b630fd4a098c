// Command sarama is the compatibility suite's agent for Sarama: it makes the client's calls that the driver asks for over
// the agent protocol (PROTOCOL.md), and checks nothing itself.
//
// With -speak it is told which Kafka version the client is to take the broker for: Sarama asks for no versions by
// default, but uses the ones that go with the configured Kafka version.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"millrace/compat-tests/agent"
	"millrace/compat-tests/recfile"
)

const stepTimeout = 60 * time.Second

type client struct {
	bootstrap []string
	speak     sarama.KafkaVersion
	admin     sarama.ClusterAdmin
	plain     sarama.Client

	mu        sync.Mutex
	consumers map[string]*member
}

func main() {
	speak := flag.String("speak", sarama.DefaultVersion.String(), "the Kafka version that the client speaks")
	bootstrap, _ := agent.Flags()
	version, err := sarama.ParseKafkaVersion(*speak)
	if err != nil {
		fmt.Fprintln(os.Stderr, "-speak:", err)
		os.Exit(2)
	}
	c := &client{bootstrap: []string{bootstrap}, speak: version, consumers: make(map[string]*member)}
	if c.plain, err = sarama.NewClient(c.bootstrap, c.config()); err == nil {
		c.admin, err = sarama.NewClusterAdminFromClient(c.plain)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "admin client:", err)
		os.Exit(1)
	}
	hello := agent.Hello{Client: "Sarama", Version: fmt.Sprintf("%s as Kafka %s", moduleVersion(), version)}
	if !version.IsAtLeast(sarama.V0_11_0_0) { // message sets, which have no headers
		hello.Cannot = []string{"headers"}
	}
	if !version.IsAtLeast(sarama.V2_1_0_0) {
		hello.Codecs = []string{"none", "gzip", "snappy", "lz4"}
	}
	err = agent.Serve(os.Stdin, os.Stdout, hello, map[string]agent.Func{
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
	c.admin.Close() // closes the plain client too
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// moduleVersion is the one the program was built with, as the table is to name it.
func moduleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/IBM/sarama" {
				return m.Version
			}
		}
	}
	return "unknown"
}

func (c *client) config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = c.speak
	config.ClientID = "compat-sarama"
	config.Net.ReadTimeout = stepTimeout
	config.Admin.Timeout = stepTimeout
	return config
}

func (c *client) createTopic(r agent.Request) (any, error) {
	detail := &sarama.TopicDetail{NumPartitions: r.Partitions, ReplicationFactor: 1, ConfigEntries: make(map[string]*string)}
	for k, v := range r.Configs {
		detail.ConfigEntries[k] = &v
	}
	return nil, c.admin.CreateTopic(r.Topic, detail, false)
}

// partitioner sends a record where it says, and a record that names no partition where the client's own one does.
type partitioner struct{ own sarama.Partitioner }

func newPartitioner(topic string) sarama.Partitioner {
	return partitioner{sarama.NewHashPartitioner(topic)}
}

func (p partitioner) RequiresConsistency() bool { return true }

func (p partitioner) Partition(m *sarama.ProducerMessage, n int32) (int32, error) {
	if to := m.Metadata.(int32); to >= 0 {
		return to, nil
	}
	return p.own.Partition(m, n)
}

func (c *client) produce(r agent.Request) (any, error) {
	codecs := map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	codec, ok := codecs[r.Codec]
	if !ok {
		return nil, agent.Unsupported("no codec " + r.Codec)
	}
	if r.Idempotent && !c.speak.IsAtLeast(sarama.V0_11_0_0) {
		return nil, agent.Unsupported("producers are idempotent since Kafka 0.11")
	}
	config := c.config()
	config.Producer.Compression = codec
	config.Producer.RequiredAcks = map[string]sarama.RequiredAcks{"": sarama.WaitForAll, "all": sarama.WaitForAll, "1": sarama.WaitForLocal, "0": sarama.NoResponse}[r.Acks]
	config.Producer.Idempotent = r.Idempotent && config.Producer.RequiredAcks == sarama.WaitForAll
	config.Net.MaxOpenRequests = 1 // what idempotence wants, and without it a retry could overtake a later request
	config.Producer.Partitioner = newPartitioner
	config.Producer.MaxMessageBytes = 4_000_000
	config.Producer.Flush.Frequency = 5 * time.Millisecond
	config.Producer.Flush.Bytes = 256 << 10
	config.Producer.Return.Successes = true
	config.Producer.Return.Errors = true
	producer, err := sarama.NewAsyncProducer(c.bootstrap, config)
	if err != nil {
		return nil, err
	}
	in, err := os.Open(r.File)
	if err != nil {
		return nil, err
	}
	defer in.Close()

	var wg sync.WaitGroup
	count := 0
	offsets := make(map[int32]int64)
	wg.Go(func() {
		for m := range producer.Successes() {
			count++
			if o, ok := offsets[m.Partition]; !ok || m.Offset > o {
				offsets[m.Partition] = m.Offset
			}
		}
	})
	var failed error
	wg.Go(func() {
		for e := range producer.Errors() {
			if failed == nil {
				failed = e
			}
		}
	})
	sendErr := send(producer.Input(), recfile.NewReader(in, false), r.Topic)
	producer.AsyncClose() // flushes, then closes both channels
	wg.Wait()
	if err := errors.Join(sendErr, failed); err != nil {
		return nil, err
	}
	if r.Acks == "0" { // then the client knows no offsets
		return map[string]any{"count": count}, nil
	}
	return map[string]any{"count": count, "offsets": offsets}, nil
}

func send(to chan<- *sarama.ProducerMessage, records *recfile.Reader, topic string) error {
	for {
		rec, err := records.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		m := &sarama.ProducerMessage{Topic: topic, Metadata: rec.Partition}
		if rec.Key != nil {
			m.Key = sarama.ByteEncoder(rec.Key)
		}
		if rec.Value != nil {
			m.Value = sarama.ByteEncoder(rec.Value)
		}
		if rec.Timestamp >= 0 {
			m.Timestamp = time.UnixMilli(rec.Timestamp)
		}
		for _, h := range rec.Headers {
			m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
		}
		to <- m
	}
}

func (c *client) describeTopic(r agent.Request) (any, error) {
	topics, err := c.admin.DescribeTopics([]string{r.Topic})
	if err != nil {
		return nil, err
	}
	type partition struct {
		ID       int32   `json:"id"`
		Leader   int32   `json:"leader"`
		Replicas []int32 `json:"replicas"`
		ISR      []int32 `json:"isr"`
	}
	parts := []partition{}
	for _, t := range topics {
		if t.Err != sarama.ErrNoError {
			return nil, t.Err
		}
		for _, p := range t.Partitions {
			if p.Err != sarama.ErrNoError {
				return nil, fmt.Errorf("partition %d: %w", p.ID, p.Err)
			}
			parts = append(parts, partition{p.ID, p.Leader, p.Replicas, p.Isr})
		}
	}
	sortByID(parts, func(p partition) int32 { return p.ID })
	return map[string]any{"partitions": parts}, nil
}

func (c *client) describeConfigs(r agent.Request) (any, error) {
	if !c.speak.IsAtLeast(sarama.V0_11_0_0) {
		return nil, agent.Unsupported("configs are described since Kafka 0.11")
	}
	entries, err := c.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: r.Topic})
	if err != nil {
		return nil, err
	}
	configs := make(map[string]*string)
	for _, e := range entries {
		if configs[e.Name] = &e.Value; e.Sensitive {
			configs[e.Name] = nil
		}
	}
	return map[string]any{"configs": configs}, nil
}

func (c *client) describeGroup(r agent.Request) (any, error) {
	groups, err := c.admin.DescribeConsumerGroups([]string{r.Group})
	if err != nil {
		return nil, err
	}
	if len(groups) != 1 {
		return nil, fmt.Errorf("%d groups were described, not 1", len(groups))
	}
	if groups[0].Err != sarama.ErrNoError {
		return nil, groups[0].Err
	}
	return map[string]any{"state": groups[0].State, "members": len(groups[0].Members)}, nil
}

func (c *client) lag(r agent.Request) (any, error) {
	partitions, err := c.plain.Partitions(r.Topic)
	if err != nil {
		return nil, err
	}
	answer, err := c.admin.ListConsumerGroupOffsets(r.Group, map[string][]int32{r.Topic: partitions})
	if err != nil {
		return nil, err
	}
	blocks, failed := answer.Blocks[r.Topic], answer.Err
	for _, g := range answer.Groups { // where newer versions of the answer have them
		if g.GroupId == r.Group {
			blocks, failed = g.Blocks[r.Topic], g.Err
		}
	}
	if failed != sarama.ErrNoError {
		return nil, failed
	}
	lag := make(map[int32]int64)
	for p, block := range blocks {
		if block.Err != sarama.ErrNoError {
			return nil, fmt.Errorf("partition %d: %w", p, block.Err)
		}
		if block.Offset < 0 {
			continue
		}
		end, err := c.plain.GetOffset(r.Topic, p, sarama.OffsetNewest)
		if err != nil {
			return nil, err
		}
		lag[p] = end - block.Offset
	}
	return map[string]any{"lag": lag}, nil
}

func (c *client) deleteTopic(r agent.Request) (any, error) {
	return nil, c.admin.DeleteTopic(r.Topic)
}

func (c *client) deleteGroup(r agent.Request) (any, error) {
	if !c.speak.IsAtLeast(sarama.V1_1_0_0) {
		return nil, agent.Unsupported("groups are deleted since Kafka 1.1")
	}
	return nil, c.admin.DeleteConsumerGroup(r.Group)
}
