package shell

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/storage"
)

// topicsTool is kafka-topics.sh.
func topicsTool() *tool {
	return &tool{name: "topics", short: "Create, list, describe, alter or delete topics", run: runTopics, options: []option{
		bootstrapOption, commandConfig,
		{name: "create", help: "create a topic"},
		{name: "list", help: "list the topics"},
		{name: "describe", help: "describe topics"},
		{name: "alter", help: "add partitions"},
		{name: "delete", help: "delete topics"},
		{name: "topic", value: "NAME", many: true, help: "the topic; a regular expression but for --create"},
		{name: "topic-id", value: "ID", help: "the topic to describe, by its id"},
		{name: "partitions", value: "N", help: "the number of partitions"},
		{name: "replication-factor", value: "N", help: "the number of replicas"},
		{name: "replica-assignment", value: "LIST", help: "brokers of each partition, as 1:2,2:3"},
		{name: "config", value: "NAME=VALUE", many: true, help: "a config of the new topic"},
		{name: "if-not-exists", help: "do not fail if the topic exists"},
		{name: "if-exists", help: "do not fail if the topic does not exist"},
		{name: "exclude-internal", help: "leave out internal topics"},
		{name: "topics-with-overrides", help: "only topics that have configs of their own"},
		{name: "under-replicated-partitions", help: "only partitions with replicas that are behind"},
		{name: "unavailable-partitions", help: "only partitions without a leader"},
		{name: "under-min-isr-partitions", refuse: "use --under-replicated-partitions"},
		{name: "at-min-isr-partitions", refuse: "use --under-replicated-partitions"},
		{name: "delete-config", value: "NAME", refuse: "it is no longer Kafka's either; use kafka-configs"},
		{name: "partition-size-limit-per-response", value: "N", refuse: "a description comes in one answer"},
		{name: "version", help: "print the version of Kafka's tools that this follows"},
	}}
}

func runTopics(sh *Shell, c *toolCall) error {
	if len(c.args) == 0 {
		return misuse("Create, delete, describe, or change a topic.")
	}
	if c.has("version") {
		fmt.Fprintln(sh.Stdout, kafkaVersion)
		return nil
	}
	action, err := topicsAction(c)
	if err != nil {
		return err
	}
	// Kafka's tool tells failures on standard output.
	failed := func(why string) error {
		fmt.Fprintf(sh.Stdout, "Error while executing topic command : %s\n", why)
		return ErrTold
	}
	k, done, err := sh.connect(c)
	if errors.As(err, new(unreachable)) {
		return failed(err.Error())
	}
	if err != nil {
		return err
	}
	defer done()
	err = map[string]func(*Shell, *toolCall, *client) error{
		"create": createTopic, "list": listTopics, "describe": describeTopics, "alter": alterTopics, "delete": deleteTopics,
	}[action](sh, c, k)
	if err != nil && !errors.As(err, new(toolUsage)) && !errors.Is(err, ErrTold) {
		return failed(k.explain(err))
	}
	return err
}

