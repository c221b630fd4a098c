package frames

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupCases are the classic group protocol: who is a member, in what
// generation, and what is assigned to whom.
func groupCases() []Case {
	var all []Case
	all = append(all, joinCases()...)
	all = append(all, staticCases()...)
	all = append(all, syncCases()...)
	all = append(all, beatCases()...)
	all = append(all, leaveCases()...)
	all = append(all, malformedGroupCases()...)
	all = append(all, randomGroupCases()...)
	return all
}

func syncCases() []Case {
	const api = kmsg.SyncGroup
	return []Case{
		{API: api, Name: "assignments", Run: withMembers(api, func(c *cast) {
			a, b := c.member("g", "a"), c.member("g", "b")
			gather(a, b)
			w := b.sync("follower first").holds()
			a.sync("the leader", "b=half", "nobody=lost").end()
			w.end()
			c.describe("stable", "g")
			a.sync("again, with other assignments", "a=all").end()
			b.sync("the follower again").end()
			a.beat("heartbeat")
		})},
		{API: api, Name: "follower's assignments", Run: withMembers(api, func(c *cast) {
			a, b := c.member("g", "a"), c.member("g", "b")
			gather(a, b)
			w := b.sync("a follower with assignments", "a=x", "b=y").holds()
			a.sync("the leader without").end()
			w.end()
			c.describe("stable", "g")
		})},
		{API: api, Name: "refused", Run: withMembers(api, func(c *cast) {
			a, b := c.member("g", "a"), c.member("g", "b")
			ask := func(what string, change func(r *kmsg.SyncGroupRequest)) {
				r := a.syncRequest()
				change(r)
				a.ask(what, r)
			}
			ask("a group that is not there", func(r *kmsg.SyncGroupRequest) {})
			ask("no group", func(r *kmsg.SyncGroupRequest) { r.Group = "" })
			gather(a)
			ask("a strange id", func(r *kmsg.SyncGroupRequest) { r.MemberID = "stranger" })
			ask("no id", func(r *kmsg.SyncGroupRequest) { r.MemberID = "" })
			ask("an old generation", func(r *kmsg.SyncGroupRequest) { r.Generation-- })
			ask("a generation to come", func(r *kmsg.SyncGroupRequest) { r.Generation++ })
			ask("a strange id and generation", func(r *kmsg.SyncGroupRequest) { r.MemberID, r.Generation = "stranger", 9 })
			if c.Version >= 3 {
				ask("an instance", func(r *kmsg.SyncGroupRequest) { r.InstanceID = kmsg.StringPtr("i") })
			}
			if c.Version >= 5 {
				ask("no protocol", func(r *kmsg.SyncGroupRequest) { r.Protocol = nil })
				ask("no protocol type", func(r *kmsg.SyncGroupRequest) { r.ProtocolType = nil })
				ask("no protocol and no group", func(r *kmsg.SyncGroupRequest) { r.Protocol, r.Group = nil, "" })
				ask("another protocol", func(r *kmsg.SyncGroupRequest) { r.Protocol = kmsg.StringPtr("sticky") })
				ask("another protocol type", func(r *kmsg.SyncGroupRequest) { r.ProtocolType = kmsg.StringPtr("connect") })
				ask("another protocol and generation", func(r *kmsg.SyncGroupRequest) { r.ProtocolType, r.Generation = kmsg.StringPtr("connect"), 7 })
			}
			assign(a)
			ask("an old generation, stable", func(r *kmsg.SyncGroupRequest) { r.Generation-- })
			b.enter("another joins")
			a.await("PreparingRebalance", 2)
			ask("while preparing", func(r *kmsg.SyncGroupRequest) {})
			ask("an old generation, preparing", func(r *kmsg.SyncGroupRequest) { r.Generation-- })
			a.leave("leave")
			ask("after leaving", func(r *kmsg.SyncGroupRequest) {})
		})},
		{API: api, Name: "a sync that a rebalance ends", Run: withMembers(api, func(c *cast) {
			a, b, d := c.member("g", "a"), c.member("g", "b"), c.member("g", "d")
			gather(a, b)
			w := b.sync("follower first").holds()
			w2 := d.enter("another joins").holds()
			w.end()
			w3 := b.join("the follower again").holds()
			a.leave("the leader leaves")
			w2.end()
			w3.end()
			c.electAny(w2, w3)
		})},
		{API: api, Name: "static", From: 3, Run: withMembers(api, func(c *cast) {
			a := c.static("g", "a", "i")
			gather(a)
			old := *a
			old.name = "old"
			w := a.sync("assign", "a=all")
			w.end()
			a.id = ""
			a.join("restarted").end()
			old.sync("the old id").end()
			old.instance = kmsg.StringPtr("j")
			old.sync("another instance").end()
			a.sync("the new id").end()
		})},
	}
}

