//go:build compat

package torture

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
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

// TestKill loads a broker, kills it again and again, and judges what is left.
func TestKill(t *testing.T) {
	seed := number(t, "MILLRACE_TORTURE_SEED", 1)
	kills := int(number(t, "MILLRACE_TORTURE_KILLS", 24))
	t.Logf("seed %d, %d kills", seed, kills)
	addr, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	options := launch.Options{Dir: filepath.Join(t.TempDir(), "data"), Listen: addr}
	broker, err := launch.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Kill() })
	w := newWorld(broker.Bootstrap, seed)
	topics := []string{"load-0", "load-1"}
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

	broker = w.torture(t, broker, options, kills)
	stop()
	wg.Wait()
	t.Logf("acknowledged: %v", w.counts)
	t.Logf("refused or unanswered: %v", w.errs)

	// Once more without a warning, and then with one: what is stored must be right after both.
	broker.Kill()
	if broker, err = launch.Start(options); err != nil {
		t.Fatal(err)
	}
	w.verify(t, topics)
	if err := broker.Stop(); err != nil {
		t.Errorf("a clean stop: %v", err)
	}
	if broker, err = launch.Start(options); err != nil {
		t.Fatal(err)
	}
	w.verify(t, topics)
	for i, p := range w.problems {
		if i == 30 {
			t.Errorf("and %d more", len(w.problems)-i)
			break
		}
		t.Error(p)
	}
	if t.Failed() {
		t.Logf("the broker's log ends:\n%s", broker.Log())
	}

	// An idle world would pass everything above.
	records := 0
	for _, r := range w.records {
		records += r.AckedCount()
	}
	t.Logf("%d records acknowledged", records)
	floors := map[string]int{"commits of classic-group": kills, "commits of next-group": kills, "commits of number-group": 10 * kills,
		"topics created": kills, "configs changed": kills, "records read by classic-group": 100 * kills, "records read by next-group": 100 * kills}
	if records < 300*kills {
		t.Errorf("only %d records were acknowledged", records)
	}
	for _, kind := range slices.Sorted(maps.Keys(floors)) {
		if w.counts[kind] < floors[kind] {
			t.Errorf("%s: only %d", kind, w.counts[kind])
		}
	}
}

// prepare creates the topics that are loaded. Small segments make the broker roll some.
func (w *world) prepare(ctx context.Context, topics []string) error {
	client, err := w.client()
	if err != nil {
		return err
	}
	defer client.Close()
	segment := "1048576"
	for _, topic := range topics {
		w.records[topic] = NewRecords(topic)
		if _, err := kadm.NewClient(client).CreateTopic(ctx, loadPartitions, 1, map[string]*string{"segment.bytes": &segment}, topic); err != nil {
			return fmt.Errorf("create %s: %w", topic, err)
		}
	}
	return nil
}

// torture kills and restarts. Every fourth restart is itself killed, at some moment of starting.
func (w *world) torture(t *testing.T, broker *launch.Broker, options launch.Options, kills int) *launch.Broker {
	rng := w.rng(1)
	for w.killCount() < kills {
		time.Sleep(200*time.Millisecond + upTo(rng, 3*time.Second))
		select {
		case <-broker.Exited():
			t.Fatalf("the broker ended by itself:\n%s", broker.Log())
		default:
		}
		broker.Kill()
		w.locked(func() { w.kills++ })
		if rng.IntN(4) == 0 {
			early, err := launch.Begin(options)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(upTo(rng, 200*time.Millisecond))
			early.Kill()
			w.locked(func() { w.kills++ })
		}
		time.Sleep(upTo(rng, 100*time.Millisecond))
		var err error
		if broker, err = launch.Start(options); err != nil {
			t.Fatalf("restart after kill %d: %v", w.killCount(), err)
		}
	}
	return broker
}

// verify reads everything back and judges it.
func (w *world) verify(t *testing.T, topics []string) {
	ctx, cancel := context.WithTimeout(t.Context(), opLimit)
	defer cancel()
	client, err := w.client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for _, topic := range topics {
		stored, err := w.readAll(ctx, admin, topic)
		if err != nil {
			t.Fatalf("reading %s: %v", topic, err)
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
		t.Errorf("not everything could be looked up: %v", w.errs)
	}
}

// readAll reads a topic from the start to its end.
func (w *world) readAll(ctx context.Context, admin *kadm.Client, topic string) (map[int32][]Stored, error) {
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	starts := make(map[int32]kgo.Offset)
	left := 0
	for p, end := range ends[topic] {
		if end.Err != nil {
			return nil, end.Err
		}
		if end.Offset > 0 {
			starts[p] = kgo.NewOffset().AtStart()
			left++
		}
	}
	stored := make(map[int32][]Stored)
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
		fetches.EachRecord(func(r *kgo.Record) {
			stored[r.Partition] = append(stored[r.Partition], Stored{r.Offset, string(r.Key), r.Value})
			if r.Offset == ends[topic][r.Partition].Offset-1 {
				left--
			}
		})
	}
	return stored, nil
}
