package shell

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"millrace/broker"
	"millrace/controller/config"
)

// aBroker runs a broker in this process and gives its address.
func aBroker(t *testing.T, props ...string) string {
	t.Helper()
	set := map[string]string{"log.dirs": t.TempDir(), "listeners": "PLAINTEXT://127.0.0.1:0", "group.initial.rebalance.delay.ms": "0"}
	for _, p := range props {
		k, v, _ := strings.Cut(p, "=")
		set[k] = v
	}
	static, _, err := config.ParseStatic(set)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan broker.Info, 1), make(chan error, 1)
	go func() {
		ended <- broker.Run(ctx, broker.Options{Config: static, ClusterID: "MkU3OEVBNTcwNTJENDM2Qg", Ready: func(i broker.Info) { ready <- i }})
	}()
	select {
	case i := <-ready:
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		return i.Bootstrap[0]
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	return ""
}

// call is one command line and what it has to say. Topic ids, ports and other
// things that no two runs share are masked.
type call struct {
	args           string
	stdin          string
	code           int
	stdout, stderr string // stderr: its first line
}

var masks = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`TopicId: [0-9A-Za-z_-]{22}`), "TopicId: ID"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "BROKER"},
}

func runCalls(t *testing.T, address string, calls []call) {
	t.Helper()
	for _, c := range calls {
		args := strings.Fields(strings.ReplaceAll(c.args, "B", "--bootstrap-server "+address))
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "~", " ")
		}
		code, stdout, stderr := try(t, c.stdin, args...)
		for _, m := range masks {
			stdout, stderr = m.what.ReplaceAllString(stdout, m.by), m.what.ReplaceAllString(stderr, m.by)
		}
		stderr, _, _ = strings.Cut(strings.TrimLeft(stderr, "\n"), "\n")
		if code != c.code || stdout != c.stdout || stderr != c.stderr {
			t.Errorf("%s:\ncode %d, want %d\nout  %q\nwant %q\nerr  %q\nwant %q", c.args, code, c.code, stdout, c.stdout, stderr, c.stderr)
		}
	}
}

