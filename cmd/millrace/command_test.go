package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"

	"millrace/broker"
)

// try runs one command line in this process, against a broker that only looks
// at its options.
func try(t *testing.T, run func(context.Context, broker.Options) error, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	p := &program{stdout: &out, stderr: &err, environ: environ, run: run}
	code = p.main(t.Context(), args)
	return code, out.String(), err.String()
}

func neverRun(t *testing.T) func(context.Context, broker.Options) error {
	return func(context.Context, broker.Options) error {
		t.Error("the broker was started")
		return nil
	}
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLayersOfConfiguration(t *testing.T) {
	path := writeFile(t, "node.id=5\nnum.partitions=2\nlog.dirs=/from-file\nlog.segment.bytes=2000000\n")
	for _, args := range [][]string{{"serve"}, {}} {
		var got broker.Options
		args = append(args, "-c", path, "--override", "num.partitions=4", "--override", " log.dirs = /from-flag ", "--log-level", "debug")
		code, stdout, stderr := try(t, func(_ context.Context, o broker.Options) error {
			got = o
			o.Ready(broker.Info{Bootstrap: []string{"127.0.0.1:9092", "[::1]:9092"}, NodeID: 5, ClusterID: "abc"})
			return nil
		}, []string{"KAFKA_NUM_PARTITIONS=3", "KAFKA_LOG_SEGMENT_BYTES=3000000", "HOME=/"}, args...)
		if code != 0 || stderr != "" {
			t.Fatalf("%v: code %d, %s", args, code, stderr)
		}
		if stdout != "millrace ready bootstrap.servers=127.0.0.1:9092,[::1]:9092 node.id=5 cluster.id=abc\n" {
			t.Errorf("told %q", stdout)
		}
		c := got.Config
		if c.NodeID() != 5 || c.Int("num.partitions") != 4 || c.Int("log.segment.bytes") != 3000000 || c.LogDirs()[0] != "/from-flag" {
			t.Errorf("node %d, partitions %d, segment %d, directories %v", c.NodeID(), c.Int("num.partitions"), c.Int("log.segment.bytes"), c.LogDirs())
		}
		if got.Level.Level() != zapcore.DebugLevel || !got.Logger.Core().Enabled(zapcore.DebugLevel) {
			t.Errorf("level %s", got.Level)
		}
		got.Level.SetLevel(zapcore.ErrorLevel)
		if got.Logger.Core().Enabled(zapcore.WarnLevel) {
			t.Error("the level does not move the logger")
		}
	}
}

func TestMistakesExitWith2InOneLine(t *testing.T) {
	path := writeFile(t, "num.partitions=none\n")
	torn := writeFile(t, "a=b\nc=\\u12\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serve", "-c", "/does/not/exist"}, "reading the configuration: open /does/not/exist"},
		{[]string{"serve", "-c", path}, "Invalid value none for configuration num.partitions: Not a number of type INT"},
		{[]string{"serve", "-c", torn}, "line 2: malformed"},
		{[]string{"serve", "--override", "num.partitions"}, "--override num.partitions: expected key=value"},
		{[]string{"serve", "--override", "=1"}, "expected key=value"},
		{[]string{"serve", "--log-level", "loud"}, "--log-level loud: expected debug, info, warn or error"},
		{[]string{"serve", "--nonsense"}, "unknown flag: --nonsense; 'millrace serve --help' lists what there is"},
		{[]string{"--nonsense"}, "unknown flag: --nonsense; 'millrace --help' lists what there is"},
		{[]string{"nonsense"}, `unknown command or argument "nonsense" for "millrace"; 'millrace --help' lists what there is`},
		{[]string{"topic"}, `unknown command or argument "topic" for "millrace" (did you mean 'millrace topics'?); 'millrace --help' lists`},
		{[]string{"log", "vrify", "x"}, `unknown command or argument "vrify x" for "millrace log" (did you mean 'millrace log verify'?)`},
		{[]string{"serve", "more"}, "reading the configuration: open more: no such file"},
		{[]string{"serve", path, "more"}, `unknown command or argument "more"`},
		{[]string{"serve", "-c", path, "more"}, "two configuration files"},
		{[]string{"serve", path}, "(num.partitions is set in " + path + ":1)"},
		{[]string{"serve", "--topics", "a"}, "expected name:partitions"},
		{[]string{"serve", "--override", "process.roles=broker"}, "process.roles=broker: a node is broker and controller at once"},
		{[]string{"serve", "--override", "authorizer.class.name=a.B"}, "asks for an authorizer"},
		{[]string{"dev", "--override", "log.dirs=/x"}, "dev chooses its own directory"},
		{[]string{"health", "--bootstrap-server", "nowhere"}, "--bootstrap-server nowhere: expected host:port"},
		{[]string{"health", "-b", "nowhere"}, "nowhere: expected host:port"},
		{[]string{"health", "--bootstrap", "nowhere"}, "nowhere: expected host:port"},
		{[]string{"health", "-c", path}, "num.partitions"},
		{[]string{"config", "--properties", "--json"}, "--properties goes with neither --all nor --json"},
		{[]string{"serve", "--http-address", "here"}, "--http-address: here: the port is to be a number below 65536"},
		{[]string{"serve", "--http-address", "::1"}, "--http-address: ::1: expected host:port"},
	} {
		code, stdout, stderr := try(t, neverRun(t), nil, c.args...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "millrace: ") {
			t.Errorf("%v: code %d, stdout %q, stderr %q", c.args, code, stdout, stderr)
		}
	}
}

