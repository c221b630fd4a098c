// Package metrics compares what Millrace shows at /metrics with what the
// Prometheus JMX exporter shows of Apache Kafka under the same load: names,
// types and label names.
package metrics

import (
	"bufio"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// family is one metric: its type and the label names of its series.
type family struct {
	kind string
	sets map[string]bool // label names, sorted and joined
}

// parse reads an exposition.
func parse(text string) (map[string]*family, error) {
	out := map[string]*family{}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			out[name] = &family{kind: kind, sets: map[string]bool{}}
			continue
		}
		if line == "" || line[0] == '#' {
			continue
		}
		end := strings.IndexAny(line, "{ ")
		if end < 0 {
			return nil, fmt.Errorf("no series: %q", line)
		}
		f := out[line[:end]]
		if f == nil {
			continue // a part of a histogram or summary, which Kafka's are not
		}
		labels, err := labelNames(line[end:])
		if err != nil {
			return nil, fmt.Errorf("%w: %q", err, line)
		}
		f.sets[labels] = true
	}
	return out, lines.Err()
}

// labelNames reads {name="value",...}.
func labelNames(s string) (string, error) {
	if s[0] != '{' {
		return "", nil
	}
	var names []string
	for s = s[1:]; s != "" && s[0] != '}'; {
		name, rest, ok := strings.Cut(s, `="`)
		if !ok {
			return "", fmt.Errorf("a label without a value")
		}
		names = append(names, strings.Trim(name, ", "))
		for rest != "" && rest[0] != '"' {
			if rest[0] == '\\' && len(rest) > 1 {
				rest = rest[1:]
			}
			rest = rest[1:]
		}
		if rest == "" {
			return "", fmt.Errorf("a value without an end")
		}
		s = strings.TrimPrefix(rest[1:], ",")
	}
	slices.Sort(names)
	return strings.Join(names, ","), nil
}

// own are the names that Kafka has not, and alias the second spelling of raft's.
var own = []string{"millrace_", "go_", "process_", "kafka_consumergroup_", "kafka_client_"}

const (
	raftNames = "kafka_server_raftmetrics_"
	raftAlias = "kafka_server_raft_metrics_"
)

// compare lists what differs. lacking are the names that are known to be missing,
// some ending in "*"; one that is shown, or that Kafka does not show, is a
// difference too.
func compare(ours, theirs map[string]*family, lacking []string) []string {
	var out []string
	used := map[string]bool{}
	missing := func(name string) bool {
		found := false
		for _, l := range lacking {
			if match(l, name) {
				used[l], found = true, true
			}
		}
		return found
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if !strings.HasPrefix(name, "kafka_") {
			continue
		}
		have, want := ours[name], theirs[name]
		known := missing(name)
		switch {
		case have == nil && !known:
			out = append(out, name+" is not shown")
		case have == nil:
		case have.kind != want.kind:
			out = append(out, fmt.Sprintf("%s is a %s, Kafka's a %s", name, have.kind, want.kind))
		case !maps.Equal(have.sets, want.sets):
			out = append(out, fmt.Sprintf("%s has labels %q, Kafka's %q", name, slices.Sorted(maps.Keys(have.sets)), slices.Sorted(maps.Keys(want.sets))))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if rest, ok := strings.CutPrefix(name, raftAlias); ok {
			if ours[raftNames+rest] == nil && ours[raftNames+rest+"_total"] == nil {
				out = append(out, name+" stands for nothing")
			}
			continue
		}
		if theirs[name] == nil && !slices.ContainsFunc(own, func(p string) bool { return strings.HasPrefix(name, p) }) {
			out = append(out, name+" is not Kafka's")
		}
		if slices.Contains(lacking, name) {
			out = append(out, name+" is shown and listed as missing")
		}
	}
	for _, l := range lacking {
		if !used[l] {
			out = append(out, l+" is listed as missing and Kafka does not show it")
		}
	}
	return out
}

func match(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	if !strings.HasPrefix(name, parts[0]) {
		return false
	}
	name = name[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(name, p)
		if i < 0 {
			return false
		}
		name = name[i+len(p):]
	}
	return strings.HasSuffix(name, parts[len(parts)-1])
}

// record writes families as lines, and recorded reads them again: what Kafka
// showed, to be compared with where no Kafka runs.
func record(m map[string]*family) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !strings.HasPrefix(name, "kafka_") {
			continue
		}
		for _, set := range slices.Sorted(maps.Keys(m[name].sets)) {
			fmt.Fprintf(&b, "%s %s {%s}\n", name, m[name].kind, set)
		}
	}
	return b.String()
}

func recorded(text string) map[string]*family {
	out := map[string]*family{}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		f := strings.SplitN(line, " ", 3)
		if len(f) != 3 {
			continue
		}
		if out[f[0]] == nil {
			out[f[0]] = &family{kind: f[1], sets: map[string]bool{}}
		}
		out[f[0]].sets[strings.Trim(f[2], "{}")] = true
	}
	return out
}