// topicsAction gives the one action of a command line whose flags fit together.
func topicsAction(c *toolCall) (string, error) {
	actions := given(c, "list", "describe", "create", "alter", "delete")
	if len(actions) != 1 {
		return "", misuse("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
	}
	action := actions[0]
	need := func(name string) error {
		if c.has(name) {
			return nil
		}
		return misuse("Missing required argument %q", "["+name+"]")
	}
	for _, name := range map[string][]string{"create": {"topic"}, "alter": {"topic", "partitions"}, "delete": {"topic"}}[action] {
		if name == "topic" && action == "alter" {
			continue
		}
		if err := need(name); err != nil {
			return "", err
		}
	}
	for name, only := range map[string][]string{ // any order: whichever mistake is told is one
		"if-not-exists": {"create"}, "if-exists": {"alter", "delete", "describe"}, "config": {"create"},
		"replication-factor": {"create"}, "partitions": {"create", "alter"}, "replica-assignment": {"create", "alter"}, "topics-with-overrides": {"describe"},
		"under-replicated-partitions": {"describe"}, "unavailable-partitions": {"describe"}, "exclude-internal": {"list", "describe"}, "topic-id": {"describe"},
	} {
		if c.has(name) && !slices.Contains(only, action) {
			return "", misuse("Option %q can't be used with option %q", "["+name+"]", "["+action+"]")
		}
	}
	if action == "create" && c.has("replica-assignment") && (c.has("partitions") || c.has("replication-factor")) {
		return "", misuse("Option %q can't be used with option %q", "[replica-assignment]", "[partitions]")
	}
	if action != "describe" && action != "list" && len(c.values["topic"]) > 1 {
		return "", misuse("Found multiple arguments for option topic, but you asked for only one")
	}
	return action, nil
}

// given lists those of the names that a command line has.
func given(c *toolCall, names ...string) []string {
	var list []string
	for _, name := range names {
		if c.has(name) {
			list = append(list, name)
		}
	}
	return list
}

// number reads a flag's number.
func number(c *toolCall, name string) (int32, error) {
	n, err := strconv.ParseInt(c.get(name), 10, 32)
	if err != nil {
		return 0, says("Cannot parse argument '%s' of option %s", c.get(name), name)
	}
	return int32(n), nil
}

func createTopic(sh *Shell, c *toolCall, k *client) error {
	name := c.get("topic")
	if strings.ContainsAny(name, "._") {
		fmt.Fprintln(sh.Stdout, "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. To avoid issues it is best to use either, but not both.")
	}
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1
	if c.has("partitions") {
		n, err := number(c, "partitions")
		if err != nil {
			return err
		}
		if n < 1 {
			return says("The partitions must be greater than 0")
		}
		t.NumPartitions = n
	}
	if c.has("replication-factor") {
		n, err := number(c, "replication-factor")
		if err != nil {
			return err
		}
		if n < 1 || n > 1<<15-1 {
			return says("The replication factor must be between 1 and %d inclusive", 1<<15-1)
		}
		t.ReplicationFactor = int16(n)
	}
	if c.has("replica-assignment") {
		lists, err := assignments(c.get("replica-assignment"))
		if err != nil {
			return err
		}
		for i, list := range lists {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = int32(i), list
			t.ReplicaAssignment = append(t.ReplicaAssignment, a)
		}
	}
	for _, text := range c.values["config"] {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return says("requirement failed: Invalid topic config: all configs to be added must be in the format \"key=val\".")
		}
		one := kmsg.NewCreateTopicsRequestTopicConfig()
		value = strings.TrimSpace(value)
		one.Name, one.Value = strings.TrimSpace(key), &value
		t.Configs = append(t.Configs, one)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30000
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(k.ctx, k)
	if err != nil {
		return err
	}
	for _, got := range resp.Topics {
		err := kerr.ErrorForCode(got.ErrorCode)
		if errors.Is(err, kerr.TopicAlreadyExists) && c.has("if-not-exists") {
			return nil
		}
		if err != nil {
			return brokerSays(err, got.ErrorMessage)
		}
	}
	fmt.Fprintf(sh.Stdout, "Created topic %s.\n", name)
	return nil
}

// brokerSays is a broker's error with its message, or with Kafka's own words.
func brokerSays(err error, message *string) error {
	if message != nil && *message != "" {
		return brokerError{err, *message}
	}
	return err
}

// brokerError is an error code and the broker's words for it.
type brokerError struct {
	error
	message string
}

func (e brokerError) Error() string { return e.message }
func (e brokerError) Unwrap() error { return e.error }

// assignments reads 1:2,2:3: the brokers of each partition.
func assignments(text string) ([][]int32, error) {
	var lists [][]int32
	for _, part := range strings.Split(text, ",") {
		var list []int32
		for _, one := range strings.Split(part, ":") {
			n, err := strconv.ParseInt(strings.TrimSpace(one), 10, 32)
			if err != nil {
				return nil, says("Invalid replica assignment %s", text)
			}
			if slices.Contains(list, int32(n)) {
				return nil, says("Partition replica lists may not contain duplicate entries: %d", n)
			}
			list = append(list, int32(n))
		}
		if len(lists) > 0 && len(lists[0]) != len(list) {
			return nil, says("Partition %d has different replication factor: %s", len(lists), part)
		}
		lists = append(lists, list)
	}
	return lists, nil
}

// pattern makes a regular expression of the topics of a command line, which
// matches whole names; commas part alternatives, as in Kafka's tools.
func pattern(texts []string) (*regexp.Regexp, error) {
	var parts []string
	for _, text := range texts {
		text = strings.Trim(strings.ReplaceAll(text, " ", ""), `"'`)
		parts = append(parts, strings.ReplaceAll(text, ",", "|"))
	}
	r, err := regexp.Compile("^(?:" + strings.Join(parts, "|") + ")$")
	if err != nil {
		return nil, says("%s is an invalid regex.", strings.Join(texts, ","))
	}
	return r, nil
}

// matching gives the topics that a command line means, sorted by name.
func matching(c *toolCall, k *client) ([]kadm.TopicDetail, error) {
	all, err := k.admin.ListTopicsWithInternal(k.ctx)
	if err != nil {
		return nil, err
	}
	var match *regexp.Regexp
	if c.has("topic") {
		if match, err = pattern(c.values["topic"]); err != nil {
			return nil, err
		}
	}
	var list []kadm.TopicDetail
	for _, t := range all.Sorted() {
		if match != nil && !match.MatchString(t.Topic) || t.IsInternal && c.has("exclude-internal") {
			continue
		}
		if t.Err != nil {
			return nil, t.Err
		}
		list = append(list, t)
	}
	return list, nil
}

// mustMatch refuses a pattern that names no topic.
func mustMatch(c *toolCall, found []kadm.TopicDetail) error {
	if len(found) > 0 || !c.has("topic") || c.has("if-exists") {
		return nil
	}
	return says("Topic '%s' does not exist as expected", strings.Join(c.values["topic"], ","))
}

func listTopics(sh *Shell, c *toolCall, k *client) error {
	found, err := matching(c, k)
	if err != nil {
		return err
	}
	names := make([]string, len(found))
	for i, t := range found {
		names[i] = t.Topic
	}
	fmt.Fprintln(sh.Stdout, strings.Join(names, "\n"))
	return nil
}

func deleteTopics(sh *Shell, c *toolCall, k *client) error {
	found, err := matching(c, k)
	if err != nil {
		return err
	}
	if err := mustMatch(c, found); err != nil {
		return err
	}
	names := make([]string, len(found))
	for i, t := range found {
		names[i] = t.Topic
	}
	if len(names) == 0 {
		return nil
	}
	resp, err := k.admin.DeleteTopics(k.ctx, names...)
	if err != nil {
		return err
	}
	for _, name := range names {
		if r := resp[name]; r.Err != nil {
			return brokerSays(r.Err, &r.ErrMessage)
		}
	}
	return nil
}

func alterTopics(_ *Shell, c *toolCall, k *client) error {
	found, err := matching(c, k)
	if err != nil {
		return err
	}
	if err := mustMatch(c, found); err != nil {
		return err
	}
	count, err := number(c, "partitions")
	if err != nil {
		return err
	}
	var lists [][]int32
	if c.has("replica-assignment") {
		if lists, err = assignments(c.get("replica-assignment")); err != nil {
			return err
		}
	}
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 30000
	for _, t := range found {
		one := kmsg.NewCreatePartitionsRequestTopic()
		one.Topic, one.Count = t.Topic, count
		if len(lists) > 0 {
			if len(lists) <= len(t.Partitions) {
				return says("Invalid replica assignment: the topic %s has %d partitions", t.Topic, len(t.Partitions))
			}
			for _, list := range lists[len(t.Partitions):] {
				a := kmsg.NewCreatePartitionsRequestTopicAssignment()
				a.Replicas = list
				one.Assignment = append(one.Assignment, a)
			}
		}
		req.Topics = append(req.Topics, one)
	}
	if len(req.Topics) == 0 {
		return nil
	}
	resp, err := req.RequestWith(k.ctx, k)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return brokerSays(err, t.ErrorMessage)
		}
	}
	return nil
}

