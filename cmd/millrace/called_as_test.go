package main

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"millrace/shell"
)

func TestNamesOfKafkasTools(t *testing.T) {
	for _, c := range []struct {
		argv0 string
		args  []string
		want  []string
	}{
		{"/usr/bin/millrace", []string{"serve"}, []string{"serve"}},
		{"/opt/kafka/bin/kafka-topics.sh", []string{"--list"}, []string{"topics", "--list"}},
		{"millrace", []string{"kafka-topics.sh", "--list"}, []string{"topics", "--list"}},
		{"millrace", []string{"kafka-server-start", "server.properties"}, []string{"serve", "server.properties"}},
		{"millrace", []string{"topics", "kafka-topics.sh"}, []string{"topics", "kafka-topics.sh"}},
		{"millrace", nil, nil},
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
	if _, err := calledAs("millrace", []string{"kafka-acls.sh", "--list"}); err == nil || !strings.Contains(err.Error(), "kafka-acls is not among Kafka's tools") {
		t.Error(err)
	}
	for _, x := range shell.Tools() {
		if code, stdout, stderr := try(t, neverRun(t), nil, x.Name, "--help"); code != 0 || stderr != "" || !strings.HasPrefix(stdout, "usage: millrace "+x.Name) {
			t.Errorf("%s --help: code %d, %q, %q", x.Name, code, stdout, stderr)
		}
	}
	// What a tool needs of the program reaches it, and its exit code the program.
	file := writeFile(t, "log.dirs=/from-file\n")
	code, stdout, _ := try(t, neverRun(t), []string{"KAFKA_LOG_DIRS=/from/environment"}, "storage", "info", "-c", file)
	if code != exitFailed || !strings.Contains(stdout, "/from/environment does not exist") {
		t.Errorf("storage info: code %d, %q", code, stdout)
	}
}
