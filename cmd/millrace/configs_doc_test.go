package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"millrace/controller/config"
)

var update = flag.Bool("update", false, "write docs/configs.md and the golden files anew")

// shownBy names, for every config that is honoured, the test that shows it. What
// topics inherit stands with the topic's own config.
var shownBy = []struct {
	test string
	// keys are those of brokers, topic and subscription those of the others.
	keys, topic, subscription string
}{
	{test: "broker/brokertest.TestRetentionConfigs",
		keys:  "log.retention.ms log.retention.minutes log.retention.hours log.retention.bytes log.cleanup.policy log.segment.delete.delay.ms log.retention.check.interval.ms log.initial.task.delay.ms",
		topic: "retention.ms retention.bytes cleanup.policy file.delete.delay.ms"},
	{test: "broker/brokertest.TestSegmentConfigs",
		keys:  "log.segment.bytes log.roll.ms log.roll.hours log.roll.jitter.ms log.roll.jitter.hours log.index.size.max.bytes log.index.interval.bytes log.preallocate",
		topic: "segment.bytes internal.segment.bytes segment.ms segment.jitter.ms segment.index.bytes index.interval.bytes preallocate"},
	{test: "broker/brokertest.TestCompactionConfigs",
		keys:  "log.cleaner.backoff.ms log.cleaner.delete.retention.ms log.cleaner.enable log.cleaner.io.max.bytes.per.second log.cleaner.max.compaction.lag.ms log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms",
		topic: "delete.retention.ms max.compaction.lag.ms min.cleanable.dirty.ratio min.compaction.lag.ms"},
	{test: "storage.TestCleanerSettings", keys: "log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size log.cleaner.threads"},
	{test: "broker/brokertest.TestFlushConfigs",
		keys:  "log.flush.interval.messages log.flush.interval.ms log.flush.scheduler.interval.ms",
		topic: "flush.messages flush.ms"},
	{test: "broker/brokertest.TestMessageConfigs",
		keys:  "message.max.bytes max.decompressed.message.bytes log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms log.message.timestamp.type",
		topic: "max.message.bytes max.decompressed.message.bytes message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type"},
	{test: "broker/brokertest.TestCompressionConfigs",
		keys:  "compression.type compression.gzip.level compression.lz4.level compression.zstd.level",
		topic: "compression.type compression.gzip.level compression.lz4.level compression.zstd.level"},
	{test: "broker/brokertest.TestTopicDefaultConfigs", keys: "num.partitions auto.create.topics.enable delete.topic.enable"},
	{test: "broker/brokertest.TestGroupConfigs", keys: "group.min.session.timeout.ms group.max.session.timeout.ms group.initial.rebalance.delay.ms group.max.size"},
	{test: "broker/brokertest.TestOffsetConfigs", keys: "offset.metadata.max.bytes offsets.topic.num.partitions offsets.topic.segment.bytes offsets.topic.compression.codec offsets.load.buffer.size offsets.retention.minutes offsets.retention.check.interval.ms"},
	{test: "broker/brokertest.TestProducerConfigs", keys: "producer.id.expiration.check.interval.ms"},
	{test: "broker/brokertest.TestProducersExpireAsIsSetMeanwhile", keys: "producer.id.expiration.ms"},
	{test: "broker/brokertest.TestFetchConfigs", keys: "fetch.max.bytes max.incremental.fetch.session.cache.slots"},
	{test: "broker/brokertest.TestTopicPages", keys: "max.request.partition.size.limit"},
	{test: "broker/brokertest.TestConnectionConfigs", keys: "max.connections max.connections.per.ip max.connections.per.ip.overrides max.connection.creation.rate connections.max.idle.ms socket.request.max.bytes"},
	{test: "broker/brokertest.TestCordonedDirectories", keys: "cordoned.log.dirs"},
	{test: "broker/brokertest.TestMoveRate", keys: "replica.alter.log.dirs.io.max.bytes.per.second"},
	{test: "broker/brokertest.TestCheckpointConfigs", keys: "log.flush.offset.checkpoint.interval.ms replica.high.watermark.checkpoint.interval.ms"},
	{test: "broker/brokertest.TestRecoveryThreads", keys: "num.recovery.threads.per.data.dir"},
	{test: "broker/brokertest.TestSessionConfigs", keys: "broker.heartbeat.interval.ms broker.session.timeout.ms"},
	{test: "broker/brokertest.TestIdentityConfigs", keys: "node.id broker.id broker.rack"},
	{test: "broker/brokertest.TestListenersChange", keys: "listeners listener.security.protocol.map"},
	{test: "broker/brokertest.TestAdvertisedListeners", keys: "advertised.listeners"},
	{test: "broker.TestRequestBudget", keys: "queued.max.request.bytes"},
	{test: "broker.TestRequestTimeout", keys: "request.timeout.ms"},
	{test: "broker/coordinator.TestPatienceEnds", keys: "offsets.commit.timeout.ms"},
	{test: "broker/partition.TestMinInsyncReplicas", keys: "min.insync.replicas", topic: "min.insync.replicas"},
	{test: "broker/replica.TestShrinkAndStandStill", keys: "replica.lag.time.max.ms"},
	{test: "broker/telemetry.TestTranscripts", subscription: "interval.ms match metrics"},
	{test: "broker/telemetry.TestBounds", keys: "telemetry.max.bytes"},
	{test: "controller/config.TestDirectories", keys: "log.dir log.dirs metadata.log.dir"},
	{test: "controller/config.TestShippedFormsAreTaken", keys: "default.replication.factor offsets.topic.replication.factor"},
	{test: "controller/config.TestRefusedConfigurations", keys: "process.roles controller.listener.names controller.quorum.voters controller.quorum.bootstrap.servers inter.broker.listener.name security.inter.broker.protocol"},
	{test: "controller/state.TestTranscripts", keys: "unclean.leader.election.enable", topic: "unclean.leader.election.enable"},
	{test: "storage.TestCheckpointsFollow", keys: "log.flush.start.offset.checkpoint.interval.ms"},
	{test: "wire.TestSocketBuffers", keys: "socket.send.buffer.bytes socket.receive.buffer.bytes"},
}

