package frames

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// then is the time of the records that cases write: the same on all servers,
// not now, and too late for retention.
var then = time.Now().Add(-2 * time.Hour).UnixMilli()

// rec is one record of a batch.
type rec struct {
	key, value []byte // nil is null
	at         int64  // after the batch's first timestamp
	headers    [][2][]byte
	// delta is the offset delta; nil: its index.
	delta *int64
	// body replaces everything behind the record's length.
	body []byte
	// length replaces the record's length.
	length *int64
}

func value(s string) rec { return rec{key: []byte("k"), value: []byte(s)} }

// spec is a record batch, good unless it says otherwise.
type spec struct {
	base        int64
	leaderEpoch int32
	magic       int8 // 0: 2
	attributes  int16
	codec       kgo.CompressionCodec
	packed      []byte // replaces the records, compressed or not
	lastDelta   *int32
	count       *int32
	at          int64 // first timestamp; 0: then
	most        *int64
	producer    int64 // below 1: none
	epoch       int16
	sequence    int32
	records     []rec
	trailing    []byte // behind the records, within the batch
	// spoil changes the bytes behind the checksum's back.
	spoil func([]byte) []byte
}

// plain is a batch of records with these values.
func plain(values ...string) spec {
	var s spec
	for _, v := range values {
		s.records = append(s.records, value(v))
	}
	return s
}

// from makes a batch one of an idempotent producer.
func (s spec) from(producer int64, epoch int16, sequence int32) spec {
	s.producer, s.epoch, s.sequence = producer, epoch, sequence
	return s
}

func at[T any](v T) *T { return &v }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s spec) bytes() []byte {
	first, most := s.at, int64(-1)
	if first == 0 {
		first = then
	}
	var records []byte
	for i, r := range s.records {
		most = max(most, first+r.at)
		body := r.body
		if body == nil {
			body = []byte{0}
			body = binary.AppendVarint(body, r.at)
			delta := int64(i)
			if r.delta != nil {
				delta = *r.delta
			}
			body = binary.AppendVarint(body, delta)
			body = appendBytes(body, r.key)
			body = appendBytes(body, r.value)
			body = binary.AppendVarint(body, int64(len(r.headers)))
			for _, h := range r.headers {
				body = appendBytes(body, h[0])
				body = appendBytes(body, h[1])
			}
		}
		length := int64(len(body))
		if r.length != nil {
			length = *r.length
		}
		records = append(binary.AppendVarint(records, length), body...)
	}
	records = append(records, s.trailing...)
	attributes := s.attributes
	if s.codec != (kgo.CompressionCodec{}) {
		c, err := kgo.DefaultCompressor(s.codec)
		if err != nil {
			panic(err)
		}
		packed, kind := c.Compress(new(bytes.Buffer), records)
		records, attributes = append([]byte(nil), packed...), attributes|int16(kind)
	}
	if s.packed != nil {
		records = s.packed
	}
	magic, producer, epoch, sequence := int8(2), int64(-1), int16(-1), int32(-1)
	if s.magic != 0 {
		magic = s.magic
	}
	if s.producer > 0 {
		producer, epoch, sequence = s.producer, s.epoch, s.sequence
	}
	count, lastDelta := int32(len(s.records)), int32(len(s.records)-1)
	if s.count != nil {
		count = *s.count
	}
	if s.lastDelta != nil {
		lastDelta = *s.lastDelta
	}
	if s.most != nil {
		most = *s.most
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(s.base))
	b = binary.BigEndian.AppendUint32(b, uint32(49+len(records)))
	b = binary.BigEndian.AppendUint32(b, uint32(s.leaderEpoch))
	b = append(b, byte(magic), 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(attributes))
	b = binary.BigEndian.AppendUint32(b, uint32(lastDelta))
	b = binary.BigEndian.AppendUint64(b, uint64(first))
	b = binary.BigEndian.AppendUint64(b, uint64(most))
	b = binary.BigEndian.AppendUint64(b, uint64(producer))
	b = binary.BigEndian.AppendUint16(b, uint16(epoch))
	b = binary.BigEndian.AppendUint32(b, uint32(sequence))
	b = binary.BigEndian.AppendUint32(b, uint32(count))
	b = append(b, records...)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	if s.spoil != nil {
		b = s.spoil(b)
	}
	return b
}

func appendBytes(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

// oldSet is a message set of magic 0 or 1 with one message.
func oldSet(magic int8, value string) []byte {
	m := []byte{byte(magic), 0}
	if magic == 1 {
		m = binary.BigEndian.AppendUint64(m, uint64(then))
	}
	m = append(m, 0xff, 0xff, 0xff, 0xff)
	m = binary.BigEndian.AppendUint32(m, uint32(len(value)))
	m = append(m, value...)
	b := binary.BigEndian.AppendUint64(nil, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(m)+4))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(m))
	return append(b, m...)
}
