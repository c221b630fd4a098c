package batch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"millrace/storage/codec"
)

// Message sets are what clients before KIP-98 send and understand: messages of magic 0 or 1, one behind the other, or
// one whose value is a compressed set. They are never stored here: Upgrade makes a batch of what such a client produces,
// Downgrade a set of what it fetches. Kafka 4 has dropped both (KIP-896).

// Where a message's fields lie, from the start of its entry.
const (
	atMessageCRC   = LengthOverhead
	atMessageFlags = 17
	atMessageTime  = 18 // magic 1
	keyInMagic0    = 18
	keyInMagic1    = 26
	setCodecMask   = 0x07
	setAppendTime  = 0x08
)

// message is one entry of a set.
type message struct {
	offset     Offset
	magic      int8
	flags      byte
	timestamp  int64
	key, value []byte // nil is null
}

func (m *message) codec() codec.Kind { return codec.Kind(m.flags & setCodecMask) }

// parseMessage reads a whole entry.
func parseMessage(b []byte) (message, *Error) {
	m := message{offset: Offset(binary.BigEndian.Uint64(b)), magic: int8(b[atMagic]), timestamp: NoTimestamp}
	at := keyInMagic0
	if m.magic == 1 {
		at = keyInMagic1
	}
	if len(b) < at+8 {
		return m, &Error{Kind: Corrupt, Message: fmt.Sprintf("message of %d bytes is too short for magic %d", len(b), m.magic)}
	}
	if stored, computed := binary.BigEndian.Uint32(b[atMessageCRC:]), crc32.ChecksumIEEE(b[atMagic:]); stored != computed {
		return m, &Error{Kind: Corrupt, Message: fmt.Sprintf("message is corrupt (stored crc = %d, computed crc = %d)", stored, computed)}
	}
	m.flags = b[atMessageFlags]
	if m.magic == 1 {
		m.timestamp = int64(binary.BigEndian.Uint64(b[atMessageTime:]))
	}
	field := func() ([]byte, bool) {
		if len(b)-at < 4 {
			return nil, false
		}
		n := int32(binary.BigEndian.Uint32(b[at:]))
		at += 4
		if n < 0 {
			return nil, true
		}
		if int(n) > len(b)-at {
			return nil, false
		}
		f := b[at : at+int(n) : at+int(n)]
		at += int(n)
		return f, true
	}
	var ok bool
	if m.key, ok = field(); !ok {
		return m, &Error{Kind: Corrupt, Message: "message key is longer than the message"}
	}
	if m.value, ok = field(); !ok {
		return m, &Error{Kind: Corrupt, Message: "message value is longer than the message"}
	}
	return m, nil
}

// appendMessage appends an entry.
func appendMessage(dst []byte, m *message) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.offset))
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0, byte(m.magic), m.flags)
	if m.magic == 1 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(m.timestamp))
	}
	for _, f := range [2][]byte{m.key, m.value} {
		if f == nil {
			dst = binary.BigEndian.AppendUint32(dst, 1<<32-1)
			continue
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(f)))
		dst = append(dst, f...)
	}
	b := dst[start:]
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-LengthOverhead))
	binary.BigEndian.PutUint32(b[atMessageCRC:], crc32.ChecksumIEEE(b[atMagic:]))
	return dst
}

// IsMessageSet says that records begin with a message of magic 0 or 1.
func IsMessageSet(records []byte) bool {
	return len(records) >= toMagic && (records[atMagic] == 0 || records[atMagic] == 1)
}

