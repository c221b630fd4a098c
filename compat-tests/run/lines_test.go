package run

import (
	"testing"

	"millrace/compat-tests/ledger"
)

func TestLinesOfTheLedger(t *testing.T) {
	here := Row{Client: "c", Version: "1", Results: []Result{
		{Step: "compare", Outcome: OK}, {Step: "delete group", Outcome: Unsupported, Detail: "no such call\nmore"},
		{Step: "seek by time", Outcome: Failed, Detail: "wrong"}, {Step: "group of two", Flavour: "classic/range", Outcome: OK},
		{Step: "group of two", Flavour: "consumer/range", Outcome: NotRun, Detail: "not advertised"},
	}}
	there := Row{Client: "c", Version: "1", Results: []Result{
		{Step: "compare", Outcome: OK}, {Step: "delete group", Outcome: Unsupported}, {Step: "seek by time", Outcome: OK},
		{Step: "group of two", Flavour: "classic/range", Outcome: OK}, {Step: "group of two", Flavour: "consumer/range", Outcome: OK},
		{Step: "member leaves", Flavour: "consumer/range", Outcome: OK}, {Step: "read lag", Outcome: OK},
	}}
	got := map[string]ledger.Test{}
	for _, s := range lines([]Row{here}, []Row{there}).Suites {
		for _, test := range s.Tests {
			got[test.Name] = test
		}
	}
	for _, want := range []ledger.Test{
		{Name: "compare", Millrace: ledger.Passed, Kafka: ledger.Passed},
		{Name: "delete group", Millrace: ledger.Skipped, Kafka: ledger.Skipped, Why: "no such call"},
		{Name: "seek by time", Millrace: ledger.Failed, Kafka: ledger.Passed, Why: "wrong"},
		{Name: "group of two classic/range", Millrace: ledger.Passed, Kafka: ledger.Passed},
		{Name: "group of two consumer/range", Millrace: ledger.Waits, Kafka: ledger.Passed, Why: "not advertised"},
		{Name: "member leaves consumer/range", Millrace: ledger.Waits, Kafka: ledger.Passed, Why: "not advertised"},
		{Name: "read lag", Millrace: ledger.Failed, Kafka: ledger.Passed, Why: "not reached here"},
	} {
		if got[want.Name] != want {
			t.Errorf("%+v, want %+v", got[want.Name], want)
		}
		delete(got, want.Name)
	}
	if len(got) > 0 {
		t.Errorf("and more: %v", got)
	}
	if s := lines([]Row{here}, nil).Suites[0]; s.Tests[0].Kafka != ledger.NotRun {
		t.Errorf("without a peer: %+v", s.Tests)
	}
}
