package oracle

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// clients are the names of those who join groups; the later ones may be static
// members.
var clients = []string{"m0", "m1", "m2", "m3"}

const classicGroup = "g0"

func init() {
	register(&family{
		name: "groups", weight: 25, length: 45,
		open: func(g *gen) []Step { return append(g.createTopics([]string{}), g.gather()...) },
		steps: []maker{
			{26, (*gen).join},
			{26, (*gen).sync},
			{12, (*gen).beat},
			{6, (*gen).leave},
			{10, (*gen).memberCommit},
			{4, (*gen).restart},
			{8, (*gen).describeGroups},
			{3, (*gen).listGroups},
			{2, (*gen).deleteGroups},
			{3, (*gen).offsetFetch},
			{2, (*gen).offsetDelete},
			{4, (*gen).expires},
			{4, (*gen).rebalanceRunsOut},
		},
	})
}

// grouping is what the members of a group are like.
type grouping struct {
	// short: rebalances run out soon.
	short bool
	// kind is their protocol type.
	kind string
	// subscribes: their metadata are subscriptions, as consumers have them, so that
	// the group knows its topics. Else it is nothing that can be read as one.
	subscribes bool
}

func (g *gen) drawGrouping() grouping {
	return grouping{g.chance(20), oneOf(g.Rand, "consumer", "consumer", "consumer", "consumer", "connect"), g.chance(50)}
}

// consumerSubscription is a consumer's subscription to topics in one of its versions, and
// something behind it.
func consumerSubscription(version int16, behind string, topics ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(len(topics)))
	for _, t := range topics {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(t))), t...)
	}
	b = binary.BigEndian.AppendUint32(b, 0xffffffff) // no user data
	if version > 0 {
		b = binary.BigEndian.AppendUint32(b, 0) // no partitions owned
	}
	return append(b, behind...)
}

// other is a protocol type that is not the group's.
func (x grouping) other() string {
	if x.kind == "connect" {
		return "consumer"
	}
	return "connect"
}

// gather brings some members to where a group works.
func (g *gen) gather() []Step {
	var steps []Step
	n := g.IntN(4)
	for range 2 {
		for _, c := range clients[:n] {
			steps = append(steps, g.joinOf(c, "usual"))
		}
	}
	for range 2 {
		for _, c := range clients[:n] {
			steps = append(steps, g.syncOf(c, "usual"))
		}
	}
	return steps
}

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
		name := fmt.Sprintf("%sbeside-%x-%d", s.versed.run, time.Now().UnixNano(), i)
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

// instance is the group instance id of a client; nil for a dynamic member.
func instance(client string, static bool) *string {
	if static && (client == "m2" || client == "m3") {
		return kmsg.StringPtr("i-" + client)
	}
	return nil
}

// grouped is what a member of a group says.
type grouped struct {
	client string
	static bool
}

func (g *gen) grouped() grouped {
	return grouped{client: oneOf(g.Rand, clients...), static: g.chance(85)}
}

func (g *gen) join() Step {
	mode := oneOf(g.Rand, "usual", "usual", "usual", "usual", "usual", "usual", "usual", "usual", "other metadata", "protocols swapped", "a protocol alone", "no protocol shared", "no protocols",
		"another type", "no type", "unknown id", "new id", "session too short", "session too long", "empty group", "other's id")
	return g.joinOf(oneOf(g.Rand, clients...), mode)
}

func (g *gen) joinOf(client, mode string) Step {
	v := g.pick()
	static := v.draw%8 != 0
	number, of := g.IntN(100), g.grouping
	reason := oneOf(g.Rand, "", "because")
	what := fmt.Sprintf("join, %s", mode)
	return Step{Text: client + ": " + what, Do: func(p *Play) {
		if static && instance(client, static) != nil {
			v = v.above(5)
		}
		p.begin(client, v, what, func(s *side) kmsg.Request {
			return joining(s, client, mode, static, of, number, reason)
		})
		p.settleGroup()
		// From version 4 on one who comes without an id is told to come again with it.
		if m := p.kafka().member(client); mode == "usual" && m.id != "" && !m.joined && !p.busy(client) {
			p.begin(client, v, what+", with its id", func(s *side) kmsg.Request {
				return joining(s, client, mode, static, of, number, reason)
			})
			p.settleGroup()
		}
	}}
}

