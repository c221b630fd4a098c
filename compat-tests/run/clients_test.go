//go:build compat

package run

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
	"millrace/compat-tests/ledger"
)

// number reads a count from the environment; "all" is -1.
func number(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	switch text {
	case "":
		return otherwise
	case "all":
		return -1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s=%q is no count", name, text)
	}
	return n
}

// bigInputs makes each kind of big input once, when it is first asked for.
type bigInputs struct {
	dir   string
	limit int // -1: none, 0: no big input
	mu    sync.Mutex
	made  map[string]int
}

func (b *bigInputs) get(kind string) (path string, count int, err error) {
	if b.limit == 0 {
		return "", 0, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	path = filepath.Join(b.dir, kind)
	if n, ok := b.made[kind]; ok {
		return path, n, nil
	}
	switch kind {
	case "go-sources":
		root, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return "", 0, fmt.Errorf("go env GOROOT: %w", err)
		}
		count, err = writeGoSources(path, strings.TrimSpace(string(root)), max(b.limit, 0))
		if err == nil && count == 0 {
			err = fmt.Errorf("no Go sources below %s", root)
		}
		if err != nil {
			return "", 0, err
		}
	case "events":
		if count = 200_000; b.limit > 0 {
			count = min(count, b.limit)
		}
		if err := writeEvents(path, count); err != nil {
			return "", 0, err
		}
	default:
		return "", 0, fmt.Errorf("there is no big input %q", kind)
	}
	b.made[kind] = count
	return path, count, nil
}

// TestClients leads every client below clients/ through the scenario. Either it writes the table (MILLRACE_COMPAT_TABLE
// names its file), or, with Millrace's own binary, it wants nothing to be worse than the committed table says.
func TestClients(t *testing.T) {
	root, err := launch.Root()
	if err != nil {
		t.Fatal(err)
	}
	clients, err := Clients(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(clients) == 0 {
		t.Fatal("no client has an agents.json")
	}
	bootstrap, name := launch.ForTest(t)
	t.Logf("broker: %s at %s", name, bootstrap)
	records := number(t, "MILLRACE_COMPAT_RECORDS", 2_000)
	if records < 1 {
		t.Fatal("MILLRACE_COMPAT_RECORDS must be a number above 0")
	}
	big := &bigInputs{dir: t.TempDir(), limit: number(t, "MILLRACE_COMPAT_BIG_RECORDS", 20_000), made: make(map[string]int)}
	table := os.Getenv("MILLRACE_COMPAT_TABLE")
	var committed map[string]Seen // nil: nothing to compare with
	if table == "" && os.Getenv("MILLRACE_TEST_BOOTSTRAP") == "" {
		if committed, err = ReadTable(filepath.Join(root, "compat-tests", "README.md")); err != nil {
			t.Fatal(err)
		}
	}

	var mu sync.Mutex
	var rows []Row
	t.Run("all", func(t *testing.T) {
		for i, c := range clients {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				row := lead(t, root, bootstrap, c, records, big, committed, fmt.Sprintf("%d-%d", time.Now().UnixMilli(), i))
				mu.Lock()
				defer mu.Unlock()
				rows = append(rows, row)
			})
		}
	})
	var peers []Row
	if table != "" {
		if len(rows) > 0 {
			if err := UpdateTable(table, rows, len(rows) == len(clients)); err != nil {
				t.Error(err)
			}
		}
		peers = onKafka(t, root, clients, records, big)
	}
	if os.Getenv("MILLRACE_TEST_BOOTSTRAP") == "" {
		ledger.Settle(t, "clients", lines(rows, peers), table == "" || len(rows) < len(clients))
	}
}