// Upgrade makes a batch of the message set of a Produce request, for Validate to check by the same rules; r says with
// which codec the topic stores it. limit bounds what a compressed set may unpack to. A set without a whole message gives
// no batch and no error: Kafka answered such a request without appending anything.
func Upgrade(set []byte, r Rules, limit int) ([]byte, error) {
	var u *Builder
	var first message
	unpacked := 0
	add := func(m *message) *Error {
		if unpacked += len(m.key) + len(m.value) + toMagic; unpacked > limit {
			return &Error{Kind: TooLarge, Message: fmt.Sprintf("message set unpacks to more than %d bytes", limit)}
		}
		u.Add(m.timestamp, m.key, m.value)
		return nil
	}
	for n := 0; ; n++ {
		size, err := entry(set)
		if err != nil {
			return nil, err
		}
		if size == 0 {
			break
		}
		if !IsMessageSet(set) {
			return nil, invalid("message set holds a batch of magic %d", set[atMagic])
		}
		m, merr := parseMessage(set[:size])
		if merr != nil {
			return nil, merr
		}
		set = set[size:]
		if n == 0 {
			first = m
			kind := m.codec()
			switch {
			case kind == codec.Zstd:
				return nil, &Error{Kind: UnsupportedCompression, Message: fmt.Sprintf("messages of magic %d cannot be compressed with zstd", m.magic)}
			case !kind.Valid():
				return nil, undecompressable(&codec.UnknownKindError{Kind: kind})
			case r.Recompress:
				kind = r.Codec
			}
			o := BuilderOptions{Codec: kind, Level: r.Level, LeaderEpoch: NoLeaderEpoch, Scratch: r.Scratch}
			if m.flags&setAppendTime != 0 && m.magic == 1 {
				o.Timestamps = LogAppendTime
			}
			u = NewBuilder(o)
		} else if m.magic != first.magic {
			return nil, invalid("message magic %d is not the same as the first one's magic %d", m.magic, first.magic)
		} else if first.codec() != codec.None || m.codec() != codec.None {
			return nil, invalid("compressed outer record has more than one batch")
		}
		var ferr *Error
		if m.codec() == codec.None {
			ferr = add(&m)
		} else {
			ferr = unpackSet(&m, r.Scratch, limit, add)
		}
		if ferr != nil {
			return nil, ferr
		}
	}
	if u == nil || u.Len() == 0 {
		return nil, nil
	}
	return u.Bytes(), nil
}

// unpackSet calls add for each message of a compressed one.
func unpackSet(outer *message, sc *Scratch, limit int, add func(*message) *Error) *Error {
	if outer.value == nil {
		return invalid("found invalid compressed record set with null value (magic = %d)", outer.magic)
	}
	if sc == nil {
		sc = &Scratch{}
	}
	var src io.Reader
	var err error
	if outer.magic == 0 && outer.codec() == codec.LZ4 {
		src, err = sc.decoders.OpenLegacyLZ4(outer.value)
	} else {
		src, err = sc.decoders.Open(outer.codec(), outer.value)
	}
	if err != nil {
		return undecompressable(err)
	}
	buf := make([]byte, 0, windowSize)
	for n := 0; ; n++ {
		var ferr *Error
		if buf, ferr = more(buf[:0], src, LengthOverhead); ferr != nil {
			return ferr
		}
		if len(buf) == 0 {
			if n == 0 {
				return invalid("found invalid compressed record set without records")
			}
			return nil
		}
		size := int32(0)
		if len(buf) == LengthOverhead {
			size = int32(binary.BigEndian.Uint32(buf[atLength:]))
		}
		if size < minLength || int(size) > limit {
			return &Error{Kind: Corrupt, Message: fmt.Sprintf("record size %d in a compressed set is out of bounds", size)}
		}
		if buf, ferr = more(buf, src, int(size)); ferr != nil {
			return ferr
		}
		if len(buf) < LengthOverhead+int(size) {
			return invalid("compressed set ends within a message")
		}
		m, ferr := parseMessage(buf)
		if ferr != nil {
			return ferr
		}
		if m.magic != outer.magic {
			return invalid("inner message magic %d does not match the outer one's magic %d", m.magic, outer.magic)
		}
		if m.codec() != codec.None {
			return invalid("compressed outer record should not have an inner record with a compression attribute set")
		}
		if outer.magic == 1 && outer.flags&setAppendTime != 0 {
			m.timestamp = outer.timestamp
		}
		if ferr := add(&m); ferr != nil {
			return ferr
		}
	}
}

