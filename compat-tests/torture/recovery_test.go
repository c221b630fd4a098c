//go:build compat

package torture

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

// subject is a broker that is killed and started again on its directory.
type subject struct {
	name string
	dir  string // of the logs
	// start runs it; kill ends what start has begun.
	start func() (bootstrap string, kill func(), err error)
}

// TestRecoveryBesideKafka kills a broker that has many partitions, five megabytes in a closed segment of each and a little
// behind its recovery point, and prints how long it and Apache Kafka take until all of them are served again. What lies in
// the closed segments is a hole but for one record: it takes no room, and who reads it finds no batches.
func TestRecoveryBesideKafka(t *testing.T) {
	partitions := int(number(t, "MILLRACE_RECOVERY_PARTITIONS", 100))
	tail := int(number(t, "MILLRACE_RECOVERY_TAIL", 64<<10))
	checkpoints := map[string]string{"log.flush.offset.checkpoint.interval.ms": "1000", "num.recovery.threads.per.data.dir": "2"}
	own, peer := t.TempDir(), t.TempDir()
	var overrides []string
	for k, v := range checkpoints {
		overrides = append(overrides, k+"="+v)
	}
	var took []string
	for _, s := range []subject{
		{"Millrace", own, func() (string, func(), error) {
			b, err := launch.Start(launch.Options{Dir: own, Overrides: overrides})
			if err != nil {
				return "", nil, err
			}
			return b.Bootstrap, b.Kill, nil
		}},
		{"Apache Kafka", filepath.Join(peer, "data"), func() (string, func(), error) {
			b, err := kafka.Start(t.Context(), kafka.Options{Dir: peer, Properties: checkpoints, Within: patience(partitions)})
			if err != nil {
				return "", nil, err
			}
			return b.Bootstrap, b.Kill, nil
		}},
	} {
		d, err := s.recover(t.Context(), partitions, tail)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		took = append(took, fmt.Sprintf("%s %.3f s", s.name, d.Seconds()))
	}
	t.Logf("%d partitions, 5 MiB below the recovery point of each and %d bytes behind it: %s", partitions, tail, strings.Join(took, ", "))
}

// recover fills the broker, kills it, and says how long it takes to serve all again.
func (s subject) recover(ctx context.Context, partitions, tail int) (time.Duration, error) {
	bootstrap, kill, err := s.start()
	if err != nil {
		return 0, err
	}
	end, err := s.fill(ctx, bootstrap, partitions, tail)
	kill()
	if err != nil {
		return 0, err
	}
	for p := range partitions {
		if err := os.Truncate(filepath.Join(s.dir, fmt.Sprintf("t-%d", p), "00000000000000000000.log"), 5<<20); err != nil {
			return 0, err
		}
	}
	begun := time.Now()
	bootstrap, kill, err = s.start()
	if err != nil {
		return 0, err
	}
	defer kill()
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	for {
		served, err := ends(ctx, cl, partitions, end)
		if served {
			return time.Since(begun), nil
		}
		if time.Since(begun) > patience(partitions) {
			return 0, fmt.Errorf("not all partitions are served: %w", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// patience is how long so many partitions may take to be served again before something is wrong.
func patience(partitions int) time.Duration {
	return 5*time.Minute + time.Duration(partitions)*300*time.Millisecond
}

// fill makes the topic, with a closed segment in each partition, and waits until the recovery points are behind those. It
// says where each partition ends.
func (s subject) fill(ctx context.Context, bootstrap string, partitions, tail int) (end int64, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	rolls := "1"
	admin := kadm.NewClient(cl)
	admin.SetTimeoutMillis(120_000)
	if _, err := admin.CreateTopic(ctx, int32(partitions), 1, map[string]*string{"segment.ms": &rolls}, "t"); err != nil {
		return 0, err
	}
	at := time.Now()
	value := make([]byte, 16<<10)
	put := func(at time.Time, value []byte) error {
		var list []*kgo.Record
		for p := range partitions {
			list = append(list, &kgo.Record{Topic: "t", Partition: int32(p), Timestamp: at, Value: value})
		}
		return cl.ProduceSync(ctx, list...).FirstErr()
	}
	// A second later a segment is over; what has one timestamp stays in one.
	if err := put(at, nil); err != nil {
		return 0, err
	}
	end = 1
	for n := 0; n < tail; n += len(value) {
		if err := put(at.Add(time.Second), value[:min(len(value), tail-n)]); err != nil {
			return 0, err
		}
		end++
	}
	// Each closed segment is synced with its indexes, one partition after the other.
	for deadline := time.Now().Add(2*time.Minute + time.Duration(partitions)*200*time.Millisecond); ; time.Sleep(100 * time.Millisecond) {
		n, err := s.passed()
		if err == nil && n == partitions {
			return end, nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("%d of %d recovery points are behind the closed segments: %w", n, partitions, err)
		}
	}
}

// passed counts the recovery points of the topic that are at or behind 1, where the closed segments end.
func (s subject) passed() (int, error) {
	f, err := os.Open(filepath.Join(s.dir, "recovery-point-offset-checkpoint"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == "t" {
			if o, err := strconv.Atoi(f[2]); err == nil && o >= 1 {
				n++
			}
		}
	}
	return n, lines.Err()
}

// ends says whether all partitions are served and end where they ended.
func ends(ctx context.Context, cl *kgo.Client, partitions int, end int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := kadm.NewClient(cl).ListEndOffsets(ctx, "t")
	if err != nil {
		return false, err
	}
	n := 0
	list.Each(func(o kadm.ListedOffset) {
		switch {
		case o.Err != nil:
			err = o.Err
		case o.Offset == end:
			n++
		default:
			err = fmt.Errorf("partition %d ends at %d, not at %d", o.Partition, o.Offset, end)
		}
	})
	return n == partitions, err
}
