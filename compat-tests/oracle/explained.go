package oracle

import "regexp"

// explanation is a difference that is meant.
type explanation struct {
	// at matches "API vN: what.path: ours against Kafka's".
	at *regexp.Regexp
	// why cites what the design says on differing on purpose, or a KIP or ticket of
	// Kafka's, or says which fault of Kafka's it is.
	why string
	// ends: what follows in the sequence is not to be compared, as the servers now
	// hold different things.
	ends bool
}

// explained is the one table of differences that are meant.
var explained = []explanation{
	{regexp.MustCompile(`^DescribeQuorum .*ReplicaDirectoryID: `), "voters are known by their directories here, also at kraft.version 0 (KIP-853 tells them from 1 on)", false},
	{regexp.MustCompile(`^Metadata .*, create true.*\.Topics`), "auto-created topics exist when the request that needed them is answered", false},
	{regexp.MustCompile(`^DescribeConfigs .*"(advertised.listeners|controller.listener.names|controller.quorum.voters|process.roles|listeners|log.dirs|node.id|broker.id)"`), "defaults suit one node, and each server has its own ports and directories", false},
	{regexp.MustCompile(`^DescribeConfigs .*"(group.initial.rebalance.delay.ms|[a-z.]*replication.factor|[a-z.]*min.isr)".ConfigSynonyms`), "defaults for replication factor and initial rebalance delay suit one node", false},
	{regexp.MustCompile(`^DescribeConfigs .* type 8 .*\.Configs`), "loggers are named after each server's own parts", false},
	{regexp.MustCompile(`^DescribeLogDirs .*\.Size: `), "records that a broker compresses anew take other room with another codec's code; the records themselves are compared", false},
	{regexp.MustCompile(`^UpdateFeatures .*kraft.version.*(ErrorCode: 95 against 0|ErrorMessage: )`), "no feature level is offered ahead of its code", false},
	{regexp.MustCompile(`^PushTelemetry .*ErrorCode: 87 against 0`), "telemetry is served without a plugin; Kafka without one drops what is pushed unread", false},
}

// explain says why a difference is meant; nil if it is not.
func explain(difference string) *explanation {
	for i := range explained {
		if explained[i].at.MatchString(difference) {
			return &explained[i]
		}
	}
	return nil
}
