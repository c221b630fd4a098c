package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Variable names the environment variable with the root of the checkout whose ledger a run is to write.
const Variable = "MILLRACE_LEDGER"

// Settle ends a run: with MILLRACE_LEDGER it brings the lines into the ledger there, else it leaves them under
// .cache/compat/ledger as name.json and fails the test for each that is worse than the committed one. Part says that the
// run was part of a suite.
func Settle(t testing.TB, name string, lines *Ledger, part bool) {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	worse, err := settle(root, os.Getenv(Variable), name, lines, part)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range worse {
		t.Errorf("worse than %s: %s", File, w)
	}
}

func settle(root, at, name string, lines *Ledger, part bool) (worse []string, err error) {
	lines.tidy()
	if at != "" && !part {
		return nil, Write(at, lines)
	}
	scratch := filepath.Join(root, ".cache", "compat", "ledger")
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(scratch, name+".json"), lines.JSON(), 0o644); err != nil {
		return nil, err
	}
	committed, err := Load(filepath.Join(root, File))
	if err != nil {
		return nil, err
	}
	return Worse(committed, lines, part), nil
}

// Write brings lines into the ledger below a root.
func Write(root string, lines *Ledger) error {
	l, err := Load(filepath.Join(root, File))
	if err != nil {
		return err
	}
	l.Put(lines)
	return l.Save(root)
}

// Commit is what stands for the working tree in the ledger: its commit, and "-dirty" where files have been changed since,
// those aside that runs write.
func Commit() string {
	git := func(args ...string) string {
		out, err := exec.Command("git", args...).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	commit := git("rev-parse", "--short=10", "HEAD")
	if commit == "" {
		return "unknown"
	}
	if git("status", "--porcelain", "--", ":/", ":(exclude,top)docs/compatibility.*", ":(exclude,top)compat-tests/README.md") != "" {
		commit += "-dirty"
	}
	return commit
}

// summary is what the differential test writes.
type summary struct {
	Peer      string                        `json:"peer"`
	Commit    string                        `json:"commit"`
	Seeds     []int64                       `json:"seeds"`
	Sequences int                           `json:"sequences"`
	APIs      map[int16]map[int16]*Compared `json:"apis"`
	Again     int                           `json:"again"`
	Once      int                           `json:"once"`
	Codes     map[string][]int16            `json:"codes"`
}

// FromOracle makes lines of the differential test's summary. Names come from the ledger's own lines; a version that the
// ledger does not have is not served, and an error.
func (l *Ledger) FromOracle(text []byte) (*Ledger, error) {
	var s summary
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("read the differential test's summary: %w", err)
	}
	lines, run := &Ledger{}, &Oracle{Peer: s.Peer, Commit: s.Commit, Seeds: s.Seeds, Sequences: s.Sequences, Again: s.Again, Once: s.Once, Codes: s.Codes}
	if s.Peer == "" {
		lines.Oracle = run
	} else {
		lines.Old = run
	}
	for key, versions := range s.APIs {
		for version, c := range versions {
			c.Commit = s.Commit
			if sum := c.Equal + c.Explained + c.Unexplained; sum != c.Compared {
				return nil, fmt.Errorf("the summary has %d comparisons of API %d version %d, and the outcomes of %d", c.Compared, key, version, sum)
			}
			name := ""
			for _, a := range l.APIs {
				if a.Key == key && a.Version == version {
					name = a.Name
				}
			}
			if name == "" {
				return nil, fmt.Errorf("the summary has API %d version %d, which the ledger does not have as served", key, version)
			}
			lines.APIs = append(lines.APIs, API{Key: key, Name: name, Version: version, Oracle: c})
		}
	}
	lines.tidy()
	return lines, nil
}

// Add brings the lines of another run of the differential test into those that are there: with seeds of its own, its counts are added
// to them, and the line's commit is the newer run's.
func (l *Ledger) Add(lines *Ledger) error {
	if lines.Old != nil {
		return errors.New("sequences of dropped versions are one run: they replace what is there")
	}
	run := lines.Oracle
	if run == nil || len(run.Seeds) != 2 {
		return errors.New("a run is added that does not tell its seeds")
	}
	if l.Oracle == nil {
		l.Put(lines)
		return nil
	}
	for i := 0; i+1 < len(l.Oracle.Seeds); i += 2 {
		if run.Seeds[0] < l.Oracle.Seeds[i+1] && l.Oracle.Seeds[i] < run.Seeds[1] {
			return fmt.Errorf("seeds %d to %d are in the ledger already (%d to %d)", run.Seeds[0], run.Seeds[1], l.Oracle.Seeds[i], l.Oracle.Seeds[i+1])
		}
	}
	sum := &Ledger{Oracle: &Oracle{Commit: run.Commit, Sequences: l.Oracle.Sequences + run.Sequences,
		Again: l.Oracle.Again + run.Again, Once: l.Oracle.Once + run.Once, Codes: map[string][]int16{},
		Seeds: append(slices.Clone(l.Oracle.Seeds), run.Seeds...)}}
	for _, codes := range []map[string][]int16{l.Oracle.Codes, run.Codes} {
		for api, seen := range codes {
			all := append(sum.Oracle.Codes[api], seen...)
			slices.Sort(all)
			sum.Oracle.Codes[api] = slices.Compact(all)
		}
	}
	for _, a := range lines.APIs {
		if i := slices.IndexFunc(l.APIs, func(b API) bool { return a.Key == b.Key && a.Version == b.Version }); i >= 0 && l.APIs[i].Oracle != nil {
			both := *l.APIs[i].Oracle
			both.add(a.Oracle)
			both.Commit = a.Oracle.Commit
			slices.Sort(both.Why)
			both.Why = slices.Compact(both.Why)
			a.Oracle = &both
		}
		sum.APIs = append(sum.APIs, a)
	}
	l.Put(sum)
	return nil
}
