package oracle

import (
	"fmt"
	"math"
	"millrace/compat-tests/batch"

	"github.com/twmb/franz-go/pkg/kmsg"
)

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
	yesterday := g.chance(15) // servers forget one who has written nothing since
	what := fmt.Sprintf("produce to %s/%d acks %d as a producer: %s, %d records, yesterday %v", topic, index, acks, mode, n, yesterday)
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
			b := batch.New(make([]string, n)...)
			b.Codec, b.Producer, b.Epoch, b.Sequence = codec, id.id, q.epoch, q.next
			if yesterday {
				b.First -= 24 * 3600e3
			}
			count := n
			again := func(i int, skip int32) {
				if len(q.sent) >= i {
					z := q.sent[len(q.sent)-i]
					count = z.count
					b.Records = batch.New(make([]string, count)...).Records
					b.Sequence, b.Epoch = z.first, z.epoch
					if skip > 0 && z.count > 1 {
						b.Records, b.Sequence, count = b.Records[:1], z.first+1, 1
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
				b.Sequence = max(0, q.next-1)
			case "a gap":
				b.Sequence = q.next + int32(back)
			case "a new epoch":
				b.Epoch, b.Sequence = q.epoch+1, 0
			case "a new epoch not at 0":
				b.Epoch, b.Sequence = q.epoch+1, int32(back)
			case "an old epoch":
				b.Epoch = max(0, q.epoch-1)
			case "from 0":
				b.Sequence = 0
			case "near the end":
				if len(q.sent) == 0 {
					b.Sequence = math.MaxInt32 - int32(back%3)
				}
			case "epoch -1":
				b.Epoch = -1
			case "without a producer":
				b.Producer, b.Epoch = -1, -1
			}
			i := ours
			if s == p.Sides[kafkas] {
				i = kafkas
			}
			tried[i], ids[i] = sent{b.Sequence, count, b.Epoch}, id.id
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
