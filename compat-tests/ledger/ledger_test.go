package ledger

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// example is a small ledger with a line of each kind.
func example() *Ledger {
	l := &Ledger{
		APIs: []API{
			{Key: 3, Name: "Metadata", Version: 1, Frames: &Compared{Compared: 7, Equal: 6, Explained: 1, Why: []string{"a < b"}, Commit: "aa"}},
			{Key: 3, Name: "Metadata", Version: 0, Frames: &Compared{Compared: 5, Equal: 5, Commit: "aa"}, Oracle: &Compared{Compared: 100, Equal: 100, Commit: "aa"}},
			{Key: 1, Name: "Fetch", Version: 4},
		},
		Suites: []Suite{
			{Name: "some tests", Version: "1.0", Settings: "-x", Commit: "aa", Tests: []Test{
				{Name: "c", Millrace: Waits, Kafka: Passed, Why: "EndTxn"},
				{Name: "a", Millrace: Passed, Kafka: Passed},
				{Name: "b", Millrace: Failed, Kafka: Failed, Why: "both"},
				{Name: "d", Millrace: Skipped, Kafka: Skipped, Why: "needs three nodes"},
			}},
		},
		Oracle: &Oracle{Commit: "aa", Seeds: []int64{1, 51}, Sequences: 50, Codes: map[string][]int16{"3": {0, 3}}},
		Depth: &Depth{Commit: "aa", Seeds: [2]int64{1, 51}, Parts: []Reached{{"LogValidator", 150, 200}, {"KafkaApis: Fetch", 8, 10}, {"UnifiedLog", 40, 80}},
			Codes: map[string][]int16{"10": {0}, "3": {0, 3}}, Unseen: []Unseen{{3, 29, "needs an authorizer"}},
			Unreached: []Unreached{{"UnifiedLog", "UnifiedLog.x", 40, []string{"never"}}}},
	}
	l.tidy()
	return l
}

