package ledger

import (
	"fmt"
	"slices"
)

// behind says that Kafka passes what fails here, or is left out here for no reason that is known.
func (t Test) behind() bool {
	return t.Kafka == Passed && (t.Millrace == Failed || t.Millrace == Skipped)
}

// Worse names what has become worse from the committed ledger to lines that a run has seen, in words; nothing else of the
// ledger is looked at. A run that is part of a suite says so: then tests that it has not seen are no loss.
//
//   - An API's version: fewer comparisons of frames than were committed, or more that differ unexplained, or none at
//     all in a run that compared frames. Sequences are random, so of them only the unexplained count.
//   - A test: it passed here and passes no more, unless Kafka did not pass it either in the same run; or Kafka passed it and
//     it was not passed here, unless the ledger has it so already; or it is gone.
//   - Depth, over the same seeds: more than a hundredth less of the branches of a part of Kafka, or of all, or of the
//     error codes that were seen.
//
// A suite that the ledger has in another version only is compared with that one: its tests are mostly the same.
func Worse(committed, seen *Ledger, part bool) []string {
	var out []string
	worse := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, a := range seen.APIs {
		var was API
		if i := slices.IndexFunc(committed.APIs, func(b API) bool { return a.Key == b.Key && a.Version == b.Version }); i >= 0 {
			was = committed.APIs[i]
		}
		name := fmt.Sprintf("%s version %d", a.Name, a.Version)
		if a.Frames != nil {
			before := orNone(was.Frames)
			if a.Frames.Unexplained > before.Unexplained {
				worse("%s: %d cases of frames differ unexplained, the ledger has %d", name, a.Frames.Unexplained, before.Unexplained)
			}
			if !part && a.Frames.Compared < before.Compared {
				worse("%s: %d cases of frames were compared, the ledger has %d", name, a.Frames.Compared, before.Compared)
			}
		}
		if a.Oracle != nil {
			if before := orNone(was.Oracle); a.Oracle.Unexplained > before.Unexplained {
				worse("%s: %d requests of sequences differ unexplained, the ledger has %d", name, a.Oracle.Unexplained, before.Unexplained)
			}
		}
	}
	if !part && slices.ContainsFunc(seen.APIs, func(a API) bool { return a.Frames != nil }) {
		for _, was := range committed.APIs {
			if was.Frames != nil && !slices.ContainsFunc(seen.APIs, func(a API) bool { return a.Key == was.Key && a.Version == was.Version && a.Frames != nil }) {
				worse("%s version %d: no cases of frames were compared, the ledger has %d", was.Name, was.Version, was.Frames.Compared)
			}
		}
	}
	for _, s := range seen.Suites {
		was := committed.like(&s)
		for _, t := range s.Tests {
			before := Test{}
			if i := slices.IndexFunc(was.Tests, func(b Test) bool { return b.Name == t.Name }); i >= 0 {
				before = was.Tests[i]
			}
			excused := t.Kafka == Failed || t.Kafka == Skipped
			switch {
			case before.Millrace == Passed && t.Millrace != Passed && !excused:
				worse("%s: %s: %s, the ledger has it passed: %s", s.Title(), t.Name, orNotRun(t.Millrace), t.Why)
			case t.behind() && !before.behind():
				worse("%s: %s: %s, and Kafka passes it: %s", s.Title(), t.Name, t.Millrace, t.Why)
			}
		}
		if part {
			continue
		}
		for _, before := range was.Tests {
			if before.Millrace == Passed && !slices.ContainsFunc(s.Tests, func(t Test) bool { return t.Name == before.Name }) {
				worse("%s: %s was not run, the ledger has it passed", s.Title(), before.Name)
			}
		}
	}
	return append(out, worseDepth(committed.Depth, seen.Depth)...)
}

// like finds the line that a suite's is to be compared with; an empty one where there is none.
func (l *Ledger) like(s *Suite) Suite {
	for _, other := range l.Suites {
		if other.key() == s.key() {
			return other
		}
	}
	for _, other := range l.Suites {
		if other.Name == s.Name && other.Settings == s.Settings {
			return other
		}
	}
	return Suite{}
}

func orNone(c *Compared) Compared {
	if c == nil {
		return Compared{}
	}
	return *c
}

func orNotRun(o Outcome) string {
	if o == NotRun {
		return "not run"
	}
	return string(o)
}