func TestWarningsAreLoggedOnce(t *testing.T) {
	_, _, stderr := try(t, func(context.Context, broker.Options) error { return nil }, nil,
		"serve", "--override", "num.io.threads=9", "--override", "log.retention.hour=1")
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), stderr)
	}
	for i, key := range []string{"log.retention.hour", "num.io.threads"} {
		var line map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &line); err != nil {
			t.Fatalf("%q is no JSON: %v", lines[i], err)
		}
		if line["level"] != "warn" || line["key"] != key || !strings.Contains(line["message"].(string), key) {
			t.Errorf("line %d: %v", i, line)
		}
	}
}

func TestTakenPortNamesTheWayOut(t *testing.T) {
	_, _, stderr := try(t, func(context.Context, broker.Options) error { return broker.ErrAddressInUse }, nil, "serve")
	if !strings.HasSuffix(stderr, "; another port is --override listeners=PLAINTEXT://localhost:PORT\n") {
		t.Error(stderr)
	}
}

func TestNestedDirectoriesAreAMistake(t *testing.T) {
	nested := func(context.Context, broker.Options) error {
		return fmt.Errorf("%w: /a/b lies in /a", broker.ErrNestedDirectories)
	}
	if code, _, stderr := try(t, nested, nil, "serve", "--override", "log.dirs=/a,/a/b"); code != exitUsage || stderr != "millrace: data directories are to lie apart: /a/b lies in /a (log.dirs is set in --override)\n" {
		t.Errorf("code %d, %q", code, stderr)
	}
}

func TestFailuresExitWith1(t *testing.T) {
	for _, cause := range []error{broker.ErrAddressInUse, broker.ErrDirectoryInUse, broker.ErrIdentity, errors.New("disk on fire")} {
		code, stdout, stderr := try(t, func(context.Context, broker.Options) error { return cause }, nil, "serve")
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, cause.Error()) {
			t.Errorf("%v: code %d, stdout %q, stderr %q", cause, code, stdout, stderr)
		}
	}
}

// A broker that is told to stop while it starts has stopped in order, unless
// something else went wrong as well.
func TestStopBeforeReady(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{fmt.Errorf("starting: %w", context.Canceled), exitOK},
		{errors.Join(fmt.Errorf("starting: %w", context.Canceled), fmt.Errorf("a part: %w", context.Canceled)), exitOK},
		{errors.Join(fmt.Errorf("starting: %w", context.Canceled), errors.New("disk on fire")), exitFailed},
		{errors.New("disk on fire"), exitFailed},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var out, stderr bytes.Buffer
		p := &program{stdout: &out, stderr: &stderr, run: func(context.Context, broker.Options) error {
			cancel()
			return c.err
		}}
		if code := p.main(ctx, []string{"serve"}); code != c.code || (code == 0) != (stderr.Len() == 0) {
			t.Errorf("%v: code %d, %s", c.err, code, &stderr)
		}
	}
	code, _, _ := try(t, func(context.Context, broker.Options) error { return context.Canceled }, nil, "serve")
	if code != exitFailed {
		t.Errorf("canceled by nobody: code %d", code)
	}
}

