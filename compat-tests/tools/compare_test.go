package tools

import (
	"strings"
	"testing"
)

var (
	ourServer   = &Server{Name: "Millrace", Bootstrap: "127.0.0.1:20001", Controller: "127.0.0.1:20002", Data: "/d/ours", Dir: "/f/ours", ClusterID: "0urClusterIdIsThisOne1"}
	theirServer = &Server{Name: "Apache Kafka", Bootstrap: "127.0.0.1:30001", Controller: "127.0.0.1:30002", Data: "/d/kafka/data", Dir: "/f/kafka", ClusterID: "MkU3OEVBNTcwNTJENDM2Qg"}
)

func seen(line, out, err string, exit int) []Seen {
	return []Seen{{What: line, Words: words(line), Result: Result{Exit: exit, Out: out, Err: err}}}
}

// TestAlike has outputs that differ only in what a type stands for.
func TestAlike(t *testing.T) {
	for name, c := range map[string]struct{ line, ours, theirs string }{
		"topic ids":       {"kafka-topics --describe", "TopicId: 3AfAHdJkQmqtFFAALNxRPA\nTopicId: 5qYpZkW9QkGZ1nFSYw0h7A\n", "TopicId: ZbS0Y0YvT7aPj4Dh1H7p_g\nTopicId: 3AfAHdJkQmqtFFAALNxRPA\n"},
		"addresses":       {"kafka-cluster list-endpoints", "1 localhost 20001 null broker\n", "1 127.0.0.1    30001 null broker\n"},
		"joined address":  {"kafka-consumer-groups", "127.0.0.1:20001 (1)", "localhost:30001 (1)"},
		"times":           {"x", "CreateTime: 1795987807447 at 2026-11-29 21:16:47.447", "CreateTime: 1795987807999 at 2026-11-29 21:16:48,1"},
		"members":         {"x", "consumer-g-3-7311e6d5-3278-4ac1-b621-0000a5db2917", "consumer-g-4-dd06bb7a-fee3-496d-a931-2e32aaef08d1"},
		"cluster":         {"x", "Cluster ID: 0urClusterIdIsThisOne1", "Cluster ID: MkU3OEVBNTcwNTJENDM2Qg"},
		"directories":     {"x", `{"logDir":"/d/ours","file":"/f/ours/plan"}`, `{"logDir":"/d/kafka/data","file":"/f/kafka/plan"}`},
		"throughput":      {"x", "100 records sent, 1538.5 records/sec (0.15 MB/sec), 3.05 ms avg latency, 60.00 ms max latency, 2 ms 50th, 4 ms 95th, 60 ms 99th, 60 ms 99.9th.", "100 records sent, 7.1 records/sec (9.15 MB/sec), 1.05 ms avg latency, 61.00 ms max latency, 3 ms 50th, 5 ms 95th, 61 ms 99th, 61 ms 99.9th."},
		"decimals":        {"x", `{"avg_throughput":8.1967213114754}`, `{"avg_throughput":7.25}`},
		"prose":           {"x", "Error: no way\nERROR org.apache.kafka.common.errors.InvalidTopicException: no way\n", "Error: not so\nERROR org.apache.kafka.common.errors.InvalidTopicException: not so\n"},
		"frames":          {"x", "a\n\tat a.B.c(D.java:3)\n\t... 10 more\nb", "a\n\tat e.F.g(H.java:9)\nb"},
		"widths":          {"kafka-consumer-groups", "GROUP  A\ng      b\n", "GROUP A\ng     b  \n"},
		"hash order":      {"kafka-client-metrics --list", "a\nb\n", "b\na\n"},
		"ids in a hash":   {"kafka-client-metrics --list", "3AfAHdJkQmqtFFAALNxRPA\nZa\n", "Za\nZbS0Y0YvT7aPj4Dh1H7p_g\n"},
		"unbuilt":         {"kafka-broker-api-versions", "\tVote(52): UNSUPPORTED,\n", "\tVote(52): 0 to 2 [usable: 2],\n"},
		"older":           {"kafka-broker-api-versions", "\tFetch(1): 0 to 18 [usable: 18],\n", "\tFetch(1): 4 to 18 [usable: 18],\n"},
		"percentiles":     {"kafka-e2e-latency", "0\t4.28\nAvg latency: 11.5166 ms\nPercentiles: 50th = 3, 99th = 67, 99.9th = 67", "0\t5.28\nAvg latency: 1.5 ms\nPercentiles: 50th = 1, 99th = 2, 99.9th = 3"},
		"read figures":    {"x", "2026-11-29 21:16:47:447, 2026-11-29 21:16:47:448, 0.0095, 0.0632, 100, 662.2517, 45, 106, 0.0900, 943.3962", "2026-11-29 21:16:47:447, 2026-11-29 21:16:47:449, 0.0095, 0.1, 100, 1.0, 5, 6, 0.1, 9.9"},
		"json in a hash":  {"kafka-log-dirs --describe", `{"p":[{"x":1},{"x":2}]}`, `{"p":[{"x":2},{"x":1}]}`},
		"producers":       {"x", "producerId: 7000 producerId: -1", "producerId: 0 producerId: -1"},
		"metadata offset": {"kafka-features describe", "FinalizedVersionLevel: 1  Epoch: 18", "FinalizedVersionLevel: 1  Epoch: 169"},
	} {
		if d := Compare(seen(c.line, c.ours, "", 0), seen(c.line, c.theirs, "", 0), ourServer, theirServer, map[string]int{}); len(d) != 0 {
			t.Errorf("%s: %v", name, d)
		}
	}
}

