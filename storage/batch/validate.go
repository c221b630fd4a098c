package batch

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"millrace/storage/codec"
)

// TimestampType is message.timestamp.type.
type TimestampType int8

// The timestamp types.
const (
	CreateTime TimestampType = iota
	LogAppendTime
)

// Rules are what a topic's configs and the clock ask of a batch. The zero value asks for a CreateTime of exactly Now,
// so BeforeMax and AfterMax are to be set; every other zero is "no limit" or "no".
type Rules struct {
	Topic     string // for messages only
	Partition int32  // for messages only

	Now        int64
	Timestamps TimestampType
	BeforeMax  int64 // message.timestamp.before.max.ms
	AfterMax   int64 // message.timestamp.after.max.ms

	MaxBytes       int  // max.message.bytes, of the whole batch
	SegmentBytes   int  // segment.bytes
	MaxRecordBytes int  // max.decompressed.message.bytes, of one record of a compressed batch
	Compacted      bool // cleanup.policy has compact: every record needs a key
	ListedErrors   int  // how many of a refused batch's bad records are listed; 0 is MostListed, and the first FewestListed always are

	// Recompress stores the batch with Codec where it comes with another: compression.type is not "producer".
	Recompress bool
	Codec      codec.Kind
	Level      int // 0 is the codec's default

	// Scratch is reused memory for compressed batches; nil makes it anew.
	Scratch *Scratch
}

// Checked is a batch that passed.
type Checked struct {
	Header Header // as it is in Batch
	Batch  []byte // the request's own bytes, or a new batch where it was recompressed
	// MaxTimestamp is the largest timestamp, -1 if no record has one, and OffsetOfMaxTimestamp the offset delta of the
	// first record that has it.
	MaxTimestamp         int64
	OffsetOfMaxTimestamp int32
	// AppendTime is what the producer is told as LogAppendTimeMs; -1 where the topic keeps CreateTime.
	AppendTime int64
}

// Kind is why a batch is refused. The broker maps kinds to Kafka's error codes.
type Kind int8

// The kinds, each with the Kafka error it stands for.
const (
	Corrupt                Kind = iota + 1 // CORRUPT_MESSAGE
	UnsupportedMagic                       // INVALID_RECORD where it is 0 or 1
	InvalidRecord                          // INVALID_RECORD
	InvalidTimestamp                       // INVALID_TIMESTAMP
	UnsupportedCompression                 // UNSUPPORTED_COMPRESSION_TYPE
	TooLarge                               // MESSAGE_TOO_LARGE
	TooLargeForSegment                     // RECORD_LIST_TOO_LARGE
	Undecompressable                       // UNKNOWN_SERVER_ERROR: the codec is unknown, or the data no good for it
)

// Error refuses a batch. Only where Records is not empty does Kafka tell the producer the message.
type Error struct {
	Kind    Kind
	Message string
	Records []RecordError // in order, up to Rules.ListedErrors
	Request bool          // the whole request is refused: see Shape
}

func (e *Error) Error() string { return e.Message }

// RecordError says what is wrong with one record.
type RecordError struct {
	Index   int32
	Message string
}

// MostListed bounds what a refused batch makes of a small request: Kafka lists every bad record. FewestListed are those
// that the batch's own message names.
const (
	MostListed   = 1 << 14
	FewestListed = 3
)

// listed is how many bad records an error lists.
func (r *Rules) listed() int {
	if r.ListedErrors == 0 {
		return MostListed
	}
	return min(max(r.ListedErrors, FewestListed), MostListed)
}