func TestFileIsReadAsItIsWritten(t *testing.T) {
	l := example()
	text := l.JSON()
	again, err := Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if second := again.JSON(); !bytes.Equal(text, second) {
		t.Errorf("written\n%s\nand again\n%s", text, second)
	}
	if got, want := again.Suites[0].Millrace, (Figures{Run: 2, Passed: 1, Failed: 1, Skipped: 1, Waiting: 1}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	if _, err := Parse([]byte(`{"peers": 1}`)); err == nil {
		t.Error("an unknown field is passed over")
	}
}

// TestWorse plants one change after another into what a run has seen.
func TestWorse(t *testing.T) {
	for _, c := range []struct {
		name string
		part bool
		do   func(*Ledger)
		want string // part of the one sentence; "" for none
	}{
		{"nothing", false, func(*Ledger) {}, ""},
		{"a comparison less", false, func(l *Ledger) { l.APIs[1].Frames.Compared-- }, "Metadata version 0: 4 cases"},
		{"a comparison less in a part", true, func(l *Ledger) { l.APIs[1].Frames.Compared-- }, ""},
		{"a version less", false, func(l *Ledger) { l.APIs[1].Frames = nil }, "Metadata version 0: no cases"},
		{"a case that differs", true, func(l *Ledger) { l.APIs[2].Frames.Unexplained++ }, "Metadata version 1: 1 cases of frames differ"},
		{"another explanation", false, func(l *Ledger) { l.APIs[2].Frames.Explained, l.APIs[2].Frames.Equal = 2, 5 }, ""},
		{"fewer sequences", true, func(l *Ledger) { l.APIs[1].Oracle.Compared, l.APIs[1].Oracle.Equal = 10, 10 }, ""},
		{"a sequence that differs", true, func(l *Ledger) { l.APIs[1].Oracle.Unexplained++ }, "Metadata version 0: 1 requests of sequences"},
		{"a sequence of a new version that differs", true, func(l *Ledger) { l.APIs[0].Oracle = &Compared{Compared: 1, Unexplained: 1} }, "Fetch version 4: 1 requests"},
		{"a test that fails", true, func(l *Ledger) { l.Suites[0].Tests[0].Millrace = Failed }, "some tests 1.0, -x: a: failed"},
		{"a test that is skipped", true, func(l *Ledger) { l.Suites[0].Tests[0].Millrace = Skipped }, "a: skipped"},
		{"a test that waits again", true, func(l *Ledger) { l.Suites[0].Tests[0].Millrace = Waits }, "a: waits"},
		{"a test that fails where Kafka is not asked", true, func(l *Ledger) { l.Suites[0].Tests[0].Millrace, l.Suites[0].Tests[0].Kafka = Failed, NotRun }, "a: failed"},
		{"a test that fails on both", true, func(l *Ledger) { l.Suites[0].Tests[0].Millrace, l.Suites[0].Tests[0].Kafka = Failed, Failed }, ""},
		{"a test that fails on Kafka", true, func(l *Ledger) { l.Suites[0].Tests[0].Kafka = Failed }, ""},
		{"a test that Kafka passes now", true, func(l *Ledger) { l.Suites[0].Tests[1].Kafka = Passed }, "b: failed, and Kafka passes it"},
		{"a test that waits no more and fails", true, func(l *Ledger) { l.Suites[0].Tests[2].Millrace = Failed }, "c: failed, and Kafka passes it"},
		{"a test that waits no more and passes", true, func(l *Ledger) { l.Suites[0].Tests[2].Millrace = Passed }, ""},
		{"a new test that fails", true, func(l *Ledger) {
			l.Suites[0].Tests = append(l.Suites[0].Tests, Test{Name: "e", Millrace: Failed, Kafka: Passed})
		}, "e: failed"},
		{"a new suite with a test that is skipped", true, func(l *Ledger) {
			l.Suites = append(l.Suites, Suite{Name: "new", Tests: []Test{{Name: "a", Millrace: Skipped, Kafka: Passed}}})
		}, "new : a: skipped"},
		{"a test that is gone", false, func(l *Ledger) { l.Suites[0].Tests = l.Suites[0].Tests[1:] }, "a was not run"},
		{"a part", true, func(l *Ledger) { l.Suites[0].Tests = l.Suites[0].Tests[1:] }, ""},
		{"a newer version in which a test fails", true, func(l *Ledger) {
			l.Suites[0].Version, l.Suites[0].Tests[0].Millrace = "1.1", Failed
		}, "some tests 1.1, -x: a: failed"},
		{"fewer branches by chance", true, func(l *Ledger) { l.Depth.Parts[0].Reached -= 1 }, ""},
		{"fewer branches of a part", true, func(l *Ledger) { l.Depth.Parts[0].Reached -= 3; l.Depth.Parts[2].Reached += 3 }, "depth: 147 branches of LogValidator"},
		{"fewer branches here and there", true, func(l *Ledger) { l.Depth.Parts[0].Reached--; l.Depth.Parts[1].Reached -= 2 }, "depth: 195 branches were reached, the ledger has 198"},
		{"a part that is not counted", true, func(l *Ledger) { l.Depth.Parts = l.Depth.Parts[:2] }, "depth: the branches of UnifiedLog"},
		{"an error code less", true, func(l *Ledger) { l.Depth.Codes["3"] = []int16{0} }, "depth: APIs were seen with 2 error codes, the ledger has 3"},
		{"the depth of other seeds", true, func(l *Ledger) { l.Depth.Seeds[1], l.Depth.Parts[0].Reached = 30, 1 }, ""},
		{"more branches", true, func(l *Ledger) { l.Depth.Parts[0].Reached += 20 }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := example()
			c.do(seen)
			got := Worse(example(), seen, c.part)
			if c.want == "" && len(got) == 0 {
				return
			}
			if c.want == "" || len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Errorf("worse: %q, want %q", got, c.want)
			}
		})
	}
}

