package frames

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetCases are committed offsets.
func offsetCases() []Case {
	return append(commitCases(), fetchOffsetCases()...)
}

// commitRequest commits what stands in places, each TOPIC/PARTITION; the offset
// counts up from 10. Topics that come one after another are one topic.
func (c *cast) commitRequest(group string, places ...string) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group = c.group(group)
	for i, p := range places {
		name, partition := place(p)
		if n := len(r.Topics); n == 0 || r.Topics[n-1].Topic != c.Topic(name) {
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic = c.Topic(name)
			if c.Version >= 10 {
				t.TopicID = c.topicID(name)
			}
			r.Topics = append(r.Topics, t)
		}
		t := &r.Topics[len(r.Topics)-1]
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch = partition, int64(10+i), int32(i)
		rp.Metadata = kmsg.StringPtr("m")
		t.Partitions = append(t.Partitions, rp)
	}
	return r
}

func place(p string) (topic string, partition int32) {
	name, n, _ := strings.Cut(p, "/")
	if strings.HasPrefix(n, "-") {
		return name, -1
	}
	for _, d := range n {
		partition = partition*10 + d - '0'
	}
	return name, partition
}

// fetched records what is committed by a group for topics.
func (c *cast) fetched(what, group string, topics ...string) {
	r := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = c.group(group)
	for _, name := range topics {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = c.Topic(name), []int32{0, 1, 2}
		g.Topics = append(g.Topics, t)
	}
	r.Groups = append(r.Groups, g)
	c.AskIn(9, what, r)
}

// withTopic runs a case that has a topic t of two partitions.
func withTopic(api kmsg.Key, run func(c *cast)) func(*Side) {
	return withMembers(api, func(c *cast) {
		c.createTopic("t", 2)
		run(c)
	})
}

