package batch

import (
	"fmt"
	"iter"
)

// Record is one record of a batch. A nil Key or Value is Kafka's null.
type Record struct {
	Attributes int8
	Timestamp  int64
	Offset     Offset
	Key, Value []byte
	Headers    Headers
}

// RecordHeader is one header of a record. A nil Value is null.
type RecordHeader struct {
	Key   string
	Value []byte
}

// Headers are the headers of a record as they came: each of two bytes would take forty if all were held.
type Headers struct {
	b []byte // of a good form
	n int32
}

// Len is how many there are.
func (x Headers) Len() int { return int(x.n) }

// All lists them. Their values are slices of the record.
func (x Headers) All() iter.Seq[RecordHeader] {
	return func(yield func(RecordHeader) bool) {
		var key, value []byte
		for i, at := int32(0), 0; i < x.n; i++ {
			key, at = field(x.b, at)
			value, at = field(x.b, at)
			if !yield(RecordHeader{Key: string(key), Value: value}) {
				return
			}
		}
	}
}

// LongError says that a record of a compressed batch is longer than the limit.
type LongError struct{ Length, Limit int }

func (e *LongError) Error() string {
	return fmt.Sprintf("record of %d bytes exceeds the limit of %d bytes for a decompressed record", e.Length, e.Limit)
}

// Records walks the records of a whole magic 2 batch; it does not look at the checksum. Keys, values and header values
// are slices of b where the batch is not compressed, and memory of their own where it is. limit bounds the length of one
// record, so that what a compressed batch may claim is not what it gets; 0 is no limit. A longer one has a *LongError and
// nothing but its timestamp and offset, and who goes on gets the next one; any other error is the last of the walk.
func Records(b []byte, limit int) iter.Seq2[Record, error] { return RecordsWith(b, limit, nil) }

// RecordsWith is Records with decompressors that are there already. A batch that is not compressed needs none.
func RecordsWith(b []byte, limit int, sc *Scratch) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		walkAll(b, sc, func(w *walk) (Record, error) { return w.record(limit) }, yield)
	}
}

// Stamp is where and when a record is.
type Stamp struct {
	Offset    Offset
	Timestamp int64
}

// Stamps is Records for who asks for nothing else: it takes no more memory than a window, whatever the records come to. sc
// may be nil.
func Stamps(b []byte, sc *Scratch) iter.Seq2[Stamp, error] {
	return func(yield func(Stamp, error) bool) {
		var s seen
		walkAll(b, sc, func(w *walk) (Stamp, error) {
			if err := w.next(&s); err != nil {
				return Stamp{}, err
			}
			return Stamp{Offset: w.h.BaseOffset + Offset(s.offsetDelta), Timestamp: w.timestamp(&s)}, nil
		}, yield)
	}
}

// walkAll gives what next makes of each record of a batch to yield.
func walkAll[R any](b []byte, sc *Scratch, next func(*walk) (R, error), yield func(R, error) bool) {
	var none R
	h, err := ParseHeader(b)
	if err != nil {
		yield(none, err)
		return
	}
	if h.Size() > len(b) {
		yield(none, ErrShort)
		return
	}
	w := walk{h: h}
	if err := w.open(b[HeaderSize:h.Size()], sc); err != nil {
		yield(none, err)
		return
	}
	for i := int32(0); i < h.Count; i++ {
		r, err := next(&w)
		if err != nil {
			_, stepped := err.(*LongError)
			if !yield(r, fmt.Errorf("record %d of the batch at %d: %w", i, h.BaseOffset, err)) || !stepped {
				return
			}
			continue
		}
		if !yield(r, nil) {
			return
		}
	}
	if err := w.end(); err != nil {
		yield(none, fmt.Errorf("batch at %d: %w", h.BaseOffset, err))
	}
}
