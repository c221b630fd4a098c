package records

import (
	"encoding/binary"
	"fmt"
)

// Key is the key of a group coordinator's record: a pointer to one of the
// XxxKey structs.
type Key interface {
	keyRow() row
}

// Value is the value of a group coordinator's record: a pointer to one of the
// XxxValue structs.
type Value interface {
	valueRow() row
}

// The value versions that Kafka 4.4 writes. A commit that brought its own
// retention time (OffsetCommit v2 to v4) is written as version 1, the only one
// that holds an expire timestamp.
const (
	OffsetCommitVersion         = 4
	OffsetCommitVersionRetained = 1
	GroupMetadataVersion        = 3
)

var (
	keyRows = [...]row{
		0: legacyOffsetCommitKey,
		1: offsetCommitKey,
		2: groupMetadataKey,
	}
	valueRows = [...]row{
		0: legacyOffsetCommitValue,
		1: offsetCommitValue,
		2: groupMetadataValue,
	}
)

// EncodeKey gives a record's key: the record id, then the key's fields.
func EncodeKey(k Key) []byte { return AppendKey(nil, k) }

// AppendKey is EncodeKey on bytes of the caller's.
func AppendKey(dst []byte, k Key) []byte {
	s := k.keyRow()
	dst = binary.BigEndian.AppendUint16(dst, uint16(s.describe().id))
	return s.appendTo(dst, k, 0)
}

// EncodeValue gives a record's value: its version, then the value's fields. It
// panics on a version that the record does not have.
func EncodeValue(v Value, version int16) []byte { return AppendValue(nil, v, version) }

// AppendValue is EncodeValue on bytes of the caller's.
func AppendValue(dst []byte, v Value, version int16) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(version))
	return v.valueRow().appendTo(dst, v, version)
}

// DecodeKey reads a record's key. A record id that this package does not know
// is an *UnknownIDError: Kafka skips such a record with a warning.
func DecodeKey(b []byte) (Key, error) {
	r := reader{b: b}
	id := int16(r.uint16())
	switch {
	case r.err != nil:
		return nil, fmt.Errorf("decoding a record's key: %w", r.err)
	case id < 0 || int(id) >= len(keyRows):
		return nil, fmt.Errorf("decoding a record's key: %w", &UnknownIDError{ID: int(id)})
	}
	k := keyRows[id].decode(&r, 0)
	if r.err == nil && len(r.b) > 0 {
		r.err = ErrTrailing
	}
	if r.err != nil {
		return nil, fmt.Errorf("decoding a record's key: %w", r.err)
	}
	return k.(Key), nil
}

// DecodeValue reads the value that belongs to k; a nil value, a tombstone, is a
// nil Value.
func DecodeValue(k Key, b []byte) (Value, error) {
	if b == nil {
		return nil, nil
	}
	r := reader{b: b}
	version := int16(r.uint16())
	if r.err != nil {
		return nil, fmt.Errorf("decoding the value of a record: %w", r.err)
	}
	v := valueRows[k.keyRow().describe().id].decode(&r, version)
	if r.err == nil && len(r.b) > 0 {
		r.err = ErrTrailing
	}
	if r.err != nil {
		return nil, fmt.Errorf("decoding the value of a record: %w", r.err)
	}
	return v.(Value), nil
}

// NewOffsetCommitValue gives a value with Kafka's defaults.
func NewOffsetCommitValue() *OffsetCommitValue { return offsetCommitValue.new() }

// NewGroupMetadataValue gives a value with Kafka's defaults.
func NewGroupMetadataValue() *GroupMetadataValue { return groupMetadataValue.new() }

// NewMemberMetadata gives a member with Kafka's defaults.
func NewMemberMetadata() *MemberMetadata {
	m := new(MemberMetadata)
	memberMetadataFields.setDefaults(m)
	return m
}

func (*LegacyOffsetCommitKey) keyRow() row     { return legacyOffsetCommitKey }
func (*LegacyOffsetCommitValue) valueRow() row { return legacyOffsetCommitValue }
func (*OffsetCommitKey) keyRow() row           { return offsetCommitKey }
func (*OffsetCommitValue) valueRow() row       { return offsetCommitValue }
func (*GroupMetadataKey) keyRow() row          { return groupMetadataKey }
func (*GroupMetadataValue) valueRow() row      { return groupMetadataValue }
