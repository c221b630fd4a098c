package records

// The metadata records. A nullable string or struct is a pointer; in a nullable
// array nil is null and an empty, non-nil slice is an empty array. In an array
// that cannot be null the two are the same.

// RegisterBrokerRecord says that a broker registered under a new broker epoch.
type RegisterBrokerRecord struct {
	BrokerId             int32
	IsMigratingZkBroker  bool
	IncarnationId        [16]byte
	BrokerEpoch          int64
	EndPoints            []BrokerEndpoint
	Features             []BrokerFeature
	Rack                 *string
	Fenced               bool // default true
	InControlledShutdown bool
	LogDirs              [][16]byte
	CordonedLogDirs      [][16]byte // nullable (KIP-1066)
}

// BrokerEndpoint is one advertised listener of a broker.
type BrokerEndpoint struct {
	Name             string
	Host             string
	Port             uint16
	SecurityProtocol int16
}

// BrokerFeature is a range of feature levels that a broker supports.
type BrokerFeature struct {
	Name                string
	MinSupportedVersion int16
	MaxSupportedVersion int16
}

// UnregisterBrokerRecord removes a broker's registration.
type UnregisterBrokerRecord struct {
	BrokerId    int32
	BrokerEpoch int64
}

// TopicRecord creates a topic; its partitions follow.
type TopicRecord struct {
	Name    string
	TopicId [16]byte
}

// PartitionRecord is a partition's whole state.
type PartitionRecord struct {
	PartitionId            int32 // default -1
	TopicId                [16]byte
	Replicas               []int32
	Isr                    []int32
	RemovingReplicas       []int32
	AddingReplicas         []int32
	Leader                 int32 // default -1
	LeaderRecoveryState    int8  // 0 recovered, 1 recovering
	LeaderEpoch            int32 // default -1
	PartitionEpoch         int32 // default -1
	Directories            [][16]byte
	EligibleLeaderReplicas []int32 // nullable (KIP-966)
	LastKnownElr           []int32 // nullable
}

// ConfigRecord sets one config of one resource; a null value removes it.
type ConfigRecord struct {
	ResourceType int8
	ResourceName string
	Name         string
	Value        *string
}

// PartitionChangeRecord changes what is not null (arrays), not -2 (leader) and
// not -1 (recovery state) in a partition's state.
type PartitionChangeRecord struct {
	PartitionId            int32 // default -1
	TopicId                [16]byte
	Isr                    []int32    // nullable
	Leader                 int32      // default -2, unchanged; -1 is none
	Replicas               []int32    // nullable
	RemovingReplicas       []int32    // nullable
	AddingReplicas         []int32    // nullable
	LeaderRecoveryState    int8       // default -1, unchanged
	Directories            [][16]byte // nullable
	EligibleLeaderReplicas []int32    // nullable
	LastKnownElr           []int32    // nullable
}

// FenceBrokerRecord fences a broker.
type FenceBrokerRecord struct {
	Id    int32
	Epoch int64
}

// UnfenceBrokerRecord unfences a broker.
type UnfenceBrokerRecord struct {
	Id    int32
	Epoch int64
}

// RemoveTopicRecord deletes a topic with its partitions and configs.
type RemoveTopicRecord struct {
	TopicId [16]byte
}

// DelegationTokenRecord creates or renews a delegation token.
type DelegationTokenRecord struct {
	Owner               string
	Requester           string
	Renewers            []string
	IssueTimestamp      int64
	MaxTimestamp        int64
	ExpirationTimestamp int64
	TokenId             string
}

// UserScramCredentialRecord sets a user's SCRAM credential.
type UserScramCredentialRecord struct {
	Name       string
	Mechanism  int8
	Salt       []byte
	StoredKey  []byte
	ServerKey  []byte
	Iterations int32
}

// FeatureLevelRecord finalizes a feature's level; 0 removes it.
type FeatureLevelRecord struct {
	Name         string
	FeatureLevel int16
}

// ClientQuotaRecord sets or removes one quota of one entity.
type ClientQuotaRecord struct {
	Entity []EntityData
	Key    string
	Value  float64
	Remove bool
}

// EntityData is one part of a quota's entity; a null name is the default entity.
type EntityData struct {
	EntityType string
	EntityName *string
}

// ProducerIdsRecord hands a block of producer ids to a broker.
type ProducerIdsRecord struct {
	BrokerId       int32
	BrokerEpoch    int64 // default -1
	NextProducerId int64 // the first id of the next block
}

// BrokerRegistrationChangeRecord changes parts of a registration. Fenced: 1
// fences, -1 unfences, 0 leaves it. InControlledShutdown: 1 or 0, unchanged.
type BrokerRegistrationChangeRecord struct {
	BrokerId             int32
	BrokerEpoch          int64
	Fenced               int8
	InControlledShutdown int8
	LogDirs              [][16]byte // empty: unchanged
	CordonedLogDirs      [][16]byte // nullable: unchanged
}

// AccessControlEntryRecord adds one access control entry.
type AccessControlEntryRecord struct {
	Id             [16]byte
	ResourceType   int8
	ResourceName   string
	PatternType    int8
	Principal      string
	Host           string
	Operation      int8
	PermissionType int8
}

// RemoveAccessControlEntryRecord removes one access control entry.
type RemoveAccessControlEntryRecord struct {
	Id [16]byte
}

// NoOpRecord moves the metadata offset and changes nothing.
type NoOpRecord struct{}

// ZkMigrationStateRecord is left from the ZooKeeper migration; it is only read.
type ZkMigrationStateRecord struct {
	ZkMigrationState int8
}

// RemoveUserScramCredentialRecord removes a user's SCRAM credential.
type RemoveUserScramCredentialRecord struct {
	Name      string
	Mechanism int8
}

// BeginTransactionRecord opens a metadata transaction (KIP-868).
type BeginTransactionRecord struct {
	Name *string
}

// EndTransactionRecord commits the open metadata transaction.
type EndTransactionRecord struct{}

// AbortTransactionRecord drops the open metadata transaction.
type AbortTransactionRecord struct {
	Reason *string
}

// RemoveDelegationTokenRecord removes a delegation token.
type RemoveDelegationTokenRecord struct {
	TokenId string
}

// RegisterControllerRecord says what a controller listens on and supports.
type RegisterControllerRecord struct {
	ControllerId     int32
	IncarnationId    [16]byte
	ZkMigrationReady bool
	EndPoints        []ControllerEndpoint
	Features         []ControllerFeature
}

// ControllerEndpoint is one listener of a controller.
type ControllerEndpoint struct {
	Name             string
	Host             string
	Port             uint16
	SecurityProtocol int16
}

// ControllerFeature is a range of feature levels that a controller supports.
type ControllerFeature struct {
	Name                string
	MinSupportedVersion int16
	MaxSupportedVersion int16
}

// ClearElrRecord empties the eligible leader replicas of a topic, or of every
// topic if the name is empty.
type ClearElrRecord struct {
	TopicName string
}

// UnregisterControllerRecord removes a controller's registration (KIP-1312).
type UnregisterControllerRecord struct {
	ControllerId int32
}
