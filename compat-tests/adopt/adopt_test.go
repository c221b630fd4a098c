//go:build compat

package adopt

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

var topics = []string{"plain", "packed", "trimmed", "compacted", "txn"}

func client(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.RetryTimeout(30 * time.Second)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fill has a broker hold something of everything but transactions.
func fill(t *testing.T, addr string) {
	ctx, now := t.Context(), time.Now().Add(-time.Hour)
	adm := kadm.NewClient(client(t, addr))
	small := "1048576"
	compact := "compact"
	for _, topic := range topics {
		configs := map[string]*string{"segment.bytes": &small}
		if topic == "compacted" {
			configs["cleanup.policy"] = &compact
		}
		r, err := adm.CreateTopic(ctx, 3, 1, configs, topic)
		ok(t, err)
		ok(t, r.Err)
	}
	gone, err := adm.CreateTopic(ctx, 1, 1, nil, "gone")
	ok(t, err)
	ok(t, gone.Err)
	_, err = adm.DeleteTopic(ctx, "gone")
	ok(t, err)
	for i, codec := range codecs {
		p := client(t, addr, kgo.ProducerBatchCompression(codec))
		var list []*kgo.Record
		for j := range 400 {
			topic := topics[j%4]
			list = append(list, &kgo.Record{
				Topic: topic, Key: fmt.Appendf(nil, "key %d", j%50), Value: []byte(strings.Repeat(fmt.Sprint(i, j, " "), j*3)),
				Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{byte(j)}}, {Key: "null"}}, Timestamp: now.Add(time.Duration(j) * time.Millisecond), // old ones would let their producers expire
			})
		}
		ok(t, p.ProduceSync(ctx, list...).FirstErr())
		ok(t, p.ProduceSync(ctx, &kgo.Record{Topic: "plain", Key: []byte("a tombstone")}).FirstErr())
	}
	_, err = adm.DeleteRecords(ctx, kadm.Offsets{"trimmed": {0: {Topic: "trimmed", Partition: 0, At: 7}}})
	ok(t, err)
	ok(t, adm.CommitAllOffsets(ctx, "readers", kadm.Offsets{"plain": {0: {Topic: "plain", At: 3, LeaderEpoch: -1, Metadata: "here"}, 2: {Topic: "plain", Partition: 2, At: 9, LeaderEpoch: -1}}}))
}