// Validate checks a batch of a client the way the leader of a partition does before it appends, in Kafka's order:
// base offset, size, checksum, codec, counts, then every record. b is the batch as Shape cut it, and is changed in
// place: timestamp type, largest timestamp and checksum become those the log stores. On an error b may not be used.
func Validate(b []byte, r Rules) (Checked, error) {
	h, err := ParseHeader(b)
	if err != nil {
		if m, ok := err.(*MagicError); ok {
			return Checked{}, &Error{Kind: UnsupportedMagic, Message: m.Error()}
		}
		return Checked{}, &Error{Kind: Corrupt, Message: err.Error()}
	}
	if h.Size() > len(b) {
		return Checked{}, &Error{Kind: Corrupt, Message: ErrShort.Error()}
	}
	b = b[:h.Size():h.Size()]
	if err := checkHeader(b, h, &r); err != nil {
		return Checked{}, err
	}
	c := Checked{Header: h, Batch: b, MaxTimestamp: NoTimestamp, AppendTime: NoTimestamp}
	recompress := r.Recompress && r.Codec != h.Attributes.Codec()
	if h.Attributes.Codec() == codec.None && !recompress {
		// The hot path: the walk stays on the stack.
		w := walk{h: h, buf: b[HeaderSize:]}
		if sparse, err := checkRecords(&w, &r, &c); err != nil {
			return Checked{}, err
		} else if sparse {
			r.MaxBytes = 0 // the batch was measured as it came
			return Validate(renumber(b, h), r)
		}
	} else if err := checkCompressed(b, h, &r, &c, recompress); err != nil {
		return Checked{}, err
	}
	if err := fitsSegment(c.Batch, &r); err != nil {
		return Checked{}, err
	}
	return c, nil
}

// fitsSegment holds a batch to segment.bytes.
func fitsSegment(b []byte, r *Rules) error {
	if r.SegmentBytes <= 0 || len(b) <= r.SegmentBytes {
		return nil
	}
	return &Error{Kind: TooLargeForSegment, Message: fmt.Sprintf("message batch size is %d bytes in append to partition %s-%d, which exceeds the maximum configured segment size of %d", len(b), r.Topic, r.Partition, r.SegmentBytes)}
}

// checkHeader does what needs no record.
func checkHeader(b []byte, h Header, r *Rules) error {
	if h.BaseOffset != 0 {
		return invalid("the baseOffset of the record batch in the append to %s-%d should be 0, but it is %d", r.Topic, r.Partition, h.BaseOffset)
	}
	if r.MaxBytes > 0 && len(b) > r.MaxBytes {
		return tooLarge(len(b), r)
	}
	if err := CheckCRC(b); err != nil {
		return &Error{Kind: Corrupt, Message: fmt.Sprintf("%v in topic partition %s-%d", err, r.Topic, r.Partition)}
	}
	if k := h.Attributes.Codec(); !k.Valid() {
		return undecompressable(&codec.UnknownKindError{Kind: k})
	}
	switch {
	case h.LastOffsetDelta < 0:
		return invalid("batch has an invalid offset range: [%d, %d] in topic partition %s-%d", h.BaseOffset, h.LastOffset(), r.Topic, r.Partition)
	case h.Count <= 0:
		return invalid("invalid reported count for record batch: %d in topic partition %s-%d", h.Count, r.Topic, r.Partition)
	case int64(h.LastOffsetDelta)+1 != int64(h.Count):
		return invalid("inconsistent batch offset range [%d, %d] and count of records %d in topic partition %s-%d", h.BaseOffset, h.LastOffset(), h.Count, r.Topic, r.Partition)
	case h.Attributes.Control():
		return invalid("clients are not allowed to write control records in topic partition %s-%d", r.Topic, r.Partition)
	case h.HasProducer() && h.BaseSequence < 0:
		return invalid("invalid sequence number %d in record batch with producerId %d in topic partition %s-%d", h.BaseSequence, h.ProducerID, r.Topic, r.Partition)
	}
	return nil
}

func tooLarge(n int, r *Rules) *Error {
	return &Error{Kind: TooLarge, Message: fmt.Sprintf("the record batch size in the append to %s-%d is %d bytes which exceeds the maximum configured value of %d", r.Topic, r.Partition, n, r.MaxBytes)}
}