// try runs one command line in this process.
func try(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, told strings.Builder
	sh := &Shell{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &told, Version: "unknown", Configuration: func(file string) (*config.Static, error) {
		list, err := propertiesOf(file)
		if err != nil {
			return nil, err
		}
		set := map[string]string{}
		for _, property := range list {
			set[property.Key] = property.Value
		}
		static, _, err := config.ParseStatic(set)
		return static, err
	}}
	if err := sh.Run(t.Context(), args[0], args[1:]); err != nil {
		code = 1
	}
	return code, out.String(), told.String()
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client.properties")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The lines and codes here are those of Kafka's own tools.
func TestTopicsTool(t *testing.T) {
	const collide = "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. To avoid issues it is best to use either, but not both.\n"
	const failed = "Error while executing topic command : "
	line := func(topic, partition string) string {
		return "\tTopic: " + topic + "\tPartition: " + partition + "\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: \n"
	}
	t1 := "Topic: t1\tTopicId: ID\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: retention.ms=60000,segment.bytes=1048576\n" + line("t1", "0") + line("t1", "1") + line("t1", "2")
	runCalls(t, aBroker(t), []call{
		{args: "topics B --list", stdout: "\n"},
		{args: "topics B --create --topic t1 --partitions 3 --replication-factor 1 --config retention.ms=60000 --config segment.bytes=1048576", stdout: "Created topic t1.\n"},
		{args: "topics B --create --topic t1", code: 1, stdout: failed + "Topic 't1' already exists.\n"},
		{args: "topics B --create --if-not-exists --topic t1"},
		{args: "topics B --create --topic under_score", stdout: collide + "Created topic under_score.\n"},
		{args: "topics B --create --topic a.b", stdout: collide + "Created topic a.b.\n"},
		{args: "topics B --create --topic bad/name", code: 1, stdout: failed + "Topic name is invalid: 'bad/name' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'\n"},
		{args: "topics B --create --topic t2 --config nonsense=1", code: 1, stdout: failed + "Unknown topic config name: nonsense\n"},
		{args: "topics B --create --topic t2 --partitions 0", code: 1, stdout: failed + "The partitions must be greater than 0\n"},
		{args: "topics B --create --topic t2 --partitions x", code: 1, stdout: failed + "Cannot parse argument 'x' of option partitions\n"},
		{args: "topics B --create --topic t2 --replica-assignment 1,1", stdout: "Created topic t2.\n"},
		{args: "topics B --create --topic t3 --replica-assignment 1,1:1", code: 1, stdout: failed + "Partition replica lists may not contain duplicate entries: 1\n"},
		{args: "topics B --create", code: 1, stderr: `Missing required argument "[topic]"`},
		{args: "topics B --list", stdout: "a.b\nt1\nt2\nunder_score\n"},
		{args: "topics B --list --exclude-internal --topic t.*", stdout: "t1\nt2\n"},
		{args: "topics B --list --topic zz", stdout: "\n"},
		{args: "topics B --describe --topic t1", stdout: t1},
		{args: "topics B --describe --topic t1,x.", stdout: t1},
		{args: "topics B --describe --topic zz", code: 1, stdout: failed + "Topic 'zz' does not exist as expected\n"},
		{args: "topics B --describe --topic zz --if-exists"},
		{args: "topics B --describe --topics-with-overrides", stdout: "Topic: t1\tTopicId: ID\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: retention.ms=60000,segment.bytes=1048576\n"},
		{args: "topics B --describe --under-replicated-partitions"},
		{args: "topics B --describe --unavailable-partitions"},
		{args: "topics B --alter --topic t1 --partitions 5"},
		{args: "topics B --alter --topic t1 --partitions 2", code: 1, stdout: failed + "The topic t1 currently has 5 partition(s); 2 would not be an increase.\n"},
		{args: "topics B --alter --topic zz --partitions 2", code: 1, stdout: failed + "Topic 'zz' does not exist as expected\n"},
		{args: "topics B --alter --topic zz --if-exists --partitions 2"},
		{args: "topics B --alter --topic t1", code: 1, stderr: `Missing required argument "[partitions]"`},
		{args: "topics B --delete --topic t3", code: 1, stdout: failed + "Topic 't3' does not exist as expected\n"},
		{args: "topics B --delete --topic t3 --if-exists"},
		{args: "topics B --delete --topic t1|a.b"},
		{args: "topics B --list", stdout: "t2\nunder_score\n"},
		{args: "topics B --delete", code: 1, stderr: `Missing required argument "[topic]"`},
		{args: "topics B --create --delete --topic x", code: 1, stderr: "Command must include exactly one action: --list, --describe, --create, --alter or --delete"},
		{args: "topics B", code: 1, stderr: "Command must include exactly one action: --list, --describe, --create, --alter or --delete"},
		{args: "topics B --list --if-not-exists", code: 1, stderr: `Option "[if-not-exists]" can't be used with option "[list]"`},
		{args: "topics B --create --topic t9 --if-exists", code: 1, stderr: `Option "[if-exists]" can't be used with option "[create]"`},
		{args: "topics B --list --nonsense", code: 1, stderr: "nonsense is not a recognized option"},
		{args: "topics --list", code: 1, stderr: "--bootstrap-server must be specified"},
		{args: "topics --version", stdout: "4.4.0\n"},
		{args: "topics", code: 1, stderr: "Create, delete, describe, or change a topic."},
	})
}

func TestClusterTools(t *testing.T) {
	address := aBroker(t)
	runCalls(t, address, []call{
		{args: "cluster cluster-id B", stdout: "Cluster ID: MkU3OEVBNTcwNTJENDM2Qg\n"},
		{args: "cluster cluster-id", code: 1, stderr: "argument --bootstrap-server/-b is required"},
		{args: "features describe", code: 1, stderr: "argument --bootstrap-server/-b is required"},
		{args: "features -C localhost:1 describe", code: 1, stderr: "--bootstrap-controller is not supported: ask a broker with --bootstrap-server"},
		{args: "metadata-quorum describe --status", code: 1, stderr: "argument --bootstrap-server/-b is required"},
		{args: "metadata-quorum -C localhost:1 describe --status", code: 1, stderr: "--bootstrap-controller is not supported: ask a broker with --bootstrap-server"},
		{args: "configs --describe --entity-type topics", code: 1, stderr: "argument --bootstrap-server is required"},
		{args: "cluster unregister B --id 1", code: 1, stderr: "unregister is not supported: a broker that is gone keeps its registration: clusters of several nodes are not available"},
		{args: "broker-api-versions", code: 1, stderr: `Missing required argument "[bootstrap-server]"`},
	})
	port := address[strings.LastIndexByte(address, ':')+1:]
	code, stdout, _ := try(t, "", "cluster", "list-endpoints", "-b", address)
	want := "ID         HOST      PORT       RACK       STATE      ENDPOINT_TYPE  \n1          127.0.0.1 " + port + "      null       unfenced   broker         \n"
	if code != 0 || stdout != want {
		t.Errorf("code %d, %q, want %q", code, stdout, want)
	}
	code, stdout, _ = try(t, "", "broker-api-versions", "--bootstrap-server", address)
	for _, want := range []string{
		address + " (id: 1 rack: null isFenced: false) -> (\n\tProduce(0): 0 to 13 [usable: 13],\n\tFetch(1): 0 to 18 [usable: 18],\n",
		"\tDescribeTransactions(65): ", "\n)\n",
	} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("code %d; %q is not in %s", code, want, stdout)
		}
	}
}

