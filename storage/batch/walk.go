package batch

import (
	"errors"
	"fmt"
	"hash"
	"io"
	"math"

	"millrace/storage/codec"
)

// windowSize is how much of a decompressed stream is held at a time. A record that fits is parsed where it lies; a
// larger one is parsed field by field as it passes.
const windowSize = 32 << 10

// Scratch is what walks of compressed batches reuse: decompressors, compressors and a window. The zero value is ready.
// It serves one call at a time; a caller that bounds how many there are bounds the memory of decompression too.
type Scratch struct {
	decoders codec.Decoders
	encoders codec.Encoders
	window   []byte
	digest   hash.Hash // of keys that are longer than the window
}

// walk goes through the records of one batch, in memory or as they come out of a decompressor.
type walk struct {
	h     Header
	limit int // the longest record a compressed batch may hold; 0 is no limit
	// skips says that Kafka would skip over keys and values here, which shows in one of its messages.
	skips bool

	buf    []byte // what is at hand and not yet walked is buf[at:]
	at     int
	src    io.Reader // where more comes from; nil where buf is all there is
	srcErr error     // why no more comes

	out    io.Writer // gets every record, written anew; nil is nobody
	prefix []byte    // room for the fields that change
	fields []byte    // and for those behind them
	begun  int32     // records written, the first
	base   int64     // with this timestamp, from which the others are told
	sparse bool      // base is given, and records keep their offsets
	copies bool      // what passes goes to out

	digest  hash.Hash // of the keys that pass; nil: nobody asks
	digests bool      // what passes is a key
	sum     [32]byte  // room for it

	left  int    // while a record larger than the window passes: its bytes not yet read,
	fault *Error // and what was wrong with it; kept here so that the walk need not escape to the heap
}

// seen is what the checks need of a record.
type seen struct {
	timestampDelta   int64
	offsetDelta      int32
	keyLen, valueLen int32 // negative is null
}

// open begins a walk over a batch's records. Without a scratch it makes one where it needs it.
func (w *walk) open(records []byte, sc *Scratch) error {
	kind := w.h.Attributes.Codec()
	if kind == codec.None {
		w.buf = records
		return nil
	}
	if sc == nil {
		sc = &Scratch{}
	}
	src, err := sc.decoders.Open(kind, records)
	if err != nil {
		return undecompressable(err)
	}
	if sc.window == nil {
		sc.window = make([]byte, windowSize)
	}
	w.src, w.buf = src, sc.window[:0]
	return nil
}

func undecompressable(err error) *Error {
	return &Error{Kind: Undecompressable, Message: "failed to decompress record stream: " + err.Error()}
}

func invalid(format string, args ...any) *Error {
	return &Error{Kind: InvalidRecord, Message: fmt.Sprintf(format, args...)}
}

// fill brings n bytes, at most a window, to hand; fewer if the stream ends first.
func (w *walk) fill(n int) {
	if w.src == nil || len(w.buf)-w.at >= n {
		return
	}
	whole := w.buf[:cap(w.buf)]
	have := copy(whole, w.buf[w.at:])
	w.at = 0
	for idle := 0; have < n && w.srcErr == nil; {
		m, err := w.src.Read(whole[have:])
		have += m
		if m == 0 && err == nil {
			if idle++; idle > 100 {
				err = io.ErrNoProgress
			}
		}
		w.srcErr = err
	}
	w.buf = whole[:have]
}

// short says why there are fewer bytes than a record needs.
func (w *walk) short() *Error {
	if w.srcErr == nil || errors.Is(w.srcErr, io.EOF) {
		return invalid("incorrect declared batch size, premature EOF reached")
	}
	return undecompressable(w.srcErr)
}

// size reads a record's length.
func (w *walk) size() (int, *Error) {
	w.fill(5)
	v, next := varint(w.buf, w.at)
	if next <= 0 {
		if next == 0 {
			return 0, w.short()
		}
		if w.src == nil {
			// Kafka's reader fails outside its own checks here, and only here.
			return 0, &Error{Kind: Undecompressable, Message: "record length: " + errVarint}
		}
		return 0, invalid("record length: %s", errVarint)
	}
	w.at = next
	if v < 0 {
		return 0, invalid("record length %d", v)
	}
	size := int(v)
	if w.src == nil {
		if left := len(w.buf) - w.at; left < size {
			return 0, invalid("invalid record size: expected %d bytes in record payload, but the buffer has only %d bytes remaining", size, left)
		}
	} else if w.limit > 0 && size > w.limit {
		return 0, invalid("record of %d bytes exceeds the limit of %d bytes for a decompressed record", size, w.limit)
	}
	return size, nil
}

