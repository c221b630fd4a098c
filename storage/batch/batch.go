// Package batch knows the record batch, magic 2: the unit in which Kafka's clients write, brokers replicate and
// segments store. It parses headers, checks what a producer sent, patches what only the leader knows, walks records
// and builds batches of the broker's own.
//
// It is pure: it sees bytes and returns values, knows no file, no clock and no topic. It never believes a length: what
// it allocates is bounded by the bytes it was given or by a limit the caller set.
//
// It promises that a batch Validate accepted can be read by every consumer: each record was walked, each length adds
// up, and offset deltas run from zero without a gap.
package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"millrace/storage/codec"
)

// Offset is the position of a record in its partition.
type Offset int64

// LeaderEpoch counts the leaderships of a partition; -1 is none.
type LeaderEpoch int32

// ProducerID names an idempotent or transactional producer; -1 is none.
type ProducerID int64

// ProducerEpoch counts the lives of a producer id; -1 is none.
type ProducerEpoch int16

// What stands for "none" in a batch.
const (
	NoOffset        Offset        = -1
	NoLeaderEpoch   LeaderEpoch   = -1
	NoProducerID    ProducerID    = -1
	NoProducerEpoch ProducerEpoch = -1
	NoSequence      int32         = -1
	NoTimestamp     int64         = -1
)

// HeaderSize is the length of a magic 2 batch before its records.
const HeaderSize = 61

// LengthOverhead is what Header.Length does not count: base offset and the length itself.
const LengthOverhead = 12

// Magic is the one format that is written.
const Magic = 2

// Where the header's fields lie.
const (
	atBaseOffset      = 0
	atLength          = 8
	atLeaderEpoch     = 12
	atMagic           = 16
	atCRC             = 17
	atAttributes      = 21
	atLastOffsetDelta = 23
	atBaseTimestamp   = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atProducerEpoch   = 51
	atBaseSequence    = 53
	atCount           = 57
)

// toMagic is the shortest prefix that shows the magic byte.
const toMagic = atMagic + 1

// minLength is the smallest length field any format allows: the overhead of a magic 0 message.
const minLength = 14

// Attributes are the batch's flags.
type Attributes int16

// The flags' bits.
const (
	codecMask        Attributes = 0x07
	logAppendTimeBit Attributes = 0x08
	transactionalBit Attributes = 0x10
	controlBit       Attributes = 0x20
	deleteHorizonBit Attributes = 0x40
	knownBits        Attributes = 0x7f
)

// Codec is the compression of the records; it may be a kind that does not exist.
func (a Attributes) Codec() codec.Kind { return codec.Kind(a & codecMask) }

// LogAppendTime says that the batch's timestamps are the leader's clock at the append.
func (a Attributes) LogAppendTime() bool { return a&logAppendTimeBit != 0 }

// Transactional says that the batch belongs to a transaction.
func (a Attributes) Transactional() bool { return a&transactionalBit != 0 }

// Control says that the batch holds a control record, which consumers skip.
func (a Attributes) Control() bool { return a&controlBit != 0 }

// DeleteHorizon says that BaseTimestamp is the time from which the cleaner may drop tombstones and markers.
func (a Attributes) DeleteHorizon() bool { return a&deleteHorizonBit != 0 }

// Header is the fixed part of a magic 2 batch.
type Header struct {
	BaseOffset      Offset
	Length          int32 // bytes after this field
	LeaderEpoch     LeaderEpoch
	Magic           int8
	CRC             uint32
	Attributes      Attributes
	LastOffsetDelta int32
	BaseTimestamp   int64
	MaxTimestamp    int64
	ProducerID      ProducerID
	ProducerEpoch   ProducerEpoch
	BaseSequence    int32
	Count           int32
}

// ErrShort says that the bytes end before the batch does.
var ErrShort = errors.New("record batch is cut short")

// MagicError says that the bytes are of a format other than magic 2.
type MagicError struct{ Magic int8 }

func (e *MagicError) Error() string {
	return fmt.Sprintf("record batch has magic %d, want %d", e.Magic, Magic)
}

// LengthError says that a batch's length field is too small to hold its header.
type LengthError struct{ Length int32 }

func (e *LengthError) Error() string {
	return fmt.Sprintf("record batch length %d is less than its header needs (%d)", e.Length, HeaderSize-LengthOverhead)
}

// CRCError says that a batch's bytes are not those its checksum was taken of.
type CRCError struct{ Stored, Computed uint32 }

func (e *CRCError) Error() string {
	return fmt.Sprintf("record batch is corrupt (stored crc = %d, computed crc = %d)", e.Stored, e.Computed)
}

// ParseHeader reads the header at the start of b, which needs no more than HeaderSize bytes. It checks magic and the
// lower bound of the length, nothing else.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < toMagic {
		return Header{}, ErrShort
	}
	if m := int8(b[atMagic]); m != Magic {
		return Header{}, &MagicError{Magic: m}
	}
	if n := int32(binary.BigEndian.Uint32(b[atLength:])); n < HeaderSize-LengthOverhead {
		return Header{}, &LengthError{Length: n}
	}
	if len(b) < HeaderSize {
		return Header{}, ErrShort
	}
	return header(b), nil
}

