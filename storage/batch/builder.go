package batch

import (
	"encoding/binary"
	"fmt"

	"millrace/storage/codec"
)

// BuilderOptions are what a built batch carries. The zero value is an uncompressed batch at offset 0 of no producer.
type BuilderOptions struct {
	Base        Offset
	LeaderEpoch LeaderEpoch
	Codec       codec.Kind
	Level       int // 0 is the codec's default
	Timestamps  TimestampType

	// Producer says that ID, Epoch and Sequence are set; without it they are all "none".
	Producer      bool
	ProducerID    ProducerID
	ProducerEpoch ProducerEpoch
	BaseSequence  int32
	Transactional bool
	Control       bool

	Scratch *Scratch // reused compressors; nil makes them anew
}

// Builder makes one batch of records of the broker's own. It is not safe for concurrent use.
type Builder struct {
	o       BuilderOptions
	b       []byte // header room, then the records
	n       int32
	base    int64 // the first record's timestamp
	largest int64
	done    bool
}

// NewBuilder begins a batch.
func NewBuilder(o BuilderOptions) *Builder {
	return &Builder{o: o, b: make([]byte, HeaderSize, 512), largest: NoTimestamp}
}

// Add appends a record. A nil key or value is null.
func (u *Builder) Add(timestamp int64, key, value []byte, headers ...RecordHeader) {
	if u.done {
		panic("batch: Add after Bytes")
	}
	if u.n == 0 {
		u.base = timestamp
	}
	u.largest = max(u.largest, timestamp)
	delta := timestamp - u.base
	size := 1 + sizeVarlong(delta) + sizeVarint(u.n) + sizeBytes(key) + sizeBytes(value) + sizeVarint(int32(len(headers)))
	for _, h := range headers {
		size += sizeVarint(int32(len(h.Key))) + len(h.Key) + sizeBytes(h.Value)
	}
	b := appendVarint(u.b, int32(size))
	b = append(b, 0)
	b = appendVarlong(b, delta)
	b = appendVarint(b, u.n)
	b = appendBytes(b, key)
	b = appendBytes(b, value)
	b = appendVarint(b, int32(len(headers)))
	for _, h := range headers {
		b = appendVarint(b, int32(len(h.Key)))
		b = append(b, h.Key...)
		b = appendBytes(b, h.Value)
	}
	u.b = b
	u.n++
}

// Len is the number of records added.
func (u *Builder) Len() int { return int(u.n) }

// Size is the length of the batch as it would be without compression.
func (u *Builder) Size() int { return len(u.b) }

// Bytes ends the batch and returns it; it panics where no record was added, because a batch of none means something
// else on disk.
func (u *Builder) Bytes() []byte {
	if u.done {
		return u.b
	}
	if u.n == 0 {
		panic("batch: Bytes of a batch without records")
	}
	u.done = true
	if u.o.Codec != codec.None {
		u.compress()
	}
	h := Header{
		BaseOffset:      u.o.Base,
		Length:          int32(len(u.b) - LengthOverhead),
		LeaderEpoch:     u.o.LeaderEpoch,
		Magic:           Magic,
		Attributes:      Attributes(u.o.Codec),
		LastOffsetDelta: u.n - 1,
		BaseTimestamp:   u.base,
		MaxTimestamp:    u.largest,
		ProducerID:      NoProducerID,
		ProducerEpoch:   NoProducerEpoch,
		BaseSequence:    NoSequence,
		Count:           u.n,
	}
	if u.o.Timestamps == LogAppendTime {
		h.Attributes |= logAppendTimeBit
	}
	if u.o.Transactional {
		h.Attributes |= transactionalBit
	}
	if u.o.Control {
		h.Attributes |= controlBit
	}
	if u.o.Producer {
		h.ProducerID, h.ProducerEpoch, h.BaseSequence = u.o.ProducerID, u.o.ProducerEpoch, u.o.BaseSequence
	}
	h.put(u.b)
	setCRC(u.b)
	return u.b
}

func (u *Builder) compress() {
	sc := u.o.Scratch
	if sc == nil {
		sc = &Scratch{}
	}
	out := sink{b: make([]byte, HeaderSize, len(u.b))}
	enc, err := sc.encoders.Open(u.o.Codec, u.o.Level, &out)
	if err == nil {
		if _, err = enc.Write(u.b[HeaderSize:]); err == nil {
			err = enc.Close()
		}
	}
	if err != nil {
		// The sink does not fail and the codec is the broker's own choice.
		panic(fmt.Sprintf("batch: compress with %v: %v", u.o.Codec, err))
	}
	u.b = out.b
}

func appendVarint(b []byte, v int32) []byte {
	return binary.AppendUvarint(b, uint64(uint32(v)<<1^uint32(v>>31)))
}

func appendVarlong(b []byte, v int64) []byte {
	return binary.AppendUvarint(b, uint64(v)<<1^uint64(v>>63))
}

func appendBytes(b, p []byte) []byte {
	if p == nil {
		return appendVarint(b, -1)
	}
	return append(appendVarint(b, int32(len(p))), p...)
}

func sizeVarint(v int32) int { return sizeUvarint(uint64(uint32(v)<<1 ^ uint32(v>>31))) }

func sizeVarlong(v int64) int { return sizeUvarint(uint64(v)<<1 ^ uint64(v>>63)) }

func sizeUvarint(u uint64) int {
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

func sizeBytes(p []byte) int {
	if p == nil {
		return sizeVarint(-1)
	}
	return sizeVarint(int32(len(p))) + len(p)
}
