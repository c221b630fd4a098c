package oracle

import (
	"fmt"
	"millrace/compat-tests/batch"
	"regexp"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// keptFrom are the first versions that Apache Kafka 4 serves, of the APIs that
// lost some (KIP-896). Those before are compared with 3.9.
var keptFrom = map[int16]int16{
	0: 3, 1: 4, 2: 1, 8: 2, 9: 1, 19: 2, 20: 1, 23: 2, 29: 1, 30: 1, 31: 1, 32: 1, 34: 1, 35: 1,
}

// oldExplained are differences from Kafka 3.9 that are none from 4.
var oldExplained = []struct {
	at  *regexp.Regexp
	why string
}{
	{regexp.MustCompile(`^OffsetCommit v1: .*(Topics|Partitions): \d+ elements against \d+: `), "Kafka 3.9 answers a partition once, 4.4 as often as it was asked"},
	{regexp.MustCompile(`^Fetch v[0-3]: .*RecordBatches: (\[\]|"") against null$`), "3.9 answers zstd with null records, which clients of that time cannot read; here they are empty beside the error, as beside any other"},
}

// explainOld says why a difference from Kafka 3.9 is meant; "" if it is not.
func explainOld(difference string) string {
	for _, e := range oldExplained {
		if e.at.MatchString(difference) {
			return e.why
		}
	}
	return ""
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
			{4, (*gen).epochEnd},
			{6, (*gen).produceSet},
		},
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
		p.settle(nil)
	}}
}
