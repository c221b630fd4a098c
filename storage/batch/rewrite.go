package batch

import (
	"errors"
	"fmt"
	"math"

	"millrace/storage/codec"
)

// RewriteOptions say how Rewrite goes about it.
type RewriteOptions struct {
	// KeepEmpty keeps the batch's header although none of its records stays.
	KeepEmpty bool
	// Horizon is the delete horizon, in ms, that the batch gets where it has none and a tombstone stays in it, or where
	// ForceHorizon is set and a record stays (KIP-534).
	Horizon      int64
	ForceHorizon bool
	// Limit bounds the length of one record; 0 is no limit.
	Limit   int
	Scratch *Scratch // reused compressors and decompressors; nil makes them anew
}

// Rewritten is what Rewrite left of a batch.
type Rewritten struct {
	Header Header // as it was appended; Length is 0 where nothing was
	// Read and Kept are records.
	Read, Kept int
}

// Rewrite appends to dst what a cleaning leaves of the batch b: the batch itself if all of its records stay and it gets no
// delete horizon, else one with those for which keep says so, in their order and with their offsets, and nothing if none
// does, or the bare header. Base offset, last offset, sequence, leader epoch and compression are those of b. A key of nil
// is none.
//
// With a delete horizon the base timestamp is the horizon. The records are walked twice rather than held: a batch may
// unpack to much more than its length.
func Rewrite(dst, b []byte, o RewriteOptions, keep func(offset Offset, key []byte, hasValue bool) bool) ([]byte, Rewritten, error) {
	var out Rewritten
	h, err := ParseHeader(b)
	if err != nil {
		return dst, out, err
	}
	if h.Size() != len(b) {
		return dst, out, ErrShort
	}
	if o.Scratch == nil {
		o.Scratch = &Scratch{}
	}
	r := rewrite{h: h, b: b, o: o, first: NoTimestamp, largest: NoTimestamp}
	if err := r.decide(keep); err != nil {
		return dst, out, fmt.Errorf("batch at %d: %w", h.BaseOffset, err)
	}
	out.Read, out.Kept = len(r.stays), r.kept
	horizon := r.kept > 0 && (r.tombstone || o.ForceHorizon) && !h.Attributes.DeleteHorizon()
	switch {
	case r.kept == 0 && !o.KeepEmpty:
		return dst, out, nil
	case r.kept == 0:
		dst, out.Header = appendEmpty(dst, h)
		return dst, out, nil
	case r.kept == len(r.stays) && !horizon:
		out.Header = h
		return append(dst, b...), out, nil
	}
	dst, out.Header, err = r.write(dst, horizon)
	if err != nil {
		return dst, out, fmt.Errorf("batch at %d: %w", h.BaseOffset, err)
	}
	return dst, out, nil
}

// appendEmpty appends a batch of no records that takes the place of one.
func appendEmpty(dst []byte, h Header) ([]byte, Header) {
	at := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	h.Length, h.Count, h.BaseTimestamp = HeaderSize-LengthOverhead, 0, NoTimestamp
	h.Attributes &= logAppendTimeBit | transactionalBit | controlBit
	h.put(dst[at:])
	h.CRC = setCRC(dst[at:])
	return dst, h
}

// rewrite is one batch that is rewritten.
type rewrite struct {
	h     Header
	b     []byte
	o     RewriteOptions
	stays []bool // by record
	kept  int
	// tombstone: a record without value stays. first and largest are timestamps of those that stay.
	tombstone      bool
	first, largest int64
	body           []byte // of a record that came out of a decompressor
}

// each walks the records.
func (r *rewrite) each(f func(i int, body []byte, s *seen) error) error {
	w := walk{h: r.h, limit: r.o.Limit}
	if err := w.open(r.b[HeaderSize:], r.o.Scratch); err != nil {
		return err
	}
	var s seen
	for i := range int(r.h.Count) {
		body, err := w.raw(&r.body)
		if err == nil {
			if bad := parse(body, &s); bad != nil {
				err = bad
			}
		}
		if err == nil {
			err = f(i, body, &s)
		}
		if err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
	}
	return w.end()
}

// raw reads the next record's body, which is valid until the next call with the same buffer.
func (w *walk) raw(buf *[]byte) ([]byte, error) {
	size, bad := w.size()
	if bad != nil {
		return nil, bad
	}
	if w.src == nil {
		body := w.buf[w.at : w.at+size]
		w.at += size
		return body, nil
	}
	if size <= cap(w.buf) {
		if w.fill(size); len(w.buf)-w.at < size {
			return nil, w.short()
		}
		body := w.buf[w.at : w.at+size]
		w.at += size
		return body, nil
	}
	body := (*buf)[:0]
	for len(body) < size {
		w.fill(1)
		m := min(size-len(body), len(w.buf)-w.at)
		if m == 0 {
			return nil, w.short()
		}
		body = append(body, w.buf[w.at:w.at+m]...)
		w.at += m
	}
	*buf = body
	return body, nil
}

