//go:build compat

package adopt

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

var topics = []string{"plain", "packed", "trimmed", "compacted", "txn", "timed"}

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
		if topic == "timed" {
			configs["message.timestamp.type"] = str("LogAppendTime")
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
		for range 3 {
			one := kgo.Record{Topic: "timed", Value: []byte("when it was appended"), Timestamp: now}
			two := kgo.Record{Topic: "timed", Value: []byte("with it, perhaps"), Timestamp: now.Add(time.Second)}
			ok(t, p.ProduceSync(ctx, &one, &two).FirstErr())
		}
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
	p := transactor(t, addr, "open")
	ok(t, p.BeginTransaction())
	ok(t, p.ProduceSync(ctx, &kgo.Record{Topic: "txn", Value: []byte("open")}).FirstErr())
}

// launder has a Kafka hold a compacted topic of which all that may be cleaned was: batches that lost some, all or none of their
// records, tombstones, transactions that ended either way.
func launder(t *testing.T, addr, dir string) {
	t.Helper()
	ctx, adm := t.Context(), kadm.NewClient(client(t, addr))
	set := map[string]*string{}
	for k, v := range map[string]string{"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "100000000"} {
		set[k] = &v
	}
	r, err := adm.CreateTopic(ctx, 1, 1, set, "laundered")
	ok(t, cmp.Or(err, r.Err))
	awaitLeaders(t, addr, "laundered")
	plain := client(t, addr, kgo.ProducerBatchCompression(kgo.Lz4Compression()))
	txn := client(t, addr, kgo.TransactionalID("laundry"))
	value := make([]byte, 40_000)
	chance := rand.New(rand.NewPCG(3, 5))
	for i := range 80 {
		for j := range value {
			value[j] = byte(chance.IntN(256))
		}
		list := []*kgo.Record{{Topic: "laundered", Key: fmt.Append(nil, "often ", i%7), Value: value}, {Topic: "laundered", Key: fmt.Append(nil, "twice ", i/2), Value: []byte("v")}}
		switch i % 8 {
		case 3:
			list = append(list, &kgo.Record{Topic: "laundered", Key: fmt.Append(nil, "once ", i), Value: []byte("stays")})
		case 5:
			list = append(list, &kgo.Record{Topic: "laundered", Key: fmt.Append(nil, "once ", i-2)}) // a tombstone
		case 6, 7:
			ok(t, txn.BeginTransaction())
			ok(t, txn.ProduceSync(ctx, &kgo.Record{Topic: "laundered", Key: fmt.Append(nil, "transaction ", i), Value: []byte("v")}).FirstErr())
			ok(t, txn.EndTransaction(ctx, kgo.TransactionEndTry(i%2 == 0)))
		}
		ok(t, plain.ProduceSync(ctx, list...).FirstErr())
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		logs, err := filepath.Glob(filepath.Join(dir, "laundered-0", "*.log"))
		ok(t, err)
		text, _ := os.ReadFile(filepath.Join(dir, "cleaner-offset-checkpoint"))
		if len(logs) > 1 && strings.Contains(string(text), "laundered 0 "+strings.TrimLeft(strings.TrimSuffix(filepath.Base(logs[len(logs)-1]), ".log"), "0")+"\n") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v were not cleaned: %q", logs, text)
		}
	}
}

