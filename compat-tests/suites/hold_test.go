package suites

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"millrace/compat-tests/ledger"
)

// fake is a suite whose tests do what a table says, on each server in each attempt.
type fake struct {
	does map[string][]string // "server test": the outcomes, the last of them for every later attempt; a part after a slash
	runs map[string]int
}

func (f *fake) line() ledger.Suite { return ledger.Suite{Name: "kgo", Version: "1"} }

func (f *fake) list() []string {
	names := map[string]bool{}
	for key := range f.does {
		_, name, _ := strings.Cut(key, " ")
		name, _, _ = strings.Cut(name, "/")
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func (f *fake) run(_ context.Context, s *Server, tests []string) (map[string]result, error) {
	out := map[string]result{}
	for key, outcomes := range f.does {
		server, name, _ := strings.Cut(key, " ")
		test, _, _ := strings.Cut(name, "/")
		if server != s.Name || !slices.Contains(tests, test) {
			continue
		}
		n := f.runs[key]
		f.runs[key]++
		if o := outcomes[min(n, len(outcomes)-1)]; o != "nothing" {
			out[name] = result{ledger.Outcome(o), "said"}
		}
	}
	return out, nil
}

func TestHold(t *testing.T) {
	f := &fake{runs: map[string]int{}, does: map[string][]string{
		"millrace TestFine": {"passed"}, "kafka TestFine": {"passed"},
		"millrace TestRace": {"failed", "failed", "passed"}, "kafka TestRace": {"passed"},
		"millrace TestBroken": {"failed"}, "kafka TestBroken": {"passed"},
		"millrace TestBoth": {"failed"}, "kafka TestBoth": {"failed"},
		"millrace TestSilent": {"nothing"}, "kafka TestSilent": {"passed"},
		"millrace TestSkips": {"skipped"}, "kafka TestSkips": {"passed"},
		"millrace TestTxnEtl": {"failed"}, "kafka TestTxnEtl": {"passed"},
		"millrace TestGroupSimple": {"passed"}, "kafka TestGroupSimple": {"passed"},
		"millrace TestGroupSimple/848": {"skipped"}, "kafka TestGroupSimple/848": {"passed"},
		"millrace TestParts": {"passed"}, "kafka TestParts": {"passed"},
		"millrace TestParts/a": {"failed"}, "kafka TestParts/a": {"passed"},
	}}
	// Two maps, because the two servers are asked at the same time.
	other := &fake{does: f.does, runs: map[string]int{}}
	here, err := runOn(t.Context(), f, "kgo", &Server{Name: "millrace"}, f.list(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{"AddPartitionsToTxn": true, "ConsumerGroupHeartbeat": true}
	there, err := runOn(t.Context(), other, "kgo", &Server{Name: "kafka", Serves: all}, f.list(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, test := range merge("kgo", nil, here, there) {
		got[test.Name] = string(test.Millrace) + " " + string(test.Kafka) + " " + test.Why
	}
	want := map[string]string{
		"TestFine": "passed passed said", "TestRace": "passed passed said", "TestBroken": "failed passed said", "TestBoth": "failed failed said",
		"TestSilent": "failed passed not run here", "TestSkips": "skipped passed said", "TestTxnEtl": "waits passed AddPartitionsToTxn",
		"TestGroupSimple": "passed passed said", "TestGroupSimple/848": "waits passed ConsumerGroupHeartbeat",
		"TestParts": "passed passed said", "TestParts/a": "failed passed said",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if f.runs["millrace TestTxnEtl"] != 0 {
		t.Error("a test was run that waits for an API")
	}
	if f.runs["millrace TestBroken"] != attempts || f.runs["millrace TestRace"] != 3 || f.runs["millrace TestFine"] != 1 {
		t.Errorf("runs: %v", f.runs)
	}
	// What this gives is worse than a ledger that has it all passed.
	var was ledger.Suite
	for name := range want {
		was.Tests = append(was.Tests, ledger.Test{Name: name, Millrace: ledger.Passed, Kafka: ledger.Passed})
	}
	was.Name = "kgo"
	seen := ledger.Suite{Name: "kgo", Tests: merge("kgo", nil, here, there)}
	if worse := ledger.Worse(&ledger.Ledger{Suites: []ledger.Suite{was}}, &ledger.Ledger{Suites: []ledger.Suite{seen}}, true); len(worse) != 6 {
		t.Errorf("worse: %q", worse)
	}
}

func TestWhatWaits(t *testing.T) {
	for _, c := range []struct {
		suite, test string
		serves      string
		what        string
		run         bool
	}{
		{"kgo", "TestGroupETL/range/848", "", "ConsumerGroupHeartbeat", false},
		{"kgo-chaos", "TestGroupETL/sticky/848/static", "", "ConsumerGroupHeartbeat", false},
		{"kgo", "TestGroupETL/range/848", "ConsumerGroupHeartbeat", "", true},
		{"kgo", "TestGroupETL/range", "", "", true},
		{"kgo", "TestTxnEtl/range/848", "", "AddPartitionsToTxn", false},
		{"librdkafka", "0171_share_consumer_consume", "", "ShareGroupHeartbeat", false},
		{"librdkafka", "0190_share_consumer_telemetry", "", "ShareGroupHeartbeat", false},
		{"librdkafka", "0017_compression", "", "", true},
		{"kafka-clients", "VerifiableShareConsumer", "", "ShareGroupHeartbeat", false},
	} {
		what, run := waiting(c.suite, c.test, map[string]bool{c.serves: true})
		if what != c.what || run != c.run {
			t.Errorf("%s of %s waits for %q, run %v; want %q, %v", c.test, c.suite, what, run, c.what, c.run)
		}
	}
}

func TestGoOutputIsRead(t *testing.T) {
	got := parseGo(`=== RUN   TestA
=== RUN   TestA/one
    x_test.go:12: the broker at 127.0.0.1:4711 said no to /home/me/a/.cache/b/c.sh
--- FAIL: TestA (0.10s)
    --- FAIL: TestA/one (0.10s)
=== RUN   TestB
=== PAUSE TestB
=== RUN   TestC
    c_test.go:3: no brokers
--- SKIP: TestC (0.00s)
=== CONT  TestB
panic: test timed out after 1s
`)
	want := map[string]result{
		"TestA": {ledger.Failed, ""}, "TestA/one": {ledger.Failed, "the broker at HOST:PORT said no to c.sh"},
		"TestB": {ledger.Failed, "it did not end"}, "TestC": {ledger.Skipped, "no brokers"},
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestReportIsRead(t *testing.T) {
	got, err := parseReport([]byte(`{ "id": "x", "tests": {"<MAIN>": {"state": "PASSED", "report": [ ]},
		"0001_a": {"name": "0001_a", "state": "PASSED"}, "0002_b": {"state": "FAILED"}, "0003_c": {"state": "SKIPPED"}, "0004_d": {"state": "RUNNING"}}}`),
		"\x1b[31m### Test \"0002_b (do_test_x:12)\" failed at b.c:9:do_test_x() at Mon: ###\nthe topic rdkafkatest_rnd4b06590f26a5296e_0002 is gone\n"+
			"|\x1b[36m 0003_c                                   |    SKIPPED |   0.000s \x1b[0m|\x1b[36m needs SASL\x1b[0m\n")
	if err != nil {
		t.Fatal(err)
	}
	delete(got, "<MAIN>")
	want := map[string]result{
		"0001_a": {ledger.Passed, ""}, "0002_b": {ledger.Failed, "the topic rdkafkatest_rn..._0002 is gone"},
		"0003_c": {ledger.Skipped, "needs SASL"}, "0004_d": {ledger.Failed, ""},
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if _, err := parseReport([]byte("{"), ""); err == nil {
		t.Error("a report that is cut short is taken")
	}
}

func TestTestsThatReachAServer(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a_test.go"), []byte(`package a
func seeds() {}
func client() { seeds() }
type c struct{}
func (c) run() { client() }
func TestDirect(t *T) { seeds() }
func TestThrough(t *T) { var x c; x.run() }
func TestAlone(t *T) { alone() }
func alone() {}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := testsReaching(dir, "seeds")
	if want := []string{"TestDirect", "TestThrough"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

// TestConsumedIsHeldToProduced plants faults into what a consumer has printed.
func TestConsumedIsHeldToProduced(t *testing.T) {
	where := map[string]place{"0": {0, 0}, "1": {1, 0}, "2": {0, 1}}
	line := map[string]string{
		"0": `{"name":"record_data","topic":"t","partition":0,"value":"0","offset":0}` + "\n", "1": `{"name":"record_data","topic":"t","partition":1,"value":"1","offset":0}` + "\n",
		"2": `{"name":"record_data","topic":"t","partition":0,"value":"2","offset":1}` + "\n", "good": `{"name":"offsets_committed","success":true}` + "\n",
		"bad": `{"name":"offsets_committed","success":false}` + "\n", "moved": `{"name":"record_data","topic":"t","partition":0,"value":"2","offset":2}` + "\n",
		"alien": `{"name":"record_data","topic":"t","partition":0,"value":"3","offset":3}` + "\n",
	}
	for _, c := range []struct{ printed, want string }{
		{"0 1 2 good", ""},
		{"0 1 good", "record 2 was consumed 0 times"},
		{"0 1 2 2 good", "record 2 was consumed 2 times"},
		{"0 1 moved good", "record 2 is at partition 0 offset 2"},
		{"0 1 2 alien", `"3" was never produced`},
		{"0 1 2 bad", "a commit failed"},
	} {
		out := "not JSON\n"
		for _, key := range strings.Fields(c.printed) {
			out += line[key]
		}
		err := check(where, parseEvents(out))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.printed, err, c.want)
		}
	}
}
