package oracle

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// clients are the names of those who join groups; the later ones may be static
// members.
var clients = []string{"m0", "m1", "m2", "m3"}

const classicGroup = "g0"

func init() {
	register(&family{
		name: "groups", weight: 25, length: 45,
		open: func(g *gen) []Step { return append(g.createTopics([]string{}), g.opening()...) },
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
			{3, (*gen).cut},
		},
	})
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

func (g *gen) join() Step {
	mode := oneOf(g.Rand, "usual", "usual", "usual", "usual", "usual", "usual", "usual", "usual", "other metadata", "protocols swapped", "a protocol alone", "no protocol shared", "no protocols",
		"another type", "no type", "unknown id", "new id", "session too short", "session too long", "empty group", "other's id")
	return g.joinOf(oneOf(g.Rand, clients...), mode)
}

func (g *gen) joinOf(client, mode string) Step { return g.joinIn(g.pick(), client, mode) }

func (g *gen) joinIn(v pick, client, mode string) Step {
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
		if m := p.kafka().member(client); strings.HasPrefix(mode, "usual") && m.id != "" && !m.joined && !p.busy(client) {
			p.begin(client, v, what+", with its id", func(s *side) kmsg.Request {
				return joining(s, client, mode, static, of, number, reason)
			})
			p.settleGroup()
		}
	}}
}

func (g *gen) sync() Step {
	mode := oneOf(g.Rand, "usual", "usual", "usual", "usual", "usual", "usual", "old generation", "next generation", "another protocol", "another type", "null protocol", "unknown id", "assignments of nobody", "as a leader", "empty group", "too large an assignment")
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
						what := []byte(fmt.Sprint(c, number))
						if mode == "too large an assignment" {
							what = make([]byte, tooLarge)
						}
						r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: o.id, MemberAssignment: what})
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
	return leaveOf(w, v, mode)
}

func leaveOf(w grouped, v pick, mode string) Step {
	what := "leave, " + mode
	return Step{Text: w.client + ": " + what, Do: func(p *Play) {
		// Whom Kafka makes the leader when the leader leaves is up to a hash map, and
		// what waits when its member leaves it does not answer.
		k := p.kafka().member(w.client)
		others := 0
		for _, c := range clients {
			if m := p.kafka().members[c]; c != w.client && m != nil && (m.joined || m.id != "") {
				others++ // or may be one, whose join waits or was not heard of
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
	retention := oneOf[int64](g.Rand, -1, -1, -1, 1)
	what := fmt.Sprintf("commit, %s, for %d, %v", mode, retention, c)
	return Step{Text: w.client + ": " + what, Do: func(p *Play) {
		p.begin(w.client, v, what, func(s *side) kmsg.Request {
			m := s.member(w.client)
			r := committing(s, classicGroup, c)
			r.Generation, r.MemberID, r.InstanceID, r.RetentionTimeMillis = m.generation, m.id, instance(w.client, w.static), retention
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