func describeTopics(sh *Shell, c *toolCall, k *client) error {
	found, err := matching(c, k)
	if err != nil {
		return err
	}
	if c.has("topic-id") {
		found = slices.DeleteFunc(found, func(t kadm.TopicDetail) bool { return storage.FormatID(t.ID) != c.get("topic-id") })
		if len(found) == 0 && !c.has("if-exists") {
			return says("TopicId '%s' does not exist as expected", c.get("topic-id"))
		}
	} else if err := mustMatch(c, found); err != nil {
		return err
	}
	if len(found) == 0 {
		return nil
	}
	names := make([]string, len(found))
	for i, t := range found {
		names[i] = t.Topic
	}
	configs, err := topicOverrides(k, names)
	if err != nil {
		return err
	}
	headers := !c.has("under-replicated-partitions") && !c.has("unavailable-partitions")
	for _, t := range found {
		if c.has("topics-with-overrides") && configs[t.Topic] == "" {
			continue
		}
		if headers {
			replicas := 0
			if parts := t.Partitions.Sorted(); len(parts) > 0 {
				replicas = len(parts[0].Replicas)
			}
			fmt.Fprintf(sh.Stdout, "Topic: %s\tTopicId: %s\tPartitionCount: %d\tReplicationFactor: %d\tConfigs: %s\n",
				t.Topic, storage.FormatID(t.ID), len(t.Partitions), replicas, configs[t.Topic])
		}
		if c.has("topics-with-overrides") {
			continue
		}
		for _, one := range t.Partitions.Sorted() {
			if c.has("under-replicated-partitions") && len(one.ISR) >= len(one.Replicas) || c.has("unavailable-partitions") && one.Leader >= 0 {
				continue
			}
			leader := "none"
			if one.Leader >= 0 {
				leader = strconv.Itoa(int(one.Leader))
			}
			offline := ""
			if len(one.OfflineReplicas) > 0 {
				offline = "\tOffline: " + joined(one.OfflineReplicas)
			}
			// Which brokers might be leaders though they are behind (KIP-966) comes
			// with DescribeTopicPartitions only.
			fmt.Fprintf(sh.Stdout, "\tTopic: %s\tPartition: %d\tLeader: %s\tReplicas: %s\tIsr: %s\tElr: \tLastKnownElr: %s\n",
				t.Topic, one.Partition, leader, joined(one.Replicas), joined(one.ISR), offline)
		}
	}
	return nil
}

// topicOverrides gives what is set of each topic's configs, as kafka-topics
// shows it: what comes neither from a default nor from the broker's file.
func topicOverrides(k *client, names []string) (map[string]string, error) {
	list, err := k.admin.DescribeTopicConfigs(k.ctx, names...)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, r := range list {
		if r.Err != nil {
			return nil, r.Err
		}
		var set []string
		for _, one := range r.Configs {
			switch one.Source {
			case kmsg.ConfigSourceDefaultConfig, kmsg.ConfigSourceStaticBrokerConfig:
				continue
			}
			set = append(set, one.Key+"="+one.MaybeValue())
		}
		out[r.Name] = strings.Join(set, ",")
	}
	return out, nil
}

func joined(list []int32) string {
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = strconv.Itoa(int(n))
	}
	return strings.Join(parts, ",")
}
