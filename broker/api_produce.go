package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/broker/auth"
	"millrace/broker/partition"
	"millrace/controller/image"
	"millrace/storage/batch"
	"millrace/wire"
)

// Produce (0), versions 0-13. KIP-98 (idempotence), KIP-467 (per-record errors, v8),
// KIP-951 (the current leader beside NOT_LEADER_OR_FOLLOWER, v10), KIP-516
// (topic ids, v13).
//
// Order of checks, for each partition: transactional id, topic id, WRITE on
// the topic, existence, the batch's shape, acks, internal topic, leadership,
// ISR, then the log's own. With acks=0 an error closes the connection. What
// has to wait for replication is a pending reply; the connection reads on.
//
// Versions below 3 carry message sets, which are made batches (old_sets.go): their
// shape is looked at behind the other checks, and one without a whole message is
// answered as if it had been appended.
//
// Transactional batches are refused until transactions exist. Kafka never
// answers a partition with null records; here it is INVALID_RECORD.

// adminClient is the client id that may write to internal topics (Kafka's own
// tools).
const adminClient = "__admin_client"

func (b *Broker) produce(c *call) wire.Reply {
	req := c.msg.(*kmsg.ProduceRequest)
	w := &produceWait{resp: kmsg.ProduceResponse{Version: c.Version}}
	resp := &w.resp
	refused, why := refusesRequest(c, req)
	last := lastOfEach(req)
	failed := false
	var rows produceRows
	resp.Topics = make([]kmsg.ProduceResponseTopic, 0, len(req.Topics))
	w.appended = make([]produced, 0, producePartitions(req))
	for i := range req.Topics {
		rt := &req.Topics[i]
		var out *kmsg.ProduceResponseTopic
		row := 0
		topic, code := produceTopic(c, rt)
		if refused != 0 {
			code = refused
		}
		for j := range rt.Partitions {
			rp := &rt.Partitions[j]
			if last != nil && last[produceKey{rt.Topic, rt.TopicID, rp.Partition}] != [2]int{i, j} {
				continue
			}
			if out == nil {
				row = rows.of(resp, rt)
				out = &resp.Topics[row]
			}
			pp := kmsg.NewProduceResponseTopicPartition()
			pp.Partition, pp.ErrorCode = rp.Partition, code
			pp.BaseOffset, pp.LogAppendTime, pp.LogStartOffset = -1, -1, -1
			if refused != 0 {
				pp.ErrorMessage = why
			}
			if code == 0 {
				if part, ap := b.produceOne(c, req, topic, rp, &pp); part != nil {
					w.appended = append(w.appended, produced{part, ap, row, len(out.Partitions)})
				}
			}
			failed = failed || pp.ErrorCode != 0
			out.Partitions = append(out.Partitions, pp)
		}
	}
	if req.Acks == 0 {
		b.seen.produceErrors(resp)
		if failed {
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
	timer := time.AfterFunc(millis(req.TimeoutMillis), w.acks.Cancel)
	// Nobody asks for the answer once the connection is gone, and the time-out may
	// be weeks away.
	gone := context.AfterFunc(c.Conn.Context(), w.acks.Cancel)
	w.finish = func() {
		timer.Stop()
		gone()
		b.seen.produceErrors(resp)
		c.image = b.applied() // a leadership may have ended meanwhile
		b.nameLeaders(c, resp)
	}
	return wire.Reply{Pending: w}
}

// produced is a partition that was appended to, and where its answer stands.
type produced struct {
	part       *partition.Partition
	appended   partition.Appended
	topic, row int
}

// produceWait is the pending answer of a request whose appends wait for
// replication or a flush.
type produceWait struct {
	resp     kmsg.ProduceResponse
	appended []produced
	acks     partition.Acks
	finish   func()
}

// waits registers what has to wait, and says whether anything has.
func (w *produceWait) waits(acks int16) bool {
	pending := false
	w.acks.Expect(len(w.appended))
	for i := range w.appended {
		a := &w.appended[i]
		done, err := a.part.Await(&w.acks, i, a.appended, acks)
		if done {
			w.row(i).ErrorCode = codeOf(err)
		}
		pending = pending || !done
	}
	w.acks.Seal()
	return pending
}

func (w *produceWait) row(i int) *kmsg.ProduceResponseTopicPartition {
	return &w.resp.Topics[w.appended[i].topic].Partitions[w.appended[i].row]
}

// Done is part of wire.Pending.
func (w *produceWait) Done() <-chan struct{} { return w.acks.Done() }

// Reply is part of wire.Pending. A partition that was not replicated in time
// keeps the base offset of its data, which stays.
func (w *produceWait) Reply() wire.Reply {
	for i := range w.appended {
		if err := w.acks.Err(i); err != nil {
			w.row(i).ErrorCode = codeOf(err)
		}
	}
	w.finish()
	return wire.Reply{Body: wire.Encode(&w.resp)}
}

type produceKey struct {
	topic string
	id    [16]byte
	index int32
}

// lastOfEach maps each partition to its last place in the request: Kafka
// appends the last batch of a partition given twice, and answers once. It is
// nil where none is known to be, which is what clients send.
func lastOfEach(req *kmsg.ProduceRequest) map[produceKey][2]int {
	if producesOnce(req) {
		return nil
	}
	last := map[produceKey][2]int{}
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			last[produceKey{t.Topic, t.TopicID, t.Partitions[j].Partition}] = [2]int{i, j}
		}
	}
	return last
}

