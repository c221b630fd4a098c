//go:build compat

package applications

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/compat-tests/launch"
)

// words makes records whose values begin with one of a few words; their times go over ten minutes of the last hour, and
// each value is another. Partitions go by the key, as those of everything that an application puts out.
func words(partitions int32, n int, seed uint64) []*kgo.Record {
	rng := rand.New(rand.NewPCG(seed, 1))
	begin := time.Now().Add(-time.Hour).Truncate(time.Minute)
	partition := kgo.StickyKeyPartitioner(nil).ForTopic("")
	records := make([]*kgo.Record, n)
	for i := range records {
		word := fmt.Sprintf("word%d", int(30*rng.Float64()*rng.Float64()))
		r := &kgo.Record{Timestamp: begin.Add(time.Duration(rng.IntN(600_000)) * time.Millisecond),
			Key: fmt.Appendf(nil, "user-%d", rng.IntN(100)), Value: fmt.Appendf(nil, "%s number %d of %d", word, i, seed)}
		r.Partition = int32(partition.Partition(r, int(partitions)))
		if i%10 == 0 {
			r.Headers = []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, i)}}
		}
		records[i] = r
	}
	return records
}

// reversed is what the application "reverse" makes of the records.
func reversed(records []*kgo.Record) []*kgo.Record {
	out := make([]*kgo.Record, len(records))
	for i, r := range records {
		c := *r
		c.Value = slices.Clone(r.Value)
		slices.Reverse(c.Value)
		out[i] = &c
	}
	return out
}

// counted is what the application "count" must come to.
func counted(records []*kgo.Record) map[string]int {
	counts := make(map[string]int)
	for _, r := range records {
		word, _, _ := strings.Cut(string(r.Value), " ")
		counts[fmt.Sprintf("%s@%d", word, r.Timestamp.Truncate(time.Minute).UnixMilli())]++
	}
	return counts
}

const streamsPartitions = 4

// application is one of the two, with names of its own, on a broker.
type application struct {
	*cluster
	kind, id, in, out string
	classPath         string
}

func newApplication(t *testing.T, kind, bootstrap string) *application {
	libs, classes := install(t, "streams")
	a := &application{cluster: connect(t, bootstrap), kind: kind, classPath: classes + ":" + libs + "/*"}
	a.id = fmt.Sprintf("%s-%d", kind, time.Now().UnixNano())
	a.in, a.out = a.id+"-in", a.id+"-out"
	a.create(a.in, streamsPartitions, nil)
	a.create(a.out, streamsPartitions, nil)
	return a
}

// start starts it with nothing on disk, so that its state comes from the changelog.
func (a *application) start() *program {
	return java(a.t, a.classPath, "StreamsApplication", a.kind, a.bootstrap, a.id, a.in, a.out, a.t.TempDir())
}

func TestStreamsStateless(t *testing.T) {
	t.Parallel()
	bootstrap, _ := launch.ForTest(t)
	a := newApplication(t, "reverse", bootstrap)
	first, second := words(streamsPartitions, 3000, 1), words(streamsPartitions, 3000, 2)
	a.send(a.in, first)
	p := a.start()
	// Stopped in the middle, in order: what it has put out is committed, nothing comes twice.
	eventually(t, limit, p, func() error {
		if n := a.total(a.out); n == 0 {
			return errors.New("nothing came out")
		}
		return nil
	})
	a.send(a.in, second)
	p.stop(t)
	p = a.start()
	eventually(t, limit, p, func() error { return a.allCommitted(a.id, a.in) })
	p.stop(t)
	want := reversed(append(first, second...))
	got := a.read(a.out)
	if err := sameRecords(want, got); err != nil {
		t.Error(err)
	}
	mustCatch(t, got, otherValue, func(got []*kgo.Record) error { return sameRecords(want, got) })

	// Killed in the middle: what it had not committed comes again.
	third := words(streamsPartitions, 20_000, 3)
	before := a.total(a.out)
	p = a.start()
	a.send(a.in, third)
	eventually(t, limit, p, func() error {
		if a.total(a.out) == before {
			return errors.New("nothing more came out")
		}
		return nil
	})
	p.kill()
	p = a.start()
	eventually(t, limit, p, func() error { return a.allCommitted(a.id, a.in) })
	p.stop(t)
	if err := atLeastOnce(append(want, reversed(third)...), a.read(a.out)); err != nil {
		t.Error(err)
	}
}

