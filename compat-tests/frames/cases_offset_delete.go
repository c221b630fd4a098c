package frames

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// subscribed is a consumer's metadata that names topics.
func (c *cast) subscribed(version int16, topics ...string) string {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version = version
	for _, t := range topics {
		m.Topics = append(m.Topics, c.Topic(t))
	}
	return string(m.AppendTo(nil))
}

// deleteOffsetsOf asks to delete what stands in places, each TOPIC/PARTITION.
func (c *cast) deleteOffsetsOf(group string, places ...string) *kmsg.OffsetDeleteRequest {
	r := kmsg.NewPtrOffsetDeleteRequest()
	r.Group = c.group(group)
	for _, p := range places {
		name, partition := place(p)
		if n := len(r.Topics); n == 0 || r.Topics[n-1].Topic != c.Topic(name) {
			t := kmsg.NewOffsetDeleteRequestTopic()
			t.Topic = c.Topic(name)
			r.Topics = append(r.Topics, t)
		}
		t := &r.Topics[len(r.Topics)-1]
		rp := kmsg.NewOffsetDeleteRequestTopicPartition()
		rp.Partition = partition
		t.Partitions = append(t.Partitions, rp)
	}
	return r
}

func offsetDeleteCases() []Case {
	const api = kmsg.OffsetDelete
	commit := func(c *cast, group string, places ...string) { c.Do(8, c.commitRequest(group, places...)) }
	return []Case{
		{API: api, Name: "without members", Run: withTopic(api, func(c *cast) {
			c.createTopic("u", 1)
			c.Ask("no group", c.deleteOffsetsOf("none", "t/0"))
			c.Ask("no group, no topic", c.deleteOffsetsOf("none", "no/0"))
			c.Ask("no group, nothing", c.deleteOffsetsOf("none"))
			commit(c, "g", "t/0", "t/1", "u/0")
			c.fetched("committed", "g", "t", "u")
			c.Ask("one", c.deleteOffsetsOf("g", "t/0"))
			c.fetched("one less", "g", "t", "u")
			c.Ask("again", c.deleteOffsetsOf("g", "t/0"))
			c.Ask("nothing", c.deleteOffsetsOf("g"))
			none := c.deleteOffsetsOf("g", "t/0", "u/0")
			none.Topics[0].Partitions = nil
			c.Ask("no partitions of one", none)
			c.fetched("then", "g", "t", "u")
			commit(c, "g", "t/0", "t/1", "u/0")
			none = c.deleteOffsetsOf("g", "no/0", "t/0")
			none.Topics[0].Partitions = nil
			c.Ask("no partitions of a topic that is not there", none)
			none.Topics[1].Partitions = nil
			c.Ask("no partitions at all", none)
			none.Group = c.group("none")
			c.Ask("no partitions at all, no group", none)
			commit(c, "g", "t/0")
			c.Ask("a partition that is not there", c.deleteOffsetsOf("g", "t/2"))
			c.Ask("a negative one", c.deleteOffsetsOf("g", "t/-1"))
			c.Ask("a topic that is not there", c.deleteOffsetsOf("g", "no/0"))
			c.Ask("one good, some bad", c.deleteOffsetsOf("g", "no/0", "t/7", "t/1", "u/5", "u/0"))
			c.fetched("the other", "g", "t", "u")
			commit(c, "g", "t/0", "t/1", "u/0")
			c.Ask("one twice", c.deleteOffsetsOf("g", "t/0", "t/0"))
			c.Ask("a topic twice", c.deleteOffsetsOf("g", "t/1", "u/0", "t/1", "t/9"))
			c.Ask("a stranger twice", c.deleteOffsetsOf("g", "no/0", "t/1", "no/0", "no/1"))
			c.fetched("nothing left", "g", "t", "u")
			c.describe("the group without offsets", "g")
			c.Ask("after that", c.deleteOffsetsOf("g", "t/0"))
			empty := c.deleteOffsetsOf("g", "t/0")
			empty.Group = ""
			c.Ask("no name", empty)
			internal := c.deleteOffsetsOf("g", "t/0")
			internal.Topics[0].Topic = "__consumer_offsets"
			c.Ask("an internal topic", internal)
			long := c.deleteOffsetsOf("g", "t/0")
			long.Group = strings.Repeat("g", 1000)
			c.Ask("a long name", long)
		})},
		{API: api, Name: "subscriptions", Run: withTopic(api, func(c *cast) {
			c.createTopic("u", 1)
			for v := int16(0); v < 4; v++ {
				g := fmt.Sprintf("g%d", v)
				commit(c, g, "t/0", "u/0")
				a := c.member(g, "a"+g, "range:"+c.subscribed(v, "t"))
				a.join("for an id").end()
				c.Ask("pending", c.deleteOffsetsOf(g, "u/0"))
				commit(c, g, "u/0")
				a.join("join").end()
				c.Ask("completing", c.deleteOffsetsOf(g, "t/0", "u/0"))
				commit(c, g, "t/0", "u/0")
				a.sync("sync", a.name+"=x").end()
				c.Ask("subscribed", c.deleteOffsetsOf(g, "t/0", "no/0", "t/9"))
				c.Ask("not subscribed", c.deleteOffsetsOf(g, "u/0"))
				c.Ask("both, and nothing committed", c.deleteOffsetsOf(g, "t/0", "t/1", "u/0"))
				c.fetched("kept", g, "t", "u")
				a.leave("leave")
				c.Ask("empty", c.deleteOffsetsOf(g, "t/0"))
				c.fetched("gone", g, "t", "u")
			}
		})},
		{API: api, Name: "other protocols", Run: withTopic(api, func(c *cast) {
			commit(c, "g", "t/0")
			for _, metadata := range []string{"", "\x00", "nonsense", "\x00\x00\x00\x00\x00\x05"} {
				a := c.member("g", "a", "range:"+metadata)
				a.enter("join").end()
				a.sync("sync", "a=x").end()
				c.Ask(fmt.Sprintf("metadata %q", metadata), c.deleteOffsetsOf("g", "t/0", "t/1"))
				c.fetched("then", "g", "t")
				a.leave("leave")
				c.members = c.members[:len(c.members)-1]
				a.conn.Close()
			}
			a := c.member("connect", "b")
			a.protocolType = "connect"
			commit(c, "connect", "t/0")
			a.enter("join").end()
			c.Ask("not a consumer, completing", c.deleteOffsetsOf("connect", "t/0"))
			a.sync("sync", "b=x").end()
			c.Ask("not a consumer", c.deleteOffsetsOf("connect", "t/0"))
			c.Ask("not a consumer, no topic", c.deleteOffsetsOf("connect", "no/0"))
			c.fetched("kept", "connect", "t")
			a.leave("leave")
			c.Ask("empty", c.deleteOffsetsOf("connect", "t/0"))
			c.fetched("gone", "connect", "t")
		})},
	}
}
