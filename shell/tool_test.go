package shell

import (
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

func TestToolsTellTheirFlags(t *testing.T) {
	seen := map[string]bool{}
	for _, x := range Tools() {
		if seen[x.Name] {
			t.Errorf("two tools are called %s", x.Name)
		}
		seen[x.Name] = true
		if code, stdout, stderr := try(t, "", x.Name, "--help"); code != 0 || stderr != "" || !strings.HasPrefix(stdout, "usage: millrace "+x.Name) {
			t.Errorf("%s --help: code %d, %q, %q", x.Name, code, stdout, stderr)
		}
	}
	if code, _, _ := try(t, "", "nonsense"); code != 1 {
		t.Errorf("a tool that is none: code %d", code)
	}
}