func joining(s *side, client, mode string, static bool, of grouping, number int, reason string) *kmsg.JoinGroupRequest {
	m := s.member(client)
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group, r.MemberID, r.InstanceID, r.ProtocolType = s.name(classicGroup), m.id, instance(client, static), of.kind
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 60000, 60000
	if reason != "" {
		r.Reason = &reason
	}
	protocols := []string{"x:" + client, "y:" + client}
	switch mode {
	case "other metadata":
		protocols[0] += fmt.Sprint(number)
	case "protocols swapped":
		slices.Reverse(protocols)
	case "a protocol alone":
		protocols = protocols[1:]
	case "no protocol shared":
		protocols = []string{"z:" + client}
	case "no protocols":
		protocols = nil
	case "another type":
		r.ProtocolType = of.other()
	case "no type":
		r.ProtocolType = ""
	case "unknown id":
		r.MemberID = "nobody"
	case "new id":
		r.MemberID = ""
	case "session too short":
		r.SessionTimeoutMillis = 5
	case "session too long":
		r.SessionTimeoutMillis = 1800001
	case "empty group":
		r.Group = ""
	case "other's id":
		if client != "m0" {
			r.MemberID = s.member("m0").id
		}
	}
	if of.short {
		r.RebalanceTimeoutMillis = 1500
	}
	r.Protocols = []kmsg.JoinGroupRequestProtocol{}
	for _, p := range protocols {
		name, metadata, _ := strings.Cut(p, ":")
		told := []byte(metadata)
		if of.subscribes {
			told = consumerSubscription(int16(number%3), metadata[len(client):], s.name("a"), s.name(map[string]string{"m0": "a", "m1": "b", "m2": "c", "m3": "a"}[client]))
		}
		r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: told})
	}
	return r
}

func (g *gen) sync() Step {
	mode := oneOf(g.Rand, "usual", "usual", "usual", "usual", "usual", "usual", "old generation", "next generation", "another protocol", "another type", "null protocol", "unknown id", "assignments of nobody", "as a leader", "empty group")
	return g.syncOf(oneOf(g.Rand, clients...), mode)
}

func (g *gen) syncOf(client, mode string) Step {
	v := g.pick()
	static, number, of := v.draw%8 != 0, g.IntN(100), g.grouping
	what := "sync, " + mode
	return Step{Text: client + ": " + what, Do: func(p *Play) {
		p.begin(client, v, what, func(s *side) kmsg.Request {
			m := s.member(client)
			if m.id == "" {
				return nil
			}
			r := kmsg.NewPtrSyncGroupRequest()
			r.Group, r.Generation, r.MemberID, r.InstanceID = s.name(classicGroup), m.generation, m.id, instance(client, static)
			r.ProtocolType, r.Protocol = kmsg.StringPtr(of.kind), kmsg.StringPtr(m.protocol)
			leads := m.leader || mode == "as a leader"
			switch mode {
			case "old generation":
				r.Generation--
			case "next generation":
				r.Generation++
			case "another protocol":
				r.Protocol = kmsg.StringPtr("z")
			case "another type":
				r.ProtocolType = kmsg.StringPtr(of.other())
			case "null protocol":
				r.Protocol = nil
			case "empty group":
				r.Group = ""
			case "unknown id":
				r.MemberID = "nobody"
			case "assignments of nobody":
				r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: "nobody", MemberAssignment: []byte("n")})
			}
			if leads {
				for _, c := range clients {
					if o := s.members[c]; o != nil && o.id != "" && (number%5 != 0 || c == client) {
						r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: o.id, MemberAssignment: []byte(fmt.Sprint(c, number))})
					}
				}
			}
			return r
		})
		p.settleGroup()
	}}
}