// header reads a header whose HeaderSize bytes are known to be there.
func header(b []byte) Header {
	_ = b[HeaderSize-1]
	return Header{
		BaseOffset:      Offset(binary.BigEndian.Uint64(b[atBaseOffset:])),
		Length:          int32(binary.BigEndian.Uint32(b[atLength:])),
		LeaderEpoch:     LeaderEpoch(binary.BigEndian.Uint32(b[atLeaderEpoch:])),
		Magic:           int8(b[atMagic]),
		CRC:             binary.BigEndian.Uint32(b[atCRC:]),
		Attributes:      Attributes(binary.BigEndian.Uint16(b[atAttributes:])),
		LastOffsetDelta: int32(binary.BigEndian.Uint32(b[atLastOffsetDelta:])),
		BaseTimestamp:   int64(binary.BigEndian.Uint64(b[atBaseTimestamp:])),
		MaxTimestamp:    int64(binary.BigEndian.Uint64(b[atMaxTimestamp:])),
		ProducerID:      ProducerID(binary.BigEndian.Uint64(b[atProducerID:])),
		ProducerEpoch:   ProducerEpoch(binary.BigEndian.Uint16(b[atProducerEpoch:])),
		BaseSequence:    int32(binary.BigEndian.Uint32(b[atBaseSequence:])),
		Count:           int32(binary.BigEndian.Uint32(b[atCount:])),
	}
}

// put writes the header over the first HeaderSize bytes of b.
func (h Header) put(b []byte) {
	_ = b[HeaderSize-1]
	binary.BigEndian.PutUint64(b[atBaseOffset:], uint64(h.BaseOffset))
	binary.BigEndian.PutUint32(b[atLength:], uint32(h.Length))
	binary.BigEndian.PutUint32(b[atLeaderEpoch:], uint32(h.LeaderEpoch))
	b[atMagic] = byte(h.Magic)
	binary.BigEndian.PutUint32(b[atCRC:], h.CRC)
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(h.Attributes))
	binary.BigEndian.PutUint32(b[atLastOffsetDelta:], uint32(h.LastOffsetDelta))
	binary.BigEndian.PutUint64(b[atBaseTimestamp:], uint64(h.BaseTimestamp))
	binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(h.MaxTimestamp))
	binary.BigEndian.PutUint64(b[atProducerID:], uint64(h.ProducerID))
	binary.BigEndian.PutUint16(b[atProducerEpoch:], uint16(h.ProducerEpoch))
	binary.BigEndian.PutUint32(b[atBaseSequence:], uint32(h.BaseSequence))
	binary.BigEndian.PutUint32(b[atCount:], uint32(h.Count))
}

// Size is the length of the whole batch in bytes. It is an int even where the field is at its largest.
func (h Header) Size() int { return LengthOverhead + int(h.Length) }

// LastOffset is the offset of the last record, which compaction keeps even when it drops the record.
func (h Header) LastOffset() Offset { return h.BaseOffset + Offset(h.LastOffsetDelta) }

// NextOffset is the offset after the batch.
func (h Header) NextOffset() Offset { return h.LastOffset() + 1 }

// HasProducer says that the batch comes from an idempotent producer.
func (h Header) HasProducer() bool { return h.ProducerID > NoProducerID }

// LastSequence is the sequence of the last record; NoSequence if the batch has none.
func (h Header) LastSequence() int32 {
	if h.BaseSequence == NoSequence {
		return NoSequence
	}
	return AddSequence(h.BaseSequence, h.LastOffsetDelta)
}

// AddSequence advances a sequence; after the largest int32 comes zero.
func AddSequence(sequence, n int32) int32 {
	if sequence > math.MaxInt32-n {
		return n - (math.MaxInt32 - sequence) - 1
	}
	return sequence + n
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CheckCRC compares the checksum of a whole batch with the one it stores. b is the batch and nothing after it.
func CheckCRC(b []byte) error {
	if len(b) < HeaderSize {
		return ErrShort
	}
	stored := binary.BigEndian.Uint32(b[atCRC:])
	if computed := crc32.Checksum(b[atAttributes:], castagnoli); computed != stored {
		return &CRCError{Stored: stored, Computed: computed}
	}
	return nil
}

// setCRC stores the checksum of the batch's bytes and returns it.
func setCRC(b []byte) uint32 {
	crc := crc32.Checksum(b[atAttributes:], castagnoli)
	binary.BigEndian.PutUint32(b[atCRC:], crc)
	return crc
}

// Patch sets, in place, the two fields that only the leader knows. They lie outside the checksum.
func Patch(b []byte, base Offset, epoch LeaderEpoch) {
	_ = b[HeaderSize-1]
	binary.BigEndian.PutUint64(b[atBaseOffset:], uint64(base))
	binary.BigEndian.PutUint32(b[atLeaderEpoch:], uint32(epoch))
}
