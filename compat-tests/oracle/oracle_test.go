//go:build compat

package oracle

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/compat-tests/frames"
	"millrace/compat-tests/kafka"
)

// properties are set on both servers: what concerns the size of a test, and
// what Apache Kafka's own defaults do not suit one node with.
var properties = map[string]string{
	// A broker of Kafka's hands its controller one request at a time, and each waits so long for others to be written with.
	"controller.quorum.append.linger.ms": "0",
	"node.id":                            "1", "num.partitions": "1", "log.segment.delete.delay.ms": "1000",
	"log.flush.start.offset.checkpoint.interval.ms": fmt.Sprint(checkpoints.Milliseconds()), "log.flush.offset.checkpoint.interval.ms": fmt.Sprint(checkpoints.Milliseconds()),
	"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100", "group.max.size": "4",
	// As many sequences as are played at once, and those of some minutes before them, have their fetch sessions.
	"max.incremental.fetch.session.cache.slots": "10000",
	// Logs are cleaned, and old records go, when a sequence says so.
	// After kill -9 a broker of Kafka's may not come back before its session is over.
	"broker.session.timeout.ms": "5000", "broker.heartbeat.interval.ms": "1000",
	// Of one buffer, which is cleared before each cleaning, most would lie idle.
	"log.cleaner.dedupe.buffer.size": "2097152",
	"log.cleaner.backoff.ms":         "100", "log.cleaner.min.cleanable.ratio": "1", "log.retention.ms": "-1",
	// What is due from time to time is due at a start, or when servers tidy up. Where
	// logs begin is written down from the start on.
	"log.initial.task.delay.ms": "300", "log.retention.check.interval.ms": hourly, "offsets.retention.check.interval.ms": hourly,
	"producer.id.expiration.check.interval.ms": hourly, "producer.id.expiration.ms": "10800000",
	"offsets.topic.num.partitions": "4", "offsets.topic.replication.factor": "1",
	"transaction.state.log.num.partitions": "4", "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
	"share.coordinator.state.topic.num.partitions": "4", "share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1",
}

// hourly is longer than servers run between restarts.
const hourly = "3600000"

// tidying are set in place of them while servers tidy up.
var tidying = map[string]string{
	"log.retention.check.interval.ms": "200", "offsets.retention.check.interval.ms": "200", "producer.id.expiration.check.interval.ms": "200",
}

func number(t *testing.T, variable string, or int) int {
	s := os.Getenv(variable)
	if s == "" {
		return or
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s=%s is no number", variable, s)
	}
	return n
}

