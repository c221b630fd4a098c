//go:build compat

package applications

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// limit is how long a program may take for what is asked of it; most of it is the start of a JVM on a busy machine.
const limit = 3 * time.Minute

// cluster is one broker under test or beside it, with a client of ours to fill and read topics.
type cluster struct {
	t         *testing.T
	bootstrap string
	client    *kgo.Client
	admin     *kadm.Client
}

func connect(t *testing.T, bootstrap string) *cluster {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &cluster{t: t, bootstrap: bootstrap, client: client, admin: kadm.NewClient(client)}
}

func (c *cluster) create(topic string, partitions int32, configs map[string]*string) {
	c.t.Helper()
	if _, err := c.admin.CreateTopic(c.t.Context(), partitions, 1, configs, topic); err != nil {
		c.t.Fatalf("create %s: %v", topic, err)
	}
}

// send writes copies of the records to a topic, each to its partition, in their order.
func (c *cluster) send(topic string, records []*kgo.Record) {
	c.t.Helper()
	copies := make([]*kgo.Record, len(records))
	for i, r := range records {
		r := *r
		r.Topic = topic
		copies[i] = &r
	}
	if err := c.client.ProduceSync(c.t.Context(), copies...).FirstErr(); err != nil {
		c.t.Fatalf("produce to %s: %v", topic, err)
	}
}

// ends returns the log ends of a topic, or an error while there is none.
func (c *cluster) ends(topic string) (map[int32]int64, error) {
	listed, err := c.admin.ListEndOffsets(c.t.Context(), topic)
	return offsets(topic, listed, err)
}

func (c *cluster) starts(topic string) (map[int32]int64, error) {
	listed, err := c.admin.ListStartOffsets(c.t.Context(), topic)
	return offsets(topic, listed, err)
}

func offsets(topic string, listed kadm.ListedOffsets, err error) (map[int32]int64, error) {
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("offsets of %s: %w", topic, err)
	}
	m := make(map[int32]int64)
	for p, o := range listed[topic] {
		m[p] = o.Offset
	}
	if len(m) == 0 {
		return nil, fmt.Errorf("there is no topic %s", topic)
	}
	return m, nil
}

// total is the number of records of a topic, deleted ones included; 0 while there is no topic.
func (c *cluster) total(topic string) (n int64) {
	ends, err := c.ends(topic)
	if err != nil {
		return 0
	}
	for _, end := range ends {
		n += end
	}
	return n
}

// read returns everything that is in a topic now, in the order of each partition.
func (c *cluster) read(topic string) []*kgo.Record {
	c.t.Helper()
	starts, err := c.starts(topic)
	if err != nil {
		c.t.Fatal(err)
	}
	ends, err := c.ends(topic)
	if err != nil {
		c.t.Fatal(err)
	}
	from := make(map[int32]kgo.Offset)
	for p, start := range starts {
		if start < ends[p] {
			from[p] = kgo.NewOffset().At(start)
		}
	}
	if len(from) == 0 {
		return nil
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(c.bootstrap), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		c.t.Fatal(err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	var records []*kgo.Record
	for left := len(from); left > 0; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			c.t.Fatalf("read %s: %v", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < ends[r.Partition] {
				records = append(records, r)
			}
			if r.Offset == ends[r.Partition]-1 {
				left--
			}
		})
	}
	return records
}

// configs returns a topic's configs.
func (c *cluster) configs(topic string) (map[string]string, error) {
	described, err := c.admin.DescribeTopicConfigs(c.t.Context(), topic)
	if err != nil {
		return nil, err
	}
	m := make(map[string]string)
	for _, d := range described {
		if d.Err != nil {
			return nil, fmt.Errorf("configs of %s: %w", topic, d.Err)
		}
		for _, kv := range d.Configs {
			m[kv.Key] = kv.MaybeValue()
		}
	}
	return m, nil
}

// allCommitted is nil when the group has committed the log end of every partition of the topics that has records.
func (c *cluster) allCommitted(group string, topics ...string) error {
	committed, err := c.admin.FetchOffsets(c.t.Context(), group)
	if err == nil {
		err = committed.Error()
	}
	if err != nil {
		return fmt.Errorf("offsets of group %s: %w", group, err)
	}
	for _, topic := range topics {
		ends, err := c.ends(topic)
		if err != nil {
			return err
		}
		for p, end := range ends {
			if o, ok := committed.Lookup(topic, p); end > 0 && (!ok || o.At != end) {
				return fmt.Errorf("group %s has committed %d of %s-%d, which ends at %d", group, o.At, topic, p, end)
			}
		}
	}
	return nil
}
