package oracle

import (
	"errors"
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
	// Restart ends both and starts them again on the same addresses and
	// directories. nil: they stay, and sequences with restarts are left out.
	Restart func(Restart) error
	// Fallen says whether Kafka has ended without being told to. What was played then
	// is played again, when both have been started anew. nil: it is not known.
	Fallen func() bool
	// Old: the peer is one that serves what Kafka 4 has dropped, and that is what is
	// compared.
	Old  bool
	both map[int16][2]int16
	n    atomic.Int64
	slow func(Step, time.Duration)
	// instead plays where there are no servers.
	instead func([]Step, *round) Outcome
	// subscriptions to clients' metrics are all sequences': see Play.
	subscriptions parties
}

// unadvertised are what both serve and tell nobody of, in version 0: Kafka where no
// plugin takes the metrics, Millrace while nobody has subscribed to any (KIP-714).
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
		has[ours][int16(key)], has[kafkas][int16(key)] = [2]int16{}, [2]int16{}
	}
	s.both = map[int16][2]int16{}
	for key, a := range has[ours] {
		if b, ok := has[kafkas][key]; ok {
			s.both[key] = [2]int16{max(a[0], b[0]), min(a[1], b[1])}
		}
	}
	if s.Old {
		// Version 0 kept offsets in ZooKeeper, so Kafka 3.9 without it refuses; here
		// they are kept as in version 1.
		for _, key := range []kmsg.Key{kmsg.OffsetCommit, kmsg.OffsetFetch} {
			r := s.both[int16(key)]
			s.both[int16(key)] = [2]int16{max(1, r[0]), r[1]}
		}
	} else {
		// Produce is told from 0 but served from 3 (KAFKA-18659).
		s.both[0] = [2]int16{max(3, s.both[0][0]), s.both[0][1]}
	}
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
	p := &Play{Sides: [2]*side{newSide(s.Addr[0], "orc-", prefix), newSide(s.Addr[1], "orc-", prefix)}, tally: newTally(), both: s.both, old: s.Old, subscriptions: &s.subscriptions, comesAgain: map[string]bool{}, woken: make(chan struct{}, 1)}
	for _, side := range p.Sides {
		side.versed.Old = s.Old
	}
	return p
}

// Play plays steps on both servers, up to the first difference that nobody has
// explained. Nothing runs beside it if it restarts them.
func (s *Servers) Play(steps []Step) Outcome { return s.play(steps, newRound(1, s.Restart)) }

func (s *Servers) play(steps []Step, r *round) Outcome {
	if s.instead != nil {
		return s.instead(steps, r)
	}
	p := s.begin()
	p.round, p.restarts = r, slices.ContainsFunc(steps, func(x Step) bool { return x.restarts })
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
	r.leave()
	return p.end()
}

