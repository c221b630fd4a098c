package batch

import (
	"errors"
	"fmt"
	"io"
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
	// Most is what a compressed batch may grow to; 0 is four times its length, or 64 MiB where that is more.
	Most    int
	Scratch *Scratch // reused compressors and decompressors; nil makes them anew
}

// Rewritten is what Rewrite left of a batch.
type Rewritten struct {
	Header Header // as it was appended; Length is 0 where nothing was
	// Read and Kept are records.
	Read, Kept int
	// Overgrown says that the batch would have grown to more than it may, and was left whole.
	Overgrown bool
}

// Rewrite appends to dst what a cleaning leaves of the batch b: the batch itself if all of its records stay and it gets no
// delete horizon, else one with those for which keep says so, in their order and with their offsets, and nothing if none
// does, or the bare header. Base offset, last offset, sequence, leader epoch and compression are those of b.
//
// With a delete horizon the base timestamp is the horizon. Records go from decompressor to compressor, and are walked twice
// rather than held: a batch may unpack to much more than its length. What a compressor makes of them is held, and may be
// much more too where another one packed them before.
func Rewrite(dst, b []byte, o RewriteOptions, keep func(offset Offset, key Key, hasValue bool) bool) ([]byte, Rewritten, error) {
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
	if o.Most == 0 {
		o.Most = max(4*len(b), 64<<20)
	}
	r := rewrite{h: h, b: b, o: o, first: NoTimestamp, largest: NoTimestamp}
	if err := r.decide(keep); err != nil {
		return dst, out, fmt.Errorf("batch at %d: %w", h.BaseOffset, err)
	}
	out.Read, out.Kept = r.read, r.kept
	horizon := r.kept > 0 && (r.tombstone || o.ForceHorizon) && !h.Attributes.DeleteHorizon()
	switch {
	case r.kept == 0 && !o.KeepEmpty:
		return dst, out, nil
	case r.kept == 0:
		dst, out.Header = appendEmpty(dst, h)
		return dst, out, nil
	case r.kept == r.read && !horizon:
		out.Header = h
		return append(dst, b...), out, nil
	}
	dst, out.Header, err = r.write(dst, horizon)
	if errors.Is(err, errOvergrown) {
		out.Header, out.Kept, out.Overgrown = h, out.Read, true
		return append(dst, b...), out, nil
	}
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
	h          Header
	b          []byte
	o          RewriteOptions
	stays      []uint64 // a bit for each record
	read, kept int
	// tombstone: a record without value stays. first and largest are timestamps of those that stay.
	tombstone      bool
	first, largest int64
}

// decide finds out which records stay.
func (r *rewrite) decide(keep func(Offset, Key, bool) bool) error {
	w := walk{h: r.h}
	if err := w.openKeyed(r.b[HeaderSize:], r.o.Scratch); err != nil {
		return err
	}
	var s seen
	var k Key
	for i := range int(r.h.Count) {
		if err := w.keyed(&s, &k); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		if i%64 == 0 {
			r.stays = append(r.stays, 0)
		}
		r.read++
		if !keep(r.h.BaseOffset+Offset(s.offsetDelta), k, s.valueLen >= 0) {
			continue
		}
		r.stays[i/64] |= 1 << (i % 64)
		ts := w.timestamp(&s)
		if r.kept == 0 {
			r.first = ts
		}
		r.largest = max(r.largest, ts)
		r.kept++
		r.tombstone = r.tombstone || s.valueLen < 0
	}
	return w.end()
}

// errOvergrown says that a batch grows to more than it may.
var errOvergrown = errors.New("a rewritten batch is longer than it may become")

// write appends a batch of the records that stay, written as Kafka writes them. On an error dst is as it was.
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
	if h.Attributes.Codec() != codec.None {
		out.max = min(r.o.Most, math.MaxInt32)
	}
	packed, err := r.o.Scratch.encoders.Open(h.Attributes.Codec(), codec.DefaultLevel, &out)
	if err != nil {
		return dst, Header{}, err
	}
	if err := r.copy(packed, &out, h.BaseTimestamp); err != nil {
		return dst, Header{}, err
	}
	if err := packed.Close(); err != nil {
		return dst, Header{}, err
	}
	if out.over() {
		return dst, Header{}, errOvergrown
	}
	h.Length = int32(len(out.b) - at - LengthOverhead)
	h.put(out.b[at:])
	h.CRC = setCRC(out.b[at:])
	return out.b, h, nil
}

// copy writes the records that stay, with timestamps told from base.
func (r *rewrite) copy(packed io.Writer, out *sink, base int64) error {
	w := walk{h: r.h, sparse: true, base: base, prefix: make([]byte, 0, 24)}
	if err := w.open(r.b[HeaderSize:], r.o.Scratch); err != nil {
		return err
	}
	var s seen
	for i := range int(r.h.Count) {
		w.out = nil
		if r.stays[i/64]>>(i%64)&1 != 0 {
			w.out = packed
		}
		switch err := w.next(&s); {
		case err != nil && err.Kind == TooLarge, out.over():
			return errOvergrown
		case err != nil:
			return fmt.Errorf("record %d: %w", i, err)
		}
	}
	return w.end()
}
