package oracle

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// While servers tidy up, what is too old goes within moments, which are not the
// same on both. So nothing is compared before both are done, and that is seen by
// what is made to go beforehand: records of a topic that keeps none, and groups
// whose offsets have run out.

// fading keeps nothing, once somebody looks at it.
const fading = "fading"

// fadingGroups are groups that hold nothing but an offset that has run out: one
// beside each of those whose offsets are compared.
func fadingGroups(s *side) []string {
	var list []string
	for _, beside := range []string{classicGroup, "g1"} {
		for i := 0; ; i++ {
			name := fmt.Sprintf("fading-%s-%d", beside, i)
			if offsetsPartition(s.name(name)) == offsetsPartition(s.name(beside)) {
				list = append(list, name)
				break
			}
		}
	}
	return list
}

// holder is a group that holds an offset which has run out: whether it goes follows
// from what the group is like.
type holder struct {
	name, kind string
	subscribed string // a topic; "": its members' metadata cannot be read as a subscription
	left       bool   // its member has left
}

var holders = []holder{
	{name: "subscribed", kind: "consumer", subscribed: fading},
	{name: "unsubscribed", kind: "consumer", subscribed: "a"},
	{name: "opaque", kind: "consumer"},
	{name: "connected", kind: "connect"},
	{name: "left", kind: "consumer", subscribed: fading, left: true},
}

// hold founds such a group: its one member joins, commits, and may leave.
func (p *Play) hold(h holder) {
	p.ask(h.name, pick{from: 2, under: 4}, "found "+h.name, func(s *side) kmsg.Request {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Group, r.ProtocolType, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = s.name(h.name), h.kind, unhurried, unhurried
		metadata := []byte{}
		if h.subscribed != "" {
			metadata = consumerSubscription(0, "", s.name(h.subscribed))
		}
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "x", Metadata: metadata}}
		return r
	})
	p.ask(h.name, pick{}, "sync "+h.name, func(s *side) kmsg.Request {
		m, r := s.member(h.name), kmsg.NewPtrSyncGroupRequest()
		r.Group, r.MemberID, r.Generation, r.ProtocolType, r.Protocol = s.name(h.name), m.id, m.generation, &h.kind, kmsg.StringPtr("x")
		r.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: m.id, MemberAssignment: []byte("all")}}
		return r
	})
	p.ask(h.name, pick{from: 2, under: 5}, "commit to "+h.name+" for a millisecond", func(s *side) kmsg.Request {
		m, r := s.member(h.name), committing(s, h.name, []committed{{topic: fading, offset: 1, epoch: -1, metadata: kmsg.StringPtr("")}})
		r.Generation, r.MemberID, r.RetentionTimeMillis = m.generation, m.id, 1
		return r
	})
	if h.left {
		p.ask(h.name, pick{from: 0, under: 3}, "leave "+h.name, func(s *side) kmsg.Request {
			r := kmsg.NewPtrLeaveGroupRequest()
			r.Group, r.MemberID = s.name(h.name), s.member(h.name).id
			return r
		})
	}
}

// held compares what has become of them.
func (p *Play) held() {
	p.ask("admin", pick{}, "groups that hold offsets", func(s *side) kmsg.Request {
		r := kmsg.NewPtrDescribeGroupsRequest()
		for _, h := range holders {
			r.Groups = append(r.Groups, s.name(h.name))
		}
		return r
	})
	p.ask("committer", pick{from: 8}, "offsets that they hold", func(s *side) kmsg.Request {
		r := kmsg.NewPtrOffsetFetchRequest()
		for _, h := range holders {
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = s.name(h.name)
			r.Groups = append(r.Groups, g)
		}
		return r
	})
}

// fade makes what has to go when the servers tidy up.
func (p *Play) fade() {
	p.makeTopic(pick{}, fading, 1, []string{"retention.ms", "1"})
	for _, group := range fadingGroups(p.kafka()) {
		p.ask("committer", pick{from: 2, under: 5}, "commit to "+group+" for a millisecond", func(s *side) kmsg.Request {
			r := committing(s, group, []committed{{topic: fading, offset: 1, epoch: -1, metadata: kmsg.StringPtr("")}})
			r.RetentionTimeMillis = 1
			return r
		})
	}
	for _, h := range holders {
		p.hold(h)
	}
	p.settleGroup()
}

// faded waits until both servers have tidied up.
func (p *Play) faded() {
	names := fadingGroups(p.kafka())
	for _, h := range holders {
		names = append(names, h.name)
	}
	p.coordinated(names...)
	names = names[:len(names)-len(holders)]
	p.led(fading)
	p.until(agreement, func(s *side) bool {
		return !strings.Contains(groupStates(s, names...), "Empty")
	})
	for range 3 {
		for _, s := range p.Sides {
			if p.over {
				return
			}
			if err := s.pass(fading); err != nil {
				p.fail(err)
			}
		}
	}
	p.passes()
	// Producers are looked at by a clock of each log's own, and as often.
	time.Sleep(time.Second)
	p.settle(func(s *side) string {
		return groupStates(s, append(names, classicGroup, "g1")...) + "; " + offsetTopics(s)
	})
	p.held()
}

// retention is a draw of what a topic keeps. Records are from more than an hour
// ago, or from the last minutes.
func (g *gen) retention() []string {
	return oneOf(g.Rand, []string{"retention.bytes", "0"}, []string{"retention.bytes", "700"}, []string{"retention.bytes", "1500"}, []string{"retention.bytes", "4000"},
		[]string{"retention.ms", "3600000"}, []string{"retention.ms", "36000000"}, []string{"retention.bytes", "2000", "retention.ms", "3600000"})
}

// someTimes are times that are looked up: around those of most records, and out of
// line.
func (g *gen) someTimes() []int64 {
	list := []int64{then - 1000, then, then + 1000, then + 110*60e3}
	for range 3 {
		list = append(list, g.storedTime())
	}
	return list
}
