package ledger

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestSpread(t *testing.T) {
	if got, want := Of([]float64{7, 1, 3, 5, 2, 6, 4}), (Spread{Q1: 2.5, Median: 4, Q3: 5.5, N: 7}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := Of([]float64{2}); got != (Spread{2, 2, 2, 1}) {
		t.Errorf("of one: %+v", got)
	}
	sorted := make([]float64, 1000)
	for i := range sorted {
		sorted[i] = float64(i + 1)
	}
	for q, want := range map[float64]float64{0.5: 500, 0.99: 990, 0.999: 999, 1: 1000, 0: 1} {
		if got := Percentile(sorted, q); got != want {
			t.Errorf("percentile %v: %v, want %v", q, got, want)
		}
	}
	if !math.IsNaN(Percentile(nil, 0.5)) {
		t.Error("a percentile of nothing")
	}
}

// run makes rows of one figure: Millrace's values over ones.
func run(more bool, own ...float64) []Row {
	var samples []Sample
	for i, v := range own {
		samples = append(samples, Sample{"f", "m", more, Own, i, v}, Sample{"f", "m", more, "Kafka", i, 1})
	}
	return Rows(samples, "c")
}

// Ratios are made within rounds: a machine that slows down from round to round
// leaves them alone.
func TestRatiosWithinRounds(t *testing.T) {
	var samples []Sample
	for i := range 7 {
		slow := float64(i + 1)
		samples = append(samples, Sample{"f", "CPU", false, Own, i, 2 * slow}, Sample{"f", "CPU", false, "Kafka", i, 8 * slow},
			Sample{"f", "CPU", false, "floor", i, 1 * slow})
	}
	samples = append(samples, Sample{"f", "CPU", false, "kfake", 9, 1}) // alone in its round
	rows := Rows(samples, "c")
	if len(rows) != 1 {
		t.Fatalf("%d rows", len(rows))
	}
	r := rows[0]
	if got := r.Ratios["Kafka"]; got != (Spread{0.25, 0.25, 0.25, 7}) {
		t.Errorf("to Kafka %+v", got)
	}
	if got := r.Ratios["floor"]; got != (Spread{2, 2, 2, 7}) {
		t.Errorf("to the floor %+v", got)
	}
	if _, ok := r.Ratios["kfake"]; ok {
		t.Error("a ratio without a round in common")
	}
	if got := r.Subjects[Own]; got.Median != 8 {
		t.Errorf("Millrace %+v", got)
	}
}

// Planted ratios: the rule sees those that are worse, in the direction that is
// worse for them, and no others.
func TestWorse(t *testing.T) {
	steady := []float64{0.28, 0.29, 0.30, 0.30, 0.30, 0.31, 0.32}
	plus := func(d float64) []float64 {
		out := slices.Clone(steady)
		for i := range out {
			out[i] += d
		}
		return out
	}
	for _, tc := range []struct {
		name     string
		more     bool
		was, now []float64
		behind   bool
	}{
		{"the same", false, steady, steady, false},
		{"worse beyond the quartiles", false, steady, plus(0.05), true},
		{"better", false, steady, plus(-0.05), false},
		{"less throughput", true, steady, plus(-0.05), true},
		{"more throughput", true, steady, plus(0.05), false},
		{"within the quartiles", false, steady, plus(0.004), false},
		{"a new run that spreads over the old median", false, steady, []float64{0.2, 0.25, 0.29, 0.33, 0.4, 0.45, 0.5}, false},
		{"an old run that spreads over the new median", false, []float64{0.2, 0.25, 0.28, 0.3, 0.33, 0.37, 0.4}, plus(0.03), false},
		{"one bad round", false, steady, []float64{0.28, 0.29, 0.30, 0.30, 0.30, 0.31, 3}, false},
		{"a per cent of what hardly spreads", false, []float64{2, 2, 2, 2, 2, 2, 2}, []float64{2.02, 2.02, 2.02, 2.02, 2.02, 2.02, 2.02}, false},
		{"a tenth of what hardly spreads", false, []float64{2, 2, 2, 2, 2, 2, 2}, []float64{2.2, 2.2, 2.2, 2.2, 2.2, 2.2, 2.2}, true},
	} {
		got := Worse(run(tc.more, tc.was...), run(tc.more, tc.now...))
		if len(got) > 0 != tc.behind {
			t.Errorf("%s: behind %v", tc.name, got)
		}
	}
	if got := Worse(nil, run(false, steady...)); got != nil {
		t.Errorf("a row that is new is behind: %v", got)
	}
}

// An aim that the committed figures meet is lost by each row that misses it, a
// row that is new included; one that they miss is not, nor one of which they say
// nothing.
func TestLost(t *testing.T) {
	row := func(figure, measure, subject string, v float64) Row {
		s := Spread{v, v, v, 7}
		if subject == Own {
			return Row{Figure: figure, Measure: measure, Subjects: map[string]Spread{Own: s}}
		}
		return Row{Figure: figure, Measure: measure, Ratios: map[string]Spread{subject: s}}
	}
	committed := []Row{row("append/16KiB", "MB/s", "floor", 0.84), row("append/64KiB", "MB/s", "floor", 0.96), row("read/64KiB", "MB/s", "floor", 0.89),
		row("start", "ms to the first record", Own, 14), row("fetch/tail/x", "CPU s/GB", "Kafka", 0.5)}
	for _, tc := range []struct {
		now  Row
		lost string // in what is said; none: nothing is
	}{
		{row("append/16KiB", "MB/s", "floor", 0.79), "append/16KiB MB/s, beside floor: 0.79 (0.79 to 0.79), which misses an aim that the committed figures meet: append path"},
		{row("append/16KiB", "MB/s", "floor", 0.8), ""},
		{row("append/1024KiB", "MB/s", "floor", 0.5), "append/1024KiB"},
		{row("append/16KiB", "CPU s/GB", "floor", 0.5), ""},
		{row("read/64KiB", "MB/s", "floor", 0.5), ""}, // missed before
		{row("memory", "MiB idle", Own, 100), ""},     // not known before
		{row("start", "ms to the first record", Own, 26), "start ms to the first record: 26"},
		{row("fetch/tail/x", "CPU s/GB", "Kafka", 1.1), "at most 1.00"},
	} {
		got := Lost(committed, []Row{tc.now})
		if (len(got) == 1) != (tc.lost != "") || len(got) == 1 && !strings.Contains(got[0].String(), tc.lost) {
			t.Errorf("%s %v%v: lost %v", tc.now.Key(), tc.now.Subjects, tc.now.Ratios, got)
		}
		if all := Fallen(committed, []Row{tc.now}); len(all) < len(got) {
			t.Errorf("%s: no word of what is lost: %v", tc.now.Key(), all)
		}
	}
}

func TestTwice(t *testing.T) {
	about := func(figure, subject, aim string, now float64) Behind {
		return Behind{Row: Row{Figure: figure}, Subject: subject, Aim: aim, Now: Spread{Median: now}}
	}
	first := []Behind{about("a", "Kafka", "", 1), about("a", "floor", "", 1), about("a", "floor", "aim", 1), about("b", "Kafka", "", 1), about("gone", "Kafka", "", 1)}
	second := []Behind{about("a", "Kafka", "", 2), about("a", "floor", "aim", 2), about("b", "kfake", "", 2)}
	got := Twice(first, second, []Row{{Figure: "a"}, {Figure: "b"}})
	want := []Behind{second[0], second[1], first[4]}
	if !slices.EqualFunc(got, want, func(a, b Behind) bool { return a.same(b) && a.Now == b.Now }) {
		t.Errorf("behind twice: %v, want %v", got, want)
	}
}

func TestSlowestAndMerge(t *testing.T) {
	rows := []Row{
		{Figure: "a", More: true, Ratios: map[string]Spread{"Kafka": {Median: 0.5, N: 1}}},
		{Figure: "b", Ratios: map[string]Spread{"Kafka": {Median: 3, N: 1}}},
		{Figure: "c", Ratios: map[string]Spread{"Kafka": {Median: 0.1, N: 1}, "floor": {Median: 9, N: 1}}},
	}
	if got, ok := Slowest(rows, "Kafka"); !ok || got.Figure != "b" {
		t.Errorf("slowest %v %v", got, ok)
	}
	if _, ok := Slowest(rows, "kfake"); ok {
		t.Error("slowest beside nobody")
	}
	got := Merge(rows, []Row{{Figure: "b", Commit: "new"}, {Figure: "d"}})
	if len(got) != 4 || got[1].Commit != "new" || got[3].Figure != "d" || rows[1].Commit != "" {
		t.Errorf("merged %v", got)
	}
}

func TestBook(t *testing.T) {
	samples := []Sample{}
	for i := range 7 {
		samples = append(samples, Sample{"produce/x", "CPU s/GB", false, Own, i, 0.5}, Sample{"produce/x", "CPU s/GB", false, "Kafka", i, 1},
			Sample{"produce/x", "CPU s/GB", false, "floor", i, 0.4},
			Sample{"produce/100B/p12/acks=all/c16", "CPU s/GB", false, Own, i, 1.2}, Sample{"produce/100B/p12/acks=all/c16", "CPU s/GB", false, "floor", i, 1},
			Sample{"fetch/catch-up/100B/p1/c1", "CPU s/GB", false, Own, i, 1}, Sample{"fetch/catch-up/100B/p1/c1", "CPU s/GB", false, "floor", i, 1},
			Sample{"fetch/catch-up/100B/p12/c16", "CPU s/GB", false, Own, i, 2.2}, Sample{"fetch/catch-up/100B/p12/c16", "CPU s/GB", false, "floor", i, 1},
			Sample{"start", "ms to the first record", false, Own, i, 20},
			Sample{"append/16KiB", "MB/s", true, Own, i, 750}, Sample{"append/16KiB", "MB/s", true, "floor", i, 1000},
			Sample{"append/64KiB", "MB/s", true, Own, i, 990}, Sample{"append/64KiB", "MB/s", true, "floor", i, 1000},
			Sample{"read/16KiB", "MB/s", true, Own, i, 950}, Sample{"read/16KiB", "MB/s", true, "floor", i, 1000})
	}
	b := Book{Machine: "2 cores", Method: "m", Rows: Rows(samples, "abc")}
	j, err := b.JSON()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read(j)
	if err != nil {
		t.Fatal(err)
	}
	md := string(b.Markdown())
	if md != string(again.Markdown()) {
		t.Error("what was written reads differently")
	}
	for _, want := range []string{
		"| produce: server CPU beside Kafka's | at most 0.300 | 0.500 (produce/x) | 0.400 | **missed**, by the limit too |", "| exec to the first acknowledged record, ms | at most 25.0 | 20.0 (start) |  | met |",
		"| produce, 256 KiB to twelve partitions: server CPU beside the limit | at most 1.30 | 1.20 (produce/100B/p12/acks=all/c16) |  | met |",
		"| catch-up fetch, 256 KiB of one partition: server CPU beside the limit | at most 1.10 | 1.00 (fetch/catch-up/100B/p1/c1) |  | met |",
		"| catch-up fetch, 256 KiB of twelve partitions: server CPU beside the limit | at most 1.10 | 2.20 (fetch/catch-up/100B/p12/c16) |  | **missed** |",
		"| append path, batches of 16 KiB to 1 MiB: throughput beside the limit's | at least 0.800 | 0.750 (append/16KiB) |  | **missed** |",
		"| read path, batches of 16 KiB to 1 MiB: throughput beside plain sendfile's | at least 0.900 | 0.950 (read/16KiB) |  | met |",
		"| produce/x | CPU s/GB | 0.500 (0.500, 0.500) | 1.00 (1.00, 1.00) | | 0.400 (0.400, 0.400) | 0.500 (0.500, 0.500) | | 1.25 (1.25, 1.25) | 7 | abc |", "a machine with 2 cores",
	} {
		if !strings.Contains(md, want) {
			t.Errorf("no line %q in\n%s", want, md)
		}
	}
}

// docs/benchmarks.md is what docs/benchmarks.json reads as.
func TestCommittedPage(t *testing.T) {
	j, err := os.ReadFile("../../docs/benchmarks.json")
	if err != nil {
		t.Fatal(err)
	}
	b, err := Read(j)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page, b.Markdown()) {
		t.Error("docs/benchmarks.md does not say what docs/benchmarks.json holds; `go run ./bench -figure page` writes it anew")
	}
}
