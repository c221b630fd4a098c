package run

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(path, []byte("before\n"+beginTable+"\n"+endTable+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	kcat := Row{Client: "kcat", Version: "1.7.1", Records: 200, Flavours: []string{"range"}, Remarks: []string{"no timestamps in its input"}, Results: []Result{
		{Step: "produce none", Outcome: OK},
		{Step: "create topic", Outcome: Unsupported, Detail: "kcat has no admin calls"},
		{Step: "produce gzip", Flavour: "range", Outcome: OK},
		{Step: "produce gzip", Flavour: "consumer/range", Outcome: Unsupported, Detail: "not for this kind"},
	}}
	franz := Row{Client: "franz-go", Version: "v1", Records: 100, Results: []Result{
		{Step: "compare", Flavour: "range", Outcome: Failed, Detail: "key 1: lost\nmore"},
		{Step: "compare", Flavour: "sticky", Outcome: OK},
	}}
	if err := UpdateTable(path, []Row{kcat}, false); err != nil {
		t.Fatal(err)
	}
	if err := UpdateTable(path, []Row{franz}, false); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for _, want := range []string{
		"before\n" + beginTable, endTable + "\nafter\n", "| kcat | 1.7.1 | 200 | range | no call | ok | ok | not reached |",
		"- kcat 1.7.1: produce gzip: no call: not for this kind\n",
		"- kcat 1.7.1: create topic: no call: kcat has no admin calls\n", "- kcat 1.7.1: no timestamps in its input\n",
		"| **fails** |", "- franz-go v1: compare: fails: key 1: lost\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the file lacks %q:\n%s", want, got)
		}
	}
	// A client that is run again replaces its own lines and nobody else's.
	franz.Results = []Result{{Step: "compare", Outcome: OK}}
	if err := UpdateTable(path, []Row{franz}, false); err != nil {
		t.Fatal(err)
	}
	text, _ = os.ReadFile(path)
	if got := string(text); strings.Contains(got, "fails") || strings.Count(got, "| kcat |") != 1 || strings.Count(got, "| franz-go |") != 1 {
		t.Errorf("after a second run:\n%s", got)
	}
	// A run of all clients leaves nothing of those that are no longer there.
	if err := UpdateTable(path, []Row{franz}, true); err != nil {
		t.Fatal(err)
	}
	text, _ = os.ReadFile(path)
	if got := string(text); strings.Contains(got, "kcat") || strings.Count(got, "| franz-go |") != 1 {
		t.Errorf("after a run of all clients:\n%s", got)
	}
	if err := os.WriteFile(path, []byte("nothing"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := UpdateTable(path, nil, false); err == nil {
		t.Error("a file without markers was accepted")
	}
}

func TestWorseThanTheTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(path, []byte(beginTable+"\n"+endTable+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	row := func(outcomes ...Outcome) Row {
		r := Row{Client: "kcat", Version: "1.7.1 (librdkafka 2.0.2)", Flavours: []string{"range", "sticky"}}
		for i, o := range outcomes {
			r.Results = append(r.Results, Result{Step: Steps[i], Outcome: o})
		}
		return r
	}
	before := row(OK, Unsupported, Failed, NotRun, OK)
	if err := UpdateTable(path, []Row{before}, false); err != nil {
		t.Fatal(err)
	}
	table, err := ReadTable(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(table) != 1 {
		t.Fatalf("the table has the rows %v", table)
	}
	seen := table[before.Key()]
	fewer := before
	fewer.Flavours = []string{"range"}
	for _, c := range []struct {
		name    string
		row     Row
		without []string
		want    []string
	}{
		{"the same", before, nil, nil},
		{"better", row(OK, OK, OK, OK, OK), nil, nil},
		{"a step fails", row(Failed, Unsupported, Failed, NotRun, OK), nil, []string{Steps[0] + ": **fails**, the table says ok"}},
		{"a call is gone", row(Unsupported, Unsupported, Failed, NotRun, OK), nil, []string{Steps[0] + ": no call, the table says ok"}},
		{"a missing call now fails", row(OK, Failed, Failed, NotRun, OK), nil, []string{Steps[1] + ": **fails**, the table says no call"}},
		{"a step is not reached", row(OK, Unsupported, Failed, NotRun), nil, []string{Steps[4] + ": not reached, the table says ok"}},
		{"a step is left out", row(OK, Unsupported, Failed, NotRun), []string{Steps[4]}, nil},
		{"a flavour is gone", fewer, nil, []string{"no group with sticky came about, the table says that one did"}},
	} {
		if got := c.row.Worse(seen, c.without...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
