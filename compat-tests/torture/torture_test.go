//go:build compat

package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/compat-tests/launch"
)

func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q is no number", name, text)
	}
	return n
}

const loadPartitions = 3

// loaded is the topics that are loaded, with their configs: closed segments of one are cleaned, those of another go once
// they were deleted, and a third is made durable at each append.
var loaded = map[string]map[string]string{
	"load-0":  {"segment.bytes": "1048576"}, // small, so that the broker rolls some
	"load-1":  {"segment.bytes": "1048576"},
	"packed":  {"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01"},
	"trimmed": {"segment.ms": "500", "retention.ms": "-1"},
	"durable": {"flush.messages": "1", "segment.bytes": "1048576"},
}

// TestKill loads a broker, kills it again and again, and judges what is left.
func TestKill(t *testing.T) {
	seed := number(t, "MILLRACE_TORTURE_SEED", 1)
	kills := int(number(t, "MILLRACE_TORTURE_KILLS", 24))
	w, log, err := campaign(t, seed, kills, nil)
	if err != nil {
		t.Errorf("%v", err)
	}
	for i, p := range w.problems {
		if i == 30 {
			t.Errorf("and %d more", len(w.problems)-i)
			break
		}
		t.Error(p)
	}
	if t.Failed() {
		t.Logf("the broker's log ends:\n%s", log)
	}

	// An idle world would pass everything above.
	floors := map[string]int{"records acknowledged": 300 * kills, "commits of classic-group": kills, "commits of next-group": kills,
		"commits of number-group": 10 * kills, "topics created": kills, "configs changed": kills, "deletions of records": 2 * kills,
		"logs cleaned": kills, "deleted segments removed": kills,
		"moves begun": kills, "moves over": kills / 2, "moves cut short by a kill": kills / 6, "partitions verified": 10 * kills,
		"records read by classic-group": 100 * kills, "records read by next-group": 100 * kills}
	for _, kind := range slices.Sorted(maps.Keys(floors)) {
		if w.counts[kind] < floors[kind] {
			t.Errorf("%s: only %d", kind, w.counts[kind])
		}
	}
}

// TestKillNotices damages the broker's files while it is down, as a broker would that had not written what it
// acknowledged, or had written it twice: the judgement must say so.
func TestKillNotices(t *testing.T) {
	for name, fault := range map[string]struct {
		plant func(root string) (what string, err error)
		kills int
		says  string
	}{
		"records lost":             {cutLog, 1, "is lost"},
		"records stored twice":     {repeatBatch, 1, "is stored twice"},
		"commits lost":             {loseOffsets, 0, "committed offset of"},
		"topics and configs lost":  {loseTopics, 2, "opic extra-"},
		"deleted records back":     {loseStarts, 0, "the start of partition"},
		"a key's last record lost": {cutPacked, 0, "packed: record"},
		"a byte of a closed log":   {flipByte, 1, "log verify: "},
	} {
		t.Run(name, func(t *testing.T) {
			planted := ""
			// What commits overwrite is not missed: theirs is the kill after the load.
			w, _, err := campaign(t, 5, max(1, fault.kills), func(root string, over bool) (err error) {
				if planted == "" && (over || fault.kills > 0) {
					planted, err = fault.plant(root)
				}
				return err
			})
			if planted == "" {
				t.Fatal("nothing was planted")
			}
			said := slices.IndexFunc(w.problems, func(p string) bool { return strings.Contains(p, fault.says) })
			if said < 0 {
				t.Fatalf("%s; that was not noticed: %v, %d problems, first %.300v", planted, err, len(w.problems), w.problems)
			}
			t.Logf("%s; noticed: %s", planted, w.problems[said])
		})
	}
}