// A tool waits for a broker that is not up, and not for ever.
func TestUnreachableBroker(t *testing.T) {
	file := writeFile(t, "default.api.timeout.ms=200\nsome.java.tuning=1\n")
	code, stdout, _ := try(t, "", "topics", "--bootstrap-server", "127.0.0.1:1", "--command-config", file, "--list")
	if code != 1 || !strings.HasPrefix(stdout, "Error while executing topic command : Timed out after 200 ms: 127.0.0.1:1: ") {
		t.Errorf("code %d, %q", code, stdout)
	}
	for text, want := range map[string]string{
		"a=b\nsecurity.protocol=SASL_SSL\n": ":2: security.protocol=SASL_SSL is not supported: these tools speak PLAINTEXT only\n",
		"sasl.jaas.config=secret\n":         ":1: sasl.jaas.config is not supported: these tools speak PLAINTEXT only\n",
		"default.api.timeout.ms=x\n":        ":1: default.api.timeout.ms=x: not a number of milliseconds\n",
	} {
		file := writeFile(t, text)
		if code, _, stderr := try(t, "", "topics", "--bootstrap-server", "127.0.0.1:1", "--command-config", file, "--list"); code != 1 || stderr != file+want {
			t.Errorf("%q: code %d, %q", text, code, stderr)
		}
	}
	if code, _, stderr := try(t, "", "topics", "--bootstrap-server", "nowhere", "--list"); code != 1 || stderr != "Invalid url in bootstrap.servers: nowhere\n" {
		t.Errorf("code %d, %q", code, stderr)
	}
}

