package shell

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// apiVersionsTool is kafka-broker-api-versions.sh.
func apiVersionsTool() *tool {
	return &tool{name: "broker-api-versions", short: "List the APIs and versions that brokers serve", options: []option{
		bootstrapOption, commandConfig, {name: "version", help: "print the version of Kafka's tools that this follows"},
	}, run: func(sh *Shell, c *toolCall) error {
		if c.has("version") {
			fmt.Fprintln(sh.Stdout, kafkaVersion)
			return nil
		}
		if !c.has("bootstrap-server") {
			return misuse("Missing required argument \"[bootstrap-server]\"")
		}
		return apiVersions(sh, c)
	}}
}

// api is what Kafka's own client of the parity target speaks of an API.
type api struct {
	name     string
	min, max int16
}

// clientAPIs are those that brokers answer, by key.
var clientAPIs = map[int16]api{
	0:  {"Produce", 3, 13},
	1:  {"Fetch", 4, 18},
	2:  {"ListOffsets", 1, 11},
	3:  {"Metadata", 0, 13},
	8:  {"OffsetCommit", 2, 10},
	9:  {"OffsetFetch", 1, 10},
	10: {"FindCoordinator", 0, 6},
	11: {"JoinGroup", 0, 9},
	12: {"Heartbeat", 0, 4},
	13: {"LeaveGroup", 0, 5},
	14: {"SyncGroup", 0, 5},
	15: {"DescribeGroups", 0, 6},
	16: {"ListGroups", 0, 5},
	17: {"SaslHandshake", 0, 1},
	18: {"ApiVersions", 0, 5},
	19: {"CreateTopics", 2, 7},
	20: {"DeleteTopics", 1, 6},
	21: {"DeleteRecords", 0, 2},
	22: {"InitProducerId", 0, 5},
	23: {"OffsetForLeaderEpoch", 2, 4},
	24: {"AddPartitionsToTxn", 0, 5},
	25: {"AddOffsetsToTxn", 0, 4},
	26: {"EndTxn", 0, 5},
	27: {"WriteTxnMarkers", 1, 2},
	28: {"TxnOffsetCommit", 0, 6},
	29: {"DescribeAcls", 1, 3},
	30: {"CreateAcls", 1, 3},
	31: {"DeleteAcls", 1, 3},
	32: {"DescribeConfigs", 1, 4},
	33: {"AlterConfigs", 0, 2},
	34: {"AlterReplicaLogDirs", 1, 2},
	35: {"DescribeLogDirs", 1, 5},
	36: {"SaslAuthenticate", 0, 2},
	37: {"CreatePartitions", 0, 3},
	38: {"CreateDelegationToken", 1, 3},
	39: {"RenewDelegationToken", 1, 2},
	40: {"ExpireDelegationToken", 1, 2},
	41: {"DescribeDelegationToken", 1, 3},
	42: {"DeleteGroups", 0, 3},
	43: {"ElectLeaders", 0, 2},
	44: {"IncrementalAlterConfigs", 0, 1},
	45: {"AlterPartitionReassignments", 0, 1},
	46: {"ListPartitionReassignments", 0, 0},
	47: {"OffsetDelete", 0, 0},
	48: {"DescribeClientQuotas", 0, 1},
	49: {"AlterClientQuotas", 0, 1},
	50: {"DescribeUserScramCredentials", 0, 0},
	51: {"AlterUserScramCredentials", 0, 0},
	55: {"DescribeQuorum", 0, 2},
	57: {"UpdateFeatures", 0, 2},
	60: {"DescribeCluster", 0, 2},
	61: {"DescribeProducers", 0, 0},
	64: {"UnregisterBroker", 0, 0},
	65: {"DescribeTransactions", 0, 0},
	66: {"ListTransactions", 0, 2},
	68: {"ConsumerGroupHeartbeat", 0, 1},
	69: {"ConsumerGroupDescribe", 0, 1},
	71: {"GetTelemetrySubscriptions", 0, 0},
	72: {"PushTelemetry", 0, 0},
	74: {"ListConfigResources", 0, 1},
	75: {"DescribeTopicPartitions", 0, 0},
	76: {"ShareGroupHeartbeat", 1, 1},
	77: {"ShareGroupDescribe", 1, 1},
	78: {"ShareFetch", 1, 2},
	79: {"ShareAcknowledge", 1, 2},
	80: {"AddRaftVoter", 0, 1},
	81: {"RemoveRaftVoter", 0, 0},
	83: {"InitializeShareGroupState", 0, 0},
	84: {"ReadShareGroupState", 0, 0},
	85: {"WriteShareGroupState", 0, 1},
	86: {"DeleteShareGroupState", 0, 0},
	87: {"ReadShareGroupStateSummary", 0, 1},
	88: {"StreamsGroupHeartbeat", 0, 1},
	89: {"StreamsGroupDescribe", 0, 1},
	90: {"DescribeShareGroupOffsets", 0, 1},
	91: {"AlterShareGroupOffsets", 0, 0},
	92: {"DeleteShareGroupOffsets", 0, 0},
	93: {"StreamsGroupTopologyDescriptionUpdate", 0, 0},
	94: {"UnregisterController", 0, 0},
}

