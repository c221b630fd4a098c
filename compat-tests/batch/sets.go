package batch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Message is a message of magic 0 or 1, as clients before 0.11 write it, good
// unless it says otherwise.
type Message struct {
	Magic      int8
	Attributes int8
	Offset     int64
	At         int64 // magic 1; 0: Then
	Key, Value []byte
	// Spoil changes the message behind the length; its checksum is set after it.
	Spoil func([]byte)
	// Corrupt changes it behind the checksum's back.
	Corrupt func([]byte)
	// Behind are bytes that the message holds beyond its value.
	Behind []byte
}

// Bytes are those of a set of this message.
func (o Message) Bytes() []byte {
	m := []byte{0, 0, 0, 0, byte(o.Magic), byte(o.Attributes)}
	if o.Magic == 1 {
		at := o.At
		if at == 0 {
			at = Then
		}
		m = binary.BigEndian.AppendUint64(m, uint64(at))
	}
	for _, f := range [][]byte{o.Key, o.Value} {
		if f == nil {
			m = binary.BigEndian.AppendUint32(m, 1<<32-1)
			continue
		}
		m = binary.BigEndian.AppendUint32(m, uint32(len(f)))
		m = append(m, f...)
	}
	m = append(m, o.Behind...)
	if o.Spoil != nil {
		o.Spoil(m)
	}
	binary.BigEndian.PutUint32(m, crc32.ChecksumIEEE(m[4:]))
	if o.Corrupt != nil {
		o.Corrupt(m)
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(o.Offset))
	b = binary.BigEndian.AppendUint32(b, uint32(len(m)))
	return append(b, m...)
}

// Messages are messages of one magic with these values and the offsets 0, 1, ...
func Messages(magic int8, values ...string) []Message {
	var out []Message
	for i, v := range values {
		out = append(out, Message{Magic: magic, Offset: int64(i), Key: []byte("k"), Value: []byte(v)})
	}
	return out
}

// SetOf is messages one behind the other.
func SetOf(messages ...Message) []byte {
	var b []byte
	for _, m := range messages {
		b = append(b, m.Bytes()...)
	}
	return b
}

// LZ4Frame is a frame of one block that is not compressed, with the header
// checksum that Kafka 0.10 and later write, or the wrong one of those before.
func LZ4Frame(set []byte, sum byte) []byte {
	b := []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, sum}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(set))|1<<31)
	return append(append(b, set...), 0, 0, 0, 0)
}

// The header checksums of such a frame.
const (
	RightSum = 0x82
	WrongSum = 0x1a
)

// Wrapped is a compressed message as a client of that magic makes it.
func Wrapped(magic int8, codec int8, messages ...Message) Message {
	set := SetOf(messages...)
	o := Message{Magic: magic, Attributes: codec, Offset: int64(len(messages) - 1)}
	switch codec {
	case Gzip:
		o.Value = Pack(Gzip, set)
	case Snappy:
		o.Value = Pack(Snappy, set)
	case LZ4:
		o.Value = LZ4Frame(set, map[int8]byte{0: WrongSum, 1: RightSum}[magic])
	case Zstd:
		o.Value = Pack(Zstd, set)
	}
	return o
}

// MessageSet is a set of messages of one magic, packed by a codec's id; 0: each
// by itself.
func MessageSet(magic, codec int8, at int64, values ...string) []byte {
	messages := Messages(magic, values...)
	for i := range messages {
		messages[i].At = at + int64(i)
	}
	if codec == 0 {
		return SetOf(messages...)
	}
	w := Wrapped(magic, codec, messages...)
	w.At = at + int64(len(messages)-1)
	return w.Bytes()
}

// ResumSet sets the checksum of a set's first message.
func ResumSet(set []byte) {
	if n := 12 + int(binary.BigEndian.Uint32(set[8:])); n <= len(set) {
		binary.BigEndian.PutUint32(set[12:], crc32.ChecksumIEEE(set[16:n]))
	}
}

// Sets reads message sets into what is compared of them: each message, what is
// packed in it, and how they end. The bytes of a compressed message are each
// server's own, and with them what fits behind it: the list ends with one that
// comes first, which is always whole, or before it.
func Sets(b []byte) []any {
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
			if len(list) > 0 && len(b) > attributesAt && b[attributesAt]&7 != 0 {
				return list // a whole one as well
			}
			return append(list, fmt.Sprintf("cut in the message at %d", offset))
		}
		m := b[12 : 12+size]
		b = b[12+size:]
		if packed := m[attributesAt-12]&7 != 0; !packed || len(list) == 0 {
			list = append(list, message(offset, m))
			if !packed {
				continue
			}
		}
		return list
	}
	return list
}

// attributesAt is where a message has its attributes, counted from its offset.
const attributesAt = 17

func message(offset int64, m []byte) any {
	if len(m) < 14 {
		return fmt.Sprintf("a message of %d bytes", len(m))
	}
	out := map[string]any{"offset": offset, "magic": m[4], "attributes": m[5], "checksum": binary.BigEndian.Uint32(m) == crc32.ChecksumIEEE(m[4:])}
	rest := m[6:]
	if m[4] == 1 {
		out["time"] = Moment(rest)
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
	if codec := int8(m[5] & 7); codec != None {
		if codec == LZ4 && len(value) > 6 {
			out["lz4 header"] = fmt.Sprintf("%x", value[:7])
			value = bytes.Clone(value)
			value[6] = RightSum
		}
		plain, err := kgo.DefaultDecompressor().Decompress(value, kgo.CompressionCodecType(codec))
		if err != nil {
			out["value"] = err.Error()
		} else {
			out["value"] = Sets(plain)
		}
	}
	return out
}

// Moment is a time, eight bytes of milliseconds: "now" stands for all near the present.
func Moment(b []byte) any {
	ms := int64(binary.BigEndian.Uint64(b))
	if time.Since(time.UnixMilli(ms)).Abs() < time.Hour {
		return "<now>"
	}
	return ms
}
