package producer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"millrace/storage/batch"
)

// The `.snapshot` file: int16 version, uint32 CRC-32C over what follows it, int32 count, entries of entrySize bytes.
const (
	snapshotVersion = 1
	snapshotHeader  = 10
	atSnapshotCRC   = 2
	atSnapshotCount = 6
	entrySize       = 46
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrSnapshot says that the bytes are no readable producer snapshot. A log then falls back to an older one.
var ErrSnapshot = errors.New("corrupt producer snapshot")

// EncodeSnapshot makes the bytes of a `.snapshot` file.
func EncodeSnapshot(entries []Entry) []byte {
	b := make([]byte, snapshotHeader, snapshotHeader+entrySize*len(entries))
	binary.BigEndian.PutUint16(b, snapshotVersion)
	binary.BigEndian.PutUint32(b[atSnapshotCount:], uint32(len(entries)))
	for _, e := range entries {
		b = binary.BigEndian.AppendUint64(b, uint64(e.ProducerID))
		b = binary.BigEndian.AppendUint16(b, uint16(e.Epoch))
		b = binary.BigEndian.AppendUint32(b, uint32(e.LastSequence))
		b = binary.BigEndian.AppendUint64(b, uint64(e.LastOffset))
		b = binary.BigEndian.AppendUint32(b, uint32(e.OffsetDelta))
		b = binary.BigEndian.AppendUint64(b, uint64(e.Timestamp))
		b = binary.BigEndian.AppendUint32(b, uint32(e.CoordinatorEpoch))
		b = binary.BigEndian.AppendUint64(b, uint64(e.TxnFirstOffset))
	}
	binary.BigEndian.PutUint32(b[atSnapshotCRC:], crc32.Checksum(b[atSnapshotCount:], castagnoli))
	return b
}

// DecodeSnapshot reads the bytes of a `.snapshot` file; its errors wrap ErrSnapshot.
func DecodeSnapshot(b []byte) ([]Entry, error) {
	if len(b) < snapshotHeader {
		return nil, fmt.Errorf("%w: %d bytes", ErrSnapshot, len(b))
	}
	if v := int16(binary.BigEndian.Uint16(b)); v != snapshotVersion {
		return nil, fmt.Errorf("%w: version %d", ErrSnapshot, v)
	}
	stored := binary.BigEndian.Uint32(b[atSnapshotCRC:])
	if computed := crc32.Checksum(b[atSnapshotCount:], castagnoli); computed != stored {
		return nil, fmt.Errorf("%w: stored crc %d, computed crc %d", ErrSnapshot, stored, computed)
	}
	n := int32(binary.BigEndian.Uint32(b[atSnapshotCount:]))
	if n < 0 || int64(n)*entrySize != int64(len(b)-snapshotHeader) {
		return nil, fmt.Errorf("%w: %d entries in %d bytes", ErrSnapshot, n, len(b))
	}
	entries := make([]Entry, n)
	for i := range entries {
		p := b[snapshotHeader+i*entrySize:]
		e := Entry{
			ProducerID:       batch.ProducerID(binary.BigEndian.Uint64(p)),
			Epoch:            batch.ProducerEpoch(binary.BigEndian.Uint16(p[8:])),
			LastSequence:     int32(binary.BigEndian.Uint32(p[10:])),
			LastOffset:       batch.Offset(binary.BigEndian.Uint64(p[14:])),
			OffsetDelta:      int32(binary.BigEndian.Uint32(p[22:])),
			Timestamp:        int64(binary.BigEndian.Uint64(p[26:])),
			CoordinatorEpoch: int32(binary.BigEndian.Uint32(p[34:])),
			TxnFirstOffset:   batch.Offset(binary.BigEndian.Uint64(p[38:])),
		}
		if e.OffsetDelta < 0 || (e.LastOffset >= 0 && e.LastSequence < -1) {
			return nil, fmt.Errorf("%w: entry %d", ErrSnapshot, i)
		}
		entries[i] = e
	}
	return entries, nil
}
