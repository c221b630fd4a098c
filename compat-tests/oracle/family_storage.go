package oracle

import (
	"fmt"
	"math"
	"millrace/compat-tests/batch"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	smallSegment  = "600"
	largerSegment = "1000"
	// neverClean is the least ratio that no log is dirtier than.
	neverClean = "1"
)

// What the topics of a sequence are for. Other families have others: what of a
// log lies in one segment, and so comes in one answer, depends on how often it
// was cleaned, which is not the same on both servers.
const (
	compacted = "compacted"
	retained  = "retained"
	deleted   = "deleted"
	passing   = "passing" // keeps nothing
)

// ofStores makes a step of another family for these topics.
func ofStores(make func(g *gen) Step) func(g *gen) Step {
	return func(g *gen) Step {
		others := g.topics
		g.topics = []string{compacted, retained, deleted}
		defer func() { g.topics = others }()
		return make(g)
	}
}

func init() {
	register(&family{
		name: "storage", weight: 12, length: 36,
		open: (*gen).createStores,
		steps: []maker{
			{30, (*gen).store},
			{8, (*gen).storeLikeProducer},
			{9, (*gen).sweep},
			{7, (*gen).sweepOtherwise},
			{9, (*gen).retain},
			{8, (*gen).deleteStored},
			{14, (*gen).lookUp},
			{10, (*gen).readAll},
			{9, (*gen).reconfigure},
			{3, ofStores((*gen).epochEnd)},
			{3, ofStores((*gen).describeProducers)},
			{3, ofStores((*gen).describeLogDirs)},
			{1, (*gen).initProducer},
			{1, ofStores((*gen).describeTopicConfigs)},
		},
	})
}

func (g *gen) createStores() []Step {
	segment := func() []string {
		c := []string{"internal.segment.bytes", oneOf(g.Rand, smallSegment, largerSegment)}
		if g.chance(60) {
			c = append(c, "index.interval.bytes", oneOf(g.Rand, "0", "1", "100"))
		}
		if g.chance(20) {
			c = append(c, "message.timestamp.type", "LogAppendTime")
		}
		if g.chance(15) {
			c = append(c, "compression.type", oneOf(g.Rand, "uncompressed", "gzip", "lz4"))
		}
		return c
	}
	compact := append(segment(), "cleanup.policy", oneOf(g.Rand, "compact", "compact", "compact,delete"))
	if g.chance(50) {
		compact = append(compact, "delete.retention.ms", oneOf(g.Rand, "0", "0", "1"))
	}
	if g.chance(20) && !slices.Contains(compact, "LogAppendTime") {
		// Records are some hours old, or some minutes.
		compact = append(compact, "min.compaction.lag.ms", "3600000")
	}
	return []Step{
		// One partition: who lets one be cleaned lets the others be, unseen.
		g.createTopic(compacted, 1, compact),
		g.createTopic(retained, 2, append(segment(), "cleanup.policy", "compact,delete")),
		g.createTopic(passing, 1, []string{"cleanup.policy", "compact,delete", "retention.ms", "1"}),
		g.createTopic(deleted, 2, append(segment(), "cleanup.policy", oneOf(g.Rand, "delete", "delete", ""))),
	}
}

// stored is a topic of the family, and one of the partitions it has.
func (g *gen) stored() (string, int32) {
	topic, index := oneOf(g.Rand, compacted, compacted, retained, deleted), int32(oneOf(g.Rand, 0, 0, 0, 1))
	if topic == compacted {
		index = 0
	}
	return topic, index
}

// storedTimes are times of records: around the one that all are near, and some
// that are out of line.
func (g *gen) storedTime() int64 {
	switch n := g.IntN(100); {
	case n < 70:
		return then + int64(g.IntN(2000)) - 1000
	case n < 85:
		return then
	case n < 93:
		return then + 110*60e3 // ten minutes ago
	}
	return then - int64(oneOf(g.Rand, 3600e3, 86400e3))
}