// more appends up to n bytes that come out of src, as they come.
func more(buf []byte, src io.Reader, n int) ([]byte, *Error) {
	end := len(buf) + n
	for idle := 0; len(buf) < end; {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		m, err := src.Read(buf[len(buf):min(cap(buf), end)])
		buf = buf[:len(buf)+m]
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return buf, nil
		case err != nil:
			return buf, undecompressable(err)
		case m == 0:
			if idle++; idle > 100 {
				return buf, undecompressable(io.ErrNoProgress)
			}
		}
	}
	return buf, nil
}

// Downgrade appends to dst the message set, of magic 0 or 1, that stands for the whole batches at the start of records: a
// batch that is cut off there is left out, and so are control batches and headers, which no such client knows. A
// compressed batch becomes a compressed message. zstd cannot be: the error is then of kind UnsupportedCompression, and
// dst holds what came before.
func Downgrade(dst, records []byte, magic int8, sc *Scratch) ([]byte, error) {
	if magic != 0 && magic != 1 {
		return dst, &MagicError{Magic: magic}
	}
	if sc == nil {
		sc = &Scratch{}
	}
	for len(records) >= HeaderSize {
		h, err := ParseHeader(records)
		if err != nil {
			return dst, err
		}
		if h.Size() > len(records) {
			break
		}
		b := records[:h.Size()]
		records = records[h.Size():]
		if h.Attributes.Control() || h.Count == 0 {
			continue
		}
		if dst, err = downgradeOne(dst, b, h, magic, sc); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func downgradeOne(dst, b []byte, h Header, magic int8, sc *Scratch) ([]byte, error) {
	kind := h.Attributes.Codec()
	if kind == codec.Zstd {
		return dst, &Error{Kind: UnsupportedCompression, Message: fmt.Sprintf("a zstd batch cannot be given to a client of magic %d", magic)}
	}
	flags := byte(0)
	if magic == 1 && h.Attributes.LogAppendTime() {
		flags = setAppendTime
	}
	start := len(dst)
	if kind == codec.None {
		for r, err := range Records(b, 0) {
			if err != nil {
				return dst[:start], err
			}
			dst = appendMessage(dst, &message{offset: r.Offset, magic: magic, flags: flags, timestamp: r.Timestamp, key: r.Key, value: r.Value})
		}
		return dst, nil
	}
	out := sink{b: make([]byte, 0, len(b))}
	enc, err := sc.encoders.Open(kind, 0, &out)
	if err != nil {
		return dst, err
	}
	outer := message{offset: NoOffset, magic: magic, flags: flags | byte(kind), timestamp: NoTimestamp}
	var inner []byte
	first := NoOffset
	for r, err := range Records(b, 0) {
		if err != nil {
			return dst[:start], err
		}
		if first == NoOffset {
			first = r.Offset
		}
		m := message{offset: r.Offset, magic: magic, flags: flags, timestamp: r.Timestamp, key: r.Key, value: r.Value}
		if magic == 1 {
			m.offset -= first
		}
		inner = appendMessage(inner[:0], &m)
		if _, err := enc.Write(inner); err != nil {
			return dst[:start], fmt.Errorf("compress message set: %w", err)
		}
		outer.offset, outer.timestamp = r.Offset, max(outer.timestamp, r.Timestamp)
	}
	if err := enc.Close(); err != nil {
		return dst[:start], fmt.Errorf("compress message set: %w", err)
	}
	outer.value = out.b
	if magic == 0 && kind == codec.LZ4 {
		codec.SpoilLZ4Header(outer.value)
	}
	return appendMessage(dst, &outer), nil
}
