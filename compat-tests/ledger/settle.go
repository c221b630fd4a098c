package ledger

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	Commit    string                        `json:"commit"`
	Seeds     []int64                       `json:"seeds"`
	Sequences int                           `json:"sequences"`
	APIs      map[int16]map[int16]*Compared `json:"apis"`
	Codes     map[string][]int16            `json:"codes"`
}

// FromOracle makes lines of the differential test's summary. Names come from the ledger's own lines; a version that the
// ledger does not have is not served, and an error.
func (l *Ledger) FromOracle(text []byte) (*Ledger, error) {
	var s summary
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("read the differential test's summary: %w", err)
	}
	lines := &Ledger{Oracle: &Oracle{Commit: s.Commit, Seeds: s.Seeds, Sequences: s.Sequences, Codes: s.Codes}}
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
