// Command franz is the compatibility suite's agent for franz-go (kgo and kadm): it makes the client's calls that the
// driver asks for over the agent protocol (PROTOCOL.md), and checks nothing itself.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/compat-tests/agent"
	"millrace/compat-tests/recfile"
)

const stepTimeout = 60 * time.Second

type franz struct {
	bootstrap string
	admin     *kadm.Client

	mu        sync.Mutex
	consumers map[string]*member
}

func main() {
	bootstrap, _ := agent.Flags()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		fmt.Fprintln(os.Stderr, "admin client:", err)
		os.Exit(1)
	}
	f := &franz{bootstrap: bootstrap, admin: kadm.NewClient(client), consumers: make(map[string]*member)}
	err = agent.Serve(os.Stdin, os.Stdout, agent.Hello{Client: "franz-go", Version: version()}, map[string]agent.Func{
		"create-topic":     f.createTopic,
		"produce":          f.produce,
		"consumer-open":    f.open,
		"consume":          f.consume,
		"commit":           f.commit,
		"consumer-close":   f.close,
		"seek-time":        f.seekTime,
		"describe-topic":   f.describeTopic,
		"describe-configs": f.describeConfigs,
		"describe-group":   f.describeGroup,
		"lag":              f.lag,
		"delete-topic":     f.deleteTopic,
		"delete-group":     f.deleteGroup,
	})
	for _, m := range f.consumers {
		m.client.Close()
	}
	client.Close()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// version is the one the program was built with, as the table is to name it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/twmb/franz-go" {
				return m.Version
			}
		}
	}
	return "unknown"
}

func stepContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), stepTimeout)
}

func (f *franz) createTopic(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	configs := make(map[string]*string)
	for k, v := range r.Configs {
		configs[k] = kadm.StringPtr(v)
	}
	_, err := f.admin.CreateTopic(ctx, r.Partitions, 1, configs, r.Topic)
	return nil, err
}

// byPartition sends a record where it says, and a record that names no partition where the client's own partitioner does.
type byPartition struct{ own kgo.Partitioner }

func (p byPartition) ForTopic(topic string) kgo.TopicPartitioner {
	return &topicPartitioner{p.own.ForTopic(topic)}
}

type topicPartitioner struct{ own kgo.TopicPartitioner }

func (p *topicPartitioner) RequiresConsistency(*kgo.Record) bool { return true }

func (p *topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition)
	}
	return p.own.Partition(r, n)
}

