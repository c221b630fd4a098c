package oracle

import (
	"fmt"
	"math"
	"millrace/compat-tests/batch"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

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

// fetchAcross waits for more than a segment has, where the log has gone on to another,
// or is about to.
func (g *gen) fetchAcross() Step {
	create := g.createTopic("segments", 1, []string{"internal.segment.bytes", "1000"})
	before, behind := 1+g.IntN(3), 1+g.IntN(3)
	from, isolation := oneOf(g.Rand, offset{"start", 0}, offset{"end", -1}, offset{"end", 0}), oneOf[int8](g.Rand, 0, 0, 1)
	v := g.pick()
	what := fmt.Sprintf("fetch at %s, isolation %d, of %d segments, and %d more", from, isolation, before, behind)
	return Step{Text: what, Do: func(p *Play) {
		if _, ok := p.kafka().topics[p.kafka().name("segments")]; !ok {
			create.Do(p)
		}
		write := func() {
			p.ask("writer", pick{from: 3}, what+": write", func(s *side) kmsg.Request {
				return producing(s, -1, written{"segments", 0, batch.New(strings.Repeat("v", 600))})
			})
		}
		for range before {
			write()
		}
		p.ask("reader", pick{from: 4}, what+": where it ends", func(s *side) kmsg.Request {
			return fetching(s, wanted{topic: "segments", offset: offset{"start", 0}, epoch: epoch{none: true}, last: epoch{none: true}, max: 1})
		})
		p.begin("waiter1", v, what, func(s *side) kmsg.Request {
			req := fetching(s, wanted{topic: "segments", offset: from, epoch: epoch{none: true}, last: epoch{none: true}, max: 1 << 20})
			req.IsolationLevel, req.MinBytes, req.MaxWaitMillis = isolation, 1<<20, 1500
			return req
		})
		p.settle(nil)
		for range behind {
			write()
			p.settle(nil) // who is woken reads what is there by then
		}
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
