package oracle

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frames"
)

// The storage family writes logs of many small segments, and cleans them, lets
// what is old go, and looks records up by time and offset meanwhile.
//
// What a server does by itself, and when, would differ from the other's. So
// nothing is cleaned, and nothing goes, before a step asks for it, by a change
// of the topic's configs; the step takes the change back when both servers are
// done. Retention is that of the cleaner, as it comes round much oftener than
// that of logs that are not compacted.

// sweepValue makes a batch of which each segment holds one, as it does not pack.
var sweepValue = func() []byte {
	r, b := rand.New(rand.NewPCG(1, 2)), make([]byte, 480)
	for i := range b {
		b[i] = byte(r.UintN(256))
	}
	return b
}()

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
func (g *gen) keyedBatch() (string, batch) {
	n := oneOf(g.Rand, 1, 1, 2, 2, 3, 6)
	b := newBatch(make([]string, n)...)
	b.first = g.storedTime()
	var keys []string
	for i := range b.records {
		r := &b.records[i]
		key := fmt.Sprintf("k%d", g.IntN(6))
		r.key, r.value = []byte(key), []byte(strings.Repeat(string(rune('a'+g.IntN(26))), oneOf(g.Rand, 0, 1, 10, 60, 150)))
		switch n := g.IntN(100); {
		case n < 20:
			r.value = nil
			key += " tombstone"
		case n < 30:
			r.headers = [][2][]byte{{[]byte("h"), nil}, {[]byte(""), []byte("x")}}
		}
		switch n := g.IntN(100); {
		case n < 70:
			r.at = int64(i)
		case n < 85:
			r.at = int64(g.IntN(50)) - 25
		}
		keys = append(keys, key)
	}
	if g.chance(20) {
		b.codec = int8(1 + g.IntN(4))
	}
	return fmt.Sprintf("%s at %+d, codec %d", strings.Join(keys, " "), b.first-then, b.codec), b
}

// store writes a few good batches, one after another.
func (g *gen) store() Step {
	topic, index := g.stored()
	var list []string
	var bs []batch
	var vs []pick
	for range 1 + g.IntN(4) {
		what, b := g.keyedBatch()
		list, bs, vs = append(list, what), append(bs, b), append(vs, g.pick().above(3))
	}
	what := fmt.Sprintf("store in %s/%d: %s", topic, index, strings.Join(list, "; "))
	return Step{Text: what, Do: func(p *Play) {
		for i, b := range bs {
			p.ask("writer", vs[i], what, func(s *side) kmsg.Request { return producing(s, -1, written{topic, index, b}) })
			if b.codec != 0 && topic == compacted {
				p.repacked(topic) // if the cleaner leaves something of it
			}
		}
		p.settle(nil)
	}}
}

// repacked says that servers may pack a topic's records anew.
func (p *Play) repacked(topic string) {
	for _, s := range p.Sides {
		s.versed.packed[s.name(topic)] = true
	}
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
	b.codec = 0
	v := g.pick().above(3)
	what = fmt.Sprintf("store in %s/%d as a producer: %s", topic, index, what)
	return Step{Text: client + ": " + what, Do: func(p *Play) {
		p.produceNext(client, v, what, topic, index, b)
	}}
}

// produceNext writes a batch with the sequence that is next for a client's
// producer.
func (p *Play) produceNext(client string, v pick, what, topic string, index int32, b batch) {
	var tried [2]sent
	var ids [2]int64
	x := p.ask(client, v, what, func(s *side) kmsg.Request {
		id := producerID{4000, 0}
		if client == "p1" {
			id = producerID{5000, 3}
		}
		if given := s.producers[client]; given != nil {
			id = *given
		}
		q := s.part(topic, index).sequences[id.id]
		if q == nil {
			q = &sequence{epoch: id.epoch}
		}
		b := b
		b.producer, b.epoch, b.sequence = id.id, q.epoch, q.next
		i := ours
		if s == p.kafka() {
			i = kafkas
		}
		tried[i], ids[i] = sent{b.sequence, len(b.records), b.epoch}, id.id
		return producing(s, -1, written{topic, index, b})
	})
	if x == nil || p.over {
		return
	}
	for i, s := range p.Sides {
		r, ok := x.out[i].Response.(*kmsg.ProduceResponse)
		if !ok || len(r.Topics) != 1 || r.Topics[0].Partitions[0].ErrorCode != 0 {
			continue
		}
		at, z := s.part(topic, index), tried[i]
		q := at.sequences[ids[i]]
		if q == nil {
			q = &sequence{epoch: z.epoch}
			at.sequences[ids[i]] = q
		}
		q.next = z.first + int32(z.count)
		q.sent = append(q.sent, z)
	}
	p.settle(nil)
}