// producesOnce says that no partition is given twice. Where one topic has so few
// partitions that comparing each with each is quicker than a map, it looks; of
// any larger request it does not know.
func producesOnce(req *kmsg.ProduceRequest) bool {
	const few = 32
	if len(req.Topics) != 1 || len(req.Topics[0].Partitions) > few {
		return false
	}
	ps := req.Topics[0].Partitions
	for i := range ps {
		for j := range i {
			if ps[i].Partition == ps[j].Partition {
				return false
			}
		}
	}
	return true
}

// producePartitions is how many partitions a request gives, repeated ones each
// time.
func producePartitions(req *kmsg.ProduceRequest) int {
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	return n
}

// refusesRequest is the check that holds for a whole request: transactional
// batches need a transactional id, and WRITE on it; and Kafka, looking for the first
// such batch, falls over bytes that are none. When it has found none, or may go on,
// it falls over codecs that there are not, and over the later messages of a set.
func refusesRequest(c *call, req *kmsg.ProduceRequest) (int16, *string) {
	found := false
	var later *batch.Error
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			r := req.Topics[i].Partitions[j].Records
			there := func() bool { return produceThere(c, &req.Topics[i], req.Topics[i].Partitions[j].Partition) }
			var err error
			if c.Version >= batchesInProduce {
				_, _, err = batch.Shape(r, c.Version)
			} else if err = batch.ShapeOld(r); err == nil && later == nil {
				if bad := batch.ShapeOldSet(r); bad != nil && there() {
					errors.As(bad, &later)
				}
			}
			if err != nil {
				var refused *batch.Error
				switch {
				case !errors.As(err, &refused) || !refused.Request:
				case refused.Kind != batch.Undecompressable:
					if !found {
						return codeOf(err), &refused.Message
					}
				case later == nil && there():
					later = refused
				}
			}
			const attributes, magic = 21, 16
			if len(r) < batch.HeaderSize || r[magic] != batch.Magic || !batch.Attributes(binary.BigEndian.Uint16(r[attributes:])).Transactional() {
				continue
			}
			if req.TransactionID == nil || !c.allowed(auth.Write, auth.TransactionalID, *req.TransactionID) {
				return kerr.TransactionalIDAuthorizationFailed.Code, nil
			}
			found = true
		}
	}
	if later != nil {
		return codeOf(later), &later.Message
	}
	return 0, nil
}

// produceThere says whether there is a partition to append to: only then does
// Kafka look at a batch's codec, and at more of a message set than its first.
func produceThere(c *call, rt *kmsg.ProduceRequestTopic, index int32) bool {
	t, code := produceTopic(c, rt)
	return code == 0 && index >= 0 && int(index) < len(t.Partitions)
}

// produceRows is where the answers for topics stand: a topic asked twice is
// answered once. It is filled from the second topic on.
type produceRows map[produceKey]int

func (m *produceRows) of(resp *kmsg.ProduceResponse, rt *kmsg.ProduceRequestTopic) int {
	key := produceKey{topic: rt.Topic, id: rt.TopicID}
	if n := len(resp.Topics); n > 0 {
		if *m == nil {
			*m = produceRows{{topic: resp.Topics[0].Topic, id: resp.Topics[0].TopicID}: 0}
		}
		if row, ok := (*m)[key]; ok {
			return row
		}
		(*m)[key] = n
	}
	resp.Topics = append(resp.Topics, kmsg.ProduceResponseTopic{
		Topic: rt.Topic, TopicID: rt.TopicID, Partitions: make([]kmsg.ProduceResponseTopicPartition, 0, len(rt.Partitions)),
	})
	return len(resp.Topics) - 1
}

func produceTopic(c *call, rt *kmsg.ProduceRequestTopic) (*image.Topic, int16) {
	var topic *image.Topic
	name := rt.Topic
	if c.Version >= 13 {
		if topic = c.image.TopicByID(rt.TopicID); topic == nil {
			return nil, kerr.UnknownTopicID.Code
		}
		name = topic.Name
	} else {
		topic = c.image.TopicByName(name)
	}
	if !c.allowed(auth.Write, auth.Topic, name) {
		return nil, kerr.TopicAuthorizationFailed.Code
	}
	if topic == nil {
		return nil, kerr.UnknownTopicOrPartition.Code
	}
	return topic, 0
}

