//go:build compat && linux

package badinput

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// plainBatch is a good batch of uncompressed records.
func plainBatch(values ...string) []byte {
	var records []byte
	for i, v := range values {
		records = append(records, record(i, v)...)
	}
	return batch(0, len(values), records)
}

// record is a record with its length.
func record(delta int, value string) []byte {
	body := []byte{0}
	body = binary.AppendVarint(body, 0)
	body = binary.AppendVarint(body, int64(delta))
	body = binary.AppendVarint(body, -1)
	body = binary.AppendVarint(body, int64(len(value)))
	body = append(body, value...)
	body = binary.AppendVarint(body, 0)
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

// batch is a batch with a right checksum around records that may be anything.
func batch(attributes int16, count int, records []byte) []byte {
	now := uint64(time.Now().UnixMilli())
	b := make([]byte, 8, 61+len(records))
	b = binary.BigEndian.AppendUint32(b, uint32(49+len(records)))
	b = append(b, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(attributes))
	b = binary.BigEndian.AppendUint32(b, uint32(count-1))
	b = binary.BigEndian.AppendUint64(b, now)
	b = binary.BigEndian.AppendUint64(b, now)
	b = binary.BigEndian.AppendUint64(b, ^uint64(0))
	b = append(b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	b = binary.BigEndian.AppendUint32(b, uint32(count))
	return sum(append(b, records...))
}

// sum sets a batch's checksum right.
func sum(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}