// TestPlantedFaults has outputs with one fault each, beside all that is
// normalised.
func TestPlantedFaults(t *testing.T) {
	type run struct {
		line, out, err string
		exit           int
	}
	describe := run{"kafka-topics --describe", "Topic: a\tTopicId: 3AfAHdJkQmqtFFAALNxRPA\tPartitionCount: 2\n\tPartition: 0\tLeader: 1\n\tPartition: 1\tLeader: 1\n", "", 0}
	kafkas := run{describe.line, strings.Replace(describe.out, "3AfAHdJkQmqtFFAALNxRPA", "ZbS0Y0YvT7aPj4Dh1H7p_g", 1), "", 0}
	changed := func(r run, old, new string) run {
		if !strings.Contains(r.out, old) {
			t.Fatalf("%q is not in %q", old, r.out)
		}
		r.out = strings.Replace(r.out, old, new, 1)
		return r
	}
	failed := kafkas
	failed.exit = 1
	warned := kafkas
	warned.err = "WARNING: beware\n"
	for name, c := range map[string]struct{ ours, theirs run }{
		"a number":          {changed(describe, "PartitionCount: 2", "PartitionCount: 3"), kafkas},
		"a missing line":    {changed(describe, "\tPartition: 1\tLeader: 1\n", ""), kafkas},
		"a line more":       {changed(describe, "\tPartition: 1", "\tPartition: 0\tLeader: 1\n\tPartition: 1"), kafkas},
		"order of lines":    {changed(describe, "\tPartition: 0\tLeader: 1\n\tPartition: 1\tLeader: 1\n", "\tPartition: 1\tLeader: 1\n\tPartition: 0\tLeader: 1\n"), kafkas},
		"exit code":         {describe, failed},
		"standard error":    {describe, warned},
		"no topic id":       {changed(describe, "3AfAHdJkQmqtFFAALNxRPA", "AAAAAAAAAAAAAAAAAAAAAA"), kafkas},
		"no time":           {run{"x", "CreateTime: -1", "", 0}, run{"x", "CreateTime: 1795987807447", "", 0}},
		"another exception": {run{"x", "org.apache.kafka.common.errors.InvalidTopicException: a", "", 0}, run{"x", "org.apache.kafka.common.errors.InvalidConfigurationException: a", "", 0}},
		"one id for two":    {run{"x", "3AfAHdJkQmqtFFAALNxRPA 3AfAHdJkQmqtFFAALNxRPA", "", 0}, run{"x", "3AfAHdJkQmqtFFAALNxRPA ZbS0Y0YvT7aPj4Dh1H7p_g", "", 0}},
		"another port":      {run{"x", "127.0.0.1:9092 (1)", "", 0}, run{"x", "127.0.0.1:30001 (1)", "", 0}},
		"a lost record":     {run{"x", "99 records sent, 1538.5 records/sec", "", 0}, run{"x", "100 records sent, 7.1 records/sec", "", 0}},
		"records read":      {run{"x", "2026-11-29 21:16:47:447, 2026-11-29 21:16:47:448, 0.0095, 0.0632, 99, 662.2517, 45, 106, 0.0900, 943.3962", "", 0}, run{"x", "2026-11-29 21:16:47:447, 2026-11-29 21:16:47:449, 0.0095, 0.1, 100, 1.0, 5, 6, 0.1, 9.9", "", 0}},
		"a lower version":   {run{"kafka-broker-api-versions", "\tFetch(1): 4 to 17 [usable: 17],\n", "", 0}, run{"kafka-broker-api-versions", "\tFetch(1): 4 to 18 [usable: 18],\n", "", 0}},
		"a higher minimum":  {run{"kafka-broker-api-versions", "\tFetch(1): 5 to 18 [usable: 18],\n", "", 0}, run{"kafka-broker-api-versions", "\tFetch(1): 4 to 18 [usable: 18],\n", "", 0}},
		"a producer":        {run{"x", "producerId: -1", "", 0}, run{"x", "producerId: 5", "", 0}},
		"a size in a hash":  {run{"kafka-log-dirs --describe", `{"p":[{"x":1},{"x":3}]}`, "", 0}, run{"kafka-log-dirs --describe", `{"p":[{"x":2},{"x":1}]}`, "", 0}},
		"a space in data":   {run{"kafka-console-consumer", "a  b\n", "", 0}, run{"kafka-console-consumer", "a b\n", "", 0}},
	} {
		if d := Compare(seen(c.ours.line, c.ours.out, c.ours.err, c.ours.exit), seen(c.theirs.line, c.theirs.out, c.theirs.err, c.theirs.exit), ourServer, theirServer, map[string]int{}); len(d) == 0 {
			t.Errorf("%s: not noticed", name)
		}
	}
	ours := append(seen("x", "", "", 0), seen("y", "", "", 0)...)
	if d := Compare(ours[:1], ours, ourServer, theirServer, nil); len(d) == 0 {
		t.Error("a command that was not run is not noticed")
	}
	hung := seen("x", "", "", 0)
	hung[0].Result.Hung = true
	if d := Compare(hung, hung, ourServer, theirServer, nil); len(d) == 0 {
		t.Error("a command that hangs on both sides is not noticed")
	}
}

