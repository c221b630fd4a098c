package main

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestToolFlags(t *testing.T) {
	x := &tool{name: "x", options: []option{{name: "topic", value: "T", many: true}, {name: "topics-with", letter: "w"}, {name: "if-exists"}, {name: "n", value: "N"}, {name: "no", value: "V", refuse: "because"}}}
	for _, c := range []struct {
		args []string
		want map[string][]string
		rest []string
		err  string
	}{
		{args: []string{"--topic", "a", "--topic=b", "-w", "word"}, want: map[string][]string{"topic": {"a", "b"}, "topics-with": {"true"}}, rest: []string{"word"}},
		{args: []string{"--if", "--", "--n"}, want: map[string][]string{"if-exists": {"true"}}, rest: []string{"--n"}},
		{args: []string{"--topic="}, want: map[string][]string{"topic": {""}}},
		{args: []string{"--topic", "--n"}, want: map[string][]string{"topic": {"--n"}}},
		{args: []string{"--to", "a"}, err: "to is not a recognized option: it may stand for topic, topics-with"},
		{args: []string{"--nonsense"}, err: "nonsense is not a recognized option"},
		{args: []string{"-x"}, err: "x is not a recognized option"},
		{args: []string{"--n"}, err: "Option n requires an argument"},
		{args: []string{"--n", "1", "--n", "2"}, err: "Found multiple arguments for option n, but you asked for only one"},
		{args: []string{"--no", "1"}, err: "--no is not supported: because"},
		{args: []string{"--help"}, err: "help"},
	} {
		got, err := x.parse(c.args)
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%v: %v", c.args, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got.values, c.want) || !reflect.DeepEqual(got.extra, c.rest) {
			t.Errorf("%v: %v, %v, %v", c.args, got.values, got.extra, err)
		}
	}
}

func TestNamesOfKafkasTools(t *testing.T) {
	for _, c := range []struct {
		argv0 string
		args  []string
		want  []string
	}{
		{"/usr/bin/millrace", []string{"serve"}, []string{"serve"}},
		{"/opt/kafka/bin/kafka-topics.sh", []string{"--list"}, []string{"topics", "--list"}},
		{"kafka-storage", []string{"random-uuid"}, []string{"storage", "random-uuid"}},
		{"./kafka-server-start.sh", []string{"server.properties", "--override", "a=b"}, []string{"serve", "server.properties", "--override", "a=b"}},
		{"kafka-server-start.sh", []string{"--version"}, []string{"version"}},
	} {
		if got, err := calledAs(c.argv0, c.args); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %v: %v, %v", c.argv0, c.args, got, err)
		}
	}
	for argv0, want := range map[string]string{"kafka-acls.sh": "kafka-acls is not among Kafka's tools", "kafka-server-start.sh": "-daemon is not supported"} {
		if _, err := calledAs(argv0, []string{"-daemon", "x"}); !errors.As(err, new(usageError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", argv0, err)
		}
	}
	seen := map[string]bool{}
	for _, x := range tools() {
		if seen[x.name] {
			t.Errorf("two tools are called %s", x.name)
		}
		seen[x.name] = true
		if code, stdout, stderr := try(t, neverRun(t), nil, x.name, "--help"); code != 0 || stderr != "" || !strings.HasPrefix(stdout, "usage: millrace "+x.name) {
			t.Errorf("%s --help: code %d, %q, %q", x.name, code, stdout, stderr)
		}
	}
}
