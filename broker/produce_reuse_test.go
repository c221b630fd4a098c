package broker

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/broker/partition"
	"millrace/broker/replica"
	"millrace/storage/batch"
	"millrace/wire"
	"millrace/wire/records"
)

// TestEachProduceHasItsOwnAnswer: what a Produce is made of is used for the next one, which another connection's may be.
// Whatever becomes of a request, its answer is about what it brought, also where it waited while hundreds came and went,
// and nothing that it said in a buffer that is somebody else's since.
func TestEachProduceHasItsOwnAnswer(t *testing.T) {
	const connections, rounds = 8, 40
	b, _ := standing(t)
	b.requests = newRequestLog(&RequestFilter{Clients: []string{"logged"}}, zap.NewNop())
	image := []records.Metadata{registered(1, 10, b.incarnation), registered(2, 11, [16]byte{2})}
	image[1].(*records.RegisterBrokerRecord).EndPoints = []records.BrokerEndpoint{{Host: "other", Port: 9}}
	all := make([]*producing, connections)
	for i := range all {
		x := &producing{t: t, b: b, rng: rand.New(rand.NewPCG(5, uint64(i))), name: fmt.Sprintf("t%d", i), id: [16]byte{1, byte(i)}, producer: batch.ProducerID(100 + i), seen: map[int16]int{}}
		image = append(image, topicOf(x.name, x.id))
		for k, of := range [][]int32{alone: {1}, followed: {1, 2}, elsewhere: {2}} {
			p := partitionOf(x.id, of[0], 1, 1, of, of...).(*records.PartitionRecord)
			p.PartitionId = int32(k)
			image = append(image, p)
		}
		all[i] = x
	}
	see(b, image...)
	var group sync.WaitGroup
	for _, x := range all {
		x.parts = [2]*partition.Partition{b.replicas.get(x.id, alone), b.replicas.get(x.id, followed)}
		group.Go(func() {
			for range rounds {
				x.together(1 + x.rng.IntN(12))
				x.oneIsHurried()
				if len(x.waiting) > 20 {
					x.follow()
				}
			}
			x.together(40)
			x.follow()
		})
	}
	group.Wait()
	seen, waited := map[int16]int{}, 0
	for _, x := range all {
		for code, n := range x.seen {
			seen[code] += n
		}
		waited += x.waited
		for i, p := range x.parts {
			if end := int64(p.Log().View().LogEnd()); end != x.next[i] {
				t.Errorf("%s-%d ends at %d, want %d", x.name, i, end, x.next[i])
			}
		}
	}
	for _, code := range []int16{0, kerr.CorruptMessage.Code, kerr.UnknownTopicOrPartition.Code, kerr.NotLeaderForPartition.Code, kerr.RequestTimedOut.Code, kerr.InvalidRequiredAcks.Code, kerr.InvalidTimestamp.Code} {
		if seen[code] < 20 {
			t.Errorf("error %d was seen %d times", code, seen[code])
		}
	}
	if waited < 300 {
		t.Errorf("%d waited", waited)
	}
}

// The partitions of each connection's topic: one that waits for nobody, one that waits for a follower, one that another
// broker leads; and one that is not there.
const (
	alone = iota
	followed
	elsewhere
	nowhere
)

// producing is a connection, with a topic of its own, and what its answers must say.
type producing struct {
	t        *testing.T
	b        *Broker
	rng      *rand.Rand
	name     string
	id       [16]byte
	parts    [2]*partition.Partition
	next     [2]int64 // where the logs end
	producer batch.ProducerID
	sequence int32
	last     int64 // where the producer's last batch is
	conn     wire.Conn
	waiting  []expected
	waited   int
	seen     map[int16]int
}

// expected is a request and what is known of its answer: in the order of its partitions.
type expected struct {
	request *wire.Request
	acks    int16
	rows    []expectedRow
	soon    bool // it may time out at any time
	hurried bool
	pending wire.Pending
}

type expectedRow struct {
	partition int32
	code      int16
	base      int64
	records   int // that are told of
}

