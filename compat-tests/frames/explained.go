package frames

import (
	"regexp"
	"strings"
)

// explanation is a difference that is meant.
type explanation struct {
	// at matches "API/case/vN: what.path: ours against Kafka's".
	at  *regexp.Regexp
	why string
}

func explain(at, why string) explanation { return explanation{regexp.MustCompile(at), why} }

// explained lists every difference that is meant. One that a whole run does not
// meet any more fails too.
var explained = []explanation{
	// Produce.
	explain(`^Produce/null records/.*: answered against no answer`, "a fault of Kafka: it fails on null records and never answers; INVALID_RECORD (87) here"),
	explain(`^Produce/shape/.*: length of 2 GiB .*ErrorCode: (87|0) against -1$`, "Kafka's sum of length and 12 overflows and it fails; here a batch longer than what came is a cut one (87; in versions below 3 there is nothing to append then)"),
	explain(`^Produce/shape/.*: a partition twice, the last bad stored`, "Kafka refuses the last batch and appends the first all the same; here what is answered with an error is not stored"),
	explain(`^Produce/records/.*: packed \d: (length too small|length too large|length 0) .*(ErrorCode: 87 against 0|BaseOffset: -1 against \d+)$`,
		"Kafka skips over compressed records and stores what no consumer can read; here every record is walked"),

	// Fetch.
	explain(`^Fetch/old sets zstd/.*RecordBatches: "" against null$`, "3.9 answers zstd with null records, which clients of that time cannot read; here the records are empty beside the error, as they are beside any other"),

	explain(`^Fetch/old sets compacted/.*`+firstGivesNothing+` \(.*RecordBatches: `, "a fault of 3.9.2: where the first batches that are read become no messages, as of a cleaned log or of transactions' markers, what the next one becomes is sent twice, and clients take it twice; here it is sent once"),

	// Telemetry.
	explain(`^PushTelemetry/refused/.*: (no metrics|not unpackable) .*ErrorCode: 87 against 0$`, "Kafka without a plugin drops what is pushed unread; here it is read, and what is no OTLP refused"),

	// Topics and metadata.
	explain(`^Metadata/created on demand/.*"[^"]*Metad.*ErrorCode: 17 against 3$`,
		"topics that a request creates exist when it is answered, so a name that collides is known to be refused; Kafka answers 3 while it tries"),
	explain(`^CreateTopics/configs/v1: \["(segment.bytes" "1048575|message.format.version" "3.0|message.timestamp.difference.max.ms" "5)"\]`,
		"4.0 raised the least segment.bytes and removed keys; 3.9.2, which is asked in version 1, had not yet"),

	explain(`^DescribeTopicPartitions/cursors/.*: behind the last[^:]*2147483647`, "Kafka's sum of the cursor's partition and the limit overflows, and the page ends there with a cursor that is none; here it ends as behind any other end"),

	// The quorum.
	explain(`^AlterConfigs/groups and metrics/.*\d+ type (32|16) \[".*"\] .*Error(Code: 42 against 0|Message: .* against null)$`,
		"Kafka's controller passes over a key without a value that its broker refuses; both listeners refuse it here"),

	// Configs: what this run's servers are told on their command lines.
	explain(`^DescribeConfigs/broker/.*"(advertised.listeners|controller.listener.names|controller.quorum.voters|process.roles)"`,
		"Kafka's node is configured with these, and one node of Millrace needs none of them"),
	explain(`^DescribeConfigs/broker/.*"(listeners|log.dirs)".*Value: `, "each server's own ports and directories; Millrace's defaults suit one node, on loopback only"),
	explain(`^DescribeConfigs/broker/.*"log.dirs".ConfigSynonyms: 2 elements against 1`, "log.dirs has a default, so that a directory that is not formatted is founded without any configuration"),
	explain(`^DescribeConfigs/broker/.*"node.id".ConfigSynonyms: 2 elements against 1`, "node.id has a default that suits one node"),
	explain(`^DescribeConfigs/broker/.*"group.initial.rebalance.delay.ms".ConfigSynonyms\[1\].Value: "0" against "3000"$`, "the default of the initial rebalance delay suits one node"),
	explain(`^AlterConfigs/refused/.*: a resource twice .*: answered against no answer$`, "a fault of Kafka: it fails on a resource that comes twice in the older request and never answers; INVALID_REQUEST here, as in the newer one"),
	explain(`^DescribeConfigs/.*/v0: .*IsDefault: true against false$`, "3.9.2 leaves the field of version 0 unfilled"),
	explain(`^DescribeConfigs/topics/v0: .*"(errors.deadletterqueue.group.enable|max.decompressed.message.bytes|message.downconversion.enable|message.format.version|message.timestamp.difference.max.ms|remote.copy.lag.bytes|remote.copy.lag.ms)": `,
		"keys that came, or went, after 3.9.2, which is asked in version 0"),
	explain(`^DescribeConfigs/topics/v0: .*"message.timestamp.after.max.ms".Value: "3600000" against "9223372036854775807"$`, "4.0 changed the default; 3.9.2 is asked in version 0"),
}

// Explained says why a difference is meant; "" if it is not. seen counts the
// explanations used. What is meant on the broker listener is meant on the
// controller's.
func Explained(difference string, seen func(at string)) string {
	difference = strings.Replace(difference, onController+"/", "/", 1)
	for _, e := range explained {
		if e.at.MatchString(difference) {
			seen(e.at.String())
			return e.why
		}
	}
	return ""
}
