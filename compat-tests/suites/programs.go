package suites

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
	"millrace/compat-tests/kafka"
	"millrace/compat-tests/ledger"
)

// programs are Kafka's own programs for its system tests: ClientCompatibilityTest, VerifiableProducer and VerifiableConsumer, of one
// version of Kafka.
type programs struct {
	version string
	jars    string
	records int
	mu      sync.Mutex
	runs    int // makes names differ
}

func newPrograms(ctx context.Context, version string, records int) (*programs, error) {
	jars, err := kafka.Install(ctx, version)
	return &programs{version: version, jars: jars, records: records}, err
}

func (p *programs) line() ledger.Suite {
	return ledger.Suite{Name: "kafka-clients", Version: p.version}
}

const (
	toolsPackage = "org.apache.kafka.tools."
	programLimit = 4 * time.Minute
)

// A program's test fails with a sentence.
type program struct {
	name  string
	since string // "" for every version of the programs, else the newest only
	play  func(context.Context, *programs, *Server, string) error
}

var programTests = []program{
	{name: "ClientCompatibilityTest", play: clientCompatibility},
	{name: "VerifiableProducer/acks=-1", play: produce("-1")},
	{name: "VerifiableProducer/acks=1", play: produce("1")},
	{name: "VerifiableProducer/acks=0", play: produce("0")},
	{name: "VerifiableConsumer/range", play: consume("--assignment-strategy", "org.apache.kafka.clients.consumer.RangeAssignor")},
	{name: "VerifiableConsumer/cooperative-sticky", play: consume("--assignment-strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor")},
	{name: "VerifiableConsumer/autocommit", play: consume("--enable-autocommit")},
	{name: "VerifiableConsumer/two-members", play: consumeByTwo()},
	{name: "VerifiableConsumer/two-static-members", play: consumeByTwo("--group-instance-id")},
	{name: "VerifiableConsumer/consumer-protocol", since: kafka.Newest, play: consume("--group-protocol", "consumer")},
	{name: "VerifiableShareConsumer", since: kafka.Newest, play: consumeShared},
}

func (p *programs) list() []string {
	var out []string
	for _, t := range programTests {
		if t.since == "" || t.since == p.version {
			out = append(out, t.name)
		}
	}
	return out
}

func (p *programs) run(ctx context.Context, s *Server, tests []string) (map[string]result, error) {
	seen := map[string]result{}
	for _, t := range programTests {
		if !slices.Contains(tests, t.name) {
			continue
		}
		p.mu.Lock()
		p.runs++
		name := fmt.Sprintf("programs-%s-%d", p.version, p.runs)
		p.mu.Unlock()
		seen[t.name] = result{outcome: ledger.Passed}
		if err := t.play(ctx, p, s, name); err != nil {
			seen[t.name] = result{ledger.Failed, shorten(err.Error())}
		}
	}
	return seen, nil
}

// running is a program that runs.
type running struct {
	class  string
	cmd    *exec.Cmd
	mu     sync.Mutex
	out    bytes.Buffer
	done   chan struct{}
	err    error // valid when done is closed
	cancel context.CancelFunc
}

// Write takes what the program prints.
func (r *running) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Write(b)
}

func (r *running) printed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}