// checkCompressed is the path of a batch that comes compressed or is to be stored so.
func checkCompressed(b []byte, h Header, r *Rules, c *Checked, recompress bool) error {
	sc := r.Scratch
	if sc == nil {
		sc = &Scratch{}
	}
	w := walk{h: h, limit: r.MaxRecordBytes, skips: !recompress}
	if err := w.open(b[HeaderSize:], sc); err != nil {
		return err
	}
	if !recompress {
		sparse, err := checkRecords(&w, r, c)
		if err == nil && sparse {
			// Kafka wants to write them anew, and has skipped what it would need for that.
			return &Error{Kind: Undecompressable, Message: "records of a compressed batch without incremental offsets"}
		}
		return err
	}
	out := sink{b: make([]byte, HeaderSize, max(HeaderSize, len(b))), max: r.MaxBytes}
	enc, err := sc.encoders.Open(r.Codec, r.Level, &out)
	if err != nil {
		return undecompressable(err)
	}
	// What the walk reads is what is compressed anew; if it is refused, so is all of it.
	w.out, w.prefix = enc, make([]byte, 0, 24)
	if _, err := checkRecords(&w, r, c); err != nil {
		return err
	}
	if h.HasProducer() && h.ProducerEpoch < 0 {
		// Kafka's builder of batches makes none of a producer without an epoch.
		return undecompressable(fmt.Errorf("invalid negative producer epoch %d", h.ProducerEpoch))
	}
	if err := enc.Close(); err != nil {
		return fmt.Errorf("compress records with %v: %w", r.Codec, err)
	}
	if out.over() {
		return tooLarge(HeaderSize+out.n, r)
	}
	nh := c.Header
	nh.BaseTimestamp = w.base
	nh.Attributes = nh.Attributes&knownBits&^codecMask&^deleteHorizonBit | Attributes(r.Codec)
	nh.Length = int32(len(out.b) - LengthOverhead)
	nh.put(out.b)
	nh.CRC = setCRC(out.b)
	c.Header, c.Batch = nh, out.b
	return nil
}

// sink collects a recompressed batch and stops keeping it once it is over its limit.
type sink struct {
	b   []byte
	n   int // bytes written, kept or not
	max int // of the batch; 0 is none
}

func (s *sink) Write(p []byte) (int, error) {
	if s.n += len(p); !s.over() {
		s.b = append(s.b, p...)
	}
	return len(p), nil
}

// over says that the batch is longer than its limit, or than any can be.
func (s *sink) over() bool {
	limit := s.max
	if limit <= 0 {
		limit = math.MaxInt32
	}
	return s.n > limit-HeaderSize
}

// checkRecords walks every record, then gives the batch the timestamps the log stores. sparse: their offset deltas are
// not 0, 1, 2 and so on, and the batch is as it was.
func checkRecords(w *walk, r *Rules, c *Checked) (sparse bool, err error) {
	h := w.h
	flagged := h.Attributes.LogAppendTime()
	var bad *Error
	total, below := 0, int64(0)
	var s seen
	for i := int32(0); i < h.Count; i++ {
		if err := w.next(&s); err != nil {
			return false, err
		}
		sparse = sparse || s.offsetDelta != i
		ts := h.BaseTimestamp + s.timestampDelta
		if flagged {
			ts = h.MaxTimestamp
		}
		if kind, ok := wrong(r, flagged, ts, s.keyLen); ok {
			total++
			bad = note(bad, kind, i, ts, &s, w, r)
			continue
		}
		below = min(below, ts)
		if ts > c.MaxTimestamp {
			c.MaxTimestamp, c.OffsetOfMaxTimestamp = ts, i
		}
	}
	if err := w.trailing(); err != nil {
		return false, err
	}
	if bad != nil {
		return false, bad.finish(total)
	}
	if sparse && w.out == nil {
		return true, nil
	}
	if w.out != nil && below < NoTimestamp {
		return false, &Error{Kind: Undecompressable, Message: fmt.Sprintf("invalid negative timestamp %d", below)}
	}
	to := h.Attributes &^ logAppendTimeBit
	if r.Timestamps == LogAppendTime {
		to |= logAppendTimeBit
		c.MaxTimestamp, c.OffsetOfMaxTimestamp, c.AppendTime = r.Now, 0, r.Now
	}
	if to != h.Attributes || c.MaxTimestamp != h.MaxTimestamp {
		to &= knownBits // Kafka rewrites the attributes from what it knows
		b := c.Batch
		binary.BigEndian.PutUint16(b[atAttributes:], uint16(to))
		binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(c.MaxTimestamp))
		c.Header.Attributes, c.Header.MaxTimestamp = to, c.MaxTimestamp
		c.Header.CRC = setCRC(b)
	}
	return false, nil
}

