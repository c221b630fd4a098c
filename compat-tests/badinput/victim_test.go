//go:build compat && linux

package badinput

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/compat-tests/launch"
)

const (
	mib = 1 << 20
	// budget is queued.max.request.bytes of the brokers here that have one.
	budget = 64 * mib
	// allowance is what the process may take beyond its budget: itself, what the
	// collector has not found yet, connections, caches.
	allowance = 256 * mib
	// prompt is how long a normal client may take, on a machine that does other
	// things as well.
	prompt = 10 * time.Second
	// stopping is how long a stop may take, whoever is connected and does not
	// read.
	stopping = 10 * time.Second
	// topic is there before anything bad is sent.
	topic = "bad-input"
)

// victim is the broker that everything is done to.
type victim struct {
	*launch.Broker
	pid int
	log *journal
	web string // where HTTP is served, if it is
}

// start starts a broker for a test; prelude is run by the shell that becomes it.
func start(t *testing.T, dir, prelude string, overrides ...string) *victim {
	t.Helper()
	v := begin(t, dir, prelude, overrides...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the broker's log:\n%s", v.Log())
		}
		v.Kill()
	})
	return v
}

func begin(t *testing.T, dir, prelude string, overrides ...string) *victim {
	t.Helper()
	binary, err := launch.Binary()
	if err != nil {
		t.Fatal(err)
	}
	// A shell that becomes the broker leaves its process id behind.
	scratch := t.TempDir()
	pidFile, script := filepath.Join(scratch, "pid"), filepath.Join(scratch, "broker")
	text := fmt.Sprintf("#!/bin/sh\necho $$ >'%s'\n%s\nexec '%s' \"$@\"\n", pidFile, prelude, binary)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	v := &victim{log: newJournal()}
	for range 100 {
		// Another test may start a process while this script is being written, and
		// has it open until that process is another program.
		v.Broker, err = launch.Start(launch.Options{Binary: script, Dir: dir, Overrides: overrides, Log: v.log})
		if !errors.Is(err, syscall.ETXTBSY) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	text2, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	if v.pid, err = strconv.Atoi(strings.TrimSpace(string(text2))); err != nil {
		t.Fatal(err)
	}
	return v
}

// withBudget starts a broker with the configured budget, and the topic.
func withBudget(t *testing.T, overrides ...string) *victim {
	v := start(t, filepath.Join(t.TempDir(), "data"), "", append([]string{
		"queued.max.request.bytes=" + strconv.Itoa(budget), "socket.request.max.bytes=" + strconv.Itoa(budget),
		"offsets.topic.num.partitions=2",
	}, overrides...)...)
	v.create(t, topic)
	v.peak(t)
	return v
}

func (v *victim) create(t *testing.T, topics ...string) {
	t.Helper()
	cl := v.client(t)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), prompt)
	defer cancel()
	got, err := kadm.NewClient(cl).CreateTopics(ctx, 1, 1, nil, topics...)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Error(); err != nil {
		t.Fatal(err)
	}
}

func (v *victim) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(v.Bootstrap), kgo.AllowAutoTopicCreation()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// peak returns the most memory that the process has held since the last call.
func (v *victim) peak(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.pid))
	if err != nil {
		t.Fatalf("the broker's memory: %v", err)
	}
	var kib int64
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err = strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		}
	}
	if err != nil || kib == 0 {
		t.Fatalf("no VmHWM in %s", b)
	}
	// 5 resets the mark.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", v.pid), []byte("5"), 0); err != nil {
		t.Fatalf("resetting the peak of memory: %v", err)
	}
	return kib << 10
}

// check holds the broker to what it promises after every kind of harm.
func (v *victim) check(t *testing.T, most int64) {
	t.Helper()
	select {
	case <-v.Exited():
		t.Fatalf("the broker has ended:\n%s", v.Log())
	default:
	}
	begun := time.Now()
	if err := v.serves(t); err != nil {
		t.Errorf("a normal client: %v", err)
	}
	took := time.Since(begun)
	if took > prompt {
		t.Errorf("a normal client was served after %v", took)
	}
	held := v.peak(t)
	if held > most {
		t.Errorf("the broker held %d MiB, the limit is %d", held/mib, most/mib)
	}
	v.log.check(t)
	t.Logf("a normal client took %v; at most %d MiB were held", took.Round(time.Millisecond), held/mib)
}