// campaign is one run: load, kills, judgement. The files may be sabotaged while the broker is down; root holds its data
// directories. Whatever ends a life of the broker leaves them sound. It returns what it knows and the end of the broker's
// log; an error is a broker that does not start or stop as it must.
func campaign(t *testing.T, seed uint64, kills int, sabotage func(root string, over bool) error) (w *world, log string, err error) {
	t.Logf("seed %d, %d kills", seed, kills)
	addr, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	var told lines
	root := t.TempDir()
	dirs := []string{filepath.Join(root, "one"), filepath.Join(root, "two")}
	options := launch.Options{Dir: strings.Join(dirs, ","), Listen: addr, Log: &told, Overrides: []string{
		"log.cleaner.backoff.ms=300", "log.retention.check.interval.ms=500", "log.initial.task.delay.ms=500", "offsets.topic.num.partitions=4"}}
	broker, err := launch.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		broker.Kill()
		log = broker.Log()
	}()
	w = newWorld(broker.Bootstrap, seed)
	topics := slices.Sorted(maps.Keys(loaded))
	if err := w.prepare(t.Context(), topics); err != nil {
		t.Fatal(err)
	}

	load, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	run := func(f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				w.problem("%v", err)
			}
		})
	}
	for i := range 3 {
		run(func() error { return w.produce(load, i, topics) })
	}
	run(func() error { return w.consume(load, "classic-group", topics, kgo.Balancers(kgo.RangeBalancer())) })
	run(func() error {
		return w.consume(load, "next-group", topics, kgo.Balancers(kgo.RangeBalancer()), kgo.ServerSideBalancer())
	})
	run(func() error { return w.commitNumbers(load, "number-group", topics[0], loadPartitions) })
	run(func() error { return w.administer(load) })
	run(func() error { return w.trim(load, "trimmed") })
	for i := range movers {
		run(func() error { return w.move(load, i, topics, dirs) })
	}

	restart := func() (err error) {
		var next *launch.Broker
		if next, err = launch.Start(options); err == nil {
			broker = next
		}
		return err
	}
	rng := w.rng(1)
	for w.killCount() < kills && err == nil {
		time.Sleep(200*time.Millisecond + upTo(rng, 2300*time.Millisecond))
		select {
		case <-broker.Exited():
			err = fmt.Errorf("the broker ended by itself:\n%s", broker.Log())
			continue
		default:
		}
		broker.Kill()
		w.locked(func() { w.kills++ })
		if movesLeft(dirs) > 0 {
			w.acked("moves cut short by a kill")
		}
		if sabotage != nil {
			if err := sabotage(root, false); err != nil {
				t.Fatal(err)
			}
		}
		w.judgeFiles(fmt.Sprintf("kill %d", w.killCount()), dirs)
		// Every fourth restart is itself killed, at some moment of starting.
		if rng.IntN(4) == 0 {
			early, err := launch.Begin(options)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(upTo(rng, 200*time.Millisecond))
			early.Kill()
			w.locked(func() { w.kills++ })
			w.judgeFiles(fmt.Sprintf("kill %d, of a start", w.killCount()), dirs)
		}
		time.Sleep(upTo(rng, 100*time.Millisecond))
		if err = restart(); err != nil {
			err = fmt.Errorf("restart after kill %d: %w", w.killCount(), err)
		}
	}
	stop()
	wg.Wait()
	for _, r := range w.records {
		w.counts["records acknowledged"] += r.AckedCount()
	}
	w.counts["logs cleaned"] = told.count("log was cleaned", "packed-")
	w.counts["deleted segments removed"] = told.count("below the log start", "trimmed-")
	t.Logf("acknowledged: %v", w.counts)
	t.Logf("refused or unanswered: %v", w.errs)
	if err != nil {
		return w, log, err
	}

	// Once more without a warning, and then with one: what is stored must be right after both.
	broker.Kill()
	if sabotage != nil {
		if err := sabotage(root, true); err != nil {
			t.Fatal(err)
		}
	}
	w.judgeFiles("the last kill", dirs)
	if err := restart(); err != nil {
		return w, log, err
	}
	if err := w.verify(t.Context(), topics); err != nil {
		return w, log, err
	}
	if err := broker.Stop(); err != nil {
		return w, log, fmt.Errorf("a clean stop: %w", err)
	}
	w.judgeFiles("a clean stop", dirs)
	if err := restart(); err != nil {
		return w, log, err
	}
	return w, log, w.verify(t.Context(), topics)
}

