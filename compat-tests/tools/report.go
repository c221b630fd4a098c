package tools

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"millrace/compat-tests/ledger"
)

// Tally is what came of one play.
type Tally struct {
	Play        *Play
	Commands    int
	Differences int
	Waits       string // what it waits for, in place of being run
}

const (
	beginTable = "<!-- tools: begin (written by the run) -->"
	endTable   = "<!-- tools: end -->"
)

// UpdateTable writes what was seen between the markers of a file.
func UpdateTable(path string, scripts []*Script, tallies map[string]*Tally) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), beginTable+"\n")
	_, tail, ok2 := strings.Cut(rest, endTable)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no line %q followed by %q", path, beginTable, endTable)
	}
	return os.WriteFile(path, []byte(head+beginTable+"\n"+table(scripts, tallies)+endTable+tail), 0o644)
}

func table(scripts []*Script, tallies map[string]*Tally) string {
	var b strings.Builder
	b.WriteString("| tool | plays | commands compared | plays equal | waiting |\n|---|---|---|---|---|\n")
	for _, s := range scripts {
		plays, commands, equal := 0, 0, 0
		waits := make(map[string]int)
		for _, p := range s.Plays {
			t := tallies[p.Tool+"/"+p.Name]
			if t == nil {
				continue
			}
			if t.Waits != "" {
				waits[t.Waits]++
				continue
			}
			plays++
			commands += t.Commands
			if t.Differences == 0 {
				equal++
			}
		}
		var waiting []string
		for what, n := range waits {
			waiting = append(waiting, fmt.Sprintf("%d for %s", n, what))
		}
		slices.Sort(waiting)
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %s |\n", s.Tool.Name, plays, commands, equal, strings.Join(waiting, ", "))
	}
	return b.String()
}

// inLedger are the plays in the words of the conformance ledger: one passes when all of its commands left the same behind as
// against Apache Kafka.
func inLedger(tallies map[string]*Tally) []ledger.Test {
	var out []ledger.Test
	for name, t := range tallies {
		test := ledger.Test{Name: name, Millrace: ledger.Passed, Kafka: ledger.Passed}
		switch {
		case t.Waits != "":
			test.Millrace, test.Kafka, test.Why = ledger.Waits, ledger.NotRun, t.Waits
		case t.Differences > 0:
			test.Millrace, test.Why = ledger.Failed, fmt.Sprintf("%d of %d commands differ", t.Differences, t.Commands)
		}
		out = append(out, test)
	}
	return out
}