// apiVersions lists every broker's APIs, and which version Kafka's client would
// use of each.
func apiVersions(sh *Shell, c *toolCall) error {
	k, done, err := sh.connect(c)
	if err != nil {
		return err
	}
	defer done()
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = 1
	cluster, err := req.RequestWith(k.ctx, k)
	if err != nil {
		return says("%s", k.explain(err))
	}
	if err := kerr.ErrorForCode(cluster.ErrorCode); err != nil {
		return brokerSays(err, cluster.ErrorMessage)
	}
	sort.Slice(cluster.Brokers, func(i, j int) bool { return cluster.Brokers[i].NodeID < cluster.Brokers[j].NodeID })
	for _, b := range cluster.Brokers {
		ask := kmsg.NewPtrApiVersionsRequest()
		ask.ClientSoftwareName, ask.ClientSoftwareVersion = "millrace", sh.softwareVersion()
		answer, err := k.Broker(int(b.NodeID)).RetriableRequest(k.ctx, ask)
		rack := "null"
		if b.Rack != nil {
			rack = *b.Rack
		}
		fmt.Fprintf(sh.Stdout, "%s:%d (id: %d rack: %s isFenced: %t) -> ", b.Host, b.Port, b.NodeID, rack, b.IsFenced)
		if err != nil {
			fmt.Fprintf(sh.Stdout, "ERROR: %s\n", k.explain(err))
			continue
		}
		fmt.Fprintf(sh.Stdout, "(\n%s\n)\n", strings.Join(apiLines(answer.(*kmsg.ApiVersionsResponse).ApiKeys), ",\n"))
	}
	return nil
}

// apiLines is a line for every API that the broker or Kafka's client has.
func apiLines(served []kmsg.ApiVersionsResponseApiKey) []string {
	byKey := map[int16]kmsg.ApiVersionsResponseApiKey{}
	var keys []int
	for _, a := range served {
		byKey[a.ApiKey] = a
		keys = append(keys, int(a.ApiKey))
	}
	for key := range clientAPIs {
		if _, ok := byKey[key]; !ok {
			keys = append(keys, int(key))
		}
	}
	sort.Ints(keys)
	lines := make([]string, len(keys))
	for i, key := range keys {
		own, known := clientAPIs[int16(key)]
		a, there := byKey[int16(key)]
		if !known {
			own.name = "UNKNOWN"
		}
		line := fmt.Sprintf("\t%s(%d): ", own.name, key)
		if !there {
			lines[i] = line + "UNSUPPORTED"
			continue
		}
		line += strconv.Itoa(int(a.MinVersion))
		if a.MaxVersion != a.MinVersion {
			line += " to " + strconv.Itoa(int(a.MaxVersion))
		}
		use := min(own.max, a.MaxVersion)
		switch {
		case !known:
		case use < max(own.min, a.MinVersion):
			line += " [unusable]"
		default:
			line += fmt.Sprintf(" [usable: %d]", use)
		}
		lines[i] = line
	}
	return lines
}
