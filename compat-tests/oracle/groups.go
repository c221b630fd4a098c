package oracle

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupState says in what state a group is and with how many members.
func groupState(s *side, group string) string {
	return groupStates(s, group)
}

// groupStates says that of several.
func groupStates(s *side, groups ...string) string {
	c, err := s.conn("watch")
	if err != nil {
		return err.Error()
	}
	c.Patience = patience
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version = 5
	for _, g := range groups {
		req.Groups = append(req.Groups, s.name(g))
	}
	kind := req.ResponseKind()
	kind.SetVersion(5)
	r, ok := c.Send(c.Encode(req), kind).Response.(*kmsg.DescribeGroupsResponse)
	if !ok || len(r.Groups) != len(groups) {
		return "not described"
	}
	slices.SortFunc(r.Groups, func(a, b kmsg.DescribeGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
	var states []string
	for _, g := range r.Groups {
		if s.versed.Old && g.State == "Dead" {
			g.State = "Empty" // see emptyInOld
		}
		states = append(states, fmt.Sprintf("%s with %d", g.State, len(g.Members)))
	}
	return strings.Join(states, ", ")
}

// settleGroup ends a step that may have changed a group. A commit of which nothing is
// stored founds a group all the same; Kafka shows it when something else is next
// written to its partition of __consumer_offsets, which is seen to here.
func (p *Play) settleGroup() {
	begun, written := time.Now(), false
	p.settle(func(s *side) string {
		state := groupStates(s, classicGroup, "g1")
		if s == p.kafka() && !written && strings.Contains(state, "Dead") && time.Since(begun) > 150*time.Millisecond {
			written = true
			for _, g := range []string{classicGroup, "g1"} {
				s.writeBeside(g)
			}
		}
		return state
	})
}

// writeBeside writes to the partition of __consumer_offsets that a group belongs to:
// somebody joins another group there, of which no list of groups in a play tells.
func (s *side) writeBeside(group string) {
	c, err := s.conn("watch")
	if err != nil {
		return
	}
	want := offsetsPartition(s.name(group))
	for i := 0; ; i++ {
		name := fmt.Sprintf("%sbeside-%x-%d", s.versed.Run, time.Now().UnixNano(), i)
		if offsetsPartition(name) != want {
			continue
		}
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 5, name, "beside", 1000, 1000
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "x"}}
		c.Ask(req)
		return
	}
}

// offsetsPartition is where a group's records lie, with the four partitions that
// these tests have.
func offsetsPartition(group string) int32 {
	var h int32
	for _, unit := range utf16.Encode([]rune(group)) {
		h = 31*h + int32(unit)
	}
	if h == math.MinInt32 {
		return 0
	}
	return max(h, -h) % 4
}

// offsetTopics are the topics that groups have committed offsets of. Those of a topic
// that is deleted go behind the answer.
func offsetTopics(s *side) string {
	c, err := s.conn("watch")
	if err != nil {
		return err.Error()
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 8
	for _, g := range []string{classicGroup, "g1"} {
		rg := kmsg.NewOffsetFetchRequestGroup()
		rg.Group = s.name(g)
		req.Groups = append(req.Groups, rg)
	}
	kind := req.ResponseKind()
	kind.SetVersion(8)
	r, ok := c.Send(c.Encode(req), kind).Response.(*kmsg.OffsetFetchResponse)
	if !ok {
		return "not fetched"
	}
	var list []string
	for _, g := range r.Groups {
		for _, t := range g.Topics {
			list = append(list, g.Group+" "+t.Topic)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// peek says whether a client's member is still there: a heartbeat of a
// generation that is none keeps no session alive.
func peek(s *side, client string) string {
	c, err := s.conn("watch")
	if err != nil {
		return err.Error()
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.Generation, req.MemberID = 2, s.name(classicGroup), 1<<30, s.member(client).id
	r, ok := c.Ask(req).Response.(*kmsg.HeartbeatResponse)
	if ok && r.ErrorCode == 22 {
		return "there"
	}
	return fmt.Sprint("gone ", ok)
}

// until waits until something holds on both sides, or the time is over.
func (p *Play) until(limit time.Duration, holds func(s *side) bool) {
	for begun := time.Now(); time.Since(begun) < limit && !p.over; time.Sleep(20 * time.Millisecond) {
		if holds(p.Sides[0]) && holds(p.Sides[1]) {
			return
		}
	}
}
