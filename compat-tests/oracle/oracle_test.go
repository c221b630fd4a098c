//go:build compat

package oracle

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/compat-tests/frames"
	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

// properties are set on both servers: what concerns the size of a test, and
// what Apache Kafka's own defaults do not suit one node with.
var properties = map[string]string{
	"node.id": "1", "num.partitions": "1", "file.delete.delay.ms": "1000",
	"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100",
	"offsets.topic.num.partitions": "4", "offsets.topic.replication.factor": "1",
	"transaction.state.log.num.partitions": "4", "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
	"share.coordinator.state.topic.num.partitions": "4", "share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1",
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
// and nobody has explained.
func TestDifferences(t *testing.T) {
	s := start(t)
	if os.Getenv("MILLRACE_ORACLE_SLOW") != "" {
		s.slow = func(step Step, took time.Duration) { fmt.Println(took, shortened(step.Text)) }
	}
	begun := time.Now()
	o := Options{From: uint64(number(t, "MILLRACE_ORACLE_FROM", 1)), Seeds: uint64(number(t, "MILLRACE_ORACLE_SEEDS", 1000)), Only: os.Getenv("MILLRACE_ORACLE_FAMILY"),
		Parallel: number(t, "MILLRACE_ORACLE_PARALLEL", 8*runtime.GOMAXPROCS(0)), Log: func(format string, args ...any) {
			fmt.Printf("%4.0f s: %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
		}}
	if m := number(t, "MILLRACE_ORACLE_MINUTES", 0); m > 0 {
		o.Until = begun.Add(time.Duration(m) * time.Minute)
	}
	r := s.Run(o)
	for _, e := range r.Errors {
		t.Error(e)
	}
	for _, f := range r.Findings {
		t.Error(f)
	}
	for _, f := range r.Fleeting {
		t.Logf("seen once, and not when played again: %s", f)
	}
	var why []string
	for w, n := range r.Explained {
		why = append(why, fmt.Sprintf("%6d explained: %s", n, w))
	}
	slices.Sort(why)
	t.Logf("%d sequences, %d requests, %v\n%s", r.Sequences, r.Asked, time.Since(begun).Round(time.Second), strings.Join(why, "\n"))
	if path := os.Getenv("MILLRACE_ORACLE_SUMMARY"); path != "" {
		sum := r.Tally.Summary()
		sum.Commit, sum.Seeds, sum.Sequences = commit(), [2]uint64{o.From, o.From + uint64(r.Sequences)}, r.Sequences
		b, err := sum.JSON()
		if err == nil {
			err = os.WriteFile(path, b, 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
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
	random := make([]byte, 3)
	rand.Read(random)
	s := &Servers{Names: "orc-" + hex.EncodeToString(random)}
	s.Addr = [2]string{os.Getenv("MILLRACE_ORACLE_MILLRACE"), os.Getenv("MILLRACE_ORACLE_KAFKA")}
	if s.Addr[kafkas] == "" {
		k, err := kafka.Start(context.Background(), kafka.Options{Properties: properties, Features: []string{"eligible.leader.replicas.version=0"}, JVM: []string{"-Xmx1g"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(k.Stop)
		s.Addr[kafkas] = k.Bootstrap
	}
	if s.Addr[ours] == "" {
		s.Addr[ours] = millrace(t)
	}
	s.ready(t)
	return s
}

func millrace(t *testing.T) string {
	t.Helper()
	var overrides []string
	for k, v := range properties {
		overrides = append(overrides, k+"="+v)
	}
	overrides = append(overrides, "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "controller.listener.names=CONTROLLER")
	b, err := launch.Start(launch.Options{Dir: filepath.Join(t.TempDir(), "data"), Overrides: overrides})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stopping Millrace: %v", err)
		}
	})
	return b.Bootstrap
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