// next checks the form of the next record and steps over it.
func (w *walk) next(s *seen) *Error {
	size, err := w.size()
	if err != nil {
		return err
	}
	if w.src != nil {
		if size > cap(w.buf) {
			err := w.pass(size, s)
			w.copies = false
			return err
		}
		if w.fill(size); len(w.buf)-w.at < size {
			return w.short()
		}
	}
	body := w.buf[w.at : w.at+size]
	w.at += size
	if err := parse(body, s); err != nil || w.out == nil {
		return err
	}
	_, at := varlong(body, 1)
	_, at = varint(body, at)
	w.fields = appendFields(w.fields[:0], body[at:])
	if err := w.begin(s, len(w.fields)); err != nil {
		return err
	}
	return w.write(w.fields)
}

// appendFields appends the key, value and headers of a record of a good form as Kafka writes them: each length in as few
// bytes as it takes, and -1 for null, where a reader takes any negative one. A record larger than the window keeps what it
// came with.
func appendFields(dst, b []byte) []byte {
	at := 0
	bytes := func() {
		n, next := varint(b, at)
		end := next + max(int(n), 0)
		dst, at = append(appendVarint(dst, max(n, -1)), b[next:end]...), end
	}
	bytes()
	bytes()
	headers, next := varint(b, at)
	dst, at = appendVarint(dst, headers), next
	for range headers {
		bytes()
		bytes()
	}
	return dst
}

// begin writes a record's fields up to its offset, as Kafka does where it writes records anew: no attributes, timestamps
// told from the first one's, and offsets without gaps, whatever they came with, or where a log is cleaned those they have.
// rest is what follows.
func (w *walk) begin(s *seen, rest int) *Error {
	ts, offset := w.timestamp(s), w.begun
	if w.sparse {
		offset = s.offsetDelta
	} else if w.begun == 0 {
		w.base = ts
	}
	size := 1 + sizeVarlong(ts-w.base) + sizeVarint(offset) + rest
	if size > math.MaxInt32 {
		return &Error{Kind: TooLarge, Message: "a record that is longer than one can be"}
	}
	w.prefix = appendVarint(w.prefix[:0], int32(size))
	w.prefix = append(w.prefix, 0)
	w.prefix = appendVarlong(w.prefix, ts-w.base)
	w.prefix = appendVarint(w.prefix, offset)
	w.begun++
	return w.write(w.prefix)
}

// timestamp is that of a record.
func (w *walk) timestamp(s *seen) int64 {
	if w.h.Attributes.LogAppendTime() {
		return w.h.MaxTimestamp
	}
	return w.h.BaseTimestamp + s.timestampDelta
}

func (w *walk) write(p []byte) *Error {
	if _, err := w.out.Write(p); err != nil {
		return undecompressable(err)
	}
	return nil
}

// passed gives to out, and to the digest, what is stepped over.
func (w *walk) passed(n int) {
	if w.digests {
		w.digest.Write(w.buf[w.at : w.at+n])
	}
	if w.copies {
		if err := w.write(w.buf[w.at : w.at+n]); err != nil && w.fault == nil {
			w.fault = err
		}
	}
	w.at += n
}

// end checks that nothing follows the last record.
func (w *walk) end() error {
	if err := w.trailing(); err != nil {
		return err
	}
	return nil
}

func (w *walk) trailing() *Error {
	w.fill(1)
	if len(w.buf) > w.at {
		return invalid("incorrect declared batch size, records still remaining in file")
	}
	if w.srcErr != nil && w.srcErr != io.EOF {
		return undecompressable(w.srcErr)
	}
	return nil
}

const (
	errStructure = "found invalid record structure"
	errVarint    = "varint is too long"
)

