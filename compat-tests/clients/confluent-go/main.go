// Command confluent-go is the compatibility suite's agent for confluent-kafka-go (librdkafka through cgo): it makes the
// client's calls that the driver asks for over the agent protocol (PROTOCOL.md), and checks nothing itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"millrace/compat-tests/agent"
	"millrace/compat-tests/recfile"
)

const stepTimeout = 60 * time.Second

type client struct {
	bootstrap string
	admin     *kafka.AdminClient

	mu        sync.Mutex
	consumers map[string]*member
}

func main() {
	bootstrap, _ := agent.Flags()
	admin, err := kafka.NewAdminClient(&kafka.ConfigMap{"bootstrap.servers": bootstrap})
	if err != nil {
		fmt.Fprintln(os.Stderr, "admin client:", err)
		os.Exit(1)
	}
	c := &client{bootstrap: bootstrap, admin: admin, consumers: make(map[string]*member)}
	_, librdkafka := kafka.LibraryVersion()
	hello := agent.Hello{Client: "confluent-kafka-go", Version: moduleVersion(), Note: "librdkafka " + librdkafka}
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
	admin.Close()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// moduleVersion is the one the program was built with, as the table is to name it.
func moduleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/confluentinc/confluent-kafka-go/v2" {
				return m.Version
			}
		}
	}
	return "unknown"
}

func stepContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), stepTimeout)
}

// fault makes an error of one that the client reports as a value, with a code for none.
func fault(err kafka.Error) error {
	if err.Code() == kafka.ErrNoError {
		return nil
	}
	return err
}

func (c *client) createTopic(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	topics := []kafka.TopicSpecification{{Topic: r.Topic, NumPartitions: int(r.Partitions), ReplicationFactor: 1, Config: r.Configs}}
	results, err := c.admin.CreateTopics(ctx, topics, kafka.SetAdminOperationTimeout(stepTimeout))
	return nil, errors.Join(err, topicFault(results))
}

func topicFault(results []kafka.TopicResult) error {
	for _, t := range results {
		if err := fault(t.Error); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) produce(r agent.Request) (any, error) {
	acks, inFlight, limit := r.Acks, 1, r.TimeoutMS // without sequence numbers a retry could overtake a later request
	if acks == "" {
		acks = "all"
	}
	if r.Idempotent {
		inFlight = 5
	}
	if limit == 0 {
		limit = stepTimeout.Milliseconds()
	}
	producer, err := kafka.NewProducer(&kafka.ConfigMap{
		"bootstrap.servers": c.bootstrap, "compression.type": r.Codec, "enable.idempotence": r.Idempotent, "acks": acks,
		"max.in.flight.requests.per.connection": inFlight, "linger.ms": 10, "batch.size": 256 << 10, "message.max.bytes": 4_000_000,
		"message.timeout.ms": int(limit), "go.logs.channel.enable": false,
	})
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	in, err := os.Open(r.File)
	if err != nil {
		return nil, err
	}
	defer in.Close()

	count := 0
	offsets := make(map[int32]int64)
	var failed error
	var wg sync.WaitGroup
	all := make(chan int, 1) // how many were sent, once that is known
	wg.Go(func() {
		for sent, heard := -1, 0; heard != sent; {
			select {
			case sent = <-all:
			case event := <-producer.Events():
				switch e := event.(type) {
				case *kafka.Message:
					heard++
					if err := e.TopicPartition.Error; err != nil {
						failed = err
						continue
					}
					count++
					p := e.TopicPartition.Partition
					offsets[p] = max(offsets[p], int64(e.TopicPartition.Offset))
				case kafka.Error:
					fmt.Fprintln(os.Stderr, "producer:", e)
				}
			}
		}
	})
	sent, sendErr := send(producer, recfile.NewReader(in, false), r.Topic)
	all <- sent
	wg.Wait()
	if err := errors.Join(sendErr, failed); err != nil {
		return nil, err
	}
	if acks == "0" { // then the client knows no offsets
		return map[string]any{"count": count}, nil
	}
	return map[string]any{"count": count, "offsets": offsets}, nil
}

func send(producer *kafka.Producer, records *recfile.Reader, topic string) (sent int, err error) {
	for {
		rec, err := records.Read()
		if err == io.EOF {
			return sent, nil
		}
		if err != nil {
			return sent, err
		}
		// PartitionAny is -1 too.
		m := &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: rec.Partition}, Key: rec.Key, Value: rec.Value}
		if rec.Timestamp >= 0 {
			m.Timestamp = time.UnixMilli(rec.Timestamp)
		}
		for _, h := range rec.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
		for {
			err = producer.Produce(m, nil)
			var full kafka.Error
			if !errors.As(err, &full) || full.Code() != kafka.ErrQueueFull {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err != nil {
			return sent, err
		}
		sent++
	}
}

func nodeIDs(nodes []kafka.Node) []int {
	list := []int{}
	for _, n := range nodes {
		list = append(list, n.ID)
	}
	return list
}

func (c *client) topic(name string) (kafka.TopicDescription, error) {
	ctx, cancel := stepContext()
	defer cancel()
	result, err := c.admin.DescribeTopics(ctx, kafka.NewTopicCollectionOfTopicNames([]string{name}))
	if err != nil {
		return kafka.TopicDescription{}, err
	}
	if len(result.TopicDescriptions) != 1 {
		return kafka.TopicDescription{}, fmt.Errorf("%d topics were described, not 1", len(result.TopicDescriptions))
	}
	return result.TopicDescriptions[0], fault(result.TopicDescriptions[0].Error)
}

func (c *client) describeTopic(r agent.Request) (any, error) {
	topic, err := c.topic(r.Topic)
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
		leader := -1
		if p.Leader != nil {
			leader = p.Leader.ID
		}
		parts = append(parts, partition{p.Partition, leader, nodeIDs(p.Replicas), nodeIDs(p.Isr)})
	}
	slices.SortFunc(parts, func(a, b partition) int { return a.ID - b.ID })
	return map[string]any{"partitions": parts}, nil
}

