package oracle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/compat-tests/frames"
)

// then is the time of the records that sequences write: the same on both
// servers, not now, and too late for retention.
var then = time.Now().Add(-2 * time.Hour).UnixMilli()

// record is one record of a batch.
type record struct {
	key, value []byte // nil is null
	at         int64  // after the batch's first timestamp
	delta      *int64 // of its offset; nil: its index
	headers    [][2][]byte
	body       []byte // replaces everything behind the record's length
}

// batch is a record batch, good unless it says otherwise.
type batch struct {
	base        int64
	leaderEpoch int32
	magic       int8
	attributes  int16
	codec       int8 // 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
	count       *int32
	lastDelta   *int32
	first       int64
	most        *int64
	producer    int64
	epoch       int16
	sequence    int32
	records     []record
	trailing    []byte // behind the records, within the batch
	// spoil changes the bytes behind the checksum's back.
	spoil func([]byte) []byte
}

func newBatch(values ...string) batch {
	b := batch{magic: 2, first: then, producer: -1, epoch: -1, sequence: -1}
	for i, v := range values {
		b.records = append(b.records, record{key: []byte("k"), value: []byte(v), at: int64(i)})
	}
	return b
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func to[T any](v T) *T { return &v }

func (s batch) bytes() []byte {
	most := int64(-1)
	var records []byte
	for i, r := range s.records {
		most = max(most, s.first+r.at)
		body := r.body
		if body == nil {
			body = binary.AppendVarint([]byte{0}, r.at)
			delta := int64(i)
			if r.delta != nil {
				delta = *r.delta
			}
			body = binary.AppendVarint(body, delta)
			body = appendBytes(appendBytes(body, r.key), r.value)
			body = binary.AppendVarint(body, int64(len(r.headers)))
			for _, h := range r.headers {
				body = appendBytes(appendBytes(body, h[0]), h[1])
			}
		}
		records = append(binary.AppendVarint(records, int64(len(body))), body...)
	}
	records = append(records, s.trailing...)
	attributes := s.attributes
	if s.codec > 0 && s.codec <= 4 {
		c, err := kgo.DefaultCompressor([]kgo.CompressionCodec{{}, kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}[s.codec])
		if err != nil {
			panic(err)
		}
		packed, _ := c.Compress(new(bytes.Buffer), records)
		records = bytes.Clone(packed)
	}
	attributes |= int16(s.codec)
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
	b = append(b, byte(s.magic), 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(attributes))
	b = binary.BigEndian.AppendUint32(b, uint32(lastDelta))
	b = binary.BigEndian.AppendUint64(b, uint64(s.first))
	b = binary.BigEndian.AppendUint64(b, uint64(most))
	b = binary.BigEndian.AppendUint64(b, uint64(s.producer))
	b = binary.BigEndian.AppendUint16(b, uint16(s.epoch))
	b = binary.BigEndian.AppendUint32(b, uint32(s.sequence))
	b = binary.BigEndian.AppendUint32(b, uint32(count))
	b = append(b, records...)
	resum(b)
	if s.spoil != nil {
		b = s.spoil(b)
	}
	return b
}

// resum sets the checksum of a batch.
func resum(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

func appendBytes(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

// deleteHorizon is the attribute of batches whose base timestamp is when their
// tombstones may go.
const deleteHorizon = 1 << 6

// timed is records with their times in place of those relative to a batch's
// base; false if they are none.
func (n *normaliser) timed(records []byte, base int64) ([]byte, bool) {
	var out []byte
	for len(records) > 0 {
		size, w := binary.Varint(records)
		if w <= 0 || size < 1 || size > int64(len(records)-w) {
			return nil, false
		}
		body := records[w : w+int(size)]
		records = records[w+int(size):]
		delta, w := binary.Varint(body[1:])
		if w <= 0 {
			return nil, false
		}
		out = fmt.Appendf(out, "[%d at %v: %x]", body[0], n.moment(base+delta), body[1+w:])
	}
	return out, true
}

// batches reads a log's bytes into what is compared of them: codecs may pack
// differently, so the records are unpacked.
func (n *normaliser) batches(v reflect.Value) any {
	if v.IsNil() {
		return nil
	}
	b, list := v.Bytes(), []any{}
	for len(b) > 0 {
		if len(b) > 16 && b[16] < 2 {
			return append(list, frames.Sets(b)...) // of the versions before batches
		}
		if len(b) < 61 {
			return append(list, fmt.Sprintf("cut: %d bytes", len(b)))
		}
		size := 12 + int(binary.BigEndian.Uint32(b[8:]))
		if size > len(b) {
			return append(list, fmt.Sprintf("cut in the batch at offset %d: %d of %d bytes", binary.BigEndian.Uint64(b), len(b), size))
		}
		one := b[:size]
		b = b[size:]
		attributes := binary.BigEndian.Uint16(one[21:])
		epoch, producer := int32(binary.BigEndian.Uint32(one[12:])), int64(binary.BigEndian.Uint64(one[43:]))
		m := map[string]any{
			"base": binary.BigEndian.Uint64(one), "leader epoch": n.identity(anEpoch, reflect.ValueOf(epoch)), "magic": one[16],
			"checksum": crc32.Checksum(one[21:], castagnoli) == binary.BigEndian.Uint32(one[17:]), "attributes": attributes,
			"last delta": int32(binary.BigEndian.Uint32(one[23:])),
			"first time": n.moment(int64(binary.BigEndian.Uint64(one[27:]))), "largest time": n.moment(int64(binary.BigEndian.Uint64(one[35:]))),
			"producer": n.identity("ProducerID", reflect.ValueOf(producer)), "epoch": int16(binary.BigEndian.Uint16(one[51:])),
			"sequence": int32(binary.BigEndian.Uint32(one[53:])), "count": int32(binary.BigEndian.Uint32(one[57:])),
		}
		records := one[61:]
		if codec := attributes & 7; codec != 0 {
			plain, err := kgo.DefaultDecompressor().Decompress(records, kgo.CompressionCodecType(codec))
			if err != nil {
				m["unpacking"] = err.Error()
			} else {
				records = plain
			}
		}
		if attributes&deleteHorizon != 0 {
			// The cleaner's clock is the base of the records' times (KIP-534).
			base := int64(binary.BigEndian.Uint64(one[27:]))
			m["first time"] = fmt.Sprintf("<a horizon in %.0f min>", time.UnixMilli(base).Sub(n.now).Minutes())
			if plain, ok := n.timed(records, base); ok {
				records = plain
			}
		}
		if len(records) > 256 {
			m["records"] = fmt.Sprintf("%x... %d bytes %08x", records[:256], len(records), crc32.Checksum(records, castagnoli))
		} else {
			m["records"] = fmt.Sprintf("%x", records)
		}
		list = append(list, m)
	}
	return list
}