func beatCases() []Case {
	const api = kmsg.Heartbeat
	return []Case{
		{API: api, Name: "in every state", Run: withMembers(api, func(c *cast) {
			a, b := c.member("g", "a"), c.member("g", "b")
			ask := func(what string, change func(r *kmsg.HeartbeatRequest)) {
				r := a.beatRequest()
				change(r)
				a.ask(what, r)
			}
			ask("a group that is not there", func(r *kmsg.HeartbeatRequest) {})
			ask("no group", func(r *kmsg.HeartbeatRequest) { r.Group = "" })
			a.join("for an id").end()
			ask("pending", func(r *kmsg.HeartbeatRequest) {})
			ask("pending, generation 0", func(r *kmsg.HeartbeatRequest) { r.Generation = 0 })
			a.join("join").end()
			refusals := func(when string) {
				ask("an old generation, "+when, func(r *kmsg.HeartbeatRequest) { r.Generation-- })
				ask("a generation to come, "+when, func(r *kmsg.HeartbeatRequest) { r.Generation++ })
				ask("a strange id, "+when, func(r *kmsg.HeartbeatRequest) { r.MemberID = "stranger" })
				ask("no id, "+when, func(r *kmsg.HeartbeatRequest) { r.MemberID = "" })
				ask("a strange id and generation, "+when, func(r *kmsg.HeartbeatRequest) { r.MemberID, r.Generation = "stranger", 9 })
				if c.Version >= 3 {
					ask("an instance, "+when, func(r *kmsg.HeartbeatRequest) { r.InstanceID = kmsg.StringPtr("i") })
				}
			}
			ask("completing", func(r *kmsg.HeartbeatRequest) {})
			refusals("completing")
			assign(a)
			ask("stable", func(r *kmsg.HeartbeatRequest) {})
			refusals("stable")
			w := b.enter("another joins").holds()
			ask("preparing", func(r *kmsg.HeartbeatRequest) {})
			refusals("preparing")
			a.leave("leave")
			w.end()
			ask("after leaving", func(r *kmsg.HeartbeatRequest) {})
			b.leave("leave")
			ask("empty", func(r *kmsg.HeartbeatRequest) {})
		})},
		{API: api, Name: "static", From: 3, Run: withMembers(api, func(c *cast) {
			a, b := c.static("g", "a", "i"), c.static("g", "b", "j")
			settle(a, b)
			a.beat("stable")
			swapped := *a
			swapped.instance = b.instance
			swapped.beat("the instance of another")
			swapped.id = "stranger"
			swapped.beat("a strange id and a known instance")
			swapped.id = ""
			swapped.beat("no id and a known instance")
			bare := *a
			bare.instance = nil
			bare.beat("without its instance")
			old := *a
			a.id = ""
			a.join("restarted").end()
			old.beat("the old id")
			old.generation = 77
			old.beat("the old id and another generation")
		})},
	}
}

