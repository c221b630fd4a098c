package records

import "fmt"

// Metadata is a record of the cluster's metadata: a pointer to one of the
// structs of this package.
type Metadata interface {
	metadataRow() row
}

// frameVersion precedes every metadata record (Kafka's MetadataRecordSerde).
const frameVersion = 1

// AppendMetadata appends a metadata record as it stands in the value of a
// record of __cluster_metadata: frame version, id, version, message; in the
// newest version that Kafka 4.4 writes.
func AppendMetadata(dst []byte, m Metadata) []byte {
	return AppendMetadataVersion(dst, m, m.metadataRow().describe().highest)
}

// AppendMetadataVersion appends a record in an older version. A field that the
// version does not have is dropped.
func AppendMetadataVersion(dst []byte, m Metadata, version int16) []byte {
	s := m.metadataRow()
	dst = append(dst, frameVersion)
	dst = appendUvarint(dst, uint32(s.describe().id))
	dst = appendUvarint(dst, uint32(version))
	return s.appendTo(dst, m, version)
}

// DecodeMetadata reads one metadata record from the start of b and says how
// many bytes it took. The caller judges what follows.
func DecodeMetadata(b []byte) (Metadata, int, error) {
	r := reader{b: b}
	frame, id, version := r.uvarint(), r.uvarint(), r.uvarint()
	switch {
	case r.err != nil:
		return nil, 0, fmt.Errorf("decoding a metadata record's frame: %w", r.err)
	case frame != frameVersion:
		return nil, 0, fmt.Errorf("decoding a metadata record: frame version %d: %w", frame, ErrVersion)
	case id >= uint32(len(metadataRows)) || metadataRows[id] == nil:
		return nil, 0, fmt.Errorf("decoding a metadata record: %w", &UnknownIDError{ID: int(id)})
	case version >= newest:
		return nil, 0, fmt.Errorf("decoding a metadata record: version %d: %w", version, ErrVersion)
	}
	m := metadataRows[id].decode(&r, int16(version))
	if r.err != nil {
		return nil, 0, fmt.Errorf("decoding a metadata record: %w", r.err)
	}
	return m.(Metadata), len(b) - len(r.b), nil
}

// Name is the record's name in Kafka, for logs.
func Name(m Metadata) string { return m.metadataRow().describe().name }

// NewRegisterBrokerRecord gives a record with Kafka's defaults.
func NewRegisterBrokerRecord() *RegisterBrokerRecord { return registerBrokerRecord.new() }

// NewUnregisterBrokerRecord gives a record with Kafka's defaults.
func NewUnregisterBrokerRecord() *UnregisterBrokerRecord { return unregisterBrokerRecord.new() }

// NewTopicRecord gives a record with Kafka's defaults.
func NewTopicRecord() *TopicRecord { return topicRecord.new() }

// NewPartitionRecord gives a record with Kafka's defaults.
func NewPartitionRecord() *PartitionRecord { return partitionRecord.new() }

// NewConfigRecord gives a record with Kafka's defaults.
func NewConfigRecord() *ConfigRecord { return configRecord.new() }

// NewPartitionChangeRecord gives a record with Kafka's defaults.
func NewPartitionChangeRecord() *PartitionChangeRecord { return partitionChangeRecord.new() }

// NewFenceBrokerRecord gives a record with Kafka's defaults.
func NewFenceBrokerRecord() *FenceBrokerRecord { return fenceBrokerRecord.new() }

// NewUnfenceBrokerRecord gives a record with Kafka's defaults.
func NewUnfenceBrokerRecord() *UnfenceBrokerRecord { return unfenceBrokerRecord.new() }

// NewRemoveTopicRecord gives a record with Kafka's defaults.
func NewRemoveTopicRecord() *RemoveTopicRecord { return removeTopicRecord.new() }

// NewDelegationTokenRecord gives a record with Kafka's defaults.
func NewDelegationTokenRecord() *DelegationTokenRecord { return delegationTokenRecord.new() }

// NewUserScramCredentialRecord gives a record with Kafka's defaults.
func NewUserScramCredentialRecord() *UserScramCredentialRecord {
	return userScramCredentialRecord.new()
}

// NewFeatureLevelRecord gives a record with Kafka's defaults.
func NewFeatureLevelRecord() *FeatureLevelRecord { return featureLevelRecord.new() }

// NewClientQuotaRecord gives a record with Kafka's defaults.
func NewClientQuotaRecord() *ClientQuotaRecord { return clientQuotaRecord.new() }

// NewProducerIdsRecord gives a record with Kafka's defaults.
func NewProducerIdsRecord() *ProducerIdsRecord { return producerIdsRecord.new() }