func (p *programs) start(ctx context.Context, class string, args ...string) (*running, error) {
	r := &running{class: class, done: make(chan struct{})}
	ctx, r.cancel = context.WithTimeout(ctx, programLimit)
	r.cmd = exec.CommandContext(ctx, "java", append([]string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", p.jars, toolsPackage + class}, args...)...)
	r.cmd.Stdout, r.cmd.Stderr = r, r
	if err := r.cmd.Start(); err != nil {
		r.cancel()
		return nil, fmt.Errorf("start %s: %w", class, err)
	}
	go func() {
		r.err = r.cmd.Wait()
		r.cancel()
		close(r.done)
	}()
	return r, nil
}

// wait waits for the end, which has to be with exit code 0.
func (r *running) wait() error {
	<-r.done
	if r.err != nil {
		out := strings.TrimSpace(r.printed())
		return fmt.Errorf("%s: %w: %s", r.class, r.err, out[strings.LastIndex(out, "\n")+1:])
	}
	return nil
}

// stop does what a terminal does, and waits.
func (r *running) stop() {
	r.cmd.Process.Signal(syscall.SIGTERM)
	<-r.done
}

// until waits until a condition holds of what was printed.
func (r *running) until(what string, ok func(events) bool) error {
	for range 1200 {
		if ok(parseEvents(r.printed())) {
			return nil
		}
		select {
		case <-r.done:
			return fmt.Errorf("%s ended before %s", r.class, what)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s: no %s in two minutes", r.class, what)
}

func (p *programs) do(ctx context.Context, class string, args ...string) (string, error) {
	r, err := p.start(ctx, class, args...)
	if err != nil {
		return "", err
	}
	err = r.wait()
	return r.printed(), err
}

// event is a line that the Verifiable programs print.
type event struct {
	Name      string `json:"name"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Value     string `json:"value"`
	Success   *bool  `json:"success"`
	Count     int    `json:"count"`
	Acked     int    `json:"acked"`
	Sent      int    `json:"sent"`
	Parts     []struct {
		Partition int32 `json:"partition"`
	} `json:"partitions"`
}

type events []event

func parseEvents(out string) events {
	var all events
	for line := range strings.Lines(out) {
		var e event
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &e) == nil {
			all = append(all, e)
		}
	}
	return all
}

func (all events) named(name string) events {
	return slices.DeleteFunc(slices.Clone(all), func(e event) bool { return e.Name != name })
}

// clientCompatibility runs what Kafka holds a new client to an old broker with, all of it expected to be supported.
func clientCompatibility(ctx context.Context, p *programs, s *Server, name string) error {
	// It makes a topic of this name, and fails if there is one.
	if err := deleteTopic(s.Bootstrap, "newtopic"); err != nil {
		return err
	}
	if err := createTopic(s.Bootstrap, name, 1); err != nil {
		return err
	}
	out, err := p.do(ctx, "ClientCompatibilityTest", "--topic", name, "--bootstrap-server", s.Bootstrap, "--offsets-for-times-supported", "true",
		"--cluster-id-supported", "true", "--expect-record-too-large-exception", "false", "--num-cluster-nodes", "1", "--create-topics-supported", "true",
		"--describe-acls-supported", "true", "--describe-configs-supported", "true", "--idempotent-producer-supported", "true")
	if err == nil && !strings.Contains(out, "SUCCESS") {
		err = errors.New("no success was told: " + out)
	}
	return err
}

// produced is what a VerifiableProducer was told that it has stored, each value's partition and offset.
type place struct {
	partition int32
	offset    int64
}

func (p *programs) produced(ctx context.Context, s *Server, topic, acks string) (map[string]place, error) {
	if err := createTopic(s.Bootstrap, topic, 3); err != nil {
		return nil, err
	}
	out, err := p.do(ctx, "VerifiableProducer", "--bootstrap-server", s.Bootstrap, "--topic", topic, "--max-messages", fmt.Sprint(p.records), "--acks", acks,
		"--throughput", "-1", "--repeating-keys", "7")
	if err != nil {
		return nil, err
	}
	all := parseEvents(out)
	if errs := all.named("producer_send_error"); len(errs) > 0 {
		return nil, fmt.Errorf("%d records could not be sent", len(errs))
	}
	where := map[string]place{}
	for _, e := range all.named("producer_send_success") {
		where[e.Value] = place{e.Partition, e.Offset}
	}
	if len(where) != p.records {
		return nil, fmt.Errorf("%d of %d records were acknowledged", len(where), p.records)
	}
	if acks != "0" {
		taken := map[place]string{}
		for v, at := range where {
			if other, twice := taken[at]; twice {
				return nil, fmt.Errorf("records %s and %s were both told partition %d offset %d", v, other, at.partition, at.offset)
			}
			taken[at] = v
		}
	}
	return where, nil
}

func produce(acks string) func(context.Context, *programs, *Server, string) error {
	return func(ctx context.Context, p *programs, s *Server, name string) error {
		_, err := p.produced(ctx, s, name, acks)
		return err
	}
}

// check holds the records that consumers have printed to those that were produced: each once, at its place.
func check(where map[string]place, consumers ...events) error {
	got := map[string]int{}
	for _, all := range consumers {
		for _, e := range all.named("record_data") {
			at, ok := where[e.Value]
			if !ok {
				return fmt.Errorf("record %q was never produced", e.Value)
			}
			if (place{e.Partition, e.Offset}) != at {
				return fmt.Errorf("record %s is at partition %d offset %d, and was told to be at %d, %d", e.Value, e.Partition, e.Offset, at.partition, at.offset)
			}
			got[e.Value]++
		}
		for _, e := range all.named("offsets_committed") {
			if e.Success == nil || !*e.Success {
				return errors.New("a commit failed")
			}
		}
	}
	for v := range where {
		if got[v] != 1 {
			return fmt.Errorf("record %s was consumed %d times", v, got[v])
		}
	}
	return nil
}

func consume(args ...string) func(context.Context, *programs, *Server, string) error {
	return func(ctx context.Context, p *programs, s *Server, name string) error {
		where, err := p.produced(ctx, s, name, "-1")
		if err != nil {
			return err
		}
		out, err := p.do(ctx, "VerifiableConsumer", append([]string{"--bootstrap-server", s.Bootstrap, "--topic", name, "--group-id", name, "--verbose",
			"--reset-policy", "earliest", "--max-messages", fmt.Sprint(p.records)}, args...)...)
		if err != nil {
			return err
		}
		return check(where, parseEvents(out))
	}
}

// consumeByTwo has two members share a topic, then one of them go; what is produced after that is the other's. With an argument
// that takes a value for each member, they have it.
func consumeByTwo(each ...string) func(context.Context, *programs, *Server, string) error {
	return func(ctx context.Context, p *programs, s *Server, name string) error {
		if err := createTopic(s.Bootstrap, name, 3); err != nil {
			return err
		}
		var members []*running
		defer func() {
			for _, m := range members {
				m.stop()
			}
		}()
		for i := range 2 {
			args := []string{"--bootstrap-server", s.Bootstrap, "--topic", name, "--group-id", name, "--verbose", "--reset-policy", "earliest", "--session-timeout", "8000"}
			for _, a := range each {
				args = append(args, a, fmt.Sprint(name, "-", i))
			}
			m, err := p.start(ctx, "VerifiableConsumer", args...)
			if err != nil {
				return err
			}
			members = append(members, m)
		}
		has := func(n int) func(events) bool {
			return func(all events) bool {
				assigned := all.named("partitions_assigned")
				return len(assigned) > 0 && len(assigned[len(assigned)-1].Parts) == n
			}
		}
		shared := func() bool {
			n := 0
			for _, m := range members {
				if assigned := parseEvents(m.printed()).named("partitions_assigned"); len(assigned) > 0 {
					if here := len(assigned[len(assigned)-1].Parts); here > 0 && here < 3 {
						n += here
					}
				}
			}
			return n == 3
		}
		for i := 0; !shared(); i++ {
			if i == 600 {
				return errors.New("the two members did not come to share the partitions")
			}
			time.Sleep(100 * time.Millisecond)
		}
		where, err := p.produced(ctx, s, name, "-1")
		if err != nil {
			return err
		}
		all := func() int {
			n := 0
			for _, m := range members {
				n += len(parseEvents(m.printed()).named("record_data"))
			}
			return n
		}
		for i := 0; all() < p.records; i++ {
			if i == 600 {
				return fmt.Errorf("%d of %d records were consumed", all(), p.records)
			}
			time.Sleep(100 * time.Millisecond)
		}
		members[0].stop()
		if err := members[1].until("it had every partition", has(3)); err != nil {
			return err
		}
		members[1].stop()
		return check(where, parseEvents(members[0].printed()), parseEvents(members[1].printed()))
	}
}

// consumeShared has a share group take everything once.
func consumeShared(ctx context.Context, p *programs, s *Server, name string) error {
	where, err := p.produced(ctx, s, name, "-1")
	if err != nil {
		return err
	}
	out, err := p.do(ctx, "VerifiableShareConsumer", "--bootstrap-server", s.Bootstrap, "--topic", name, "--group-id", name, "--verbose", "--acknowledgement-mode", "sync",
		"--offset-reset-strategy", "earliest", "--max-messages", fmt.Sprint(p.records))
	if err != nil {
		return err
	}
	got := map[string]bool{}
	for _, e := range parseEvents(out).named("record_data") {
		if _, ok := where[e.Value]; !ok {
			return fmt.Errorf("record %q was never produced", e.Value)
		}
		got[e.Value] = true
	}
	if len(got) != len(where) {
		return fmt.Errorf("%d of %d records were consumed", len(got), len(where))
	}
	return nil
}

func createTopic(addr, name string, partitions int32) error {
	c, err := frame.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 5, 10000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	req.Topics = append(req.Topics, t)
	resp, ok := c.Ask(req).Response.(*kmsg.CreateTopicsResponse)
	if !ok || len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != 0 && resp.Topics[0].ErrorCode != 36 {
		return fmt.Errorf("topic %s could not be created", name)
	}
	return nil
}

func deleteTopic(addr, name string) error {
	c, err := frame.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis, req.TopicNames = 4, 10000, []string{name}
	resp, ok := c.Ask(req).Response.(*kmsg.DeleteTopicsResponse)
	if !ok || len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != 0 && resp.Topics[0].ErrorCode != 3 {
		return fmt.Errorf("topic %s could not be deleted", name)
	}
	return nil
}