// lines is what a broker has told over its lives.
type lines struct {
	mu   sync.Mutex
	text []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

// count says how many lines hold all of some words.
func (l *lines) count(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(string(l.text)) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

// prepare creates the topics that are loaded.
func (w *world) prepare(ctx context.Context, topics []string) error {
	client, err := w.client()
	if err != nil {
		return err
	}
	defer client.Close()
	for _, topic := range topics {
		w.records[topic] = NewRecords(topic)
		configs := make(map[string]*string)
		for k, v := range loaded[topic] {
			configs[k] = &v
		}
		w.records[topic].Compacted = loaded[topic]["cleanup.policy"] == "compact"
		if _, err := kadm.NewClient(client).CreateTopic(ctx, loadPartitions, 1, configs, topic); err != nil {
			return fmt.Errorf("create %s: %w", topic, err)
		}
	}
	// A move that took no time would never be cut short.
	slow := "500000"
	_, err = kadm.NewClient(client).AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "replica.alter.log.dirs.io.max.bytes.per.second", Value: &slow}})
	if err != nil {
		return fmt.Errorf("slow moves down: %w", err)
	}
	return nil
}

// verify reads everything back and judges it.
func (w *world) verify(ctx context.Context, topics []string) error {
	ctx, cancel := context.WithTimeout(ctx, opLimit)
	defer cancel()
	client, err := w.client()
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for _, topic := range topics {
		stored, err := w.readAll(ctx, admin, topic)
		if err != nil {
			return fmt.Errorf("reading %s: %w", topic, err)
		}
		for _, p := range w.records[topic].Check(stored) {
			w.problem("%s", p)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(w.commits)) {
		w.checkCommits(ctx, admin, group)
	}
	before := len(w.errs)
	for _, name := range slices.Sorted(maps.Keys(w.topics)) {
		w.look(ctx, admin, name)
	}
	if len(w.errs) != before {
		return fmt.Errorf("not everything could be looked up: %v", w.errs)
	}
	return nil
}

// readAll reads a topic from the start to its end.
func (w *world) readAll(ctx context.Context, admin *kadm.Client, topic string) (map[int32]Kept, error) {
	begins, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	for err == nil && errors.Is(ends.Error(), kerr.OffsetNotAvailable) { // what is to be durable first is made so at the start
		time.Sleep(10 * time.Millisecond)
		ends, err = admin.ListEndOffsets(ctx, topic)
	}
	if err != nil {
		return nil, err
	}
	starts := make(map[int32]kgo.Offset)
	stored := make(map[int32]Kept)
	for p, end := range ends[topic] {
		begin, _ := begins.Lookup(topic, p)
		if err := errors.Join(begin.Err, end.Err); err != nil {
			return nil, err
		}
		stored[p] = Kept{Start: begin.Offset}
		if end.Offset > begin.Offset {
			starts[p] = kgo.NewOffset().AtStart()
		}
	}
	left := len(starts)
	if left == 0 {
		return stored, nil
	}
	client, err := w.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%d partitions were not read to their ends: %w", left, err)
		}
		if err := fetches.Err(); err != nil {
			return nil, err // a batch that is damaged, say: it would be fetched for ever
		}
		fetches.EachRecord(func(r *kgo.Record) {
			k := stored[r.Partition]
			k.Records = append(k.Records, Stored{r.Offset, string(r.Key), r.Value})
			stored[r.Partition] = k
			if r.Offset == ends[topic][r.Partition].Offset-1 {
				left--
			}
		})
	}
	return stored, nil
}
