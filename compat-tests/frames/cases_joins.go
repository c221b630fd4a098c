package frames

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// joinCases are JoinGroup but for static members: ids, protocols, and when a join
// waits for whom.
func joinCases() []Case {
	const api = kmsg.JoinGroup
	return []Case{
		{API: api, Name: "one member", Run: withMembers(api, func(c *cast) {
			a := c.member("g", "a")
			a.enter("join").end()
			a.join("the same before the sync").end()
			c.describe("completing", "g")
			a.sync("assign", "a=all").end()
			c.describe("stable", "g")
			a.join("the leader again").end() // a generation of its own
			a.sync("assign nothing").end()
			a.protocols = []string{"sticky:new", "range:new"}
			a.join("with other protocols").end()
			a.beat("heartbeat")
			a.leave("leave")
			a.join("after leaving").end()
			a.id, a.ids = "", 0
			a.enter("join once more").end()
			c.describe("completing again", "g")
		})},
		{API: api, Name: "refused", Run: withMembers(api, func(c *cast) {
			a := c.member("g", "a")
			ask := func(what string, change func(r *kmsg.JoinGroupRequest)) {
				r := a.joinRequest()
				change(r)
				a.ask(what, r)
			}
			ask("no group", func(r *kmsg.JoinGroupRequest) { r.Group = "" })
			ask("no group and a short session", func(r *kmsg.JoinGroupRequest) { r.Group, r.SessionTimeoutMillis = "", 1 })
			ask("a short session", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 5999 })
			ask("no session", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 0 })
			ask("a negative session", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = -1 })
			ask("a long session", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1800001 })
			ask("an id in a group that is not there", func(r *kmsg.JoinGroupRequest) { r.MemberID = "stranger" })
			ask("an id and a short session", func(r *kmsg.JoinGroupRequest) { r.MemberID, r.SessionTimeoutMillis = "stranger", 1 })
			c.describe("still not there", "g")
			ask("no protocols", func(r *kmsg.JoinGroupRequest) { r.Protocols = r.Protocols[:0] })
			c.describe("there after a refusal", "g")
			ask("no protocol type", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "" })
			ask("an id in an empty group", func(r *kmsg.JoinGroupRequest) { r.MemberID = "stranger" })
			ask("an id in an empty group, no protocols", func(r *kmsg.JoinGroupRequest) { r.MemberID, r.Protocols = "stranger", r.Protocols[:0] })
			ask("protocols without a name", func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "" })
			c.describe("with a pending member, or a member", "g")
		})},
		{API: api, Name: "mismatch", Run: withMembers(api, func(c *cast) {
			a, b := c.member("g", "a", "range:a", "sticky:a"), c.member("g", "b")
			a.enter("join").end()
			ask := func(what string, change func(r *kmsg.JoinGroupRequest)) {
				r := b.joinRequest()
				change(r)
				b.ask(what, r)
			}
			ask("another type", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" })
			ask("no type", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "" })
			ask("nothing in common", func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "roundrobin" })
			ask("no protocols", func(r *kmsg.JoinGroupRequest) { r.Protocols = r.Protocols[:0] })
			ask("an id that was not given out", func(r *kmsg.JoinGroupRequest) { r.MemberID = "stranger" })
			ask("a strange id and nothing in common", func(r *kmsg.JoinGroupRequest) { r.MemberID, r.Protocols[0].Name = "stranger", "roundrobin" })
			a.sync("assign").end()
			ask("another type, stable", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" })
			ask("an id that was not given out, stable", func(r *kmsg.JoinGroupRequest) { r.MemberID = "stranger" })
			a.protocolType = "connect"
			a.join("the only member with another type").end()
			a.protocolType, a.protocols = "consumer", []string{"roundrobin:a"}
			a.join("the only member with other protocols").end()
			a.protocols = []string{}
			a.join("the only member without protocols").end()
			c.describe("in the end", "g")
		})},
		{API: api, Name: "two members", Run: withMembers(api, func(c *cast) {
			a, b := c.member("g", "a"), c.member("g", "b")
			settle(a)
			w := b.enter("join").holds()
			c.describe("preparing", "g")
			a.beat("heartbeat while preparing")
			a.sync("sync while preparing").end()
			a.join("join again").end()
			w.end()
			b.sync("follower syncs first").holds()
			c.describe("completing", "g")
		})},
		{API: api, Name: "three members", Run: withMembers(api, func(c *cast) {
			a, b, d := c.member("g", "a"), c.member("g", "b"), c.member("g", "d")
			settle(a, b, d)
			c.describe("stable", "g")
			b.join("a follower again").end()
			b.beat("heartbeat")
			d.protocols = []string{"range:new"}
			w := d.join("a follower with other metadata").holds()
			w2 := a.join("the leader").holds()
			b.beat("heartbeat while preparing")
			b.join("the last").end()
			w.end()
			w2.end()
			w3 := b.sync("follower syncs")
			w4 := d.sync("another one")
			w3.holds()
			w4.holds()
			a.sync("assign", "d=half", "b=other half").end()
			w3.end()
			w4.end()
			a.leave("the leader leaves")
			b.beat("heartbeat after that")
			w5 := d.join("join again").holds()
			w6 := b.join("and the other")
			w6.end()
			w5.end()
			c.electAny(w5, w6)
			c.describe("completing", "g")
		})},
		{API: api, Name: "votes", Run: withMembers(api, func(c *cast) {
			a := c.member("g", "a", "x:a", "y:a", "z:a")
			b := c.member("g", "b", "y:b", "z:b", "x:b")
			d := c.member("g", "d", "y:d", "x:d")
			settle(a, b, d)
			c.describe("stable", "g")
			// Only what all support can win: z has two votes but d lacks it.
			e, f, h := c.member("h", "e", "z:e", "x:e"), c.member("h", "f", "z:f", "x:f"), c.member("h", "h", "x:h")
			settle(e, f, h)
			c.describe("stable", "h")
		})},
		{API: api, Name: "ties", From: 9, Run: withMembers(api, func(c *cast) {
			// Of protocols with as many votes Kafka takes the first of a hash map; no two of
			// these share a place there.
			for i, names := range [][]string{
				{"range", "roundrobin"}, {"range", "sticky"}, {"range", "cooperative-sticky"}, {"sticky", "cooperative-sticky"},
				{"roundrobin", "sticky"}, {"consumer", "range"}, {"sessioned", "compatible"},
				{"a", "b"}, {"b", "q"}, {"é", "😀"}, {"c", "b", "a"}, {"range", "roundrobin", "sticky"},
				{"p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13"},
				{"p13", "p12", "p11", "p10", "p9", "p8", "p7", "p6", "p5", "p4", "p3", "p2", "p1", "p0"},
			} {
				for _, turned := range []bool{false, true} {
					if turned {
						slices.Reverse(names)
					}
					group := fmt.Sprint("g", i, turned)
					var ms []*member
					for first := range names {
						protocols := make([]string, 0, len(names))
						for j := range names {
							protocols = append(protocols, names[(first+j)%len(names)]+":x")
						}
						ms = append(ms, c.member(group, fmt.Sprint("m", first), protocols...))
					}
					gather(ms...)
				}
			}
		})},
		{API: api, Name: "completing", Run: withMembers(api, func(c *cast) {
			a, b := c.member("g", "a"), c.member("g", "b")
			gather(a, b)
			a.join("the leader unchanged").end()
			b.join("the follower unchanged").end()
			w := b.sync("follower syncs").holds()
			a.protocols = []string{"range:new"}
			w2 := a.join("the leader with other metadata").holds()
			w.end() // it is told of the rebalance
			b.join("the follower").end()
			w2.end()
			w3 := b.sync("follower syncs").holds()
			d := c.member("g", "d")
			w4 := d.enter("a new member").holds()
			w3.end()
			b.leave("the follower leaves")
			a.join("the leader").end()
			w4.end()
			c.describe("completing", "g")
		})},
		{API: api, Name: "pending members", From: 4, Run: withMembers(api, func(c *cast) {
			a, b, d := c.member("g", "a"), c.member("g", "b"), c.member("g", "d")
			a.join("for an id").end()
			c.describe("only a pending member", "g")
			b.join("another for an id").end()
			a.beat("heartbeat of a pending member")
			a.sync("sync of a pending member").end()
			a.join("join").holds().end() // nobody waits for b in an initial rebalance
			a.sync("assign", "a=all").end()
			d.join("one more for an id").end()
			a.beat("no rebalance yet")
			w := d.join("join").holds()
			w2 := a.join("the leader, while one is pending").holds()
			b.join("the last").end()
			w.end()
			w2.end()
			assign(a, b, d)
			e := c.member("g", "e")
			e.join("for an id").end()
			w = b.join("follower unchanged").holds()
			w.end()
			b.protocols = []string{"range:new"}
			w = b.join("follower changed").holds()
			w2 = a.join("leader")
			w3 := d.join("the third").holds() // all are there but the pending one
			e.leave("the pending member leaves")
			w.end()
			w2.end()
			w3.end()
		})},
		{API: api, Name: "members that change", Run: withMembers(api, func(c *cast) {
			a, b := c.member("g", "a", "x:a", "y:a"), c.member("g", "b", "x:b", "y:b")
			settle(a, b)
			b.protocols = []string{"z:b"}
			b.join("nothing in common any more").end()
			b.protocols, b.protocolType = []string{"x:b"}, "connect"
			b.join("another type").end()
			b.protocols, b.protocolType = []string{"y:b"}, "consumer"
			w := b.join("only the second protocol").holds()
			a.protocols = []string{"x:a"}
			a.join("the leader without it").end()
			a.protocols = []string{"x:a", "y:new"}
			a.join("the leader with it").end()
			w.end()
			c.describe("completing", "g")
			assign(a, b)
			c.describe("stable", "g")
			a.leave("leave")
			b.leave("leave")
			d := c.member("g", "d")
			d.protocolType = "connect"
			settle(d)
			c.describe("another type of group", "g")
			d.session, d.balance = 10000, 20000
			d.join("with other timeouts").end()
			d.session = 1
			d.join("with a bad session timeout").end()
		})},
		{API: api, Name: "a protocol twice", From: 9, Run: withMembers(api, func(c *cast) {
			a := c.member("g", "a", "x:first", "x:second")
			a.enter("join").holds()
		})},
		{API: api, Name: "pending members refused", From: 4, Run: withMembers(api, func(c *cast) {
			a, b := c.member("g", "a"), c.member("g", "b")
			settle(a)
			b.join("for an id").end()
			id := b.id
			b.protocols = []string{"sticky:b"}
			b.join("nothing in common").end()
			b.protocols, b.protocolType = []string{"range:b"}, "connect"
			b.join("another type").end()
			b.protocolType = "consumer"
			w := b.join("as it should").holds()
			a.join("the leader").end()
			w.end()
			if b.id != id {
				c.Fail("the id changed from %s to %s", id, b.id)
			}
			d := c.member("g", "d")
			d.join("for an id, not used").end()
			a.sync("assign", "a=x", "a=y", "b=z").end()
			b.sync("sync").end()
			d.leave("leave")
			d.join("after leaving").end()
		})},
		{API: api, Name: "offsets but no members", Run: withTopic(api, func(c *cast) {
			c.Do(8, c.commitRequest("g", "t/0"))
			a := c.member("g", "a")
			a.id, a.generation = "stranger", 0
			a.join("a strange id").end()
			a.beat("heartbeat")
			a.sync("sync").end()
			a.leave("leave")
			a.id = ""
			a.enter("join").end()
			assign(a)
			c.describe("stable", "g")
			c.fetched("offsets", "g", "t")
		})},
		{API: api, Name: "a second join while the first waits", From: 5, To: 5, Run: withMembers(api, func(c *cast) {
			a, b := c.member("g", "a"), c.member("g", "b")
			settle(a)
			first := b.enter("join").holds()
			again := *b
			again.conn = nil
			c.members = append(c.members, &again)
			w := again.join("the same from another connection").holds()
			first.holds()
			a.join("the leader").end()
			w.end()
		})},
		{API: api, Name: "rebalance timeout", From: 9, Run: withMembers(api, func(c *cast) {
			a, b, d := c.member("g", "a"), c.member("g", "b"), c.static("g", "d", "i")
			a.balance, b.balance, d.balance = 3000, 1000, 500
			settle(a, b, d)
			e := c.member("g", "e")
			e.balance = 1000
			w := e.enter("a new member")
			a.await("PreparingRebalance", 4)
			w2 := b.join("one who was there").holds()
			time.Sleep(1100 * time.Millisecond)
			w2.holds() // the largest timeout counts
			w2.end()
			w.end()
			c.electAny(w, w2)
			a.beat("dropped")
			d.beat("a static one stays")
			c.describe("without a", "g")
		})},
		{API: api, Name: "no sync in time", From: 9, Run: withMembers(api, func(c *cast) {
			a, b := c.member("g", "a"), c.member("g", "b")
			a.balance, b.balance = 1500, 1000
			gather(a, b)
			w := b.sync("follower syncs").holds()
			time.Sleep(1600 * time.Millisecond)
			w.end() // the leader did not: it is out
			a.beat("dropped")
			b.beat("rebalance")
			b.join("join").end()
			c.describe("completing", "g")
		})},
		{API: api, Name: "sessions", From: 9, Run: withMembers(api, func(c *cast) {
			a, b, d := c.member("g", "a"), c.member("g", "b"), c.member("h", "d")
			a.session, b.session, d.session = 6000, 60000, 6000
			d.join("for an id that is not used").end()
			settle(a, b)
			time.Sleep(6 * time.Second)
			b.await("PreparingRebalance", 1)
			b.beat("the other is gone")
			d.join("an id that expired").end()
			b.join("alone").end()
			c.describe("completing", "g")
		})},
		{API: api, Name: "session of version 0", To: 0, Run: withMembers(api, func(c *cast) {
			// The session timeout is the rebalance timeout too.
			a, b := c.member("g", "a"), c.member("g", "b")
			a.session, b.session = 6000, 6000
			settle(a)
			w := b.enter("join").holds()
			for range 4 {
				time.Sleep(time.Second)
				a.beat("heartbeat")
			}
			w.end()
			a.beat("dropped")
		})},
	}
}

