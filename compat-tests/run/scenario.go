package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/agent"
)

// Steps are the columns of the table, in the scenario's order.
var Steps = []string{
	"create topic", "produce none", "produce gzip", "produce snappy", "produce lz4", "produce zstd",
	"group of two", "describe group", "member leaves", "commit, restart", "read lag", "compare",
	"seek by time", "describe topic", "describe configs", "delete group", "delete topic", "real input",
}

// Outcome of one step.
type Outcome int

// When a step runs several times, once for each flavour of group, the highest outcome counts: a call that a client lacks for
// one flavour alone is named below the table.
const (
	NotRun Outcome = iota // the detail, if there is one, says why
	Unsupported
	OK
	Failed
)

// Result of one step of one client.
type Result struct {
	Step    string
	Flavour string // of the group, where the step has to do with one
	Outcome Outcome
	Detail  string
	Took    time.Duration
}

// Spec is one run of the scenario.
type Spec struct {
	Root      string // the repository's root
	Dir       string // a directory for files
	Bootstrap string // what the agent is given
	Direct    string // where the driver's own helper connects; "" means Bootstrap
	Client    Client
	Records   int           // per codec
	BigInput  string        // file of real input; "" leaves the step out
	BigCount  int           // records in it
	Codecs    []string      // nil: all
	ReadLimit time.Duration // how long a member may take to read what is due; 0: a minute
	Tag       string        // makes names of topics and groups unique
	Report    func(Result)
}

const partitions = 6

// The big input has a record of 1.4 MB (a line of the Go library's time zone table), more than max.message.bytes has
// by default.
var topicConfigs = map[string]string{"retention.ms": "86400000", "segment.bytes": "8388608", "max.message.bytes": "4194304"}

type scenario struct {
	Spec
	ctx     context.Context
	agent   *Agent
	helper  *helper
	can     abilities
	started time.Time
	topic   string
	inputs  []string
	total   int // records in the inputs
	results []Result
	// The name of the first flavour's group, which is deleted at the end.
	firstGroup string
	noGroups   string   // why the client has no groups, if it has none
	outputs    []string // of the last group that passed the comparison
}

// Run carries the scenario out for one client and returns the results of all steps that ran.
func Run(ctx context.Context, spec Spec) ([]Result, *Agent, error) {
	if spec.Direct == "" {
		spec.Direct = spec.Bootstrap
	}
	if spec.ReadLimit == 0 {
		spec.ReadLimit = time.Minute
	}
	a, err := StartAgent(spec.Root, spec.Dir, spec.Client, spec.Bootstrap)
	if err != nil {
		return nil, nil, err
	}
	h, err := newHelper(spec.Direct)
	if err != nil {
		a.kill()
		return nil, a, err
	}
	defer h.close()
	s := &scenario{Spec: spec, ctx: ctx, agent: a, helper: h, started: time.Now(), topic: "compat-" + spec.Tag}
	if s.can, err = abilitiesOf(a.Hello.Cannot); err == nil {
		s.walk()
	}
	if closeErr := a.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("closing the agent: %w", closeErr)
	}
	return s.results, a, err
}

// step runs one step and notes what came of it.
func (s *scenario) step(name, flavour string, f func() error) bool {
	begin := time.Now()
	err := f()
	r := Result{Step: name, Flavour: flavour, Outcome: OK, Took: time.Since(begin)}
	var unsupported UnsupportedError
	switch {
	case errors.As(err, &unsupported):
		r.Outcome, r.Detail = Unsupported, string(unsupported)
	case err != nil:
		r.Outcome, r.Detail = Failed, err.Error()
	}
	s.results = append(s.results, r)
	if s.Report != nil {
		s.Report(r)
	}
	return r.Outcome == OK
}

func (s *scenario) failed(step string) bool {
	for _, r := range s.results {
		if r.Step == step && r.Outcome == Failed {
			return true
		}
	}
	return false
}

func (s *scenario) path(name string) string { return filepath.Join(s.Dir, name) }

