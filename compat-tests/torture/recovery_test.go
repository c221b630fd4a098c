//go:build compat

package torture

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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
	name  string
	dir   string // of the logs
	start func() (running, error)
}

// running is a process that a subject has started.
type running struct {
	bootstrap string
	pid       int // 0: what it reads is not looked at
	kill      func()
}

// startOn is how a Millrace is started on a directory.
func startOn(dir string, overrides ...string) func() (running, error) {
	return func() (running, error) {
		b, err := launch.Start(launch.Options{Dir: dir, Overrides: overrides})
		if err != nil {
			return running{}, err
		}
		return running{b.Bootstrap, b.Pid(), b.Kill}, nil
	}
}

// reads is what a process has read so far: files, sockets and all.
type reads struct{ bytes, calls int64 }

func (r reads) String() string { return fmt.Sprintf("%d bytes in %d calls", r.bytes, r.calls) }

// over says whether it is more than somebody may read.
func (r reads) over(most reads) bool { return r.bytes > most.bytes || r.calls > most.calls }

func readBy(pid int) (r reads, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return r, err
	}
	for line := range strings.Lines(string(text)) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "rchar":
			r.bytes, err = strconv.ParseInt(number, 10, 64)
		case "syscr":
			r.calls, err = strconv.ParseInt(number, 10, 64)
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// counted says whether the system counts what processes read.
func counted() bool { return runtime.GOOS == "linux" }

// bound is the most that a start after kill -9 may read: what lies in the segments that reach behind the recovery points,
// a quarter more for batches over the end of what is read at a time, and a little for each partition and for the process
// itself. below is how many bytes lie in all other segments.
func (s subject) bound(partitions int) (most reads, below int64, err error) {
	var tails int64
	for p := range partitions {
		logs, err := filepath.Glob(filepath.Join(s.dir, fmt.Sprintf("t-%d", p), "*.log"))
		if err != nil || len(logs) != 2 {
			return most, 0, fmt.Errorf("partition %d has not two segments: %v, %w", p, logs, err)
		}
		for i, name := range logs {
			info, err := os.Stat(name)
			if err != nil {
				return most, 0, err
			}
			if i == 0 {
				below += info.Size()
			} else {
				tails += info.Size()
			}
		}
	}
	n := int64(partitions)
	return reads{tails*5/4 + n*perPartition.bytes + perProcess.bytes, tails>>17 + n*perPartition.calls + perProcess.calls}, below, nil
}

// What is read beside batches: a topic id, a snapshot and the epochs of each partition, and its share of checkpoints and
// metadata; and what a process reads before it has any.
var perPartition, perProcess = reads{1 << 10, 6}, reads{128 << 10, 200}

// TestRecoveryBesideKafka kills a broker that has many partitions, five megabytes in a closed segment of each and a little
// behind its recovery point, and prints how long it and Apache Kafka take until all of them are served again, and how much
// Millrace reads: what lies behind the recovery points, and little else. What lies in the closed segments is a hole but for one
// record: it takes no room, and who reads it finds no batches.
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
		{"Millrace", own, startOn(own, overrides...)},
		{"Apache Kafka", filepath.Join(peer, "data"), func() (running, error) {
			b, err := kafka.Start(t.Context(), kafka.Options{Dir: peer, Properties: checkpoints, Within: patience(partitions)})
			if err != nil {
				return running{}, err
			}
			return running{bootstrap: b.Bootstrap, kill: b.Kill}, nil
		}},
	} {
		d, read, err := s.recover(t.Context(), partitions, tail)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		took = append(took, fmt.Sprintf("%s %.3f s", s.name, d.Seconds()))
		if !counted() || s.name != "Millrace" {
			continue
		}
		most, below, err := s.bound(partitions)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("Millrace read %v, it may read %v; %d bytes lie below the recovery points", read, most, below)
		if read.over(most) {
			t.Error("a start after kill -9 reads more than what lies behind the recovery points")
		}
		if below < 3*most.bytes {
			t.Error("who reads all would hardly be noticed")
		}
	}
	t.Logf("%d partitions, 5 MiB below the recovery point of each and %d bytes behind it: %s", partitions, tail, strings.Join(took, ", "))
}