// set changes configs of a topic on both servers, and waits until that counts.
func (p *Play) set(topic string, pairs ...string) bool {
	x := p.ask("admin", pick{}, fmt.Sprintf("set %q of %s", pairs, topic), func(s *side) kmsg.Request {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, s.name(topic)
		for i := 0; i+1 < len(pairs); i += 2 {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Value = pairs[i], kmsg.StringPtr(pairs[i+1])
			r.Configs = append(r.Configs, c)
		}
		req.Resources = append(req.Resources, r)
		return req
	})
	p.applied()
	pause(20)
	if x == nil || p.over {
		return false
	}
	r, ok := x.out[kafkas].Response.(*kmsg.IncrementalAlterConfigsResponse)
	return ok && len(r.Resources) == 1 && r.Resources[0].ErrorCode == 0
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
			if !p.kafka().sweepable(compacted) || !p.swept(index) {
				break
			}
		}
		p.everything(compacted, index)
	}}
}

// sweepable says whether a topic's configs let its records be cleaned away: what
// other families have made of it may not.
func (s *side) sweepable(topic string) bool {
	c, err := s.conn("watch")
	if err != nil {
		return false
	}
	req := describing(s, []resource{{kind: kmsg.ConfigResourceTypeTopic, name: topic}}, nil)
	req.Version = 1
	kind := req.ResponseKind()
	kind.SetVersion(1)
	r, ok := c.Send(c.Encode(req), kind).Response.(*kmsg.DescribeConfigsResponse)
	if !ok || len(r.Resources) != 1 {
		return false
	}
	is := map[string]string{}
	for _, c := range r.Resources[0].Configs {
		if c.Value != nil {
			is[c.Name] = *c.Value
		}
	}
	segment := is["internal.segment.bytes"]
	return strings.Contains(is["cleanup.policy"], "compact") && (segment == smallSegment || segment == largerSegment) &&
		(is["min.compaction.lag.ms"] == "0" || is["message.timestamp.type"] == "CreateTime") && is["retention.ms"] == "-1" && is["retention.bytes"] == "-1"
}

// swept writes the three records and waits; false: to no avail.
func (p *Play) swept(index int32) bool {
	var first [2]int64
	for i := range 3 {
		b := newBatch("")
		b.records[0].key, b.records[0].value = []byte("sweep"), sweepValue
		x := p.ask("writer", pick{from: 3}, "a record to see cleaning by", func(s *side) kmsg.Request { return producing(s, -1, written{compacted, index, b}) })
		if x == nil || p.over {
			return false
		}
		for j := range p.Sides {
			r, ok := x.out[j].Response.(*kmsg.ProduceResponse)
			if !ok || len(r.Topics) != 1 || r.Topics[0].Partitions[0].ErrorCode != 0 {
				return false // configs do not let it in
			}
			if i == 0 {
				first[j] = r.Topics[0].Partitions[0].BaseOffset
			}
		}
	}
	if !p.set(compacted, "min.cleanable.dirty.ratio", "0.001") {
		return false
	}
	done := p.cleaned(index, first)
	p.set(compacted, "min.cleanable.dirty.ratio", neverClean)
	p.passes()
	return done
}

