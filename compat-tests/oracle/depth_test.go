//go:build compat

package oracle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"millrace/compat-tests/depth"
	"millrace/compat-tests/kafka"
	"millrace/compat-tests/ledger"
)

// committedSeeds are the seeds over which the depth is measured.
const committedSeeds = 1000

// TestDepth plays the committed seeds while JaCoCo's agent counts which of
// Apache Kafka's branches they reach, and holds that, and the error codes that
// were seen, against the ledger.
func TestDepth(t *testing.T) {
	if os.Getenv("MILLRACE_ORACLE_DEPTH") == "" {
		t.Skip("takes a quarter of an hour; make oracle-depth runs it")
	}
	ctx := context.Background()
	root, err := ledger.Root()
	if err != nil {
		t.Fatal(err)
	}
	agent, err := depth.NewAgent(ctx, filepath.Join(root, ".cache", "jacoco"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path, err := kafka.Install(ctx, kafka.Newest)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MILLRACE_ORACLE_KAFKA", "")
	t.Setenv("MILLRACE_ORACLE_VERSION", "")
	t.Setenv("MILLRACE_ORACLE_JVM", "-Xmx1g "+agent.JVM())
	s := start(t)
	restart := s.Restart
	s.Restart = func(how Restart) error {
		if err := agent.Collect(ctx); err != nil {
			return err
		}
		return restart(how)
	}
	begun := time.Now()
	o := Options{From: 1, Once: true, Seeds: uint64(number(t, "MILLRACE_ORACLE_SEEDS", committedSeeds)), Parallel: number(t, "MILLRACE_ORACLE_PARALLEL", 8*runtime.GOMAXPROCS(0)),
		Log: func(format string, args ...any) {
			fmt.Printf("%4.0f s: %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
		}}
	r := s.Run(o)
	for _, e := range r.Errors {
		t.Error(e)
	}
	for _, f := range r.Fleeting {
		t.Logf("differs, which is for make oracle to tell of: %s (seeds %v)", f.Text, f.Seeds)
	}
	if err := agent.Collect(ctx); err != nil {
		t.Fatal(err)
	}
	reached, err := agent.Report(ctx, strings.TrimSuffix(path, "*"))
	if err != nil {
		t.Fatal(err)
	}
	line := &ledger.Depth{Commit: ledger.Commit(), Seeds: [2]int64{int64(o.From), int64(o.From + o.Seeds)}, Codes: map[string][]int16{}}
	for _, p := range reached.Parts {
		line.Parts = append(line.Parts, ledger.Reached{Name: p.Name, Reached: p.Reached, Branches: p.All})
		t.Logf("%-45s %5d of %5d branches, %3.0f of a hundred", p.Name, p.Reached, p.All, p.Percent())
	}
	for _, u := range reached.Unreached() {
		line.Unreached = append(line.Unreached, ledger.Unreached{Part: u.Part, Method: u.Method, Branches: u.Missed, Why: u.Why})
		if u.Missed > u.Explained {
			t.Errorf("%s, %s: %d branches were not reached, and %d are explained", u.Part, u.Method, u.Missed, u.Explained)
		}
	}
	seen := r.Tally.Summary().Codes
	for key, codes := range seen {
		line.Codes[fmt.Sprint(key)] = codes
	}
	for _, u := range depth.UnseenCodes(seen) {
		line.Unseen = append(line.Unseen, ledger.Unseen{API: u.Key, Code: u.Code, Why: u.Why})
		t.Logf("API %d: error code %d was not seen: %s", u.Key, u.Code, u.Why)
		if u.Why == "" {
			t.Errorf("API %d: error code %d was not seen, and nothing explains it", u.Key, u.Code)
		}
	}
	ledger.Settle(t, "depth", &ledger.Ledger{Depth: line}, o.Seeds != committedSeeds)
}
