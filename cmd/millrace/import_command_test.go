package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// What help says of open transactions is true as long as nobody can end one here, which is as long as none of the APIs by which
// that is done is served.
func TestImportHelpOnTransactions(t *testing.T) {
	b, err := os.ReadFile("../../docs/compatibility.json")
	if err != nil {
		t.Fatal(err)
	}
	var ledger struct {
		APIs []struct{ Name string } // those that are served
	}
	if err := json.Unmarshal(b, &ledger); err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{}
	for _, a := range ledger.APIs {
		served[a.Name] = true
	}
	if !served["Produce"] {
		t.Error("the ledger does not say what is served")
	}
	built := served["EndTxn"] || served["WriteTxnMarkers"] || served["AddPartitionsToTxn"]
	code, help, _ := try(t, neverRun(t), nil, "import", "--help")
	if says := strings.Contains(help, "nothing here ends it"); code != 0 || says == built {
		t.Errorf("an open transaction can be ended: %v, and help says\n%s", built, help)
	}
}

func TestImportsMistakes(t *testing.T) {
	for _, args := range [][]string{{"import"}, {"import", "a"}, {"import", "a", "b", "--log-dir", "c"}} {
		if code, _, stderr := try(t, neverRun(t), nil, args...); code != exitUsage || !strings.HasPrefix(stderr, "millrace: import: ") {
			t.Errorf("%v: code %d, %q", args, code, stderr)
		}
	}
}
