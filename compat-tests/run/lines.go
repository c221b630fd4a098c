package run

import (
	"strings"

	"millrace/compat-tests/ledger"
)

// lines are the ledger's lines of clients: a test for each step, and for each step and kind of group where the two have to do with
// each other. Peers are the same clients' rows on Apache Kafka; without them nothing is said of it.
func lines(rows, peers []Row) *ledger.Ledger {
	out := &ledger.Ledger{}
	commit := ledger.Commit()
	for _, row := range rows {
		s := ledger.Suite{Name: "client " + row.Client, Version: row.Version, Commit: commit}
		tests := map[string]ledger.Test{}
		for _, r := range row.Results {
			name := strings.TrimSpace(r.Step + " " + r.Flavour)
			t := ledger.Test{Name: name, Millrace: r.Outcome.inLedger()}
			if t.Millrace != ledger.Passed {
				t.Why, _, _ = strings.Cut(r.Detail, "\n")
			}
			tests[name] = t
		}
		for _, peer := range peers {
			if peer.Key() != row.Key() {
				continue
			}
			for _, r := range peer.Results {
				name := strings.TrimSpace(r.Step + " " + r.Flavour)
				t, ok := tests[name]
				if !ok {
					// A kind of group that there is only on Kafka shows up in every step.
					kind := strings.TrimSpace("group of two " + r.Flavour)
					t = ledger.Test{Name: name, Millrace: tests[kind].Millrace, Why: tests[kind].Why}
					if t.Millrace != ledger.Waits {
						t.Millrace, t.Why = ledger.Failed, "not reached here"
					}
				}
				t.Kafka = r.Outcome.inLedger()
				tests[name] = t
			}
		}
		for _, t := range tests {
			s.Tests = append(s.Tests, t)
		}
		out.Suites = append(out.Suites, s)
	}
	return out
}

// inLedger is an outcome in the ledger's words: a step was not run when the server does not advertise what it needs.
func (o Outcome) inLedger() ledger.Outcome {
	return map[Outcome]ledger.Outcome{OK: ledger.Passed, Failed: ledger.Failed, Unsupported: ledger.Skipped, NotRun: ledger.Waits}[o]
}
