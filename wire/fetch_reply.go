package wire

import (
	"encoding/binary"
	"math"
)

// FetchResponse mirrors kmsg.FetchResponse, with records that may be sections
// of a file. Encode it with EncodeFetch.
type FetchResponse struct {
	ThrottleMillis int32
	ErrorCode      int16 // v7+
	SessionID      int32 // v7+
	Topics         []FetchTopic
	// Brokers are the endpoints of current leaders (v16+, KIP-951).
	Brokers []FetchBroker
}

// FetchTopic is one topic of a FetchResponse: by name until v12, by id since.
type FetchTopic struct {
	Topic      string
	TopicID    [16]byte
	Partitions []FetchPartition
}

// FetchPartition is one partition of a FetchResponse. Make one with
// NewFetchPartition: several fields mean nothing at -1, not at 0.
type FetchPartition struct {
	Partition        int32
	ErrorCode        int16
	HighWatermark    int64
	LastStableOffset int64 // v4+
	LogStartOffset   int64 // v5+
	// DivergingEpoch, CurrentLeader and SnapshotID are tagged fields of v12+;
	// nil leaves them out.
	DivergingEpoch *FetchEpochEnd
	CurrentLeader  *FetchCurrentLeader
	SnapshotID     *FetchSnapshotID
	// AbortedTransactions: nil is null on the wire (read_uncommitted), which is
	// not the same as empty (v4+).
	AbortedTransactions  []FetchAborted
	PreferredReadReplica int32 // v11+
	// The records are Records followed by Section; either may be nil. They are
	// never null on the wire: Kafka answers errors with empty records.
	Records []byte
	Section Section
}

// FetchEpochEnd is where a follower's log diverges (KIP-595).
type FetchEpochEnd struct {
	Epoch     int32
	EndOffset int64
}

// FetchCurrentLeader is the leader a client should turn to (KIP-951).
type FetchCurrentLeader struct {
	LeaderID, LeaderEpoch int32
}

// FetchSnapshotID names the snapshot to fetch instead (KIP-630).
type FetchSnapshotID struct {
	EndOffset int64
	Epoch     int32
}

// FetchAborted is an aborted transaction within the records (KIP-98).
type FetchAborted struct {
	ProducerID, FirstOffset int64
}

// FetchBroker is an endpoint of a broker named as a current leader.
type FetchBroker struct {
	NodeID int32
	Host   string
	Port   int32
	Rack   *string
}

// NewFetchPartition returns a FetchPartition with Kafka's defaults.
func NewFetchPartition(partition int32) FetchPartition {
	return FetchPartition{
		Partition:            partition,
		HighWatermark:        -1,
		LastStableOffset:     -1,
		LogStartOffset:       -1,
		PreferredReadReplica: -1,
	}
}

func (p *FetchPartition) recordsLen() int {
	n := len(p.Records)
	if p.Section != nil {
		n += p.Section.Len()
	}
	return n
}

// EncodeFetch encodes a Fetch response in a version from 0 to 18. Everything but
// the records is copied; Records must not change until the reply has been
// written, and the sections belong to the Body.
func EncodeFetch(r *FetchResponse, version int16) *Body {
	e := fetchEncoder{body: pooledBody(), flexible: version >= 12, version: version}
	e.b = e.body.buf[:0]
	e.response(r)
	return e.finish()
}

type fetchEncoder struct {
	body     *Body
	b        []byte
	mark     int // where the bytes not yet in a chunk begin
	flexible bool
	version  int16
}

// cut ends the chunk of encoded bytes so that something else can follow it. The
// buffer may still move, so only its bounds are noted.
func (e *fetchEncoder) cut() {
	if len(e.b) > e.mark {
		e.body.chunks = append(e.body.chunks, chunk{from: e.mark, to: len(e.b)})
		e.mark = len(e.b)
	}
}

func (e *fetchEncoder) finish() *Body {
	e.cut()
	body := e.body
	body.buf = e.b
	body.n = 0
	for i := range body.chunks {
		c := &body.chunks[i]
		if c.to > c.from {
			c.b = e.b[c.from:c.to:c.to]
		}
		body.n += len(c.b)
		if c.sec != nil {
			body.n += c.sec.Len()
		}
	}
	return body
}

func (e *fetchEncoder) i16(v int16) { e.b = binary.BigEndian.AppendUint16(e.b, uint16(v)) }
func (e *fetchEncoder) i32(v int32) { e.b = binary.BigEndian.AppendUint32(e.b, uint32(v)) }
func (e *fetchEncoder) i64(v int64) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(v)) }
func (e *fetchEncoder) uvarint(v int) {
	e.b = binary.AppendUvarint(e.b, uint64(v))
}

