//go:build compat

package pains

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/launch"
)

// patience bounds what would otherwise hang; nothing here is to be fast, but to come without asking twice.
const patience = 60 * time.Second

func start(t *testing.T, o launch.Options) *launch.Broker {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "data")
	}
	b, err := launch.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Kill)
	return b
}

// impatient is a client that tries everything once.
func impatient(t *testing.T, address string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(address), kgo.RequestRetries(0), kgo.RecordRetries(0), kgo.UnknownTopicRetries(0), kgo.AllowAutoTopicCreation()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// run runs the binary under a name of its own and gives its exit code and output.
func run(t *testing.T, name string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	binary, err := launch.Binary()
	if err != nil {
		t.Fatal(err)
	}
	if name != "" {
		link := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(binary, link); err != nil {
			t.Fatal(err)
		}
		binary = link
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, binary, args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr, c.Env = &out, &errs, append(os.Environ(), env...)
	if err := c.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String()
}

// join makes a client the only member of a group, in the two steps that JoinGroup has for new members (KIP-394).
func join(ctx context.Context, c *kgo.Client, group string) error {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = group, "consumer", 30000, 30000
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = "range", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	req.Protocols = append(req.Protocols, protocol)
	for {
		resp, err := req.RequestWith(ctx, c)
		if err != nil {
			return err
		}
		err = kerr.ErrorForCode(resp.ErrorCode)
		if !errors.Is(err, kerr.MemberIDRequired) || req.MemberID != "" {
			return err
		}
		req.MemberID = resp.MemberID
	}
}

// partitions asks a broker itself how many partitions a topic has; 0: there is none.
func partitions(t *testing.T, c *kgo.Client, name string, create bool) []kmsg.MetadataResponseTopicPartition {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = create
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &name
	req.Topics = append(req.Topics, topic)
	resp, err := c.SeedBrokers()[0].Request(limited(t), req)
	if err != nil {
		t.Fatal(err)
	}
	got := resp.(*kmsg.MetadataResponse).Topics[0]
	switch err := kerr.ErrorForCode(got.ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return nil
	case err != nil:
		t.Fatalf("metadata of %s: %v", name, err)
	}
	return got.Partitions
}

func TestReadyMeansReady(t *testing.T) {
	for i := range 5 {
		dir := filepath.Join(t.TempDir(), "data")
		for _, life := range []string{"first", "second"} {
			b := start(t, launch.Options{Dir: dir})
			ctx := limited(t)
			c := impatient(t, b.Bootstrap)
			topic := fmt.Sprintf("ready-%s-%d", life, i)
			if err := c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatalf("%s start: the first record: %v", life, err)
			}
			if err := join(ctx, c, "g-"+topic); err != nil {
				t.Fatalf("%s start: JoinGroup: %v", life, err)
			}
			consumer := impatient(t, b.Bootstrap, kgo.ConsumeTopics(topic), kgo.ConsumerGroup("c-"+topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			fetched := consumer.PollFetches(ctx)
			if err := fetched.Err(); err != nil || fetched.NumRecords() != 1 {
				t.Fatalf("%s start: %d records, %v", life, fetched.NumRecords(), err)
			}
			consumer.Close()
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"Kafka Server started", "Transitioning from RECOVERY to RUNNING"} {
				if strings.Count(b.Log(), want) != 1 {
					t.Errorf("%q is not once in the log:\n%s", want, b.Log())
				}
			}
		}
	}
}

func TestReplicationFactorsOnOneBroker(t *testing.T) {
	b := start(t, launch.Options{Env: []string{
		"KAFKA_DEFAULT_REPLICATION_FACTOR=3", "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=3", "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR=3",
		"KAFKA_TRANSACTION_STATE_LOG_MIN_ISR=2", "KAFKA_MIN_INSYNC_REPLICAS=2",
	}})
	ctx := limited(t)
	c := impatient(t, b.Bootstrap)
	if err := c.ProduceSync(ctx, &kgo.Record{Topic: "automatic", Value: []byte("v")}).FirstErr(); err != nil {
		t.Errorf("a topic that is created on demand: %v", err)
	}
	admin := kadm.NewClient(c)
	if _, err := admin.CreateTopic(ctx, 1, -1, nil, "by-default"); err != nil {
		t.Errorf("a topic with the default factor: %v", err)
	}
	offsets := kadm.Offsets{}
	offsets.AddOffset("automatic", 0, 1, -1)
	if err := admin.CommitAllOffsets(ctx, "g", offsets); err != nil {
		t.Errorf("committing offsets: %v", err)
	}
	if _, err := admin.CreateTopic(ctx, 1, 3, nil, "asked-for"); !errors.Is(err, kerr.InvalidReplicationFactor) {
		t.Errorf("a topic that asks for three replicas itself: %v", err)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.Log(), "count as 1"); n != 1 {
		t.Errorf("warned %d times:\n%s", n, b.Log())
	}
}

func TestGroupsBeginAtOnce(t *testing.T) {
	b := start(t, launch.Options{})
	ctx := limited(t)
	c := impatient(t, b.Bootstrap)
	configs, err := kadm.NewClient(c).DescribeBrokerConfigs(ctx, 1)
	if err != nil || len(configs) != 1 {
		t.Fatal(err)
	}
	for _, one := range configs[0].Configs {
		if one.Key == "group.initial.rebalance.delay.ms" && one.MaybeValue() != "0" {
			t.Errorf("%s=%s", one.Key, one.MaybeValue())
		}
	}
	// Who has set the delay gets it: the same request then is not answered while one without it long has been.
	slow := start(t, launch.Options{Overrides: []string{"group.initial.rebalance.delay.ms=3600000"}})
	waiting, cancel := context.WithCancel(ctx)
	answered := make(chan error, 1)
	delayed := impatient(t, slow.Bootstrap)
	go func() { answered <- join(waiting, delayed, "g") }()
	if err := join(ctx, c, "g"); err != nil {
		t.Errorf("the first member: %v", err)
	}
	select {
	case err := <-answered:
		t.Fatalf("with a delay of an hour the first member was answered: %v", err)
	default:
	}
	cancel()
	<-answered
}

func TestDeclaredTopics(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	describe := func(b *launch.Broker) string {
		admin := kadm.NewClient(impatient(t, b.Bootstrap))
		topics, err := admin.ListTopics(limited(t))
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, one := range topics.Sorted() {
			out = append(out, fmt.Sprintf("%s:%d", one.Topic, len(one.Partitions)))
		}
		return strings.Join(out, " ")
	}
	b := start(t, launch.Options{Dir: dir, Env: []string{"MILLRACE_TOPICS=orders:3:cleanup.policy=[compact,delete],audit:1"}, Args: []string{"--topics", "more:2"}})
	if got := describe(b); got != "audit:1 more:2 orders:3" {
		t.Errorf("at ready there are %s", got)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b = start(t, launch.Options{Dir: dir, Args: []string{"--topics", "orders:4:retention.ms=1000", "--topics", "audit:1"}})
	if got := describe(b); got != "audit:1 more:2 orders:3" {
		t.Errorf("declared differently there are %s", got)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.Log(), "a declared topic exists with another"); n != 2 {
		t.Errorf("%d warnings where the partitions and a config of one topic differ:\n%s", n, b.Log())
	}
}

func TestLocalhostIsBothLoopbacks(t *testing.T) {
	b := start(t, launch.Options{Listen: "localhost:0"})
	host, port, err := net.SplitHostPort(b.Bootstrap)
	if err != nil || host != "localhost" {
		t.Fatalf("it announces %s", b.Bootstrap)
	}
	addresses := []string{"127.0.0.1"}
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		l.Close()
		addresses = append(addresses, "::1")
	} else {
		t.Logf("this machine has no ::1: %v", err)
	}
	for _, at := range addresses {
		c := impatient(t, net.JoinHostPort(at, port))
		if err := c.ProduceSync(limited(t), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
			t.Errorf("a client that begins at %s: %v", at, err)
		}
	}
}

func TestClusterIDConflict(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	const id = "MkU3OEVBNTcwNTJENDM2Qg"
	b := start(t, launch.Options{Dir: dir, Env: []string{"CLUSTER_ID=" + id}})
	if b.ClusterID != id {
		t.Errorf("founded as %s", b.ClusterID)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(t, "", []string{"CLUSTER_ID=other"}, "serve", "--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "log.dirs="+dir)
	if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "CLUSTER_ID is other, and "+dir+" is of cluster "+id+"; set CLUSTER_ID="+id+" or leave it out") {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
	after, err := os.ReadDir(dir)
	if err != nil || len(after) != len(before) {
		t.Errorf("the refused directory has changed: %v, then %v, %v", before, after, err)
	}
	for _, env := range [][]string{nil, {"CLUSTER_ID=" + id}} {
		b := start(t, launch.Options{Dir: dir, Env: env})
		if b.ClusterID != id {
			t.Errorf("%v: started as %s", env, b.ClusterID)
		}
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestBrokenMetaProperties(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "meta.properties"), []byte("version=1\nnode.id=one\ncluster.id=x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(t, "", nil, "serve", "--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "log.dirs="+dir)
	if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, dir+`/meta.properties: line 2: node.id is "one"`) {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
}

func TestOneVariableKeepsTheDefaults(t *testing.T) {
	b := start(t, launch.Options{Env: []string{"KAFKA_NUM_PARTITIONS=3"}})
	c := impatient(t, b.Bootstrap)
	if err := c.ProduceSync(limited(t), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	topics, err := kadm.NewClient(c).ListTopics(limited(t), "t")
	if err != nil || len(topics["t"].Partitions) != 3 {
		t.Errorf("%d partitions, %v", len(topics["t"].Partitions), err)
	}
}

func TestToolsWithoutJVM(t *testing.T) {
	b := start(t, launch.Options{})
	for _, c := range []struct {
		name string
		args []string
		want string // in the output
	}{
		{"", []string{"health", "--bootstrap", b.Bootstrap}, " is ready\n"},
		{"kafka-broker-api-versions.sh", []string{"--bootstrap-server", b.Bootstrap}, "Produce(0): 0 to 13 [usable: 13]"},
		{"kafka-topics.sh", []string{"--bootstrap-server", b.Bootstrap, "--create", "--if-not-exists", "--topic", "init", "--partitions", "3", "--replication-factor", "1"}, "Created topic init.\n"},
		{"kafka-topics.sh", []string{"--bootstrap-server", b.Bootstrap, "--create", "--if-not-exists", "--topic", "init", "--partitions", "3", "--replication-factor", "1"}, ""},
		{"kafka-topics", []string{"--bootstrap-server", b.Bootstrap, "--list"}, "init\n"},
		{"kafka-cluster.sh", []string{"cluster-id", "--bootstrap-server", b.Bootstrap}, "Cluster ID: " + b.ClusterID + "\n"},
		{"kafka-configs.sh", []string{"--bootstrap-server", b.Bootstrap, "--alter", "--topic", "init", "--add-config", "retention.ms=1000"}, "Completed updating config for topic init.\n"},
	} {
		code, stdout, stderr := run(t, c.name, nil, c.args...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, c.want) {
			t.Errorf("%s %v: code %d, %q, %q", c.name, c.args, code, stdout, stderr)
		}
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(t, "", nil, "health", "--bootstrap", b.Bootstrap); code != 1 || !strings.Contains(stderr, "is not ready") {
		t.Errorf("health of a stopped broker: code %d, %q", code, stderr)
	}
}

func TestDeleteThenCreate(t *testing.T) {
	b := start(t, launch.Options{})
	ctx := limited(t)
	c := impatient(t, b.Bootstrap)
	admin := kadm.NewClient(c)
	for i := range 40 {
		count := int32(i%3 + 1)
		if _, err := admin.CreateTopic(ctx, count, 1, nil, "again"); err != nil {
			t.Fatalf("creation %d: %v", i, err)
		}
		if have := len(partitions(t, c, "again", false)); have != int(count) {
			t.Fatalf("creation %d: %d partitions of %d", i, have, count)
		}
		// A client of its own: one that knew the topic before asks for its metadata when it meets the new one.
		fresh := impatient(t, b.Bootstrap)
		r, err := fresh.ProduceSync(ctx, &kgo.Record{Topic: "again", Value: []byte("v")}).First()
		if err != nil || r.Offset != 0 {
			t.Fatalf("creation %d: the first record is at %d, %v", i, r.Offset, err)
		}
		fresh.Close()
		if _, err := admin.DeleteTopic(ctx, "again"); err != nil {
			t.Fatalf("deletion %d: %v", i, err)
		}
		if have := partitions(t, c, "again", false); have != nil {
			t.Fatalf("deletion %d: it is still there with %d partitions", i, len(have))
		}
	}
}

func TestAutoCreatedTopicIsThereAtOnce(t *testing.T) {
	b := start(t, launch.Options{})
	c := impatient(t, b.Bootstrap)
	for i := range 10 {
		name := fmt.Sprintf("on-demand-%d", i)
		if got := partitions(t, c, name, true); len(got) != 1 || got[0].ErrorCode != 0 || got[0].Leader != 1 {
			t.Errorf("the first answer about %s: %+v", name, got)
		}
	}
}

func TestFormatting(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(t.TempDir(), "server.properties")
	text := "process.roles=broker,controller\nnode.id=4\ncontroller.quorum.voters=4@127.0.0.1:29093\ncontroller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:29093\nlog.dirs=" + dir + "\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	_, id, _ := run(t, "kafka-storage.sh", nil, "random-uuid")
	id = strings.TrimSpace(id)
	if code, _, stderr := run(t, "kafka-storage.sh", nil, "format", "-t", id, "-c", file); code != 0 {
		t.Fatalf("format: code %d, %q", code, stderr)
	}
	b := start(t, launch.Options{Dir: dir, Overrides: []string{"node.id=4"}})
	if b.ClusterID != id {
		t.Errorf("formatted as %s, started as %s", id, b.ClusterID)
	}
}
