//go:build compat

package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// opLimit bounds one request of the load, restarts of the broker included.
const opLimit = 60 * time.Second

// world is the load and all it has been told.
type world struct {
	bootstrap string
	seed      uint64

	mu       sync.Mutex
	kills    int
	records  map[string]*Records
	topics   map[string]*Register[int32] // partitions; 0 when there is no such topic
	configs  map[string]*Register[string]
	commits  map[string]map[Place]*Register[int64] // by group
	problems []string
	counts   map[string]int // what was acknowledged, by kind
	errs     map[string]int // what was refused or never answered: no fault by itself
}

func newWorld(bootstrap string, seed uint64) *world {
	return &world{bootstrap: bootstrap, seed: seed, records: make(map[string]*Records), topics: make(map[string]*Register[int32]),
		configs: make(map[string]*Register[string]), commits: make(map[string]map[Place]*Register[int64]),
		counts: make(map[string]int), errs: make(map[string]int)}
}

// locked calls f under the lock.
func (w *world) locked(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) problem(format string, args ...any) {
	w.locked(func() { w.problems = append(w.problems, fmt.Sprintf(format, args...)) })
}

func (w *world) acked(kind string) { w.locked(func() { w.counts[kind]++ }) }

func (w *world) failed(kind string, err error) {
	w.locked(func() { w.errs[kind+": "+err.Error()]++ })
}

func (w *world) killCount() (n int) {
	w.locked(func() { n = w.kills })
	return n
}

func (w *world) rng(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(w.seed, stream)) }

func upTo(rng *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(limit)))
}

// pause sleeps up to limit, or until the context ends.
func pause(ctx context.Context, rng *rand.Rand, limit time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(upTo(rng, limit)):
	}
}

func (w *world) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.bootstrap), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RetryTimeout(opLimit), kgo.RequestRetries(1 << 20),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond })}, opts...)...)
}

// produce sends numbered records with one idempotent producer until the context ends, then waits for those in flight.
func (w *world) produce(ctx context.Context, number int, topics []string) error {
	codec := []kgo.CompressionCodec{kgo.NoCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}[number%3]
	client, err := w.client(kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchCompression(codec), kgo.UnknownTopicRetries(-1),
		kgo.StopProducerOnDataLossDetected(), kgo.ProducerLinger(2*time.Millisecond), kgo.MaxBufferedRecords(3000))
	if err != nil {
		return err
	}
	defer client.Close()
	rng := w.rng(uint64(100 + number))
	for ctx.Err() == nil {
		for range 1 + rng.IntN(30) {
			topic := topics[rng.IntN(len(topics))]
			key := fmt.Sprintf("%d-%d", number, rng.IntN(20))
			var seq int
			w.locked(func() { seq = w.records[topic].Sent(key) })
			client.Produce(context.WithoutCancel(ctx), &kgo.Record{Topic: topic, Key: []byte(key), Value: Payload(key, seq)}, func(r *kgo.Record, err error) {
				if err != nil {
					w.problem("producer %d: record %d of key %s in %s: %v", number, seq, key, topic, err)
					return
				}
				w.locked(func() { w.records[topic].Acked(key, seq, Found{r.Partition, r.Offset}) })
			})
		}
		pause(ctx, rng, 20*time.Millisecond)
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), opLimit)
	defer cancel()
	if err := client.Flush(flush); err != nil {
		return fmt.Errorf("producer %d: %d records were not acknowledged after the broker was left alone: %w", number, client.BufferedProduceRecords(), err)
	}
	return nil
}

// consume reads with one group member and commits now and then.
func (w *world) consume(ctx context.Context, group string, topics []string, opts ...kgo.Opt) error {
	client, err := w.client(append(opts, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topics...), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond), kgo.HeartbeatInterval(300*time.Millisecond))...)
	if err != nil {
		return err
	}
	defer client.Close()
	w.locked(func() { w.commits[group] = make(map[Place]*Register[int64]) })
	rng := w.rng(7)
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 500)
		fetches.EachError(func(_ string, _ int32, err error) {
			if ctx.Err() == nil {
				w.failed("poll of "+group, err)
			}
		})
		next := make(map[string]map[int32]kgo.EpochOffset)
		fetches.EachRecord(func(r *kgo.Record) {
			w.locked(func() {
				if err := w.records[r.Topic].Seen(r.Partition, r.Offset, string(r.Key), r.Value); err != nil {
					w.problems = append(w.problems, group+": "+err.Error())
				}
				w.counts["records read by "+group]++
			})
			if next[r.Topic] == nil {
				next[r.Topic] = make(map[int32]kgo.EpochOffset)
			}
			next[r.Topic][r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
		})
		if len(next) == 0 || rng.IntN(3) > 0 {
			continue
		}
		w.locked(func() {
			for topic, parts := range next {
				for p, o := range parts {
					register(w.commits[group], Place{topic, p}).Begin(o.Offset)
				}
			}
		})
		client.CommitOffsetsSync(ctx, next, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			if err != nil {
				if ctx.Err() == nil {
					w.failed("commit of "+group, err)
				}
				return
			}
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
						w.failed("commit of "+group, err)
						continue
					}
					w.acked("commits of " + group)
					w.locked(func() {
						if o, ok := next[t.Topic][p.Partition]; ok {
							register(w.commits[group], Place{t.Topic, p.Partition}).Ack(o.Offset)
						}
					})
				}
			}
		})
	}
	return nil
}

