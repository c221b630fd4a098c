package frames

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"
)

// old is a message of magic 0 or 1, good unless it says otherwise.
type old struct {
	magic      int8
	attributes int8
	offset     int64
	at         int64 // magic 1; 0: then
	key, value []byte
	// spoil changes the message behind the length; its checksum is set after it.
	spoil func([]byte)
	// corrupt changes it behind the checksum's back.
	corrupt func([]byte)
	// behind are bytes that the message holds beyond its value.
	behind []byte
}

func (o old) bytes() []byte {
	m := []byte{0, 0, 0, 0, byte(o.magic), byte(o.attributes)}
	if o.magic == 1 {
		at := o.at
		if at == 0 {
			at = then
		}
		m = binary.BigEndian.AppendUint64(m, uint64(at))
	}
	for _, f := range [][]byte{o.key, o.value} {
		if f == nil {
			m = binary.BigEndian.AppendUint32(m, 1<<32-1)
			continue
		}
		m = binary.BigEndian.AppendUint32(m, uint32(len(f)))
		m = append(m, f...)
	}
	m = append(m, o.behind...)
	if o.spoil != nil {
		o.spoil(m)
	}
	binary.BigEndian.PutUint32(m, crc32.ChecksumIEEE(m[4:]))
	if o.corrupt != nil {
		o.corrupt(m)
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(o.offset))
	b = binary.BigEndian.AppendUint32(b, uint32(len(m)))
	return append(b, m...)
}

// olds are messages of one magic with these values and the offsets 0, 1, ...
func olds(magic int8, values ...string) []old {
	var out []old
	for i, v := range values {
		out = append(out, old{magic: magic, offset: int64(i), key: []byte("k"), value: []byte(v)})
	}
	return out
}

// setOf is messages one behind the other.
func setOf(messages ...old) []byte {
	var b []byte
	for _, m := range messages {
		b = append(b, m.bytes()...)
	}
	return b
}

// packed are the bytes of a set, compressed.
func packed(kind kgo.CompressionCodec, set []byte) []byte {
	c, err := kgo.DefaultCompressor(kind)
	if err != nil {
		panic(err)
	}
	b, _ := c.Compress(new(bytes.Buffer), set)
	return bytes.Clone(b)
}

// The ids of the codecs in a message's attributes.
const (
	inGzip = 1 + iota
	inSnappy
	inLZ4
	inZstd
)

// lz4Frame is a frame of one block that is not compressed, with the header
// checksum that Kafka 0.10 and later write, or the wrong one of those before.
func lz4Frame(set []byte, sum byte) []byte {
	b := []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, sum}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(set))|1<<31)
	return append(append(b, set...), 0, 0, 0, 0)
}

const (
	rightSum = 0x82
	wrongSum = 0x1a
)

// wrapped is a compressed message as a client of that magic makes it.
func wrapped(magic int8, codec int8, messages ...old) old {
	set := setOf(messages...)
	o := old{magic: magic, attributes: codec, offset: int64(len(messages) - 1)}
	switch codec {
	case inGzip:
		o.value = packed(kgo.GzipCompression(), set)
	case inSnappy:
		o.value = packed(kgo.SnappyCompression(), set)
	case inLZ4:
		o.value = lz4Frame(set, map[int8]byte{0: wrongSum, 1: rightSum}[magic])
	case inZstd:
		o.value = packed(kgo.ZstdCompression(), set)
	}
	return o
}

// MessageSet is a set of messages of one magic, packed by a codec's id; 0: each
// by itself.
func MessageSet(magic, codec int8, at int64, values ...string) []byte {
	messages := olds(magic, values...)
	for i := range messages {
		messages[i].at = at + int64(i)
	}
	if codec == 0 {
		return setOf(messages...)
	}
	w := wrapped(magic, codec, messages...)
	w.at = at + int64(len(messages)-1)
	return w.bytes()
}

// Resum sets the checksum of a set's first message.
func Resum(set []byte) {
	if n := 12 + int(binary.BigEndian.Uint32(set[8:])); n <= len(set) {
		binary.BigEndian.PutUint32(set[12:], crc32.ChecksumIEEE(set[16:n]))
	}
}

// Sets is what is compared of message sets.
func Sets(b []byte) []any { return sets(b) }

// sets reads message sets into what is compared of them: each message, what is
// packed in it, and how they end. The bytes of a compressed message are each
// server's own, and with them what fits behind it: the list ends with one that
// comes first, which is always whole, or before it.
func sets(b []byte) []any {
	list := []any{}
	for len(b) > 0 {
		if len(b) < 12 {
			return append(list, fmt.Sprintf("cut: %x", b))
		}
		offset, size := int64(binary.BigEndian.Uint64(b)), int(int32(binary.BigEndian.Uint32(b[8:])))
		if size > len(b)-12 {
			if offset == -1 {
				return append(list, fmt.Sprintf("filled, more than what is left: %v, nothing in it: %v", size > len(b), len(bytes.Trim(b[12:], "\x00")) == 0))
			}
			return append(list, fmt.Sprintf("cut in the message at %d", offset))
		}
		m := b[12 : 12+size]
		b = b[12+size:]
		if packed := m[5]&7 != 0; !packed || len(list) == 0 {
			list = append(list, message(offset, m))
			if !packed {
				continue
			}
		}
		return list
	}
	return list
}

func message(offset int64, m []byte) any {
	if len(m) < 14 {
		return fmt.Sprintf("a message of %d bytes", len(m))
	}
	out := map[string]any{"offset": offset, "magic": m[4], "attributes": m[5], "checksum": binary.BigEndian.Uint32(m) == crc32.ChecksumIEEE(m[4:])}
	rest := m[6:]
	if m[4] == 1 {
		out["time"] = moment(rest)
		rest = rest[8:]
	}
	var value []byte
	for _, name := range []string{"key", "value"} {
		n := int32(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		if n < 0 {
			out[name] = nil
			continue
		}
		value = rest[:n]
		out[name] = fmt.Sprintf("%x", value)
		rest = rest[n:]
	}
	if len(rest) > 0 {
		out["behind"] = len(rest)
	}
	if codec := m[5] & 7; codec != 0 {
		if codec == inLZ4 && len(value) > 6 {
			out["lz4 header"] = fmt.Sprintf("%x", value[:7])
			value = bytes.Clone(value)
			value[6] = rightSum
		}
		plain, err := kgo.DefaultDecompressor().Decompress(value, kgo.CompressionCodecType(codec))
		if err != nil {
			out["value"] = err.Error()
		} else {
			out["value"] = sets(plain)
		}
	}
	return out
}
