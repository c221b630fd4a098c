package suites

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"millrace/compat-tests/ledger"
)

const kgoModule = "github.com/twmb/franz-go"

// kgo is franz-go's own tests: those of package kgo that reach a server.
type kgo struct {
	version string
	source  string // the package's folder in the module cache
	binary  string
	tests   []string
	chaos   bool // connections that fail at random (KGO_TEST_CHAOS)
	records int  // of an ETL test
	limit   time.Duration
}

// newKgo compiles the tests out of the module cache, in the version that go.mod names.
func newKgo(ctx context.Context, root string, chaos bool, records int, limit time.Duration) (*kgo, error) {
	k := &kgo{chaos: chaos, records: records, limit: limit, binary: filepath.Join(root, ".cache", "compat", "kgo.test")}
	out, err := output(ctx, root, "go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", kgoModule)
	if err != nil {
		return nil, err
	}
	version, dir, ok := strings.Cut(strings.TrimSpace(out), " ")
	if !ok {
		return nil, fmt.Errorf("%s is not in the module cache: %q", kgoModule, out)
	}
	k.version, k.source = version, filepath.Join(dir, "pkg", "kgo")
	if _, err := output(ctx, root, "go", "test", "-c", "-o", k.binary, kgoModule+"/pkg/kgo"); err != nil {
		return nil, err
	}
	reaches := []string{"getSeedBrokers"}
	if chaos {
		reaches = []string{"testChaos"}
	}
	k.tests, err = testsReaching(k.source, reaches...)
	if err == nil && len(k.tests) == 0 {
		err = fmt.Errorf("no test in %s reaches %v", k.source, reaches)
	}
	return k, err
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out), nil
}

func (k *kgo) line() ledger.Suite {
	if k.chaos {
		return ledger.Suite{Name: "kgo", Version: k.version, Settings: "KGO_TEST_CHAOS=1"}
	}
	return ledger.Suite{Name: "kgo", Version: k.version}
}

func (k *kgo) list() []string { return slices.Clone(k.tests) }

func (k *kgo) run(ctx context.Context, s *Server, tests []string) (map[string]result, error) {
	if len(tests) == 0 {
		return map[string]result{}, nil
	}
	cmd := exec.CommandContext(ctx, k.binary, "-test.v", "-test.timeout", k.limit.String(), "-test.run", "^("+strings.Join(tests, "|")+")$")
	cmd.Dir = k.source
	cmd.Env = append(os.Environ(), "KGO_SEEDS="+s.Bootstrap, "KGO_TEST_RF=1", fmt.Sprint("KGO_TEST_RECORDS=", k.records), "KGO_LOG_LEVEL=none")
	if k.chaos {
		cmd.Env = append(cmd.Env, "KGO_TEST_CHAOS=1")
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	if err := os.WriteFile(filepath.Join(s.Dir, "kgo.out"), out.Bytes(), 0o644); err != nil {
		return nil, err
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("run kgo's tests: %w", err)
	}
	return parseGo(out.String()), nil
}

var (
	goRun     = regexp.MustCompile(`^=== (RUN|CONT|NAME|PAUSE) +(\S+)`)
	goOutcome = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \(`)
	goLog     = regexp.MustCompile(`^ +\w+\.go:\d+: (.*)`)
)

// parseGo reads the output of go test -v. A test that began and of which no end is told has failed.
func parseGo(out string) map[string]result {
	seen := map[string]result{}
	said := map[string]string{} // the last line that a test has logged
	current := ""
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if m := goRun.FindStringSubmatch(line); m != nil {
			current = m[2]
			if _, ok := seen[current]; !ok {
				seen[current] = result{ledger.Failed, "it did not end"}
			}
		} else if m := goOutcome.FindStringSubmatch(line); m != nil {
			r := result{outcome: map[string]ledger.Outcome{"PASS": ledger.Passed, "FAIL": ledger.Failed, "SKIP": ledger.Skipped}[m[1]]}
			if r.outcome != ledger.Passed {
				r.why = said[m[2]]
			}
			seen[m[2]] = r
		} else if m := goLog.FindStringSubmatch(line); m != nil && said[current] == "" {
			said[current] = shorten(m[1])
		}
	}
	return seen
}

var (
	addresses = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	paths     = regexp.MustCompile(`/[\w.@+/-]*/\.cache/[\w.@+/-]*/`)
	digits    = regexp.MustCompile(`[0-9a-f]{12,}`)
)

// shorten makes a reason one line that is the same in the next run: without addresses, places of files and random names.
func shorten(why string) string {
	why, _, _ = strings.Cut(strings.TrimSpace(why), "\n")
	why = paths.ReplaceAllString(digits.ReplaceAllString(addresses.ReplaceAllString(why, "HOST:PORT"), "..."), "")
	if len(why) > 200 {
		why = why[:200] + "..."
	}
	return why
}

// testsReaching finds the top-level tests of a package whose code, through whatever functions of its test files, comes by one of
// some names. It goes by names alone, so that it may find too much, and never too little.
func testsReaching(dir string, names ...string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	uses := map[string]map[string]bool{} // by function or method
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if uses[fn.Name.Name] == nil {
				uses[fn.Name.Name] = map[string]bool{}
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					uses[fn.Name.Name][id.Name] = true
				}
				return true
			})
		}
	}
	reach := map[string]bool{}
	for _, n := range names {
		reach[n] = true
	}
	for grown := true; grown; {
		grown = false
		for fn, used := range uses {
			if reach[fn] {
				continue
			}
			for n := range used {
				if reach[n] {
					reach[fn], grown = true, true
					break
				}
			}
		}
	}
	var tests []string
	for fn := range uses {
		if reach[fn] && strings.HasPrefix(fn, "Test") {
			tests = append(tests, fn)
		}
	}
	slices.Sort(tests)
	return tests, nil
}