// end takes away what a play has made, so that a long run does not fill the
// servers.
func (p *Play) end() Outcome {
	if p.subscribed {
		defer p.subscriptions.enter(changers)()
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
	ask := func(version int16, req kmsg.Request) kmsg.Response {
		req.SetVersion(version)
		kind := req.ResponseKind()
		kind.SetVersion(version)
		return c.Send(c.Encode(req), kind).Response
	}
	if r, ok := ask(1, kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse); ok {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis = 5000
		for _, t := range r.Topics {
			if t.Topic != nil && strings.HasPrefix(*t.Topic, s.prefix) {
				req.TopicNames = append(req.TopicNames, *t.Topic)
			}
		}
		if len(req.TopicNames) > 0 {
			ask(1, req)
		}
	}
	if s.touched["configs"] {
		drop := kmsg.NewPtrAlterConfigsRequest()
		for _, n := range []string{"sub0", "sub1"} {
			drop.Resources = append(drop.Resources, kmsg.AlterConfigsRequestResource{ResourceType: 16, ResourceName: s.name(n)})
		}
		for _, n := range []string{"g0", "g1"} {
			drop.Resources = append(drop.Resources, kmsg.AlterConfigsRequestResource{ResourceType: 32, ResourceName: s.name(n)})
		}
		ask(1, drop)
	}
	if s.touched["groups"] {
		s.cleanGroups(ask)
	}
}

// cleanGroups has all members leave, and deletes the groups.
func (s *side) cleanGroups(ask func(version int16, req kmsg.Request) kmsg.Response) {
	list, ok := ask(0, kmsg.NewPtrListGroupsRequest()).(*kmsg.ListGroupsResponse)
	if !ok {
		return
	}
	describe, drop := kmsg.NewPtrDescribeGroupsRequest(), kmsg.NewPtrDeleteGroupsRequest()
	for _, g := range list.Groups {
		if strings.HasPrefix(g.Group, s.prefix) {
			describe.Groups, drop.Groups = append(describe.Groups, g.Group), append(drop.Groups, g.Group)
		}
	}
	if len(drop.Groups) == 0 {
		return
	}
	if described, ok := ask(0, describe).(*kmsg.DescribeGroupsResponse); ok {
		for _, g := range described.Groups {
			leave := kmsg.NewPtrLeaveGroupRequest()
			leave.Group = g.Group
			for _, m := range g.Members {
				one := kmsg.NewLeaveGroupRequestMember()
				one.MemberID = m.MemberID
				leave.Members = append(leave.Members, one)
			}
			if len(leave.Members) > 0 {
				ask(3, leave)
			}
		}
	}
	ask(0, drop)
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
	Restarts  int
	Falls     int // how often Kafka ended by itself
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
	// Once: what differs is told as it was seen, and not played anew.
	Once bool
	// First ends the run at the first difference, which is not shortened.
	First bool
}

// suspect is a sequence that showed a difference.
type suspect struct {
	seq Sequence
	d   Difference
}

// running is what the players of a run share.
type running struct {
	sync.Mutex
	*Options
	report   *Report
	suspects []suspect
	done     int
	broken   bool     // the servers did not come back
	fell     bool     // Kafka has ended by itself, and was not started again yet
	void     []uint64 // seeds that were played while it did
}

// stopped says that nothing is played any more, whatever is left.
func (r *running) stopped() bool { return r.broken || r.fell || r.First && len(r.suspects) > 0 }

// late says that nothing is begun any more.
func (r *running) late() bool { return !r.Until.IsZero() && time.Now().After(r.Until) }

func (r *running) took(seq Sequence, out *Outcome) {
	r.Lock()
	defer r.Unlock()
	r.report.take(out)
	if d := out.Unexplained(); d != nil {
		r.suspects = append(r.suspects, suspect{seq, *d})
	}
	if out.Err != nil {
		r.report.Errors = append(r.report.Errors, fmt.Errorf("seed %d (%s): %w", seq.Seed, seq.Family, out.Err))
	}
	if r.done++; r.done%200 == 0 {
		r.Log("%d sequences, %d requests, %d differ", r.done, r.report.Asked, len(r.suspects))
	}
}

// next is the seed to be played next, of those from one up to another. What was begun once is played to its end, also
// when it is late: else what it has shown would be lost.
func (r *running) next(from *uint64, to uint64) (seed uint64, ok bool) {
	r.Lock()
	defer r.Unlock()
	switch n := len(r.void); {
	case r.stopped():
	case n > 0:
		seed, r.void, ok = r.void[n-1], r.void[:n-1], true
	case *from < to && !r.late():
		seed, ok = *from, true
		*from++
	}
	return seed, ok
}

// fallen says whether Kafka has ended by itself while something was played, which
// then tells nothing.
func (s *Servers) fallen(out *Outcome) bool {
	return (out.Err != nil || out.Unexplained() != nil) && s.down(50)
}

// down says whether Kafka has ended by itself, which it looks for so many times: its
// connections end a moment before its process.
func (s *Servers) down(looks int) bool {
	if s.Fallen == nil {
		return false
	}
	for i := range looks {
		if i > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		if s.Fallen() {
			return true
		}
	}
	return false
}

// mostFalls is how often Kafka may end by itself in one run.
const mostFalls = 50

// revive starts the servers again after a fall, with nobody playing.
func (s *Servers) revive(r *running) {
	r.fell = false
	if r.report.Falls++; r.report.Falls > mostFalls {
		r.broken = true
		r.report.Errors = append(r.report.Errors, fmt.Errorf("the peer has ended by itself %d times", r.report.Falls))
		return
	}
	r.Log("Kafka has ended by itself; both servers are started again, and what was played then is played again")
	if err := s.Restart(Restart{Kill: true}); err != nil {
		r.broken = true
		r.report.Errors = append(r.report.Errors, err)
	}
}

// many plays the sequences of the seeds from one up to another, several at once.
func (s *Servers) many(r *running, from, to uint64) {
	for {
		var workers sync.WaitGroup
		for range max(1, r.Parallel) {
			workers.Go(func() {
				for seed, ok := r.next(&from, to); ok; seed, ok = r.next(&from, to) {
					seq := Make(seed, r.Only)
					out := s.Play(seq.Steps)
					if s.fallen(&out) {
						r.lost(seed)
					} else {
						r.took(seq, &out)
					}
				}
			})
		}
		workers.Wait()
		if !r.fell {
			return
		}
		s.revive(r)
	}
}

// lost notes that what a seed came to tells nothing.
func (r *running) lost(seed uint64) {
	r.Lock()
	defer r.Unlock()
	r.fell, r.void = true, append(r.void, seed)
}

var errFallen = errors.New("the peer has ended by itself")

// together plays sequences that restart the servers, all at once: each restart
// comes when all have arrived at it.
func (s *Servers) together(r *running, from, to uint64) {
	for begun := false; !r.stopped() && (begun || !r.late()); begun = true {
		var players sync.WaitGroup
		n := int(to - from)
		var all *round
		all = newRound(n, func(how Restart) error {
			// It would start a Kafka that has fallen, and nobody would know. Who is not there any more has seen
			// a difference.
			looks := 1
			if all.members < n {
				looks = 50
			}
			if s.down(looks) {
				return errFallen
			}
			begun := time.Now()
			err := s.Restart(how)
			r.Log("both servers were %v, in %.1f s", how, time.Since(begun).Seconds())
			return err
		})
		seqs, outs := make([]Sequence, n), make([]Outcome, n)
		for i := range seqs {
			players.Go(func() {
				seqs[i] = Make(from+uint64(i), r.Only)
				outs[i] = s.play(seqs[i].Steps, all)
			})
		}
		players.Wait()
		for i := range outs {
			if s.fallen(&outs[i]) {
				r.fell = true
				break
			}
		}
		if r.fell {
			s.revive(r)
			continue // all of them were meant to meet the same restarts
		}
		for i := range outs {
			r.took(seqs[i], &outs[i])
		}
		r.report.Restarts += all.done
		r.broken = r.broken || all.err != nil
		return
	}
}

// Run plays the sequences of some seeds, several at once, then plays anew what
// differed, alone, and shortens it.
func (s *Servers) Run(o Options) *Report {
	r := &Report{Explained: map[string]int{}, Tally: newTally()}
	x := &running{Options: &o, report: r}
	for next, end := o.From, o.From+o.Seeds; next < end; {
		last := min(end, roundAfter(next))
		switch {
		case !restarting(next, o.Only):
			for last < end && !restarting(last, o.Only) {
				last = min(end, roundAfter(last))
			}
			s.many(x, next, last)
		case s.Restart != nil:
			s.together(x, next, last)
		default:
			o.Log("seeds %d to %d restart the servers, which is not possible here: left out", next, last-1)
		}
		next = last
	}
	suspects := x.suspects
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
		again := list[:min(3, len(list))]
		if o.Once || x.broken {
			again = nil
		}
		for _, y := range again {
			steps := y.seq.Steps[:min(len(y.seq.Steps), y.d.Step+1)]
			if d := s.again(x, steps, 3); d != nil {
				f.Sequence, f.Difference, f.Again = y.seq, *d, true
				if f.Steps = steps; o.First {
					r.Findings = append(r.Findings, f)
					return r
				}
				f.Steps, f.Difference = s.shorten(x, steps[:min(len(steps), d.Step+1)], *d)
				break
			}
			if x.broken {
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
func (s *Servers) again(r *running, steps []Step, times int) *Difference {
	for range times {
		out := s.Play(steps)
		if s.fallen(&out) {
			if s.revive(r); r.broken {
				return nil
			}
		} else if d := out.Unexplained(); d != nil {
			return d
		}
	}
	return nil
}

// shortening bounds how long a sequence is shortened for.
const shortening = 15 * time.Second

// shorten leaves out steps, many at once and then few, as long as a difference
// of the same kind is seen.
func (s *Servers) shorten(r *running, steps []Step, d Difference) ([]Step, Difference) {
	limit := shortening
	if slices.ContainsFunc(steps, func(x Step) bool { return x.restarts }) {
		limit *= 8
	}
	end := time.Now().Add(limit)
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
			if s.down(1) {
				if s.revive(r); r.broken {
					return steps, d
				}
				out = Outcome{} // it tells nothing
			}
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
