package oracle

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A restart takes a server seconds and concerns everybody on it, so sequences
// with restarts are played in rounds: all of a round at once, and each restart
// when the last of them has come to it.
const (
	// roundSize is how many seeds make a round; they have the same restarts.
	roundSize = 64
	// roundsBetween: one round in so many restarts the servers, where no family is
	// asked for: it takes half a minute, in which some hundred sequences could be played.
	roundsBetween = 64
	theRestarts   = "restarts"
)

// restarting says that a seed's round restarts the servers.
func restarting(seed uint64, only string) bool {
	if only != "" {
		return only == theRestarts
	}
	return seed/roundSize%roundsBetween == 1
}

// roundAfter is the first seed of the next round.
func roundAfter(seed uint64) uint64 { return (seed/roundSize + 1) * roundSize }

// Restart is one end of both servers, and how they come back.
type Restart struct {
	// Kill: they are ended by kill -9.
	Kill bool
	// Tidying: up to the next restart they do often what they else do seldom, and
	// each on a clock of its own: delete segments and committed offsets that are too
	// old, groups that hold nothing, and what is known of producers.
	Tidying bool
}

func (r Restart) String() string {
	what := "restarted in order"
	if r.Kill {
		what = "ended by kill -9 and started"
	}
	if r.Tidying {
		what += ", and tidy up"
	}
	return what
}

// restartsOf are the restarts of the round that a seed belongs to. One of them
// tidies up; another follows it at once.
func restartsOf(seed uint64) []Restart {
	r := rand.New(rand.NewPCG(seed/roundSize, 0x72657374617274))
	var list []Restart
	for range 1 + r.IntN(2) {
		list = append(list, Restart{Kill: r.IntN(2) == 0})
	}
	return slices.Insert(list, r.IntN(len(list)+1), Restart{Kill: r.IntN(2) == 0, Tidying: true})
}

// round are the plays that restart the servers together.
type round struct {
	restart func(Restart) error
	mu      sync.Mutex
	members int // who still play
	arrived int
	how     Restart
	next    chan struct{} // closed when the restart is over that they wait for
	done    int
	err     error
}

func newRound(members int, restart func(Restart) error) *round {
	return &round{members: members, restart: restart, next: make(chan struct{})}
}

// arrive waits for all others, and returns when the servers run again.
func (r *round) arrive(how Restart) error {
	r.mu.Lock()
	if r.restart == nil {
		r.mu.Unlock()
		return errors.New("the servers cannot be restarted")
	}
	r.arrived++
	r.how = how
	next := r.next
	r.ifAll()
	r.mu.Unlock()
	<-next
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// leave is what a play does at its end.
func (r *round) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members--
	r.ifAll()
}

// ifAll restarts the servers if nobody is missing.
func (r *round) ifAll() {
	if r.arrived == 0 || r.arrived < r.members {
		return
	}
	if r.err == nil {
		r.err = r.restart(r.how)
	}
	r.arrived, r.done = 0, r.done+1
	close(r.next)
	r.next = make(chan struct{})
}

func init() {
	register(&family{
		name: theRestarts, weight: 1, length: 40, alone: true,
		open: func(g *gen) []Step { return append(g.createTopics(logProfiles...), g.gather()...) },
		steps: []maker{
			{10, (*gen).produce},
			{16, (*gen).produceIdempotent},
			{6, (*gen).deleteRecords},
			{6, (*gen).fetch},
			{8, (*gen).sessionFetch},
			{6, (*gen).listOffsets},
			{3, (*gen).epochEnd},
			{2, (*gen).describeProducers},
			{3, (*gen).initProducer},
			{8, (*gen).join},
			{8, (*gen).sync},
			{4, (*gen).beat},
			{2, (*gen).leave},
			{2, (*gen).restart},
			{4, (*gen).memberCommit},
			{5, (*gen).simpleCommit},
			{3, (*gen).offsetDelete},
			{2, (*gen).deleteGroups},
			{3, (*gen).alterIncrementally},
			{2, (*gen).truncatedTopic},
			{1, (*gen).createPartitions},
			{1, (*gen).telemetryGet},
		},
	})
	register(&family{
		name: theRestarts + " of stores", weight: 1, length: 24, alone: true,
		open: (*gen).createStores,
		steps: []maker{
			{30, (*gen).store},
			{10, (*gen).storeLikeProducer},
			{8, (*gen).sweep},
			{8, (*gen).retain},
			{9, (*gen).deleteStored},
			{8, (*gen).lookUp},
			{6, (*gen).readAll},
			{8, (*gen).reconfigure},
			{3, ofStores((*gen).epochEnd)},
		},
	})
}

