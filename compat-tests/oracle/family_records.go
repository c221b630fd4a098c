package oracle

import (
	"fmt"
	"millrace/compat-tests/batch"
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

// then is the time of the records that sequences write.
var then = batch.Then

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
			{1, (*gen).fetchAcross},
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

// written is one partition of a Produce request.
type written struct {
	topic string
	index int32
	batch batch.Batch
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
		rp.Partition, rp.Records = w.index, w.batch.Bytes()
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
		if p.old && b.Codec != 0 {
			p.repacked(topic) // where it is read as message sets
		}
		p.numbered(b)
		p.settle(nil)
		p.beyondOld(b)
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
		b := batch.New(strings.Repeat("v", size))
		p.ask("writer", v, what, func(s *side) kmsg.Request { return producing(s, -1, written{"large", 0, b}) })
	}}
}

// numbered ends a sequence that has written plain records with gaps between
// their offsets: Kafka stores those unread, and here they are numbered anew, so
// what is read of them differs (the design: offsets are dense before
// compaction).
func (p *Play) numbered(bs ...batch.Batch) {
	for _, b := range bs {
		for _, r := range b.Records {
			p.over = p.over || r.Delta != nil && b.Codec == 0
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
		for _, w := range parts {
			p.numbered(w.batch)
		}
		p.settle(nil)
	}}
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
		if p.partsAwaited() {
			return
		}
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
