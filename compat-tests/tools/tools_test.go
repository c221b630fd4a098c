//go:build compat

package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
	"millrace/compat-tests/ledger"
)

// properties are set on both servers: what suits one node and a short test.
var properties = map[string]string{
	"group.initial.rebalance.delay.ms": "0", "num.partitions": "1",
	"offsets.topic.num.partitions": "4", "offsets.topic.replication.factor": "1",
	"transaction.state.log.num.partitions": "4", "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
	"share.coordinator.state.topic.num.partitions": "4", "share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1",
	"node.id": "1",
}

// features that Apache Kafka's directory is formatted without: they change what is
// seen of every topic, and Millrace does not have them. The run fails when it does.
var without = []string{"eligible.leader.replicas.version"}

// stage is what all plays share.
type stage struct {
	runner   *Runner
	we, they *Server
	apis     map[int16]bool // that Millrace advertises
	features map[string]bool
	run      string

	mu      sync.Mutex
	used    map[string]int // explained differences
	tallies map[string]*Tally
}

// TestToolsSeeKafka runs every play against both servers. MILLRACE_TOOLS chooses:
// unset the short run, "all" all plays (and the report in ../README.md is
// written), else the plays whose "tool/play" contains one of the texts between
// commas.
func TestToolsSeeKafka(t *testing.T) {
	scripts, err := Scripts("testdata")
	if err != nil {
		t.Fatal(err)
	}
	choice := os.Getenv("MILLRACE_TOOLS")
	s := raise(t, func(string) map[string]string { return properties })
	t.Run("options", func(t *testing.T) { s.everyOption(t, scripts) })
	for _, alone := range []bool{true, false} {
		t.Run(map[bool]string{true: "alone", false: "together"}[alone], func(t *testing.T) {
			for _, script := range scripts {
				for _, play := range script.Plays {
					if play.Alone != alone || !chosen(choice, &play) {
						continue
					}
					t.Run(play.Tool+"/"+play.Name, func(t *testing.T) {
						if !alone {
							t.Parallel()
						}
						s.perform(t, &play)
					})
				}
			}
		})
	}
	if choice == "" || choice == "all" {
		lines := &ledger.Ledger{Suites: []ledger.Suite{{Name: "Kafka's command-line tools", Version: kafka.Newest, Commit: ledger.Commit(), Tests: inLedger(s.tallies)}}}
		ledger.Settle(t, "tools", lines, choice == "")
	}
	if choice == "all" {
		for _, e := range explained {
			if s.used[e.Why] == 0 && !t.Failed() {
				t.Errorf("nothing differs any more because %s", e.Why)
			}
		}
		if err := UpdateTable(filepath.Join("..", "README.md"), scripts, s.tallies); err != nil {
			t.Error(err)
		}
	}
}

// TestMovesBetweenDirectories runs a play on servers with two data directories,
// which the other plays want one of.
func TestMovesBetweenDirectories(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "directories", "kafka-reassign-partitions.txt"))
	if err != nil {
		t.Fatal(err)
	}
	script, err := ParsePlays(string(text))
	if err != nil {
		t.Fatal(err)
	}
	s := raise(t, func(data string) map[string]string {
		p := maps.Clone(properties)
		p["log.dirs"] = data + "," + data + "-2"
		return p
	})
	for _, play := range script.Plays {
		s.perform(t, &play)
	}
}

func chosen(choice string, p *Play) bool {
	switch choice {
	case "":
		return p.Smoke
	case "all":
		return true
	}
	return slices.ContainsFunc(strings.Split(choice, ","), func(text string) bool {
		return text != "" && strings.Contains(p.Tool+"/"+p.Name+"/", text)
	})
}

// raise starts both servers and the machine for the tools, at the same time.
func raise(t *testing.T, configs func(data string) map[string]string) *stage {
	ctx := context.Background()
	dir := t.TempDir()
	s := &stage{used: make(map[string]int), tallies: make(map[string]*Tally), run: ""}
	log, err := os.Create(filepath.Join(dir, "stray"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	if _, err := kafka.Install(ctx, kafka.Newest); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var errs [3]error
	// Millrace first, on a port that the system gives it: Kafka's two are free a
	// moment before it takes them.
	func() {
		s.we = &Server{Name: "Millrace", Dir: filepath.Join(dir, "millrace-files"), Data: filepath.Join(dir, "millrace")}
		broker, err1 := launch.FreeAddress()
		controller, err2 := launch.FreeAddress()
		if errs[1] = errors.Join(err1, err2); errs[1] != nil {
			return
		}
		// What kafka.Start configures.
		overrides := []string{
			"process.roles=broker,controller", "controller.quorum.voters=1@" + controller, "controller.listener.names=CONTROLLER",
			"listeners=PLAINTEXT://" + broker + ",CONTROLLER://" + controller, "advertised.listeners=PLAINTEXT://" + broker,
		}
		for k, v := range configs(s.we.Data) {
			overrides = append(overrides, k+"="+v)
		}
		m, err := launch.Start(launch.Options{Dir: s.we.Data, Overrides: overrides})
		if err != nil {
			errs[1] = err
			return
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("Millrace's log:\n%s", m.Log())
			}
			if err := m.Stop(); err != nil {
				t.Error(err)
			}
		})
		s.we.Bootstrap, s.we.Controller, s.we.ClusterID = broker, controller, m.ClusterID
	}()
	wg.Go(func() {
		s.they = &Server{Name: "Apache Kafka", Late: true, Dir: filepath.Join(dir, "kafka-files"), Data: filepath.Join(dir, "kafka", "data")}
		if errs[0] = os.MkdirAll(filepath.Join(dir, "kafka"), 0o755); errs[0] != nil {
			return
		}
		var output io.Writer
		if path := os.Getenv("MILLRACE_TOOLS_KAFKA_LOG"); path != "" {
			f, err := os.Create(path)
			if err != nil {
				errs[0] = err
				return
			}
			output = f
		}
		var off []string
		for _, f := range without {
			off = append(off, f+"=0")
		}
		k, err := kafka.Start(ctx, kafka.Options{Dir: filepath.Join(dir, "kafka"), Properties: configs(s.they.Data), Output: output, Features: off})
		if err != nil {
			errs[0] = err
			return
		}
		t.Cleanup(k.Stop)
		s.they.Bootstrap, s.they.Controller, s.they.ClusterID = k.Bootstrap, k.Controller, k.ClusterID
	})
	wg.Go(func() { s.runner, errs[2] = StartRunner(ctx, log) })
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(s.runner.Close)
	if err := s.ask(); err != nil {
		t.Fatal(err)
	}
	return s
}