// serversRestart is the end of both servers and their new start, after which
// all that they keep is looked at.
func (g *gen) serversRestart(how Restart) Step {
	v := g.pick()
	times := g.someTimes()
	if !how.Tidying {
		return Step{Text: fmt.Sprintf("both servers are %v", how), restarts: true, Do: func(p *Play) {
			if p.restarted(how) {
				p.lookAround(v, times)
			}
		}}
	}
	keep, then := g.retention(), Restart{Kill: !how.Kill}
	what := fmt.Sprintf("both servers are %v; %s is kept by %q, and they are %v", how, deleted, keep, then)
	return Step{Text: what, restarts: true, Do: func(p *Play) {
		p.fade()
		_, stores := p.kafka().topics[p.kafka().name(deleted)]
		if stores {
			p.set(deleted, keep...)
		}
		if !p.restarted(how) {
			return
		}
		p.faded()
		p.lookAround(v, times)
		if stores {
			p.set(deleted, "retention.bytes", "-1", "retention.ms", "-1")
		}
		if p.restarted(then) {
			p.lookAround(v, times)
		}
	}}
}

// restarted ends both servers and starts them again; false if nothing can follow.
func (p *Play) restarted(how Restart) bool {
	p.settle(nil)
	if p.over {
		return false
	}
	// Whoever waits loses its connection, and nobody is told.
	p.pending = nil
	for _, s := range p.Sides {
		s.close()
	}
	if err := p.round.arrive(how); err != nil {
		p.fail(fmt.Errorf("restarting: %w", err))
		return false
	}
	return true
}

// own are the topics of a play that exist, by the names that it calls them.
func (s *side) own() []string {
	var list []string
	for _, whole := range slices.Sorted(maps.Keys(s.topics)) {
		if name, ok := strings.CutPrefix(whole, s.prefix); ok {
			list = append(list, name)
		}
	}
	return list
}

// makesAnew says that a request makes a topic whose name another had before it.
// When Kafka starts and finds in its metadata log that a topic with configs was
// made, deleted and made anew, the new one has the old one's configs: its
// ConfigurationsDelta forgets only what was there before the delta.
func (s *side) makesAnew(req kmsg.Request, version int16) bool {
	gone := func(name *string) bool {
		if name == nil {
			return false
		}
		_, ok := s.gone[*name]
		return ok
	}
	switch r := req.(type) {
	case *kmsg.CreateTopicsRequest:
		return slices.ContainsFunc(r.Topics, func(t kmsg.CreateTopicsRequestTopic) bool { return gone(&t.Topic) })
	case *kmsg.MetadataRequest:
		return (r.AllowAutoTopicCreation || version < 4) && slices.ContainsFunc(r.Topics, func(t kmsg.MetadataRequestTopic) bool { return gone(t.Topic) })
	}
	return false
}

