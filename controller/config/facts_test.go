package config

import (
	"os"
	"strings"
	"testing"
)

// onPurpose are the defaults that differ from Kafka's, and why.
var onPurpose = map[string]string{
	"group.initial.rebalance.delay.ms": "a lone consumer starts at once",
	"controller.listener.names":        "one node needs no listener for its controller",
	"listeners":                        "loopback only, unless told otherwise",
	"log.dirs":                         "a directory is founded without any configuration",
	"node.id":                          "one node needs no number",
	"broker.id":                        "one node needs no number",
	"process.roles":                    "one node is both",
}

// testdata/facts.tsv is what a running Apache Kafka 4.4.0 says of its configs:
// name, type, default, how it is updated, importance, and what it falls back to.
// The comparison with a running one is that of compat-tests/frames.
func TestCatalogueIsKafkas(t *testing.T) {
	text, err := os.ReadFile("testdata/facts.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for _, fault := range compareFacts(lines[1:]) {
		t.Error(fault)
	}
	// The comparison sees what is planted.
	for _, planted := range []struct{ from, to string }{
		{"broker\tlog.retention.hours\tint\t168", "broker\tlog.retention.hours\tlong\t168"},
		{"broker\tlog.retention.hours\tint\t168", "broker\tlog.retention.hours\tint\t169"},
		{"broker\tlog.retention.ms\tlong\tnull\tcluster-wide", "broker\tlog.retention.ms\tlong\tnull\tread-only"},
		{"topic\tretention.ms\tlong\t604800000\t-\tmedium\tno\tlog.retention.ms,", "topic\tretention.ms\tlong\t604800000\t-\tmedium\tno\t"},
		{"topic\tretention.ms", "topic\tretention.msx"},
	} {
		changed := strings.Replace(string(text), planted.from, planted.to, 1)
		if changed == string(text) || len(compareFacts(strings.Split(strings.TrimSuffix(changed, "\n"), "\n")[1:])) == 0 {
			t.Errorf("%q for %q is not noticed", planted.to, planted.from)
		}
	}
}

func compareFacts(lines []string) []string {
	var faults []string
	scopes := map[string]Scope{"broker": BrokerScope, "topic": TopicScope, "group": GroupScope, "client metrics": ClientMetricsScope}
	updates := map[Update]string{ReadOnly: "read-only", ClusterWide: "cluster-wide", PerBroker: "per-broker"}
	importances := map[Importance]string{High: "high", Medium: "medium", Low: "low"}
	seen := map[string]bool{}
	for _, line := range lines {
		f := strings.Split(line, "\t")
		k, ok := Find(scopes[f[0]], f[1])
		if !ok {
			faults = append(faults, f[0]+" "+f[1]+" is missing")
			continue
		}
		seen[f[0]+" "+f[1]] = true
		fallback := k.Default
		switch {
		case k.Required:
			fallback = ""
		case k.Null:
			fallback = "null"
		case k.Default == "":
			fallback = `""`
		}
		for _, c := range []struct{ what, ours, kafkas string }{
			{"type", strings.ToLower(k.Type.Name()), f[2]},
			{"default", fallback, f[3]},
			{"update", updates[k.Update], f[4]},
			{"importance", importances[k.Importance], f[5]},
			{"internal", map[bool]string{true: "yes", false: "no"}[k.Internal], f[6]},
			{"synonyms", k.Synonyms, strings.TrimPrefix(f[7], "-")},
		} {
			if c.what == "update" && f[4] == "-" || c.what == "default" && onPurpose[k.Name] != "" {
				continue
			}
			if c.ours != c.kafkas {
				faults = append(faults, f[0]+" "+f[1]+": "+c.what+" "+c.ours+", Kafka has "+c.kafkas)
			}
		}
	}
	for name, s := range scopes {
		for _, k := range Keys(s) {
			if !seen[name+" "+k.Name] {
				faults = append(faults, name+" "+k.Name+" is no config of Kafka's")
			}
		}
	}
	return faults
}
