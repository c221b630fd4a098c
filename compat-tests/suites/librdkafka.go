package suites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/ledger"
)

// The npm package with librdkafka's sources, and the version of librdkafka in it.
const (
	librdkafkaPackage = "@confluentinc/kafka-javascript@1.10.1"
	librdkafkaVersion = "2.15.1"
)

// librdkafka is librdkafka's test runner, in its quick mode (-Q), without the tests that need no broker (-L) or a socket that it
// spoils itself (-E). A process for each number: on one node some tests fail on Kafka too, and the runner then aborts.
type librdkafka struct {
	dir        string // of the tests
	tools      string // what the runner takes for Kafka's home
	idempotent bool   // every producer is one (-P)
	tests      []string
	at         int // processes at a time, on each server
}

// newLibrdkafka fetches the sources by npm and builds them, once.
func newLibrdkafka(ctx context.Context, root string, idempotent bool) (*librdkafka, error) {
	home := filepath.Join(root, ".cache", "compat", "librdkafka")
	l := &librdkafka{dir: filepath.Join(home, "package", "deps", "librdkafka", "tests"), tools: filepath.Join(home, "kafka"), idempotent: idempotent, at: 3}
	done := filepath.Join(home, "built")
	if b, err := os.ReadFile(done); err != nil || string(b) != librdkafkaPackage {
		if err := os.RemoveAll(home); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(home, 0o755); err != nil {
			return nil, err
		}
		script := `set -eu
tarball=$(npm pack --silent "$1")
tar xzf "$tarball" package/deps/librdkafka
rm -f "$tarball"
cd package/deps/librdkafka
./configure --disable-gssapi
make -j2 libs
make -C tests build`
		log, err := os.Create(filepath.Join(home, "build.log"))
		if err != nil {
			return nil, err
		}
		defer log.Close()
		cmd := exec.CommandContext(ctx, "sh", "-c", script, "sh", librdkafkaPackage)
		cmd.Dir, cmd.Stdout, cmd.Stderr = home, log, log
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("building librdkafka's tests, the log is %s: %w", log.Name(), err)
		}
		if err := os.WriteFile(done, []byte(librdkafkaPackage), 0o644); err != nil {
			return nil, err
		}
	}
	if err := l.wrapTools(ctx); err != nil {
		return nil, err
	}
	var err error
	l.tests, err = l.find()
	return l, err
}

// wrapTools writes the shell scripts of Kafka's that the tests call.
func (l *librdkafka) wrapTools(ctx context.Context) error {
	jars, err := kafka.Install(ctx, kafka.Newest)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(l.tools, "bin"), 0o755); err != nil {
		return err
	}
	for name, class := range map[string]string{"kafka-topics": "TopicCommand", "kafka-acls": "AclCommand", "kafka-configs": "ConfigCommand"} {
		text := fmt.Sprintf("#!/bin/sh\nexec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp '%s' org.apache.kafka.tools.%s \"$@\"\n", jars, class)
		if err := os.WriteFile(filepath.Join(l.tools, "bin", name+".sh"), []byte(text), 0o755); err != nil {
			return err
		}
	}
	// The Java programs that the tests come with find Kafka's jars in its folder libs.
	text := fmt.Sprintf("#!/bin/sh\nexec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp \"$CLASSPATH:%s\" \"$@\"\n", jars)
	if err := os.WriteFile(filepath.Join(l.tools, "bin", "kafka-run-class.sh"), []byte(text), 0o755); err != nil {
		return err
	}
	libs := filepath.Join(l.tools, "libs")
	if err := os.Remove(libs); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(strings.TrimSuffix(jars, "/*"), libs); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "make", "-s", "java")
	cmd.Dir, cmd.Env = l.dir, append(os.Environ(), "KAFKA_PATH="+l.tools)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling the Java programs of librdkafka's tests: %w\n%s", err, out)
	}
	return nil
}

var (
	subtest = regexp.MustCompile(`(?m)^static void (do_test_\w+)\(`)
)

// many are tests that stop at the first of their parts that fails: each part is run by itself too.
var many = map[string]string{"0081_admin": "0081-admin.c"}

// find reads the names of the tests out of the runner's table: those that need a broker, in the default scenario.
func (l *librdkafka) find() ([]string, error) {
	text, err := os.ReadFile(filepath.Join(l.dir, "test.c"))
	if err != nil {
		return nil, err
	}
	_, table, ok := strings.Cut(string(text), "struct test tests[] = {")
	table, _, ok2 := strings.Cut(table, "\n};")
	if !ok || !ok2 {
		return nil, errors.New("librdkafka's test.c has no table of tests")
	}
	var tests []string
	for _, entry := range strings.Split(table, "_TEST(")[1:] {
		name, flags, _ := strings.Cut(entry, ",")
		if strings.Contains(flags, "TEST_F_LOCAL") || strings.Contains(flags, "TEST_F_MANUAL") || strings.Contains(flags, `.scenario = "noautocreate"`) {
			continue
		}
		tests = append(tests, strings.TrimSuffix(strings.TrimSpace(name), ")"))
	}
	for test, file := range many {
		if !slices.Contains(tests, test) {
			return nil, fmt.Errorf("librdkafka has no test %s", test)
		}
		text, err := os.ReadFile(filepath.Join(l.dir, file))
		if err != nil {
			return nil, err
		}
		for _, m := range subtest.FindAllStringSubmatch(string(text), -1) {
			tests = append(tests, test+"/"+m[1])
		}
	}
	if len(tests) < 80 {
		return nil, fmt.Errorf("only %d tests were found in librdkafka's test.c", len(tests))
	}
	slices.Sort(tests)
	return slices.Compact(tests), nil
}