// serves is a normal client: it produces, reads its record back, and commits.
func (v *victim) serves(t *testing.T) error {
	ctx, cancel := context.WithTimeout(t.Context(), 2*prompt)
	defer cancel()
	const healthy = "healthy"
	cl := v.client(t, kgo.DefaultProduceTopic(healthy), kgo.RequiredAcks(kgo.AllISRAcks()))
	defer cl.Close()
	text := []byte(strconv.FormatInt(time.Now().UnixNano(), 10))
	sent, err := cl.ProduceSync(ctx, &kgo.Record{Value: text}).First()
	if err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{healthy: {0: kgo.NewOffset().At(sent.Offset)}})
	got := cl.PollFetches(ctx)
	if err := got.Err(); err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	if rs := got.Records(); len(rs) != 1 || !bytes.Equal(rs[0].Value, text) {
		return fmt.Errorf("fetch: %d records, not the one just produced", len(rs))
	}
	admin := kadm.NewClient(cl)
	var offsets kadm.Offsets
	offsets.AddOffset(healthy, 0, sent.Offset+1, -1)
	if err := admin.CommitAllOffsets(ctx, "healthy-group", offsets); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	back, err := admin.FetchOffsets(ctx, "healthy-group")
	if err != nil {
		return fmt.Errorf("fetch offsets: %w", err)
	}
	if o, ok := back.Lookup(healthy, 0); !ok || o.At != sent.Offset+1 {
		return fmt.Errorf("the offset %d reads back as %d", sent.Offset+1, o.At)
	}
	return nil
}

// ends stops the broker in order and holds it to that.
func (v *victim) ends(t *testing.T) {
	t.Helper()
	begun := time.Now()
	if err := v.Stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > stopping {
		t.Errorf("the broker took %v to stop", took)
	}
	v.log.check(t)
}

// journal is what the broker writes to standard error.
type journal struct {
	mu   sync.Mutex
	rest []byte
	bad  []string
	seen map[string]int // lines by message and second
	all  int
}

func newJournal() *journal { return &journal{seen: make(map[string]int)} }

// longestLine is how long a line of the log may be, whatever a client sends.
const longestLine = 4 << 10

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rest = append(j.rest, p...)
	for {
		i := bytes.IndexByte(j.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		j.line(string(j.rest[:i]))
		j.rest = j.rest[i+1:]
	}
}

func (j *journal) line(text string) {
	j.all++
	for _, word := range []string{"panic", "goroutine ", "fatal error", "DATA RACE", "runtime error"} {
		if strings.Contains(text, word) {
			j.bad = append(j.bad, "a line with "+word+": "+text)
		}
	}
	if len(text) > longestLine {
		j.bad = append(j.bad, fmt.Sprintf("a line of %d bytes: %.200s", len(text), text))
	}
	var l struct {
		Time    time.Time `json:"time"`
		Level   string    `json:"level"`
		Logger  string    `json:"logger"`
		Message string    `json:"message"`
		Config  string    `json:"config"` // each that is set without effect is told of, once
	}
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		j.bad = append(j.bad, "a line that is not JSON: "+text)
		return
	}
	if l.Level == "info" || l.Level == "debug" {
		return
	}
	kind := fmt.Sprintf("%s %q in %s", l.Logger, l.Message+" "+l.Config, l.Time.UTC().Format("15:04:05"))
	if j.seen[kind]++; j.seen[kind] == 3 {
		// A second of the limiter may begin anywhere in a second of the clock.
		j.bad = append(j.bad, "more than one line a second of "+kind)
	}
}

// check reports what is wrong with the log, once.
func (j *journal) check(t *testing.T) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, bad := range j.bad[:min(len(j.bad), 5)] {
		t.Errorf("the log: %s", bad)
	}
	j.bad = nil
}

// The instruments notice what they are there for.
func TestJournalNotices(t *testing.T) {
	const good = `{"time":"2026-01-02T03:04:05.%03dZ","level":"warn","message":"closing"}` + "\n"
	for text, want := range map[string]int{
		"panic: x\n":          2, // and no JSON
		"goroutine 1 [run]\n": 2,
		fmt.Sprintf(good, 1) + fmt.Sprintf(good, 2):                                       0,
		fmt.Sprintf(good, 1) + fmt.Sprintf(good, 2) + fmt.Sprintf(good, 3):                1,
		`{"level":"info","message":"` + strings.Repeat("x", longestLine) + `"}` + "\n":    1,
		strings.Repeat(`{"level":"info","message":"a topic was made"}`+"\n", 5):           0,
		fmt.Sprintf(good, 1) + strings.Replace(fmt.Sprintf(good, 1), "05.001", "06.1", 1): 0,
	} {
		j := newJournal()
		j.Write([]byte(text[:len(text)/2]))
		j.Write([]byte(text[len(text)/2:]))
		if len(j.bad) != want {
			t.Errorf("%.100q: %q, want %d", text, j.bad, want)
		}
	}
}
