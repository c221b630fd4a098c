//go:build compat

package adopt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

// transactor is a client whose transactions outlast a slow machine.
func transactor(t *testing.T, addr, id string) *kgo.Client {
	t.Helper()
	return client(t, addr, kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// commitWithin has a transaction hold an offset of a group.
func commitWithin(t *testing.T, addr string, p *kgo.Client, id, group, topic string, at int64) {
	t.Helper()
	producer, epoch, err := p.ProducerID(t.Context())
	ok(t, err)
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Version = 5 // which joins the coordinator's partition to the transaction (KIP-890)
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = id, group, producer, epoch
	rt, rp := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Offset, rp.LeaderEpoch, rp.Metadata = at, -1, str("in a transaction")
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	r := ask[*kmsg.TxnOffsetCommitResponse](t, conn(t, addr), req)
	if code := r.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatalf("TxnOffsetCommit of %s: error %d", group, code)
	}
}

// stream reads records of one topic and writes as many to another, with offsets and records in one transaction, as Kafka Streams
// does for processing.guarantee=exactly_once_v2.
func stream(t *testing.T, addr, from, to string, n int, end kgo.TransactionEndTry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(addr), kgo.TransactionalID("stream"), kgo.TransactionTimeout(10*time.Minute), kgo.ConsumerGroup("streams"), kgo.ConsumeTopics(from),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ok(t, err)
	defer s.Close()
	ok(t, s.Begin())
	for n > 0 {
		f := s.PollRecords(ctx, n)
		ok(t, ctx.Err())
		for _, r := range f.Records() {
			ok(t, s.ProduceSync(ctx, &kgo.Record{Topic: to, Value: r.Value}).FirstErr())
			n--
		}
	}
	done, err := s.End(ctx, end)
	ok(t, err)
	if done != bool(end) {
		t.Fatalf("the transaction ended with commit %v", done)
	}
}

// given is the values of each partition that a read_committed consumer is given, in order.
func given(t *testing.T, addr, topic string) [3][]string {
	t.Helper()
	adm := kadm.NewClient(client(t, addr))
	stable, err := adm.ListCommittedOffsets(t.Context(), topic)
	ok(t, err)
	ok(t, stable.Error())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	for p := range int32(3) {
		if l, _ := stable.Lookup(topic, p); l.Offset > 0 {
			from[p], left[p] = kgo.NewOffset().AtStart(), l.Offset
		}
	}
	var out [3][]string
	c := client(t, addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	for len(left) > 0 {
		f := c.PollFetches(ctx)
		ok(t, ctx.Err())
		f.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				out[r.Partition] = append(out[r.Partition], string(r.Value))
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return out
}

// groupOffsets is what groups have committed, a line each; and what they are told that want to know what is decided.
func groupOffsets(t *testing.T, addr string, groups ...string) (out []string) {
	t.Helper()
	c := conn(t, addr)
	for _, stable := range []bool{false, true} {
		for _, group := range groups {
			req := kmsg.NewPtrOffsetFetchRequest()
			req.Version, req.RequireStable = 8, stable
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group, g.Topics = group, nil
			req.Groups = append(req.Groups, g)
			var r *kmsg.OffsetFetchResponse
			for n := 0; ; n++ {
				if r = ask[*kmsg.OffsetFetchResponse](t, c, req); r.Groups[0].ErrorCode == 0 || n == 200 {
					break
				}
				time.Sleep(50 * time.Millisecond) // the coordinator loads
			}
			if r.Groups[0].ErrorCode != 0 {
				t.Fatalf("offsets of %s: error %d", group, r.Groups[0].ErrorCode)
			}
			for _, topic := range r.Groups[0].Topics {
				for _, p := range topic.Partitions {
					out = append(out, fmt.Sprintf("%s, stable %v, %s-%d: error %d, %d, epoch %d, %q", group, stable, topic.Topic, p.Partition, p.ErrorCode, p.Offset, p.LeaderEpoch, zero(p.Metadata)))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// TestTransactionsAreTakenOver has a Kafka hold transactions of several producers over several partitions, offsets among what
// they hold, ends it, and takes it over as it is and with the open ones aborted.
func TestTransactionsAreTakenOver(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	k, err := kafka.Start(ctx, kafka.Options{Dir: dir})
	ok(t, err)
	t.Cleanup(k.Kill)
	adm := kadm.NewClient(client(t, k.Bootstrap))
	mine := []string{"txn", "sink", "source"}
	for i, topic := range append(slices.Clone(mine), "decided") {
		r, err := adm.CreateTopic(ctx, []int32{3, 3, 1, 1}[i], 1, nil, topic)
		ok(t, err)
		ok(t, r.Err)
		awaitLeaders(t, k.Bootstrap, topic)
	}
	plain := client(t, k.Bootstrap, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 20 {
		ok(t, plain.ProduceSync(ctx, &kgo.Record{Topic: "source", Value: fmt.Append(nil, "source ", i)}).FirstErr())
	}
	groups := []string{"streams", "pending", "done", "undone"}
	for _, group := range groups[1:] {
		ok(t, adm.CommitAllOffsets(ctx, group, kadm.Offsets{"source": {0: {Topic: "source", At: 3, LeaderEpoch: -1, Metadata: "before"}}}))
	}

	// What a read_committed consumer is to be given, of what is decided now and of all.
	var now, all [3][]string
	a, b := transactor(t, k.Bootstrap, "a"), transactor(t, k.Bootstrap, "b")
	send := func(c *kgo.Client, p int32, value string, counts bool) {
		t.Helper()
		ok(t, c.ProduceSync(ctx, &kgo.Record{Topic: "txn", Partition: p, Value: []byte(value)}).FirstErr())
		if counts {
			all[p] = append(all[p], value)
		}
	}
	for round := range 6 {
		commitA, commitB := round%2 == 0, round%3 == 0
		ok(t, a.BeginTransaction())
		ok(t, b.BeginTransaction())
		for p := range int32(3) {
			for i := range 3 {
				send(a, p, fmt.Sprint("a ", round, i), commitA)
				send(b, p, fmt.Sprint("b ", round, i), commitB)
				send(plain, p, fmt.Sprint("plain ", round, i), true)
			}
		}
		switch round {
		case 2:
			commitWithin(t, k.Bootstrap, a, "a", "done", "source", 8)
		case 3:
			commitWithin(t, k.Bootstrap, a, "a", "undone", "source", 9)
		}
		ok(t, b.EndTransaction(ctx, kgo.TransactionEndTry(commitB)))
		ok(t, a.EndTransaction(ctx, kgo.TransactionEndTry(commitA)))
	}
	stream(t, k.Bootstrap, "source", "sink", 10, kgo.TryCommit)
	stream(t, k.Bootstrap, "source", "sink", 5, kgo.TryAbort)
	for p := range now {
		now[p] = slices.Clone(all[p])
	}
	// And now they stay open, one in two partitions and in the offsets, the other in two.
	ok(t, a.BeginTransaction())
	ok(t, b.BeginTransaction())
	send(a, 0, "open", false)
	send(a, 1, "open", false)
	send(b, 1, "open", false)
	send(b, 2, "open", false)
	commitWithin(t, k.Bootstrap, a, "a", "pending", "source", 7)
	for p := range int32(3) {
		send(plain, p, "behind", true)
	}

	theirs, offsets := seen(t, k.Bootstrap, mine...), groupOffsets(t, k.Bootstrap, groups...)
	if got := given(t, k.Bootstrap, "txn"); fmt.Sprint(got) != fmt.Sprint(now) {
		t.Fatalf("Kafka gives %q and not %q", got, now)
	}
	for _, want := range []string{`streams, stable true, source-0: error 0, 10, `, `pending, stable false, source-0: error 0, 3, `, `pending, stable true, source-0: error 88, `, `done, stable true, source-0: error 0, 8, `, `undone, stable true, source-0: error 0, 3, `} {
		if !slices.ContainsFunc(offsets, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Fatalf("Kafka does not say %q of the offsets: %q", want, offsets)
		}
	}
	d := transactor(t, k.Bootstrap, "decided")
	ok(t, d.BeginTransaction())
	ok(t, d.ProduceSync(ctx, &kgo.Record{Topic: "decided", Value: []byte("decided")}).FirstErr())
	commitWithin(t, k.Bootstrap, d, "decided", "decided", "source", 6)
	decider, _, err := d.ProducerID(ctx)
	ok(t, err)
	ok(t, d.EndTransaction(ctx, kgo.TryCommit))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		x, err := adm.DescribeTransactions(ctx, "decided")
		ok(t, err)
		if x["decided"].State == "CompleteCommit" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the transaction does not end: %+v", x)
		}
	}
	k.Kill()

	program, err := launch.Binary()
	ok(t, err)
	from := filepath.Join(dir, "data")
	told := regexp.MustCompile(`(?m)^transaction of producer (\d+) in (\S+) from offset \d+: (.*)$`)
	take := func(t *testing.T, to string, want string, flags ...string) {
		t.Helper()
		out, err := exec.Command(program, append([]string{"import", from, "--log-dir", to}, flags...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Logf("%s", out)
		in := map[string]int{}
		producers := map[string]bool{}
		for _, m := range told.FindAllStringSubmatch(string(out), -1) {
			in[regexp.MustCompile(`offsets-\d+`).ReplaceAllString(m[2], "offsets")]++
			producers[m[1]] = true
			if m[3] != want {
				t.Errorf("%s", m[0])
			}
		}
		if fmt.Sprint(in) != "map[__consumer_offsets:1 txn-0:1 txn-1:2 txn-2:1]" || len(producers) != 2 {
			t.Errorf("it tells of transactions %v of producers %v", in, producers)
		}
	}

	t.Run("as they are", func(t *testing.T) {
		to := filepath.Join(dir, "open")
		take(t, to, "left open")
		br, err := launch.Start(launch.Options{Dir: to})
		ok(t, err)
		t.Cleanup(func() { br.Kill() })
		compare(t, seen(t, br.Bootstrap, mine...), theirs)
		compare(t, groupOffsets(t, br.Bootstrap, groups...), offsets)
		if got := given(t, br.Bootstrap, "txn"); fmt.Sprint(got) != fmt.Sprint(now) {
			t.Errorf("a read_committed consumer is given %q and not %q", got, now)
		}
		// Nobody can end them: neither whom they belong to nor an operator.
		c := conn(t, br.Bootstrap)
		ids := kmsg.NewPtrInitProducerIDRequest()
		ids.Version, ids.TransactionalID, ids.TransactionTimeoutMillis, ids.ProducerID, ids.ProducerEpoch = 4, str("a"), 60000, -1, -1
		if r := ask[*kmsg.InitProducerIDResponse](t, c, ids); r.ErrorCode == 0 {
			t.Error("a transactional producer has been given an id")
		}
		versions := kmsg.NewPtrApiVersionsRequest()
		for _, v := range ask[*kmsg.ApiVersionsResponse](t, c, versions).ApiKeys {
			if key := kmsg.Key(v.ApiKey); key == kmsg.EndTxn || key == kmsg.WriteTxnMarkers {
				t.Errorf("%s is served: the help of import says that nothing ends an open transaction", key.Name())
			}
		}
		ok(t, client(t, br.Bootstrap, kgo.RecordPartitioner(kgo.ManualPartitioner())).ProduceSync(ctx, &kgo.Record{Topic: "txn", Partition: 0, Value: []byte("more")}).FirstErr())
		ok(t, br.Stop())
		br, err = launch.Start(launch.Options{Dir: to})
		ok(t, err)
		if got := given(t, br.Bootstrap, "txn"); fmt.Sprint(got) != fmt.Sprint(now) {
			t.Errorf("after another start a read_committed consumer is given %q and not %q", got, now)
		}
	})

	// What it would be had Kafka been killed between a decision, of which the producer may know, and the first of its markers.
	t.Run("decided", func(t *testing.T) {
		cut, to := filepath.Join(dir, "cut"), filepath.Join(dir, "decided")
		copyAll(t, from, cut)
		marks := func(b []byte) bool {
			return binary.BigEndian.Uint16(b[21:])&0x20 != 0 && int64(binary.BigEndian.Uint64(b[43:])) == decider
		}
		for pattern, is := range map[string]func([]byte) bool{
			"decided-0": marks, "__consumer_offsets-*": marks,
			"__transaction_state-*": func(b []byte) bool { return bytes.Contains(b, []byte("decided")) },
		} {
			logs, err := filepath.Glob(filepath.Join(cut, pattern, strings.Repeat("0", 20)+".log"))
			ok(t, err)
			n := 0
			for _, name := range logs {
				if cutLast(t, name, is) {
					n++
				}
			}
			if n != 1 {
				t.Fatalf("%d logs of %s end as was expected", n, pattern)
			}
		}
		out, err := exec.Command(program, "import", cut, "--log-dir", to).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Logf("%s", out)
		for _, m := range told.FindAllStringSubmatch(string(out), -1) {
			want := "left open"
			if m[1] == fmt.Sprint(decider) {
				want = "committed, as its coordinator had decided"
			}
			if m[3] != want {
				t.Errorf("%s, and not %s", m[0], want)
			}
		}
		if n := strings.Count(string(out), "committed, as"); n != 2 {
			t.Errorf("it is committed in %d partitions", n)
		}
		br, err := launch.Start(launch.Options{Dir: to})
		ok(t, err)
		t.Cleanup(br.Kill)
		if got := given(t, br.Bootstrap, "decided"); fmt.Sprint(got) != "[[decided] [] []]" {
			t.Errorf("a read_committed consumer is given %q", got)
		}
		got := groupOffsets(t, br.Bootstrap, "decided")
		if len(got) != 2 || strings.Count(strings.Join(got, "\n"), "source-0: error 0, 6, ") != 2 {
			t.Errorf("committed in it: %q", got)
		}
	})

	t.Run("to a full disk", func(t *testing.T) { fullDisks(t, program, from) })

	t.Run("aborted", func(t *testing.T) {
		to := filepath.Join(dir, "aborted")
		take(t, to, "aborted", "--abort-transactions")
		br, err := launch.Start(launch.Options{Dir: to})
		ok(t, err)
		t.Cleanup(func() { br.Kill() })
		check := func(addr string) {
			t.Helper()
			if got := given(t, addr, "txn"); fmt.Sprint(got) != fmt.Sprint(all) {
				t.Errorf("a read_committed consumer is given %q and not %q", got, all)
			}
			var want []string // of nothing is the end open any more
			for _, line := range offsets {
				if strings.HasPrefix(line, "pending, stable false, ") {
					want = append(want, line, strings.Replace(line, "stable false", "stable true", 1))
				} else if !strings.HasPrefix(line, "pending, ") {
					want = append(want, line)
				}
			}
			compare(t, groupOffsets(t, addr, groups...), want)
			req := kmsg.NewPtrDescribeProducersRequest()
			rt := kmsg.NewDescribeProducersRequestTopic()
			rt.Topic, rt.Partitions = "txn", []int32{0, 1, 2}
			req.Topics = append(req.Topics, rt)
			r := ask[*kmsg.DescribeProducersResponse](t, conn(t, addr), req)
			for _, p := range r.Topics[0].Partitions {
				if p.ErrorCode != 0 || len(p.ActiveProducers) < 2 {
					t.Errorf("producers of txn-%d: error %d, %+v", p.Partition, p.ErrorCode, p.ActiveProducers)
				}
				for _, x := range p.ActiveProducers {
					if x.CurrentTxnStartOffset >= 0 {
						t.Errorf("producer of txn-%d: %+v", p.Partition, x)
					}
				}
			}
		}
		check(br.Bootstrap)
		// What both have of the partitions below the markers is the same, and what it was at Kafka.
		lines, markers := seen(t, br.Bootstrap, mine...), 0
		have := map[string]bool{}
		for _, line := range lines {
			have[line] = true
		}
		record := regexp.MustCompile(`^(txn|sink|source)-\d+ at \d+: `)
		for _, line := range theirs {
			if record.MatchString(line) && !have[line] {
				t.Errorf("only at Kafka: %s", line)
			}
			delete(have, line)
		}
		for line := range have {
			if record.MatchString(line) {
				markers++
				if !strings.Contains(line, `"\x00\x00\x00\x00"`) {
					t.Errorf("only here: %s", line)
				}
			}
		}
		if markers != 4 {
			t.Errorf("%d markers were written for transactions that were open four times", markers)
		}
		// It goes on, with plain records and with an idempotent producer's, and is the same after another start.
		writer := client(t, br.Bootstrap, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for i := range 20 {
			for p := range int32(3) {
				send(writer, p, fmt.Sprint("afterwards ", i), true)
			}
		}
		check(br.Bootstrap)
		ok(t, br.Stop())
		verified(t, to)
		br, err = launch.Start(launch.Options{Dir: to})
		ok(t, err)
		check(br.Bootstrap)
		after := kadm.NewClient(client(t, br.Bootstrap))
		ok(t, after.CommitAllOffsets(ctx, "pending", kadm.Offsets{"source": {0: {Topic: "source", At: 12, LeaderEpoch: -1}}}))
		if got := groupOffsets(t, br.Bootstrap, "pending"); len(got) != 2 || !strings.Contains(got[0], ": error 0, 12, ") || !strings.Contains(got[1], ": error 0, 12, ") {
			t.Errorf("committed afterwards: %q", got)
		}
	})
}

// cutLast removes a log's last batch, if it is as it is to be, and says whether it was.
func cutLast(t *testing.T, name string, is func(b []byte) bool) bool {
	t.Helper()
	b, err := os.ReadFile(name)
	ok(t, err)
	last := 0
	for at := 0; at+61 <= len(b); at += 12 + int(binary.BigEndian.Uint32(b[at+8:])) {
		last = at
	}
	if len(b) == 0 || !is(b[last:]) {
		return false
	}
	ok(t, os.Truncate(name, int64(last)))
	return true
}
