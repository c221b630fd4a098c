// Package ledger keeps the conformance ledger: docs/compatibility.json, and what docs/compatibility.md shows of it.
//
// The ledger holds figures, not claims. For each API and version that is served: how often its answers were compared
// with Apache Kafka's, and how often they were equal. For each client and each suite of another project: every test by
// name, with what became of it here and on Apache Kafka in the same run. Every line bears the commit it was seen at.
//
// A run that is to write the ledger is told where it lies (MILLRACE_LEDGER, see [Settle]); every other run holds what it
// has seen against the committed file and fails when a line has become worse, by the rule in worse.go. Lines that a run
// did not cover stay as they are.
//
// It is no test runner and knows no broker: it reads, merges, compares and prints.
package ledger

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// The files, from the repository's root.
const (
	File = "docs/compatibility.json"
	Page = "docs/compatibility.md"
)

// Peer is what everything is held against.
const Peer = "Apache Kafka 4.4.0"

// Ledger is the whole of it.
type Ledger struct {
	Peer   string  `json:"peer"`
	APIs   []API   `json:"apis"` // by key and version
	Suites []Suite `json:"suites"`
	Oracle *Oracle `json:"oracle,omitempty"`
	// Old are the sequences in versions that the peer has dropped, beside an older one.
	Old   *Oracle `json:"old,omitempty"`
	Depth *Depth  `json:"depth,omitempty"`
}

// API is one version of one API. That it stands here says that it is served.
type API struct {
	Key     int16  `json:"key"`
	Name    string `json:"name"`
	Version int16  `json:"version"`
	// Frames are the cases of compat-tests/frames that were played in this version.
	Frames *Compared `json:"frames,omitempty"`
	// Oracle are the requests of seeded sequences.
	Oracle *Compared `json:"oracle,omitempty"`
}

// Compared says how often something was asked of both servers, and what came of it. Compared is the sum of the other
// three.
type Compared struct {
	Compared    int      `json:"compared"`
	Equal       int      `json:"equal"`
	Explained   int      `json:"explained"`   // different on purpose
	Unexplained int      `json:"unexplained"` // different
	Why         []string `json:"why,omitempty"`
	Commit      string   `json:"commit"`
}

// Suite is a client, or another project's tests, in one setting.
type Suite struct {
	Name     string  `json:"name"`
	Version  string  `json:"version"`
	Settings string  `json:"settings,omitempty"`
	Commit   string  `json:"commit"`
	Millrace Figures `json:"millrace"` // made of the tests, as is the next
	Kafka    Figures `json:"kafka"`
	Tests    []Test  `json:"tests"` // by name
}

// Figures count tests. Those that wait are not among the tests run.
type Figures struct {
	Run     int `json:"run"`
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	Waiting int `json:"waiting,omitempty"`
}

// Outcome is what became of a test on one server.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped" // by the suite itself, or by a client that lacks the call
	Waits   Outcome = "waits"   // not run: the server does not advertise what it needs
	NotRun  Outcome = ""        // not run on this server in this run
)

// Test is one test of a suite, and what became of it.
type Test struct {
	Name     string  `json:"name"`
	Millrace Outcome `json:"millrace"`
	Kafka    Outcome `json:"kafka"`
	// Why is the reason of what was skipped, the API that is waited for, or the first line of a failure.
	Why string `json:"why,omitempty"`
}

// Oracle is what the differential test tells beside its counts per version.
type Oracle struct {
	Peer      string             `json:"peer,omitempty"` // the older Kafka; "": Peer
	Commit    string             `json:"commit"`
	Seeds     []int64            `json:"seeds"` // of each run the first, and the one behind the last
	Sequences int                `json:"sequences"`
	Again     int                `json:"again,omitempty"` // sequences that differ in a way that was seen again when one was played alone
	Once      int                `json:"once,omitempty"`  // sequences that differed in a way that was not
	Codes     map[string][]int16 `json:"codes"`           // error codes seen, by API key
}

// key identifies a suite's line.
func (s *Suite) key() string { return s.Name + "\x00" + s.Settings + "\x00" + s.Version }

// Title is how a suite is called in reports.
func (s *Suite) Title() string {
	if s.Settings == "" {
		return s.Name + " " + s.Version
	}
	return s.Name + " " + s.Version + ", " + s.Settings
}

// Parse reads a ledger.
func Parse(text []byte) (*Ledger, error) {
	l := new(Ledger)
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(l); err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	return l, nil
}

// Load reads the ledger at a path. Where there is no file, it is empty.
func Load(path string) (*Ledger, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &Ledger{Peer: Peer}, nil
	}
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

// Root is the repository's root: the nearest folder upwards with a go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no go.mod above %s", dir)
		}
	}
}