// cleaned waits until records have gone on both servers; false: to no avail.
func (p *Play) cleaned(index int32, first [2]int64) bool {
	for begun := time.Now(); ; pause(20) {
		var gone [2]bool
		for j, s := range p.Sides {
			gone[j] = !s.holds(compacted, index, first[j])
		}
		if gone[ours] && gone[kafkas] {
			return true
		}
		if time.Since(begun) > agreement {
			if gone[ours] != gone[kafkas] {
				p.differ(Difference{Text: fmt.Sprintf("cleaning of %s/%d: has ended %v against %v", compacted, index, gone[ours], gone[kafkas]), Kind: "cleaning ends on one side"})
			}
			return false
		}
	}
}

// holds says whether a record is in a log.
func (s *side) holds(topic string, index int32, at int64) bool {
	c, err := s.conn("watch")
	if err != nil {
		return false
	}
	req := fetching(s, wanted{topic: topic, index: index, offset: offset{"", at}, epoch: epoch{none: true}, last: epoch{none: true}, max: 1})
	req.Version = 11
	kind := req.ResponseKind()
	kind.SetVersion(11)
	r, ok := c.Send(c.Encode(req), kind).Response.(*kmsg.FetchResponse)
	if !ok || len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		return false
	}
	b := r.Topics[0].Partitions[0].RecordBatches
	return r.Topics[0].Partitions[0].ErrorCode == 0 && len(b) > 8 && int64(binary.BigEndian.Uint64(b)) == at
}

// passes waits until each server's cleaner has looked at all logs at least once
// more, from begin to end: until three records, one after another, have gone
// from a log that keeps none.
func (p *Play) passes() {
	for range 3 {
		for _, s := range p.Sides {
			if p.over {
				return
			}
			if err := s.pass(); err != nil {
				p.fail(err)
			}
		}
	}
}

// pass writes a record that is not kept, and waits until it has gone.
func (s *side) pass() error {
	c, err := s.conn("watch")
	if err != nil {
		return err
	}
	req := producing(s, -1, written{passing, 0, newBatch("")})
	req.Version = 9
	kind := req.ResponseKind()
	kind.SetVersion(9)
	r, ok := c.Send(c.Encode(req), kind).Response.(*kmsg.ProduceResponse)
	if !ok || len(r.Topics) != 1 || r.Topics[0].Partitions[0].ErrorCode != 0 {
		return nil // a shortened sequence has no such topic
	}
	at := r.Topics[0].Partitions[0].BaseOffset
	for begun := time.Now(); s.first(passing, 0) <= at; pause(10) {
		if time.Since(begun) > agreement {
			return fmt.Errorf("the cleaner of %s does not come round", s.addr)
		}
	}
	return nil
}

// everything compares all that a partition holds, and what is told of it.
func (p *Play) everything(topic string, index int32) {
	if p.over {
		return
	}
	var held [2]any
	for i, s := range p.Sides {
		b, start, err := s.read(topic, index)
		if err != nil {
			p.fail(err)
			return
		}
		s.versed.now = time.Now()
		held[i] = s.versed.number(map[string]any{"start": start, "batches": s.versed.batches(reflect.ValueOf(b))})
	}
	for _, d := range frames.Diff(held[ours], held[kafkas]) {
		path, values, _ := strings.Cut(d, ": ")
		a, b, _ := strings.Cut(values, " against ")
		p.differ(Difference{Text: fmt.Sprintf("all of %s/%d%s: %s", topic, index, path, values), Kind: fmt.Sprintf("all of%s: %s against %s", withoutIndices(path), shorten(a), shorten(b)), Answers: [2]string{text(held[ours]), text(held[kafkas])}})
	}
	p.ask("reader", pick{from: 7}, fmt.Sprintf("offsets of %s/%d", topic, index), func(s *side) kmsg.Request { return listing(s, 0, when{topic, index, -3}) })
	p.ask("admin", pick{from: 1}, "room of "+topic, func(s *side) kmsg.Request {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		t := kmsg.NewDescribeLogDirsRequestTopic()
		t.Topic, t.Partitions = s.name(topic), []int32{0, 1}
		req.Topics = append(req.Topics, t)
		return req
	})
}