// call asks the agent for a step with a limit on the whole.
func (s *scenario) call(req agent.Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(s.ctx, 90*time.Second+time.Duration(req.TimeoutMS)*time.Millisecond)
	defer cancel()
	return s.agent.Call(ctx, req)
}

// orHelp does a call's work through the driver's helper when the client has no call for it, so that the rest of the
// scenario can go on. The step stays unsupported.
func orHelp(err error, help func() error) error {
	var unsupported UnsupportedError
	if errors.As(err, &unsupported) {
		if helpErr := help(); helpErr != nil {
			return fmt.Errorf("the client has no call for it (%s), and the driver's own failed: %w", unsupported, helpErr)
		}
	}
	return err
}

func (s *scenario) walk() {
	s.step("create topic", "", func() error { return s.create(s.topic, topicConfigs) })
	if s.failed("create topic") {
		return
	}
	flavours := append([]Flavour{{}}, s.Client.Flavours...)
	if next, err := s.helper.serves(s.ctx, kmsg.ConsumerGroupHeartbeat); err == nil && !next {
		// What the broker does not advertise is no fault of its; the table names it.
		flavours = slices.DeleteFunc(flavours, func(f Flavour) bool {
			if f.Protocol != "consumer" {
				return false
			}
			r := Result{Step: "group of two", Flavour: f.String(), Detail: f.String() + ": the broker does not advertise the consumer protocol"}
			s.results = append(s.results, r)
			return true
		})
	}
	var early *group
	if s.Client.GroupFirst {
		var ok bool
		if early, ok = s.form(flavours[0], 1); !ok {
			return
		}
	}
	if !s.produceAll() {
		return
	}
	s.groups(flavours, early)
	s.step("seek by time", "", s.seek)
	s.step("describe topic", "", s.describeTopic)
	s.step("describe configs", "", s.describeConfigs)
	if s.noGroups != "" {
		s.step("delete group", "", func() error { return UnsupportedError(s.noGroups) })
	} else {
		s.step("delete group", "", func() error { return s.deleteGroup(s.firstGroup) })
	}
	s.step("delete topic", "", func() error { return s.deleteTopic(s.topic) })
	for _, f := range s.inputs {
		removeFile(f)
	}
	if s.BigInput != "" {
		s.step("real input", "", s.realInput)
	}
}

func (s *scenario) create(topic string, configs map[string]string) error {
	_, err := s.call(agent.Request{Step: "create-topic", Topic: topic, Partitions: partitions, Configs: configs})
	err = orHelp(err, func() error { return s.helper.createTopic(s.ctx, topic, partitions, configs) })
	var unsupported UnsupportedError
	if err != nil && !errors.As(err, &unsupported) {
		return err
	}
	// Right after the answer Apache Kafka's partitions may still be without a leader for a moment, and a producer that has
	// several batches in flight then can lose its first one's place.
	if existErr := eventually(s.ctx, 10*time.Second, "the topic has leaders", func() (bool, error) {
		ends, err := s.helper.ends(s.ctx, topic)
		return len(ends) == partitions, err
	}); existErr != nil {
		return existErr
	}
	return err
}

