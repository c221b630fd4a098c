package depth

// Why a branch is not reached here, beside what keeps a code from being seen.
const (
	compiled    = "the Scala compiler asks so, and it is never null here"
	neverSo     = "Kafka makes sure of it before it asks; it throws what nobody is answered with"
	modern      = "belongs to groups of the consumer protocol (KIP-848), which are not served yet"
	deadGroup   = "a group that is Dead is gone at once; only one whose partition goes to another broker is still there"
	quotas      = "needs quotas, which AlterClientQuotas sets; it is not served yet"
	shares      = "needs share groups, which are not served yet"
	replication = "needs a follower that copies from a leader"
	anotherNode = "needs a controller on another node"
	fiveMinutes = "a constant of Kafka's says so, and sequences take seconds"
	failedWrite = "the write to __consumer_offsets has to fail after it was begun; needs a data directory that fails (compat-tests/badinput)"
)

// unreached are the conditions that sequences on one node do not meet, in parts
// of which less than their share is reached. Methods are named, not lines. What
// is reached by chance may be among them.
var unreached = []out{
	{"ProducerAppendInfo", "maybeValidateDataBatch", 1, "the batch does not come from a client", replication},
	{"ProducerAppendInfo", "checkProducerEpoch", 10, "the epoch of a marker of transaction version 2", transactions},
	{"ProducerAppendInfo", "checkProducerEpoch", 2, "a batch that is copied, or read again by a recovery, has an epoch that is too old", "no leader has written such a one; " + replication},
	{"ProducerAppendInfo", "checkSequence", 10, "a first append that is being verified", transactions},
	{"ProducerAppendInfo", "checkSequence", 2, "several batches of one append, or an entry that is not a copy of the known one", "a client's append is one batch, and only a client's is checked"},
	{"ProducerAppendInfo", "append", 3, "the batch is a marker", transactions},
	{"ProducerAppendInfo", "appendDataBatch", 5, "a transaction is open, or begins", transactions},
	{"ProducerAppendInfo", "checkCoordinatorEpoch", 4, "the marker of a coordinator", transactions},
	{"ProducerAppendInfo", "appendEndTxnMarker", 10, "the marker of a coordinator", transactions},

	{"ClassicGroup", "isSimpleGroup", 6, "the group has only offsets", "only groups of the other protocols ask, when they take its place (KIP-848)"},
	{"ClassicGroup", "add", 3, "the member is there, or of another type, or has no protocol in common", neverSo},
	{"ClassicGroup", "add", 1, "the member does not wait for its join", modern},
	{"ClassicGroup", "remove", 1, "the member that goes waits for its join", "Kafka answers the join before"},
	{"ClassicGroup", "replaceStaticMember", 1, "there is none to take the place of", neverSo},
	{"ClassicGroup", "addPendingMember", 1, "it is a member", neverSo},
	{"ClassicGroup", "addPendingSyncMember", 1, "it is no member", neverSo},
	{"ClassicGroup", "removePendingSyncMember", 1, "it is no member", neverSo},
	{"ClassicGroup", "validateOffsetCommit", 1, "the group is Dead", deadGroup},
	{"ClassicGroup", "validateOffsetCommit", 4, "the commit is a transaction's", transactions},
	{"ClassicGroup", "validateOffsetFetch", 1, "the group is Dead", deadGroup},
	{"ClassicGroup", "validateOffsetDelete", 1, "the group is Dead", deadGroup},
	{"ClassicGroup", "validateDeleteGroup", 1, "the group is Dead", deadGroup},
	{"ClassicGroup", "offsetExpirationCondition", 1, "the group rebalances while offsets are looked at", "what runs out is looked at by a clock of each server's own; sequences come to rest before"},
	{"ClassicGroup", "selectProtocol", 1, "the group is empty", neverSo},
	{"ClassicGroup", "supportsProtocols", 1, "no protocol is named", "refused before, by the handler of JoinGroup"},
	{"ClassicGroup", "computeSubscribedTopics", 2, "the group has no protocol type, or none was chosen", neverSo},
	{"ClassicGroup", "updateMember", 4, "the new id of a static member is taken back", failedWrite},
	{"ClassicGroup", "currentClassicGroupMembers", 2, "the group is Dead or rebalances when it is listed", neverSo},
	{"ClassicGroup", "fromConsumerGroup", 16, "a group of the consumer protocol becomes a classic one", modern},
	{"ClassicGroup", "assertValidTransition", 1, "the state may not follow the present one", neverSo},
	{"ClassicGroupMember", "metadata", 1, "the member does not know the protocol", neverSo},
	{"ClassicGroupMember", "hasSatisfiedHeartbeat", 1, "a new member has waited for its first join for five minutes", fiveMinutes},
	{"ClassicGroupMember", "vote", 1, "the member knows none of the candidates", neverSo},
	{"ClassicGroupMember", "hasAssignment", 1, "the assignment is null", neverSo},

	{"KafkaApis", "getCurrentLeader", 7, "another broker leads", anotherBroker},
	{"KafkaApis", "handleProduceRequest", 4, "records of a transactional id", transactions},
	{"KafkaApis", "handleProduceRequest", 1, "the topic may not be written to", anAuthorizer},
	{"KafkaApis", "handleProduceRequest", 1, "another broker leads", anotherBroker},
	{"KafkaApis", "handleProduceRequest", 3, "the client is held back", quotas},
	{"KafkaApis", "handleProduceRequest", 7, "an error, an entry or the client's id is null", compiled},
	{"KafkaApis", "handleListOffsetRequest", 1, "no topic may be described", anAuthorizer},
	{"KafkaApis", "handleOffsetFetchRequest", 1, "the group may not be described", anAuthorizer},
	{"KafkaApis", "fetchAllOffsetsForGroup", 1, "a topic may not be described", anAuthorizer},
	{"KafkaApis", "fetchAllOffsetsForGroup", 7, "an id or an error is null", compiled},
	{"KafkaApis", "fetchAllOffsetsForGroup", 3, "the group answers with an error of its own", consumers},
	{"KafkaApis", "fetchOffsetsForGroup", 1, "a topic may not be described", anAuthorizer},
	{"KafkaApis", "fetchOffsetsForGroup", 5, "an id or an error is null", compiled},
	{"KafkaApis", "fetchOffsetsForGroup", 1, "the group answers with an error of its own", consumers},
	{"KafkaApis", "handleFindCoordinatorRequestV4AndAbove", 1, "the pair of error and node is null", compiled},
	{"KafkaApis", "handleFindCoordinatorRequestLessThanV4", 4, "the pair of error and node, or the error, is null", compiled},
	{"KafkaApis", "getCoordinator", 1, "the group may not be described", anAuthorizer},
	{"KafkaApis", "getCoordinator", 5, "the coordinator of a transactional id", transactions},
	{"KafkaApis", "getCoordinator", 3, "the coordinator of a share partition", shares},
	{"KafkaApis", "getCoordinator", 3, "the topic of groups is being made, or has no leader", "lasts for a moment after a node's first start, in which Millrace makes the topic before it answers"},
	{"KafkaApis", "handleJoinGroupRequest", 1, "the group may not be read", anAuthorizer},
	{"KafkaApis", "handleJoinGroupRequest", 1, "the error is null", compiled},
	{"KafkaApis", "handleHeartbeatRequest", 1, "the group may not be read", anAuthorizer},
	{"KafkaApis", "handleHeartbeatRequest", 1, "the error is null", compiled},
	{"KafkaApis", "handleLeaveGroupRequest", 1, "the group may not be read", anAuthorizer},
	{"KafkaApis", "handleLeaveGroupRequest", 1, "the error is null", compiled},
	{"KafkaApis", "handleSyncGroupRequest", 1, "the group may not be read", anAuthorizer},
	{"KafkaApis", "handleSyncGroupRequest", 1, "the error is null", compiled},
	{"KafkaApis", "handleListGroupsRequest", 1, "the cluster may not be described", anAuthorizer},
	{"KafkaApis", "handleListGroupsRequest", 1, "the error is null", compiled},
	{"KafkaApis", "handleDeleteRecordsRequest", 1, "the topic may not be deleted from", anAuthorizer},
	{"KafkaApis", "handleDeleteRecordsRequest", 4, "an entry is null", compiled},
	{"KafkaApis", "handleInitProducerIdRequest", 5, "a transactional id that may not be written, or no right to write at all", anAuthorizer},
	{"KafkaApis", "handleInitProducerIdRequest", 7, "a producer that is fenced, told so by version", transactions},
	{"KafkaApis", "handleOffsetForLeaderEpochRequest", 1, "the cluster's own actions are refused", anAuthorizer},
	{"KafkaApis", "handleAlterConfigsRequest", 2, "the controller does not know the version", anotherNode},
	{"KafkaApis", "handleIncrementalAlterConfigsRequest", 2, "the controller does not know the version", anotherNode},
	{"KafkaApis", "handleAlterReplicaLogDirsRequest", 1, "the cluster may not be altered", anAuthorizer},
	{"KafkaApis", "handleAlterReplicaLogDirsRequest", 2, "an entry is null", compiled},
	{"KafkaApis", "handleDeleteGroupsRequest", 1, "the error is null", compiled},
	{"KafkaApis", "handleDeleteGroupsRequest", 1, "the topology of a streams group is kept by a plugin", "streams groups are not served yet"},
	{"KafkaApis", "handleDescribeCluster", 3, "a broker is fenced", anotherBroker},
	{"KafkaApis", "handleApiVersionsRequest", 7, "a cluster's id that is the broker's own, beside its own or another node id; or an id that is null", "by the order in which ids are told and asked with, and " + compiled},
}
