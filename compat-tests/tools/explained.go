package tools

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// tabular names the tools that pad columns to the longest value in them: the
// length of a port or a directory moves the rest of the line.
var tabular = map[string]bool{
	"kafka-consumer-groups": true, "kafka-groups": true, "kafka-metadata-quorum": true, "kafka-transactions": true, "kafka-cluster": true,
	"kafka-share-groups": true, "kafka-streams-groups": true,
}

// Order is an output whose order is that of a Java hash table or of answers as
// they arrive, which says nothing.
type Order struct {
	Words []string       // the command has all of them
	Lines bool           // sort whole lines
	List  *regexp.Regexp // sort what stands between commas in its group
	JSON  bool           // sort the arrays in lines that are JSON
	Why   string
}

// orders is the one table of what is sorted before it is compared.
var orders = []Order{
	{Words: []string{"kafka-client-metrics", "--list"}, Lines: true, Why: "resources: a hash map in the broker's answer"},
	{Words: []string{"kafka-client-metrics", "--describe"}, Lines: true, Why: "resources: a hash map in the broker's answer"},
	{Words: []string{"kafka-log-dirs", "--describe"}, JSON: true, Why: "partitions of a directory: a hash map in the broker's answer"},
}

func orderOf(words []string) *Order {
	for i, o := range orders {
		if !slices.ContainsFunc(o.Words, func(w string) bool { return !slices.Contains(words, w) }) {
			return &orders[i]
		}
	}
	return nil
}

// within sorts the parts of a list, between commas, where List finds one in a
// line.
func (o *Order) within(line string) string {
	if o.JSON && strings.HasPrefix(line, "{") {
		var v any
		if json.Unmarshal([]byte(line), &v) != nil {
			return line
		}
		sortArrays(v)
		b, err := json.Marshal(v)
		if err != nil {
			return line
		}
		return string(b)
	}
	if o.List == nil {
		return line
	}
	at := o.List.FindStringSubmatchIndex(line)
	if at == nil {
		return line
	}
	parts := strings.Split(line[at[2]:at[3]], ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	slices.Sort(parts)
	return line[:at[2]] + strings.Join(parts, ",") + line[at[3]:]
}

// sortArrays sorts every array in a JSON value by the text of its elements.
func sortArrays(v any) {
	text := func(v any) string {
		b, _ := json.Marshal(v) // it came from JSON
		return string(b)
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			sortArrays(e)
		}
		slices.SortFunc(v, func(a, b any) int { return strings.Compare(text(a), text(b)) })
	case map[string]any:
		for _, e := range v { // any order: each is sorted by itself
			sortArrays(e)
		}
	}
}

// Explained is a difference that is meant.
type Explained struct {
	// At matches "COMMAND: output: only ours: LINE", or errors, or only Kafka's.
	At  *regexp.Regexp
	Why string
}

func explain(at, why string) Explained { return Explained{regexp.MustCompile(at), why} }

// explained lists every difference that is meant. One that a whole run does not
// meet any more fails too.
var explained = []Explained{
	explain(`^kafka-configs .*--all: output: only (ours|Kafka's): "  (listeners|log.dirs)=.*DEFAULT_CONFIG|^kafka-configs .*--all: output: only Kafka's: "  log.dirs=<data> `,
		"the defaults of listeners and log.dirs suit one node on loopback, founded without any configuration"),
	explain(`^kafka-configs .*--all: output: only (ours|Kafka's): "  node.id=1 sensitive=false synonyms=\{STATIC_BROKER_CONFIG:node.id=1(, DEFAULT_CONFIG:node.id=1)?\}`, "node.id has a default that suits one node"),
	explain(`^kafka-configs .*--all: output: only (ours|Kafka's): "  process.roles=broker,controller sensitive=false synonyms=\{STATIC_BROKER_CONFIG:process.roles=broker,controller(, DEFAULT_CONFIG:process.roles=broker,controller)?\}`,
		"process.roles has a default that suits one node"),
	explain(`^kafka-configs .*--all: output: only (ours|Kafka's): "  group.initial.rebalance.delay.ms=0 .*DEFAULT_CONFIG:group.initial.rebalance.delay.ms=(0|3000)\}`,
		"the default of the initial rebalance delay suits one node"),
	explain(`^kafka-features .*describe.*: output: only Kafka's: "Feature: (eligible.leader.replicas|group|share|streams|transaction).version `,
		"a feature is told of when it is built"),
	explain(`^kafka-features .*describe.*: output: only (ours|Kafka's): "Feature: kraft.version +SupportedMinVersion: 0 +SupportedMaxVersion: [01] +FinalizedVersionLevel: 0 `,
		"level 1 of kraft.version is advertised when voters can be changed"),
	explain(`api-versions -C: output: only Kafka's: "(Vote|BeginQuorumEpoch|EndQuorumEpoch|AlterPartition|Envelope|FetchSnapshot|BrokerRegistration|BrokerHeartbeat|AllocateProducerIds|ControllerRegistration|AssignReplicasToDirs|UpdateRaftVoter)\(`,
		"how the nodes of a cluster speak among themselves is Millrace's own"),
	explain(`api-versions.*: output: only (ours|Kafka's): "(\\t)?(GetTelemetrySubscriptions|PushTelemetry)\(`,
		"telemetry is told of while somebody subscribes, as the play of client metrics does: in Kafka, while a plugin takes what is pushed"),
}

// isExplained says whether a difference is meant, and counts it.
func isExplained(difference string, used map[string]int) bool {
	for _, e := range explained {
		if e.At.MatchString(difference) {
			used[e.Why]++
			return true
		}
	}
	return false
}

const (
	unbuilt = "an API that is not built is not advertised"
	older   = "versions that Kafka 4.0 dropped are served"
)

var apiLine = regexp.MustCompile(`^\s*(\w+\(\d+\)): (?:(\d+)(?: to (\d+))? \[usable: (\d+)\]|(UNSUPPORTED)),?$`)

// reconcile makes lines of API versions alike where ours is meant to differ: an
// API that is not there, or a lower first version.
func reconcile(words, ours, theirs []string, used map[string]int) []string {
	if words[0] != "kafka-broker-api-versions" && !slices.Contains(words, "api-versions") {
		return ours
	}
	kafkas := make(map[string]string)
	for _, line := range theirs {
		if m := apiLine.FindStringSubmatch(line); m != nil {
			kafkas[m[1]] = line
		}
	}
	out := slices.Clone(ours)
	for i, line := range ours {
		m := apiLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		k := apiLine.FindStringSubmatch(kafkas[m[1]])
		switch {
		case k == nil || line == kafkas[m[1]]:
		case m[5] != "" && k[5] == "":
			used[unbuilt]++
			out[i] = kafkas[m[1]]
		case m[5] == "" && k[5] == "" && m[4] == k[4] && cmp.Or(m[3], m[2]) == cmp.Or(k[3], k[2]) && lower(m[2], k[2]):
			used[older]++
			out[i] = kafkas[m[1]]
		}
	}
	return out
}

func lower(a, b string) bool {
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	return err1 == nil && err2 == nil && x < y
}