func (l *librdkafka) line() ledger.Suite {
	settings := "-L -Q -E"
	if l.idempotent {
		settings += " -P"
	}
	return ledger.Suite{Name: "librdkafka", Version: librdkafkaVersion, Settings: settings}
}

func (l *librdkafka) list() []string { return slices.Clone(l.tests) }

// run runs the tests, several processes at a time. Tests of one number share a process, but for the parts of a test.
func (l *librdkafka) run(ctx context.Context, s *Server, tests []string) (map[string]result, error) {
	conf := filepath.Join(s.Dir, "test.conf")
	if err := os.WriteFile(conf, []byte("bootstrap.servers="+s.Bootstrap+"\n"), 0o644); err != nil {
		return nil, err
	}
	var units []string
	for _, t := range tests {
		if !strings.Contains(t, "/") {
			t = t[:4]
		}
		if !slices.Contains(units, t) {
			units = append(units, t)
		}
	}
	seen := map[string]result{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var first error
	free := make(chan struct{}, l.at)
	for _, u := range units {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			got, err := l.process(ctx, s, conf, u)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = err
			}
			for _, t := range tests {
				if strings.Contains(u, "/") && t == u || !strings.Contains(t, "/") && t[:4] == u {
					r, ok := got[t]
					if !ok {
						r = result{ledger.Failed, "the runner ended without a report of it"}
					}
					seen[t] = r
				}
			}
		})
	}
	wg.Wait()
	return seen, first
}

const unitLimit = 5 * time.Minute

// process runs the tests of a number, or one part of a test.
func (l *librdkafka) process(ctx context.Context, s *Server, conf, unit string) (map[string]result, error) {
	number, part, isPart := strings.Cut(unit, "/")
	number = number[:4]
	report := filepath.Join(s.Dir, strings.ReplaceAll(unit, "/", "-")+".json")
	if err := os.Remove(report); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, unitLimit)
	defer cancel()
	args := []string{"-L", "-Q", "-E", "-p1"}
	if l.idempotent {
		args = append(args, "-P")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(l.dir, "test-runner"), args...)
	cmd.Dir = l.dir
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(l.dir, "..", "src")+":"+filepath.Join(l.dir, "..", "src-cpp"),
		"RDKAFKA_TEST_CONF="+conf, "TEST_KAFKA_VERSION="+kafka.Newest, "TESTS="+number, "TEST_REPORT="+report,
		"KAFKA_PATH="+l.tools, "BROKERS="+s.Bootstrap)
	if isPart {
		cmd.Env = append(cmd.Env, "SUBTESTS="+part)
	}
	out, _ := cmd.CombinedOutput() // how it ends tells less than its report: it aborts after any failure
	if err := os.WriteFile(strings.TrimSuffix(report, ".json")+".out", out, 0o644); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(report)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	seen, err := parseReport(text, string(out))
	if err != nil {
		return nil, fmt.Errorf("librdkafka's report of %s: %w", unit, err)
	}
	if isPart {
		test, _, _ := strings.Cut(unit, "/")
		r := seen[test]
		if r.outcome == ledger.Passed && !strings.Contains(string(out), "[ "+part+":") {
			r = result{ledger.Skipped, "left out in quick mode"}
		}
		return map[string]result{unit: r}, nil
	}
	return seen, nil
}

var (
	colours = regexp.MustCompile("\x1b\\[[0-9;]*m")
	summary = regexp.MustCompile(`(?m)^\| *(\w+) +\| +[A-Z_ ]+ \| +[0-9.]+s *\|(.*)$`)
	broken  = regexp.MustCompile(`(?m)^### Test "(\w+)[^"]*" failed at .*\n(.*)`)
)

// parseReport reads what the runner reports of each test that it has not left out for being another one, and from its output why.
func parseReport(report []byte, out string) (map[string]result, error) {
	var r struct {
		Tests map[string]struct {
			State string `json:"state"`
		} `json:"tests"`
	}
	if err := json.Unmarshal(report, &r); err != nil {
		return nil, err
	}
	why := map[string]string{}
	plain := colours.ReplaceAllString(out, "")
	for _, m := range summary.FindAllStringSubmatch(plain, -1) {
		why[m[1]] = shorten(m[2])
	}
	for _, m := range broken.FindAllStringSubmatch(plain, -1) {
		why[m[1]] = shorten(m[2])
	}
	seen := map[string]result{}
	for name, t := range r.Tests {
		switch t.State {
		case "PASSED":
			seen[name] = result{outcome: ledger.Passed}
		case "SKIPPED":
			seen[name] = result{ledger.Skipped, why[name]}
		default:
			seen[name] = result{ledger.Failed, why[name]}
		}
	}
	return seen, nil
}