// keyedBatch is a good batch of records with few keys, some of them tombstones.
func (g *gen) keyedBatch() (string, batch.Batch) {
	n := oneOf(g.Rand, 1, 1, 2, 2, 3, 6)
	b := batch.New(make([]string, n)...)
	b.First = g.storedTime()
	var keys []string
	for i := range b.Records {
		r := &b.Records[i]
		key := fmt.Sprintf("k%d", g.IntN(6))
		r.Key, r.Value = []byte(key), []byte(strings.Repeat(string(rune('a'+g.IntN(26))), oneOf(g.Rand, 0, 1, 10, 60, 150)))
		switch n := g.IntN(100); {
		case n < 20:
			r.Value = nil
			key += " tombstone"
		case n < 30:
			r.Headers = [][2][]byte{{[]byte("h"), nil}, {[]byte(""), []byte("x")}}
		}
		switch n := g.IntN(100); {
		case n < 70:
			r.At = int64(i)
		case n < 85:
			r.At = int64(g.IntN(50)) - 25
		}
		keys = append(keys, key)
	}
	if g.chance(20) {
		b.Codec = int8(1 + g.IntN(4))
	}
	return fmt.Sprintf("%s at %+d, codec %d", strings.Join(keys, " "), b.First-then, b.Codec), b
}

// store writes a few good batches, one after another.
func (g *gen) store() Step {
	topic, index := g.stored()
	var list []string
	var bs []batch.Batch
	var vs []pick
	for range 1 + g.IntN(4) {
		what, b := g.keyedBatch()
		list, bs, vs = append(list, what), append(bs, b), append(vs, g.pick().above(3))
	}
	what := fmt.Sprintf("store in %s/%d: %s", topic, index, strings.Join(list, "; "))
	return Step{Text: what, Do: func(p *Play) {
		for i, b := range bs {
			p.ask("writer", vs[i], what, func(s *side) kmsg.Request { return producing(s, -1, written{topic, index, b}) })
			if b.Codec != 0 && topic == compacted {
				p.repacked(topic) // if the cleaner leaves something of it
			}
		}
		p.settle(nil)
	}}
}

// storeLikeProducer writes as an idempotent producer, so that the last of its
// batches has to stay although none of its records does.
func (g *gen) storeLikeProducer() Step {
	client := oneOf(g.Rand, "p0", "p1")
	topic, index := oneOf(g.Rand, compacted, compacted, retained), int32(g.IntN(2))
	if topic == compacted {
		index = 0
	}
	what, b := g.keyedBatch()
	b.Codec = 0
	v := g.pick().above(3)
	what = fmt.Sprintf("store in %s/%d as a producer: %s", topic, index, what)
	return Step{Text: client + ": " + what, Do: func(p *Play) {
		p.produceNext(client, v, what, topic, index, b)
	}}
}

// sweep lets the cleaner clean the compacted topic and waits until it has: until
// the first of three records of one key, each in a segment of its own, is gone,
// the last lying in the active segment. They are written before cleaning may
// begin, so that all is cleaned at once on both servers: what a batch is like
// that has lost some records, and then others, depends on how often it was
// cleaned. Twice, as a tombstone goes in the second cleaning only.
func (g *gen) sweep() Step {
	index := int32(0)
	what := fmt.Sprintf("clean %s/%d", compacted, index)
	return Step{Text: what, Do: func(p *Play) {
		for range 2 {
			if !p.kafka().sweepable(byRatio) || !p.swept(compacted, byRatio) {
				break
			}
		}
		p.everything(compacted, index)
	}}
}

// letting is how a topic is let be cleaned, all at once: what is set first, and is
// not to have it cleaned, where there is something; what is; and what takes it back.
type letting struct {
	topic           string
	held, let, back []string
}

const (
	ratio        = "min.cleanable.dirty.ratio"
	hardlyDirty  = "0.001"
	neverOverdue = "9223372036854775807"
)

var byRatio = letting{compacted, nil, []string{ratio, hardlyDirty}, []string{ratio, neverClean}}

// lettings are the other ways: each of the configs that say when a log is cleaned
// counts as soon as it is changed. Records are from some hours ago, some from now.
var lettings = []letting{
	{compacted, []string{"max.compaction.lag.ms", "864000000"}, []string{"max.compaction.lag.ms", "1"}, []string{"max.compaction.lag.ms", neverOverdue}},
	{compacted, nil, []string{"max.compaction.lag.ms", "1"}, []string{"max.compaction.lag.ms", neverOverdue}},
	{compacted, []string{"min.compaction.lag.ms", "864000000", ratio, hardlyDirty}, []string{"min.compaction.lag.ms", "0"}, []string{ratio, neverClean}},
	{compacted, []string{"cleanup.policy", "delete", ratio, hardlyDirty}, []string{"cleanup.policy", "compact"}, []string{ratio, neverClean}},
	{compacted, nil, []string{"delete.retention.ms", "0", ratio, hardlyDirty}, []string{"delete.retention.ms", "86400000", ratio, neverClean}},
	{deleted, []string{ratio, hardlyDirty}, []string{"cleanup.policy", "compact"}, []string{"cleanup.policy", "delete", ratio, neverClean}},
}

