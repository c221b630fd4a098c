package batch

import (
	"encoding/binary"
	"fmt"

	"millrace/storage/codec"
)

// Shape finds the one batch in the records of a partition in a Produce request of the given version, and refuses what
// Kafka refuses before it looks at the topic: no batch or more than one, a magic other than 2, zstd in versions that did
// not have it. A batch that is cut short is no batch; bytes after the first that begin none are dropped.
//
// What is no batch at all where one should begin, or names an unknown codec in versions before 7, is refused with
// Error.Request set: there Kafka refuses every partition of the request.
//
// Produce versions below 3 carry older message sets: see ShapeOld and Upgrade.
func Shape(records []byte, version int16) (Header, []byte, error) {
	size, err := entry(records)
	if err != nil {
		err.Request = true
		return Header{}, nil, err
	}
	if size == 0 {
		return Header{}, nil, invalid("Produce requests with version %d must have at least one record batch per partition", version)
	}
	b, rest := records[:size:size], records[size:]
	if int8(b[atMagic]) != Magic {
		return Header{}, nil, &Error{Kind: UnsupportedMagic, Message: fmt.Sprintf("Produce requests with version %d are only allowed to contain record batches with magic version 2", version)}
	}
	h, bad := ParseHeader(b)
	if bad != nil {
		return Header{}, nil, &Error{Kind: Corrupt, Message: bad.Error()}
	}
	if k := h.Attributes.Codec(); version < 7 && !k.Valid() {
		err := undecompressable(&codec.UnknownKindError{Kind: k})
		err.Request = true
		return Header{}, nil, err
	}
	if version < 7 && h.Attributes.Codec() == codec.Zstd {
		return Header{}, nil, &Error{Kind: UnsupportedCompression, Message: fmt.Sprintf("Produce requests with version %d are not allowed to use ZStandard compression", version)}
	}
	more, err := entry(rest)
	if err != nil {
		return Header{}, nil, err
	}
	if more != 0 {
		return Header{}, nil, invalid("Produce requests with version %d are only allowed to contain exactly one record batch per partition", version)
	}
	return h, b, nil
}

// entry is the size of the batch or message at the start of b, 0 if there is no whole one.
func entry(b []byte) (int, *Error) {
	if len(b) < LengthOverhead {
		return 0, nil
	}
	n := int32(binary.BigEndian.Uint32(b[atLength:]))
	if n < minLength {
		return 0, &Error{Kind: Corrupt, Message: fmt.Sprintf("record size %d is less than the minimum record overhead (%d)", n, minLength)}
	}
	if len(b) < toMagic {
		return 0, nil
	}
	if m := int8(b[atMagic]); m < 0 || m > Magic {
		return 0, &Error{Kind: Corrupt, Message: fmt.Sprintf("invalid magic found in record: %d", m)}
	}
	if size := LengthOverhead + int(n); size <= len(b) {
		return size, nil
	}
	return 0, nil
}
