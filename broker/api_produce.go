package broker

import (
	"encoding/binary"
	"errors"

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
	r := newProduceRun(b)
	defer r.free()
	r.judge(c)
	r.append()
	return b.answerProduce(r.waits[0])
}

// produceTogether is produce of several requests that have come together, none with
// acks=0: what they bring for one partition is appended at once.
func (b *Broker) produceTogether(calls []*call, replies []wire.Reply) {
	if len(calls) == 0 {
		return
	}
	r := newProduceRun(b)
	defer r.free()
	for _, c := range calls {
		r.judge(c)
	}
	r.append()
	for i, w := range r.waits {
		if replies[i] = b.answerProduce(w); replies[i].Pending == nil {
			w.free()
		}
	}
}

// firstAppends is how many appends of a request have room at first. There are no more
// than partitions that are there, and good batches for them, whatever a request names.
const firstAppends = 64

// judge makes the answer for everything that is not appended, and finds out what is.
func (r *produceRun) judge(c *call) {
	w := c.wait
	w.resp.Version = c.Version
	r.waits = append(r.waits, w)
	req, resp := w.req, &w.resp
	refused, why := refusesRequest(c, req)
	last := lastOfEach(req)
	var rows produceRows
	if resp.Topics = w.own.rows[:0]; len(req.Topics) > len(w.own.rows) {
		resp.Topics = make([]kmsg.ProduceResponseTopic, 0, len(req.Topics))
	}
	w.appends = w.first[:0]
	if n := producePartitions(req); n > len(w.first) {
		w.appends = make([]produced, 0, min(n, firstAppends))
	}
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
				row = rows.of(w, rt)
				out = &resp.Topics[row]
			}
			pp := kmsg.NewProduceResponseTopicPartition()
			pp.Partition, pp.ErrorCode = rp.Partition, code
			pp.BaseOffset, pp.LogAppendTime, pp.LogStartOffset = -1, -1, -1
			if refused != 0 {
				pp.ErrorMessage = why
			}
			if code == 0 {
				if a, ok := r.judgeOne(c, req, topic, rp, &pp); ok {
					a.topic, a.row = row, len(out.Partitions)
					w.appends = append(w.appends, a)
					r.bound()
				}
			}
			out.Partitions = append(out.Partitions, pp)
		}
	}
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
			rt, index := &req.Topics[i], req.Topics[i].Partitions[j].Partition
			r := rt.Partitions[j].Records
			var err error
			if c.Version >= batchesInProduce {
				_, _, err = batch.Shape(r, c.Version)
			} else if err = batch.ShapeOld(r); err == nil && later == nil {
				if bad := batch.ShapeOldSet(r); bad != nil && produceThere(c, rt, index) {
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
				case later == nil && produceThere(c, rt, index):
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

func (m *produceRows) of(w *produceWait, rt *kmsg.ProduceRequestTopic) int {
	resp := &w.resp
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
	partitions := w.own.partitions[:0]
	if len(resp.Topics) > 0 || len(rt.Partitions) > len(w.own.partitions) {
		partitions = make([]kmsg.ProduceResponseTopicPartition, 0, len(rt.Partitions))
	}
	resp.Topics = append(resp.Topics, kmsg.ProduceResponseTopic{Topic: rt.Topic, TopicID: rt.TopicID, Partitions: partitions})
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

// judgeOne checks one partition's batch, and says where it is to be appended and how. It is not where the answer is an
// error, or there is nothing.
func (r *produceRun) judgeOne(c *call, req *kmsg.ProduceRequest, topic *image.Topic, rp *kmsg.ProduceRequestTopicPartition, pp *kmsg.ProduceResponseTopicPartition) (a produced, ok bool) {
	b := r.b
	if rp.Partition < 0 || int(rp.Partition) >= len(topic.Partitions) {
		pp.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return a, false
	}
	var header batch.Header
	records, old := rp.Records, c.Version < batchesInProduce
	if !old {
		var err error
		if header, records, err = batch.Shape(rp.Records, c.Version); err != nil {
			r.tellRefused(c, pp, err)
			return a, false
		}
	}
	if req.Acks < -1 || req.Acks > 1 {
		pp.ErrorCode = kerr.InvalidRequiredAcks.Code
		return a, false
	}
	if isInternal(topic.Name) && c.clientID() != adminClient {
		pp.ErrorCode = kerr.InvalidTopicException.Code
		return a, false
	}
	part := b.replicas.served(topic.ID, rp.Partition)
	if part == nil {
		pp.ErrorCode = b.absent(topic.ID, rp.Partition)
		return a, false
	}
	// From here on the log is known, and its start is told with an error.
	pp.LogStartOffset = int64(part.Log().View().LogStart())
	if err := part.Ready(partition.AnyEpoch, req.Acks); err != nil {
		r.tellRefused(c, pp, err)
		return a, false
	}
	if header.Attributes.Transactional() {
		b.refused.Warn("transactions are not built yet: a transactional batch is refused", zap.String("topic", topic.Name))
		pp.ErrorCode = kerr.InvalidTxnState.Code
		return a, false
	}
	var checked batch.Checked
	var err error
	if old {
		checked, err = part.CheckSet(records, b.now().UnixMilli())
	} else {
		checked, err = part.Check(records, header, b.now().UnixMilli(), r.mayList(c, req))
	}
	if err != nil {
		b.seen.appended(topic.Name, 0, len(records), err)
		r.tellRefused(c, pp, err)
		return a, false
	}
	if checked.Batch == nil {
		return a, false // there is no message
	}
	if &checked.Batch[0] != &records[0] {
		b.seen.recompressed(topic.Name, int(checked.Header.Count))
		a.made = true
	}
	a.part, a.time, a.size = part, checked.AppendTime, len(checked.Batch)
	a.entry[0] = partition.Entry{Batch: checked.Batch, Header: checked.Header, Options: partition.AppendOptions{LeaderEpoch: partition.AnyEpoch, Acks: req.Acks}}
	return a, true
}

// recordErrors is the first version that tells which records of a batch were refused, and why (KIP-467).
const recordErrors = 8

// mayList is how many records of the next batch may be told of where it is refused. Kafka tells of every one of every
// batch. A packed batch is short, and may hold very many: of those that are judged together no more are told of than of
// a single one.
func (r *produceRun) mayList(c *call, req *kmsg.ProduceRequest) int {
	if c.Version < recordErrors || req.Acks == 0 {
		return batch.FewestListed
	}
	return max(batch.MostListed-r.listed, batch.FewestListed)
}

// tellRefused puts the reason a batch was refused into its answer.
func (r *produceRun) tellRefused(c *call, pp *kmsg.ProduceResponseTopicPartition, err error) {
	tellCode(c, pp, err)
	var refused *batch.Error
	if c.Version < recordErrors || !errors.As(err, &refused) || len(refused.Records) == 0 {
		return
	}
	r.listed += len(refused.Records)
	pp.ErrorMessage = &refused.Message
	pp.ErrorRecords = make([]kmsg.ProduceResponseTopicPartitionErrorRecord, len(refused.Records))
	for i := range refused.Records {
		x, e := &refused.Records[i], &pp.ErrorRecords[i]
		e.Default()
		e.RelativeOffset, e.ErrorMessage = x.Index, &x.Message
	}
}

// tellCode puts an error's code into an answer.
func tellCode(c *call, pp *kmsg.ProduceResponseTopicPartition, err error) {
	pp.ErrorCode = codeOf(err)
	switch pp.ErrorCode {
	case kerr.UnknownTopicOrPartition.Code, kerr.NotLeaderForPartition.Code, kerr.MessageTooLarge.Code, kerr.RecordListTooLarge.Code,
		kerr.CorruptMessage.Code, kerr.KafkaStorageError.Code:
		pp.LogStartOffset = -1 // Kafka tells it with every error but these
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
