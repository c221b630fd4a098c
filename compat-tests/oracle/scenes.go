package oracle

import (
	"fmt"
	"strings"
	"time"
)

// Scenes are what chance seldom brings about in a group, step by step. A
// sequence goes on from where one has ended.

// shortly ends the mode of a join whose session is short.
const (
	shortly      = ", a short session"
	shortSession = 2500 * time.Millisecond
)

// opening is how members come together: of their own, or in a scene.
func (g *gen) opening() []Step {
	if !g.chance(30) {
		return g.gather()
	}
	scene := oneOf(g.Rand, g.statics, g.waitsBeyondSession, g.joinsTwice, g.leavesUnanswered, g.syncsTwice)
	if g.restarts {
		// The clocks of sessions and rebalances begin anew when a server has read its
		// groups, which one has done seconds before the other.
		scene = oneOf(g.Rand, g.joinsTwice, g.leavesUnanswered, g.syncsTwice)
	}
	return scene()
}

// together brings members to where their group is Stable. The first leads it; the
// others join in a mode. Those who can be are static.
func (g *gen) together(mode string, members ...string) []Step {
	g.grouping.subscribes = false // else each join of a member's may say something else
	var steps []Step
	for range 2 {
		for i, c := range members {
			as := mode
			if i == 0 {
				as = "usual"
			}
			steps = append(steps, g.joinIn(pick{draw: g.Uint32() | 1}, c, as))
		}
	}
	for _, c := range members {
		steps = append(steps, g.syncOf(c, "usual"))
	}
	return steps
}

// statics are members who stay when a rebalance runs out to which nobody has come:
// it goes on. Then one comes, and leads in place of the one who did (KIP-345).
func (g *gen) statics() []Step {
	g.grouping.short = true
	steps := append(g.together("usual", "m2", "m3", "m1"),
		leaveOf(grouped{client: "m1"}, g.pick(), "usual"),
		goesBy(shortRebalance+400*time.Millisecond, "the rebalance runs out, and nobody has come"),
		g.joinIn(pick{draw: g.Uint32() | 1}, "m3", "usual"),
		whenRebalanced())
	return append(steps, g.syncOf("m3", "usual"), g.describeGroups())
}

// waitsBeyondSession is a member whose session would have ended while it waits for
// others to join, and then for the leader's assignment.
func (g *gen) waitsBeyondSession() []Step {
	g.grouping.short = false
	beyond := goesBy(shortSession+500*time.Millisecond, "longer than a session goes by")
	return append(g.together("usual"+shortly, "m0", "m1"),
		g.joinOf("m1", "other metadata"+shortly), beyond,
		g.joinOf("m0", "usual"),
		g.syncOf("m1", "usual"), beyond,
		g.syncOf("m0", "usual"),
		leaveOf(grouped{client: "m1"}, g.pick(), "usual"))
}

// joinsTwice is a member whose connection goes while it waits, and that comes back
// with the id it has.
func (g *gen) joinsTwice() []Step {
	g.grouping.short = false
	return append(g.together("usual", "m0", "m1"),
		g.joinOf("m1", "other metadata"), cutOf("m1"), g.joinOf("m1", oneOf(g.Rand, "usual", "other metadata", "a protocol alone")),
		g.joinOf("m0", "usual"), g.syncOf("m1", "usual"), g.syncOf("m0", "usual"))
}

// leavesUnanswered is one that comes back to leave.
func (g *gen) leavesUnanswered() []Step {
	g.grouping.short = false
	return append(g.together("usual", "m0", "m1"),
		g.joinOf("m1", "other metadata"), cutOf("m1"), leaveOf(grouped{client: "m1"}, g.pick(), "usual"),
		g.joinOf("m0", "usual"), g.syncOf("m0", "usual"))
}

// syncsTwice is one whose connection goes while it waits for its assignment.
func (g *gen) syncsTwice() []Step {
	g.grouping.short = false
	return append(g.together("usual", "m0", "m1"),
		g.joinOf("m0", "other metadata"), g.joinOf("m1", "usual"),
		g.syncOf("m1", "usual"), cutOf("m1"), g.syncOf("m1", "usual"), g.syncOf("m0", "usual"))
}

// cut is the end of the connection of somebody who waits.
func (g *gen) cut() Step { return cutOf(oneOf(g.Rand, clients...)) }

func cutOf(client string) Step {
	return Step{Text: client + ": its connection goes while it waits", Do: func(p *Play) {
		p.settle(nil)
		if p.Sides[ours].member(client).id != "" && p.kafka().member(client).id != "" {
			p.abandon(client) // else it would not know who it is
		}
	}}
}

// goesBy is time that goes by, in which what the servers wait for by themselves
// may happen.
func goesBy(d time.Duration, what string) Step {
	return Step{Text: what, Do: func(p *Play) {
		if !p.over {
			time.Sleep(d)
		}
		p.settleGroup()
	}}
}

// whenRebalanced waits until a rebalance is over, or its time.
func whenRebalanced() Step {
	return Step{Text: fmt.Sprintf("%s has rebalanced", classicGroup), Do: func(p *Play) {
		p.until(2*shortRebalance, func(s *side) bool { return !strings.HasPrefix(groupState(s, classicGroup), "PreparingRebalance") })
		p.settleGroup()
	}}
}
