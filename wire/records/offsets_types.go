package records

// The records of __consumer_offsets that classic groups and their offsets need.

// LegacyOffsetCommitKey is the key of id 0, which is only read.
type LegacyOffsetCommitKey struct {
	Group     string
	Topic     string
	Partition int32
}

// LegacyOffsetCommitValue is the value of id 0, which is only read.
type LegacyOffsetCommitValue struct {
	Offset          int64
	Metadata        string
	CommitTimestamp int64
}

// OffsetCommitKey names one committed offset.
type OffsetCommitKey struct {
	Group     string
	Topic     string
	Partition int32
}

// OffsetCommitValue is one committed offset.
type OffsetCommitValue struct {
	Offset          int64
	LeaderEpoch     int32 // default -1
	Metadata        string
	CommitTimestamp int64
	ExpireTimestamp int64 // default -1; version 1 only
	TopicId         [16]byte
}

// GroupMetadataKey names one classic group.
type GroupMetadataKey struct {
	Group string
}

// GroupMetadataValue is one generation of a classic group.
type GroupMetadataValue struct {
	ProtocolType          string
	Generation            int32
	Protocol              *string
	Leader                *string
	CurrentStateTimestamp int64 // default -1
	Members               []MemberMetadata
}

// MemberMetadata is one member of a classic group.
type MemberMetadata struct {
	MemberId         string
	GroupInstanceId  *string
	ClientId         string
	ClientHost       string
	RebalanceTimeout int32 // default -1
	SessionTimeout   int32
	Subscription     []byte
	Assignment       []byte
}
