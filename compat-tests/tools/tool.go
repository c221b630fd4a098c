package tools

import (
	"regexp"
	"slices"
	"strings"
)

// Tool is one of Kafka's command-line tools.
type Tool struct {
	Name  string // of the script that starts it, without .sh
	Class string // whose main method it is
}

const pkg = "org.apache.kafka.tools."

// Tools lists every tool that talks to a broker or reads its files, in the order
// of the report.
var Tools = []Tool{
	{"kafka-topics", pkg + "TopicCommand"},
	{"kafka-configs", pkg + "ConfigCommand"},
	{"kafka-console-producer", pkg + "ConsoleProducer"},
	{"kafka-console-consumer", pkg + "consumer.ConsoleConsumer"},
	{"kafka-console-share-consumer", pkg + "consumer.ConsoleShareConsumer"},
	{"kafka-consumer-groups", pkg + "consumer.group.ConsumerGroupCommand"},
	{"kafka-groups", pkg + "GroupsCommand"},
	{"kafka-share-groups", pkg + "consumer.group.ShareGroupCommand"},
	{"kafka-streams-groups", pkg + "streams.StreamsGroupCommand"},
	{"kafka-get-offsets", pkg + "GetOffsetShell"},
	{"kafka-delete-records", pkg + "DeleteRecordsCommand"},
	{"kafka-log-dirs", pkg + "LogDirsCommand"},
	{"kafka-dump-log", pkg + "DumpLogSegments"},
	{"kafka-broker-api-versions", pkg + "BrokerApiVersionsCommand"},
	{"kafka-features", pkg + "FeatureCommand"},
	{"kafka-cluster", pkg + "ClusterTool"},
	{"kafka-metadata-quorum", pkg + "MetadataQuorumCommand"},
	{"kafka-leader-election", pkg + "LeaderElectionCommand"},
	{"kafka-reassign-partitions", pkg + "reassign.ReassignPartitionsCommand"},
	{"kafka-replica-verification", pkg + "ReplicaVerificationTool"},
	{"kafka-client-metrics", pkg + "ClientMetricsCommand"},
	{"kafka-transactions", pkg + "TransactionsCommand"},
	{"kafka-acls", pkg + "AclCommand"},
	{"kafka-delegation-tokens", pkg + "DelegationTokenCommand"},
	{"kafka-streams-application-reset", pkg + "StreamsResetter"},
	{"kafka-producer-perf-test", pkg + "ProducerPerformance"},
	{"kafka-consumer-perf-test", pkg + "ConsumerPerformance"},
	{"kafka-share-consumer-perf-test", pkg + "ShareConsumerPerformance"},
	{"kafka-e2e-latency", pkg + "EndToEndLatency"},
	{"kafka-verifiable-producer", pkg + "VerifiableProducer"},
	{"kafka-verifiable-consumer", pkg + "VerifiableConsumer"},
	{"kafka-verifiable-share-consumer", pkg + "VerifiableShareConsumer"},
}

// ToolNamed finds a tool.
func ToolNamed(name string) (Tool, bool) {
	i := slices.IndexFunc(Tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return Tool{}, false
	}
	return Tools[i], true
}

// Help is what a tool's --help told.
type Help struct {
	Options     []string // long forms, as "--x"
	Subcommands []string
}

var (
	optionLine  = regexp.MustCompile(`^(?:\* | {0,2})(--?[A-Za-z][A-Za-z0-9.-]*)(?:, (--[A-Za-z0-9.-]+))?(?:[ ,]|$)`)
	commandLine = regexp.MustCompile(`^ {4}([A-Za-z-]+)(?: |$)`)
	choiceLine  = regexp.MustCompile(`^  \{([a-z,-]+)\}`)
)

// ParseHelp reads the options and subcommands out of a usage text, of either of
// the two libraries that Kafka's tools parse their command lines with.
func ParseHelp(text string) Help {
	var h Help
	positional, commands := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n ")
		if line == "positional arguments:" {
			positional = true
			continue
		}
		if line == "commands:" {
			commands = true
			continue
		}
		if m := commandLine.FindStringSubmatch(line); commands && m != nil {
			h.Subcommands = append(h.Subcommands, m[1])
		}
		if positional {
			if m := choiceLine.FindStringSubmatch(line); m != nil {
				h.Subcommands = strings.Split(m[1], ",")
				positional = false
			}
		}
		m := optionLine.FindStringSubmatch(line)
		if m == nil || strings.Trim(m[1], "-") == "" {
			continue
		}
		name := m[1]
		if m[2] != "" {
			name = m[2]
		}
		if !slices.Contains(h.Options, name) {
			h.Options = append(h.Options, name)
		}
	}
	return h
}