func (f *franz) produce(r agent.Request) (any, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	codec, ok := codecs[r.Codec]
	if !ok {
		return nil, agent.Unsupported("no codec " + r.Codec)
	}
	acks := map[string]kgo.Acks{"": kgo.AllISRAcks(), "all": kgo.AllISRAcks(), "1": kgo.LeaderAck(), "0": kgo.NoAck()}[r.Acks]
	opts := []kgo.Opt{
		kgo.SeedBrokers(f.bootstrap),
		kgo.ProducerBatchCompression(codec),
		kgo.RequiredAcks(acks),
		kgo.RecordPartitioner(byPartition{kgo.StickyKeyPartitioner(nil)}),
		kgo.ProducerLinger(5 * time.Millisecond),
		kgo.MaxBufferedRecords(50_000),
		kgo.ProducerBatchMaxBytes(4_000_000), // the topics allow it, and there are records of more than a megabyte
	}
	if !r.Idempotent || r.Acks == "0" || r.Acks == "1" {
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	in, err := os.Open(r.File)
	if err != nil {
		return nil, err
	}
	defer in.Close()

	var mu sync.Mutex
	var failed error
	count := 0
	offsets := make(map[int32]int64)
	done := func(rec *kgo.Record, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			if failed == nil {
				failed = err
			}
			return
		}
		count++
		if o, ok := offsets[rec.Partition]; !ok || rec.Offset > o {
			offsets[rec.Partition] = rec.Offset
		}
	}
	// Not kgo's delivery timeout: it counts from a record's own timestamp, and the input's lie in the past.
	limit := stepTimeout
	if r.TimeoutMS > 0 {
		limit = time.Duration(r.TimeoutMS) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	records := recfile.NewReader(in, false)
	for {
		rec, err := records.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		k := &kgo.Record{Topic: r.Topic, Partition: rec.Partition, Key: rec.Key, Value: rec.Value}
		if rec.Timestamp >= 0 {
			k.Timestamp = time.UnixMilli(rec.Timestamp)
		}
		for _, h := range rec.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		client.Produce(ctx, k, done)
	}
	if err := client.Flush(ctx); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	if failed != nil {
		return nil, failed
	}
	return map[string]any{"count": count, "offsets": offsets}, nil
}

func (f *franz) describeTopic(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	topics, err := f.admin.ListTopics(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	detail := topics[r.Topic]
	if detail.Err != nil {
		return nil, detail.Err
	}
	type partition struct {
		ID       int32   `json:"id"`
		Leader   int32   `json:"leader"`
		Replicas []int32 `json:"replicas"`
		ISR      []int32 `json:"isr"`
	}
	parts := []partition{}
	for _, p := range detail.Partitions.Sorted() {
		if p.Err != nil {
			return nil, fmt.Errorf("partition %d: %w", p.Partition, p.Err)
		}
		parts = append(parts, partition{p.Partition, p.Leader, p.Replicas, p.ISR})
	}
	return map[string]any{"partitions": parts}, nil
}

func (f *franz) describeConfigs(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	all, err := f.admin.DescribeTopicConfigs(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	one, err := all.On(r.Topic, nil)
	if err == nil {
		err = one.Err
	}
	if err != nil {
		return nil, err
	}
	configs := make(map[string]*string)
	for _, c := range one.Configs {
		configs[c.Key] = c.Value
	}
	return map[string]any{"configs": configs}, nil
}

func (f *franz) describeGroup(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	type result struct {
		State   string `json:"state"`
		Members int    `json:"members"`
	}
	groups, err := f.admin.DescribeGroups(ctx, r.Group)
	if err != nil {
		return nil, err
	}
	g := groups[r.Group]
	if g.Err == nil && g.State != "Dead" {
		return result{g.State, len(g.Members)}, nil
	}
	next, nextErr := f.admin.DescribeConsumerGroups(ctx, r.Group) // KIP-848 groups have their own call
	if nextErr != nil || next[r.Group].Err != nil {
		if g.Err != nil {
			return nil, g.Err
		}
		return result{g.State, len(g.Members)}, nil
	}
	return result{next[r.Group].State, len(next[r.Group].Members)}, nil
}

func (f *franz) lag(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	committed, err := f.admin.FetchOffsets(ctx, r.Group)
	if err != nil {
		return nil, err
	}
	ends, err := f.admin.ListEndOffsets(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	lag := make(map[int32]int64)
	for p, end := range ends[r.Topic] {
		if end.Err != nil {
			return nil, end.Err
		}
		o, ok := committed.Lookup(r.Topic, p)
		if !ok {
			continue
		}
		if o.Err != nil {
			return nil, o.Err
		}
		if o.At >= 0 {
			lag[p] = end.Offset - o.At
		}
	}
	return map[string]any{"lag": lag}, nil
}

func (f *franz) deleteTopic(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	resp, err := f.admin.DeleteTopic(ctx, r.Topic)
	if err == nil {
		err = resp.Err
	}
	return nil, err
}

func (f *franz) deleteGroup(r agent.Request) (any, error) {
	ctx, cancel := stepContext()
	defer cancel()
	for {
		resp, err := f.admin.DeleteGroup(ctx, r.Group)
		if err == nil {
			err = resp.Err
		}
		if err == nil || !kerr.IsRetriable(err) || ctx.Err() != nil {
			return nil, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
