package oracle

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Sequence is what a seed stands for.
type Sequence struct {
	Seed   uint64
	Family string
	Steps  []Step
}

// family makes the sequences of some APIs. Adding one is adding a file with a
// call of register.
type family struct {
	name string
	// weight is how often it leads a sequence, beside the other families.
	weight int
	// open is what a sequence with it begins with; nil for nothing.
	open func(g *gen) []Step
	// steps are what it does then, each by its weight.
	steps []maker
	// length is how many steps a sequence that it leads has, about; 0: 30.
	length int
	// apart: it is taken only where it is asked for.
	apart bool
	// alone: it restarts the servers, so that none but its like runs beside it.
	alone bool
}

type maker struct {
	weight int
	make   func(g *gen) Step
}

var families []*family

func register(f *family) { families = append(families, f) }

// gen draws one sequence. Everything by chance is drawn here, while it is made.
type gen struct {
	*rand.Rand
	// topics are names for topics, some of which exist.
	topics []string
	// grouping is what the members of its group are like.
	grouping grouping
	// restarts: the sequence is one of those that go on through restarts.
	restarts bool
}

func (g *gen) pick() pick { return pick{draw: g.Uint32()} }

// chance is true n times out of 100.
func (g *gen) chance(n int) bool { return g.IntN(100) < n }

// topic is a topic's name: mostly one that is there.
func (g *gen) topic() string {
	if g.chance(4) {
		return oneOf(g.Rand, "none", "=", "=no spaces please", "="+strings.Repeat("x", 250), "=..")
	}
	return oneOf(g.Rand, g.topics...)
}

// partition is a partition's index: mostly one that is there.
func (g *gen) partition() int32 {
	return oneOf[int32](g.Rand, 0, 0, 0, 0, 0, 0, 1, 1, 2, 7, -1)
}

// Make makes the sequence of a seed. only narrows it to the families whose
// name it holds; "" takes all, those that go on through restarts for the seeds
// of some rounds.
func Make(seed uint64, only string) Sequence {
	g := &gen{Rand: rand.New(rand.NewPCG(seed, 0x6d696c6c72616365)), topics: []string{"a", "b", "c"}}
	g.grouping = g.drawGrouping()
	if only == "" && restarting(seed, only) {
		only = theRestarts
	}
	lead := g.family(only)
	s := Sequence{Seed: seed, Family: lead.name}
	if g.restarts = lead.alone; g.restarts {
		g.grouping.short = false // whoever is late is late on one side only
	}
	with := []*family{lead}
	if g.chance(50) || lead.alone {
		for range 1 + g.IntN(2) {
			beside := ""
			if lead.apart {
				beside = only
			}
			if f := g.family(beside); f != lead {
				with = append(with, f)
			}
		}
	}
	for _, f := range with {
		if f.open != nil {
			s.Steps = append(s.Steps, f.open(g)...)
		}
		if f != lead {
			s.Family += "+" + f.name
		}
	}
	n := lead.length
	if n == 0 {
		n = 30
	}
	n = n/2 + g.IntN(n)
	var restarts []Restart
	if g.restarts {
		restarts = restartsOf(seed)
	}
	for i := range n {
		if len(restarts) > 0 && i >= n/(len(restarts)+1) && g.chance(10) {
			s.Steps, restarts = append(s.Steps, g.serversRestart(restarts[0])), restarts[1:]
		}
		f := lead
		if len(with) > 1 && g.chance(40) {
			f = with[1+g.IntN(len(with)-1)]
		}
		s.Steps = append(s.Steps, f.draw(g))
	}
	for _, how := range restarts {
		s.Steps = append(s.Steps, g.serversRestart(how), lead.draw(g), lead.draw(g))
	}
	return s
}

func (g *gen) family(only string) *family {
	sum := 0
	for _, f := range families {
		if f.taken(only) {
			sum += f.weight
		}
	}
	if sum == 0 {
		panic(fmt.Sprintf("no family is called %q", only))
	}
	n := g.IntN(sum)
	for _, f := range families {
		if f.taken(only) {
			if n -= f.weight; n < 0 {
				return f
			}
		}
	}
	panic("weights")
}

func (f *family) taken(only string) bool {
	return only == "" && !f.alone && !f.apart || only != "" && strings.Contains(f.name, only)
}

func (f *family) draw(g *gen) Step {
	sum := 0
	for _, m := range f.steps {
		sum += m.weight
	}
	n := g.IntN(sum)
	for _, m := range f.steps {
		if n -= m.weight; n < 0 {
			return m.make(g)
		}
	}
	panic("weights")
}

// asking is a step that asks one request, whose answer waits for nobody.
func (g *gen) asking(client, what string, build func(s *side) kmsg.Request) Step {
	return g.askingIn(client, g.pick(), what, build)
}

func (g *gen) askingIn(client string, v pick, what string, build func(s *side) kmsg.Request) Step {
	return Step{Text: client + ": " + what, Do: func(p *Play) { p.ask(client, v, what, build) }}
}

// createTopics makes topics to work on, as an opening.
func (g *gen) createTopics(profiles ...[]string) []Step {
	var steps []Step
	for i, name := range g.topics[:1+g.IntN(len(g.topics))] {
		configs := profiles[0]
		if i > 0 || g.chance(40) {
			configs = oneOf(g.Rand, profiles...)
		}
		steps = append(steps, g.createTopic(name, int32(1+g.IntN(3)), configs))
	}
	return steps
}

func (g *gen) createTopic(name string, partitions int32, configs []string) Step {
	v := g.pick()
	what := fmt.Sprintf("create %s with %d partitions %q", name, partitions, configs)
	return Step{Text: what, Do: func(p *Play) { p.makeTopic(v, name, partitions, configs) }}
}

func (p *Play) makeTopic(v pick, name string, partitions int32, configs []string) {
	p.ask("admin", v, fmt.Sprintf("create %s with %d partitions %q", name, partitions, configs), func(s *side) kmsg.Request {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 10000
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = s.name(name), partitions, 1
		for i := 0; i+1 < len(configs); i += 2 {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = configs[i], kmsg.StringPtr(configs[i+1])
			if p.old && c.Name == "internal.segment.bytes" && s == p.kafka() && s.olderSegments() {
				c.Name = "segment.bytes"
			}
			t.Configs = append(t.Configs, c)
		}
		req.Topics = append(req.Topics, t)
		return req
	})
	p.made(name)
	p.identify(name)
}

// identify asks what topics are like, so that both sides know their ids and
// epochs.
func (p *Play) identify(topics ...string) {
	p.ask("admin", pick{from: 10}, "what was made", func(s *side) kmsg.Request {
		req := kmsg.NewPtrMetadataRequest()
		for _, t := range topics {
			rt := kmsg.NewMetadataRequestTopic()
			rt.Topic = kmsg.StringPtr(s.name(t))
			req.Topics = append(req.Topics, rt)
		}
		return req
	})
}
