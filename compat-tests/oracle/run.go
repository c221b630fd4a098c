package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// Servers are the two that are compared.
type Servers struct {
	Addr [2]string // Millrace, Apache Kafka
	// Names begin with this, so that runs on the same servers do not meet.
	Names string
	both  map[int16][2]int16
	n     atomic.Int64
	slow  func(Step, time.Duration)
	// subscriptions to clients' metrics are all sequences': see Play.
	subscriptions sync.RWMutex
}

// unadvertised are what Kafka serves and tells nobody of where no plugin takes
// the metrics (KIP-714).
var unadvertised = []kmsg.Key{kmsg.GetTelemetrySubscriptions, kmsg.PushTelemetry}

// Meet asks both servers what they serve.
func (s *Servers) Meet() error {
	var has [2]map[int16][2]int16
	for i, addr := range s.Addr {
		var err error
		if has[i], err = served(addr); err != nil {
			return err
		}
	}
	for _, key := range unadvertised {
		if r, ok := has[ours][int16(key)]; ok && has[kafkas][int16(key)] == ([2]int16{}) {
			has[kafkas][int16(key)] = r
		}
	}
	s.both = map[int16][2]int16{}
	for key, a := range has[ours] {
		if b, ok := has[kafkas][key]; ok {
			s.both[key] = [2]int16{max(a[0], b[0]), min(a[1], b[1])}
		}
	}
	// Produce is told from 0 but served from 3 (KAFKA-18659).
	s.both[0] = [2]int16{max(3, s.both[0][0]), s.both[0][1]}
	return nil
}