// transact has a broker hold transactions: one committed, one aborted, one that stays open.
func transact(t *testing.T, addr string) {
	ctx := t.Context()
	for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		p := client(t, addr, kgo.TransactionalID(fmt.Sprint("ended ", i)), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		ok(t, p.BeginTransaction())
		ok(t, p.ProduceSync(ctx, &kgo.Record{Topic: "txn", Value: fmt.Append(nil, end)}).FirstErr())
		ok(t, p.EndTransaction(ctx, end))
	}
	p := client(t, addr, kgo.TransactionalID("open"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ok(t, p.BeginTransaction())
	ok(t, p.ProduceSync(ctx, &kgo.Record{Topic: "txn", Value: []byte("open")}).FirstErr())
}

// seen is all that is compared of some topics, a line each, sorted.
func seen(t *testing.T, addr string, topics ...string) []string {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	adm := kadm.NewClient(client(t, addr))
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	details, err := adm.ListTopics(ctx, topics...)
	ok(t, err)
	ok(t, details.Error())
	configs, err := adm.DescribeTopicConfigs(ctx, topics...)
	ok(t, err)
	for _, c := range configs {
		for _, x := range c.Configs {
			if x.Source == kmsg.ConfigSourceDynamicTopicConfig {
				add("config of %s: %s=%s", c.Name, x.Key, x.MaybeValue())
			}
		}
	}
	starts, err := adm.ListStartOffsets(ctx, topics...)
	ok(t, err)
	ends, err := adm.ListEndOffsets(ctx, topics...)
	ok(t, err)
	stable, err := adm.ListCommittedOffsets(ctx, topics...)
	ok(t, err)
	left := map[string]map[int32]int64{}
	for _, d := range details {
		add("topic %s %s, %d partitions", d.Topic, d.ID, len(d.Partitions))
		for p := range d.Partitions {
			s, _ := starts.Lookup(d.Topic, p)
			e, _ := ends.Lookup(d.Topic, p)
			l, _ := stable.Lookup(d.Topic, p)
			add("offsets of %s-%d: %d to %d, stable to %d", d.Topic, p, s.Offset, e.Offset, l.Offset)
			if e.Offset > s.Offset {
				if left[d.Topic] == nil {
					left[d.Topic] = map[int32]int64{}
				}
				left[d.Topic][p] = e.Offset
			}
		}
	}
	from := map[string]map[int32]kgo.Offset{}
	for topic, parts := range left {
		from[topic] = map[int32]kgo.Offset{}
		for p := range parts {
			from[topic][p] = kgo.NewOffset().AtStart()
		}
	}
	c := client(t, addr, kgo.ConsumePartitions(from), kgo.KeepControlRecords())
	for len(left) > 0 {
		f := c.PollFetches(ctx)
		ok(t, ctx.Err())
		f.EachError(func(topic string, p int32, err error) { t.Errorf("%s-%d: %v", topic, p, err) })
		f.EachRecord(func(r *kgo.Record) {
			add("%s-%d at %d: %d %q %x %v epoch %d producer %d/%d attributes %v", r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value, r.Headers, r.LeaderEpoch, r.ProducerID, r.ProducerEpoch, r.Attrs)
			if r.Offset+1 >= left[r.Topic][r.Partition] {
				if delete(left[r.Topic], r.Partition); len(left[r.Topic]) == 0 {
					delete(left, r.Topic)
				}
			}
		})
	}
	committed, err := adm.FetchOffsets(ctx, "readers")
	ok(t, err)
	for _, o := range committed.Sorted() {
		add("committed of %s-%d: %d %q", o.Topic, o.Partition, o.At, o.Metadata)
	}
	req := kmsg.NewPtrDescribeProducersRequest()
	for _, topic := range topics {
		rt := kmsg.NewDescribeProducersRequestTopic()
		rt.Topic = topic
		for p := range details[topic].Partitions {
			rt.Partitions = append(rt.Partitions, p)
		}
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, c)
	ok(t, err)
	for _, rt := range resp.Topics {
		for _, p := range rt.Partitions {
			for _, x := range p.ActiveProducers {
				add("producer of %s-%d: %+v", rt.Topic, p.Partition, x)
			}
		}
	}
	sort.Strings(out)
	return out
}

// stable is the last stable offset of txn-0.
func stable(t *testing.T, addr string) int64 {
	l, err := kadm.NewClient(client(t, addr)).ListCommittedOffsets(t.Context(), "txn")
	ok(t, err)
	o, _ := l.Lookup("txn", 0)
	ok(t, o.Err)
	return o.Offset
}

func compare(t *testing.T, ours, theirs []string) {
	t.Helper()
	for _, line := range unequal(ours, theirs) {
		t.Error(line)
	}
}

// unequal tells of the first lines that only one of two lists has.
func unequal(ours, theirs []string) (out []string) {
	in := map[string]int{}
	for _, line := range theirs {
		in[line]++
	}
	for _, line := range ours {
		if in[line]--; in[line] < 0 {
			out = append(out, fmt.Sprintf("only here: %.300s", line))
		}
	}
	for _, line := range sortedKeys(in) {
		if in[line] > 0 {
			out = append(out, fmt.Sprintf("only at Kafka: %.300s", line))
		}
	}
	return out[:min(len(out), 20)]
}

func TestKafkasDirectoryIsTakenOver(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(map[bool]string{true: "in order", false: "kill -9"}[clean], func(t *testing.T) {
			dir := t.TempDir()
			k, err := kafka.Start(t.Context(), kafka.Options{Dir: dir, Properties: map[string]string{"log.flush.start.offset.checkpoint.interval.ms": "500", "log.initial.task.delay.ms": "500"}, Features: []string{"eligible.leader.replicas.version=0"}})
			ok(t, err)
			fill(t, k.Bootstrap)
			transact(t, k.Bootstrap)
			theirs, lso := seen(t, k.Bootstrap, topics...), stable(t, k.Bootstrap)
			if len(theirs) < 2000 {
				t.Fatalf("only %d lines are compared", len(theirs))
			}
			from, to := filepath.Join(dir, "data"), filepath.Join(dir, "ours")
			binary, err := launch.Binary()
			ok(t, err)
			if out, err := exec.Command(binary, "import", from, "--log-dir", to).CombinedOutput(); err == nil || !strings.Contains(string(out), "another process") {
				t.Errorf("while Kafka runs: %v, %s", err, out)
			}
			time.Sleep(2 * time.Second) // what DeleteRecords has moved is stored by then
			if clean {
				k.Stop()
			} else {
				k.Kill()
			}
			args := []string{"import", from, "--log-dir", to}
			if !clean {
				args = append(args, "--abort-transactions")
			}
			out, err := exec.Command(binary, args...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Logf("%s", out)
			for _, want := range []string{k.ClusterID, "node 1", "not taken over: __transaction_state: its ", map[bool]string{true: "in txn-0 from offset 4: left open", false: "in txn-0 from offset 4: aborted"}[clean]} {
				if !strings.Contains(string(out), want) {
					t.Errorf("it does not say %q", want)
				}
			}
			if out, err := exec.Command(binary, args...).CombinedOutput(); err == nil || !strings.Contains(string(out), "is not empty") {
				t.Errorf("over what is there: %v, %s", err, out)
			}
			b, err := launch.Start(launch.Options{Dir: to})
			ok(t, err)
			t.Cleanup(b.Kill)
			if b.ClusterID != k.ClusterID {
				t.Errorf("cluster %s, not %s", b.ClusterID, k.ClusterID)
			}
			ours := seen(t, b.Bootstrap, topics...)
			if clean {
				compare(t, ours, theirs)
				if got := stable(t, b.Bootstrap); got != lso {
					t.Errorf("last stable offset %d, at Kafka %d", got, lso)
				}
			} else {
				var kept [2][]string
				for i, list := range [][]string{ours, theirs} {
					for _, line := range list {
						if !strings.HasPrefix(line, "offsets of txn-0") && !strings.HasPrefix(line, "producer of txn-0") && !strings.HasPrefix(line, "txn-0 at 5") {
							kept[i] = append(kept[i], line)
						}
					}
				}
				compare(t, kept[0], kept[1])
				if got := stable(t, b.Bootstrap); got != lso+2 {
					t.Errorf("last stable offset %d after the abort, at Kafka %d before", got, lso)
				}
			}
			// It goes on.
			p := client(t, b.Bootstrap)
			ok(t, p.ProduceSync(t.Context(), &kgo.Record{Topic: "plain", Value: []byte("more")}).FirstErr())
			// And back: what came from Kafka and went on here is Kafka's again.
			w := note(t, b.Bootstrap, topics...)
			ok(t, b.Stop())
			back := filepath.Join(dir, "back")
			w.handOver(t, to, back)
			show(t, filepath.Join(back, "data"))
			for _, complaint := range w.goOn(t, back, true, func(string) {}) {
				t.Error(complaint)
			}
		})
	}
}
