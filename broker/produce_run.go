package broker

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/broker/partition"
	"millrace/wire"
)

// produceRun is Produce requests of one connection that are executed together: all
// are judged, then what they bring is appended, for each partition at once, then all
// are answered.
type produceRun struct {
	b     *Broker
	waits []*produceWait
	made  int // bytes of batches that were made of what came, and wait to be appended
	tried int // how often a file descriptor was waited for
	// listed is how many refused records the answers tell of.
	listed int
	// together has room for what is appended at once.
	together []partition.Entry
}

// Runs, and what each Produce is made of, are pooled: a server that appends small batches
// allocates little else.
var (
	produceRunPool  = sync.Pool{New: func() any { return new(produceRun) }}
	produceWaitPool = sync.Pool{New: func() any { return new(produceWait) }}
)

func newProduceRun(b *Broker) *produceRun {
	r := produceRunPool.Get().(*produceRun)
	r.b = b
	return r
}

// free gives back a run whose requests are answered, or wait.
func (r *produceRun) free() {
	clear(r.waits)
	*r = produceRun{waits: r.waits[:0], together: r.together[:0]}
	produceRunPool.Put(r)
}

// mostMade is how much of that may wait: a request can stand for much more than it
// is long.
const mostMade = 4 << 20

// bound takes note of the batch that was judged last, and appends what was judged so
// far when too much waits.
func (r *produceRun) bound() {
	w := r.waits[len(r.waits)-1]
	if a := &w.appends[len(w.appends)-1]; a.made {
		if r.made += a.size; r.made > mostMade {
			r.append()
		}
	}
}

// append appends what was judged and is not appended yet.
func (r *produceRun) append() {
	r.made = 0
	for i, w := range r.waits {
		for j := range w.appends {
			a := &w.appends[j]
			if a.done {
				continue
			}
			// Producers with several requests in flight mostly name the same partitions
			// in the same order. A request that does not ends the row: batches of a
			// partition stay in order.
			row := r.waits[i:]
			n := 1
			for n < len(row) && j < len(row[n].appends) && row[n].appends[j].part == a.part && !row[n].appends[j].done {
				n++
			}
			if n == 1 {
				a.part.AppendTogether(a.entry[:], &r.tried)
			} else {
				r.together = r.together[:0]
				for _, w := range row[:n] {
					r.together = append(r.together, w.appends[j].entry[0])
				}
				a.part.AppendTogether(r.together, &r.tried)
			}
			for k, w := range row[:n] {
				a := &w.appends[j]
				if n > 1 {
					a.entry[0] = r.together[k]
				}
				a.done, a.entry[0].Batch = true, nil // not to be held until the answer goes
			}
			clear(r.together)
		}
	}
}

// answerProduce is the answer once everything is appended that is to be.
func (b *Broker) answerProduce(w *produceWait) wire.Reply {
	c, req, resp := w.c, w.req, &w.resp
	b.tellAppended(w)
	if req.Acks == 0 {
		b.seen.produceErrors(resp)
		if produceFailed(resp) {
			// The producer waits for no answer; a closed connection makes it
			// look the leader up again.
			return wire.Reply{Close: true}
		}
		return wire.Reply{None: true}
	}
	if !w.waits(req.Acks) {
		b.seen.produceErrors(resp)
		b.nameLeaders(c, resp)
		return wire.Reply{Body: wire.Encode(resp)}
	}
	release := w.limit(c.Conn.Context(), millis(req.TimeoutMillis))
	w.finish = func() {
		release()
		b.seen.produceErrors(resp)
		c.image = b.applied() // a leadership may have ended meanwhile
		b.nameLeaders(c, resp)
	}
	// What came is not to be held until the answer goes.
	req.Topics, req.UnknownTags, c.Body = nil, kmsg.Tags{}, nil
	clear(w.own.topics[:])
	return wire.Reply{Pending: w}
}

func produceFailed(resp *kmsg.ProduceResponse) bool {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if resp.Topics[i].Partitions[j].ErrorCode != 0 {
				return true
			}
		}
	}
	return false
}

