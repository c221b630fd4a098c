package batch

import (
	"encoding/binary"
	"fmt"
)

// ControlType is the type in the key of a control record.
type ControlType int16

// The control types a partition's log can hold.
const (
	Abort  ControlType = 0
	Commit ControlType = 1
)

// Marker is the control record that ends a transaction.
type Marker struct {
	Type             ControlType
	CoordinatorEpoch int32
	Timestamp        int64
}

// ParseMarker reads the control record of a control batch. ok is false where the batch holds no record, which is how
// the cleaner leaves one whose transaction is gone, and where the record is of a type that ends no transaction.
func ParseMarker(b []byte) (m Marker, ok bool, err error) {
	for r, err := range Records(b, len(b)) {
		if err != nil {
			return Marker{}, false, fmt.Errorf("read control record: %w", err)
		}
		if len(r.Key) < 4 {
			return Marker{}, false, fmt.Errorf("control record key has %d bytes, want 4", len(r.Key))
		}
		if v := int16(binary.BigEndian.Uint16(r.Key)); v < 0 {
			return Marker{}, false, fmt.Errorf("control record key has version %d", v)
		}
		m.Type = ControlType(binary.BigEndian.Uint16(r.Key[2:]))
		if m.Type != Abort && m.Type != Commit {
			return Marker{}, false, nil
		}
		if len(r.Value) < 6 {
			return Marker{}, false, fmt.Errorf("end transaction marker has %d bytes, want 6", len(r.Value))
		}
		if v := int16(binary.BigEndian.Uint16(r.Value)); v < 0 {
			return Marker{}, false, fmt.Errorf("end transaction marker has version %d", v)
		}
		m.CoordinatorEpoch = int32(binary.BigEndian.Uint32(r.Value[2:]))
		m.Timestamp = r.Timestamp
		return m, true, nil
	}
	return Marker{}, false, nil
}

// KeyAndValue are the marker's control record.
func (m Marker) KeyAndValue() (key, value []byte) {
	key = binary.BigEndian.AppendUint16(make([]byte, 2, 4), uint16(m.Type))
	value = binary.BigEndian.AppendUint32(make([]byte, 2, 6), uint32(m.CoordinatorEpoch))
	return key, value
}
