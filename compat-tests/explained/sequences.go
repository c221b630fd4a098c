package explained

import "regexp"

func at(pattern string) *regexp.Regexp { return regexp.MustCompile(pattern) }

// Sequences are the differences that sequences of requests show.
var Sequences = []Difference{
	{API: "Metadata", Purpose: &Created, Why: "a topic that is created on demand is told of with its id and partitions, where Kafka answers 3 or 5 for it",
		At: at(`, create true.*\.Topics\."[^"]+"\.(ErrorCode: 0 against [35]|TopicID: "<TopicID \d+>" against "<none>"|Partitions: (\[.+\] against null|1 elements against 0: .*))$`)},
	{API: "DescribeConfigs", Purpose: &OneNode, Why: "what each server is started with, and what has a default here", At: at(
		`\.Configs\."?(advertised.listeners|controller.listener.names|controller.quorum.voters|process.roles|listeners|log.dirs|node.id|broker.id)"?\.(Value|Source|IsDefault|ConfigSynonyms)`)},
	{API: "DescribeConfigs", Purpose: &OneNode, Why: "the default beneath what is configured", At: at(
		`\.Configs\."?(group.initial.rebalance.delay.ms|[a-z.]*replication.factor|[a-z.]*min.isr)"?\.ConfigSynonyms`)},
	{API: "DescribeConfigs", Ticket: "KIP-412", Why: "loggers are named after each server's own parts", At: at(
		`type 8 .*\.Configs\."[\w.$]+": (null against \{.*|\{.* against null)$`)},
	{API: "DescribeConfigs", Purpose: &OneNode, Why: "the level that each server logs at", At: at(`type 8 .*\.Configs\."root"\.Value: "INFO" against "[A-Z]+"$`)},
	{API: "UpdateFeatures", Purpose: &Unbuilt, Why: "Kafka would raise kraft.version to 1", At: at(`kraft.version.*(\.ErrorCode: 95 against 0|\.ErrorMessage: "<text>" against null|\.Results: null against \[\{"ErrorCode":0,.*)$`)},
	{API: "IncrementalAlterConfigs", Purpose: &Unbuilt, Why: "a setting that asks for protection, or for a provider of configs, is refused while there is none", At: at(
		`: (listener\.name\.[a-z]+\.)?(config\.providers|sasl\.[a-z.]+|ssl\.[a-z.]+)=.*\.(ErrorCode: 42 against 0|ErrorMessage: "<text>" against null)$`)},
	{API: "IncrementalAlterConfigs", Purpose: &Inherited, Why: "log.flush.interval.ms below 0: Kafka takes it, cannot apply it, and creates no topic any more", At: at(
		`log\.flush\.interval\.ms( op \d "|=")-\d+".*\.(ErrorCode: 42 against 0|ErrorMessage: "<text>" against null)$`)},
	{API: "AlterConfigs", Purpose: &Inherited, Why: "log.flush.interval.ms below 0, as in the newer request", At: at(
		`log\.flush\.interval\.ms op \d "-\d+".*\.(ErrorCode: 42 against 0|ErrorMessage: "<text>" against null)$`)},
	{API: "PushTelemetry", Purpose: &Telemetry, Why: "what is no OTLP is refused with INVALID_RECORD; Kafka drops it unread", At: at(`\.ErrorCode: 87 against 0$`)},
}
