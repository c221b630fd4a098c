package shell

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetsTool is kafka-get-offsets.sh.
func offsetsTool() *tool {
	return &tool{name: "get-offsets", short: "Print offsets of partitions", run: runOffsets, options: []option{
		bootstrapOption, commandConfig,
		{name: "topic", value: "PATTERN", help: "only topics of this regular expression"},
		{name: "partitions", value: "N,N", help: "only these partitions"},
		{name: "topic-partitions", value: "T:N,T:N-M", help: "these partitions"},
		{name: "time", value: "TIME", help: "latest (-1), earliest (-2), max-timestamp (-3), earliest-local (-4), latest-tiered (-5), or a timestamp in ms"},
		{name: "exclude-internal-topics", help: "leave out internal topics"},
		{name: "version", help: "print the version of Kafka's tools that this follows"},
	}}
}

var offsetTimes = map[string]int64{"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5, "earliest-pending-upload": -6}

func runOffsets(sh *Shell, c *toolCall) error {
	if len(c.args) == 0 {
		return misuse("An interactive shell for getting topic-partition offsets.")
	}
	if c.has("version") {
		fmt.Fprintln(sh.Stdout, kafkaVersion)
		return nil
	}
	if !c.has("bootstrap-server") {
		return misuse("Missing required argument \"[bootstrap-server]\"")
	}
	err := printOffsets(sh, c)
	if _, misused := err.(toolUsage); err != nil && !misused {
		fmt.Fprintf(sh.Stderr, "Error occurred: %s\n", oneLine(err))
		return ErrTold
	}
	return err
}

func printOffsets(sh *Shell, c *toolCall) error {
	at := int64(-1)
	if text := c.get("time"); text != "" {
		n, named := offsetTimes[text]
		if !named {
			var err error
			if n, err = strconv.ParseInt(text, 10, 64); err != nil {
				return says("Malformed time argument %s. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / -4 or earliest-local / -5 or latest-tiered / -6 or earliest-pending-upload, or a specified long format timestamp", text)
			}
		}
		at = n
	}
	wanted, err := partitionFilter(c)
	if err != nil {
		return err
	}
	k, done, err := sh.connect(c)
	if err != nil {
		return err
	}
	defer done()
	all, err := k.admin.ListTopicsWithInternal(k.ctx)
	if err != nil {
		return says("%s", k.explain(err))
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	for _, t := range all.Sorted() {
		if t.IsInternal && c.has("exclude-internal-topics") {
			continue
		}
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = t.Topic
		for _, one := range t.Partitions.Sorted() {
			if wanted(t, one.Partition) {
				part := kmsg.NewListOffsetsRequestTopicPartition()
				part.Partition, part.Timestamp = one.Partition, at
				topic.Partitions = append(topic.Partitions, part)
			}
		}
		if len(topic.Partitions) > 0 {
			req.Topics = append(req.Topics, topic)
		}
	}
	if len(req.Topics) == 0 {
		return says("Could not match any topic-partitions with the specified filters")
	}
	type line struct {
		topic     string
		partition int32
		offset    int64
	}
	var lines []line
	for _, shard := range k.RequestSharded(k.ctx, req) {
		if shard.Err != nil {
			return says("%s", k.explain(shard.Err))
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, part := range t.Partitions {
				if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
					fmt.Fprintf(sh.Stderr, "Skip getting offsets for topic-partition %s-%d due to error: %s\n", t.Topic, part.Partition, k.explain(err))
					continue
				}
				if part.Offset >= 0 {
					lines = append(lines, line{t.Topic, part.Partition, part.Offset})
				}
			}
		}
	}
	sort.Slice(lines, func(i, j int) bool {
		return lines[i].topic < lines[j].topic || lines[i].topic == lines[j].topic && lines[i].partition < lines[j].partition
	})
	for _, l := range lines {
		fmt.Fprintf(sh.Stdout, "%s:%d:%d\n", l.topic, l.partition, l.offset)
	}
	return nil
}

// partitionFilter says which partitions a command line means.
func partitionFilter(c *toolCall) (func(kadm.TopicDetail, int32) bool, error) {
	if c.has("topic-partitions") && (c.has("topic") || c.has("partitions")) {
		return nil, says("--topic-partitions cannot be used with --topic or --partitions")
	}
	if c.has("topic-partitions") {
		type rule struct {
			topic    func(string) bool
			from, to int64
		}
		var rules []rule
		for _, text := range strings.Split(c.get("topic-partitions"), ",") {
			name, numbers, has := strings.Cut(strings.TrimSpace(text), ":")
			if name == "" {
				name = ".*"
			}
			match, err := pattern([]string{name})
			if err != nil {
				return nil, err
			}
			r := rule{match.MatchString, 0, 1 << 31}
			if has && numbers != "" {
				from, to, open := strings.Cut(numbers, "-")
				if from != "" {
					if r.from, err = strconv.ParseInt(from, 10, 32); err != nil {
						return nil, says("Invalid rule: %s", text)
					}
				}
				switch {
				case !open:
					r.to = r.from + 1
				case to != "":
					if r.to, err = strconv.ParseInt(to, 10, 32); err != nil {
						return nil, says("Invalid rule: %s", text)
					}
				}
			}
			rules = append(rules, r)
		}
		return func(t kadm.TopicDetail, n int32) bool {
			return slices.ContainsFunc(rules, func(r rule) bool { return r.topic(t.Topic) && int64(n) >= r.from && int64(n) < r.to })
		}, nil
	}
	topics, err := pattern([]string{".*"})
	if c.has("topic") {
		topics, err = pattern([]string{c.get("topic")})
	}
	if err != nil {
		return nil, err
	}
	var only []int32
	if c.has("partitions") {
		for _, text := range strings.Split(c.get("partitions"), ",") {
			if strings.TrimSpace(text) == "" {
				continue
			}
			n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
			if err != nil {
				return nil, says("--partitions expects a comma separated list of numeric partition ids, but received: %s", c.get("partitions"))
			}
			only = append(only, int32(n))
		}
	}
	return func(t kadm.TopicDetail, n int32) bool {
		return topics.MatchString(t.Topic) && (only == nil || slices.Contains(only, n))
	}, nil
}
