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
	// asked for.
	roundsBetween = 16
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

// restartsOf are the restarts of the round that a seed belongs to: whether each
// is by kill -9.
func restartsOf(seed uint64) []bool {
	r := rand.New(rand.NewPCG(seed/roundSize, 0x72657374617274))
	var kills []bool
	for range 1 + r.IntN(3) {
		kills = append(kills, r.IntN(2) == 0)
	}
	return kills
}

// round are the plays that restart the servers together.
type round struct {
	restart func(kill bool) error
	mu      sync.Mutex
	members int // who still play
	arrived int
	kill    bool
	next    chan struct{} // closed when the restart is over that they wait for
	done    int
	err     error
}

func newRound(members int, restart func(kill bool) error) *round {
	return &round{members: members, restart: restart, next: make(chan struct{})}
}

// arrive waits for all others, and returns when the servers run again.
func (r *round) arrive(kill bool) error {
	r.mu.Lock()
	if r.restart == nil {
		r.mu.Unlock()
		return errors.New("the servers cannot be restarted")
	}
	r.arrived++
	r.kill = kill
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
		r.err = r.restart(r.kill)
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
}

// serversRestart is the end of both servers and their new start, after which
// all that they keep is looked at.
func (g *gen) serversRestart(kill bool) Step {
	v := g.pick()
	what := "both servers are restarted in order"
	if kill {
		what = "both servers are ended by kill -9 and started"
	}
	return Step{Text: what, restarts: true, Do: func(p *Play) {
		p.settle(nil)
		if p.over {
			return
		}
		// Whoever waits loses its connection, and nobody is told.
		p.pending = nil
		for _, s := range p.Sides {
			s.close()
		}
		if err := p.round.arrive(kill); err != nil {
			p.fail(fmt.Errorf("restarting: %w", err))
			return
		}
		p.lookAround(v)
	}}
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

// lookAround asks for everything that a play has left on the servers.
func (p *Play) lookAround(v pick) {
	topics := p.kafka().own()
	p.coordinated("g0", "g1")
	if len(topics) > 0 {
		p.led(topics...)
		p.identify(topics...)
		for _, when := range []int64{-1, -2, -3} {
			p.ask("reader", v.above(7), fmt.Sprintf("offsets at %d after a restart", when), func(s *side) kmsg.Request {
				req := kmsg.NewPtrListOffsetsRequest()
				req.ReplicaID, req.TimeoutMillis = -1, 2000
				for _, topic := range topics {
					t := kmsg.NewListOffsetsRequestTopic()
					t.Topic = s.name(topic)
					for _, index := range p.indices(topic) {
						part := kmsg.NewListOffsetsRequestTopicPartition()
						part.Partition, part.Timestamp, part.CurrentLeaderEpoch = index, when, -1
						t.Partitions = append(t.Partitions, part)
					}
					req.Topics = append(req.Topics, t)
				}
				return req
			})
		}
		p.ask("reader", v, "what is written, after a restart", func(s *side) kmsg.Request {
			var parts []wanted
			for _, topic := range topics {
				for _, index := range p.indices(topic) {
					parts = append(parts, wanted{topic: topic, index: index, offset: offset{"start", 0}, epoch: epoch{none: true}, last: epoch{none: true}, max: 1 << 20})
				}
			}
			return fetching(s, parts...)
		})
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
