// Package batch makes record batches and the message sets of old clients byte by
// byte, good ones and bad ones, and reads those that servers answer with into
// what is compared of them.
//
// It shares no code with what it tests, and knows neither requests nor servers.
package batch

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Then is the time of records, in milliseconds: the same on all servers, not now,
// and too late for retention by a default.
var Then = time.Now().Add(-2 * time.Hour).UnixMilli()

// The ids of codecs, in the attributes of batches and messages.
const (
	None int8 = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// Pack compresses bytes by a codec's id.
func Pack(codec int8, plain []byte) []byte {
	kinds := []kgo.CompressionCodec{None: kgo.NoCompression(), Gzip: kgo.GzipCompression(), Snappy: kgo.SnappyCompression(), LZ4: kgo.Lz4Compression(), Zstd: kgo.ZstdCompression()}
	c, err := kgo.DefaultCompressor(kinds[codec])
	if err != nil {
		panic(err)
	}
	if c == nil {
		return plain
	}
	packed, _ := c.Compress(new(bytes.Buffer), plain)
	return bytes.Clone(packed)
}

// Record is one record of a batch.
type Record struct {
	Key, Value []byte // nil is null
	At         int64  // after the batch's first timestamp
	Delta      *int64 // of its offset; nil: its index
	Headers    [][2][]byte
	Body       []byte // replaces everything behind the record's length
	Length     *int64 // replaces that
}

// Valued is a record of one value.
func Valued(value string) Record { return Record{Key: []byte("k"), Value: []byte(value)} }

// Batch is a record batch, good as New makes it.
type Batch struct {
	Base        int64
	LeaderEpoch int32
	Magic       int8
	Attributes  int16
	Codec       int8   // what is beyond Zstd is said, and nothing compressed
	Packed      []byte // replaces the records, compressed or not
	Count       *int32
	LastDelta   *int32
	First       int64 // timestamp
	Most        *int64
	Producer    int64
	Epoch       int16
	Sequence    int32
	Records     []Record
	Trailing    []byte // behind the records, within the batch
	// Spoil changes the bytes behind the checksum's back.
	Spoil func([]byte) []byte
}

// New is a good batch of records with these values, by no producer.
func New(values ...string) Batch {
	b := Of()
	for i, v := range values {
		r := Valued(v)
		r.At = int64(i)
		b.Records = append(b.Records, r)
	}
	return b
}

// Of is a good batch of these records.
func Of(records ...Record) Batch {
	return Batch{Magic: 2, First: Then, Producer: -1, Epoch: -1, Sequence: -1, Records: records}
}

// From is the batch as one of an idempotent producer.
func (b Batch) From(producer int64, epoch int16, sequence int32) Batch {
	b.Producer, b.Epoch, b.Sequence = producer, epoch, sequence
	return b
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// To is a pointer to a value.
func To[T any](v T) *T { return &v }

// Bytes are those of the batch.
func (b Batch) Bytes() []byte {
	most := int64(-1)
	var records []byte
	for i, r := range b.Records {
		most = max(most, b.First+r.At)
		body := r.Body
		if body == nil {
			body = binary.AppendVarint([]byte{0}, r.At)
			delta := int64(i)
			if r.Delta != nil {
				delta = *r.Delta
			}
			body = binary.AppendVarint(body, delta)
			body = appendBytes(appendBytes(body, r.Key), r.Value)
			body = binary.AppendVarint(body, int64(len(r.Headers)))
			for _, h := range r.Headers {
				body = appendBytes(appendBytes(body, h[0]), h[1])
			}
		}
		length := int64(len(body))
		if r.Length != nil {
			length = *r.Length
		}
		records = append(binary.AppendVarint(records, length), body...)
	}
	records = append(records, b.Trailing...)
	if b.Codec > None && b.Codec <= Zstd {
		records = Pack(b.Codec, records)
	}
	if b.Packed != nil {
		records = b.Packed
	}
	count, lastDelta := int32(len(b.Records)), int32(len(b.Records)-1)
	if b.Count != nil {
		count = *b.Count
	}
	if b.LastDelta != nil {
		lastDelta = *b.LastDelta
	}
	if b.Most != nil {
		most = *b.Most
	}
	out := binary.BigEndian.AppendUint64(nil, uint64(b.Base))
	out = binary.BigEndian.AppendUint32(out, uint32(49+len(records)))
	out = binary.BigEndian.AppendUint32(out, uint32(b.LeaderEpoch))
	out = append(out, byte(b.Magic), 0, 0, 0, 0)
	out = binary.BigEndian.AppendUint16(out, uint16(b.Attributes|int16(b.Codec)))
	out = binary.BigEndian.AppendUint32(out, uint32(lastDelta))
	out = binary.BigEndian.AppendUint64(out, uint64(b.First))
	out = binary.BigEndian.AppendUint64(out, uint64(most))
	out = binary.BigEndian.AppendUint64(out, uint64(b.Producer))
	out = binary.BigEndian.AppendUint16(out, uint16(b.Epoch))
	out = binary.BigEndian.AppendUint32(out, uint32(b.Sequence))
	out = binary.BigEndian.AppendUint32(out, uint32(count))
	out = Resum(append(out, records...))
	if b.Spoil != nil {
		out = b.Spoil(out)
	}
	return out
}

// Resum sets the checksum of a batch.
func Resum(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

func appendBytes(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}