// tellAppended puts into the answer what the appends came to.
func (b *Broker) tellAppended(w *produceWait) {
	for i := range w.appends {
		a, e, pp := &w.appends[i], &w.appends[i].entry[0], w.row(i)
		b.seen.appended(a.part.Topic(), int(e.Header.Count), a.size, e.Err)
		if e.Err != nil {
			tellCode(w.c, pp, e.Err)
			continue
		}
		pp.BaseOffset, pp.LogAppendTime, pp.LogStartOffset = int64(e.Appended.Base), a.time, int64(e.Appended.LogStart)
		if e.Appended.Duplicate {
			// Kafka tells the original's largest timestamp here, on any topic.
			pp.LogAppendTime = e.Appended.MaxTimestamp
		}
	}
}

// produced is a partition that is appended to, and where its answer stands.
type produced struct {
	part       *partition.Partition
	entry      [1]partition.Entry
	time       int64 // LogAppendTime, or -1
	size       int   // of the batch
	made       bool  // the batch is not the request's but was made of it
	topic, row int
	done       bool // it was appended
}

// produceWait is a request whose batches are appended, and the pending answer of one
// whose appends wait for replication or a flush.
type produceWait struct {
	c       *call
	req     *kmsg.ProduceRequest
	resp    kmsg.ProduceResponse
	appends []produced
	first   [1]produced // room for one: most requests name one partition
	acks    partition.Acks
	finish  func()
	// own is the request itself, of one that was decoded for this, and room for its
	// answer: most requests name one partition.
	own struct {
		call       call
		req        kmsg.ProduceRequest
		topics     [1]kmsg.ProduceRequestTopic
		rows       [1]kmsg.ProduceResponseTopic
		partitions [1]kmsg.ProduceResponseTopicPartition
	}
}

// newProduceWait is one to decode a request into.
func newProduceWait() *produceWait {
	w := produceWaitPool.Get().(*produceWait)
	w.own.req.Default()
	w.own.req.Topics = w.own.topics[:0]
	w.c, w.req = &w.own.call, &w.own.req
	return w
}

// free gives back what is answered, and held by nobody.
func (w *produceWait) free() {
	*w = produceWait{}
	produceWaitPool.Put(w)
}

// waits registers what has to wait, and says whether anything has.
func (w *produceWait) waits(acks int16) bool {
	pending := false
	w.acks.Expect(len(w.appends))
	for i := range w.appends {
		a := &w.appends[i]
		if a.entry[0].Err != nil {
			continue
		}
		done, err := a.part.Await(&w.acks, i, a.entry[0].Appended, acks)
		if done {
			w.row(i).ErrorCode = codeOf(err)
		}
		pending = pending || !done
	}
	w.acks.Seal()
	return pending
}

// limit ends the wait after a time, and when the connection is gone: nobody asks for
// the answer then, and the time-out may be weeks away, until when nothing is to be kept
// for it. release is for who has the answer.
func (w *produceWait) limit(conn context.Context, timeout time.Duration) (release func()) {
	timer := time.AfterFunc(timeout, w.acks.Cancel)
	stop := context.AfterFunc(conn, func() {
		timer.Stop()
		w.acks.Cancel()
	})
	return func() {
		timer.Stop()
		stop()
	}
}

func (w *produceWait) row(i int) *kmsg.ProduceResponseTopicPartition {
	return &w.resp.Topics[w.appends[i].topic].Partitions[w.appends[i].row]
}

// Done is part of wire.Pending.
func (w *produceWait) Done() <-chan struct{} { return w.acks.Done() }

// Hurry is part of wire.Pending: what is not replicated yet has timed out.
func (w *produceWait) Hurry() { w.acks.Cancel() }

// Reply is part of wire.Pending. A partition that was not replicated in time
// keeps the base offset of its data, which stays.
func (w *produceWait) Reply() wire.Reply {
	for i := range w.appends {
		if err := w.acks.Err(i); err != nil {
			w.row(i).ErrorCode = codeOf(err)
		}
	}
	w.finish()
	return wire.Reply{Body: wire.Encode(&w.resp)}
}
