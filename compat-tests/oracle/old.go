package oracle

import (
	"fmt"
	"millrace/compat-tests/batch"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// keptFrom are the first versions that Apache Kafka 4 serves, of the APIs that
// lost some (KIP-896). Those before are compared with 3.9.
var keptFrom = map[int16]int16{
	0: 3, 1: 4, 2: 1, 8: 2, 9: 1, 19: 2, 20: 1, 23: 2, 29: 1, 30: 1, 31: 1, 32: 1, 34: 1, 35: 1,
}

// dropped says that a request is of a version that Kafka 4 does not serve. What the
// others answer is compared with 4 elsewhere: where 3.9 answers otherwise, a sequence
// goes on if nothing but the answer can differ, and ends there else.
func dropped(req kmsg.Request) bool { return req.GetVersion() < keptFrom[req.Key()] }

// readsOnly says that an API changes nothing.
func readsOnly(key int16) bool {
	switch kmsg.Key(key) {
	case kmsg.Fetch, kmsg.ListOffsets, kmsg.Metadata, kmsg.OffsetFetch, kmsg.DescribeGroups, kmsg.ListGroups, kmsg.OffsetForLeaderEpoch, kmsg.DescribeACLs, kmsg.DescribeConfigs, kmsg.DescribeLogDirs:
		return true
	}
	return false
}

// olderSegments says that a server lets segments be small by segment.bytes, as those before
// Kafka 4 do, which do not know the config that does since.
func (s *side) olderSegments() bool {
	c, err := s.conn("watch")
	if err != nil {
		return false
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.ValidateOnly, req.TimeoutMillis = 5, true, 10000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = s.prefix+"is-not-made", 1, 1
	small := kmsg.NewCreateTopicsRequestTopicConfig()
	small.Name, small.Value = "segment.bytes", kmsg.StringPtr("1000")
	t.Configs = append(t.Configs, small)
	req.Topics = append(req.Topics, t)
	r, ok := c.Ask(req).Response.(*kmsg.CreateTopicsResponse)
	return ok && len(r.Topics) == 1 && r.Topics[0].ErrorCode == 0
}

// beyondOld ends a sequence that has written times below none: what is read with
// them as message sets, 3.9 fails at.
func (p *Play) beyondOld(b batch.Batch) {
	p.over = p.over || p.old && b.First < -1
}

// oldProfiles are configs that 3.9 has, too.
var oldProfiles = [][]string{
	{}, {},
	{"message.timestamp.type", "LogAppendTime"},
	{"cleanup.policy", "compact"},
	{"compression.type", "gzip"},
	{"compression.type", "lz4"},
	{"compression.type", "snappy"},
	{"compression.type", "uncompressed"},
	{"compression.type", "zstd"},
	{"max.message.bytes", "200"},
}

func init() {
	register(&family{
		name: "old records", weight: 30, length: 36, apart: true,
		open: func(g *gen) []Step { return g.createTopics(oldProfiles...) },
		steps: []maker{
			{34, (*gen).produceSet},
			{4, (*gen).produce},
			{4, (*gen).produceIdempotent},
			{30, (*gen).fetch},
			{1, (*gen).fetchAcross},
			{12, (*gen).listOffsets},
			{5, (*gen).deleteRecords},
			{5, (*gen).epochEnd},
		},
	})
	register(&family{
		name: "old groups", weight: 15, length: 36, apart: true,
		open: func(g *gen) []Step { return append(g.createTopics([]string{}), g.gather()...) },
		steps: []maker{
			{24, (*gen).simpleCommit},
			{24, (*gen).offsetFetch},
			{10, (*gen).memberCommit},
			{8, (*gen).join},
			{8, (*gen).sync},
			{4, (*gen).beat},
			{3, (*gen).leave},
			{3, (*gen).offsetDelete},
		},
	})
	register(&family{
		name: "old admin", weight: 10, length: 24, apart: true,
		steps: []maker{
			{10, (*gen).createOld},
			{8, (*gen).deleteTopicsOddly},
			{8, (*gen).acls},
			{4, (*gen).describeLogDirs},
			{4, (*gen).describeOldConfigs},
			{4, (*gen).move},
			{4, (*gen).epochEnd},
			{6, (*gen).produceSet},
		},
	})
}

// emptyInOld: Kafka 3.9 forgets a group that holds nothing any more when topics are
// deleted, and one that was founded by a commit of nothing at once, where 4 waits
// for the next round of offsets.retention.check.interval.ms. Both are the same to
// who watches a group.

// describeOldConfigs asks for configs of topics that 3.9 has, too.
func (g *gen) describeOldConfigs() Step {
	topic := g.topic()
	var keys []string
	for range 1 + g.IntN(4) {
		keys = append(keys, oneOf(g.Rand, "cleanup.policy", "compression.type", "retention.ms", "retention.bytes", "max.message.bytes", "min.insync.replicas", "segment.bytes",
			"flush.ms", "message.timestamp.type", "unclean.leader.election.enable", "follower.replication.throttled.replicas", "no.such.config", ""))
	}
	return g.asking("admin", fmt.Sprintf("describe %q of %s", keys, topic), func(s *side) kmsg.Request {
		return describing(s, []resource{{kind: kmsg.ConfigResourceTypeTopic, name: topic}}, keys)
	})
}

func (g *gen) createOld() Step {
	return g.createTopic(oneOf(g.Rand, g.topics...), int32(1+g.IntN(4)), oneOf(g.Rand, oldProfiles...))
}

// produceSet writes a message set, as clients before 0.11 do.
func (g *gen) produceSet() Step {
	topic, index, acks := g.topic(), g.partition(), g.acks()
	magic, codec := int8(g.IntN(2)), oneOf[int8](g.Rand, 0, 0, 0, 1, 2, 3)
	var values []string
	for range 1 + g.IntN(4) {
		values = append(values, strings.Repeat(oneOf(g.Rand, "v", "w", "x"), oneOf(g.Rand, 0, 1, 5, 40, 150)))
	}
	set := batch.MessageSet(magic, codec, then, values...)
	odd := oneOf(g.Rand, "", "", "", "", "cut by 3 bytes", "a flipped bit", "twice", "stray bytes behind", "empty", "5 bytes of it", "magic 2", "another magic", "codec 4", "codec 7", "length too small")
	switch odd {
	case "cut by 3 bytes":
		set = set[:len(set)-3]
	case "a flipped bit":
		set[len(set)-1] ^= 1
	case "twice":
		set = append(set, set...)
	case "stray bytes behind":
		set = append(set, 1, 2, 3)
	case "empty":
		set = set[:0]
	case "5 bytes of it":
		set = set[:5]
	case "magic 2":
		set[16] = 2
	case "another magic":
		set[16] ^= 1
	case "codec 4", "codec 7":
		set[17] = set[17]&^7 | odd[len(odd)-1]&7
		batch.ResumSet(set)
	case "length too small":
		set[11] -= 2
	}
	v := g.pick().below(3)
	what := fmt.Sprintf("produce to %s/%d acks %d: a set of %d messages of magic %d in codec %d, %s", topic, index, acks, len(values), magic, codec, odd)
	return Step{Text: "writer: " + what, Do: func(p *Play) {
		p.ask("writer", v, what, func(s *side) kmsg.Request {
			req := producing(s, acks, written{topic: topic, index: index})
			req.Topics[0].Partitions[0].Records = set
			return req
		})
		if codec != 0 {
			p.repacked(topic) // it is stored as a batch
		}
		p.settle(nil)
	}}
}