func leaveCases() []Case {
	const api = kmsg.LeaveGroup
	return []Case{
		{API: api, Name: "one by one", Run: withMembers(api, func(c *cast) {
			a, b, d := c.member("g", "a"), c.member("g", "b"), c.member("g", "d")
			ask := func(what string, change func(r *kmsg.LeaveGroupRequest)) {
				r := a.leaveRequest()
				change(r)
				a.ask(what, r)
			}
			a.id = "stranger"
			ask("a group that is not there", func(r *kmsg.LeaveGroupRequest) {})
			ask("no group", func(r *kmsg.LeaveGroupRequest) { r.Group = "" })
			a.id = ""
			a.join("for an id").end()
			ask("a pending member", func(r *kmsg.LeaveGroupRequest) {})
			ask("it once more", func(r *kmsg.LeaveGroupRequest) {})
			c.describe("empty", "g")
			a.id = ""
			settle(a, b, d)
			ask("a strange id", func(r *kmsg.LeaveGroupRequest) { r.MemberID, r.Members[0].MemberID = "stranger", "stranger" })
			ask("no id", func(r *kmsg.LeaveGroupRequest) { r.MemberID, r.Members[0].MemberID = "", "" })
			d.leave("a follower")
			c.describe("preparing", "g")
			w := b.join("the other follower again").holds()
			ask("the leader", func(r *kmsg.LeaveGroupRequest) {})
			w.end()
			b.leave("the last")
			c.describe("empty", "g")
			ask("in an empty group", func(r *kmsg.LeaveGroupRequest) {})
			a.id = ""
			a.enter("a new generation").end()
			a.leave("before the sync")
			c.describe("empty", "g")
		})},
		{API: api, Name: "what waits when its member leaves", Run: withMembers(api, func(c *cast) {
			a, b := c.member("g", "a"), c.member("g", "b")
			settle(a)
			w := b.enter("join").holds()
			gone := b.leaveRequest()
			a.ask("leave for it", gone)
			w.end()
			c.describe("preparing", "g")
			a.join("the leader").end()
			assign(a)
			b.id = ""
			w = b.enter("join").holds()
			a.join("the leader").end()
			w.end()
			w = b.sync("follower syncs").holds()
			a.ask("leave for it", b.leaveRequest())
			w.holds()
			a.beat("heartbeat")
		})},
		{API: api, Name: "batches", From: 3, Run: withMembers(api, func(c *cast) {
			a, b, d, e := c.static("g", "a", "i"), c.static("g", "b", "j"), c.member("g", "d"), c.member("g", "e")
			settle(a, b, d, e)
			ask := func(what string, who ...*member) {
				r := kmsg.NewPtrLeaveGroupRequest()
				r.Group = a.group
				for _, m := range who {
					one := kmsg.NewLeaveGroupRequestMember()
					one.MemberID, one.InstanceID, one.Reason = m.id, m.instance, kmsg.StringPtr("it is time")
					r.Members = append(r.Members, one)
				}
				a.ask(what, r)
			}
			named := func(id, instance string) *member {
				m := &member{id: id}
				if instance != "" {
					m.instance = &instance
				}
				return m
			}
			ask("nobody")
			ask("only bad ones", named("", ""), named("", "none"), named("stranger", ""), named("stranger", "i"), named(d.id, "i"), named(d.id, "none"))
			a.beat("nothing happened")
			ask("an instance, a member, and it again", named("", "j"), d, d, named("", "j"))
			c.describe("preparing", "g")
			a.beat("heartbeat")
			ask("one twice by both names", a, named("", "i"), e)
			c.describe("empty", "g")
			r := kmsg.NewPtrLeaveGroupRequest()
			r.Group = c.group("none")
			for _, m := range []*member{named("", "i"), named("x", ""), named("x", "i")} {
				one := kmsg.NewLeaveGroupRequestMember()
				one.MemberID, one.InstanceID = m.id, m.instance
				r.Members = append(r.Members, one)
			}
			a.ask("a group that is not there", r)
		})},
		{API: api, Name: "a static member by its id", From: 3, Run: withMembers(api, func(c *cast) {
			a, b := c.static("g", "a", "i"), c.static("g", "b", "j")
			settle(a, b)
			bare := *b
			bare.instance = nil
			bare.leave("without its instance")
			c.describe("preparing", "g")
			a.beat("heartbeat")
			a.join("alone").end()
		})},
	}
}