func TestConsoleAndGroups(t *testing.T) {
	address := aBroker(t, "offsets.topic.num.partitions=2")
	const warn = "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require either --dry-run or --execute to be specified. " +
		"You should add the --dry-run option explicitly if you are scripting this command and want to keep the current default behavior without prompting."
	const lag = "\nGROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID\n"
	const reset = "\nGROUP           TOPIC           PARTITION  NEW-OFFSET\n"
	const idle = "Consumer group 'g1' has no active members."
	runCalls(t, address, []call{
		{args: "topics B --create --topic u1 --partitions 1", stdout: "Created topic u1.\n"},
		{args: "console-producer B --topic u1", stdin: "one\ntwo\n\n"},
		{args: "console-producer B --topic u1 --reader-property parse.key=true --reader-property key.separator=: --reader-property parse.headers=true --compression-codec", stdin: "a:1,b:2\tk:v\n"},
		{args: "console-producer B --topic u1 --property parse.key=true --sync", stdin: "nothing\n", code: 1, stderr: "No key separator found on line number 1: 'nothing'"},
		{args: "console-producer B", code: 1, stderr: `Missing required argument "[topic]"`},
		{args: "get-offsets B --topic u1", stdout: "u1:0:4\n"},
		{args: "get-offsets B --topic-partitions u1:0 --time -2", stdout: "u1:0:0\n"},
		{args: "get-offsets B --topic u1 --partitions 1 --time earliest", code: 1, stderr: "Error occurred: Could not match any topic-partitions with the specified filters"},
		{args: "get-offsets B --topic zz", code: 1, stderr: "Error occurred: Could not match any topic-partitions with the specified filters"},
		{args: "console-consumer B --topic u1 --from-beginning --max-messages 2 --group g1", stdout: "one\ntwo\n", stderr: "Processed a total of 2 messages"},
		{args: "console-consumer B --topic u1 --partition 0 --offset 2 --max-messages 2 --formatter-property print.key=true --formatter-property print.headers=true --formatter-property print.offset=true --formatter-property print.partition=true",
			stdout: "Partition:0\tOffset:2\tNO_HEADERS\tnull\t\nPartition:0\tOffset:3\ta:1,b:2\tk\tv\n", stderr: "Processed a total of 2 messages"},
		{args: "console-consumer B --topic u1 --from-beginning --timeout-ms 300 --group g1", stdout: "\nv\n", stderr: "Processed a total of 2 messages"},
		{args: "console-consumer B", code: 1, stderr: "Exactly one of the following arguments is required: [topic], [include]"},
		{args: "console-consumer B --topic u1 --formatter x", code: 1, stderr: "--formatter is not supported: it names a Java class"},
		{args: "groups B --list", stdout: "GROUP                TYPE                  PROTOCOL             \ng1                   Classic               consumer             \n"},
		{args: "groups B", code: 1, stderr: "Command must include exactly one action: --list."},
		{args: "consumer-groups B --list", stdout: "g1\n"},
		{args: "consumer-groups B --list --state", stdout: "GROUP           STATE               \ng1              Empty               \n"},
		{args: "consumer-groups B --list --state Stable", stdout: "GROUP           STATE               \n"},
		{args: "consumer-groups B --list --type", stdout: "GROUP           TYPE                \ng1              Classic             \n"},
		{args: "consumer-groups B --describe --group g1", stderr: idle, stdout: lag + "g1              u1              0          4               4               0               -               -               -\n"},
		{args: "consumer-groups B --describe --all-groups --state", stderr: idle,
			stdout: "\nGROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS\ng1              BROKER  (1)      -                    Empty                0\n"},
		{args: "consumer-groups B --describe --group g1 --members", stderr: idle, stdout: "\nGROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     \n"},
		{args: "consumer-groups B --describe --group zz", stdout: "\nError: Executing consumer group command failed due to GroupIdNotFoundException: Group zz not found.\n"},
		{args: "consumer-groups B --reset-offsets --group g1 --topic u1 --to-earliest", stdout: reset + "g1              u1              0          0\n", stderr: warn},
		{args: "consumer-groups B --reset-offsets --group g1 --topic u1 --to-earliest --execute", stdout: reset + "g1              u1              0          0\n"},
		{args: "consumer-groups B --reset-offsets --group g1 --all-topics --shift-by 1 --execute", stdout: reset + "g1              u1              0          1\n"},
		{args: "consumer-groups B --reset-offsets --group g1 --topic u1:0 --to-offset 100 --execute", stdout: reset + "g1              u1              0          4\n",
			stderr: "New offset (100) is out of range for topic partition u1-0. Value will be set to 4"},
		{args: "consumer-groups B --reset-offsets --group g1 --topic u1 --to-datetime 2000-01-01T00:00:00.000 --export --dry-run", stdout: "u1,0,0\n\n"},
		{args: "consumer-groups B --reset-offsets --group g1 --topic u1", code: 1, stderr: warn},
		{args: "consumer-groups B --delete --group zz", stdout: "\nError: Deletion of some consumer groups failed:\n* Group 'zz' could not be deleted due to: The group id does not exist.\n"},
		{args: "consumer-groups B --delete --group g1", stdout: "Deletion of requested consumer groups ('g1') was successful.\n"},
		{args: "consumer-groups B --list"},
		{args: "consumer-groups B --describe", code: 1, stderr: "Option [describe] takes one of these options: [all-groups], [group]"},
		{args: "consumer-groups B", code: 1, stderr: "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets, --validate-regex"},
	})
}

// TestConsumerOfACorruptBatch changes a byte of a log that is read. The tool prints what lies before it, and says which
// batch it is that cannot be read.
func TestConsumerOfACorruptBatch(t *testing.T) {
	dir := t.TempDir()
	address := aBroker(t, "log.dirs="+dir)
	var calls []call
	calls = append(calls, call{args: "topics B --create --topic u1 --partitions 1", stdout: "Created topic u1.\n"})
	for _, value := range []string{"one\n", "two\n", "three\n"} {
		calls = append(calls, call{args: "console-producer B --topic u1", stdin: value})
	}
	// What is committed below the batch is where a group goes on.
	calls = append(calls, call{args: "console-consumer B --topic u1 --group g2 --from-beginning --max-messages 1", stdout: "one\n", stderr: "Processed a total of 1 messages"})
	runCalls(t, address, calls)
	name := filepath.Join(dir, "u1-0", strings.Repeat("0", 20)+".log")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(b), "two")
	if at < 0 {
		t.Fatal("the record is not in the log")
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("T"), int64(at)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, stdout string }{
		{"--from-beginning", "one\n"},
		{"--partition 0 --offset earliest", "one\n"},
		{"--partition 0 --offset 1", ""},
		{"--group g2", ""},
	} {
		code, stdout, stderr := try(t, "", strings.Fields("console-consumer --bootstrap-server "+address+" --topic u1 --timeout-ms 20000 "+c.args)...)
		want := regexp.MustCompile(`Record batch for partition u1-0 at offset 1 is invalid, cause: Record is corrupt \(stored crc = \d+, computed crc = \d+\)`)
		if code != 1 || stdout != c.stdout || !want.MatchString(stderr) {
			t.Errorf("%s: it ends with %d, %q, %q", c.args, code, stdout, stderr)
		}
	}
}