// produceAll sends the records in every codec; it reports whether something was sent and everything sent went well.
func (s *scenario) produceAll() bool {
	codecs := s.Codecs
	if codecs == nil {
		codecs = codecNames
	}
	// Given timestamps lie in the last hour: retention must not take them.
	firstTime := s.started.Add(-time.Hour).UnixMilli() &^ 1
	good := true
	for i, codec := range codecs {
		s.step("produce "+codec, "", func() error {
			if has := s.agent.Hello.Codecs; has != nil && !contains(has, codec) {
				return UnsupportedError("the client has no " + codec)
			}
			file := s.path("input-" + codec)
			spec := inputSpec{seed: uint64(i), count: s.Records, partitions: partitions, can: s.can, ownTime: i == len(codecs)-1,
				firstTime: firstTime + int64(i)*2*int64(s.Records)}
			if err := writeInput(file, spec); err != nil {
				return err
			}
			before, err := s.helper.ends(s.ctx, s.topic)
			if err != nil {
				return err
			}
			// Every other codec goes through an idempotent producer, where the client has one.
			ans, err := s.call(agent.Request{Step: "produce", Topic: s.topic, File: file, Codec: codec, Idempotent: i%2 == 0, Acks: "all", TimeoutMS: 60_000})
			var unsupported UnsupportedError
			if errors.As(err, &unsupported) && i%2 == 0 {
				ans, err = s.call(agent.Request{Step: "produce", Topic: s.topic, File: file, Codec: codec, Acks: "all", TimeoutMS: 60_000})
			}
			if err != nil {
				return err
			}
			s.inputs = append(s.inputs, file)
			s.total += s.Records
			if ans.Count != s.Records {
				return fmt.Errorf("%d of %d records were acknowledged", ans.Count, s.Records)
			}
			after, err := s.helper.ends(s.ctx, s.topic)
			if err != nil {
				return err
			}
			n := int64(0)
			for p, end := range after {
				n += end - before[p]
				if o, ok := ans.Offsets[p]; ok && o != end-1 {
					return fmt.Errorf("partition %d: the last acknowledged offset was %d, the log ends at %d", p, o, end)
				}
			}
			if n != int64(s.Records) {
				return fmt.Errorf("%d records were acknowledged, the log grew by %d", s.Records, n)
			}
			return s.helper.checkCodec(s.ctx, s.topic, before, codec)
		})
		good = good && !s.failed("produce "+codec)
	}
	return good && s.total > 0
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if strings.EqualFold(v, s) {
			return true
		}
	}
	return false
}

func (s *scenario) describeTopic() error {
	ans, err := s.call(agent.Request{Step: "describe-topic", Topic: s.topic})
	if err != nil {
		return err
	}
	if len(ans.Partitions) != partitions {
		return fmt.Errorf("%d partitions, not %d", len(ans.Partitions), partitions)
	}
	for i, p := range ans.Partitions {
		in := false
		for _, r := range p.ISR {
			in = in || r == p.Leader
		}
		if p.ID != int32(i) || len(p.Replicas) != 1 || len(p.ISR) != 1 || !in || p.Replicas[0] != p.Leader {
			return fmt.Errorf("partition %d of the list: id %d, leader %d, replicas %v, ISR %v", i, p.ID, p.Leader, p.Replicas, p.ISR)
		}
	}
	return nil
}

func (s *scenario) describeConfigs() error {
	ans, err := s.call(agent.Request{Step: "describe-configs", Topic: s.topic})
	if err != nil {
		return err
	}
	for k, want := range topicConfigs {
		if got := ans.Configs[k]; got == nil || *got != want {
			return fmt.Errorf("%s=%v, was created as %s", k, deref(got), want)
		}
	}
	if got := ans.Configs["cleanup.policy"]; got == nil || *got != "delete" {
		return fmt.Errorf("cleanup.policy=%v, its default is delete", deref(got))
	}
	return nil
}

func deref(s *string) string {
	if s == nil {
		return "(none)"
	}
	return *s
}

func (s *scenario) deleteGroup(name string) error {
	_, err := s.call(agent.Request{Step: "delete-group", Group: name})
	err = orHelp(err, func() error {
		resp, err := s.helper.admin.DeleteGroup(s.ctx, name)
		if err == nil {
			err = resp.Err
		}
		return err
	})
	if gone := eventually(s.ctx, 5*time.Second, "the group is gone", func() (bool, error) {
		exists, err := s.helper.groupExists(s.ctx, name)
		return !exists, err
	}); gone != nil && err == nil {
		return gone
	}
	return err
}

func (s *scenario) deleteTopic(topic string) error {
	_, err := s.call(agent.Request{Step: "delete-topic", Topic: topic})
	err = orHelp(err, func() error {
		resp, err := s.helper.admin.DeleteTopic(s.ctx, topic)
		if err == nil {
			err = resp.Err
		}
		return err
	})
	if gone := eventually(s.ctx, 10*time.Second, "the topic is gone", func() (bool, error) {
		exists, err := s.helper.topicExists(s.ctx, topic)
		return !exists, err
	}); gone != nil && err == nil {
		return gone
	}
	return err
}