// sweepOtherwise is sweep by another of the configs that let a log be cleaned.
func (g *gen) sweepOtherwise() Step {
	by := oneOf(g.Rand, lettings...)
	what := fmt.Sprintf("clean %s: with %q it is left alone, with %q not", by.topic, by.held, by.let)
	return Step{Text: what, Do: func(p *Play) {
		if by.topic == deleted {
			p.repacked(deleted)
		}
		for range 2 {
			if !p.kafka().sweepable(by) || !p.swept(by.topic, by) {
				break
			}
		}
		for index := range partitionsOf(by.topic) {
			p.everything(by.topic, index)
		}
	}}
}

// retain lets what is too much or too old go, and waits until it has.
func (g *gen) retain() Step {
	topic, index := oneOf(g.Rand, retained, retained, retained, compacted), int32(g.IntN(2))
	set := g.retention()
	what := fmt.Sprintf("retain %s by %q", topic, set)
	return Step{Text: what, Do: func(p *Play) {
		if s := p.kafka(); s.versed.Packed[s.name(topic)] {
			// How much there is, and where segments end, is each server's own then, but
			// for what lies before a record that begins one.
			for i := range partitionsOf(topic) {
				if !p.rolled(topic, i) {
					return
				}
			}
			set = []string{"retention.bytes", "0"}
		}
		if !p.set(topic, set...) {
			return
		}
		p.passes()
		p.set(topic, "retention.bytes", "-1", "retention.ms", "-1")
		p.passes()
		p.everything(topic, index)
	}}
}

// deleteStored deletes records, and waits until the segments that hold none any
// more have gone from logs that the cleaner looks after.
func (g *gen) deleteStored() Step {
	topic, index := g.stored()
	o := g.offset()
	v := g.pick()
	what := fmt.Sprintf("delete records of %s/%d before %s", topic, index, o)
	return Step{Text: what, Do: func(p *Play) {
		p.ask("admin", v, what, func(s *side) kmsg.Request {
			req := kmsg.NewPtrDeleteRecordsRequest()
			req.TimeoutMillis = 3000
			t := kmsg.NewDeleteRecordsRequestTopic()
			t.Topic = s.name(topic)
			part := kmsg.NewDeleteRecordsRequestTopicPartition()
			part.Partition, part.Offset = index, o.of(s.part(topic, index))
			t.Partitions = append(t.Partitions, part)
			req.Topics = append(req.Topics, t)
			return req
		})
		if topic != deleted {
			p.passes()
		}
		p.everything(topic, index)
	}}
}

// when is a time that is looked up in a partition.
type when struct {
	topic string
	index int32
	at    int64
}