func TestConfigsTool(t *testing.T) {
	const u1 = "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}\n"
	runCalls(t, aBroker(t), []call{
		{args: "topics B --create --topic u1", stdout: "Created topic u1.\n"},
		{args: "configs B --describe --entity-type topics --entity-name u1", stdout: "Dynamic configs for topic u1 are:\n"},
		{args: "configs B --alter --entity-type topics --entity-name u1 --add-config retention.ms=60000,cleanup.policy=[compact,delete]", stdout: "Completed updating config for topic u1.\n"},
		{args: "configs B --describe --topic u1", stdout: "Dynamic configs for topic u1 are:\n" + u1 + "  retention.ms=60000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=60000}\n"},
		{args: "configs B --alter --topic u1 --delete-config retention.ms", stdout: "Completed updating config for topic u1.\n"},
		{args: "configs B --describe --entity-type topics", stdout: "Dynamic configs for topic u1 are:\n" + u1},
		{args: "configs B --describe --topic zz", stdout: "The topic 'zz' doesn't exist and doesn't have dynamic config.\n"},
		{args: "configs B --alter --broker 1 --add-config log.cleaner.threads=2", stdout: "Completed updating config for broker 1.\n"},
		{args: "configs B --describe --broker 1", stdout: "Dynamic configs for broker 1 are:\n  log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2, DEFAULT_CONFIG:log.cleaner.threads=1}\n"},
		{args: "configs B --alter --entity-type brokers --entity-default --add-config log.retention.ms=7000000", stdout: "Completed updating default config for brokers in the cluster.\n"},
		{args: "configs B --describe --broker-defaults", stdout: "Default configs for brokers in the cluster are:\n  log.retention.ms=7000000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=7000000}\n"},
		{args: "configs B --alter --group gg --add-config consumer.session.timeout.ms=50000", stdout: "Completed updating config for group gg.\n"},
		{args: "configs B --describe --group gg", stdout: "Dynamic configs for group gg are:\n  consumer.session.timeout.ms=50000 sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000, DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}\n"},
		{args: "configs B --alter --client-metrics cm --add-config interval.ms=1000,metrics=[a,b]", stdout: "Completed updating config for client-metric cm.\n"},
		{args: "configs B --describe --entity-type client-metrics --entity-name cm", stdout: "Dynamic configs for client-metric cm are:\n  interval.ms=1000 sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:interval.ms=1000}\n  metrics=a,b sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:metrics=a,b}\n"},
		{args: "configs B --alter --topic u1 --add-config nonsense=1", code: 1, stderr: "Error while executing config command with args '--bootstrap-server BROKER --alter --topic u1 --add-config nonsense=1'"},
		{args: "configs B --describe", code: 1, stderr: "At least one entity type must be specified"},
		{args: "configs B", code: 1, stderr: "Command must include exactly one action: --describe, --alter"},
		{args: "configs B --alter --topic u1", code: 1, stderr: "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"},
		{args: "configs B --describe --user alice", code: 1, stderr: "--user is not supported: users, clients and ips have quotas, which are not available"},
	})
}

func TestQuorumAndFeatures(t *testing.T) {
	address := aBroker(t)
	runCalls(t, address, []call{
		{args: "metadata-quorum B describe", code: 1, stderr: "One of --status or --replication must be specified with describe sub-command"},
		{args: "metadata-quorum B", code: 1, stderr: "too few arguments"},
		{args: "features B", code: 1, stderr: "too few arguments"},
		{args: "features B upgrade", code: 1, stderr: "upgrade is not supported: the levels are those that this broker founds a cluster with"},
	})
	code, stdout, _ := try(t, "", "features", "--bootstrap-server", address, "describe")
	want := "Feature: metadata.version                          SupportedMinVersion: 3.3-IV3          SupportedMaxVersion: 4.4-IV2          FinalizedVersionLevel: 4.4-IV2          Epoch: "
	if code != 0 || !strings.Contains(stdout, want) {
		t.Errorf("code %d, %q", code, stdout)
	}
}