// Put brings lines into the ledger: those of the same API and version, and of the same suite, are replaced, and of a suite
// only the tests that the new line has unless the new line is whole.
func (l *Ledger) Put(lines *Ledger) {
	for _, a := range lines.APIs {
		i := slices.IndexFunc(l.APIs, func(b API) bool { return a.Key == b.Key && a.Version == b.Version })
		if i < 0 {
			l.APIs = append(l.APIs, a)
			continue
		}
		if a.Frames != nil {
			l.APIs[i].Frames = a.Frames
		}
		if a.Oracle != nil {
			l.APIs[i].Oracle = a.Oracle
		}
	}
	for _, s := range lines.Suites {
		s.Tests = slices.Clone(s.Tests)
		// A suite has one line for each setting: that of an older version goes.
		l.Suites = slices.DeleteFunc(l.Suites, func(old Suite) bool {
			return old.Name == s.Name && old.Settings == s.Settings && (old.Version == s.Version || !manyVersions(lines, s))
		})
		l.Suites = append(l.Suites, s)
	}
	if lines.Oracle != nil {
		l.Oracle = lines.Oracle
	}
	if lines.Old != nil {
		l.Old = lines.Old
	}
	if lines.Depth != nil {
		l.Depth = lines.Depth
	}
	l.tidy()
}

// manyVersions says whether a suite stands in the lines with more than one version: a client of which several are held up
// to the server.
func manyVersions(lines *Ledger, s Suite) bool {
	n := 0
	for i := range lines.Suites {
		if lines.Suites[i].Name == s.Name && lines.Suites[i].Settings == s.Settings {
			n++
		}
	}
	return n > 1
}

// Serve makes the APIs' lines those of what is served: others go, new ones are there without figures.
func (l *Ledger) Serve(served []API) {
	var out []API
	for _, a := range served {
		if i := slices.IndexFunc(l.APIs, func(b API) bool { return a.Key == b.Key && a.Version == b.Version }); i >= 0 {
			a.Frames, a.Oracle = l.APIs[i].Frames, l.APIs[i].Oracle
		}
		out = append(out, a)
	}
	l.APIs = out
	l.tidy()
}

// tidy brings everything into its order and counts.
func (l *Ledger) tidy() {
	l.Peer = Peer
	slices.SortFunc(l.APIs, func(a, b API) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Version, b.Version)) })
	slices.SortFunc(l.Suites, func(a, b Suite) int { return cmp.Compare(a.key(), b.key()) })
	for i := range l.Suites {
		s := &l.Suites[i]
		slices.SortFunc(s.Tests, func(a, b Test) int { return cmp.Compare(a.Name, b.Name) })
		s.Millrace, s.Kafka = Figures{}, Figures{}
		for _, t := range s.Tests {
			s.Millrace.count(t.Millrace)
			s.Kafka.count(t.Kafka)
		}
	}
}

func (f *Figures) count(o Outcome) {
	switch o {
	case Passed:
		f.Run++
		f.Passed++
	case Failed:
		f.Run++
		f.Failed++
	case Skipped:
		f.Skipped++
	case Waits:
		f.Waiting++
	}
}

// JSON is the file: a line for each version of an API, for each suite and for each test, so that a change shows as the
// lines that changed.
func (l *Ledger) JSON() []byte {
	l.tidy()
	var b bytes.Buffer
	line := func(v any) string {
		var one bytes.Buffer
		enc := json.NewEncoder(&one)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			panic(fmt.Sprintf("encode %T: %v", v, err)) // nothing in it can fail
		}
		return string(bytes.TrimSpace(one.Bytes()))
	}
	comma := func(i, n int) string {
		if i == n-1 {
			return "\n"
		}
		return ",\n"
	}
	fmt.Fprintf(&b, "{\n\"peer\": %s,\n\"apis\": [\n", line(l.Peer))
	for i, a := range l.APIs {
		b.WriteString("  " + line(a) + comma(i, len(l.APIs)))
	}
	b.WriteString("],\n\"suites\": [\n")
	for i, s := range l.Suites {
		tests := s.Tests
		s.Tests = []Test{}
		head := line(s)
		b.WriteString("  " + head[:len(head)-len("]}")] + "\n")
		for j, t := range tests {
			b.WriteString("    " + line(t) + comma(j, len(tests)))
		}
		b.WriteString("  ]}" + comma(i, len(l.Suites)))
	}
	b.WriteString("]")
	if l.Oracle != nil {
		b.WriteString(",\n\"oracle\": " + line(l.Oracle))
	}
	if l.Old != nil {
		b.WriteString(",\n\"old\": " + line(l.Old))
	}
	if l.Depth != nil {
		b.WriteString(",\n\"depth\": ")
		l.Depth.json(&b, line)
	}
	b.WriteString("\n}\n")
	return b.Bytes()
}

// Save writes the ledger, and the part of the page that is made of it, below a root.
func (l *Ledger) Save(root string) error {
	if err := os.WriteFile(filepath.Join(root, File), l.JSON(), 0o644); err != nil {
		return err
	}
	page := filepath.Join(root, Page)
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	if text, err = l.Into(text); err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, text, 0o644)
}