func listing(s *side, isolation int8, list ...when) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel, req.TimeoutMillis = -1, isolation, 2000
	for _, w := range list {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = s.name(w.topic)
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Partition, part.Timestamp, part.CurrentLeaderEpoch = w.index, w.at, -1
		t.Partitions = append(t.Partitions, part)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// lookUp asks for the offsets of many times, special ones among them: one after
// another, as a request has one time for each partition.
func (g *gen) lookUp() Step {
	var asked [][]when
	var vs []pick
	isolation := oneOf[int8](g.Rand, 0, 0, 0, 1)
	topics := []string{oneOf(g.Rand, compacted, retained, deleted)}
	if g.chance(40) {
		topics = []string{compacted, retained, deleted}
	}
	for range 2 + g.IntN(5) {
		var list []when
		for _, t := range topics {
			for i := range int32(2) {
				at := oneOf[int64](g.Rand, -1, -2, -3, -3, -4, -5, -6, 0, then-1000, then-1, then, then+1, then+1000, then+100*60e3, then+3*3600e3, math.MaxInt64)
				if g.chance(60) {
					at = g.storedTime()
				}
				list = append(list, when{t, i, at})
			}
		}
		asked, vs = append(asked, list), append(vs, g.pick())
	}
	what := fmt.Sprintf("look up in %v, isolation %d", topics, isolation)
	return Step{Text: what, Do: func(p *Play) {
		for i, list := range asked {
			p.ask("reader", vs[i], fmt.Sprintf("%s: %v", what, list), func(s *side) kmsg.Request { return listing(s, isolation, list...) })
		}
	}}
}

// readAll reads from several offsets of a partition, those in holes among them.
func (g *gen) readAll() Step {
	topic, index := g.stored()
	var list []offset
	var vs []pick
	for range 1 + g.IntN(4) {
		list, vs = append(list, g.offset()), append(vs, g.pick())
	}
	share, isolation := g.Float64(), oneOf[int8](g.Rand, 0, 0, 1)
	what := fmt.Sprintf("read %s/%d", topic, index)
	return Step{Text: fmt.Sprintf("%s at %v and %.2f", what, list, share), Do: func(p *Play) {
		p.everything(topic, index)
		for i, o := range list {
			p.ask("reader", vs[i], fmt.Sprintf("%s at %s", what, o), func(s *side) kmsg.Request {
				at := s.part(topic, index)
				// One batch: see above.
				w := wanted{topic: topic, index: index, offset: o, epoch: epoch{none: true}, last: epoch{none: true}, max: 1}
				if i == 0 {
					w.offset = offset{"", at.start + int64(share*float64(at.end-at.start))}
				}
				req := fetching(s, w)
				req.IsolationLevel = isolation
				return req
			})
		}
	}}
}

// reconfigure changes what counts at once, and writes where it should.
func (g *gen) reconfigure() Step {
	topic, index := g.stored()
	// Kafka's cleaner fails where it fills the indexes of what it writes.
	indexes := "1200"
	if topic == deleted {
		indexes = oneOf(g.Rand, "12", "24", "10485760")
	}
	set := oneOf(g.Rand,
		[]string{"max.message.bytes", oneOf(g.Rand, "100", "200", "0", "1048588")},
		[]string{"message.timestamp.type", oneOf(g.Rand, "CreateTime", "LogAppendTime")},
		[]string{"compression.type", oneOf(g.Rand, "gzip", "zstd", "lz4", "snappy", "uncompressed", "producer")},
		[]string{"message.timestamp.before.max.ms", oneOf(g.Rand, "3600000", "9223372036854775807", "0")},
		[]string{"message.timestamp.after.max.ms", oneOf(g.Rand, "0", "3600000", "-1")},
		[]string{"segment.ms", oneOf(g.Rand, "600000", "604800000", "1")},
		[]string{"internal.segment.bytes", oneOf(g.Rand, smallSegment, largerSegment)},
		[]string{"index.interval.bytes", oneOf(g.Rand, "0", "1", "4096")},
		[]string{"segment.index.bytes", indexes},
		[]string{"delete.retention.ms", oneOf(g.Rand, "0", "86400000")},
		[]string{"min.compaction.lag.ms", oneOf(g.Rand, "0", "3600000")},
		[]string{"cleanup.policy", oneOf(g.Rand, "compact", "delete", "compact,delete", "")},
		[]string{"compression.gzip.level", oneOf(g.Rand, "1", "9"), "compression.type", "gzip"},
		[]string{"flush.messages", "1"},
		[]string{"flush.ms", oneOf(g.Rand, "0", "1")},
	)
	var bs []batch.Batch
	var vs []pick
	for range 2 {
		_, b := g.keyedBatch()
		bs, vs = append(bs, b), append(vs, g.pick().above(3))
	}
	if g.chance(30) {
		bs[0].Records[0].Key = nil
	}
	// With indexes as small as that Kafka does not start again where it has to recover the log: the time index is full.
	back := g.chance(70) || slices.Contains([]string{"cleanup.policy", "message.timestamp.type", "min.compaction.lag.ms", "segment.index.bytes"}, set[0])
	what := fmt.Sprintf("set %q of %s", set, topic)
	return Step{Text: fmt.Sprintf("%s, write to /%d, take it back %v", what, index, back), Do: func(p *Play) {
		p.set(topic, set...)
		for i, b := range bs {
			p.ask("writer", vs[i], what+", then write", func(s *side) kmsg.Request { return producing(s, -1, written{topic, index, b}) })
			if b.Codec != 0 && topic == compacted {
				p.repacked(topic)
			}
		}
		p.settle(nil)
		if back {
			p.reset(topic, set[0])
		}
		p.everything(topic, index)
	}}
}
