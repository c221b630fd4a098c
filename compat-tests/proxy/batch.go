package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Record batch v2: the places of the header's fields.
const (
	atLength     = 8
	atMagic      = 16
	atCRC        = 17
	atAttributes = 21
	atCount      = 57
	headerSize   = 61
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is one record of a batch. Body is everything after the offset delta: key, value, headers.
type record struct {
	attributes     byte
	timestampDelta int64
	offsetDelta    int64
	key, value     []byte // nil for null
	headers        []byte // count and headers as they stand
}

// batch is one uncompressed batch, taken apart.
type batch struct {
	header  []byte // the first 61 bytes
	records []record
}

var errCut = errors.New("the batch is cut off")

// splitBatch splits the first whole batch off; errCut if only part of one is there.
func splitBatch(b []byte) (one, rest []byte, err error) {
	if len(b) < headerSize {
		return nil, nil, errCut
	}
	size := int64(int32(binary.BigEndian.Uint32(b[atLength:]))) + 12
	if size < headerSize {
		return nil, nil, fmt.Errorf("batch of %d bytes", size)
	}
	if int64(len(b)) < size {
		return nil, nil, errCut
	}
	if b[atMagic] != 2 {
		return nil, nil, fmt.Errorf("magic %d", b[atMagic])
	}
	return b[:size], b[size:], nil
}

func baseOffset(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }

// parseBatch takes a whole batch apart. A compressed or a control batch cannot be.
func parseBatch(b []byte) (*batch, error) {
	if attributes := binary.BigEndian.Uint16(b[atAttributes:]); attributes&(7|1<<5) != 0 {
		return nil, fmt.Errorf("attributes %#x: only uncompressed data batches can be taken apart", attributes)
	}
	out := &batch{header: append([]byte(nil), b[:headerSize]...)}
	count := int(int32(binary.BigEndian.Uint32(b[atCount:])))
	rest := b[headerSize:]
	for i := range count {
		r, after, err := parseRecord(rest)
		if err != nil {
			return nil, fmt.Errorf("record %d of %d: %w", i, count, err)
		}
		out.records, rest = append(out.records, r), after
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("%d bytes after the last record", len(rest))
	}
	return out, nil
}

func parseRecord(b []byte) (r record, rest []byte, err error) {
	size, n := binary.Varint(b)
	if n <= 0 || size < 0 || size > int64(len(b)-n) {
		return r, nil, errors.New("its length is wrong")
	}
	body, rest := b[n:n+int(size)], b[n+int(size):]
	if len(body) < 1 {
		return r, nil, errors.New("it is empty")
	}
	r.attributes, body = body[0], body[1:]
	for _, v := range []*int64{&r.timestampDelta, &r.offsetDelta} {
		if *v, n = binary.Varint(body); n <= 0 {
			return r, nil, errors.New("a delta is wrong")
		}
		body = body[n:]
	}
	for _, f := range []*[]byte{&r.key, &r.value} {
		length, n := binary.Varint(body)
		if n <= 0 || length < -1 || length > int64(len(body)-n) {
			return r, nil, errors.New("key or value is wrong")
		}
		body = body[n:]
		if length >= 0 {
			*f, body = body[:length:length], body[length:]
		}
	}
	r.headers = body
	return r, rest, nil
}

// bytes puts the batch together again, with length, count and CRC as they must be.
func (b *batch) bytes() []byte {
	out := append([]byte(nil), b.header...)
	var body []byte
	for _, r := range b.records {
		body = append(body[:0], r.attributes)
		body = binary.AppendVarint(body, r.timestampDelta)
		body = binary.AppendVarint(body, r.offsetDelta)
		for _, f := range [][]byte{r.key, r.value} {
			if f == nil {
				body = binary.AppendVarint(body, -1)
				continue
			}
			body = append(binary.AppendVarint(body, int64(len(f))), f...)
		}
		body = append(body, r.headers...)
		out = append(binary.AppendVarint(out, int64(len(body))), body...)
	}
	binary.BigEndian.PutUint32(out[atLength:], uint32(len(out)-12))
	binary.BigEndian.PutUint32(out[atCount:], uint32(len(b.records)))
	binary.BigEndian.PutUint32(out[atCRC:], crc32.Checksum(out[atAttributes:], castagnoli))
	return out
}
