package run

import (
	"os"
	"path/filepath"
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
	}}
	franz := Row{Client: "franz-go", Version: "v1", Records: 100, Results: []Result{
		{Step: "compare", Flavour: "range", Outcome: Failed, Detail: "key 1: lost\nmore"},
		{Step: "compare", Flavour: "sticky", Outcome: OK},
	}}
	if err := UpdateTable(path, []Row{kcat}); err != nil {
		t.Fatal(err)
	}
	if err := UpdateTable(path, []Row{franz}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for _, want := range []string{
		"before\n" + beginTable, endTable + "\nafter\n", "| kcat | 1.7.1 | 200 | range | no call | ok | not reached |",
		"- kcat 1.7.1: create topic: no call: kcat has no admin calls\n", "- kcat 1.7.1: no timestamps in its input\n",
		"| **fails** |", "- franz-go v1: compare: fails: key 1: lost\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the file lacks %q:\n%s", want, got)
		}
	}
	// A client that is run again replaces its own lines and nobody else's.
	franz.Results = []Result{{Step: "compare", Outcome: OK}}
	if err := UpdateTable(path, []Row{franz}); err != nil {
		t.Fatal(err)
	}
	text, _ = os.ReadFile(path)
	if got := string(text); strings.Contains(got, "fails") || strings.Count(got, "| kcat |") != 1 || strings.Count(got, "| franz-go |") != 1 {
		t.Errorf("after a second run:\n%s", got)
	}
	if err := os.WriteFile(path, []byte("nothing"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := UpdateTable(path, nil); err == nil {
		t.Error("a file without markers was accepted")
	}
}