// onKafka leads the clients through the same scenario on Apache Kafka. What fails there fails no test: it is recorded.
func onKafka(t *testing.T, root string, clients []Client, records int, big *bigInputs) []Row {
	server, err := kafka.Start(t.Context(), kafka.Options{Properties: map[string]string{"group.initial.rebalance.delay.ms": "0"}, JVM: []string{"-Xmx768m"}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	var mu sync.Mutex
	var rows []Row
	t.Run("kafka", func(t *testing.T) {
		for i, c := range clients {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				row, _, err := walk(t, root, server.Bootstrap, c, records, big, fmt.Sprintf("%d-%d-kafka", time.Now().UnixMilli(), i))
				if err != nil {
					t.Logf("on Kafka: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				rows = append(rows, row)
			})
		}
	})
	return rows
}

// lead runs the scenario for one client and makes a subtest of each step. What the committed table, if there is one,
// names as failing is no news.
func lead(t *testing.T, root, bootstrap string, c Client, records int, big *bigInputs, committed map[string]Seen, tag string) Row {
	begin := time.Now()
	row, a, err := walk(t, root, bootstrap, c, records, big, tag)
	seen, known := committed[row.Key()]
	ran := make(map[string]bool)
	for _, r := range row.Results {
		ran[r.Step] = true
		t.Run(strings.TrimSpace(r.Step+" "+r.Flavour), func(t *testing.T) {
			switch r.Outcome {
			case Failed:
				if cell := seen.Cells[r.Step]; known && cell != "ok" && cell != "no call" {
					t.Logf("fails, as the table says (%s): %s", cell, r.Detail)
					return
				}
				t.Error(r.Detail)
			case Unsupported:
				t.Logf("no call: %s", r.Detail)
			case NotRun:
				t.Log(r.Detail)
			}
		})
	}
	var without []string
	if big.limit == 0 {
		without = []string{"real input"}
	}
	switch {
	case known:
		for _, text := range row.Worse(seen, without...) {
			t.Error(text)
		}
	case committed != nil:
		t.Errorf("the table in compat-tests/README.md has no row for %s: write it with `make suites`", row.Key())
		fallthrough
	default:
		for _, step := range Steps {
			if !ran[step] && !slices.Contains(without, step) {
				t.Errorf("the scenario did not reach %q", step)
			}
		}
	}
	if err != nil {
		t.Error(err)
	}
	if t.Failed() && a != nil {
		t.Logf("the agent's log:\n%s", a.Log())
	}
	t.Logf("%s took %.1f s", c.Name, time.Since(begin).Seconds())
	return row
}

// walk runs the scenario for one client, and again for one that has its moods.
func walk(t *testing.T, root, bootstrap string, c Client, records int, big *bigInputs, tag string) (Row, *Agent, error) {
	path, count, err := big.get(c.Input)
	if err != nil {
		t.Fatal(err)
	}
	if c.Records > 0 {
		records = min(records, c.Records)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	attempts := 1
	if c.Flaky != "" {
		attempts = 2 // of the whole; each group has three of its own
	}
	var results []Result
	var a *Agent
	var remarks []string
	for i := range attempts {
		results, a, err = Run(ctx, Spec{Root: root, Dir: t.TempDir(), Bootstrap: bootstrap, Client: c, Records: records, BigInput: path, BigCount: count,
			Tag: fmt.Sprintf("%s-%s-%d", c.Name, tag, i), Report: func(r Result) {
				t.Logf("%-22s %-16s %-18s %-8s %7.2f s", c.Name, r.Step, r.Flavour, [...]string{"", "no call", "ok", "FAILS"}[r.Outcome], r.Took.Seconds())
			}})
		bad := slices.IndexFunc(results, func(r Result) bool { return r.Outcome == Failed })
		if (err == nil && bad < 0) || i == attempts-1 {
			break
		}
		if bad >= 0 {
			err = fmt.Errorf("%s %s: %s", results[bad].Step, results[bad].Flavour, results[bad].Detail)
		}
		t.Logf("attempt %d of %d failed (%s): %v", i+1, attempts, c.Flaky, err)
	}
	if c.Flaky != "" {
		remarks = append(remarks, "given up to three attempts: "+c.Flaky)
	}
	row := Row{Client: c.Name, Records: records, Results: results, Remarks: remarks}
	for _, r := range results {
		if r.Flavour != "" && (r.Outcome == OK || r.Outcome == Failed) && !slices.Contains(row.Flavours, r.Flavour) {
			row.Flavours = append(row.Flavours, r.Flavour)
		}
	}
	if a != nil {
		row.Client, row.Version = a.Hello.Client, a.Hello.Version
		if len(a.Hello.Cannot) > 0 {
			row.Remarks = append(row.Remarks, "its input is without "+strings.Join(a.Hello.Cannot, ", "))
		}
		for _, text := range []string{a.Hello.NoCommitOnRevoke, a.Hello.Note} {
			if text != "" {
				row.Remarks = append(row.Remarks, text)
			}
		}
	}
	return row, a, err
}