// lookAround asks for everything that a play has left on the servers. times are
// those that are looked up in its stores.
func (p *Play) lookAround(v pick, times []int64) {
	topics := p.kafka().own()
	p.coordinated("g0", "g1")
	if len(topics) > 0 {
		p.led(topics...)
		p.identify(topics...)
	}
	// What keeps nothing goes on going.
	topics = slices.DeleteFunc(topics, func(t string) bool { return t == passing || t == fading })
	if len(topics) > 0 {
		p.lookIntoLogs(v, topics, times)
		p.ask("admin", v, "who wrote, after a restart", func(s *side) kmsg.Request {
			req := kmsg.NewPtrDescribeProducersRequest()
			for _, topic := range topics {
				req.Topics = append(req.Topics, kmsg.DescribeProducersRequestTopic{Topic: s.name(topic), Partitions: p.indices(topic)})
			}
			return req
		})
		p.ask("admin", v, "configs after a restart", func(s *side) kmsg.Request {
			var list []resource
			for _, topic := range topics {
				list = append(list, resource{kind: 2, name: topic})
			}
			return describing(s, list, nil)
		})
	}
	p.ask("admin", v, "groups after a restart", func(s *side) kmsg.Request {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{s.name("g0"), s.name("g1")}
		return req
	})
	p.ask("committer", v.above(8), "commits after a restart", func(s *side) kmsg.Request {
		req := kmsg.NewPtrOffsetFetchRequest()
		for _, group := range []string{"g0", "g1"} {
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = s.name(group)
			req.Groups = append(req.Groups, g)
		}
		return req
	})
}

// lookIntoLogs reads what the topics hold, and looks up offsets and times in
// them.
func (p *Play) lookIntoLogs(v pick, topics []string, times []int64) {
	for _, at := range []int64{-1, -2, -3} {
		p.ask("reader", v.above(7), fmt.Sprintf("offsets at %d after a restart", at), func(s *side) kmsg.Request {
			return p.listingAll(s, topics, at)
		})
	}
	var plain, stores []string
	for _, topic := range topics {
		if slices.Contains([]string{compacted, retained, deleted}, topic) {
			stores = append(stores, topic)
		} else {
			plain = append(plain, topic)
		}
	}
	if len(plain) > 0 {
		p.ask("reader", v, "what is written, after a restart", func(s *side) kmsg.Request {
			var parts []wanted
			for _, topic := range plain {
				for _, index := range p.indices(topic) {
					parts = append(parts, wanted{topic: topic, index: index, offset: offset{"start", 0}, epoch: epoch{none: true}, last: epoch{none: true}, max: 1 << 20})
				}
			}
			return fetching(s, parts...)
		})
	}
	if len(stores) == 0 {
		return
	}
	for _, at := range times {
		p.ask("reader", v.above(4), fmt.Sprintf("offsets of the stores at %+d after a restart", at-then), func(s *side) kmsg.Request {
			return p.listingAll(s, stores, at)
		})
	}
	for _, topic := range stores {
		for _, index := range p.indices(topic) {
			p.everything(topic, index)
		}
	}
}

// listingAll asks for the offsets of one time in all partitions of some topics.
func (p *Play) listingAll(s *side, topics []string, at int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.TimeoutMillis = -1, 2000
	for _, topic := range topics {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = s.name(topic)
		for _, index := range p.indices(topic) {
			part := kmsg.NewListOffsetsRequestTopicPartition()
			part.Partition, part.Timestamp, part.CurrentLeaderEpoch = index, at, -1
			t.Partitions = append(t.Partitions, part)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

// indices are the partitions of a topic that something is known of.
func (p *Play) indices(topic string) []int32 {
	s := p.kafka()
	var list []int32
	for at := range s.parts {
		if at.topic == s.name(topic) && at.index >= 0 && len(s.parts[at].epochs) > 0 {
			list = append(list, at.index)
		}
	}
	slices.Sort(list)
	return list
}

// coordinated waits until the coordinators of some groups have read what they
// keep.
func (p *Play) coordinated(groups ...string) {
	for _, s := range p.Sides {
		for range 500 {
			if p.over || s.coordinates(groups) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (s *side) coordinates(groups []string) bool {
	c, err := s.conn("watch")
	if err != nil {
		return true
	}
	req := kmsg.NewPtrDescribeGroupsRequest()
	for _, g := range groups {
		req.Groups = append(req.Groups, s.name(g))
	}
	r, ok := c.Ask(req).Response.(*kmsg.DescribeGroupsResponse)
	if !ok {
		return true
	}
	return !slices.ContainsFunc(r.Groups, func(g kmsg.DescribeGroupsResponseGroup) bool {
		return g.ErrorCode == 14 || g.ErrorCode == 15 || g.ErrorCode == 16
	})
}
