package oracle

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/batch"
	"millrace/compat-tests/normal"
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

// repacked says that servers may pack a topic's records anew.
func (p *Play) repacked(topic string) {
	for _, s := range p.Sides {
		s.versed.Packed[s.name(topic)] = true
	}
}

// produceNext writes a batch with the sequence that is next for a client's
// producer.
func (p *Play) produceNext(client string, v pick, what, topic string, index int32, b batch.Batch) {
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
		b.Producer, b.Epoch, b.Sequence = id.id, q.epoch, q.next
		i := ours
		if s == p.kafka() {
			i = kafkas
		}
		tried[i], ids[i] = sent{b.Sequence, len(b.Records), b.Epoch}, id.id
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

// sweepable says whether a topic's configs, and what is to be set, let its records be
// cleaned away: what other families have made of it may not.
func (s *side) sweepable(by letting) bool {
	topic := by.topic
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
	if is["min.compaction.lag.ms"] != "0" && s.versed.Packed[s.name(topic)] {
		return false // which records share a segment with one too young depends on sizes
	}
	for i := 0; i+1 < len(by.let); i += 2 {
		is[by.let[i]] = by.let[i+1]
	}
	segment := is["internal.segment.bytes"]
	if n := is["segment.index.bytes"]; len(n) < len("1200") {
		return false // Kafka's cleaner fails where it fills the indexes of what it writes
	}
	return strings.Contains(is["cleanup.policy"], "compact") && (segment == smallSegment || segment == largerSegment) &&
		(is["min.compaction.lag.ms"] == "0" || is["message.timestamp.type"] == "CreateTime") && is["retention.ms"] == "-1" && is["retention.bytes"] == "-1"
}

// rolled has a segment begin with a record; false: configs do not let it in.
func (p *Play) rolled(topic string, index int32) bool {
	for range 2 { // the first may fit into the last segment
		b := batch.New("")
		b.Records[0].Key, b.Records[0].Value = []byte("roll"), sweepValue
		x := p.ask("writer", pick{from: 3}, "a record to begin a segment", func(s *side) kmsg.Request { return producing(s, -1, written{topic, index, b}) })
		if x == nil || p.over {
			return false
		}
		for j := range p.Sides {
			r, ok := x.out[j].Response.(*kmsg.ProduceResponse)
			if !ok || len(r.Topics) != 1 || r.Topics[0].Partitions[0].ErrorCode != 0 {
				return false
			}
		}
	}
	return true
}

// partitionsOf is how many partitions a topic of the family has.
func partitionsOf(topic string) int32 {
	if topic == compacted {
		return 1
	}
	return 2
}

// marked writes records that tell by going that all before them was cleaned: three of
// one key to a partition, each in a segment of its own. It gives the offset of the
// first on each side; false: configs do not let them in.
func (p *Play) marked(topic string, index int32) (first [2]int64, ok bool) {
	for i := range 3 {
		b := batch.New("")
		b.Records[0].Key, b.Records[0].Value = []byte("sweep"), sweepValue
		x := p.ask("writer", pick{from: 3}, "a record to see cleaning by", func(s *side) kmsg.Request { return producing(s, -1, written{topic, index, b}) })
		if x == nil || p.over {
			return first, false
		}
		for j := range p.Sides {
			r, ok := x.out[j].Response.(*kmsg.ProduceResponse)
			if !ok || len(r.Topics) != 1 || r.Topics[0].Partitions[0].ErrorCode != 0 {
				return first, false
			}
			if i == 0 {
				first[j] = r.Topics[0].Partitions[0].BaseOffset
			}
		}
	}
	return first, true
}

// swept writes the three records, has the topic cleaned by what is set, and waits;
// false: to no avail. What is set before, by held, is not to clean it.
func (p *Play) swept(topic string, by letting) bool {
	var first [][2]int64
	for index := range partitionsOf(topic) {
		at, ok := p.marked(topic, index)
		if !ok {
			return false
		}
		first = append(first, at)
	}
	if by.held != nil {
		if !p.set(topic, by.held...) {
			return false
		}
		p.passes()
		for index, at := range first {
			var there [2]bool
			for j, s := range p.Sides {
				there[j] = s.holds(topic, int32(index), at[j])
			}
			if there[ours] != there[kafkas] {
				p.differ(Difference{Text: fmt.Sprintf("%s/%d with %q: is left alone %v against %v", topic, index, by.held, there[ours], there[kafkas]), Kind: "one side cleans"})
			}
			p.everything(topic, int32(index))
		}
	}
	if p.over {
		return false
	}
	if !p.set(topic, by.let...) {
		p.set(topic, by.back...)
		return false
	}
	done := true
	for index, at := range first {
		done = p.cleaned(topic, int32(index), at) && done
	}
	p.set(topic, by.back...)
	p.passes()
	return done
}

// cleaned waits until records have gone on both servers; false: to no avail.
func (p *Play) cleaned(topic string, index int32, first [2]int64) bool {
	var gone [2]bool
	for l := (looks{pause: 20 * time.Millisecond}); ; {
		for j, s := range p.Sides {
			gone[j] = gone[j] || !s.holds(topic, index, first[j])
		}
		if gone[ours] && gone[kafkas] {
			return true
		}
		if !l.again() {
			if gone[ours] != gone[kafkas] {
				p.differ(Difference{Text: fmt.Sprintf("cleaning of %s/%d: has ended %v against %v", topic, index, gone[ours], gone[kafkas]), Kind: "cleaning ends on one side"})
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
			if err := s.pass(passing); err != nil {
				p.fail(err)
			}
		}
	}
}

// pass writes a record to a topic that does not keep it, and waits until it has
// gone.
func (s *side) pass(topic string) error {
	c, err := s.conn("watch")
	if err != nil {
		return err
	}
	req := producing(s, -1, written{topic, 0, batch.New("")})
	req.Version = 9
	kind := req.ResponseKind()
	kind.SetVersion(9)
	r, ok := c.Send(c.Encode(req), kind).Response.(*kmsg.ProduceResponse)
	if !ok || len(r.Topics) != 1 || r.Topics[0].Partitions[0].ErrorCode != 0 {
		return nil // a shortened sequence has no such topic
	}
	at := r.Topics[0].Partitions[0].BaseOffset
	for l := (looks{pause: 40 * time.Millisecond}); s.first(topic, 0) <= at; {
		if !l.again() {
			return fmt.Errorf("nobody at %s comes round to clean %s", s.addr, topic)
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
		s.versed.Now = time.Now()
		held[i] = map[string]any{"start": start, "batches": s.versed.Batches(reflect.ValueOf(b))}
	}
	for _, d := range normal.CompareValues(p.Sides[ours].versed, p.Sides[kafkas].versed, held[ours], held[kafkas]) {
		path, values, _ := strings.Cut(d, ": ")
		a, b, _ := strings.Cut(values, " against ")
		p.differ(Difference{Text: fmt.Sprintf("all of %s/%d%s: %s", topic, index, path, values), Kind: fmt.Sprintf("all of%s: %s against %s", withoutIndices(path), shorten(a), shorten(b)), Answers: [2]string{normal.Text(held[ours]), normal.Text(held[kafkas])}})
	}
	// The newest time is told of records below the log start, too, as long as their segment is there: where it ends is each
	// server's own in a topic that is packed anew.
	if k := p.kafka(); !k.versed.Packed[k.name(topic)] || k.part(topic, index).start == 0 {
		p.ask("reader", pick{from: 7}, fmt.Sprintf("offsets of %s/%d", topic, index), func(s *side) kmsg.Request { return listing(s, 0, when{topic, index, -3}) })
	}
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