// batchFor is a batch for a partition, and what becomes of it.
func (x *producing) batchFor(p int32, version int16) ([]byte, expectedRow) {
	want := expectedRow{partition: p, base: -1}
	o, at := batch.BuilderOptions{}, int64(1)
	append := func() { want.base, x.next[p] = x.next[p], x.next[p]+1 }
	spoilt := false
	switch kind := x.rng.IntN(8); {
	case p == elsewhere:
		want.code = kerr.NotLeaderForPartition.Code
	case p == nowhere:
		want.code = kerr.UnknownTopicOrPartition.Code
	case kind == 0:
		want.code, spoilt = kerr.CorruptMessage.Code, true
	case kind == 1:
		want.code, at = kerr.InvalidTimestamp.Code, time.Now().Add(365*24*time.Hour).UnixMilli()
		if version >= recordErrors {
			want.records = 1
		}
	case kind < 4 && p == alone:
		o.Producer, o.ProducerID, o.BaseSequence = true, x.producer, x.sequence
		if x.sequence > 0 && kind == 2 {
			o.BaseSequence, want.base = x.sequence-1, x.last // once more
			break
		}
		append()
		x.sequence, x.last = x.sequence+1, want.base
	default:
		append()
	}
	u := batch.NewBuilder(o)
	u.Add(at, []byte(x.name), bytes.Repeat([]byte{'v'}, x.rng.IntN(200)))
	out := u.Bytes()
	if spoilt {
		out[len(out)-1] ^= 1
	}
	return out, want
}

// ask makes a request.
func (x *producing) ask() expected {
	version := []int16{7, 9, 13}[x.rng.IntN(3)]
	r := kmsg.NewPtrProduceRequest()
	r.Acks, r.TimeoutMillis, r.Version = []int16{1, -1, -1, 0, 5}[x.rng.IntN(5)], 600_000, version
	e := expected{acks: r.Acks, soon: x.rng.IntN(4) == 0}
	if e.soon {
		r.TimeoutMillis = 1
	}
	order := x.rng.Perm(nowhere + 1)[:1+max(0, x.rng.IntN(7)-4)]
	if len(order) == 1 {
		order[0] = []int{alone, followed, followed, elsewhere, nowhere}[x.rng.IntN(5)]
	}
	for i, p := range order {
		if i == 0 || x.rng.IntN(2) == 0 { // else the topic is given twice
			t := kmsg.NewProduceRequestTopic()
			t.Topic, t.TopicID = x.name, x.id
			r.Topics = append(r.Topics, t)
		}
		t := &r.Topics[len(r.Topics)-1]
		pp := kmsg.NewProduceRequestTopicPartition()
		pp.Partition = int32(p)
		was, sequence, last := x.next, x.sequence, x.last
		var want expectedRow
		pp.Records, want = x.batchFor(pp.Partition, version)
		if r.Acks == 5 && p != nowhere {
			want = expectedRow{partition: pp.Partition, code: kerr.InvalidRequiredAcks.Code, base: -1}
			x.next, x.sequence, x.last = was, sequence, last
		}
		t.Partitions = append(t.Partitions, pp)
		e.rows = append(e.rows, want)
	}
	if version >= 9 && x.rng.IntN(3) == 0 {
		r.UnknownTags.Set(9, []byte("what nobody knows"))
	}
	e.request = &wire.Request{Key: int16(kmsg.Produce), Version: version, Body: r.AppendTo(nil), Conn: &x.conn}
	if x.rng.IntN(6) == 0 {
		e.request.ClientID = kmsg.StringPtr("logged")
	}
	return e
}

// together sends requests, and looks at the answers that are there.
func (x *producing) together(n int) {
	var asked []expected
	var requests []*wire.Request
	for range n {
		e := x.ask()
		asked, requests = append(asked, e), append(requests, e.request)
	}
	for len(asked) > 0 {
		replies := make([]wire.Reply, len(asked))
		n := dispatcher{x.b}.HandleTogether(x.t.Context(), requests, replies)
		for i := range n {
			e, reply := asked[i], replies[i]
			bodyIsGone(e.request)
			failed := false
			for _, row := range e.rows {
				failed = failed || row.code != 0
			}
			switch {
			case e.acks == 0:
				if reply.Close != failed || reply.None == failed || reply.Body != nil || reply.Pending != nil {
					x.t.Errorf("%s: of acks=0 came %+v, failed: %v", x.name, reply, failed)
				}
			case reply.Pending != nil:
				e.pending = reply.Pending
				x.waiting = append(x.waiting, e)
				x.waited++
			default:
				x.answered(e, reply, false)
			}
		}
		asked, requests = asked[n:], requests[n:]
	}
}