func (c *client) describeConfigs(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	results, err := c.admin.DescribeConfigs(ctx, []kafka.ConfigResource{{Type: kafka.ResourceTopic, Name: r.Topic}})
	if err != nil {
		return nil, err
	}
	configs := make(map[string]*string)
	for _, result := range results {
		if err := fault(result.Error); err != nil {
			return nil, err
		}
		for name, e := range result.Config {
			if configs[name] = &e.Value; e.IsSensitive {
				configs[name] = nil
			}
		}
	}
	return map[string]any{"configs": configs}, nil
}

func (c *client) describeGroup(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	result, err := c.admin.DescribeConsumerGroups(ctx, []string{r.Group})
	if err != nil {
		return nil, err
	}
	if len(result.ConsumerGroupDescriptions) != 1 {
		return nil, fmt.Errorf("%d groups were described, not 1", len(result.ConsumerGroupDescriptions))
	}
	g := result.ConsumerGroupDescriptions[0]
	if err := fault(g.Error); err != nil {
		return nil, err
	}
	return map[string]any{"state": strings.ReplaceAll(g.State.String(), "_", ""), "members": len(g.Members)}, nil
}

func (c *client) lag(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	result, err := c.admin.ListConsumerGroupOffsets(ctx, []kafka.ConsumerGroupTopicPartitions{{Group: r.Group}})
	if err != nil {
		return nil, err
	}
	committed := make(map[int32]int64)
	asked := make(map[kafka.TopicPartition]kafka.OffsetSpec)
	for _, g := range result.ConsumerGroupsTopicPartitions {
		for _, p := range g.Partitions {
			if p.Error != nil {
				return nil, p.Error
			}
			if *p.Topic == r.Topic && p.Offset >= 0 {
				committed[p.Partition] = int64(p.Offset)
				asked[kafka.TopicPartition{Topic: &r.Topic, Partition: p.Partition}] = kafka.LatestOffsetSpec
			}
		}
	}
	lag := make(map[int32]int64)
	if len(asked) == 0 {
		return map[string]any{"lag": lag}, nil
	}
	listed, err := c.admin.ListOffsets(ctx, asked)
	if err != nil {
		return nil, err
	}
	for p, end := range listed.ResultInfos {
		if err := fault(end.Error); err != nil {
			return nil, err
		}
		lag[p.Partition] = int64(end.Offset) - committed[p.Partition]
	}
	return map[string]any{"lag": lag}, nil
}

func (c *client) deleteTopic(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	results, err := c.admin.DeleteTopics(ctx, []string{r.Topic}, kafka.SetAdminOperationTimeout(stepTimeout))
	return nil, errors.Join(err, topicFault(results))
}

func (c *client) deleteGroup(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	result, err := c.admin.DeleteConsumerGroups(ctx, []string{r.Group})
	if err != nil {
		return nil, err
	}
	for _, g := range result.ConsumerGroupResults {
		if err := fault(g.Error); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