func (g *gen) beat() Step {
	w, v := g.grouped(), g.pick()
	mode := oneOf(g.Rand, "usual", "usual", "usual", "usual", "old generation", "next generation", "unknown id", "no id", "another's instance", "unknown group", "empty group")
	what := "heartbeat, " + mode
	return Step{Text: w.client + ": " + what, Do: func(p *Play) {
		p.begin(w.client, v, what, func(s *side) kmsg.Request {
			m := s.member(w.client)
			r := kmsg.NewPtrHeartbeatRequest()
			r.Group, r.Generation, r.MemberID, r.InstanceID = s.name(classicGroup), m.generation, m.id, instance(w.client, w.static)
			switch mode {
			case "old generation":
				r.Generation--
			case "next generation":
				r.Generation++
			case "unknown id":
				r.MemberID = "nobody"
			case "no id":
				r.MemberID = ""
			case "another's instance":
				r.InstanceID = kmsg.StringPtr("i-m2")
			case "unknown group":
				r.Group = s.name("no-group")
			case "empty group":
				r.Group = ""
			}
			return r
		})
		p.settleGroup()
	}}
}

func (g *gen) leave() Step {
	w, v := g.grouped(), g.pick()
	mode := oneOf(g.Rand, "usual", "usual", "usual", "usual", "by instance", "unknown id", "unknown instance", "two at once", "nobody", "unknown group", "another's instance", "empty group")
	what := "leave, " + mode
	return Step{Text: w.client + ": " + what, Do: func(p *Play) {
		// Whom Kafka makes the leader when the leader leaves is up to a hash map, and
		// what waits when its member leaves it does not answer.
		k := p.kafka().member(w.client)
		others := 0
		for _, c := range clients {
			if m := p.kafka().members[c]; c != w.client && m != nil && m.joined {
				others++
			}
		}
		if k.leader && others > 1 && (mode == "usual" || mode == "by instance" || mode == "two at once") || p.busy(w.client) {
			return
		}
		x := p.ask(w.client, v, what, func(s *side) kmsg.Request {
			m := s.member(w.client)
			r := kmsg.NewPtrLeaveGroupRequest()
			r.Group, r.MemberID = s.name(classicGroup), m.id
			one := kmsg.NewLeaveGroupRequestMember()
			one.MemberID, one.InstanceID = m.id, instance(w.client, w.static)
			switch mode {
			case "by instance":
				one.MemberID = ""
			case "unknown id":
				r.MemberID, one.MemberID = "nobody", "nobody"
			case "unknown instance":
				one.InstanceID = kmsg.StringPtr("i-nobody")
			case "another's instance":
				one.InstanceID = kmsg.StringPtr("i-m3")
			case "unknown group":
				r.Group = s.name("no-group")
			case "empty group":
				r.Group = ""
			}
			if mode != "nobody" {
				r.Members = append(r.Members, one)
			}
			if mode == "two at once" {
				two := kmsg.NewLeaveGroupRequestMember()
				two.MemberID = "nobody"
				two.Reason = kmsg.StringPtr("why not")
				r.Members = append(r.Members, two)
			}
			return r
		})
		if x != nil && x.out[kafkas].Response != nil {
			for i, s := range p.Sides {
				r, ok := x.out[i].Response.(*kmsg.LeaveGroupResponse)
				if ok && r.ErrorCode == 0 && (len(r.Members) == 0 || r.Members[0].ErrorCode == 0) && mode != "nobody" {
					m := s.member(w.client)
					m.joined, m.leader = false, false
					if v.draw%2 == 0 {
						m.id = ""
					}
				}
			}
		}
		p.settleGroup()
	}}
}

// restart is a static member that comes again without its id (KIP-345), or a
// dynamic one that has forgotten it.
func (g *gen) restart() Step {
	client := oneOf(g.Rand, "m2", "m3", "m3", "m2", "m1")
	join := g.joinOf(client, "usual")
	return Step{Text: client + ": restarts", Do: func(p *Play) {
		if p.busy(client) {
			return
		}
		for _, s := range p.Sides {
			m := s.member(client)
			m.id, m.joined = "", false
			s.hangUp(client)
		}
		join.Do(p)
	}}
}

func (g *gen) memberCommit() Step {
	w, v := g.grouped(), g.pick()
	mode := oneOf(g.Rand, "usual", "usual", "usual", "old generation", "next generation", "unknown id", "without a member", "its id, no generation", "another's instance")
	c := g.committed()
	what := fmt.Sprintf("commit, %s, %v", mode, c)
	return Step{Text: w.client + ": " + what, Do: func(p *Play) {
		p.begin(w.client, v, what, func(s *side) kmsg.Request {
			m := s.member(w.client)
			r := committing(s, classicGroup, c)
			r.Generation, r.MemberID, r.InstanceID = m.generation, m.id, instance(w.client, w.static)
			switch mode {
			case "old generation":
				r.Generation--
			case "next generation":
				r.Generation++
			case "unknown id":
				r.MemberID = "nobody"
			case "without a member":
				r.Generation, r.MemberID, r.InstanceID = -1, "", nil
			case "its id, no generation":
				r.Generation = -1
			case "another's instance":
				r.InstanceID = kmsg.StringPtr("i-m2")
			}
			return r
		})
		p.settleGroup()
	}}
}