func (r *rewrite) timestamp(s *seen) int64 {
	if r.h.Attributes.LogAppendTime() {
		return r.h.MaxTimestamp
	}
	return r.h.BaseTimestamp + s.timestampDelta
}

// decide finds out which records stay.
func (r *rewrite) decide(keep func(Offset, []byte, bool) bool) error {
	return r.each(func(_ int, body []byte, s *seen) error {
		stays := keep(r.h.BaseOffset+Offset(s.offsetDelta), keyOf(body, s), s.valueLen >= 0)
		r.stays = append(r.stays, stays)
		if !stays {
			return nil
		}
		ts := r.timestamp(s)
		if r.kept == 0 {
			r.first = ts
		}
		r.largest = max(r.largest, ts)
		r.kept++
		r.tombstone = r.tombstone || s.valueLen < 0
		return nil
	})
}

// keyOf is a record's key; nil: it has none.
func keyOf(body []byte, s *seen) []byte {
	if s.keyLen < 0 {
		return nil
	}
	_, at := varint(body, behindOffset(body))
	return body[at : at+int(s.keyLen)]
}

// WalkKeys calls f with the offset and key of each record of the batch b; a nil key is none. The key is valid during the
// call. It ends early, without an error, where f says false. limit and sc are as in RewriteOptions.
func WalkKeys(b []byte, limit int, sc *Scratch, f func(offset Offset, key []byte) bool) error {
	h, err := ParseHeader(b)
	if err != nil {
		return err
	}
	if h.Size() != len(b) {
		return ErrShort
	}
	r := rewrite{h: h, b: b, o: RewriteOptions{Limit: limit, Scratch: sc}}
	err = r.each(func(_ int, body []byte, s *seen) error {
		if !f(h.BaseOffset+Offset(s.offsetDelta), keyOf(body, s)) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("batch at %d: %w", h.BaseOffset, err)
	}
	return nil
}

var errEnough = errors.New("batch: enough")

// behindOffset is where a record's key length begins; its form is known to be good.
func behindOffset(body []byte) int {
	_, at := varlong(body, 1)
	_, at = varint(body, at)
	return at
}

// write appends a batch of the records that stay. What lies behind a record's offset is taken as it is.
func (r *rewrite) write(dst []byte, horizon bool) ([]byte, Header, error) {
	h := r.h
	switch {
	case horizon:
		h.Attributes |= deleteHorizonBit
		h.BaseTimestamp = r.o.Horizon
	case !h.Attributes.DeleteHorizon():
		h.BaseTimestamp = r.first
	}
	if !h.Attributes.LogAppendTime() {
		h.MaxTimestamp = r.largest
	}
	h.Attributes &= knownBits
	h.Count = int32(r.kept)
	at := len(dst)
	out := sink{b: append(dst, make([]byte, HeaderSize)...)}
	packed, err := r.o.Scratch.encoders.Open(h.Attributes.Codec(), codec.DefaultLevel, &out)
	if err != nil {
		return dst, Header{}, err
	}
	var head []byte
	err = r.each(func(i int, body []byte, s *seen) error {
		if i >= len(r.stays) || !r.stays[i] {
			return nil
		}
		rest := body[behindOffset(body):]
		delta := r.timestamp(s) - h.BaseTimestamp
		head = appendVarint(head[:0], int32(1+sizeVarlong(delta)+sizeVarint(s.offsetDelta)+len(rest)))
		head = append(head, body[0])
		head = appendVarlong(head, delta)
		head = appendVarint(head, s.offsetDelta)
		if _, err := packed.Write(head); err != nil {
			return err
		}
		_, err := packed.Write(rest)
		return err
	})
	if err == nil {
		err = packed.Close()
	}
	if err != nil {
		return dst, Header{}, err
	}
	if out.n > math.MaxInt32-HeaderSize {
		return dst, Header{}, fmt.Errorf("%d bytes of rewritten records are more than a batch can hold", out.n)
	}
	h.Length = int32(len(out.b) - at - LengthOverhead)
	h.put(out.b[at:])
	h.CRC = setCRC(out.b[at:])
	return out.b, h, nil
}