// ask asks Millrace what it has, which decides which plays wait.
func (s *stage) ask() error {
	c, err := frame.Dial(s.we.Bootstrap)
	if err != nil {
		return err
	}
	defer c.Close()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "millrace-compat", "1"
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = 3
	o := c.Send(c.Encode(req), resp)
	have, ok := o.Response.(*kmsg.ApiVersionsResponse)
	if !ok {
		return fmt.Errorf("asking Millrace for its API versions: %+v", o)
	}
	s.apis, s.features = make(map[int16]bool), make(map[string]bool)
	for _, k := range have.ApiKeys {
		s.apis[k.ApiKey] = true
	}
	for _, f := range have.FinalizedFeatures {
		s.features[f.Name] = f.MaxVersionLevel > 0
	}
	for _, f := range without {
		if s.features[f] {
			return fmt.Errorf("Millrace has %s now, and Apache Kafka is run without it", f)
		}
	}
	return nil
}

// missing is what a play waits for.
func (s *stage) missing(p *Play) string {
	for _, n := range p.Needs {
		if n.Feature != "" && !s.features[n.Feature] || n.Feature == "" && !s.apis[n.Key] {
			return n.String()
		}
	}
	return ""
}

func (s *stage) perform(t *testing.T, p *Play) {
	tally := &Tally{Play: p, Waits: s.missing(p)}
	defer func() {
		s.mu.Lock()
		s.tallies[p.Tool+"/"+p.Name] = tally
		s.mu.Unlock()
	}()
	if tally.Waits != "" {
		n, err := Lacking(s.we, s.runner, p, s.run)
		if err != nil {
			t.Error(err)
			tally.Differences++
		}
		t.Logf("waits for %s; %d commands say so", tally.Waits, n)
		return
	}
	// Apache Kafka answers some changes before it has applied them, and a JVM stands
	// still at times: what differs is played once more, under other names.
	var theirs []Seen
	var took [2]time.Duration
	for attempt, run := range []string{s.run, s.run + "x"} {
		var failures []string
		theirs, took, failures = s.playOn(p, run)
		tally.Commands, tally.Differences = len(theirs), len(failures)
		if len(failures) == 0 {
			break
		}
		for _, f := range failures {
			if attempt == 0 {
				t.Logf("once: %s", f)
			} else {
				t.Error(f)
			}
		}
	}
	if os.Getenv("MILLRACE_TOOLS_SHOW") != "" {
		for _, x := range theirs {
			t.Logf("%s\nexit %d\n%s%s", x.What, x.Result.Exit, x.Result.Out, x.Result.Err)
		}
	}
	t.Logf("%d commands in %v, against Apache Kafka in %v", len(theirs), took[0].Round(time.Millisecond), took[1].Round(time.Millisecond))
}

// playOn plays on both servers and says what differs and what could not be played.
func (s *stage) playOn(p *Play, run string) (theirs []Seen, took [2]time.Duration, failures []string) {
	begun := time.Now()
	var ours []Seen
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() { ours, errs[0] = Perform(s.we, s.runner, p, run); took[0] = time.Since(begun) })
	wg.Go(func() { theirs, errs[1] = Perform(s.they, s.runner, p, run); took[1] = time.Since(begun) })
	wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range Compare(ours, theirs, s.we, s.they, s.used) {
		failures = append(failures, fmt.Sprint(d))
	}
	for _, err := range errs {
		if err != nil {
			failures = append(failures, err.Error())
		}
	}
	return theirs, took, failures
}

// everyOption holds the plays to it: no option that a tool's --help names is
// without a play, or a reason.
func (s *stage) everyOption(t *testing.T, scripts []*Script) {
	for _, script := range scripts {
		tool := script.Tool
		options, subcommands := s.help(t, tool)
		used := Used(scripts, tool, subcommands)
		for _, d := range Uncovered(options, used, script.Unasked) {
			t.Errorf("%s: %s", tool.Name, d)
		}
	}
}

// help asks a tool, and each of its subcommands, for its options.
func (s *stage) help(t *testing.T, tool Tool) (options, subcommands []string) {
	ask := func(args ...string) Help {
		res, err := s.runner.Do(tool.Class, append(args, "--help"), "", commandLimit)
		if err != nil {
			t.Fatal(err)
		}
		h := ParseHelp(res.Out + res.Err)
		if len(h.Options) == 0 && tool.Name != "kafka-e2e-latency" {
			t.Errorf("%s: no options in\n%s%s", tool.Name, res.Out, res.Err)
		}
		return h
	}
	top := ask()
	options = append(options, top.Options...)
	for _, sub := range top.Subcommands {
		options = append(options, sub)
		for _, o := range ask(sub).Options {
			options = append(options, sub+" "+o)
		}
	}
	return options, top.Subcommands
}
