package depth

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// part is what a row of figures counts.
type part struct {
	name    string
	classes []string // with those nested in them
	methods []string // only these; nil: all
	floor   int
}

const (
	server      = "org/apache/kafka/server/"
	storage     = "org/apache/kafka/storage/internals/"
	group       = "org/apache/kafka/coordinator/group/"
	controllers = "org/apache/kafka/controller/"
	kafkaApis   = "kafka/server/KafkaApis"
)

// parts are counted one by one; no branch stands in two.
var parts = append([]part{
	{name: "LogValidator", classes: []string{storage + "log/LogValidator"}, floor: 70},
	{name: "ProducerAppendInfo", classes: []string{storage + "log/ProducerAppendInfo"}, floor: 70},
	{name: "FetchSession", classes: []string{server + "FetchSession", server + "FetchSessionCacheShard", server + "FetchContext", server + "FetchManager"}, floor: 70},
	{name: "ClassicGroup", classes: []string{group + "classic/ClassicGroup", group + "classic/ClassicGroupMember", group + "classic/ClassicGroupState"}, floor: 70},
	{name: "GroupMetadataManager", classes: []string{group + "GroupMetadataManager"}},
	{name: "OffsetMetadataManager", classes: []string{group + "OffsetMetadataManager"}},
	{name: "GroupCoordinatorService", classes: []string{group + "GroupCoordinatorService"}},
	{name: "GroupCoordinatorShard", classes: []string{group + "GroupCoordinatorShard"}},
	{name: "ProducerStateManager", classes: []string{storage + "log/ProducerStateManager"}},
	{name: "UnifiedLog", classes: []string{storage + "log/UnifiedLog"}},
	{name: "LocalLog", classes: []string{storage + "log/LocalLog"}},
	{name: "LogSegment", classes: []string{storage + "log/LogSegment"}},
	{name: "LeaderEpochFileCache", classes: []string{storage + "epoch/LeaderEpochFileCache"}},
	{name: "ReplicaManager", classes: []string{"kafka/server/ReplicaManager"}},
	{name: "Partition", classes: []string{"kafka/cluster/Partition"}},
	{name: "DelayedFetch", classes: []string{"kafka/server/DelayedFetch"}},
	{name: "ReplicationControlManager", classes: []string{controllers + "ReplicationControlManager"}},
	{name: "ConfigurationControlManager", classes: []string{controllers + "ConfigurationControlManager"}},
	{name: "ClusterControlManager", classes: []string{controllers + "ClusterControlManager"}},
	{name: "ClientQuotaControlManager", classes: []string{controllers + "ClientQuotaControlManager"}},
	{name: "FeatureControlManager", classes: []string{controllers + "FeatureControlManager"}},
	{name: "ControllerApis", classes: []string{"kafka/server/ControllerApis"}},
	{name: "ConfigAdminManager", classes: []string{"kafka/server/ConfigAdminManager"}},
	{name: "ConfigHelper", classes: []string{"kafka/server/ConfigHelper"}},
	{name: "DescribeTopicPartitionsRequestHandler", classes: []string{"kafka/server/handlers/DescribeTopicPartitionsRequestHandler"}},
	{name: "ClientMetricsManager", classes: []string{server + "ClientMetricsManager"}},
}, handlerParts()...)

// handlers are the methods of KafkaApis that answer the APIs that are served,
// by key. nil: the broker hands the request on to the controller, whose classes
// are counted.
var handlers = map[int16][]string{
	0:  {"handleProduceRequest", "getCurrentLeader"},
	1:  {"handleFetchRequest", "replicationQuota"},
	2:  {"handleListOffsetRequest"},
	3:  {"handleTopicMetadataRequest", "metadataResponseTopic", "getTopicMetadata"},
	8:  {"handleOffsetCommitRequest"},
	9:  {"handleOffsetFetchRequest", "fetchAllOffsetsForGroup", "fetchOffsetsForGroup"},
	10: {"handleFindCoordinatorRequest", "handleFindCoordinatorRequestV4AndAbove", "handleFindCoordinatorRequestLessThanV4", "getCoordinator"},
	11: {"handleJoinGroupRequest"},
	12: {"handleHeartbeatRequest"},
	13: {"handleLeaveGroupRequest"},
	14: {"handleSyncGroupRequest"},
	15: {"handleDescribeGroupsRequest"},
	16: {"handleListGroupsRequest"},
	18: {"handleApiVersionsRequest"},
	19: nil,
	20: nil,
	21: {"handleDeleteRecordsRequest"},
	22: {"handleInitProducerIdRequest"},
	23: {"handleOffsetForLeaderEpochRequest"},
	29: {"handleDescribeAcls"},
	30: nil,
	31: nil,
	32: {"handleDescribeConfigsRequest"},
	33: {"handleAlterConfigsRequest"},
	34: {"handleAlterReplicaLogDirsRequest"},
	35: {"handleDescribeLogDirsRequest"},
	37: nil,
	42: {"handleDeleteGroupsRequest"},
	43: nil,
	44: {"handleIncrementalAlterConfigsRequest"},
	45: nil,
	46: nil,
	47: {"handleOffsetDeleteRequest"},
	55: nil,
	57: nil,
	60: {"handleDescribeCluster"},
	61: {"handleDescribeProducersRequest", "checkValidTopic"},
	64: nil,
	71: {"handleGetTelemetrySubscriptionsRequest"},
	72: {"handlePushTelemetryRequest"},
	74: {"handleListConfigResources"},
	75: {"handleDescribeTopicPartitionsRequest"},
}

// opening are the local methods that stand before the first statement of theirs.
var opening = map[string]string{
	"KafkaApis.createResponseCallback$1":     "handleApiVersionsRequest",
	"KafkaApis.clusterIdOrNodeIdIsInvalid$1": "handleApiVersionsRequest",
}

// handlerParts are the parts of the handlers, by key.
func handlerParts() []part {
	var out []part
	for _, key := range slices.Sorted(maps.Keys(handlers)) {
		if methods := handlers[key]; methods != nil {
			out = append(out, part{name: "KafkaApis: " + kmsg.NameForKey(key), classes: []string{kafkaApis}, methods: methods, floor: 70})
		}
	}
	return out
}