// bodyIsGone has somebody else's bytes where a request's were.
func bodyIsGone(r *wire.Request) {
	for i := range r.Body {
		r.Body[i] = 0xdb
	}
}

// oneIsHurried has one of those that wait answered as it is.
func (x *producing) oneIsHurried() {
	if len(x.waiting) == 0 || x.rng.IntN(3) > 0 {
		return
	}
	i := x.rng.IntN(len(x.waiting))
	e := x.waiting[i]
	x.waiting = append(x.waiting[:i], x.waiting[i+1:]...)
	e.hurried = true
	e.pending.(interface{ Hurry() }).Hurry()
	x.ends(e)
}

// follow has the follower fetch all there is, which ends what waits.
func (x *producing) follow() {
	end := x.parts[followed].Log().View().LogEnd()
	if err := x.parts[followed].FollowerFetched(1, replica.Fetch{ID: 2, BrokerEpoch: 11, Offset: end, LeaderEnd: end}); err != nil {
		x.t.Error(err)
	}
	for _, e := range x.waiting {
		x.ends(e)
	}
	x.waiting = nil
}

func (x *producing) ends(e expected) {
	select {
	case <-e.pending.Done():
		x.answered(e, e.pending.Reply(), true)
	case <-time.After(time.Minute):
		x.t.Errorf("%s: %+v still waits", x.name, e.rows)
	}
}

// answered compares an answer with what it must be.
func (x *producing) answered(e expected, reply wire.Reply, waited bool) {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = e.request.Version
	body, err := reply.Body.Bytes()
	if err == nil {
		err = resp.ReadFrom(body)
	}
	if err != nil || len(resp.Topics) != 1 {
		x.t.Errorf("%s: %d topics, %v; want %+v", x.name, len(resp.Topics), err, e.rows)
		return
	}
	reply.Body.Release()
	top := &resp.Topics[0]
	if resp.Version < 13 && top.Topic != x.name || resp.Version >= 13 && top.TopicID != x.id || len(top.Partitions) != len(e.rows) {
		x.t.Errorf("%s: the answer is about %d partitions of %q, %x; want %+v", x.name, len(top.Partitions), top.Topic, top.TopicID, e.rows)
		return
	}
	named := 0
	for i := range e.rows {
		want, p := e.rows[i], &top.Partitions[i]
		got := expectedRow{partition: p.Partition, code: p.ErrorCode, base: p.BaseOffset, records: len(p.ErrorRecords)}
		x.seen[got.code]++
		if want.code == 0 && want.partition == followed && waited {
			switch {
			case e.hurried:
				want.code = kerr.RequestTimedOut.Code
			case e.soon && got.code == kerr.RequestTimedOut.Code:
				want.code = got.code
			}
		}
		if got != want || (p.ErrorMessage != nil) != (want.records > 0) {
			x.t.Errorf("%s, version %d, acks %d, waited %v: got %+v (%v), want %+v", x.name, resp.Version, e.acks, waited, got, p.ErrorMessage, want)
		}
		for _, r := range p.ErrorRecords {
			if r.RelativeOffset != 0 || r.ErrorMessage == nil || *r.ErrorMessage == "" {
				x.t.Errorf("%s: a record that was refused is told of as %+v", x.name, r)
			}
		}
		if leader := p.CurrentLeader.LeaderID; resp.Version >= 10 && (leader == 2) != (want.code == kerr.NotLeaderForPartition.Code) {
			x.t.Errorf("%s: the leader of %d is %d", x.name, p.Partition, leader)
		}
		if resp.Version >= 10 && want.code == kerr.NotLeaderForPartition.Code {
			named = 1
		}
	}
	if len(resp.Brokers) != named {
		x.t.Errorf("%s: %d leaders are named, want %d", x.name, len(resp.Brokers), named)
	}
}
