package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"millrace/bench/ledger"
	"millrace/bench/peer"
)

// rowOf is a row of so many rounds in which Millrace's value is one over Kafka's.
func rowOf(figure string, own float64, rounds int, commit string) ledger.Row {
	var s []ledger.Sample
	for i := range rounds {
		s = append(s, ledger.Sample{Figure: figure, Measure: "CPU s/GB", Subject: peer.Millrace, Round: i, Value: own},
			ledger.Sample{Figure: figure, Measure: "CPU s/GB", Subject: peer.Kafka, Round: i, Value: 1})
	}
	return ledger.Rows(s, commit)[0]
}

// published gives the commit of each row that docs hold after a run; none when
// nothing was written.
func published(t *testing.T, s settings, committed, rows []ledger.Row, anew bool) (commits map[string]string, told string) {
	t.Helper()
	dir := t.TempDir()
	lines, err := s.publish(dir, ledger.Book{Rows: committed}, ledger.Book{Rows: rows}, []figure{{name: "memory", atMost: 3}, {name: "x/a"}}, anew)
	if err != nil {
		t.Fatal(err)
	}
	told = strings.Join(lines, "\n")
	j, err := os.ReadFile(filepath.Join(dir, "benchmarks.json"))
	if os.IsNotExist(err) {
		return nil, told
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := ledger.Read(j)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "benchmarks.md"))
	if err != nil || string(page) != string(b.Markdown()) {
		t.Errorf("the page is not what the figures read as: %v", err)
	}
	commits = map[string]string{}
	for _, r := range b.Rows {
		commits[r.Figure] = r.Commit
	}
	return commits, told
}

// A figure that was cut short stays as it was committed, however many rounds were
// asked for; one that is bounded to fewer is written with those.
func TestCutShortIsNotWritten(t *testing.T) {
	seven := settings{rounds: 7}
	committed := []ledger.Row{rowOf("x/a", 1, 7, "old"), rowOf("memory", 1, 3, "old")}
	half := rowOf("x/b", 1, 7, "new")
	half.Ratios["Kafka"] = ledger.Spread{Q1: 1, Median: 1, Q3: 1, N: 6} // Kafka failed in one
	got, told := published(t, seven, committed, []ledger.Row{rowOf("x/a", 0.5, 6, "new"), half, rowOf("memory", 1, 3, "new"), rowOf("x/c", 1, 7, "new")}, false)
	if len(got) != 3 || got["x/a"] != "old" || got["memory"] != "new" || got["x/c"] != "new" {
		t.Errorf("docs hold %v", got)
	}
	if told != "not written to docs, too few rounds: x/a (6 of 7), x/b (6 of 7)" {
		t.Errorf("told: %s", told)
	}
	if got, told := published(t, seven, committed, []ledger.Row{rowOf("x/a", 1, 2, "new"), rowOf("memory", 1, 2, "new")}, false); got != nil || !strings.Contains(told, "memory (2 of 3)") {
		t.Errorf("a run of two rounds: docs hold %v, told: %s", got, told)
	}
	if got, _ := published(t, settings{rounds: 3}, committed, []ledger.Row{rowOf("memory", 1, 3, "new")}, false); got != nil {
		t.Errorf("a try: docs hold %v", got)
	}
}

// What is behind does not become the bar that the next run is held to, unless
// that is said.
func TestBehindIsNotWritten(t *testing.T) {
	committed := []ledger.Row{rowOf("x/a", 1, 7, "old"), rowOf("x/b", 1, 7, "old"), rowOf("x/c", 1, 7, "old"), rowOf("fetch/a", 0.99, 7, "old")}
	alone := rowOf("x/c", 1, 7, "new")
	alone.Ratios = nil
	// fetch/a is within the quartiles, and misses the aim of 1.
	rows := []ledger.Row{rowOf("x/a", 1.2, 7, "new"), rowOf("x/b", 0.8, 7, "new"), alone, rowOf("fetch/a", 1.01, 7, "new")}
	got, told := published(t, settings{rounds: 7}, committed, rows, false)
	if got["x/a"] != "old" || got["x/b"] != "new" || got["x/c"] != "old" || got["fetch/a"] != "old" {
		t.Errorf("docs hold %v", got)
	}
	if want := "not written to docs, behind the committed figures (-accept writes them): x/a CPU s/GB, fetch/a CPU s/GB\n" +
		"not written to docs, not beside all that the committed figures are (-accept writes them): x/c CPU s/GB"; told != want {
		t.Errorf("told: %s", told)
	}
	got, told = published(t, settings{rounds: 7, accept: true}, committed, rows, false)
	if slices.ContainsFunc([]string{"x/a", "x/b", "x/c", "fetch/a"}, func(f string) bool { return got[f] != "new" }) || told != "" {
		t.Errorf("accepted: docs hold %v, told: %s", got, told)
	}
}

// Of the floor's rows those go that a run of all of them does not know; those
// that it has cut short stay.
func TestFloorsAnew(t *testing.T) {
	floors := func(commit string, rounds int, names ...string) (rows []ledger.Row) {
		for _, n := range names {
			rows = append(rows, ledger.Row{Figure: "floor/" + n, Measure: "MB/s", Commit: commit, Subjects: map[string]ledger.Spread{peer.Floor: {Median: 1, N: rounds}}})
		}
		return rows
	}
	committed := floors("old", 7, "a", "b", "renamed")
	rows := append(floors("new", 7, "a"), floors("new", 4, "b")...)
	if got, _ := published(t, settings{rounds: 7}, committed, rows, true); len(got) != 2 || got["floor/a"] != "new" || got["floor/b"] != "old" {
		t.Errorf("docs hold %v", got)
	}
	if got, _ := published(t, settings{rounds: 7}, committed, rows, false); len(got) != 3 {
		t.Errorf("a run of some figures: docs hold %v", got)
	}
}