// TestUncovered plants options without a play.
func TestUncovered(t *testing.T) {
	script, err := ParsePlays("tool kafka-topics\nunasked --old: gone\nplay p\n  $ kafka-topics -B --list --topic=x\n")
	if err != nil {
		t.Fatal(err)
	}
	used := Used([]*Script{script}, script.Tool, nil)
	if d := Uncovered([]string{"--bootstrap-server", "--list", "--topic", "--old", "--help"}, used, script.Unasked); len(d) != 0 {
		t.Error(d)
	}
	for name, options := range map[string][]string{
		"an option more":        {"--bootstrap-server", "--list", "--topic", "--old", "--new"},
		"a reason for nothing":  {"--bootstrap-server", "--list", "--topic"},
		"a subcommand's option": {"--bootstrap-server", "--list", "--topic", "--old", "sub --list"},
	} {
		if d := Uncovered(options, used, script.Unasked); len(d) != 1 {
			t.Errorf("%s: %v", name, d)
		}
	}
	if d := Uncovered([]string{"--list"}, map[string]bool{"--list": true}, map[string]string{"--list": "never"}); len(d) != 1 {
		t.Errorf("used and left out: %v", d)
	}
}

// TestParseHelp reads both kinds of usage text.
func TestParseHelp(t *testing.T) {
	jopt := "This tool helps.\nOption (* = required)   Description\n------   -----------\n* --must <String: x>   y\n--may [String]   z\n                       --not-this\n-1 latest\n"
	if h := ParseHelp(jopt); strings.Join(h.Options, " ") != "--must --may" || h.Subcommands != nil {
		t.Errorf("%+v", h)
	}
	arg := "usage: x [-h] {a,b}\n\npositional arguments:\n  {a,b-c}\n    a    does a\n\noptional arguments:\n  -h, --help   show\n  --opt OPT    in {x,y}\n               --not-this\n"
	if h := ParseHelp(arg); strings.Join(h.Options, " ") != "--help --opt" || strings.Join(h.Subcommands, " ") != "a b-c" {
		t.Errorf("%+v", h)
	}
	commands := "usage: x [-h] COMMAND ...\n\noptional arguments:\n  -h, --help   show\n\ncommands:\n  COMMAND\n    list        lists\n    aVeryLong\n                does\n"
	if h := ParseHelp(commands); strings.Join(h.Options, " ") != "--help" || strings.Join(h.Subcommands, " ") != "list aVeryLong" {
		t.Errorf("%+v", h)
	}
}

// TestParsePlays refuses what is not a play.
func TestParsePlays(t *testing.T) {
	for _, text := range []string{
		"", "tool kafka-bottles\n", "tool kafka-topics\n  $ kafka-topics\n", "tool kafka-topics\nplay p\n  $ kafka-bottles\n",
		"tool kafka-topics\nplay p\n  | x\n", "tool kafka-topics\nplay p\n  sometimes $ kafka-topics\n",
		"tool kafka-topics\nplay p\n  keep ID 'no group'\n", "tool kafka-topics\nunasked --x\n", "tool kafka-topics\nplay p\n  for ever $ kafka-topics\n",
	} {
		if _, err := ParsePlays(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if _, err := Scripts("testdata"); err != nil {
		t.Error(err)
	}
	if got := strings.Join(words("a 'b c' --d='e f'g h"), "|"); got != "a|b c|--d=e fg|h" {
		t.Error(got)
	}
}