// TestRecoveryFromTheStartIsNoticed: a start that reads closed segments, which are real ones here, is over the bound, and one
// that does not need to is not.
func TestRecoveryFromTheStartIsNoticed(t *testing.T) {
	if !counted() {
		t.Skip("the system does not count what a process reads")
	}
	const partitions, tail, closed = 20, 64 << 10, 4 << 20
	dir := t.TempDir()
	s := subject{"Millrace", dir, startOn(dir, "log.flush.offset.checkpoint.interval.ms=1000", "num.recovery.threads.per.data.dir=2")}
	end, err := s.fillAndKill(t.Context(), partitions, tail, closed)
	if err != nil {
		t.Fatal(err)
	}
	most, below, err := s.bound(partitions)
	if err != nil {
		t.Fatal(err)
	}
	_, bounded, err := s.again(t.Context(), partitions, end)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, recoveryPoints)); err != nil {
		t.Fatal(err)
	}
	_, all, err := s.again(t.Context(), partitions, end)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("it may read %v; it read %v, and without recovery points %v, with %d bytes in closed segments", most, bounded, all, below)
	if bounded.over(most) {
		t.Error("a start after kill -9 reads more than what lies behind the recovery points")
	}
	if all.bytes <= most.bytes || all.calls <= most.calls || all.bytes < below {
		t.Error("that all was read is not noticed")
	}
}

// recover fills the broker, kills it, and says how long it takes to serve all again, and what it reads until then.
func (s subject) recover(ctx context.Context, partitions, tail int) (time.Duration, reads, error) {
	end, err := s.fillAndKill(ctx, partitions, tail, 0)
	if err != nil {
		return 0, reads{}, err
	}
	for p := range partitions {
		if err := os.Truncate(filepath.Join(s.dir, fmt.Sprintf("t-%d", p), "00000000000000000000.log"), 5<<20); err != nil {
			return 0, reads{}, err
		}
	}
	return s.again(ctx, partitions, end)
}

// fillAndKill leaves a directory as kill -9 does, and says where each partition ends.
func (s subject) fillAndKill(ctx context.Context, partitions, tail, closed int) (end int64, err error) {
	b, err := s.start()
	if err != nil {
		return 0, err
	}
	defer b.kill()
	return s.fill(ctx, b.bootstrap, partitions, tail, closed)
}

// again starts the broker, waits until it serves all, and kills it.
func (s subject) again(ctx context.Context, partitions int, end int64) (took time.Duration, read reads, err error) {
	begun := time.Now()
	b, err := s.start()
	if err != nil {
		return 0, read, err
	}
	defer b.kill()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.bootstrap))
	if err != nil {
		return 0, read, err
	}
	defer cl.Close()
	for {
		served, err := ends(ctx, cl, partitions, end)
		if served {
			break
		}
		if time.Since(begun) > patience(partitions) {
			return 0, read, fmt.Errorf("not all partitions are served: %w", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	took = time.Since(begun)
	if b.pid > 0 && counted() {
		read, err = readBy(b.pid)
	}
	return took, read, err
}

// patience is how long so many partitions may take to be served again before something is wrong.
func patience(partitions int) time.Duration {
	return 5*time.Minute + time.Duration(partitions)*300*time.Millisecond
}

// fill makes the topic, with a closed segment in each partition, of one small record or so many bytes, and waits until the
// recovery points are behind those. It says where each partition ends.
func (s subject) fill(ctx context.Context, bootstrap string, partitions, tail, closed int) (end int64, err error) {
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
	for n := 0; n < closed; n += len(value) {
		if err := put(at, value); err != nil {
			return 0, err
		}
		end++
	}
	begins := end
	for n := 0; n < tail; n += len(value) {
		if err := put(at.Add(time.Second), value[:min(len(value), tail-n)]); err != nil {
			return 0, err
		}
		end++
	}
	// Each closed segment is synced with its indexes, one partition after the other.
	for deadline := time.Now().Add(2*time.Minute + time.Duration(partitions)*200*time.Millisecond); ; time.Sleep(100 * time.Millisecond) {
		n, err := s.passed(begins)
		if err == nil && n == partitions {
			return end, nil
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("%d of %d recovery points are behind the closed segments: %w", n, partitions, err)
		}
	}
}

const recoveryPoints = "recovery-point-offset-checkpoint"

// passed counts the recovery points of the topic that are at or behind where the closed segments end.
func (s subject) passed(begins int64) (int, error) {
	f, err := os.Open(filepath.Join(s.dir, recoveryPoints))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == "t" {
			if o, err := strconv.ParseInt(f[2], 10, 64); err == nil && o >= begins {
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