// length writes the length of an array or of bytes; -1 is null.
func (e *fetchEncoder) length(n int) {
	if e.flexible {
		e.uvarint(n + 1)
		return
	}
	e.i32(int32(n))
}

func (e *fetchEncoder) string(s string) {
	if e.flexible {
		e.uvarint(len(s) + 1)
	} else {
		s = s[:min(len(s), math.MaxInt16)]
		e.i16(int16(len(s)))
	}
	e.b = append(e.b, s...)
}

func (e *fetchEncoder) noTags() {
	if e.flexible {
		e.b = append(e.b, 0)
	}
}

func (e *fetchEncoder) response(r *FetchResponse) {
	if e.version >= 1 {
		e.i32(r.ThrottleMillis)
	}
	if e.version >= 7 {
		e.i16(r.ErrorCode)
		e.i32(r.SessionID)
	}
	e.length(len(r.Topics))
	for i := range r.Topics {
		t := &r.Topics[i]
		if e.version >= 13 {
			e.b = append(e.b, t.TopicID[:]...)
		} else {
			e.string(t.Topic)
		}
		e.length(len(t.Partitions))
		for j := range t.Partitions {
			e.partition(&t.Partitions[j])
		}
		e.noTags()
	}
	if e.version < 16 || len(r.Brokers) == 0 {
		e.noTags()
		return
	}
	e.uvarint(1)
	e.uvarint(0)
	e.uvarint(brokersLen(r.Brokers))
	e.length(len(r.Brokers))
	for i := range r.Brokers {
		n := &r.Brokers[i]
		e.i32(n.NodeID)
		e.string(n.Host)
		e.i32(n.Port)
		if n.Rack == nil {
			e.uvarint(0)
		} else {
			e.string(*n.Rack)
		}
		e.noTags()
	}
}

// brokersLen is the encoded length of the endpoints, which precedes them.
func brokersLen(brokers []FetchBroker) int {
	n := uvarintLen(len(brokers) + 1)
	for i := range brokers {
		b := &brokers[i]
		n += 4 + uvarintLen(len(b.Host)+1) + len(b.Host) + 4 + 1 + 1
		if b.Rack != nil {
			n += uvarintLen(len(*b.Rack)+1) - 1 + len(*b.Rack)
		}
	}
	return n
}

func uvarintLen(v int) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

func (e *fetchEncoder) partition(p *FetchPartition) {
	e.i32(p.Partition)
	e.i16(p.ErrorCode)
	e.i64(p.HighWatermark)
	if e.version >= 4 {
		e.i64(p.LastStableOffset)
	}
	if e.version >= 5 {
		e.i64(p.LogStartOffset)
	}
	if e.version >= 4 {
		if p.AbortedTransactions == nil {
			e.length(-1)
		} else {
			e.length(len(p.AbortedTransactions))
		}
		for _, a := range p.AbortedTransactions {
			e.i64(a.ProducerID)
			e.i64(a.FirstOffset)
			e.noTags()
		}
	}
	if e.version >= 11 {
		e.i32(p.PreferredReadReplica)
	}
	e.length(p.recordsLen())
	e.records(p)
	if e.flexible {
		e.partitionTags(p)
	}
}

// inlineRecords is the length up to which a partition's record bytes are copied
// into the encoder's buffer: cheaper than one more chunk.
const inlineRecords = 512

func (e *fetchEncoder) records(p *FetchPartition) {
	if len(p.Records) > 0 {
		if len(p.Records) <= inlineRecords {
			e.b = append(e.b, p.Records...)
		} else {
			e.cut()
			e.body.chunks = append(e.body.chunks, chunk{b: p.Records})
		}
	}
	if p.Section == nil {
		return
	}
	if p.Section.Len() == 0 {
		p.Section.Release()
		return
	}
	e.cut()
	e.body.chunks = append(e.body.chunks, chunk{sec: p.Section})
}

func (e *fetchEncoder) partitionTags(p *FetchPartition) {
	n := 0
	if p.DivergingEpoch != nil {
		n++
	}
	if p.CurrentLeader != nil {
		n++
	}
	if p.SnapshotID != nil {
		n++
	}
	e.uvarint(n)
	if d := p.DivergingEpoch; d != nil {
		e.uvarint(0)
		e.uvarint(4 + 8 + 1)
		e.i32(d.Epoch)
		e.i64(d.EndOffset)
		e.noTags()
	}
	if l := p.CurrentLeader; l != nil {
		e.uvarint(1)
		e.uvarint(4 + 4 + 1)
		e.i32(l.LeaderID)
		e.i32(l.LeaderEpoch)
		e.noTags()
	}
	if s := p.SnapshotID; s != nil {
		e.uvarint(2)
		e.uvarint(8 + 4 + 1)
		e.i64(s.EndOffset)
		e.i32(s.Epoch)
		e.noTags()
	}
}
