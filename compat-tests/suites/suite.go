package suites

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"millrace/compat-tests/ledger"
)

// suite is something that has tests and can run them against a server.
type suite interface {
	// line names it: Name, Version and Settings of a ledger's line.
	line() ledger.Suite
	// list names its tests, or what it can run by itself of them.
	list() []string
	// run runs tests that list has named and gives what became of them, and of their parts, by name. A part's name is that of
	// its test, a slash and more.
	run(ctx context.Context, s *Server, tests []string) (map[string]result, error)
}

type result struct {
	outcome ledger.Outcome
	why     string
}

// attempts is how often a test is run that fails.
const attempts = 3

// hold runs a suite against both servers at once and merges what became of its tests.
func hold(ctx context.Context, s suite, p *Peers, only []string, log func(string, ...any)) (ledger.Suite, error) {
	line := s.line()
	tests := slices.DeleteFunc(s.list(), func(name string) bool {
		return len(only) > 0 && !slices.ContainsFunc(only, func(text string) bool { return strings.Contains(name, text) })
	})
	if len(tests) == 0 {
		return line, fmt.Errorf("%s has no tests", line.Title())
	}
	servers := []*Server{p.Millrace, p.Kafka}
	seen := make([]map[string]result, len(servers))
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i, server := range servers {
		wg.Go(func() { seen[i], errs[i] = runOn(ctx, s, line.Name, server, tests, log) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return line, fmt.Errorf("%s against %s: %w", line.Title(), servers[i].Name, err)
		}
	}
	line.Tests = merge(line.Name, p.Millrace.Serves, seen[0], seen[1])
	return line, nil
}

// runOn runs the tests that wait for nothing on a server, and those that fail again.
func runOn(ctx context.Context, s suite, name string, server *Server, tests []string, log func(string, ...any)) (map[string]result, error) {
	var now []string
	for _, t := range tests {
		if _, run := waiting(name, t, server.Serves); run {
			now = append(now, t)
		}
	}
	seen, err := s.run(ctx, server, now)
	if err != nil {
		return nil, err
	}
	for attempt := 1; attempt < attempts; attempt++ {
		for _, t := range failed(now, seen) {
			if what, _ := waiting(name, t, server.Serves); what != "" {
				continue
			}
			log("%s: %s fails on %s and is run again: %s", name, t, server.Name, seen[t].why)
			again, err := s.run(ctx, server, []string{t})
			if err != nil {
				return nil, err
			}
			for part := range seen {
				if part == t || strings.HasPrefix(part, t+"/") && !slices.Contains(now, part) {
					delete(seen, part)
				}
			}
			for part, r := range again {
				seen[part] = r
			}
		}
	}
	return seen, nil
}

// failed are the tests that have failed, whole or in a part, or of which nothing was said.
func failed(tests []string, seen map[string]result) []string {
	var out []string
	for _, t := range tests {
		bad := false
		_, said := seen[t]
		for part, r := range seen {
			bad = bad || (part == t || strings.HasPrefix(part, t+"/") && !slices.Contains(tests, part)) && r.outcome == ledger.Failed
		}
		if bad || !said {
			out = append(out, t)
		}
	}
	return out
}

// merge makes one list of what was seen here and there. What waits here is told so, whether it was left out, skipped itself,
// or failed for want of what cannot be asked for.
func merge(suite string, serves map[string]bool, here, there map[string]result) []ledger.Test {
	names := map[string]bool{}
	for n := range here {
		names[n] = true
	}
	for n := range there {
		names[n] = true
	}
	var out []ledger.Test
	for n := range names {
		ours, ran := here[n]
		theirs := there[n]
		t := ledger.Test{Name: n, Millrace: ours.outcome, Kafka: theirs.outcome, Why: ours.why}
		what, _ := waiting(suite, n, serves)
		switch {
		case what != "" && ours.outcome != ledger.Passed:
			t.Millrace, t.Why = ledger.Waits, what
		case !ran:
			// A test whose parts are other ones here than there: what is not there has not passed.
			t.Millrace, t.Why = ledger.Failed, "not run here"
		case ours.outcome == ledger.Passed && theirs.outcome != ledger.Passed:
			t.Why = theirs.why
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b ledger.Test) int { return strings.Compare(a.Name, b.Name) })
	return out
}