// parse checks the form of a record's body, which it must fill to the last byte.
func parse(b []byte, s *seen) *Error {
	if len(b) == 0 {
		return invalid("%s: empty", errStructure)
	}
	ts, at := varlong(b, 1) // behind the attributes
	if at <= 0 {
		return invalid("%s: timestamp", errStructure)
	}
	od, at := varint(b, at)
	if at <= 0 {
		return invalid("%s: offset", errStructure)
	}
	kl, at := varint(b, at)
	if at <= 0 {
		return invalid("%s: key length", errStructure)
	}
	if kl > 0 {
		if int(kl) > len(b)-at {
			return invalid("%s: key of %d bytes with %d remaining", errStructure, kl, len(b)-at)
		}
		at += int(kl)
	}
	vl, at := varint(b, at)
	if at <= 0 {
		return invalid("%s: value length", errStructure)
	}
	if vl > 0 {
		if int(vl) > len(b)-at {
			return invalid("%s: value of %d bytes with %d remaining", errStructure, vl, len(b)-at)
		}
		at += int(vl)
	}
	headers, at := varint(b, at)
	if at <= 0 {
		return invalid("%s: header count", errStructure)
	}
	if headers != 0 {
		if headers < 0 {
			return invalid("found invalid number of record headers %d", headers)
		}
		if int(headers) > len(b)-at {
			return invalid("found invalid number of record headers: %d is larger than the remaining size of the buffer", headers)
		}
		for range headers {
			var n int32
			if n, at = varint(b, at); at <= 0 || n < 0 || int(n) > len(b)-at {
				return invalid("%s: header key", errStructure)
			}
			at += int(n)
			if n, at = varint(b, at); at <= 0 || int(n) > len(b)-at {
				return invalid("%s: header value", errStructure)
			}
			at += max(0, int(n))
		}
	}
	if at != len(b) {
		return invalid("invalid record size: expected to read %d bytes in record payload, but instead read %d", len(b), at)
	}
	s.timestampDelta, s.offsetDelta, s.keyLen, s.valueLen = ts, od, kl, vl
	return nil
}

// pass is parse for a record larger than the window.
func (w *walk) pass(size int, s *seen) *Error {
	w.left, w.fault = size, nil
	w.skip(1) // attributes
	s.timestampDelta = w.passVarlong()
	s.offsetDelta = w.passVarint()
	if w.out != nil && w.fault == nil {
		if err := w.begin(s, w.left); err != nil {
			return err
		}
		w.copies = true
	}
	s.keyLen = w.passVarint()
	w.digests = w.digest != nil
	w.skip(max(0, int(s.keyLen)))
	w.digests = false
	s.valueLen = w.passVarint()
	w.skip(max(0, int(s.valueLen)))
	headers := w.passVarint()
	switch {
	case w.fault != nil:
		return w.fault
	case headers < 0:
		return invalid("found invalid number of record headers %d", headers)
	case int(headers) > w.left:
		return invalid("found invalid number of record headers: %d is larger than the remaining size of the record", headers)
	}
	for i := int32(0); i < headers && w.fault == nil; i++ {
		hk := w.passVarint()
		if w.fault == nil && hk < 0 {
			return invalid("%s: header key", errStructure)
		}
		w.skip(int(hk))
		w.skip(max(0, int(w.passVarint())))
	}
	if w.fault != nil {
		return w.fault
	}
	if w.left != 0 {
		return invalid("invalid record size: expected to read %d bytes in record payload, but instead read %d", size, size-w.left)
	}
	return nil
}

// The methods below read the fields of a record as it passes through the window; the first fault sticks.

func (w *walk) skip(n int) {
	if w.fault != nil {
		return
	}
	if n > w.left {
		w.fault = invalid("%s: field of %d bytes with %d remaining", errStructure, n, w.left)
		return
	}
	w.left -= n
	for n > 0 {
		w.fill(1)
		m := min(n, len(w.buf)-w.at)
		if m == 0 {
			w.fault = w.short()
			return
		}
		w.passed(m)
		n -= m
	}
}

// peek are the next n bytes of the record, fewer where it ends.
func (w *walk) peek(n int) []byte {
	n = min(n, w.left)
	w.fill(n)
	b := w.buf[w.at:]
	return b[:min(n, len(b))]
}