// read reads a whole partition, segment by segment, from where it begins.
func (s *side) read(topic string, index int32) (all []byte, start int64, err error) {
	c, err := s.conn("watch")
	if err != nil {
		return nil, 0, err
	}
	start = s.first(topic, index)
	for next := start; ; {
		req := fetching(s, wanted{topic: topic, index: index, offset: offset{"", next}, epoch: epoch{none: true}, last: epoch{none: true}, max: 1 << 20})
		req.Version = 11
		kind := req.ResponseKind()
		kind.SetVersion(11)
		r, ok := c.Send(c.Encode(req), kind).Response.(*kmsg.FetchResponse)
		if !ok || len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
			return nil, 0, fmt.Errorf("%s does not let %s/%d be read", s.addr, topic, index)
		}
		b := r.Topics[0].Partitions[0].RecordBatches
		s.learn("watch", req, r)
		if len(b) == 0 {
			return all, start, nil
		}
		all = append(all, b...)
		for len(b) >= 61 && len(b) >= 12+int(binary.BigEndian.Uint32(b[8:])) {
			next = int64(binary.BigEndian.Uint64(b)) + int64(binary.BigEndian.Uint32(b[23:])) + 1
			b = b[12+int(binary.BigEndian.Uint32(b[8:])):]
		}
	}
}

// first is where a log begins, as its server says.
func (s *side) first(topic string, index int32) int64 {
	c, err := s.conn("watch")
	if err != nil {
		return 0
	}
	req := listing(s, 0, when{topic, index, -2})
	req.Version = 5
	kind := req.ResponseKind()
	kind.SetVersion(5)
	r, ok := c.Send(c.Encode(req), kind).Response.(*kmsg.ListOffsetsResponse)
	if !ok || len(r.Topics) != 1 || r.Topics[0].Partitions[0].ErrorCode != 0 {
		return 0
	}
	return r.Topics[0].Partitions[0].Offset
}

// retain lets what is too much or too old go, and waits until it has.
func (g *gen) retain() Step {
	topic, index := oneOf(g.Rand, retained, retained, retained, compacted), int32(g.IntN(2))
	// Records are from more than an hour ago, or from the last minutes.
	set := oneOf(g.Rand, []string{"retention.bytes", "0"}, []string{"retention.bytes", "700"}, []string{"retention.bytes", "1500"}, []string{"retention.bytes", "4000"},
		[]string{"retention.ms", "3600000"}, []string{"retention.ms", "36000000"}, []string{"retention.bytes", "2000", "retention.ms", "3600000"})
	what := fmt.Sprintf("retain %s by %q", topic, set)
	return Step{Text: what, Do: func(p *Play) {
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
	)
	var bs []batch
	var vs []pick
	for range 2 {
		_, b := g.keyedBatch()
		bs, vs = append(bs, b), append(vs, g.pick().above(3))
	}
	if g.chance(30) {
		bs[0].records[0].key = nil
	}
	back := g.chance(70) || slices.Contains([]string{"cleanup.policy", "message.timestamp.type", "min.compaction.lag.ms"}, set[0])
	what := fmt.Sprintf("set %q of %s", set, topic)
	return Step{Text: fmt.Sprintf("%s, write to /%d, take it back %v", what, index, back), Do: func(p *Play) {
		p.set(topic, set...)
		for i, b := range bs {
			p.ask("writer", vs[i], what+", then write", func(s *side) kmsg.Request { return producing(s, -1, written{topic, index, b}) })
			if b.codec != 0 && topic == compacted {
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

// reset takes a topic's config back to what a server has by itself; of the
// policy, to what the topic is for.
func (p *Play) reset(topic, key string) {
	switch {
	case key == "cleanup.policy" && topic == deleted:
		p.set(topic, key, "delete")
	case key == "cleanup.policy":
		p.set(topic, key, "compact,delete")
	case key == "internal.segment.bytes":
	default:
		p.ask("admin", pick{}, "take back "+key, func(s *side) kmsg.Request {
			req := kmsg.NewPtrIncrementalAlterConfigsRequest()
			r := kmsg.NewIncrementalAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, s.name(topic)
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Op = key, kmsg.IncrementalAlterConfigOpDelete
			r.Configs = append(r.Configs, c)
			req.Resources = append(req.Resources, r)
			return req
		})
		p.applied()
		pause(20)
	}
}