// seen is all that is compared of some topics, a line each, sorted.
func seen(t *testing.T, addr string, topics ...string) []string {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
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
	epochs := map[string]map[int32]int32{} // the latest of a record
	c := client(t, addr, kgo.ConsumePartitions(from), kgo.KeepControlRecords())
	for len(left) > 0 {
		f := c.PollFetches(ctx)
		ok(t, ctx.Err())
		f.EachError(func(topic string, p int32, err error) { t.Errorf("%s-%d: %v", topic, p, err) })
		f.EachRecord(func(r *kgo.Record) {
			if r.Topic == "timed" && (r.Attrs.TimestampType() != 1 || time.Since(r.Timestamp) > 30*time.Minute) {
				t.Errorf("timed-%d at %d has a time of type %d: %v", r.Partition, r.Offset, r.Attrs.TimestampType(), r.Timestamp)
			}
			add("%s-%d at %d: %d %q %x %v epoch %d producer %d/%d attributes %v", r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value, r.Headers, r.LeaderEpoch, r.ProducerID, r.ProducerEpoch, r.Attrs)
			if epochs[r.Topic] == nil {
				epochs[r.Topic] = map[int32]int32{}
			}
			epochs[r.Topic][r.Partition] = max(epochs[r.Topic][r.Partition], r.LeaderEpoch)
			if r.Offset+1 >= left[r.Topic][r.Partition] {
				if delete(left[r.Topic], r.Partition); len(left[r.Topic]) == 0 {
					delete(left, r.Topic)
				}
			}
		})
	}
	// What a read_committed consumer is given of it.
	until := map[string]map[int32]int64{}
	for topic, parts := range from {
		for p := range parts {
			s, _ := starts.Lookup(topic, p)
			if l, _ := stable.Lookup(topic, p); l.Offset > s.Offset {
				if until[topic] == nil {
					until[topic] = map[int32]int64{}
				}
				until[topic][p] = l.Offset
			}
		}
	}
	decided := client(t, addr, kgo.ConsumePartitions(from), kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	for len(until) > 0 {
		f := decided.PollFetches(ctx)
		ok(t, ctx.Err())
		f.EachError(func(topic string, p int32, err error) { t.Errorf("%s-%d: %v", topic, p, err) })
		f.EachRecord(func(r *kgo.Record) {
			add("%s-%d at %d is given to a read_committed consumer", r.Topic, r.Partition, r.Offset)
			if r.Offset+1 >= until[r.Topic][r.Partition] {
				if delete(until[r.Topic], r.Partition); len(until[r.Topic]) == 0 {
					delete(until, r.Topic)
				}
			}
		})
	}
	ended := kmsg.NewPtrOffsetForLeaderEpochRequest()
	for topic, parts := range epochs {
		for p, latest := range parts {
			for e := range latest + 1 {
				rt, rp := kmsg.NewOffsetForLeaderEpochRequestTopic(), kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
				rp.Partition, rp.LeaderEpoch = p, e
				rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
				ended.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{rt}
				got, err := ended.RequestWith(ctx, c)
				ok(t, err)
				x := got.Topics[0].Partitions[0]
				add("epoch %d of %s-%d: error %d, epoch %d ends at %d", e, topic, p, x.ErrorCode, x.LeaderEpoch, x.EndOffset)
			}
		}
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

// holed wants what was seen to be worth a comparison: offsets that a cleaning has taken, two epochs, and records that a
// read_committed consumer does not get.
func holed(t *testing.T, lines []string) {
	t.Helper()
	count := func(part string) (n int) {
		for _, line := range lines {
			if strings.Contains(line, part) {
				n++
			}
		}
		return n
	}
	all, given := count("laundered-0 at "), 0
	for _, line := range lines {
		if strings.HasPrefix(line, "laundered-0 at ") && strings.HasSuffix(line, "read_committed consumer") {
			given++
		}
	}
	all -= given
	if end := 80*2 + 10*2 + 20*2; all > end*2/3 || all < 50 {
		t.Errorf("%d records of about %d are left in the compacted topic", all, end)
	}
	if given == 0 {
		t.Error("nothing was read committed")
	}
	if count("epoch 0 of laundered-0: error 0, epoch 0 ends at ") != 1 || count(" of laundered-0: error 0, epoch ") < 2 {
		t.Error("the compacted topic has no records of two epochs")
	}
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
			o := kafka.Options{Dir: dir, Properties: map[string]string{"log.flush.start.offset.checkpoint.interval.ms": "500", "log.initial.task.delay.ms": "500", "log.cleaner.backoff.ms": "200"}, Features: []string{"eligible.leader.replicas.version=0"}}
			k, err := kafka.Start(t.Context(), o)
			ok(t, err)
			t.Cleanup(func() { k.Kill() }) // whichever it is by then
			fill(t, k.Bootstrap)
			launder(t, k.Bootstrap, filepath.Join(dir, "data"))
			// Another leader epoch begins.
			k.Stop()
			cluster := k.ClusterID
			k, err = kafka.Start(t.Context(), o)
			ok(t, err)
			topics := append(slices.Clone(topics), "laundered")
			awaitLeaders(t, k.Bootstrap, topics...)
			for _, topic := range []string{"plain", "packed", "laundered"} {
				ok(t, client(t, k.Bootstrap).ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("in the second epoch"), Value: []byte("v")}).FirstErr())
			}
			transact(t, k.Bootstrap)
			theirs, lso := seen(t, k.Bootstrap, topics...), stable(t, k.Bootstrap)
			holed(t, theirs)
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
			for _, want := range []string{cluster, "node 1", "not taken over: __transaction_state: its ", map[bool]string{true: "in txn-0 from offset 4: left open", false: "in txn-0 from offset 4: aborted"}[clean]} {
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
			if b.ClusterID != cluster {
				t.Errorf("cluster %s, not %s", b.ClusterID, cluster)
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
						if !strings.HasPrefix(line, "offsets of txn-0") && !strings.Contains(line, " of txn-0: error 0, epoch ") && !strings.HasPrefix(line, "producer of txn-0") && !strings.HasPrefix(line, "txn-0 at 5") {
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
			w.handOver(t, back, to)
			if s := show(t, filepath.Join(back, "data")); len(s.files) == 0 {
				t.Error("the tool was shown nothing")
			} else {
				asKilled(t, s)
			}
			for _, complaint := range w.goOn(t, back, true, func(string) {}) {
				t.Error(complaint)
			}
		})
	}
}