func served(addr string) (map[int16][2]int16, error) {
	c, err := frame.Dial(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	req := kmsg.NewPtrApiVersionsRequest()
	resp, ok := c.Ask(req).Response.(*kmsg.ApiVersionsResponse)
	if !ok {
		return nil, fmt.Errorf("%s does not tell its versions", addr)
	}
	out := map[int16][2]int16{}
	for _, k := range resp.ApiKeys {
		out[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	return out, nil
}

// Outcome is what became of a sequence.
type Outcome struct {
	Found []Difference
	Tally *Tally
	Asked int
	Err   error
}

// Unexplained is the first difference that nobody has explained; nil if there
// is none.
func (o *Outcome) Unexplained() *Difference {
	for i := range o.Found {
		if o.Found[i].Why == "" {
			return &o.Found[i]
		}
	}
	return nil
}

// begin starts a play.
func (s *Servers) begin() *Play {
	prefix := fmt.Sprintf("%s-%d-", s.Names, s.n.Add(1))
	return &Play{Sides: [2]*side{newSide(s.Addr[0], "orc-", prefix), newSide(s.Addr[1], "orc-", prefix)}, tally: newTally(), both: s.both, subscriptions: &s.subscriptions}
}

// Play plays steps on both servers, up to the first difference that nobody has
// explained.
func (s *Servers) Play(steps []Step) Outcome {
	p := s.begin()
	for i, step := range steps {
		p.step = i
		begun := time.Now()
		step.Do(p)
		if d := time.Since(begun); s.slow != nil && d > time.Second {
			s.slow(step, d)
		}
		if p.over {
			break
		}
	}
	p.drain()
	return p.end()
}

// end takes away what a play has made, so that a long run does not fill the
// servers.
func (p *Play) end() Outcome {
	if p.subscribed {
		p.subscriptions.Lock()
		defer p.subscriptions.Unlock()
	}
	for _, s := range p.Sides {
		s.close()
		s.cleanUp()
		if p.subscribed {
			s.catchUp() // what it says is nobody's concern any more
		}
		s.close()
	}
	if p.subscribed {
		pause(10)
	}
	return Outcome{p.found, p.tally, p.asked, p.err}
}

func (s *side) cleanUp() {
	c, err := s.conn("clean")
	if err != nil {
		return
	}
	all := kmsg.NewPtrMetadataRequest()
	all.Version = 1
	kind := all.ResponseKind()
	kind.SetVersion(1)
	if r, ok := c.Send(c.Encode(all), kind).Response.(*kmsg.MetadataResponse); ok {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.TimeoutMillis = 1, 5000
		for _, t := range r.Topics {
			if t.Topic != nil && strings.HasPrefix(*t.Topic, s.prefix) {
				req.TopicNames = append(req.TopicNames, *t.Topic)
			}
		}
		if len(req.TopicNames) > 0 {
			kind := req.ResponseKind()
			kind.SetVersion(1)
			c.Send(c.Encode(req), kind)
		}
	}
	drop := kmsg.NewPtrAlterConfigsRequest()
	drop.Version = 1
	for _, n := range []string{"sub0", "sub1"} {
		drop.Resources = append(drop.Resources, kmsg.AlterConfigsRequestResource{ResourceType: 16, ResourceName: s.name(n)})
	}
	for _, n := range []string{"g0", "g1"} {
		drop.Resources = append(drop.Resources, kmsg.AlterConfigsRequestResource{ResourceType: 32, ResourceName: s.name(n)})
	}
	kind = drop.ResponseKind()
	kind.SetVersion(1)
	c.Send(c.Encode(drop), kind)
}

// Finding is a difference and the shortest sequence that was found to show it.
type Finding struct {
	Sequence Sequence
	Difference
	Steps []Step
	// Seeds are all that show a difference of its kind.
	Seeds []uint64
	// Again: it was seen when the sequence was played anew, alone.
	Again bool
}

// String is a finding as a person reads it.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  seed %d (%s); seeds with its kind: %v\n", f.Text, f.Sequence.Seed, f.Sequence.Family, f.Seeds)
	for _, s := range f.Steps {
		fmt.Fprintf(&b, "  - %s\n", s.Text)
	}
	fmt.Fprintf(&b, "  last request: %s\n  Millrace: %s\n  Kafka:    %s\n", shortened(f.Request), shortened(f.Answers[ours]), shortened(f.Answers[kafkas]))
	return b.String()
}

// Report is what a run found.
type Report struct {
	Findings  []Finding
	Fleeting  []Finding // not seen again
	Explained map[string]int
	Tally     *Tally
	Sequences int
	Asked     int
	Errors    []error
}

// Options of a run.
type Options struct {
	From, Seeds uint64
	Only        string // a family
	Parallel    int
	Until       time.Time // no new sequence begins after it; zero: no limit
	Log         func(format string, args ...any)
	// First ends the run at the first difference, which is not shortened.
	First bool
}

// Run plays the sequences of some seeds, several at once, then plays anew what
// differed, alone, and shortens it.
func (s *Servers) Run(o Options) *Report {
	r := &Report{Explained: map[string]int{}, Tally: newTally()}
	type suspect struct {
		seq Sequence
		d   Difference
	}
	var suspects []suspect
	var mu sync.Mutex
	var workers sync.WaitGroup
	next, done := o.From, 0
	for range max(1, o.Parallel) {
		workers.Go(func() {
			for {
				mu.Lock()
				if o.First && len(suspects) > 0 || next >= o.From+o.Seeds || !o.Until.IsZero() && time.Now().After(o.Until) {
					mu.Unlock()
					return
				}
				seed := next
				next++
				mu.Unlock()
				seq := Make(seed, o.Only)
				out := s.Play(seq.Steps)
				mu.Lock()
				r.take(&out)
				if d := out.Unexplained(); d != nil {
					suspects = append(suspects, suspect{seq, *d})
				}
				if out.Err != nil {
					r.Errors = append(r.Errors, fmt.Errorf("seed %d (%s): %w", seed, seq.Family, out.Err))
				}
				if done++; done%200 == 0 {
					o.Log("%d sequences, %d requests, %d differ", done, r.Asked, len(suspects))
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	slices.SortFunc(suspects, func(a, b suspect) int { return int(int64(a.seq.Seed) - int64(b.seq.Seed)) })
	kinds := map[string][]suspect{}
	for _, x := range suspects {
		kinds[x.d.Kind] = append(kinds[x.d.Kind], x)
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		list := kinds[kind]
		f := Finding{Sequence: list[0].seq, Difference: list[0].d}
		for _, x := range list {
			f.Seeds = append(f.Seeds, x.seq.Seed)
		}
		// Any of the first few that shows it again stands for its kind.
		for _, x := range list[:min(3, len(list))] {
			steps := x.seq.Steps[:min(len(x.seq.Steps), x.d.Step+1)]
			if d := s.again(steps, 3); d != nil {
				f.Sequence, f.Difference, f.Again = x.seq, *d, true
				if f.Steps = steps; o.First {
					r.Findings = append(r.Findings, f)
					return r
				}
				f.Steps, f.Difference = s.shorten(steps[:min(len(steps), d.Step+1)], *d)
				break
			}
		}
		if f.Again {
			o.Log("%s", f)
			r.Findings = append(r.Findings, f)
		} else {
			f.Steps = list[0].seq.Steps[:min(len(list[0].seq.Steps), list[0].d.Step+1)]
			r.Fleeting = append(r.Fleeting, f)
		}
	}
	return r
}

func (r *Report) take(o *Outcome) {
	r.Sequences++
	r.Asked += o.Asked
	r.Tally.add(o.Tally)
	for _, d := range o.Found {
		if d.Why != "" {
			r.Explained[d.Why]++
		}
	}
}

// again plays steps until they show a difference, so many times at most.
func (s *Servers) again(steps []Step, times int) *Difference {
	for range times {
		out := s.Play(steps)
		if d := out.Unexplained(); d != nil {
			return d
		}
	}
	return nil
}

// shortening bounds how long a sequence is shortened for.
const shortening = 15 * time.Second

// shorten leaves out steps, many at once and then few, as long as a difference
// of the same kind is seen.
func (s *Servers) shorten(steps []Step, d Difference) ([]Step, Difference) {
	end := time.Now().Add(shortening)
	for size := max(1, len(steps)/2); ; size /= 2 {
		for at := 0; at < len(steps) && len(steps) > 1; {
			if time.Now().After(end) {
				return steps, d
			}
			fewer := slices.Concat(steps[:at], steps[min(len(steps), at+size):])
			if len(fewer) == 0 {
				break
			}
			out := s.Play(fewer)
			if x := out.Unexplained(); x != nil && x.Kind == d.Kind {
				steps, d = fewer[:min(len(fewer), x.Step+1)], *x
				continue
			}
			at += size
		}
		if size <= 1 {
			return steps, d
		}
	}
}