func register[K comparable, V comparable](m map[K]*Register[V], k K) *Register[V] {
	if m[k] == nil {
		m[k] = new(Register[V])
	}
	return m[k]
}

// commitNumbers commits ever new offsets for a group without members, and reads them back.
func (w *world) commitNumbers(ctx context.Context, group, topic string, partitions int32) error {
	client, err := w.client()
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	w.locked(func() { w.commits[group] = make(map[Place]*Register[int64]) })
	rng := w.rng(8)
	for n := int64(1); ctx.Err() == nil; n++ {
		p := rng.Int32N(partitions)
		var r *Register[int64]
		w.locked(func() { r = register(w.commits[group], Place{topic, p}); r.Begin(n) })
		var os kadm.Offsets
		os.Add(kadm.Offset{Topic: topic, Partition: p, At: n, LeaderEpoch: -1})
		op, cancel := context.WithTimeout(ctx, opLimit)
		err := admin.CommitAllOffsets(op, group, os)
		cancel()
		if err == nil {
			w.locked(func() { r.Ack(n); w.counts["commits of "+group]++ })
		} else if ctx.Err() == nil {
			w.failed("commit of "+group, err)
		}
		if err != nil || n%40 == 0 {
			w.checkCommits(ctx, admin, group)
		}
		pause(ctx, rng, 20*time.Millisecond)
	}
	return nil
}

// checkCommits reads a group's committed offsets and judges them.
func (w *world) checkCommits(ctx context.Context, admin *kadm.Client, group string) {
	op, cancel := context.WithTimeout(ctx, opLimit)
	defer cancel()
	found, err := admin.FetchOffsets(op, group)
	if err != nil {
		if ctx.Err() == nil {
			w.failed("read offsets of "+group, err)
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for place, r := range w.commits[group] {
		o, ok := found.Lookup(place.Topic, place.Partition)
		if ok && o.Err != nil {
			w.errs["read offsets of "+group+": "+o.Err.Error()]++
			continue
		}
		if err := r.Check(o.At, ok && o.At >= 0); err != nil {
			w.problems = append(w.problems, fmt.Sprintf("committed offset of %s, %v: %v", group, place, err))
		}
	}
}

// trim deletes the oldest records of a topic, again and again, each time up to somewhere behind the last.
func (w *world) trim(ctx context.Context, topic string) error {
	client, err := w.client()
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	rng := w.rng(10)
	at := make(map[int32]int64)
	for ; ctx.Err() == nil; pause(ctx, rng, 200*time.Millisecond) {
		p := rng.Int32N(loadPartitions)
		op, cancel := context.WithTimeout(ctx, opLimit)
		err := w.trimTo(op, admin, rng, topic, p, at)
		cancel()
		if err != nil && ctx.Err() == nil {
			w.failed("delete records", err)
		}
	}
	return nil
}

func (w *world) trimTo(ctx context.Context, admin *kadm.Client, rng *rand.Rand, topic string, p int32, at map[int32]int64) error {
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	end, ok := ends.Lookup(topic, p)
	if !ok || end.Err != nil {
		return fmt.Errorf("no end of partition %d: %w", p, end.Err)
	}
	if end.Offset <= at[p] {
		return nil
	}
	to := at[p] + 1 + rng.Int64N(end.Offset-at[p])
	at[p] = to // asked for once, it may come about whenever
	var r *Register[int64]
	w.locked(func() { r = w.records[topic].Deleted(p); r.Begin(to) })
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: topic, Partition: p, At: to})
	got, err := admin.DeleteRecords(ctx, os)
	if err != nil {
		return err
	}
	one, _ := got.Lookup(topic, p)
	if one.Err != nil {
		return one.Err
	}
	if one.LowWatermark != to {
		w.problem("records of %s-%d were deleted below %d, it is told to start at %d", topic, p, to, one.LowWatermark)
	}
	w.locked(func() { r.Ack(to); w.counts["deletions of records"]++ })
	return nil
}

