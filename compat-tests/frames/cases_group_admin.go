package frames

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupAdminCases are what tools ask about groups, and who coordinates them.
func groupAdminCases() []Case {
	var all []Case
	all = append(all, coordinatorCases()...)
	all = append(all, describeGroupCases()...)
	all = append(all, listGroupCases()...)
	all = append(all, deleteGroupCases()...)
	return all
}

func coordinatorCases() []Case {
	const api = kmsg.FindCoordinator
	find := func(s *Side, what string, kind int8, keys ...string) {
		r := kmsg.NewPtrFindCoordinatorRequest()
		r.CoordinatorType, r.CoordinatorKeys = kind, keys
		if len(keys) > 0 {
			r.CoordinatorKey = keys[0]
		}
		s.Ask(what, r)
	}
	return []Case{
		{API: api, Name: "groups", Run: func(s *Side) {
			find(s, "one", 0, "g")
			find(s, "no name", 0, "")
			if s.Version >= 4 {
				find(s, "some", 0, "g", "h", "", "i")
				find(s, "one twice", 0, "g", "g")
				find(s, "none", 0)
			}
		}},
		{API: api, Name: "types", From: 1, Run: func(s *Side) {
			find(s, "unknown", 3, "g")
			find(s, "negative", -1, "g")
			find(s, "share, malformed", 2, "g")
			find(s, "share, malformed id", 2, "g:x:0")
			find(s, "share, malformed partition", 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:x")
			find(s, "share, negative partition", 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:-1")
			find(s, "share, group with a colon", 2, "g:h:AAAAAAAAAAAAAAAAAAAAAQ:0")
			find(s, "share, blank group", 2, " :AAAAAAAAAAAAAAAAAAAAAQ:0")
			find(s, "share, padded id", 2, "g:AAAAAAAAAAAAAAAAAAAAAQ==:0")
			find(s, "share, half padded id", 2, "g:AAAAAAAAAAAAAAAAAAAAAQ=:0")
			find(s, "share, long id", 2, "g:AAAAAAAAAAAAAAAAAAAAAQAA:0")
			find(s, "share, plus sign", 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:+1")
			find(s, "share, large partition", 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:2147483648")
			find(s, "share, an end", 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:0:")
			find(s, "share, only colons before", 2, "::AAAAAAAAAAAAAAAAAAAAAQ:0")
			find(s, "share, an empty part", 2, "g::AAAAAAAAAAAAAAAAAAAAAQ:0")
			find(s, "share, no partition", 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:")
			find(s, "share, blank id", 2, "g: :0")
			find(s, "share, blank partition", 2, "g:AAAAAAAAAAAAAAAAAAAAAQ: ")
			find(s, "share, no group", 2, ":AAAAAAAAAAAAAAAAAAAAAQ:0")
			if s.Version >= 4 {
				find(s, "unknown, two keys", 9, "a", "b")
			}
		}},
		{API: api, Name: "words", From: 1, Run: func(s *Side) {
			for kind := int8(0); kind < 5; kind++ {
				if kind == 1 {
					continue // the case below
				}
				r := kmsg.NewPtrFindCoordinatorRequest()
				r.CoordinatorType, r.CoordinatorKey, r.CoordinatorKeys = kind, "words", []string{"words"}
				o, _ := s.Do(s.Version, r).Response.(*kmsg.FindCoordinatorResponse)
				if o == nil {
					s.Fail("no answer")
					return
				}
				words := o.ErrorMessage
				for _, one := range o.Coordinators {
					words = one.ErrorMessage
				}
				s.Check(fmt.Sprint("words for type ", kind), words)
			}
		}},
		{API: api, Name: "transactions", From: 1, Run: func(s *Side) {
			find(s, "a transactional id", 1, "x")
			find(s, "an empty one", 1, "")
		}},
	}
}

func describeGroupCases() []Case {
	const api = kmsg.DescribeGroups
	return []Case{
		{API: api, Name: "every state", Run: withTopic(api, func(c *cast) {
			c.describe("none")
			c.describe("one that is not there", "none")
			a, b, s := c.member("g", "a"), c.member("g", "b"), c.static("h", "s", "i", "range:s", "sticky:s2")
			a.join("for an id").end()
			c.describe("pending", "g")
			a.join("join").end()
			c.describe("completing", "g")
			assign(a)
			c.describe("stable", "g")
			w := b.enter("another joins")
			a.await("PreparingRebalance", 2)
			c.describe("preparing", "g")
			a.join("the leader").end()
			w.end()
			c.describe("completing with two", "g")
			assign(a, b)
			settle(s)
			c.describe("some, one twice", "g", "none", "h", "g")
			a.leave("leave")
			c.describe("preparing without one", "g")
			b.leave("leave")
			c.describe("empty", "g")
			c.Do(8, c.commitRequest("offsets", "t/0"))
			c.describe("only offsets", "offsets")
			r := kmsg.NewPtrDescribeGroupsRequest()
			r.Groups = []string{c.group("g")}
			c.Ask("without operations", r)
		})},
		{API: api, Name: "words and addresses", Run: withMembers(api, func(c *cast) {
			a := c.member("g", "a")
			settle(a)
			r := kmsg.NewPtrDescribeGroupsRequest()
			r.Groups = []string{c.group("g"), c.group("none")}
			o, _ := c.Do(c.Version, r).Response.(*kmsg.DescribeGroupsResponse)
			if o == nil {
				c.Fail("no answer")
				return
			}
			slices.SortFunc(o.Groups, func(a, b kmsg.DescribeGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
			for _, g := range o.Groups {
				c.Check("words for "+g.Group, withoutPrefix(c.Side, g.ErrorMessage))
				for _, m := range g.Members {
					c.Check("host", m.ClientHost)
					c.Check("the id begins with the client's", strings.HasPrefix(m.MemberID, "frame-"))
					c.Check("and has the length", len(m.MemberID))
				}
			}
		})},
		{API: api, Name: "no name", Alone: true, Run: withTopic(api, func(c *cast) {
			c.forgetNameless()
			r := kmsg.NewPtrDescribeGroupsRequest()
			r.Groups = []string{""}
			c.Ask("not there", r)
			commit := c.commitRequest("", "t/0")
			commit.Group = ""
			c.Do(8, commit)
			c.Ask("there", r)
		})},
	}
}

func listGroupCases() []Case {
	const api = kmsg.ListGroups
	return []Case{
		{API: api, Name: "by state and type", Run: withTopic(api, func(c *cast) {
			list := func(what string, states, types []string) {
				r := kmsg.NewPtrListGroupsRequest()
				r.StatesFilter, r.TypesFilter = states, types
				c.AskFor(what, r, func(resp kmsg.Response) {
					l := resp.(*kmsg.ListGroupsResponse)
					l.Groups = slices.DeleteFunc(l.Groups, func(g kmsg.ListGroupsResponseGroup) bool { return !strings.HasPrefix(g.Group, c.Prefix) })
				})
			}
			list("nothing yet", nil, nil)
			stable, completing, preparing, late, left := c.member("stable", "a"), c.member("completing", "b"), c.member("preparing", "d"), c.member("preparing", "e"), c.member("left", "f")
			stable.protocolType = "connect"
			settle(stable)
			gather(completing)
			settle(preparing)
			late.enter("another joins")
			preparing.await("PreparingRebalance", 2)
			settle(left)
			left.leave("leave")
			c.Do(8, c.commitRequest("offsets", "t/0"))
			c.member("pending", "h").join("for an id").end()
			list("all", nil, nil)
			if c.Version >= 4 {
				list("stable", []string{"Stable"}, nil)
				list("in any case", []string{"sTABLE", "EMPTY"}, nil)
				list("rebalancing", []string{"PreparingRebalance", "CompletingRebalance"}, nil)
				list("dead", []string{"Dead"}, nil)
				list("unknown", []string{"Nonsense"}, nil)
				list("unknown and known", []string{"Nonsense", "Empty"}, nil)
				list("no name", []string{""}, nil)
			}
			if c.Version >= 5 {
				list("classic", nil, []string{"classic"})
				list("classic in any case", nil, []string{"CLASSIC", "Consumer"})
				list("consumer", nil, []string{"consumer"})
				list("unknown type", nil, []string{"nonsense"})
				list("unknown and known type", nil, []string{"nonsense", "classic"})
				list("no type", nil, []string{""})
				list("both", []string{"Stable"}, []string{"classic"})
				list("both, nothing", []string{"Stable"}, []string{"share", "streams"})
			}
		})},
	}
}

func deleteGroupCases() []Case {
	const api = kmsg.DeleteGroups
	return []Case{
		{API: api, Name: "every state", Run: withTopic(api, func(c *cast) {
			del := func(what string, groups ...string) {
				r := kmsg.NewPtrDeleteGroupsRequest()
				for _, g := range groups {
					r.Groups = append(r.Groups, c.group(g))
				}
				c.Ask(what, r)
			}
			del("none")
			del("one that is not there", "none")
			a, b := c.member("g", "a"), c.member("g", "b")
			a.join("for an id").end()
			del("pending", "g")
			a.join("the id is forgotten").end()
			a.id = ""
			a.enter("join").end()
			del("completing", "g")
			assign(a)
			del("stable", "g")
			w := b.enter("another joins").holds()
			del("preparing", "g")
			a.leave("leave")
			w.end()
			b.leave("leave")
			c.Do(8, c.commitRequest("offsets", "t/0"))
			del("empty and two more", "g", "none", "offsets")
			c.describe("deleted", "g", "offsets")
			c.fetched("deleted", "offsets", "t")
			a.beat("heartbeat")
			a.id = ""
			a.enter("join").end()
			a.leave("leave")
			c.Do(8, c.commitRequest("offsets", "t/0"))
			del("one twice", "g", "offsets", "g")
		})},
		{API: api, Name: "words", Run: withMembers(api, func(c *cast) {
			a := c.member("g", "a")
			settle(a)
			r := kmsg.NewPtrDeleteGroupsRequest()
			r.Groups = []string{c.group("g"), c.group("none")}
			o, _ := c.Do(c.Version, r).Response.(*kmsg.DeleteGroupsResponse)
			if o == nil {
				c.Fail("no answer")
				return
			}
			slices.SortFunc(o.Groups, func(a, b kmsg.DeleteGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
			for _, g := range o.Groups {
				c.Check("words for "+g.Group, withoutPrefix(c.Side, g.ErrorMessage))
			}
		})},
		{API: api, Name: "no name", Alone: true, Run: withTopic(api, func(c *cast) {
			c.forgetNameless()
			r := kmsg.NewPtrDeleteGroupsRequest()
			r.Groups = []string{""}
			c.Ask("not there", r)
			commit := c.commitRequest("", "t/0")
			commit.Group = ""
			c.Do(8, commit)
			c.Ask("there", r)
		})},
	}
}

// withoutPrefix is a message without what makes this run's names unique.
func withoutPrefix(s *Side, message *string) any {
	if message == nil {
		return nil
	}
	return strings.ReplaceAll(*message, s.Prefix, "")
}

// forgetNameless deletes the group whose name is empty: offsets may be committed
// to it, and there is only one of it.
func (c *cast) forgetNameless() {
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = []string{""}
	c.Do(2, r)
}
