package main

import (
	"fmt"
	"strconv"
	"strings"

	"millrace/broker"
	"millrace/controller/config"
)

const topicsHelp = "--topics, or MILLRACE_TOPICS, names topics that are there when the broker is\n" +
	"ready: name:partitions[:config=value...], several separated by commas. A value\n" +
	"with commas goes into brackets: orders:3:cleanup.policy=[compact,delete],audit:1.\n" +
	"--topics goes over MILLRACE_TOPICS, the later over the earlier. A topic that\n" +
	"exists is left as it is, with a warning where it differs. The replication\n" +
	"factor is default.replication.factor, or what the brokers can hold."

// topicsVariable declares topics as --topics does.
const topicsVariable = "MILLRACE_TOPICS"

// declaredTopics are the topics of the environment and of --topics; a later
// declaration of a name stands in place of an earlier one.
func (p *program) declaredTopics(f flags) ([]broker.Topic, error) {
	var all []broker.Topic
	at := map[string]int{}
	add := func(from, text string) error {
		list, err := parseTopics(text)
		if err != nil {
			return usageError{fmt.Errorf("%s %s: %w", from, text, err)}
		}
		for _, t := range list {
			if i, again := at[t.Name]; again {
				all[i] = t
				continue
			}
			at[t.Name] = len(all)
			all = append(all, t)
		}
		return nil
	}
	if err := add(topicsVariable, p.variable(topicsVariable)); err != nil {
		return nil, err
	}
	for _, text := range f.topics {
		if err := add("--topics", text); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func parseTopics(text string) ([]broker.Topic, error) {
	entries, err := config.SplitOutsideBrackets(text, ',')
	if err != nil {
		return nil, err
	}
	var list []broker.Topic
	for _, entry := range entries {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		t, err := parseTopic(entry)
		if err != nil && !strings.Contains(entry, ":") && len(list) > 0 && len(list[len(list)-1].Configs) > 0 {
			before := list[len(list)-1].Configs
			c := before[len(before)-1]
			err = fmt.Errorf("%w (if it is of %s's value: a value with commas goes into brackets, %s=[%s,%s])", err, c.Name, c.Name, c.Value, entry)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

func parseTopic(entry string) (broker.Topic, error) {
	fields, err := config.SplitOutsideBrackets(entry, ':')
	if err != nil {
		return broker.Topic{}, err
	}
	t := broker.Topic{Name: fields[0]}
	if len(fields) == 1 || t.Name == "" {
		return t, fmt.Errorf("%q: expected name:partitions", entry)
	}
	if err := broker.CheckTopicName(t.Name); err != nil {
		return t, err
	}
	n, err := strconv.ParseInt(fields[1], 10, 32)
	if err != nil || n < 1 {
		return t, fmt.Errorf("topic %s: %q is not a number of partitions", t.Name, fields[1])
	}
	t.Partitions = int32(n)
	for _, field := range fields[2:] {
		key, value, ok := strings.Cut(field, "=")
		if !ok {
			return t, fmt.Errorf("topic %s: %q: expected config=value (the replication factor is the broker's to choose)", t.Name, field)
		}
		if strings.HasPrefix(value, "[") && strings.HasSuffix(value, "]") {
			value = value[1 : len(value)-1]
		}
		k, known := config.Find(config.TopicScope, key)
		if !known {
			near := ""
			if n := config.Nearest(config.TopicScope, key); n != "" {
				near = " (did you mean " + n + "?)"
			}
			return t, fmt.Errorf("topic %s: %s is not a topic config%s", t.Name, key, near)
		}
		if err := k.Check(value); err != nil {
			return t, fmt.Errorf("topic %s: %w", t.Name, err)
		}
		t.Configs = append(t.Configs, broker.TopicConfig{Name: key, Value: value})
	}
	return t, nil
}
