package depth

import (
	"maps"
	"slices"
)

// Why a code is not seen here.
const (
	anAuthorizer  = "needs an authorizer, which neither server has here"
	anotherBroker = "needs a second broker"
	transactions  = "needs transactions, which are not served yet"
	consumers     = "needs groups of the consumer protocol (KIP-848), which are not served yet"
	aQuota        = "needs a controller mutation quota, which AlterClientQuotas sets; it is not served yet"
	aBadDisk      = "needs a data directory that fails while sequences run; compat-tests/badinput makes one fail"
	aFreshStart   = "lasts for moments after a start; steps that restart the servers wait until it is over"
	aNullName     = "for a null group id, which no version of the request can carry"
	aResignation  = "has Kafka's controller resign beside all other sequences; package frames asks for it"
	neverAnswered = "4.4.0 answers nobody with it"
)

// named are the error codes by which the answers of each API that is served are
// known, by its key. The text says why a code is not seen on one node without an
// authorizer; one without a text has to be seen.
var named = map[int16]map[int16]string{
	0: { // Produce
		-1: "", 0: "", 2: "", 3: "", 10: "", 17: "", 18: "", 21: "", 32: "", 45: "", 47: "", 53: "", 76: "", 87: "", 100: "",
		6: anotherBroker, 7: anotherBroker, 19: anotherBroker, 20: anotherBroker, 29: anAuthorizer, 56: aBadDisk,
		46: neverAnswered + ": older duplicates are 45", 59: neverAnswered, 48: transactions, 49: transactions, 120: transactions,
	},
	1: { // Fetch
		-1: "", 0: "", 1: "", 3: "", 6: "", 70: "", 71: "", 74: "", 75: "", 100: "", 103: "", 106: "",
		29: anAuthorizer, 56: aBadDisk,
	},
	2: { // ListOffsets
		0: "", 3: "", 35: "", 42: "", 74: "", 75: "",
		6: anotherBroker, 29: anAuthorizer, 78: "needs a follower that becomes the leader",
	},
	3: { // Metadata
		0: "", 3: "", 17: "", 42: "", 100: "",
		5: "needs a partition without a leader, and so a second broker", 9: anotherBroker, 29: anAuthorizer, 72: "needs brokers with different listeners",
		129: neverAnswered + " at the top level",
	},
	8: { // OffsetCommit
		0: "", 3: "", 12: "", 22: "", 25: "", 27: "", 69: "", 82: "", 100: "",
		-1: "needs hundreds of partitions in one commit, with all the metadata that they may have",
		14: aFreshStart, 15: aFreshStart, 16: anotherBroker, 24: aNullName, 28: neverAnswered, 29: anAuthorizer, 30: anAuthorizer, 35: consumers, 113: consumers,
	},
	9: { // OffsetFetch
		0: "", 100: "",
		14: aFreshStart, 16: anotherBroker, 24: aNullName, 25: consumers, 29: anAuthorizer, 30: anAuthorizer, 88: transactions, 113: consumers,
	},
	10: { // FindCoordinator
		0: "", 42: "",
		15: aFreshStart, 30: anAuthorizer, 31: anAuthorizer, 53: anAuthorizer,
	},
	11: { // JoinGroup
		0: "", 23: "", 24: "", 25: "", 26: "", 79: "", 81: "", 82: "",
		14: aFreshStart, 15: aFreshStart, 16: anotherBroker, 30: anAuthorizer,
	},
	12: { // Heartbeat
		0: "", 22: "", 24: "", 25: "", 27: "", 82: "",
		14: aFreshStart, 15: "needs a group that is Dead and still there: one whose partition is handed to another broker", 16: anotherBroker, 30: anAuthorizer,
	},
	13: { // LeaveGroup
		0: "", 24: "", 25: "", 82: "",
		14: aFreshStart, 15: aFreshStart, 16: anotherBroker, 30: anAuthorizer,
	},
	14: { // SyncGroup
		-1: "", 0: "", 22: "", 23: "", 24: "", 25: "", 27: "", 82: "",
		14: aFreshStart, 15: aFreshStart, 16: anotherBroker, 30: anAuthorizer,
	},
	15: { // DescribeGroups
		0: "", 69: "", 24: aNullName,
		14: aFreshStart, 16: anotherBroker, 30: anAuthorizer,
	},
	16: { // ListGroups
		0:  "",
		14: aFreshStart,
	},
	18: { // ApiVersions
		0: "", 35: "", 42: "", 129: "",
	},
	19: { // CreateTopics
		0: "", 17: "", 36: "", 37: "", 38: "", 39: "", 40: "", 42: "", 44: "",
		29: anAuthorizer, 89: aQuota,
	},
	20: { // DeleteTopics
		0: "", 3: "", 42: "", 100: "",
		29: anAuthorizer, 73: "needs delete.topic.enable=false; compat-tests/frames has such servers", 89: aQuota,
	},
	21: { // DeleteRecords
		0: "", 1: "", 3: "", 17: "", 44: "",
		6: anotherBroker, 7: anotherBroker, 29: anAuthorizer,
	},
	22: { // InitProducerId
		0: "", 42: "",
		14: aFreshStart, 15: transactions, 16: transactions, 31: anAuthorizer, 35: "needs version 6, which is unstable", 47: transactions, 50: transactions, 51: transactions, 53: anAuthorizer, 90: transactions,
	},
	23: { // OffsetForLeaderEpoch
		0: "", 3: "", 74: "", 75: "",
		6: anotherBroker, 29: anAuthorizer,
	},
	29: {31: anAuthorizer, 54: ""},                                                           // DescribeAcls
	30: {-1: anAuthorizer, 42: anAuthorizer, 54: ""},                                         // CreateAcls
	31: {31: anAuthorizer, 42: anAuthorizer, 54: ""},                                         // DeleteAcls
	32: {0: "", 3: "", 17: "", 42: "", 29: anAuthorizer, 30: anAuthorizer, 31: anAuthorizer}, // DescribeConfigs
	33: {0: "", 3: "", 40: "", 42: "", 29: anAuthorizer, 30: anAuthorizer, 31: anAuthorizer}, // AlterConfigs
	34: {0: "", 3: "", 57: "", 31: anAuthorizer, 56: aBadDisk},
	35: {0: "", 31: anAuthorizer, 56: aBadDisk}, // DescribeLogDirs
	37: { // CreatePartitions
		0: "", 3: "", 37: "", 39: "", 42: "", 44: "",
		29: anAuthorizer, 60: anotherBroker, 89: aQuota,
	},
	42: { // DeleteGroups
		0: "", 68: "", 69: "",
		16: anotherBroker, 24: aNullName, 30: anAuthorizer, 134: "needs a plugin for the topologies of streams groups",
	},
	43: { // ElectLeaders
		0: "", 3: "", 42: "", 84: "",
		31: anAuthorizer, 80: anotherBroker, 83: anotherBroker,
	},
	44: {-1: aResignation, 0: "", 3: "", 40: "", 42: "", 29: anAuthorizer, 30: anAuthorizer, 31: anAuthorizer}, // IncrementalAlterConfigs
	45: {0: "", 3: "", 39: "", 85: "", 31: anAuthorizer, 38: anotherBroker},                                    // AlterPartitionReassignments
	46: {0: "", 31: anAuthorizer},                                                                              // ListPartitionReassignments
	47: { // OffsetDelete
		0: "", 3: "", 69: "", 86: "",
		14: aFreshStart, 16: anotherBroker, 29: anAuthorizer, 30: anAuthorizer,
	},
	55: {0: "", 3: "", 31: anAuthorizer},                                                                               // DescribeQuorum
	57: {0: "", 31: anAuthorizer, 95: ""},                                                                              // UpdateFeatures
	60: {0: "", 114: "", 115: "", 42: "needs version 0 on a controller's listener; compat-tests/frames speaks to one"}, // DescribeCluster
	61: { // DescribeProducers
		0: "", 3: "", 17: "",
		6: anotherBroker, 29: anAuthorizer,
	},
	64: {0: anotherBroker, 31: anAuthorizer, 102: ""}, // UnregisterBroker
	71: {0: "", 89: ""},
	72: {0: "", 42: "", 76: "", 87: "needs a plugin that takes metrics, which Apache Kafka does not bring along", 89: "", 117: "", 118: ""},
	74: {0: "", 31: anAuthorizer, 35: ""}, // ListConfigResources
	75: {0: "", 3: "", 17: "", 42: "", 29: anAuthorizer},
}

// Unseen is a code that an API is known by and that was not seen.
type Unseen struct {
	Key, Code int16
	Why       string // "" where nothing explains it
}

// UnseenCodes holds the codes that were seen, by API key, against those that are
// named. Sorted by key and code.
func UnseenCodes(seen map[int16][]int16) []Unseen {
	var out []Unseen
	for _, key := range slices.Sorted(maps.Keys(named)) {
		for _, code := range slices.Sorted(maps.Keys(named[key])) {
			if !slices.Contains(seen[key], code) {
				out = append(out, Unseen{key, code, named[key][code]})
			}
		}
	}
	return out
}
