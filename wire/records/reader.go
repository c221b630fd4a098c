package records

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Errors of the decoders; what they return wraps one of these with the record
// and the field at fault.
var (
	ErrShort    = errors.New("bytes end before the field does")
	ErrLength   = errors.New("length is impossible")
	ErrNull     = errors.New("null where none is allowed")
	ErrTrailing = errors.New("bytes follow the last field")
	ErrTag      = errors.New("tagged field does not fill its length")
	ErrVersion  = errors.New("version is unknown")
)

// UnknownIDError is a record id that the table does not hold.
type UnknownIDError struct{ ID int }

func (e *UnknownIDError) Error() string { return fmt.Sprintf("record id %d is unknown", e.ID) }

// reader walks over encoded bytes. The first error sticks, and every later read
// gives zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

// take gives the next n bytes, still part of the input.
func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail(ErrShort)
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) uint8() uint8 {
	if p := r.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if p := r.take(2); p != nil {
		return binary.BigEndian.Uint16(p)
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if p := r.take(4); p != nil {
		return binary.BigEndian.Uint32(p)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if p := r.take(8); p != nil {
		return binary.BigEndian.Uint64(p)
	}
	return 0
}

// uvarint reads Kafka's unsigned varint: 32 bits in at most five bytes.
func (r *reader) uvarint() uint32 {
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		c := r.uint8()
		if r.err != nil {
			return 0
		}
		if shift == 28 && c > 0x0f {
			break
		}
		v |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	r.fail(ErrLength)
	return 0
}

// length reads the length of a string (short), or of bytes or an array; -1 is
// null. Nothing is allocated for it: the bytes must be there first.
func (r *reader) length(short, flexible bool) int {
	var n int64
	switch {
	case flexible:
		n = int64(r.uvarint()) - 1
	case short:
		n = int64(int16(r.uint16()))
	default:
		n = int64(int32(r.uint32()))
	}
	if r.err != nil {
		return 0
	}
	if n < -1 || n > maxLength || short && n > MaxString {
		r.fail(ErrLength)
		return 0
	}
	return int(n)
}

const (
	// MaxString is the longest string, in bytes, that a record can hold. The
	// encoders panic on a longer one: the request that brought it had to be
	// refused.
	MaxString = 1<<15 - 1
	maxLength = 1<<31 - 1
)

// tags reads the tagged fields of a struct and hands each to known, which
// says whether it took it; what it does not take is skipped.
func (r *reader) tags(known func(tag uint32, field *reader) bool) {
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		tag := r.uvarint()
		size := r.uvarint()
		if r.err != nil {
			return
		}
		if int64(size) > int64(len(r.b)) {
			r.fail(ErrShort)
			return
		}
		field := reader{b: r.take(int(size))}
		if !known(tag, &field) {
			continue
		}
		if field.err != nil {
			r.fail(field.err)
		} else if len(field.b) > 0 {
			r.fail(ErrTag)
		}
	}
}

func appendUvarint(dst []byte, v uint32) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

func sizeUvarint(v uint32) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// appendLength is the inverse of reader.length.
func appendLength(dst []byte, n int, short, flexible bool) []byte {
	if n > maxLength || short && n > MaxString {
		panic(fmt.Sprintf("records: a length of %d bytes cannot be encoded (short %v)", n, short))
	}
	switch {
	case flexible:
		return appendUvarint(dst, uint32(n+1))
	case short:
		return binary.BigEndian.AppendUint16(dst, uint16(n))
	default:
		return binary.BigEndian.AppendUint32(dst, uint32(n))
	}
}