// administer creates and deletes topics, changes configs, and looks them up again.
func (w *world) administer(ctx context.Context) error {
	client, err := w.client()
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	rng := w.rng(9)
	var alive []string
	for n := 0; ctx.Err() == nil; n++ {
		op, cancel := context.WithTimeout(ctx, opLimit)
		switch kind := rng.IntN(10); {
		case kind < 4 || len(alive) == 0:
			if name, ok := w.create(op, admin, fmt.Sprintf("extra-%d", n), 1+rng.Int32N(4)); ok {
				alive = append(alive, name)
			}
		case kind < 5 && len(alive) > 5:
			i := rng.IntN(len(alive))
			w.remove(op, admin, alive[i])
			alive = append(alive[:i:i], alive[i+1:]...)
		case kind < 8:
			w.alter(op, admin, alive[rng.IntN(len(alive))], strconv.Itoa(3_600_000+n))
		default:
			w.look(op, admin, alive[rng.IntN(len(alive))])
		}
		cancel()
		pause(ctx, rng, 60*time.Millisecond)
	}
	return nil
}

// settled says whether an answer that speaks of the thing's having been done already can come of a retry: only if the
// broker was killed meanwhile.
func (w *world) settled(before int) bool { return w.killCount() != before }

func (w *world) create(ctx context.Context, admin *kadm.Client, name string, partitions int32) (string, bool) {
	before := w.killCount()
	r := new(Register[int32])
	r.Ack(0)
	w.locked(func() { w.topics[name] = r; r.Begin(partitions) })
	_, err := admin.CreateTopic(ctx, partitions, 1, nil, name)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		if !w.settled(before) {
			w.problem("topic %s is new and was refused as existing", name)
		}
		err = nil
	}
	if err != nil {
		w.failed("create topic", err)
		return "", false
	}
	w.locked(func() { r.Ack(partitions); w.counts["topics created"]++ })
	return name, true
}

func (w *world) remove(ctx context.Context, admin *kadm.Client, name string) {
	before := w.killCount()
	var r *Register[int32]
	w.locked(func() { r = w.topics[name]; r.Begin(0) })
	resp, err := admin.DeleteTopic(ctx, name)
	if err == nil {
		err = resp.Err
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		if !w.settled(before) {
			w.problem("topic %s was created, and is unknown when it is to be deleted", name)
		}
		err = nil
	}
	if err != nil {
		w.failed("delete topic", err)
		return
	}
	w.locked(func() { r.Ack(0); delete(w.configs, name); w.counts["topics deleted"]++ })
}

func (w *world) alter(ctx context.Context, admin *kadm.Client, name, value string) {
	var r *Register[string]
	w.locked(func() { r = register(w.configs, name); r.Begin(value) })
	resp, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, name)
	if err == nil {
		_, err = resp.On(name, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		w.problem("topic %s was created, and is unknown when its config is to be changed", name)
	}
	if err != nil {
		w.failed("alter config", err)
		return
	}
	w.locked(func() { r.Ack(value); w.counts["configs changed"]++ })
}

// look judges one topic as it is now: its partitions and its config.
func (w *world) look(ctx context.Context, admin *kadm.Client, name string) {
	topics, err := admin.ListTopics(ctx, name)
	if err != nil {
		w.failed("list topics", err)
		return
	}
	detail := topics[name]
	if detail.Err != nil && !errors.Is(detail.Err, kerr.UnknownTopicOrPartition) {
		w.failed("list topics", detail.Err)
		return
	}
	w.locked(func() {
		if err := w.topics[name].Check(int32(len(detail.Partitions)), true); err != nil {
			w.problems = append(w.problems, fmt.Sprintf("partitions of topic %s: %v", name, err))
		}
	})
	if detail.Err != nil {
		return
	}
	configs, err := admin.DescribeTopicConfigs(ctx, name)
	if err != nil {
		w.failed("describe configs", err)
		return
	}
	one, err := configs.On(name, func(r *kadm.ResourceConfig) error { return r.Err })
	if err != nil {
		w.failed("describe configs", err)
		return
	}
	for _, c := range one.Configs {
		if c.Key != "retention.ms" {
			continue
		}
		own := c.Source == kmsg.ConfigSourceDynamicTopicConfig
		w.locked(func() {
			r := w.configs[name]
			if r == nil {
				r = new(Register[string])
			}
			if err := r.Check(c.MaybeValue(), own); err != nil {
				w.problems = append(w.problems, fmt.Sprintf("retention.ms of topic %s: %v", name, err))
			}
		})
	}
	w.acked("topics looked up")
}