func (w *walk) passVarint() int32 {
	if w.fault != nil {
		return 0
	}
	b := w.peek(5)
	v, n := varint(b, 0)
	w.took(n, len(b), 5)
	return v
}

func (w *walk) passVarlong() int64 {
	if w.fault != nil {
		return 0
	}
	b := w.peek(10)
	v, n := varlong(b, 0)
	w.took(n, len(b), 10)
	return v
}

func (w *walk) took(n, had, want int) {
	switch {
	case n > 0:
		w.passed(n)
		w.left -= n
	case n == 0 && had < want && had < w.left:
		w.fault = w.short()
	default:
		w.fault = invalid("%s", errStructure)
	}
}

// varint reads a zig-zag varint of at most five bytes at b[at:]. next is where it ends, 0 where b ends too early and -1
// where the fifth byte has its top bit set. Bits beyond the thirty-second are dropped, as Kafka does.
//
// Most lengths and deltas take one byte; the walk of a batch spends its time here.
func varint(b []byte, at int) (v int32, next int) {
	if uint(at) < uint(len(b)) && b[at] < 0x80 {
		return int32(b[at]>>1) ^ -int32(b[at]&1), at + 1
	}
	return longVarint(b, at)
}

func longVarint(b []byte, at int) (v int32, next int) {
	var u uint32
	for i := range 5 {
		if at+i >= len(b) {
			return 0, 0
		}
		c := b[at+i]
		u |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), at + i + 1
		}
	}
	return 0, -1
}

// varlong is varint for 64 bits and ten bytes.
func varlong(b []byte, at int) (v int64, next int) {
	if uint(at) < uint(len(b)) && b[at] < 0x80 {
		return int64(b[at]>>1) ^ -int64(b[at]&1), at + 1
	}
	return longVarlong(b, at)
}

func longVarlong(b []byte, at int) (v int64, next int) {
	var u uint64
	for i := range 10 {
		if at+i >= len(b) {
			return 0, 0
		}
		c := b[at+i]
		u |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), at + i + 1
		}
	}
	return 0, -1
}

// record reads the next record whole, or where the batch is compressed and it is longer than the limit only its time and
// offset, with a *LongError.
func (w *walk) record(limit int) (Record, error) {
	size, ferr := w.size()
	if ferr != nil {
		return Record{}, ferr
	}
	var s seen
	var body []byte
	switch {
	case w.src == nil: // size has seen that it is there
		body = w.buf[w.at : w.at+size : w.at+size]
		w.at += size
	case limit > 0 && size > limit:
		if err := w.pass(size, &s); err != nil {
			return Record{}, err
		}
		return Record{Timestamp: w.timestamp(&s), Offset: w.h.BaseOffset + Offset(s.offsetDelta)}, &LongError{Length: size, Limit: limit}
	default:
		var err *Error
		if body, err = w.collect(size); err != nil {
			return Record{}, err
		}
	}
	if err := parse(body, &s); err != nil {
		return Record{}, err
	}
	r := Record{Attributes: int8(body[0]), Timestamp: w.timestamp(&s), Offset: w.h.BaseOffset + Offset(s.offsetDelta)}
	// The form is known to be good: read the fields again without looking back.
	at := behindOffset(body)
	r.Key, at = field(body, at)
	r.Value, at = field(body, at)
	r.Headers.n, at = varint(body, at)
	r.Headers.b = body[at:]
	return r, nil
}

// field is the one whose length stands at b[at:], nil where that is negative, and where it ends; its form is known to be good.
func field(b []byte, at int) ([]byte, int) {
	n, at := varint(b, at)
	if n < 0 {
		return nil, at
	}
	end := at + int(n)
	return b[at:end:end], end
}

// collect gives the next n bytes of a stream memory of their own. The number is only a claim until they are there.
func (w *walk) collect(n int) ([]byte, *Error) {
	b := make([]byte, 0, min(n, windowSize))
	for len(b) < n {
		w.fill(1)
		m := min(n-len(b), len(w.buf)-w.at)
		if m == 0 {
			return nil, w.short()
		}
		if len(b)+m > cap(b) {
			b = append(make([]byte, 0, min(n, 2*cap(b)+m)), b...)
		}
		b = append(b, w.buf[w.at:w.at+m]...)
		w.at += m
	}
	return b, nil
}
