// Package client is the driver that shows what users see: franz-go's client, and
// Kafka's own performance tools.
package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/bench/raw"
)

// Producing is a load of franz-go producers as they come, without compression.
type Producing struct {
	Addr, Topic string
	Partitions  int
	Value       int
	All         bool // acks=all and idempotent, the client's default; else acks=1
	Clients     int
}

// Run produces over a window. Every record was acknowledged; sent is how many
// there were. Bytes are those of values.
func (p Producing) Run(ctx context.Context, w raw.Window) (r raw.Result, sent int64, err error) {
	var total atomic.Int64
	value := make([]byte, p.Value)
	for i := range value {
		value[i] = byte(i * 31)
	}
	r, err = w.Over(p.Clients, func(_ int, l *raw.Load, c *raw.Counter) error {
		opts := []kgo.Opt{kgo.SeedBrokers(p.Addr), kgo.DefaultProduceTopic(p.Topic), kgo.ProducerBatchCompression(kgo.NoCompression()),
			kgo.MaxBufferedRecords(100000)}
		if !p.All {
			opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
		}
		cl, err := kgo.NewClient(opts...)
		if err != nil {
			return err
		}
		defer cl.Close()
		var failed atomic.Pointer[error]
		n := int64(0)
		for !l.Stopped() && failed.Load() == nil {
			cl.Produce(ctx, kgo.SliceRecord(value), func(_ *kgo.Record, err error) {
				if err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				c.Add(p.Value)
			})
			n++
		}
		if err := cl.Flush(ctx); err != nil {
			return err
		}
		if err := failed.Load(); err != nil {
			return *err
		}
		total.Add(n)
		return nil
	})
	if err != nil {
		return r, 0, fmt.Errorf("produce to %s with franz-go: %w", p.Topic, err)
	}
	return r, total.Load(), nil
}

// Consuming is a load of franz-go consumers without a group, each of which reads
// a topic again and again.
type Consuming struct {
	Addr, Topic string
	Partitions  int
	Value       int // bytes of each record's value
	Records     int64
	Clients     int
}

// Run consumes over a window. The records' lengths are checked, and that each
// pass gives as many as there are. Bytes are those of values.
func (c Consuming) Run(ctx context.Context, w raw.Window) (raw.Result, error) {
	starts := map[string]map[int32]kgo.Offset{c.Topic: {}}
	all := map[string][]int32{}
	for i := range c.Partitions {
		starts[c.Topic][int32(i)] = kgo.NewOffset().AtStart()
		all[c.Topic] = append(all[c.Topic], int32(i))
	}
	r, err := w.Over(c.Clients, func(_ int, l *raw.Load, count *raw.Counter) error {
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addr), kgo.ConsumePartitions(starts))
		if err != nil {
			return err
		}
		defer cl.Close()
		for got := int64(0); !l.Stopped(); {
			limited, cancel := context.WithTimeout(ctx, 20*time.Second)
			fetches := cl.PollFetches(limited)
			cancel()
			if err := fetches.Err(); err != nil {
				return err
			}
			short := false
			fetches.EachRecord(func(r *kgo.Record) {
				short = short || len(r.Value) != c.Value
				got++
				count.Add(len(r.Value))
			})
			switch {
			case short:
				return errors.New("a record of another length")
			case got > c.Records:
				return fmt.Errorf("%d records where there are %d", got, c.Records)
			case got == c.Records:
				cl.RemoveConsumePartitions(all)
				cl.AddConsumePartitions(starts)
				got = 0
			}
		}
		return nil
	})
	if err != nil {
		return r, fmt.Errorf("consume %s with franz-go: %w", c.Topic, err)
	}
	return r, nil
}

// Latency is an open loop through franz-go: acks=all, no linger.
type Latency struct {
	Addr  string
	Topic string // of one partition, empty
	Rate  int    // records a second
	For   time.Duration
	Value int
}

// Run returns the sorted latencies in milliseconds, from when a record was due
// to when its consumer has it, without those of the first tenth of the time.
func (o Latency) Run(ctx context.Context) ([]float64, error) {
	n := int(o.For.Seconds() * float64(o.Rate))
	ctx, cancel := context.WithTimeout(ctx, o.For+30*time.Second)
	defer cancel()
	// The consumer waits at the end before the first record is due.
	consumer, err := kgo.NewClient(kgo.SeedBrokers(o.Addr),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{o.Topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	producer, err := kgo.NewClient(kgo.SeedBrokers(o.Addr), kgo.DefaultProduceTopic(o.Topic), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	if err := producer.ProduceSync(ctx, kgo.SliceRecord(make([]byte, o.Value))).FirstErr(); err != nil {
		return nil, err
	}
	begun := time.Now().Add(100 * time.Millisecond)
	due := func(i int) time.Time {
		return begun.Add(time.Duration(i) * time.Second / time.Duration(o.Rate))
	}
	var wg sync.WaitGroup
	var paced, refused error
	wg.Go(func() {
		var once sync.Once
		paced = raw.Pace(func(i int) (time.Time, bool) { return due(i), i < n }, func(i int) error {
			value := binary.BigEndian.AppendUint64(make([]byte, 0, o.Value), uint64(i))
			producer.Produce(ctx, kgo.SliceRecord(value[:o.Value]), func(_ *kgo.Record, err error) {
				if err != nil {
					once.Do(func() { refused = err; cancel() })
				}
			})
			return ctx.Err()
		})
		if err := producer.Flush(ctx); paced == nil {
			paced = err
		}
	})
	took := make([]float64, 0, n)
	for first := true; len(took) < n && err == nil; {
		fetches := consumer.PollFetches(ctx)
		now := time.Now()
		err = fetches.Err()
		fetches.EachRecord(func(r *kgo.Record) {
			if first {
				first = false
				return
			}
			if i := binary.BigEndian.Uint64(r.Value); i != uint64(len(took)) && err == nil {
				err = fmt.Errorf("record %d came where %d was due", i, len(took))
			}
			took = append(took, float64(now.Sub(due(len(took))))/float64(time.Millisecond))
		})
	}
	if err != nil {
		cancel()
	}
	wg.Wait()
	if err := errors.Join(err, paced, refused); err != nil {
		return nil, fmt.Errorf("%d records a second through %s with franz-go: %w", o.Rate, o.Topic, err)
	}
	took = took[n/10:]
	slices.Sort(took)
	return took, nil
}