func commitCases() []Case {
	const api = kmsg.OffsetCommit
	return []Case{
		{API: api, Name: "without members", From: 1, Run: withTopic(api, func(c *cast) {
			ask := func(what string, change func(r *kmsg.OffsetCommitRequest)) {
				r := c.commitRequest("g", "t/0", "t/1")
				if change != nil {
					change(r)
				}
				c.Ask(what, r)
			}
			ask("good", nil)
			c.fetched("both", "g", "t")
			c.describe("only offsets", "g")
			ask("negative offsets", func(r *kmsg.OffsetCommitRequest) {
				r.Topics[0].Partitions[0].Offset, r.Topics[0].Partitions[1].Offset = -1, -77
				r.Topics[0].Partitions[0].LeaderEpoch, r.Topics[0].Partitions[1].LeaderEpoch = -1, -5
			})
			c.fetched("those", "g", "t")
			ask("metadata", func(r *kmsg.OffsetCommitRequest) {
				r.Topics[0].Partitions[0].Metadata = nil
				r.Topics[0].Partitions[1].Metadata = kmsg.StringPtr(strings.Repeat("m", 4096))
			})
			c.fetched("metadata", "g", "t")
			ask("too much metadata for one", func(r *kmsg.OffsetCommitRequest) {
				r.Topics[0].Partitions[1].Metadata = kmsg.StringPtr(strings.Repeat("m", 4097))
				r.Topics[0].Partitions[1].Offset = 99
			})
			c.fetched("the other", "g", "t")
			if c.Version >= 2 { // Kafka 3.9 takes a partition once
				ask("more than the log takes as one batch", func(r *kmsg.OffsetCommitRequest) {
					one := r.Topics[0].Partitions[0]
					one.Metadata, one.Offset = kmsg.StringPtr(strings.Repeat("m", 4096)), 98
					r.Topics[0].Partitions = slices.Repeat([]kmsg.OffsetCommitRequestTopicPartition{one}, 268)
				})
				c.fetched("none of it", "g", "t")
			}
			ask("wide characters", func(r *kmsg.OffsetCommitRequest) {
				r.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("ä", 4096))
				r.Topics[0].Partitions[1].Metadata = kmsg.StringPtr(strings.Repeat("😀", 2049))
			})
			ask("a partition twice", func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[1].Partition = 0 })
			c.fetched("the later", "g", "t")
			ask("a topic twice", func(r *kmsg.OffsetCommitRequest) { r.Topics = append(r.Topics, r.Topics[0]) })
			ask("a member id", func(r *kmsg.OffsetCommitRequest) { r.MemberID = "stranger" })
			ask("a generation", func(r *kmsg.OffsetCommitRequest) { r.Generation = 1 })
			ask("generation 0", func(r *kmsg.OffsetCommitRequest) { r.Generation = 0 })
			ask("a generation and an id", func(r *kmsg.OffsetCommitRequest) { r.Generation, r.MemberID = 1, "stranger" })
			ask("no topics", func(r *kmsg.OffsetCommitRequest) { r.Topics = r.Topics[:0] })
			ask("no partitions", func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions = r.Topics[0].Partitions[:0] })
			if c.Version >= 7 {
				ask("an instance", func(r *kmsg.OffsetCommitRequest) { r.InstanceID = kmsg.StringPtr("i") })
			}
		})},
		{API: api, Name: "what is not there", From: 1, Run: withTopic(api, func(c *cast) {
			c.Ask("a partition", c.commitRequest("g", "t/2"))
			c.Ask("a negative partition", c.commitRequest("g", "t/-1"))
			c.Ask("one good, one bad", c.commitRequest("g", "t/1", "t/2", "t/0", "t/3"))
			r := c.commitRequest("g", "no/0")
			r.Topics[0].Partitions = r.Topics[0].Partitions[:0]
			c.Ask("no partitions of what is not there", r)
			c.Ask("a topic that is not there twice", c.commitRequest("g", "no/0", "t/0", "no/1", "t/5"))
			c.Ask("a topic among good ones", c.commitRequest("g", "no/0", "no/1", "t/0"))
			c.Ask("only that topic", c.commitRequest("h", "no/0"))
			c.Ask("an empty name", c.commitRequest("g", "/0"))
			c.Ask("a topic in the middle", c.commitRequest("g", "t/0", "no/0", "t/1"))
			c.fetched("what is kept", "g", "t", "no")
			c.describe("no group", "h")
			if c.Version >= 10 {
				r = c.commitRequest("g", "t/0")
				r.Topics[0].TopicID = [16]byte{1, 2, 3}
				c.Ask("an unknown id", r)
				r.Topics[0].TopicID = [16]byte{}
				c.Ask("no id", r)
			}
			for _, generation := range []int32{-1, 0, 3, -2} {
				for _, id := range []string{"", "stranger"} {
					r := c.commitRequest("new-"+string(rune('a'+generation+3))+id, "t/0")
					r.Generation, r.MemberID = generation, id
					c.Ask("into a new group", r)
				}
			}
			r = c.commitRequest("new", "no/0")
			r.Generation = 3
			c.Ask("a generation, no group, no topic", r)
			r = c.commitRequest("new", "t/0")
			r.Generation, r.Topics = 3, r.Topics[:0]
			c.Ask("a generation, no group, no topics", r)
		})},
		{API: api, Name: "for ZooKeeper", To: 0, Run: withTopic(api, func(c *cast) {
			c.Ask("good", c.commitRequest("g", "t/0"))
			c.fetched("it", "g", "t")
		})},
		{API: api, Name: "no group id", From: 1, Alone: true, Run: withTopic(api, func(c *cast) {
			c.forgetNameless()
			r := c.commitRequest("", "t/0")
			r.Group = ""
			c.Ask("empty", r)
			r.Generation = 1
			c.Ask("empty and a generation", r)
		})},
		{API: api, Name: "retention", From: 2, To: 4, Run: withTopic(api, func(c *cast) {
			for _, ms := range []int64{-1, 0, 1, 1000000, -2, 1 << 62} {
				r := c.commitRequest("g", "t/0")
				r.RetentionTimeMillis = ms
				c.Ask("kept for a time", r)
				c.fetched("there", "g", "t")
			}
		})},
		{API: api, Name: "in every state", From: 1, Run: withTopic(api, func(c *cast) {
			a, b := c.member("g", "a"), c.member("g", "b")
			n := int64(100)
			ask := func(what string, change func(r *kmsg.OffsetCommitRequest)) {
				r := c.commitRequest("g", "t/0")
				n++
				r.Topics[0].Partitions[0].Offset = n
				r.Generation, r.MemberID = a.generation, a.id
				if change != nil {
					change(r)
				}
				a.ask(what, r)
			}
			refusals := func(when string) {
				ask("as nobody, "+when, func(r *kmsg.OffsetCommitRequest) { r.Generation, r.MemberID = -1, "" })
				ask("without a generation, "+when, func(r *kmsg.OffsetCommitRequest) { r.Generation = -1 })
				ask("an old generation, "+when, func(r *kmsg.OffsetCommitRequest) { r.Generation-- })
				ask("a generation to come, "+when, func(r *kmsg.OffsetCommitRequest) { r.Generation++ })
				ask("a strange id, "+when, func(r *kmsg.OffsetCommitRequest) { r.MemberID = "stranger" })
				ask("a strange id and no generation, "+when, func(r *kmsg.OffsetCommitRequest) { r.MemberID, r.Generation = "stranger", -1 })
				ask("no id, "+when, func(r *kmsg.OffsetCommitRequest) { r.MemberID = "" })
				if c.Version >= 7 {
					ask("an instance, "+when, func(r *kmsg.OffsetCommitRequest) { r.InstanceID = kmsg.StringPtr("i") })
					ask("an instance alone, "+when, func(r *kmsg.OffsetCommitRequest) {
						r.InstanceID, r.MemberID, r.Generation = kmsg.StringPtr("i"), "", -1
					})
				}
			}
			a.join("for an id").end()
			refusals("pending")
			a.join("join").end()
			ask("completing", nil)
			refusals("completing")
			assign(a)
			ask("stable", nil)
			refusals("stable")
			ask("stable, nothing to commit", func(r *kmsg.OffsetCommitRequest) { r.Topics = r.Topics[:0] })
			ask("stable, a topic that is not there", func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Topic, r.Topics[0].TopicID = c.Topic("no"), [16]byte{7} })
			c.fetched("stable", "g", "t")
			w := b.enter("another joins").holds()
			ask("preparing", nil)
			refusals("preparing")
			c.fetched("preparing", "g", "t")
			a.leave("leave")
			w.end()
			ask("after leaving", nil)
			b.leave("the last leaves")
			ask("empty, as it was", nil)
			ask("empty, as nobody", func(r *kmsg.OffsetCommitRequest) { r.Generation, r.MemberID = -1, "" })
			ask("empty, an id", func(r *kmsg.OffsetCommitRequest) { r.Generation, r.MemberID = -1, "stranger" })
			ask("empty, a generation", func(r *kmsg.OffsetCommitRequest) { r.MemberID = "" })
			c.fetched("in the end", "g", "t")
		})},
		{API: api, Name: "static", From: 7, Run: withTopic(api, func(c *cast) {
			a := c.static("g", "a", "i")
			settle(a)
			commit := func(what string, m *member) {
				r := c.commitRequest("g", "t/0")
				r.Generation, r.MemberID, r.InstanceID = m.generation, m.id, m.instance
				m.ask(what, r)
			}
			commit("good", a)
			bare := *a
			bare.instance = nil
			commit("without its instance", &bare)
			old := *a
			a.id = ""
			a.join("restarted").end()
			commit("the old id", &old)
			commit("the new id", a)
			old.instance = kmsg.StringPtr("j")
			commit("another instance", &old)
		})},
	}
}