// TestDifferences plays seeded sequences on both servers and lists what differs
// and nobody has explained. With MILLRACE_ORACLE_ONCE set it does not play that
// anew to shorten it, which takes minutes where servers are restarted.
func TestDifferences(t *testing.T) {
	s, own := both(t)
	if os.Getenv("MILLRACE_ORACLE_SLOW") != "" {
		s.slow = func(step Step, took time.Duration) { fmt.Println(took, shortened(step.Text)) }
	}
	begun := time.Now()
	if s.Old && os.Getenv("MILLRACE_ORACLE_FAMILY") == "" {
		t.Setenv("MILLRACE_ORACLE_FAMILY", "old")
	}
	o := Options{From: uint64(number(t, "MILLRACE_ORACLE_FROM", 1)), Seeds: uint64(number(t, "MILLRACE_ORACLE_SEEDS", 1000)), Only: os.Getenv("MILLRACE_ORACLE_FAMILY"),
		Parallel: number(t, "MILLRACE_ORACLE_PARALLEL", 32*runtime.GOMAXPROCS(0)), Log: func(format string, args ...any) {
			fmt.Printf("%4.0f s: %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
		}}
	o.Once = os.Getenv("MILLRACE_ORACLE_ONCE") != ""
	if m := number(t, "MILLRACE_ORACLE_MINUTES", 0); m > 0 {
		o.Until = begun.Add(time.Duration(m) * time.Minute)
	}
	r := s.Run(o)
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		t.Error(err)
	}
	took := fmt.Sprintf("processor time: the oracle %d s", self.Utime.Sec+self.Stime.Sec)
	for i, name := range []string{"Millrace", "Kafka"} {
		if own[i] != nil {
			took += fmt.Sprintf(", %s %.0f s", name, own[i].used().Seconds())
		}
	}
	if k, ok := own[kafkas].(*apacheKafka); ok && k.again > 0 {
		took += fmt.Sprintf("; %d starts of Kafka's came to nothing and were tried once more", k.again)
	}
	if r.Falls > 0 {
		took += fmt.Sprintf("; Kafka ended by itself %d times, and what was played then was played again", r.Falls)
	}
	for _, e := range r.Errors {
		t.Error(e)
	}
	for _, f := range r.Findings {
		t.Error(f)
	}
	for _, f := range r.Fleeting {
		if o.Once {
			t.Errorf("seen, and not played again: %s", f)
			continue
		}
		t.Logf("seen once, and not when played again: %s", f)
	}
	var why []string
	for w, n := range r.Explained {
		why = append(why, fmt.Sprintf("%6d explained: %s", n, w))
	}
	slices.Sort(why)
	fmt.Print(r.Tally.table())
	t.Logf("%d sequences, of which %d differ and %d did once and not again, %d requests, %d restarts, %v; %s\n%s", r.Sequences, sequencesOf(r.Findings), sequencesOf(r.Fleeting), r.Asked, r.Restarts, time.Since(begun).Round(time.Second), took, strings.Join(why, "\n"))
	if path := os.Getenv("MILLRACE_ORACLE_SUMMARY"); path != "" {
		sum := r.Tally.Summary()
		sum.Again, sum.Once = sequencesOf(r.Findings), sequencesOf(r.Fleeting)
		sum.Commit, sum.Seeds, sum.Sequences = commit(), [2]uint64{o.From, o.From + uint64(r.Sequences)}, r.Sequences
		if s.Old {
			sum.Peer = kafka.Oldest
		}
		b, err := sum.JSON()
		if err == nil {
			err = os.WriteFile(path, b, 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func sequencesOf(findings []Finding) (n int) {
	for _, f := range findings {
		n += len(f.Seeds)
	}
	return n
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// start starts both servers, or takes those that MILLRACE_ORACLE_KAFKA and
// MILLRACE_ORACLE_MILLRACE name.
func start(t *testing.T) *Servers {
	t.Helper()
	s, _ := both(t)
	return s
}

// both is start, and the servers if they are its own.
func both(t *testing.T) (*Servers, [2]restartable) {
	t.Helper()
	s := &Servers{Names: runNames(), Old: os.Getenv("MILLRACE_ORACLE_VERSION") == kafka.Oldest}
	s.Addr = [2]string{os.Getenv("MILLRACE_ORACLE_MILLRACE"), os.Getenv("MILLRACE_ORACLE_KAFKA")}
	var own [2]restartable
	if s.Addr[kafkas] == "" {
		own[kafkas] = apache(t)
		s.Addr[kafkas] = own[kafkas].addr()
	}
	if s.Addr[ours] == "" {
		own[ours] = millrace(t)
		s.Addr[ours] = own[ours].addr()
	}
	s.ready(t)
	if own[ours] != nil && own[kafkas] != nil {
		s.Restart = func(how Restart) error { return restartAll(how, own[:]...) }
		s.Fallen = own[kafkas].(*apacheKafka).fallen
	}
	return s, own
}

// runNames begins the names of everything that a run makes.
func runNames() string {
	random := make([]byte, 3)
	rand.Read(random)
	return "orc-" + hex.EncodeToString(random)
}

func (s *Servers) ready(t *testing.T) {
	t.Helper()
	for _, addr := range s.Addr {
		if err := frames.WarmUp(addr); err != nil {
			t.Fatalf("%s: %v", addr, err)
		}
	}
	if err := s.Meet(); err != nil {
		t.Fatal(err)
	}
}
