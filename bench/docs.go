package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"millrace/bench/ledger"
	"millrace/compat-tests/launch"
)

// What of a run becomes docs/benchmarks.json and its page. The committed figures
// are the bar that later runs are held to: nothing is to lower it in passing.

// committedRounds is the least for which figures are written to docs.
const committedRounds = 7

// leastRounds is how many a row has to have to be written: seven, or as many as
// its figure is bounded to.
func leastRounds(chosen []figure, name string) int {
	if i := slices.IndexFunc(chosen, func(f figure) bool { return f.name == name }); i >= 0 && chosen[i].atMost > 0 {
		return min(chosen[i].atMost, committedRounds)
	}
	return committedRounds
}

// fit are the rows of a run that may take the place of committed ones; told says
// in a line for each reason which others there are.
func (s settings) fit(chosen []figure, committed, rows []ledger.Row) (fit []ledger.Row, told []string) {
	fallen := map[string]bool{}
	for _, b := range ledger.Fallen(committed, rows) {
		fallen[b.Row.Key()] = true
	}
	lacking := map[string]bool{}
	for _, was := range committed {
		if i := slices.IndexFunc(rows, func(r ledger.Row) bool { return r.Key() == was.Key() }); i >= 0 && rows[i].Lacks(was) {
			lacking[was.Key()] = true
		}
	}
	var short, behind, fewer []string
	for _, row := range rows {
		least := leastRounds(chosen, row.Figure)
		switch n := row.Rounds(); {
		case n < least:
			if word := fmt.Sprintf("%s (%d of %d)", row.Figure, n, least); !slices.Contains(short, word) {
				short = append(short, word)
			}
		case fallen[row.Key()] && !s.accept:
			behind = append(behind, row.Key())
		case lacking[row.Key()] && !s.accept:
			fewer = append(fewer, row.Key())
		default:
			fit = append(fit, row)
		}
	}
	for _, reason := range []struct {
		why  string
		rows []string
	}{{"too few rounds", short}, {"behind the committed figures (-accept writes them)", behind}, {"not beside all that the committed figures are (-accept writes them)", fewer}} {
		if len(reason.rows) > 0 {
			told = append(told, fmt.Sprintf("not written to docs, %s: %s", reason.why, strings.Join(reason.rows, ", ")))
		}
	}
	return fit, told
}

// publish writes the rows that are fit among the committed ones, unless the run
// was a try. anew: what stands beside the figures was measured altogether, under
// whatever name, so that rows of the floor of which the run knows nothing go.
func (s settings) publish(dir string, committed, run ledger.Book, chosen []figure, anew bool) (told []string, err error) {
	if s.rounds < committedRounds {
		return nil, nil
	}
	fit, told := s.fit(chosen, committed.Rows, run.Rows)
	if len(fit) == 0 {
		return told, nil
	}
	ofFloor := func(r ledger.Row) bool { return strings.HasPrefix(r.Figure, "floor/") }
	old := committed.Rows
	if anew {
		old = slices.DeleteFunc(slices.Clone(old), func(r ledger.Row) bool {
			return ofFloor(r) && !slices.ContainsFunc(run.Rows, func(n ledger.Row) bool { return n.Key() == r.Key() })
		})
	}
	run.Rows = ledger.Merge(old, fit)
	return told, write(dir, run)
}

// committedBook is docs/benchmarks.json as the commit has it, whatever a run has
// written over it since.
func committedBook(root string) (ledger.Book, error) {
	out, err := exec.Command("git", "-C", root, "show", "HEAD:docs/benchmarks.json").Output()
	if err != nil {
		return ledger.Book{}, nil // before the first
	}
	return ledger.Read(out)
}

// page writes docs/benchmarks.md anew from the figures beside it.
func page() error {
	root, err := launch.Root()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "docs")
	j, err := os.ReadFile(filepath.Join(dir, "benchmarks.json"))
	if err != nil {
		return err
	}
	b, err := ledger.Read(j)
	if err != nil {
		return err
	}
	return write(dir, b)
}

func write(dir string, b ledger.Book) error {
	j, err := b.JSON()
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "benchmarks.json"), j, 0o644), os.WriteFile(filepath.Join(dir, "benchmarks.md"), b.Markdown(), 0o644))
}