// produceOne checks one partition's batch and appends it. The partition is nil
// where the answer is an error.
func (b *Broker) produceOne(c *call, req *kmsg.ProduceRequest, topic *image.Topic, rp *kmsg.ProduceRequestTopicPartition, pp *kmsg.ProduceResponseTopicPartition) (*partition.Partition, partition.Appended) {
	none := partition.Appended{}
	if rp.Partition < 0 || int(rp.Partition) >= len(topic.Partitions) {
		pp.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return nil, none
	}
	var header batch.Header
	records, old := rp.Records, c.Version < batchesInProduce
	if !old {
		var err error
		if header, records, err = batch.Shape(rp.Records, c.Version); err != nil {
			tellRefused(pp, err)
			return nil, none
		}
	}
	if req.Acks < -1 || req.Acks > 1 {
		pp.ErrorCode = kerr.InvalidRequiredAcks.Code
		return nil, none
	}
	if isInternal(topic.Name) && c.clientID() != adminClient {
		pp.ErrorCode = kerr.InvalidTopicException.Code
		return nil, none
	}
	part := b.replicas.served(topic.ID, rp.Partition)
	if part == nil {
		pp.ErrorCode = b.absent(topic.ID, rp.Partition)
		return nil, none
	}
	// From here on the log is known, and its start is told with an error.
	pp.LogStartOffset = int64(part.Log().View().LogStart())
	if err := part.Ready(partition.AnyEpoch, req.Acks); err != nil {
		tellRefused(pp, err)
		return nil, none
	}
	if header.Attributes.Transactional() {
		b.refused.Warn("transactions are not built yet: a transactional batch is refused", zap.String("topic", topic.Name))
		pp.ErrorCode = kerr.InvalidTxnState.Code
		return nil, none
	}
	var checked batch.Checked
	var err error
	if old {
		checked, err = part.CheckSet(records, b.now().UnixMilli())
	} else {
		checked, err = part.Check(records, header, b.now().UnixMilli())
	}
	if err != nil {
		b.seen.appended(topic.Name, 0, len(records), err)
		tellRefused(pp, err)
		return nil, none
	}
	if checked.Batch == nil {
		return nil, none // there is no message
	}
	if &checked.Batch[0] != &records[0] {
		b.seen.recompressed(topic.Name, int(checked.Header.Count))
	}
	ap, err := part.Append(checked.Batch, checked.Header, partition.AppendOptions{LeaderEpoch: partition.AnyEpoch, Acks: req.Acks})
	b.seen.appended(topic.Name, int(checked.Header.Count), len(checked.Batch), err)
	if err != nil {
		tellRefused(pp, err)
		return nil, none
	}
	pp.BaseOffset, pp.LogAppendTime, pp.LogStartOffset = int64(ap.Base), checked.AppendTime, int64(ap.LogStart)
	if ap.Duplicate {
		// Kafka tells the original's largest timestamp here, on any topic.
		pp.LogAppendTime = ap.MaxTimestamp
	}
	return part, ap
}

// tellRefused puts the reason a batch was refused into its answer (KIP-467).
func tellRefused(pp *kmsg.ProduceResponseTopicPartition, err error) {
	pp.ErrorCode = codeOf(err)
	switch pp.ErrorCode {
	case kerr.UnknownTopicOrPartition.Code, kerr.NotLeaderForPartition.Code, kerr.MessageTooLarge.Code, kerr.RecordListTooLarge.Code,
		kerr.CorruptMessage.Code, kerr.KafkaStorageError.Code:
		pp.LogStartOffset = -1 // Kafka tells it with every error but these
	}
	var refused *batch.Error
	if !errors.As(err, &refused) || len(refused.Records) == 0 {
		return
	}
	pp.ErrorMessage = &refused.Message
	for i := range refused.Records {
		r := &refused.Records[i]
		e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		e.RelativeOffset, e.ErrorMessage = r.Index, &r.Message
		pp.ErrorRecords = append(pp.ErrorRecords, e)
	}
}

// nameLeaders adds to an answer who leads the partitions that this broker does
// not (KIP-951).
func (b *Broker) nameLeaders(c *call, resp *kmsg.ProduceResponse) {
	if c.Version < 10 {
		return
	}
	var named nodes
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if p.ErrorCode != kerr.NotLeaderForPartition.Code {
				continue
			}
			if leader, epoch, ok := b.leaderOf(c, t.Topic, t.TopicID, p.Partition); ok {
				p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = leader, epoch
				named.add(leader)
			}
		}
	}
	for _, id := range named {
		if br := c.image.Broker(id); br != nil {
			if e, ok := b.endpointFor(c.Conn, br); ok {
				n := kmsg.NewProduceResponseBroker()
				n.NodeID, n.Host, n.Port, n.Rack = id, e.host, e.port, br.Rack
				resp.Brokers = append(resp.Brokers, n)
			}
		}
	}
}