func fetchOffsetCases() []Case {
	const api = kmsg.OffsetFetch
	// request is in the form of the version under test.
	type wanted struct {
		topic      string
		partitions []int32
	}
	request := func(c *cast, group string, topics ...wanted) *kmsg.OffsetFetchRequest {
		r := kmsg.NewPtrOffsetFetchRequest()
		r.Group = c.group(group)
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = r.Group
		if topics != nil {
			r.Topics, g.Topics = []kmsg.OffsetFetchRequestTopic{}, []kmsg.OffsetFetchRequestGroupTopic{}
		}
		for _, w := range topics {
			t := kmsg.NewOffsetFetchRequestTopic()
			t.Topic, t.Partitions = c.Topic(w.topic), w.partitions
			r.Topics = append(r.Topics, t)
			gt := kmsg.NewOffsetFetchRequestGroupTopic()
			gt.Topic, gt.Partitions = c.Topic(w.topic), w.partitions
			if c.Version >= 10 {
				gt.TopicID = c.topicID(w.topic)
			}
			g.Topics = append(g.Topics, gt)
		}
		r.Groups = append(r.Groups, g)
		return r
	}
	commit := func(c *cast, group string, places ...string) {
		r := c.commitRequest(group, places...)
		c.Do(8, r)
	}
	two := []int32{0, 1, 2}
	return []Case{
		{API: api, Name: "one group", From: 1, Run: withTopic(api, func(c *cast) {
			c.createTopic("u", 1)
			c.Ask("a group that is not there", request(c, "g", wanted{"t", two}))
			commit(c, "g", "t/0", "t/1", "u/0")
			c.Ask("good", request(c, "g", wanted{"t", two}))
			c.Ask("two topics", request(c, "g", wanted{"u", []int32{0}}, wanted{"t", []int32{1, 0}}))
			c.Ask("a negative partition", request(c, "g", wanted{"t", []int32{-1, 5}}))
			c.Ask("a topic that is not there", request(c, "g", wanted{"no", two}, wanted{"t", two}))
			c.Ask("an empty name", request(c, "g", wanted{"", two}))
			c.Ask("a topic twice", request(c, "g", wanted{"t", []int32{0}}, wanted{"t", []int32{1}}))
			c.Ask("a partition twice", request(c, "g", wanted{"t", []int32{0, 0}}))
			c.Ask("no partitions", request(c, "g", wanted{"t", []int32{}}))
			c.Ask("no topics", request(c, "g", []wanted{}...))
			none := request(c, "g", wanted{"t", two})
			none.Topics, none.Groups[0].Topics = none.Topics[:0], none.Groups[0].Topics[:0]
			c.Ask("an empty list of topics", none)
			if c.Version >= 2 {
				c.Ask("all topics", request(c, "g"))
				c.Ask("all topics of no group", request(c, "none"))
			}
			if c.Version >= 7 {
				stable := request(c, "g", wanted{"t", two})
				stable.RequireStable = true
				c.Ask("stable offsets", stable)
				stable = request(c, "g")
				stable.RequireStable = true
				c.Ask("all stable offsets", stable)
			}
		})},
		{API: api, Name: "no group id", From: 1, Alone: true, Run: withTopic(api, func(c *cast) {
			c.forgetNameless()
			r := request(c, "", wanted{"t", two})
			r.Group, r.Groups[0].Group = "", ""
			c.Ask("not there", r)
			commit := c.commitRequest("", "t/0")
			commit.Group = ""
			c.Do(8, commit)
			c.Ask("there", r)
		})},
		{API: api, Name: "from ZooKeeper", To: 0, Run: withTopic(api, func(c *cast) {
			commit(c, "g", "t/0")
			c.Ask("good", request(c, "g", wanted{"t", []int32{0}}))
		})},
		{API: api, Name: "many groups", From: 8, Run: withTopic(api, func(c *cast) {
			commit(c, "g", "t/0")
			commit(c, "h", "t/1")
			ask := func(what string, rs ...*kmsg.OffsetFetchRequest) {
				r := kmsg.NewPtrOffsetFetchRequest()
				for _, one := range rs {
					r.Groups = append(r.Groups, one.Groups...)
				}
				c.Ask(what, r)
			}
			ask("two and one that is not there", request(c, "g", wanted{"t", two}), request(c, "none", wanted{"t", two}), request(c, "h", wanted{"t", two}))
			ask("all topics of two", request(c, "g"), request(c, "h"))
			ask("one twice", request(c, "g", wanted{"t", []int32{0}}), request(c, "g", wanted{"t", []int32{1}}))
			ask("none")
		})},
		{API: api, Name: "members", From: 9, Run: withTopic(api, func(c *cast) {
			commit(c, "s", "t/0")
			a := c.member("g", "a")
			settle(a)
			cr := c.commitRequest("g", "t/0")
			cr.Generation, cr.MemberID = a.generation, a.id
			c.Do(8, cr)
			for _, group := range []string{"s", "g", "none"} {
				for _, id := range []string{a.id, "stranger", ""} {
					for _, epoch := range []int32{a.generation, -1, 5} {
						r := request(c, group, wanted{"t", two})
						r.Groups[0].MemberID, r.Groups[0].MemberEpoch = &id, epoch
						c.Ask("a member", r)
					}
				}
			}
		})},
		{API: api, Name: "topics that go", From: 1, Run: withTopic(api, func(c *cast) {
			commit(c, "g", "t/0", "t/1")
			id := c.topicID("t")
			del := kmsg.NewPtrDeleteTopicsRequest()
			del.TopicNames, del.TimeoutMillis = []string{c.Topic("t")}, 10000
			c.Do(4, del)
			c.gone("g", "t")
			c.Ask("deleted", request(c, "g", wanted{"t", two}))
			if c.Version >= 2 {
				c.Ask("all topics", request(c, "g"))
			}
			c.describe("the group stays", "g")
			c.createTopic("t", 2)
			c.Ask("made anew", request(c, "g", wanted{"t", two}))
			if c.Version >= 10 {
				r := request(c, "g", wanted{"t", two})
				r.Groups[0].Topics[0].TopicID = id
				c.Ask("the old id", r)
				r.Groups[0].Topics[0].TopicID = [16]byte{}
				c.Ask("no id", r)
				r.Groups[0].Topics[0].TopicID = [16]byte{1}
				r.Groups[0].Topics = append(r.Groups[0].Topics, request(c, "g", wanted{"t", two}).Groups[0].Topics...)
				c.Ask("an unknown id and a known one", r)
			}
			commit(c, "g", "t/1")
			c.Ask("committed anew", request(c, "g", wanted{"t", two}))
		})},
	}
}

// gone waits until a deleted topic's offsets have left a group: in Kafka that
// comes a moment after the deletion was answered.
func (c *cast) gone(group, topic string) {
	for range 500 {
		r := kmsg.NewPtrOffsetFetchRequest()
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = c.group(group)
		r.Groups = append(r.Groups, g)
		if got, ok := c.Do(8, r).Response.(*kmsg.OffsetFetchResponse); ok && len(got.Groups) == 1 && len(got.Groups[0].Topics) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.Fail("offsets of %s stay in group %s", topic, group)
}
