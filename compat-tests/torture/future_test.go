//go:build compat

package torture

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

// TestFarFutureBesideKafka sends records of the year 2099 among others, and compares with Apache Kafka whether they are
// taken, which segments they lead to, what retention keeps because of them, what look-ups by time find, and what a cleaning
// leaves.
func TestFarFutureBesideKafka(t *testing.T) {
	often := map[string]string{"log.retention.check.interval.ms": "300", "log.initial.task.delay.ms": "300", "log.cleaner.backoff.ms": "300"}
	own, peer := t.TempDir(), t.TempDir()
	var overrides []string
	for k, v := range often {
		overrides = append(overrides, k+"="+v)
	}
	b, err := launch.Start(launch.Options{Dir: own, Overrides: overrides})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Kill()
	k, err := kafka.Start(t.Context(), kafka.Options{Dir: peer, Properties: often})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Kill()
	now := time.Now().Truncate(time.Second)
	told, err := farFuture(t.Context(), b.Bootstrap, own, now)
	if err != nil {
		t.Fatal(err)
	}
	want, err := farFuture(t.Context(), k.Bootstrap, filepath.Join(peer, "data"), now)
	if err != nil {
		t.Fatalf("Apache Kafka: %v", err)
	}
	t.Log(strings.Join(want, "\n"))
	if !slices.Equal(told, want) {
		t.Errorf("Millrace:\n%s", strings.Join(told, "\n"))
	}
	// Were both wrong, or nothing removed, they would agree as well.
	for _, line := range []string{"refused true", "segments of old: 2, 6", "segments of packed: 0, 4", "old starts at 2", "records of packed: [k/3 k/4]"} {
		if !slices.Contains(want, line) {
			t.Errorf("Apache Kafka does not say %q", line)
		}
	}
}

// farFuture tells what a broker makes of such records.
func farFuture(ctx context.Context, bootstrap, dir string, now time.Time) (told []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	say := func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	text := func(s string) *string { return &s }
	hour, any, day := text("3600000"), text("9223372036854775807"), text("86400000")
	for topic, configs := range map[string]map[string]*string{
		"plain":  nil,
		"old":    {"message.timestamp.after.max.ms": any, "segment.ms": hour, "retention.ms": day},
		"packed": {"message.timestamp.after.max.ms": any, "segment.ms": hour, "cleanup.policy": text("compact"), "min.cleanable.dirty.ratio": text("0.01")},
	} {
		if _, err := admin.CreateTopic(ctx, 1, 1, configs, topic); err != nil {
			return nil, err
		}
	}
	put := func(topic string, times ...time.Time) error {
		for _, at := range times {
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte("k"), Timestamp: at}).FirstErr(); err != nil {
				return err
			}
		}
		return nil
	}
	future, before := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC), now.Add(-72*time.Hour)
	say("refused %v", errors.Is(put("plain", future), kerr.InvalidTimestamp))
	// What is older than a segment's first record stays in it, whatever the clock says; one more of the future closes it.
	if err := put("old", before, before.Add(time.Second), future, before, before.Add(2*time.Hour), now, future.Add(2*time.Hour)); err != nil {
		return nil, err
	}
	if err := put("packed", before, before, future, before, future.Add(2*time.Hour)); err != nil {
		return nil, err
	}
	bases := func(topic string) (string, error) {
		list, err := filepath.Glob(filepath.Join(dir, topic+"-0", "*.log"))
		for i, name := range list {
			list[i] = strings.TrimLeft(strings.TrimSuffix(filepath.Base(name), ".log"), "0")
			if list[i] == "" {
				list[i] = "0"
			}
		}
		return strings.Join(list, ", "), err
	}
	// The first segment of one goes, and the other is cleaned.
	for {
		starts, err := admin.ListStartOffsets(ctx, "old")
		if err != nil {
			return nil, err
		}
		if o, _ := starts.Lookup("old", 0); o.Offset > 1 { // 1 is on the way there: Kafka looks at one segment after the other
			say("old starts at %d", o.Offset)
			break
		}
		select {
		case <-ctx.Done():
			return nil, errors.New("retention removes nothing")
		case <-time.After(100 * time.Millisecond):
		}
	}
	for {
		got, err := keysOf(ctx, bootstrap, "packed", future.Add(2*time.Hour))
		if err != nil {
			return nil, err
		}
		if len(got) == 2 {
			say("records of packed: %v", got)
			break
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("nothing is cleaned: %v", got)
		case <-time.After(100 * time.Millisecond):
		}
	}
	time.Sleep(time.Second) // for what else would go
	for _, topic := range []string{"old", "packed"} {
		list, err := bases(topic)
		if err != nil {
			return nil, err
		}
		say("segments of %s: %s", topic, list)
		for name, at := range map[string]time.Time{"before": before, "later": before.Add(time.Hour), "now": now, "future": future, "next": future.Add(time.Hour), "after": future.Add(3 * time.Hour)} {
			got, err := admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topic)
			if err != nil {
				return nil, err
			}
			o, _ := got.Lookup(topic, 0)
			say("look-up of %s in %s: %d, %d, %v", name, topic, o.Offset, o.Timestamp, o.Err)
		}
		got, err := admin.ListMaxTimestampOffsets(ctx, topic)
		if err != nil {
			return nil, err
		}
		o, _ := got.Lookup(topic, 0)
		say("largest time in %s: %d, %d, %v", topic, o.Offset, o.Timestamp, o.Err)
	}
	slices.Sort(told)
	return told, nil
}

// keysOf reads a topic of one partition up to its last record, which has a time of its own.
func keysOf(ctx context.Context, bootstrap, topic string, last time.Time) (got []string, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	for {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		over := false
		fetches.EachRecord(func(r *kgo.Record) {
			got = append(got, fmt.Sprintf("%s/%d", r.Key, r.Offset))
			over = over || r.Timestamp.Equal(last)
		})
		if over {
			return got, nil
		}
	}
}