// staticCases are members with an instance id (KIP-345, KIP-814).
func staticCases() []Case {
	const api = kmsg.JoinGroup
	return []Case{
		{API: api, Name: "static leader", From: 5, Run: withMembers(api, func(c *cast) {
			a := c.static("g", "a", "i")
			a.join("join").end() // no id is asked for
			a.sync("assign", "a=all").end()
			c.describe("stable", "g")
			old := *a
			old.name = "old"
			a.id = ""
			a.join("restarted").end()
			old.beat("the old id is fenced")
			old.join("so it is when joining").end()
			old.sync("and when it syncs").end()
			old.leave("and when it leaves")
			noInstance := old
			noInstance.instance = nil
			noInstance.beat("without the instance it is unknown")
			a.sync("stored").end()
			a.beat("heartbeat")
			other := *a
			other.instance = kmsg.StringPtr("j")
			other.beat("an instance that is not there")
			other.join("join with it").end()
			a.id, a.protocols = "", []string{"sticky:b", "range:b"}
			a.join("restarted with other protocols").end()
			c.describe("completing or stable", "g")
			a.join("by its id").end()
			if a.conn != nil {
				c.describe("in the end", "g")
			}
		})},
		{API: api, Name: "static leader that changes", From: 5, Run: withMembers(api, func(c *cast) {
			a, b := c.static("g", "a", "i", "x:a", "y:a"), c.static("g", "b", "j", "x:b", "y:b")
			settle(a, b)
			a.id, a.protocols = "", []string{"x:new", "y:a"}
			a.join("restarted with other metadata").end()
			a.sync("sync").end()
			b.sync("the follower").end()
			swapped := *a
			swapped.instance = b.instance
			swapped.join("the instance of another").end()
			bare := *b
			bare.instance = nil
			bare.join("the follower without its instance").end()
			b.beat("heartbeat")
			c.describe("after that", "g")
			a.id, a.protocolType = "", "connect"
			a.join("restarted with another type").end()
			a.protocolType, a.protocols = "consumer", []string{"z:a"}
			a.join("restarted with nothing in common").end()
			b.beat("heartbeat")
		})},
		{API: api, Name: "static sessions", From: 9, Run: withMembers(api, func(c *cast) {
			a, b := c.static("g", "a", "i"), c.static("g", "b", "j")
			a.session, b.session = 6000, 60000
			settle(a, b)
			time.Sleep(5 * time.Second)
			a.id = ""
			a.join("restarted in time").end() // which starts its session anew
			time.Sleep(1500 * time.Millisecond)
			b.beat("nobody is gone")
			time.Sleep(4 * time.Second)
			b.await("PreparingRebalance", 1)
			b.beat("the other is gone")
			b.join("alone").end()
			a.id = ""
			w := a.join("back as somebody new").holds()
			b.join("with it").end()
			w.end()
		})},
		{API: api, Name: "static follower", From: 5, Run: withMembers(api, func(c *cast) {
			a, b := c.static("g", "a", "i"), c.static("g", "b", "j")
			settle(a, b)
			b.id = ""
			b.join("the follower restarted").end()
			a.beat("no rebalance")
			b.sync("it gets what it had").end()
			b.id, b.protocols = "", []string{"range:new"}
			b.join("restarted with other metadata").end()
			a.beat("heartbeat")
			c.describe("stable", "g")
			b.id, b.protocols = "", []string{"sticky:b", "range:b"}
			b.join("restarted with another first choice").end()
			a.beat("heartbeat")
			c.describe("after that", "g")
			a.id = ""
			a.join("the leader restarted").end()
			b.beat("heartbeat")
			a.sync("sync").end()
		})},
		{API: api, Name: "static while rebalancing", From: 5, Run: withMembers(api, func(c *cast) {
			a, b := c.static("g", "a", "i"), c.static("g", "b", "j")
			settle(a)
			w := b.join("join").holds()
			again := c.static("g", "c", "j")
			w2 := again.join("the same instance from elsewhere").holds()
			w.end() // fenced
			a.join("the leader").end()
			w2.end()
			w3 := again.sync("sync").holds()
			third := c.static("g", "d", "j")
			w4 := third.join("once more, before the assignment").holds()
			w3.end() // fenced
			a.beat("heartbeat")
			a.join("the leader").end()
			w4.end()
			c.describe("completing", "g")
		})},
		{API: api, Name: "static and an id to come back with", From: 5, To: 9, Run: withMembers(api, func(c *cast) {
			a := c.member("g", "a")
			a.join("for an id").end()
			a.instance = kmsg.StringPtr("i")
			a.join("with an instance all at once").end()
		})},
	}
}
