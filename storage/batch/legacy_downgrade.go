package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"millrace/storage/codec"
)

// IsMessageSet says that records begin with a message of magic 0 or 1.
func IsMessageSet(records []byte) bool {
	return len(records) >= toMagic && (records[atMagic] == 0 || records[atMagic] == 1)
}

// StoresZstd says that every batch is stored with zstd, which no message set can be.
func (r *Rules) StoresZstd() bool { return r.Recompress && r.Codec == codec.Zstd }

// Downgrader makes message sets of stored batches, for clients of a Fetch version below 4.
type Downgrader struct {
	Magic int8   // 0 or 1
	From  Offset // plain records below it are left out; a packed message comes whole
	// Limit bounds what one compressed batch may become, and the length of one of its records: nothing else bounds what
	// it unpacks to. 0 is no limit.
	Limit   int
	Scratch *Scratch // nil makes it anew

	inner []byte // the message being packed
}

// ErrTooLargeToDowngrade says that a compressed batch would become more than the limit.
var ErrTooLargeToDowngrade = errors.New("a compressed batch is too large to be converted for an old client")

// Downgrade appends to dst the messages that stand for a whole batch: none for a control batch, and none of the records'
// headers, which no such client knows. Offsets stay as they are, gaps too. A compressed batch becomes a compressed
// message. zstd cannot be: the error is then of kind UnsupportedCompression. On an error dst is as it was.
func (d *Downgrader) Downgrade(dst, b []byte) ([]byte, error) {
	h, err := ParseHeader(b)
	switch {
	case err != nil:
		return dst, err
	case h.Size() > len(b):
		return dst, ErrShort
	case h.Attributes.Control() || h.Count <= 0:
		return dst, nil
	}
	if d.Scratch == nil {
		d.Scratch = &Scratch{}
	}
	start := len(dst)
	out, err := dst, error(nil)
	if h.Attributes.Codec() == codec.None {
		out, err = d.plain(dst, b[:h.Size()], h)
	} else {
		out, err = d.packed(dst, b[:h.Size()], h)
	}
	if err != nil {
		return dst[:start], fmt.Errorf("convert the batch at %d to magic %d: %w", h.BaseOffset, d.Magic, err)
	}
	return out, nil
}

// flags are those of the batch's messages, but for the codec.
func (d *Downgrader) flags(h Header) byte {
	if d.Magic == 1 && h.Attributes.LogAppendTime() {
		return setAppendTime
	}
	return 0
}

func (d *Downgrader) plain(dst, b []byte, h Header) ([]byte, error) {
	w := walk{h: h, buf: b[HeaderSize:]}
	flags := d.flags(h)
	for range h.Count {
		r, err := w.lend(0)
		if err != nil {
			return dst, err
		}
		if r.Offset >= d.From {
			dst = appendMessage(dst, &message{offset: r.Offset, magic: d.Magic, flags: flags, timestamp: r.Timestamp, key: r.Key, value: r.Value})
		}
	}
	return dst, w.end()
}

func (d *Downgrader) packed(dst, b []byte, h Header) ([]byte, error) {
	kind := h.Attributes.Codec()
	if kind == codec.Zstd {
		return dst, &Error{Kind: UnsupportedCompression, Message: "a zstd batch cannot be given to a client that knows message sets"}
	}
	w := walk{h: h}
	if err := w.open(b[HeaderSize:], d.Scratch); err != nil {
		return dst, err
	}
	// The message's own fields come first, and its value is packed in place.
	around := magic0Overhead
	if d.Magic == 1 {
		around = magic1Overhead
	}
	start := len(dst)
	out := sink{b: append(dst, make([]byte, around)...)}
	if d.Limit > 0 {
		out.max = start + around + d.Limit + HeaderSize // which a sink leaves room for
	}
	out.n = start + around
	enc, err := d.Scratch.encoders.Open(kind, 0, &out)
	if err != nil {
		return dst, fmt.Errorf("pack: %w", err)
	}
	outer := message{offset: NoOffset, magic: d.Magic, flags: d.flags(h) | byte(kind), timestamp: NoTimestamp}
	first := NoOffset
	for range h.Count {
		r, err := w.lend(d.Limit)
		if err != nil {
			return dst, err
		}
		if first == NoOffset {
			first = r.Offset
		}
		m := message{offset: r.Offset, magic: d.Magic, flags: d.flags(h), timestamp: r.Timestamp, key: r.Key, value: r.Value}
		if d.Magic == 1 {
			m.offset -= first
		}
		d.inner = appendMessage(d.inner[:0], &m)
		if _, err := enc.Write(d.inner); err != nil {
			return dst, fmt.Errorf("pack: %w", err)
		}
		if d.Limit > 0 && out.n-start > around+d.Limit {
			return dst, ErrTooLargeToDowngrade
		}
		outer.offset, outer.timestamp = r.Offset, max(outer.timestamp, r.Timestamp)
	}
	if cap(d.inner) > windowSize {
		d.inner = nil
	}
	if err := w.end(); err != nil {
		return dst, err
	}
	if err := enc.Close(); err != nil {
		return dst, fmt.Errorf("pack: %w", err)
	}
	if d.Limit > 0 && out.n-start > around+d.Limit {
		return dst, ErrTooLargeToDowngrade
	}
	value := out.b[start+around:]
	if d.Magic == 0 && kind == codec.LZ4 {
		codec.SpoilLZ4Header(value)
	}
	outer.value = value[:0]
	appendMessage(out.b[start:start:start+around], &outer)
	seal(out.b[start:])
	return out.b, nil
}

// seal gives an entry whose value was written behind its other fields the lengths and the checksum that go with it.
func seal(b []byte) {
	at := magic0Overhead
	if b[atMagic] == 1 {
		at = magic1Overhead
	}
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-LengthOverhead))
	binary.BigEndian.PutUint32(b[at-4:], uint32(len(b)-at))
	binary.BigEndian.PutUint32(b[atMessageCRC:], crc32.ChecksumIEEE(b[atMagic:]))
}

// lend reads the next record without its headers. Key and value are good until the next call. limit is the longest it
// may be where the batch is compressed; 0 is no limit.
func (w *walk) lend(limit int) (Record, error) {
	size, ferr := w.size()
	if ferr != nil {
		return Record{}, ferr
	}
	var body []byte
	switch {
	case w.src != nil && limit > 0 && size > limit:
		return Record{}, ErrTooLargeToDowngrade
	case w.src != nil && size > cap(w.buf):
		if body, ferr = w.collect(size); ferr != nil {
			return Record{}, ferr
		}
	default:
		if w.fill(size); len(w.buf)-w.at < size {
			return Record{}, w.short()
		}
		body = w.buf[w.at : w.at+size : w.at+size]
		w.at += size
	}
	var s seen
	if err := parse(body, &s); err != nil {
		return Record{}, err
	}
	r := Record{Timestamp: w.h.BaseTimestamp + s.timestampDelta, Offset: w.h.BaseOffset + Offset(s.offsetDelta)}
	if w.h.Attributes.LogAppendTime() {
		r.Timestamp = w.h.MaxTimestamp
	}
	// The form is known to be good: step to the key again without looking back.
	_, at := varlong(body, 1)
	_, at = varint(body, at)
	for _, f := range [2]*[]byte{&r.Key, &r.Value} {
		n, next := varint(body, at)
		if at = next; n >= 0 {
			*f = body[at : at+int(n) : at+int(n)]
			at += int(n)
		}
	}
	return r, nil
}