// tests gives for each config the test that shows it, as "scope name".
func tests(t *testing.T) map[string]string {
	m := map[string]string{}
	for _, s := range shownBy {
		for scope, keys := range map[config.Scope]string{config.BrokerScope: s.keys, config.TopicScope: s.topic, config.ClientMetricsScope: s.subscription} {
			for _, key := range strings.Fields(keys) {
				k, ok := config.Find(scope, key)
				at := scope.String() + " " + key
				if !ok || k.Effect != config.Honoured || m[at] != "" {
					t.Errorf("%s shows %s: no honoured config, or shown twice", s.test, at)
				}
				m[at] = s.test
			}
		}
	}
	return m
}

// exists says whether a test is there: "folder.TestName".
func exists(test string) bool {
	i := strings.LastIndexByte(test, '.')
	files, _ := filepath.Glob(filepath.Join("..", "..", test[:i], "*_test.go"))
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == test[i+1:] {
				return true
			}
		}
	}
	return false
}

// docs/configs.md is made from the catalogue and says of every config what it does
// here: what is called honoured has a test that shows it.
func TestConfigsAreDocumented(t *testing.T) {
	shown := tests(t)
	for _, s := range shownBy {
		if !exists(s.test) {
			t.Errorf("there is no %s", s.test)
		}
	}
	if exists("broker.TestOfNothing") || exists("nowhere.TestRequestBudget") {
		t.Error("tests that do not exist are found")
	}
	var doc strings.Builder
	doc.WriteString(configsIntroduction)
	for _, scope := range []config.Scope{config.BrokerScope, config.TopicScope, config.GroupScope, config.ClientMetricsScope} {
		fmt.Fprintf(&doc, "\n## %s\n\n%s\n\n", map[config.Scope]string{
			config.BrokerScope: "Brokers", config.TopicScope: "Topics", config.GroupScope: "Groups", config.ClientMetricsScope: "Client metrics subscriptions",
		}[scope], map[config.Scope]string{
			config.BrokerScope:        "*Changed* says whether a running broker takes a new value: for itself (broker) or for all (cluster too).",
			config.TopicScope:         "All can be changed at any time. *Falls back to* are the broker's configs that hold where a topic sets nothing.",
			config.GroupScope:         "All can be changed at any time, for groups that do not exist yet as well.",
			config.ClientMetricsScope: "Each subscription has a name of its own choice (KIP-714).",
		}[scope])
		columns := "| config | type | default | values | changed | here | what it is |\n|---|---|---|---|---|---|---|\n"
		if scope != config.BrokerScope {
			columns = strings.Replace(columns, "changed", "falls back to", 1)
		}
		doc.WriteString(columns)
		for _, k := range config.Keys(scope) {
			test := shown[scope.String()+" "+k.Name]
			if k.Effect == config.Honoured && test == "" {
				t.Errorf("no test shows %s %s", scope, k.Name)
			}
			fmt.Fprintf(&doc, "| `%s` | %s | %s | %s | %s | %s | %s |\n", k.Name, strings.ToLower(k.Type.Name()), fallback(k), cell(k.Rule.String()), changed(scope, k), here(k, test), cell(k.Doc))
		}
	}
	path := filepath.Join("..", "..", "docs", "configs.md")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(doc.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != doc.String() {
		t.Errorf("docs/configs.md is stale: go test ./cmd/millrace -run TestConfigsAreDocumented -update (%v)", err)
	}
}

const configsIntroduction = `# Configs

Every config of Apache Kafka 4.4.0 is known: its name, type, default, allowed values, and where it can be changed. This page is
made from the same table that reads server.properties and answers DescribeConfigs (controller/config), and says what each does
here:

- **honoured**: it has the effect that Kafka documents; the test that shows it is named, by folder.
- **meaningless**: accepted and stored, and there is nothing here that it could change; why is said.
- **waiting**: accepted and stored, without effect until what it waits for is built. Setting such a key is said in the log, once.
- **refused**: asks for protection that is not built. A start with it fails; it is never ignored.

A config that is honoured takes effect at once wherever Kafka can change it on a running broker, at each level: of a topic, of a
broker, of the cluster. Keys under ` + "`listener.name.<listener>.`" + ` are honoured for max.connections and
max.connection.creation.rate. An unknown key is stored, as Kafka does for its plugins, and named in the log with the known key
that it resembles. ` + "`queued.max.request.bytes=-1`" + ` stands for 256 MiB, or the largest request if that is more.
Listeners that are added to a running broker are open at once, and the broker registers with them at once, so that its clients
are told of them; Kafka leaves that to the next start.
`

func fallback(k *config.Key) string {
	switch {
	case k.Required:
		return "(required)"
	case k.Null:
		return "null"
	case k.Default == "":
		return "(empty)"
	}
	return "`" + cell(k.Default) + "`"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

func changed(scope config.Scope, k *config.Key) string {
	if scope != config.BrokerScope {
		names := k.SynonymNames()
		for i := range names {
			names[i] = "`" + names[i] + "`"
		}
		return strings.Join(names, ", ")
	}
	return map[config.Update]string{config.ReadOnly: "at a start", config.ClusterWide: "cluster too", config.PerBroker: "broker"}[k.Update]
}

func here(k *config.Key, test string) string {
	switch k.Effect {
	case config.Honoured:
		return "honoured (" + test + ")"
	case config.NoEffect:
		return "meaningless: " + k.Reason
	case config.Waiting:
		return "waiting for " + k.Reason
	}
	return "refused: asks for " + k.Reason
}

// What the configs wait for is one of a few works, so that whoever builds one of
// them finds its configs.
func TestWhatConfigsWaitFor(t *testing.T) {
	works := []string{
		"the consumer group protocol", "share groups", "streams groups", "transactions", "tiered storage", "replication", "clusters of several nodes",
		"SASL", "delegation tokens", "quotas", "an authorizer",
	}
	for _, scope := range []config.Scope{config.BrokerScope, config.TopicScope, config.GroupScope, config.ClientMetricsScope} {
		for _, k := range config.Keys(scope) {
			if k.Effect == config.Waiting && !slices.Contains(works, k.Reason) {
				t.Errorf("%s %s waits for %q, which is none of %q", scope, k.Name, k.Reason, works)
			}
		}
	}
}
