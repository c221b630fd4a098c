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
	Headers    []RecordHeader
}

// RecordHeader is one header of a record. A nil Value is null.
type RecordHeader struct {
	Key   string
	Value []byte
}

// Records walks the records of a whole magic 2 batch; it does not look at the checksum. Keys, values and header values
// are slices of b where the batch is not compressed, and memory of their own where it is. limit bounds the length of one
// record, so that what a compressed batch may claim is not what it gets; 0 is no limit. The walk ends with the first
// error.
func Records(b []byte, limit int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		h, err := ParseHeader(b)
		if err != nil {
			yield(Record{}, err)
			return
		}
		if h.Size() > len(b) {
			yield(Record{}, ErrShort)
			return
		}
		w := walk{h: h, limit: limit}
		if err := w.open(b[HeaderSize:h.Size()], &Scratch{}); err != nil {
			yield(Record{}, err)
			return
		}
		for i := int32(0); i < h.Count; i++ {
			r, err := w.record()
			if err != nil {
				yield(Record{}, fmt.Errorf("record %d of the batch at %d: %w", i, h.BaseOffset, err))
				return
			}
			if !yield(r, nil) {
				return
			}
		}
		if err := w.end(); err != nil {
			yield(Record{}, fmt.Errorf("batch at %d: %w", h.BaseOffset, err))
		}
	}
}