// NewBrokerRegistrationChangeRecord gives a record with Kafka's defaults.
func NewBrokerRegistrationChangeRecord() *BrokerRegistrationChangeRecord {
	return brokerRegistrationChangeRecord.new()
}

// NewAccessControlEntryRecord gives a record with Kafka's defaults.
func NewAccessControlEntryRecord() *AccessControlEntryRecord { return accessControlEntryRecord.new() }

// NewRemoveAccessControlEntryRecord gives a record with Kafka's defaults.
func NewRemoveAccessControlEntryRecord() *RemoveAccessControlEntryRecord {
	return removeAccessControlEntryRecord.new()
}

// NewNoOpRecord gives a record with Kafka's defaults.
func NewNoOpRecord() *NoOpRecord { return noOpRecord.new() }

// NewZkMigrationStateRecord gives a record with Kafka's defaults.
func NewZkMigrationStateRecord() *ZkMigrationStateRecord { return zkMigrationStateRecord.new() }

// NewRemoveUserScramCredentialRecord gives a record with Kafka's defaults.
func NewRemoveUserScramCredentialRecord() *RemoveUserScramCredentialRecord {
	return removeUserScramCredentialRecord.new()
}

// NewBeginTransactionRecord gives a record with Kafka's defaults.
func NewBeginTransactionRecord() *BeginTransactionRecord { return beginTransactionRecord.new() }

// NewEndTransactionRecord gives a record with Kafka's defaults.
func NewEndTransactionRecord() *EndTransactionRecord { return endTransactionRecord.new() }

// NewAbortTransactionRecord gives a record with Kafka's defaults.
func NewAbortTransactionRecord() *AbortTransactionRecord { return abortTransactionRecord.new() }

// NewRemoveDelegationTokenRecord gives a record with Kafka's defaults.
func NewRemoveDelegationTokenRecord() *RemoveDelegationTokenRecord {
	return removeDelegationTokenRecord.new()
}

// NewRegisterControllerRecord gives a record with Kafka's defaults.
func NewRegisterControllerRecord() *RegisterControllerRecord { return registerControllerRecord.new() }

// NewClearElrRecord gives a record with Kafka's defaults.
func NewClearElrRecord() *ClearElrRecord { return clearElrRecord.new() }

// NewUnregisterControllerRecord gives a record with Kafka's defaults.
func NewUnregisterControllerRecord() *UnregisterControllerRecord {
	return unregisterControllerRecord.new()
}

func (*RegisterBrokerRecord) metadataRow() row            { return registerBrokerRecord }
func (*UnregisterBrokerRecord) metadataRow() row          { return unregisterBrokerRecord }
func (*TopicRecord) metadataRow() row                     { return topicRecord }
func (*PartitionRecord) metadataRow() row                 { return partitionRecord }
func (*ConfigRecord) metadataRow() row                    { return configRecord }
func (*PartitionChangeRecord) metadataRow() row           { return partitionChangeRecord }
func (*FenceBrokerRecord) metadataRow() row               { return fenceBrokerRecord }
func (*UnfenceBrokerRecord) metadataRow() row             { return unfenceBrokerRecord }
func (*RemoveTopicRecord) metadataRow() row               { return removeTopicRecord }
func (*DelegationTokenRecord) metadataRow() row           { return delegationTokenRecord }
func (*UserScramCredentialRecord) metadataRow() row       { return userScramCredentialRecord }
func (*FeatureLevelRecord) metadataRow() row              { return featureLevelRecord }
func (*ClientQuotaRecord) metadataRow() row               { return clientQuotaRecord }
func (*ProducerIdsRecord) metadataRow() row               { return producerIdsRecord }
func (*BrokerRegistrationChangeRecord) metadataRow() row  { return brokerRegistrationChangeRecord }
func (*AccessControlEntryRecord) metadataRow() row        { return accessControlEntryRecord }
func (*RemoveAccessControlEntryRecord) metadataRow() row  { return removeAccessControlEntryRecord }
func (*NoOpRecord) metadataRow() row                      { return noOpRecord }
func (*ZkMigrationStateRecord) metadataRow() row          { return zkMigrationStateRecord }
func (*RemoveUserScramCredentialRecord) metadataRow() row { return removeUserScramCredentialRecord }
func (*BeginTransactionRecord) metadataRow() row          { return beginTransactionRecord }
func (*EndTransactionRecord) metadataRow() row            { return endTransactionRecord }
func (*AbortTransactionRecord) metadataRow() row          { return abortTransactionRecord }
func (*RemoveDelegationTokenRecord) metadataRow() row     { return removeDelegationTokenRecord }
func (*RegisterControllerRecord) metadataRow() row        { return registerControllerRecord }
func (*ClearElrRecord) metadataRow() row                  { return clearElrRecord }
func (*UnregisterControllerRecord) metadataRow() row      { return unregisterControllerRecord }
