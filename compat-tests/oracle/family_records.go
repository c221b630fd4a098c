package oracle

import (
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// logProfiles are configs of topics that records are written to.
var logProfiles = [][]string{
	{}, {},
	{"message.timestamp.type", "LogAppendTime"},
	{"cleanup.policy", "compact"},
	{"cleanup.policy", "compact,delete"},
	{"compression.type", "gzip"},
	{"compression.type", "lz4", "message.timestamp.type", "LogAppendTime"},
	{"compression.type", "zstd"},
	{"compression.type", "snappy"},
	{"compression.type", "uncompressed"},
	{"max.message.bytes", "200"},
	{"message.timestamp.before.max.ms", "10800000", "message.timestamp.after.max.ms", "60000"},
	{"internal.segment.bytes", "1000"},
	{"min.insync.replicas", "2"},
	{"segment.bytes", "1048576", "index.interval.bytes", "100", "max.message.bytes", "3000000"},
}

func init() {
	register(&family{
		name: "records", weight: 30, length: 40,
		open: func(g *gen) []Step { return g.createTopics(logProfiles...) },
		steps: []maker{
			{24, (*gen).produce},
			{22, (*gen).produceIdempotent},
			{4, (*gen).produceSeveral},
			{1, (*gen).beyondSegment},
			{18, (*gen).fetch},
			{12, (*gen).listOffsets},
			{6, (*gen).deleteRecords},
			{5, (*gen).epochEnd},
			{3, (*gen).describeProducers},
			{3, (*gen).initProducer},
			{2, (*gen).describeLogDirs},
			{2, (*gen).truncatedTopic},
		},
	})
}

// draws of batches: what is said of one, and what it is.
func (g *gen) batch() (string, batch) {
	n := 1 + g.IntN(4)
	if g.chance(5) {
		n = 30
	}
	var values []string
	for range n {
		values = append(values, strings.Repeat(oneOf(g.Rand, "v", "w", "x"), oneOf(g.Rand, 0, 1, 5, 40, 150)))
	}
	b := newBatch(values...)
	what := fmt.Sprintf("%d records", n)
	if g.chance(35) {
		b.codec = int8(1 + g.IntN(4))
		what += []string{"", " in gzip", " in snappy", " in lz4", " in zstd"}[b.codec]
	}
	for i := range b.records {
		r := &b.records[i]
		if g.chance(12) {
			r.key = nil
		}
		if g.chance(8) {
			r.value = nil
		}
		if g.chance(15) {
			r.headers = [][2][]byte{{[]byte("h"), nil}, {[]byte("h"), []byte("x")}}
		}
	}
	if g.chance(30) {
		b.first = then + int64(g.IntN(5000)) - 2500
	}
	if !g.chance(45) {
		return what, b
	}
	odd, f := g.oddity()
	f(&b)
	return what + ", " + odd, b
}

// oddity is something about a batch that need not be bad.
func (g *gen) oddity() (string, func(*batch)) {
	type odd struct {
		what string
		f    func(*batch)
	}
	delta, big := int64(g.IntN(9)-4), int64(g.IntN(1000))
	return func(o odd) (string, func(*batch)) { return o.what, o.f }(oneOf(g.Rand,
		odd{"base offset 1", func(b *batch) { b.base = 1 }},
		odd{"base offset -1", func(b *batch) { b.base = -1 }},
		odd{"leader epoch 77", func(b *batch) { b.leaderEpoch = 77 }},
		odd{"magic 0", func(b *batch) { b.magic = 0 }},
		odd{"magic 1", func(b *batch) { b.magic = 1 }},
		odd{"magic 3", func(b *batch) { b.magic = 3 }},
		odd{"a wrong checksum", func(b *batch) { b.spoil = func(x []byte) []byte { x[17] ^= 1; return x } }},
		odd{"a flipped bit", func(b *batch) { b.spoil = func(x []byte) []byte { x[len(x)-1] ^= 1; return x } }},
		odd{"cut by 3 bytes", func(b *batch) { b.spoil = func(x []byte) []byte { return x[:len(x)-3] } }},
		odd{"5 bytes of it", func(b *batch) { b.spoil = func(x []byte) []byte { return x[:5] } }},
		odd{"empty", func(b *batch) { b.spoil = func(x []byte) []byte { return x[:0] } }},
		odd{"stray bytes behind", func(b *batch) { b.spoil = func(x []byte) []byte { return append(x, 1, 2, 3) } }},
		odd{"twice", func(b *batch) { b.spoil = func(x []byte) []byte { return append(x, x...) } }},
		odd{"length too small", func(b *batch) { b.spoil = func(x []byte) []byte { x[11] -= 5; return x } }},
		odd{"count 0", func(b *batch) { b.count = to(int32(0)) }},
		odd{"count -1", func(b *batch) { b.count = to(int32(-1)) }},
		odd{"count one more", func(b *batch) { b.count = to(int32(len(b.records) + 1)) }},
		odd{"count and delta one more", func(b *batch) {
			b.count, b.lastDelta = to(int32(len(b.records)+1)), to(int32(len(b.records)))
		}},
		odd{"delta one more", func(b *batch) { b.lastDelta = to(int32(len(b.records))) }},
		odd{"offset deltas with a gap", func(b *batch) { b.records[len(b.records)-1].delta = to(int64(len(b.records) + 2)) }},
		odd{"offset deltas that go back", func(b *batch) { b.records[len(b.records)-1].delta = to(int64(-1)) }},
		odd{"no records", func(b *batch) { b.records = nil }},
		odd{"no records, delta 0", func(b *batch) { b.records, b.lastDelta = nil, to(int32(0)) }},
		odd{"control", func(b *batch) { b.attributes |= 1 << 5 }},
		odd{"transactional", func(b *batch) { b.attributes |= 1 << 4 }},
		odd{"flagged append time", func(b *batch) { b.attributes |= 1 << 3 }},
		odd{"flagged append time, no time", func(b *batch) { b.attributes |= 1 << 3; b.first = -1 }},
		odd{"unknown bits", func(b *batch) { b.attributes |= 1<<7 | 1<<12 }},
		odd{"delete horizon", func(b *batch) { b.attributes |= 1 << 6 }},
		odd{"codec 5", func(b *batch) { b.codec = 5 }},
		odd{"codec 7", func(b *batch) { b.codec = 7 }},
		odd{"claims gzip", func(b *batch) { b.codec = 0; b.attributes |= 1 }},
		odd{"claims zstd", func(b *batch) { b.codec = 0; b.attributes |= 4 }},
		odd{"no timestamps", func(b *batch) { b.first = -1; clearTimes(b) }},
		odd{"timestamps below none", func(b *batch) { b.first = -2; clearTimes(b) }},
		odd{"smallest timestamp", func(b *batch) { b.first = math.MinInt64; clearTimes(b) }},
		odd{"largest timestamp", func(b *batch) { b.first = math.MaxInt64; clearTimes(b) }},
		odd{"from 1970", func(b *batch) { b.first = 1 }},
		odd{"in five hours", func(b *batch) { b.first = then + 7*3600e3 }},
		odd{"last record in five hours", func(b *batch) { b.records[len(b.records)-1].at = 7 * 3600e3 }},
		odd{"descending", func(b *batch) {
			for i := range b.records {
				b.records[i].at = -int64(i) * 10
			}
		}},
		odd{"scattered", func(b *batch) {
			for i := range b.records {
				b.records[i].at = (int64(i)*big + delta) % 97
			}
		}},
		odd{"largest timestamp wrong in the header", func(b *batch) { b.most = to(b.first + delta) }},
		odd{"no largest timestamp in the header", func(b *batch) { b.most = to(int64(-1)) }},
		odd{"a producer without a sequence", func(b *batch) { b.producer, b.epoch, b.sequence = 1000, 0, -1 }},
		odd{"a producer without an epoch", func(b *batch) { b.producer, b.epoch, b.sequence = 1000, -1, 0 }},
		odd{"a byte behind the records", func(b *batch) { b.trailing = []byte{0} }},
		odd{"a record behind the last", func(b *batch) { b.trailing = []byte{12, 0, 0, 4, 1, 1, 0} }},
		odd{"attributes of a record", func(b *batch) { b.records[0].body = []byte{9, 0, 0, 1, 1, 0} }},
		odd{"key length -2", func(b *batch) { b.records[0].body = []byte{0, 0, 0, 3, 1, 0} }},
		odd{"key beyond the record", func(b *batch) { b.records[0].body = []byte{0, 0, 0, 40, 1, 0} }},
		odd{"value beyond the record", func(b *batch) { b.records[0].body = []byte{0, 0, 0, 1, 40, 0} }},
		odd{"header count -1", func(b *batch) { b.records[0].body = []byte{0, 0, 0, 1, 1, 1} }},
		odd{"header count too large", func(b *batch) { b.records[0].body = []byte{0, 0, 0, 1, 1, 100} }},
		odd{"a null header key", func(b *batch) { b.records[0].body = []byte{0, 0, 0, 1, 1, 2, 1, 0} }},
		odd{"a record too long for its fields", func(b *batch) { b.records[0].body = []byte{0, 0, 0, 1, 1, 0, 7, 7} }},
		odd{"a record of one byte", func(b *batch) { b.records[0].body = []byte{0} }},
		odd{"an endless varint", func(b *batch) {
			b.records[0].body = []byte{0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}
		}},
		odd{"a value of 1000 bytes", func(b *batch) { b.records[0].value = make([]byte, 1000) }},
		odd{"a packed value of 5000 bytes", func(b *batch) { b.codec = 1; b.records[0].value = make([]byte, 5000) }},
		odd{"a value beyond a segment", func(b *batch) { b.codec = 0; b.records[0].value = make([]byte, 1048570) }},
		odd{"broken at its start", func(b *batch) {
			b.spoil = func(x []byte) []byte {
				for i := 61; i < len(x) && i < 69; i++ {
					x[i] ^= 0x5a
				}
				return resum(x)
			}
		}},
	))
}

func clearTimes(b *batch) {
	for i := range b.records {
		b.records[i].at = 0
	}
}

// written is one partition of a Produce request.
type written struct {
	topic string
	index int32
	batch batch
}

func producing(s *side, acks int16, parts ...written) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 3000
	last := ""
	for _, w := range parts {
		if len(req.Topics) == 0 || last != w.topic {
			t := kmsg.NewProduceRequestTopic()
			t.Topic, t.TopicID, last = s.name(w.topic), s.id(w.topic), w.topic
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = w.index, w.batch.bytes()
		t.Partitions = append(t.Partitions, rp)
	}
	return req
}

func (g *gen) acks() int16 {
	return oneOf[int16](g.Rand, -1, -1, -1, -1, -1, -1, 1, 1, 1, 0, 0, 2, -2)
}

func (g *gen) produce() Step {
	what, b := g.batch()
	topic, index, acks := g.topic(), g.partition(), g.acks()
	if g.chance(2) {
		topic = "=__consumer_offsets"
	}
	client := oneOf(g.Rand, "writer", "writer", "writer2")
	if !strings.HasPrefix(topic, "=__") && g.chance(3) {
		client = "__admin_client" // may write to internal topics, too
	}
	what = fmt.Sprintf("produce to %s/%d acks %d: %s", topic, index, acks, what)
	v := g.pick().above(3)
	return Step{Text: client + ": " + what, Do: func(p *Play) {
		p.ask(client, v, what, func(s *side) kmsg.Request { return producing(s, acks, written{topic, index, b}) })
		p.settle(nil)
		p.numbered(b)
	}}
}

// beyondSegment writes a batch that is larger than a segment may be, or as large.
func (g *gen) beyondSegment() Step {
	create := g.createTopic("large", 1, []string{"segment.bytes", "1048576", "max.message.bytes", "3000000"})
	size := oneOf(g.Rand, 1048600, 1048500)
	v := g.pick().above(3)
	what := fmt.Sprintf("produce a value of %d bytes where a segment has 1048576", size)
	return Step{Text: what, Do: func(p *Play) {
		if _, ok := p.kafka().topics[p.kafka().name("large")]; !ok {
			create.Do(p)
		}
		b := newBatch(strings.Repeat("v", size))
		p.ask("writer", v, what, func(s *side) kmsg.Request { return producing(s, -1, written{"large", 0, b}) })
	}}
}

// numbered ends a sequence that has written plain records with gaps between
// their offsets: Kafka stores those unread, and here they are numbered anew, so
// what is read of them differs (the design: offsets are dense before
// compaction).
func (p *Play) numbered(bs ...batch) {
	for _, b := range bs {
		for _, r := range b.records {
			p.over = p.over || r.delta != nil && b.codec == 0
		}
	}
}

func (g *gen) produceSeveral() Step {
	var parts []written
	var list []string
	seen := map[place]bool{}
	for range 2 + g.IntN(3) {
		what, b := g.batch()
		w := written{g.topic(), g.partition(), b}
		if seen[place{w.topic, w.index}] {
			continue // which of two is stored is a fault of Kafka's
		}
		seen[place{w.topic, w.index}] = true
		parts = append(parts, w)
		list = append(list, fmt.Sprintf("%s/%d %s", w.topic, w.index, what))
	}
	// Entries of one topic stand together.
	for i := range parts {
		for j := i + 1; j < len(parts); j++ {
			if parts[j].topic == parts[i].topic && j > i+1 && parts[i+1].topic != parts[i].topic {
				parts[j], parts[i+1] = parts[i+1], parts[j]
			}
		}
	}
	acks := g.acks()
	what := fmt.Sprintf("produce acks %d to %s", acks, strings.Join(list, "; "))
	v := g.pick().above(3)
	return Step{Text: what, Do: func(p *Play) {
		p.ask("writer", v, what, func(s *side) kmsg.Request { return producing(s, acks, parts...) })
		p.settle(nil)
		for _, w := range parts {
			p.numbered(w.batch)
		}
	}}
}

// produceIdempotent writes with a producer's id and sequence: what comes next,
// or what does not.
func (g *gen) produceIdempotent() Step {
	client := oneOf(g.Rand, "p0", "p1")
	topic, index := oneOf(g.Rand, g.topics...), int32(g.IntN(2))
	n := 1 + g.IntN(3)
	mode := oneOf(g.Rand, "next", "next", "next", "next", "next", "the last again", "an earlier one again", "a gap", "overlapping the last", "part of the last",
		"a new epoch", "a new epoch not at 0", "an old epoch", "from 0", "near the end", "epoch -1", "without a producer")
	back, codec, own := 1+g.IntN(6), int8(oneOf(g.Rand, 0, 0, 0, 1, 4)), g.chance(50)
	v, acks := g.pick().above(3), oneOf[int16](g.Rand, -1, -1, -1, 1, 0)
	what := fmt.Sprintf("produce to %s/%d acks %d as a producer: %s, %d records", topic, index, acks, mode, n)
	return Step{Text: client + ": " + what, Do: func(p *Play) {
		var tried [2]sent
		var ids [2]int64
		x := p.ask(client, v, what, func(s *side) kmsg.Request {
			id := producerID{4000, 0}
			if client == "p1" {
				id = producerID{5000, 3}
			}
			if given := s.producers[client]; given != nil && own {
				id = *given
			}
			at := s.part(topic, index)
			q := at.sequences[id.id]
			if q == nil {
				q = &sequence{epoch: id.epoch}
			}
			b := newBatch(make([]string, n)...)
			b.codec, b.producer, b.epoch, b.sequence = codec, id.id, q.epoch, q.next
			count := n
			again := func(i int, skip int32) {
				if len(q.sent) >= i {
					z := q.sent[len(q.sent)-i]
					count = z.count
					b.records = newBatch(make([]string, count)...).records
					b.sequence, b.epoch = z.first, z.epoch
					if skip > 0 && z.count > 1 {
						b.records, b.sequence, count = b.records[:1], z.first+1, 1
					}
				}
			}
			switch mode {
			case "the last again":
				again(1, 0)
			case "an earlier one again":
				again(back, 0)
			case "part of the last":
				again(1, 1)
			case "overlapping the last":
				b.sequence = max(0, q.next-1)
			case "a gap":
				b.sequence = q.next + int32(back)
			case "a new epoch":
				b.epoch, b.sequence = q.epoch+1, 0
			case "a new epoch not at 0":
				b.epoch, b.sequence = q.epoch+1, int32(back)
			case "an old epoch":
				b.epoch = max(0, q.epoch-1)
			case "from 0":
				b.sequence = 0
			case "near the end":
				if len(q.sent) == 0 {
					b.sequence = math.MaxInt32 - int32(back%3)
				}
			case "epoch -1":
				b.epoch = -1
			case "without a producer":
				b.producer, b.epoch = -1, -1
			}
			i := ours
			if s == p.Sides[kafkas] {
				i = kafkas
			}
			tried[i], ids[i] = sent{b.sequence, count, b.epoch}, id.id
			return producing(s, acks, written{topic, index, b})
		})
		if x == nil || p.over {
			return
		}
		for i, s := range p.Sides {
			r, ok := x.out[i].Response.(*kmsg.ProduceResponse)
			if acks != 0 && (!ok || len(r.Topics) != 1 || r.Topics[0].Partitions[0].ErrorCode != 0) || x.out[i].Response == nil || mode == "without a producer" {
				continue
			}
			at, z := s.part(topic, index), tried[i]
			q := at.sequences[ids[i]]
			if q == nil {
				q = &sequence{}
				at.sequences[ids[i]] = q
			}
			if n := len(q.sent); n > 0 && q.epoch == z.epoch && z.first != q.next {
				continue // stored before
			}
			q.epoch, q.next = z.epoch, int32((int64(z.first)+int64(z.count))%(1<<31))
			q.sent = append(q.sent, z)
		}
		p.settle(nil)
	}}
}

// offset is a draw of an offset relative to what a partition holds.
type offset struct {
	from string
	by   int64
}

func (g *gen) offset() offset {
	return oneOf(g.Rand, offset{"start", 0}, offset{"start", 0}, offset{"start", 1}, offset{"end", 0}, offset{"end", 0}, offset{"end", -1}, offset{"end", -2}, offset{"end", 1},
		offset{"middle", 0}, offset{"start", -1}, offset{"", 0}, offset{"", -1}, offset{"", 1 << 40})
}

func (o offset) of(p *part) int64 {
	switch o.from {
	case "start":
		return p.start + o.by
	case "end":
		return p.end + o.by
	case "middle":
		return (p.start + p.end) / 2
	}
	return o.by
}

func (o offset) String() string {
	if o.from == "" {
		return fmt.Sprint(o.by)
	}
	return fmt.Sprintf("%s%+d", o.from, o.by)
}

// epoch is a draw of a leader epoch relative to the present one.
type epoch struct {
	none  bool
	by    int32
	below bool // what stands for none is -1, and this below it
}

func (g *gen) epoch() epoch {
	return oneOf(g.Rand, epoch{none: true}, epoch{none: true}, epoch{none: true}, epoch{none: true}, epoch{}, epoch{}, epoch{by: -1}, epoch{by: 1}, epoch{below: true})
}

func (e epoch) of(p *part) int32 {
	switch {
	case e.none:
		return -1
	case e.below:
		return -2
	}
	return p.near(e.by)
}

// wanted is one partition of a Fetch request.
type wanted struct {
	topic  string
	index  int32
	offset offset
	epoch  epoch
	last   epoch
	max    int32
	old    bool // by the id of a topic that is gone
}

func (g *gen) wanted() wanted {
	w := wanted{topic: g.topic(), index: g.partition(), offset: g.offset(), epoch: g.epoch(), last: epoch{none: true},
		max: oneOf[int32](g.Rand, 1<<20, 1<<20, 1<<20, 1<<20, 100, 300, 1, 0)}
	if g.chance(12) {
		w.last = oneOf(g.Rand, epoch{}, epoch{by: 1}, epoch{by: -1})
	}
	if g.chance(2) {
		w.max = -1
	}
	w.old = g.chance(2)
	return w
}

func (w wanted) String() string {
	return fmt.Sprintf("%s/%d at %s epoch %v last %v max %d old %v", w.topic, w.index, w.offset, w.epoch, w.last, w.max, w.old)
}

func fetching(s *side, parts ...wanted) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxBytes, req.SessionEpoch = -1, 50<<20, -1
	req.ReplicaState.ID, req.ReplicaState.Epoch = -1, -1
	for _, w := range parts {
		name, id := s.name(w.topic), s.id(w.topic)
		if w.old {
			id = s.oldID(w.topic)
		}
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != name || req.Topics[n-1].TopicID != id {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = name, id
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		at := s.part(w.topic, w.index)
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = w.index, w.offset.of(at), w.max
		rp.CurrentLeaderEpoch, rp.LastFetchedEpoch, rp.LogStartOffset = w.epoch.of(at), w.last.of(at), -1
		t.Partitions = append(t.Partitions, rp)
	}
	return req
}

// fetch reads without a session. Some wait: for what is written meanwhile, or
// until their time is up.
func (g *gen) fetch() Step {
	var parts []wanted
	var list []string
	seen := map[place]bool{}
	for range 1 + g.IntN(3) {
		w := g.wanted()
		if seen[place{w.topic, w.index}] && !g.chance(20) {
			continue
		}
		seen[place{w.topic, w.index}] = true
		parts = append(parts, w)
		list = append(list, w.String())
	}
	isolation := oneOf[int8](g.Rand, 0, 0, 0, 1)
	if g.chance(2) {
		isolation = 7
	}
	replica := int32(-1)
	if g.chance(8) {
		replica = oneOf[int32](g.Rand, -2, -3, 1, 5)
	}
	most := oneOf[int32](g.Rand, 50<<20, 50<<20, 50<<20, 300, 1, 0, -1)
	least, waits := int32(0), int32(0)
	switch n := g.IntN(100); {
	case n < 12:
		least, waits = oneOf[int32](g.Rand, 1, 1<<20), 300
	case n < 22:
		least, waits = oneOf[int32](g.Rand, 1, 1, 200, 1<<20), 1500
	case n < 30:
		least, waits = 1, 0
	}
	rack := oneOf(g.Rand, "", "", "r1")
	what := fmt.Sprintf("fetch isolation %d replica %d max %d min %d wait %d: %s", isolation, replica, most, least, waits, strings.Join(list, "; "))
	client := "reader"
	if waits > 1000 {
		client = oneOf(g.Rand, "waiter1", "waiter2")
	}
	v := g.pick()
	build := func(s *side) kmsg.Request {
		req := fetching(s, parts...)
		req.IsolationLevel, req.ReplicaID, req.ReplicaState.ID, req.MaxBytes, req.MinBytes, req.MaxWaitMillis = isolation, replica, replica, most, least, waits
		req.Rack = rack
		return req
	}
	return Step{Text: client + ": " + what, Do: func(p *Play) {
		if waits > 1000 {
			p.begin(client, v, what, build)
			p.settle(nil)
			return
		}
		p.ask(client, v, what, build)
	}}
}

func (g *gen) listOffsets() Step {
	type asked struct {
		topic string
		index int32
		when  int64
		epoch epoch
	}
	var list []asked
	for range oneOf(g.Rand, 1, 1, 2, 2, 2, 3, 3, 0) {
		list = append(list, asked{g.topic(), g.partition(), oneOf[int64](g.Rand, -1, -1, -2, -2, -3, -3, -4, -5, -6, -7, 0, 1, then-2500, then, then+1, then+3, then+40, then+1000, then+8*3600e3, math.MaxInt64), g.epoch()})
	}
	isolation, replica := oneOf[int8](g.Rand, 0, 0, 0, 1, 1, 2), oneOf[int32](g.Rand, -1, -1, -1, -1, -1, -2, 1, 9)
	return g.asking("reader", fmt.Sprintf("list offsets isolation %d replica %d %v", isolation, replica, list), func(s *side) kmsg.Request {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID, req.IsolationLevel, req.TimeoutMillis = replica, isolation, 2000
		for _, a := range list {
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = s.name(a.topic)
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp, p.CurrentLeaderEpoch, p.MaxNumOffsets = a.index, a.when, a.epoch.of(s.part(a.topic, a.index)), 2
			if n := len(req.Topics); n > 0 && req.Topics[n-1].Topic == t.Topic {
				req.Topics[n-1].Partitions = append(req.Topics[n-1].Partitions, p)
				continue
			}
			t.Partitions = append(t.Partitions, p)
			req.Topics = append(req.Topics, t)
		}
		return req
	})
}

func (g *gen) deleteRecords() Step {
	type asked struct {
		topic  string
		index  int32
		offset offset
	}
	var list []asked
	for range 1 + g.IntN(2) {
		o := g.offset()
		if g.chance(10) {
			o = offset{"", -2}
		}
		list = append(list, asked{g.topic(), g.partition(), o})
	}
	if g.chance(3) {
		list[0].topic = "=__consumer_offsets"
	}
	return g.asking("admin", fmt.Sprintf("delete records %v", list), func(s *side) kmsg.Request {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.TimeoutMillis = 3000
		for _, a := range list {
			t := kmsg.NewDeleteRecordsRequestTopic()
			t.Topic = s.name(a.topic)
			p := kmsg.NewDeleteRecordsRequestTopicPartition()
			p.Partition, p.Offset = a.index, a.offset.of(s.part(a.topic, a.index))
			t.Partitions = append(t.Partitions, p)
			req.Topics = append(req.Topics, t)
		}
		return req
	})
}

func (g *gen) epochEnd() Step {
	topic, index, current, asked, replica := g.topic(), g.partition(), g.epoch(), oneOf(g.Rand, epoch{}, epoch{}, epoch{by: 1}, epoch{by: -1}, epoch{none: true}), oneOf[int32](g.Rand, -1, -1, -2, 1)
	return g.asking("reader", fmt.Sprintf("end of epoch %v of %s/%d at %v replica %d", asked, topic, index, current, replica), func(s *side) kmsg.Request {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.ReplicaID = replica
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = s.name(topic)
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		at := s.part(topic, index)
		p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = index, current.of(at), asked.of(at)
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	})
}

func (g *gen) describeProducers() Step {
	topic, indices := g.topic(), []int32{g.partition(), g.partition()}
	return g.asking("admin", fmt.Sprintf("describe producers of %s %v", topic, indices), func(s *side) kmsg.Request {
		req := kmsg.NewPtrDescribeProducersRequest()
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = s.name(topic), indices
		req.Topics = append(req.Topics, t)
		return req
	})
}

// initProducer asks for a producer's id, which its client then writes with.
func (g *gen) initProducer() Step {
	client, timeout := oneOf(g.Rand, "p0", "p1"), oneOf[int32](g.Rand, 60000, 60000, 0, -1, math.MaxInt32)
	mode := oneOf(g.Rand, "new", "new", "new", "its own", "only an id", "only an epoch", "empty name")
	return g.asking(client, fmt.Sprintf("init producer id, %s, timeout %d", mode, timeout), func(s *side) kmsg.Request {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = timeout, -1, -1
		switch mode {
		case "its own":
			if p := s.producers[client]; p != nil {
				req.ProducerID, req.ProducerEpoch = p.id, p.epoch
			}
		case "only an id":
			req.ProducerID = 7
		case "only an epoch":
			req.ProducerEpoch = 7
		case "empty name":
			req.TransactionalID = kmsg.StringPtr("")
		}
		return req
	})
}

func (g *gen) describeLogDirs() Step {
	topic, indices := g.topic(), []int32{g.partition(), 0}
	mode := oneOf(g.Rand, "those", "those", "none", "all")
	return g.asking("admin", fmt.Sprintf("describe log dirs: %s of %s %v", mode, topic, indices), func(s *side) kmsg.Request {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		switch mode {
		case "those":
			t := kmsg.NewDescribeLogDirsRequestTopic()
			t.Topic, t.Partitions = s.name(topic), indices
			req.Topics = append(req.Topics, t)
		case "none":
			req.Topics = []kmsg.DescribeLogDirsRequestTopic{}
		}
		return req
	})
}

// truncatedTopic deletes a topic and makes it anew.
func (g *gen) truncatedTopic() Step {
	topic, v, w := oneOf(g.Rand, g.topics...), g.pick(), g.pick()
	profile, n := oneOf(g.Rand, logProfiles...), int32(1+g.IntN(2))
	again := g.chance(70)
	make := g.createTopic(topic, n, profile)
	_ = w
	return Step{Text: fmt.Sprintf("delete %s and make it anew (%v)", topic, again), Do: func(p *Play) {
		p.deleteTopic(v, topic)
		if again {
			make.Do(p)
		}
	}}
}

func (p *Play) deleteTopic(v pick, topic string) {
	p.ask("admin", v, "delete "+topic, func(s *side) kmsg.Request {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis, req.TopicNames = 5000, []string{s.name(topic)}
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = kmsg.StringPtr(s.name(topic))
		req.Topics = append(req.Topics, t)
		return req
	})
	p.applied()
	p.settle(offsetTopics)
}