// recordFault is what can be wrong with one record.
type recordFault int8

const (
	faultNoKey recordFault = iota
	faultRange
	faultType
)

func wrong(r *Rules, flagged bool, ts int64, keyLen int32) (recordFault, bool) {
	if r.Compacted && keyLen < 0 {
		return faultNoKey, true
	}
	if r.Timestamps == CreateTime && ts != NoTimestamp {
		// The differences wrap as Kafka's do.
		if diff := r.Now - ts; diff > r.BeforeMax || -diff > r.AfterMax {
			return faultRange, true
		}
		return 0, false
	}
	return faultType, flagged
}

// note adds a record's error to the batch's.
func note(e *Error, f recordFault, i int32, ts int64, s *seen, w *walk, r *Rules) *Error {
	if e == nil {
		e = &Error{Kind: InvalidRecord}
	}
	if f != faultNoKey {
		e.Kind = InvalidTimestamp
	}
	if len(e.Records) >= r.listed() {
		return e
	}
	var m string
	switch f {
	case faultNoKey:
		if n := len(e.Records); n > 0 && strings.HasPrefix(e.Records[n-1].Message, noKey) {
			m = e.Records[n-1].Message
		} else {
			m = fmt.Sprintf("%s%s-%d", noKey, r.Topic, r.Partition)
		}
	case faultRange:
		m = fmt.Sprintf("Timestamp %d of message with offset %d is out of range. The timestamp should be within [%d, %d]", ts, i, r.Now-r.BeforeMax, r.Now+r.AfterMax)
	case faultType:
		// Kafka names the class it read the record with.
		class, keyLen, valueLen := "DefaultRecord", max(0, s.keyLen), max(0, s.valueLen)
		if w.skips {
			class, keyLen, valueLen = "PartialDefaultRecord", s.keyLen, s.valueLen
		}
		m = fmt.Sprintf("Invalid timestamp type in message %s(offset=%d, timestamp=%d, key=%d bytes, value=%d bytes). Producer should not set timestamp type to LogAppendTime.", class, i, ts, keyLen, valueLen)
	}
	e.Records = append(e.Records, RecordError{Index: i, Message: m})
	return e
}

const noKey = "Compacted topic cannot accept message without key in topic partition "

// finish gives the batch's error its message.
func (e *Error) finish(total int) *Error {
	if e.Kind == InvalidTimestamp {
		e.Message = "One or more records have been rejected due to invalid timestamp"
		return e
	}
	var first strings.Builder
	for i, r := range e.Records[:min(FewestListed, len(e.Records))] {
		if i > 0 {
			first.WriteString(", ")
		}
		fmt.Fprintf(&first, "RecordError(batchIndex=%d, message='%s')", r.Index, r.Message)
	}
	e.Message = fmt.Sprintf("One or more records have been rejected due to %d record errors in total, and only showing the first three errors at most: [%s]", total, first.String())
	return e
}

// DefaultLevel stands for each codec's default level.
const DefaultLevel = codec.DefaultLevel

// Compression is what the topic config compression.type asks for: the kind to store batches with, or false for
// "producer", which keeps what comes. A name that the config would refuse is taken for "producer".
func Compression(name string) (codec.Kind, bool) {
	switch name {
	case "uncompressed":
		return codec.None, true
	case "gzip":
		return codec.Gzip, true
	case "snappy":
		return codec.Snappy, true
	case "lz4":
		return codec.LZ4, true
	case "zstd":
		return codec.Zstd, true
	}
	return codec.None, false
}
