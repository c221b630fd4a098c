package normal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"millrace/compat-tests/batch"
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// castagnoli is the checksum of batches.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// deleteHorizon is the attribute of batches whose base timestamp is when their
// tombstones may go.
const deleteHorizon = 1 << 6

// timed is records with their times in place of those relative to a batch's
// base; false if they are none.
func (n *Normaliser) timed(records []byte, base int64) ([]byte, bool) {
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

// Batches reads a log's bytes into what is compared of them: codecs may pack
// differently, so the records are unpacked.
func (n *Normaliser) Batches(v reflect.Value) any {
	if v.IsNil() {
		return nil
	}
	b, list := v.Bytes(), []any{}
	for len(b) > 0 {
		if len(b) > 16 && b[16] < 2 {
			return append(list, batch.Sets(b)...) // of the versions before batches
		}
		if len(b) < 61 {
			return append(list, fmt.Sprintf("cut: %d bytes", len(b)))
		}
		size := 12 + int(binary.BigEndian.Uint32(b[8:]))
		if size > len(b) && b[22]&7 != 0 {
			// How long it is, is its compressor's choice.
			return append(list, fmt.Sprintf("cut in the compressed batch at offset %d", binary.BigEndian.Uint64(b)))
		}
		if size > len(b) {
			return append(list, fmt.Sprintf("cut in the batch at offset %d: %d of %d bytes", binary.BigEndian.Uint64(b), len(b), size))
		}
		one := b[:size]
		b = b[size:]
		attributes := binary.BigEndian.Uint16(one[21:])
		epoch, producer := int32(binary.BigEndian.Uint32(one[12:])), int64(binary.BigEndian.Uint64(one[43:]))
		m := map[string]any{
			"base": binary.BigEndian.Uint64(one), "leader epoch": n.identity(Epoch, reflect.ValueOf(epoch)), "magic": one[16],
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
			m["first time"] = fmt.Sprintf("<a horizon in %.0f h>", time.UnixMilli(base).Sub(n.Now).Hours())
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