// TestSettle plants a worse line into a checkout: the run that is to write writes it, every other finds it and leaves the files as
// they are.
func TestSettle(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(root, Page)
	if err := os.WriteFile(page, []byte("head\n"+begin+"old\n"+end+"tail\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if worse, err := settle(root, root, "first", example(), false); err != nil || len(worse) > 0 {
		t.Fatal(worse, err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"head\n" + begin, end + "tail\n", "| 3 | Metadata | 0-1 | 12 | 11 | 1 | 0 | 100 | 100 | 0 | 0 |", "| some tests, -x | 1.0 | 2 | 1 | 1 | 1 | 1 | 3 | 2 | 1 | 1 | aa |",
		"Fails on both:\n\n- some tests 1.0, -x: b: both\n", "Waiting:\n\n- some tests 1.0, -x: c: EndTxn\n", "Sequences: 50, seeds 1 51"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	before, err := os.ReadFile(filepath.Join(root, File))
	if err != nil {
		t.Fatal(err)
	}
	spoilt := example()
	spoilt.Suites[0].Tests[0].Millrace = Failed
	worse, err := settle(root, "", "second", spoilt, true)
	if err != nil || len(worse) != 1 {
		t.Errorf("a worse line was not found: %q, %v", worse, err)
	}
	// Neither does a part write, whatever it is told.
	if worse, err := settle(root, root, "third", spoilt, true); err != nil || len(worse) != 1 {
		t.Errorf("a worse line was not found: %q, %v", worse, err)
	}
	if after, err := os.ReadFile(filepath.Join(root, File)); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a run that only compares has written the ledger (%v)", err)
	}
	if kept, err := Load(filepath.Join(root, ".cache", "compat", "ledger", "second.json")); err != nil || kept.Suites[0].Tests[0].Millrace != Failed {
		t.Errorf("the lines that were seen are not kept: %v", err)
	}
}

func TestPutReplacesLines(t *testing.T) {
	l := example()
	l.Put(&Ledger{
		APIs: []API{{Key: 3, Name: "Metadata", Version: 0, Frames: &Compared{Compared: 9, Equal: 9, Commit: "bb"}}},
		Suites: []Suite{
			{Name: "some tests", Version: "1.1", Settings: "-x", Commit: "bb", Tests: []Test{{Name: "a", Millrace: Passed, Kafka: Passed}}},
			{Name: "two", Version: "1", Commit: "bb"}, {Name: "two", Version: "2", Commit: "bb"},
		},
	})
	if a := l.APIs[1]; a.Frames.Compared != 9 || a.Oracle == nil || a.Oracle.Commit != "aa" {
		t.Errorf("Metadata version 0 is %+v", a)
	}
	var names []string
	for _, s := range l.Suites {
		names = append(names, s.Title())
	}
	if want := []string{"some tests 1.1, -x", "two 1", "two 2"}; !slices.Equal(names, want) {
		t.Errorf("suites %q, want %q", names, want)
	}
	l.Serve([]API{{Key: 3, Name: "Metadata", Version: 0}, {Key: 3, Name: "Metadata", Version: 2}})
	if len(l.APIs) != 2 || l.APIs[0].Frames == nil || l.APIs[1].Frames != nil {
		t.Errorf("served: %+v", l.APIs)
	}
}

func TestOracleSummary(t *testing.T) {
	summary := `{"commit":"cc","seeds":[1,9],"sequences":9,"again":2,"once":1,"apis":{"3":{"0":{"compared":4,"equal":3,"explained":1,"unexplained":0}}},"codes":{"3":[0,3]}}`
	lines, err := example().FromOracle([]byte(summary))
	if err != nil {
		t.Fatal(err)
	}
	if len(lines.APIs) != 1 || lines.APIs[0].Name != "Metadata" || lines.APIs[0].Oracle.Explained != 1 || lines.APIs[0].Oracle.Commit != "cc" || lines.Oracle.Sequences != 9 {
		t.Errorf("%+v", lines)
	}
	old, err := example().FromOracle([]byte(strings.Replace(summary, "{", `{"peer":"3.9.2",`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	both := example()
	if both.Put(old); both.Oracle.Commit != "aa" || both.Old == nil || both.Old.Commit != "cc" || both.APIs[1].Oracle.Compared != 4 {
		t.Errorf("with sequences of dropped versions: %+v, %+v", both.Oracle, both.Old)
	}
	if again, err := Parse(both.JSON()); err != nil || again.Old == nil || again.Old.Peer != "3.9.2" {
		t.Errorf("read again: %v", err)
	}
	if page := string(both.markdown()); !strings.Contains(page, "beside Apache Kafka 3.9.2: 9, seeds 1 9; 2 differ unexplained, 1 did while many were played at once, in ways that were not seen again when they were played alone (three times each), at cc") {
		t.Errorf("not on the page:\n%s", page)
	}
	if both.Add(old) == nil {
		t.Error("sequences of dropped versions are added")
	}
	for _, bad := range []string{
		strings.Replace(summary, `"equal":3`, `"equal":4`, 1), // more than were compared
		strings.Replace(summary, `"0":{`, `"7":{`, 1),         // a version that is not served
		"{",
	} {
		if _, err := example().FromOracle([]byte(bad)); err == nil {
			t.Errorf("taken: %s", bad)
		}
	}
}

func TestRunsOfSequencesAreAdded(t *testing.T) {
	run := func(from, to int64) *Ledger {
		return &Ledger{
			APIs: []API{
				{Key: 3, Name: "Metadata", Version: 0, Oracle: &Compared{Compared: 4, Equal: 2, Explained: 1, Unexplained: 1, Why: []string{"w"}, Commit: "bb"}},
				{Key: 1, Name: "Fetch", Version: 4, Oracle: &Compared{Compared: 1, Equal: 1, Commit: "bb"}},
			},
			Oracle: &Oracle{Commit: "bb", Seeds: []int64{from, to}, Sequences: int(to - from), Again: 1, Once: 2, Codes: map[string][]int16{"3": {3, 5}, "1": {0}}},
		}
	}
	l := example()
	for _, more := range []*Ledger{run(51, 61), run(61, 71)} {
		if err := l.Add(more); err != nil {
			t.Fatal(err)
		}
	}
	for _, overlap := range []*Ledger{run(50, 55), run(65, 80), run(1, 100)} {
		if err := l.Add(overlap); err == nil {
			t.Errorf("seeds %v are added twice", overlap.Oracle.Seeds)
		}
	}
	c := l.APIs[1].Oracle
	if c.Compared != 108 || c.Equal != 104 || c.Explained != 2 || c.Unexplained != 2 || c.Commit != "bb" || len(c.Why) != 1 || l.APIs[1].Frames == nil {
		t.Errorf("Metadata version 0: %+v", c)
	}
	if f := l.APIs[0].Oracle; f == nil || f.Compared != 2 {
		t.Errorf("Fetch version 4: %+v", f)
	}
	o := l.Oracle
	if o.Sequences != 70 || o.Again != 2 || o.Once != 4 || !slices.Equal(o.Seeds, []int64{1, 51, 51, 61, 61, 71}) || !slices.Equal(o.Codes["3"], []int16{0, 3, 5}) || !slices.Equal(o.Codes["1"], []int16{0}) {
		t.Errorf("%+v", o)
	}
	if again, err := Parse(l.JSON()); err != nil || again.Oracle.Sequences != 70 {
		t.Error(err)
	}
}

// TestCommitted holds the committed file to the form that it is written in, and shows that a line of it that becomes worse is
// found.
func TestCommitted(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, File))
	if err != nil {
		t.Fatal(err)
	}
	committed, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, committed.JSON()) {
		t.Errorf("%s is not as it is written", File)
	}
	if worse := Worse(committed, committed, false); len(worse) > 0 {
		t.Errorf("%s is worse than itself: %q", File, worse)
	}
	planted := 0
	for i := range committed.Suites {
		for j, test := range committed.Suites[i].Tests {
			if test.Millrace != Passed || test.Kafka != Passed {
				continue
			}
			seen, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			seen.Suites[i].Tests[j].Millrace = Failed
			if worse := Worse(committed, seen, false); len(worse) != 1 {
				t.Errorf("%s: %s fails, and this is found: %q", seen.Suites[i].Title(), test.Name, worse)
			}
			planted++
			break
		}
	}
	for i, a := range committed.APIs {
		if a.Frames == nil {
			continue
		}
		seen, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		seen.APIs[i].Frames.Unexplained++
		if worse := Worse(committed, seen, false); len(worse) != 1 {
			t.Errorf("%s version %d differs, and this is found: %q", a.Name, a.Version, worse)
		}
		planted++
	}
	if planted == 0 {
		t.Errorf("%s has no line that could become worse", File)
	}
}
