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
	{API: "DescribeConfigs", Old: true, Purpose: &Old, Why: "the field that says that a config has its default, which version 0 alone has, is filled; 3.9 leaves it", At: at(`\.IsDefault: true against false$`)},
	{API: "Fetch", Old: true, Purpose: &Old, Why: "where zstd is refused the records are empty, as beside any other error; 3.9 answers null, which clients of that time cannot read",
		At: at(`\.RecordBatches: (\[\]|"") against null$`)},
	{API: "OffsetCommit", Old: true, Purpose: &Old, Why: "a partition is answered as often as it was asked; 3.9 answers it once", At: at(`(Topics|Partitions): \d+ elements against \d+: `)},
	{API: "OffsetCommit", Old: true, Purpose: &Old, Why: "a group that holds nothing any more is forgotten when its time comes; 3.9 forgets it as topics are deleted, and tells a generation of it from none", At: at(
		`^commit.*\.ErrorCode: 25 against 22$`)},
}