// expires has a member with a short session join the group and say no more.
func (g *gen) expires() Step {
	v := g.pick()
	client := "m1"
	joins, of := g.chance(60), g.grouping
	what := "join with a short session"
	return Step{Text: client + ": " + what + ", and is gone", Do: func(p *Play) {
		if p.over || p.busy(client) || p.kafka().member(client).joined {
			return
		}
		for _, s := range p.Sides {
			s.member(client).id = ""
		}
		build := func(s *side) kmsg.Request {
			r := joining(s, client, "usual", false, of, 0, "")
			r.SessionTimeoutMillis = 700
			return r
		}
		p.begin(client, v, what, build)
		p.settleGroup()
		if m := p.kafka().member(client); joins && m.id != "" && !m.joined && !p.busy(client) {
			p.begin(client, v, what+", with its id", build)
			p.settleGroup()
		}
		// Its session runs from its join's answer on; while that waits there is none.
		if p.busy(client) {
			return
		}
		p.until(3*time.Second, func(s *side) bool {
			return !strings.Contains(peek(s, client), "there")
		})
		for _, s := range p.Sides {
			m := s.member(client)
			m.id, m.joined, m.leader = "", false, false
		}
		p.settleGroup()
	}}
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

// rebalanceRunsOut waits for a rebalance that some do not come to, until the
// rebalance timeout has dropped them.
func (g *gen) rebalanceRunsOut() Step {
	client, short := oneOf(g.Rand, clients...), g.grouping.short
	join := g.joinOf(client, "other metadata")
	return Step{Text: client + ": joins, and the rebalance runs out", Do: func(p *Play) {
		join.Do(p)
		if len(p.pending) == 0 || !short {
			return
		}
		p.until(2500*time.Millisecond, func(s *side) bool {
			state := groupState(s, classicGroup)
			return !strings.HasPrefix(state, "PreparingRebalance")
		})
		p.settleGroup()
	}}
}

func (g *gen) describeGroups() Step {
	groups := oneOf(g.Rand, []string{classicGroup}, []string{classicGroup}, []string{classicGroup, "g1"}, []string{"no-group"}, []string{"="}, []string{classicGroup, classicGroup}, []string{})
	operations := g.chance(30)
	return g.asking("admin", fmt.Sprintf("describe groups %v, operations %v", groups, operations), func(s *side) kmsg.Request {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.IncludeAuthorizedOperations = operations
		for _, n := range groups {
			req.Groups = append(req.Groups, s.name(n))
		}
		return req
	})
}

func (g *gen) listGroups() Step {
	states := oneOf(g.Rand, nil, nil, []string{"Stable"}, []string{"empty", "Dead"}, []string{"PreparingRebalance", "CompletingRebalance"}, []string{"nonsense"}, []string{""})
	types := oneOf(g.Rand, nil, nil, []string{"classic"}, []string{"Consumer"}, []string{"share", "CLASSIC"}, []string{"nonsense"})
	return g.asking("admin", fmt.Sprintf("list groups in %v of %v", states, types), func(s *side) kmsg.Request {
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = states, types
		return req
	})
}

func (g *gen) deleteGroups() Step {
	groups := oneOf(g.Rand, []string{classicGroup}, []string{"g1"}, []string{classicGroup, "g1"}, []string{"no-group"}, []string{"="}, []string{"g1", "g1"}, []string{})
	v := g.pick()
	what := fmt.Sprintf("delete groups %v", groups)
	return Step{Text: what, Do: func(p *Play) {
		p.ask("admin", v, what, func(s *side) kmsg.Request {
			req := kmsg.NewPtrDeleteGroupsRequest()
			for _, n := range groups {
				req.Groups = append(req.Groups, s.name(n))
			}
			return req
		})
		p.settleGroup()
	}}
}