func TestDevKeepsNothing(t *testing.T) {
	var dir string
	code, _, stderr := try(t, func(_ context.Context, o broker.Options) error {
		dir = o.Config.LogDirs()[0]
		if o.Config.MetadataLogDir() != dir {
			t.Errorf("metadata in %s, data in %s", o.Config.MetadataLogDir(), dir)
		}
		return os.MkdirAll(filepath.Join(dir, "topic-0"), 0o755)
	}, nil, "dev", "-c", writeFile(t, "log.dirs=/never\nmetadata.log.dir=/never\n"))
	if code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) || dir == "" {
		t.Errorf("%s: %v", dir, err)
	}
}

func TestVersionAndHelp(t *testing.T) {
	if code, stdout, _ := try(t, neverRun(t), nil, "version"); code != 0 || !strings.HasPrefix(stdout, "millrace unknown (go") {
		t.Errorf("code %d, %q", code, stdout)
	}
	if code, stdout, stderr := try(t, neverRun(t), nil, "--help"); code != 0 || stderr != "" || !strings.Contains(stdout, "health") {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
}

func TestSeveralErrorsAreOneLine(t *testing.T) {
	code, _, stderr := try(t, func(context.Context, broker.Options) error {
		return errors.Join(errors.New("the disk is full"), errors.New("a log stays open"))
	}, nil, "serve")
	if code != 1 || stderr != "millrace: the disk is full; a log stays open\n" {
		t.Errorf("code %d, %q", code, stderr)
	}
}

// Variables stand for flags that are not given.
func TestVariablesOfFlags(t *testing.T) {
	var got broker.Options
	run := func(_ context.Context, o broker.Options) error { got = o; return nil }
	environ := []string{"MILLRACE_LOG_LEVEL=error", "MILLRACE_LOG_REQUESTS=api=Fetch", "MILLRACE_HTTP_ADDRESS=127.0.0.1:0"}
	if code, _, stderr := try(t, run, environ, "serve"); code != 0 || got.LogRequests == nil || got.Monitoring.Address != "127.0.0.1:0" || got.Level.String() != "error" {
		t.Errorf("code %d, %+v, %s", code, got, stderr)
	}
	if code, _, _ := try(t, run, environ, "serve", "--log-level", "debug"); code != 0 || got.Level.String() != "debug" {
		t.Errorf("a flag goes over its variable: code %d, level %s", code, got.Level)
	}
}

// A mistake is told by the name of what was set: the variable, or the flag where that goes over it.
func TestMistakesNameWhatWasSet(t *testing.T) {
	for _, c := range []struct {
		variable string
		args     []string
		want     string
	}{
		{"MILLRACE_LOG_LEVEL=loud", nil, "MILLRACE_LOG_LEVEL=loud: expected debug, info, warn or error"},
		{"MILLRACE_LOG_LEVEL=debug", []string{"--log-level", "loud"}, "--log-level loud: expected debug, info, warn or error"},
		{"MILLRACE_HTTP_ADDRESS=foo", nil, "MILLRACE_HTTP_ADDRESS: foo: the port is to be a number below 65536"},
		{"MILLRACE_HTTP_ADDRESS=1", []string{"--http-address", "foo"}, "--http-address: foo: the port is to be a number below 65536"},
		{"MILLRACE_LOG_REQUESTS=foo=bar", nil, "MILLRACE_LOG_REQUESTS: "},
		{"MILLRACE_LOG_REQUESTS=all", []string{"--log-requests", "foo=bar"}, "--log-requests: "},
		{"MILLRACE_TOPICS=a", nil, `MILLRACE_TOPICS a: "a": expected name:partitions`},
	} {
		for _, command := range []string{"serve", "dev"} {
			code, stdout, stderr := try(t, neverRun(t), []string{c.variable}, append([]string{command}, c.args...)...)
			if code != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "millrace: "+c.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%s %s %v: code %d, %q", c.variable, command, c.args, code, stderr)
			}
		}
	}
	// That nothing comes of what is asked for is told by the same names.
	_, _, stderr := try(t, func(context.Context, broker.Options) error { return nil }, []string{"MILLRACE_LOG_REQUESTS=all", "MILLRACE_LOG_LEVEL=warn"}, "serve")
	if want := "MILLRACE_LOG_REQUESTS: the lines are of level info, which MILLRACE_LOG_LEVEL=warn leaves out"; !strings.Contains(stderr, want) {
		t.Errorf("%q", stderr)
	}
}