// TestStreamsBrokerKilled kills the broker, not the application, in the middle: what was read is read again at most, and
// nothing that came out is lost.
func TestStreamsBrokerKilled(t *testing.T) {
	t.Parallel()
	listen, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	options := launch.Options{Dir: t.TempDir(), Listen: listen}
	broker, err := launch.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Kill() })
	a := newApplication(t, "reverse", listen)
	records := words(streamsPartitions, 40_000, 6)
	p := a.start()
	a.send(a.in, records[:20_000])
	eventually(t, limit, p, func() error {
		if n := a.total(a.out); n == 0 {
			return errors.New("nothing came out")
		}
		return nil
	})
	broker.Kill()
	if broker, err = launch.Start(options); err != nil {
		t.Fatal(err)
	}
	a.send(a.in, records[20_000:])
	eventually(t, limit, p, func() error { return a.allCommitted(a.id, a.in) })
	p.stop(t)
	if err := atLeastOnce(reversed(records), a.read(a.out)); err != nil {
		t.Error(err)
	}
	if err := broker.Stop(); err != nil {
		t.Error(err)
	}
}

func TestStreamsWindowedCount(t *testing.T) {
	t.Parallel()
	bootstrap, _ := launch.ForTest(t)
	a := newApplication(t, "count", bootstrap)
	repartition, changelog := a.id+"-words-repartition", a.id+"-counts-changelog"
	first, second := words(streamsPartitions, 3000, 4), words(streamsPartitions, 3000, 5)
	a.send(a.in, first)
	p := a.start()
	eventually(t, limit, p, func() error {
		if a.total(a.out) == 0 {
			return errors.New("nothing came out")
		}
		return nil
	})
	a.send(a.in, second)
	p.stop(t)
	p = a.start()
	eventually(t, limit, p, func() error { return a.allCommitted(a.id, a.in, repartition) })
	// Its own topics: as many partitions as the input, and configs of their kind.
	for topic, policy := range map[string][]string{repartition: {"delete"}, changelog: {"compact", "delete"}} {
		ends, err := a.ends(topic)
		if err != nil {
			t.Fatal(err)
		}
		if len(ends) != streamsPartitions {
			t.Errorf("%s has %d partitions, wanted %d", topic, len(ends), streamsPartitions)
		}
		configs, err := a.configs(topic)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Split(configs["cleanup.policy"], ",")
		slices.Sort(got)
		if !slices.Equal(got, policy) {
			t.Errorf("%s has cleanup.policy %v, wanted %v", topic, got, policy)
		}
	}
	if n := a.total(changelog); n == 0 {
		t.Error("the changelog is empty")
	}
	if n := a.total(repartition); n != int64(len(first)+len(second)) {
		t.Errorf("%d records went through the repartition topic, wanted %d", n, len(first)+len(second))
	}
	// Committed records of the repartition topic are deleted.
	eventually(t, limit, p, func() error {
		starts, err := a.starts(repartition)
		if err != nil {
			return err
		}
		ends, err := a.ends(repartition)
		if err != nil {
			return err
		}
		for n, end := range ends {
			if starts[n] != end {
				return fmt.Errorf("%s-%d begins at %d, all of its records up to %d are committed", repartition, n, starts[n], end)
			}
		}
		return nil
	})
	p.stop(t)
	want, got := counted(append(first, second...)), a.read(a.out)
	if err := sameCounts(want, got); err != nil {
		t.Error(err)
	}
	// An update in the middle may be missing, not the last one of a key: of the last record in the topic.
	if err := sameCounts(want, got[:len(got)-1]); err == nil {
		t.Error("the last update was dropped, and that was not caught")
	}
	if err := sameCounts(want, append(got, got[len(got)-1])); err == nil {
		t.Error("the last update was repeated, and that was not caught")
	}
	// What an input record lost or counted twice would come to.
	want[string(got[0].Key)]++
	if err := sameCounts(want, got); err == nil {
		t.Error("a count that is one less than what is due was not caught")
	}
}
