package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"millrace/broker"
)

// stubborn makes this test binary a program whose broker does not stop when it
// is told to.
const stubborn = "MILLRACE_TEST_STUBBORN"

func TestMain(m *testing.M) {
	if os.Getenv(stubborn) != "" {
		p := &program{stdout: os.Stdout, stderr: os.Stderr, run: func(ctx context.Context, o broker.Options) error {
			o.Ready(broker.Info{})
			<-ctx.Done()
			fmt.Fprintln(os.Stdout, "stopping")
			time.Sleep(time.Minute)
			return nil
		}}
		os.Exit(p.main(signals(), []string{"serve"}))
	}
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// built is the directory of the binary, once a test needed it.
var built string

var build = sync.OnceValues(func() (string, error) {
	var err error
	if built, err = os.MkdirTemp("", "millrace-binary-"); err != nil {
		return "", err
	}
	path := filepath.Join(built, "millrace")
	out, err := exec.Command("go", "build", "-ldflags", "-X main.version=test-version", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
})

// process is a running binary.
type process struct {
	*exec.Cmd
	stdout *bufio.Reader
	stderr *strings.Builder
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return launch(t, exec.Command(path, args...))
}

func launch(t *testing.T, c *exec.Cmd) *process {
	t.Helper()
	p := &process{Cmd: c, stderr: &strings.Builder{}}
	c.Stderr = p.stderr
	r, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(r)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.ProcessState == nil {
			c.Process.Kill()
			c.Wait()
		}
	})
	return p
}

// line gives the next line of standard output.
func (p *process) line(t *testing.T) string {
	t.Helper()
	type result struct {
		line string
		err  error
	}
	c := make(chan result, 1)
	go func() {
		line, err := p.stdout.ReadString('\n')
		c <- result{line, err}
	}()
	select {
	case r := <-c:
		if r.err != nil {
			p.Wait()
			t.Fatalf("no line: %v; stderr: %s", r.err, p.stderr)
		}
		return r.line
	case <-time.After(30 * time.Second):
		t.Fatalf("no line in time")
	}
	return ""
}

// end waits for the process and gives its exit code and what it still wrote.
func (p *process) end(t *testing.T) (int, string) {
	t.Helper()
	timer := time.AfterFunc(30*time.Second, func() { p.Process.Kill() })
	defer timer.Stop()
	rest, err := io.ReadAll(p.stdout)
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	return p.ProcessState.ExitCode(), string(rest)
}

var readyLine = regexp.MustCompile(`^millrace ready bootstrap\.servers=(127\.0\.0\.1:[0-9]+) node\.id=7 cluster\.id=([0-9A-Za-z_-]{22})\n$`)

func (p *process) ready(t *testing.T) (address, cluster string) {
	t.Helper()
	line := p.line(t)
	m := readyLine.FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("%q is not the line that tells a broker is ready; stderr: %s", line, p.stderr)
	}
	return m[1], m[2]
}

func serveArgs(dir, listener string, more ...string) []string {
	return append([]string{"serve", "--override", "node.id=7", "--override", "log.dirs=" + dir, "--override", "listeners=PLAINTEXT://" + listener}, more...)
}

func TestServeStopAndServeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	clusters := map[string]bool{}
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		p := start(t, serveArgs(dir, "127.0.0.1:0")...)
		address, cluster := p.ready(t)
		clusters[cluster] = true
		h := start(t, "health", "--bootstrap", address)
		if code, out := h.end(t); code != 0 || out != address+" is ready\n" {
			t.Errorf("health: code %d, %q, %s", code, out, h.stderr)
		}
		if err := p.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if code, rest := p.end(t); code != 0 || rest != "" {
			t.Errorf("%v: code %d, more on stdout %q, stderr %s", s, code, rest, p.stderr)
		}
		h = start(t, "health", "--bootstrap", address)
		if code, _ := h.end(t); code != exitFailed || !strings.Contains(h.stderr.String(), address+" is not ready") {
			t.Errorf("health of a stopped broker: code %d, %s", code, h.stderr)
		}
	}
	if len(clusters) != 1 {
		t.Errorf("the cluster changed its id: %v", clusters)
	}
}

func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := start(t, serveArgs(t.TempDir(), l.Addr().String())...)
	if code, out := p.end(t); code != exitFailed || out != "" || !strings.Contains(p.stderr.String(), "address already in use (listeners is set in --override)") {
		t.Errorf("code %d, stdout %q, stderr %s", code, out, p.stderr)
	}
}

func TestDirectoryInUseAndIdentity(t *testing.T) {
	dir := t.TempDir()
	p := start(t, serveArgs(dir, "127.0.0.1:0")...)
	p.ready(t)
	second := start(t, serveArgs(dir, "127.0.0.1:0")...)
	if code, out := second.end(t); code != exitFailed || out != "" || !strings.Contains(second.stderr.String(), dir) {
		t.Errorf("code %d, stdout %q, stderr %s", code, out, second.stderr)
	}
	p.Process.Signal(syscall.SIGTERM)
	p.end(t)
	other := start(t, serveArgs(dir, "127.0.0.1:0", "--override", "node.id=8")...)
	if code, out := other.end(t); code != exitFailed || out != "" || !strings.Contains(other.stderr.String(), "7") {
		t.Errorf("another node's directory: code %d, stdout %q, stderr %s", code, out, other.stderr)
	}
}

// TestDamagedMetadata: metadata with a bit that is not as it was written is a
// refused start, in one line, and nothing on disk is any different.
func TestDamagedMetadata(t *testing.T) {
	dir := t.TempDir()
	args := serveArgs(dir, "127.0.0.1:0", "--topics", "orders:2", "--log-level", "error")
	p := start(t, args...)
	p.ready(t)
	p.Process.Signal(syscall.SIGTERM)
	if code, _ := p.end(t); code != 0 {
		t.Fatalf("code %d, stderr %s", code, p.stderr)
	}
	path := filepath.Join(dir, "__cluster_metadata-0", "raft.db")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string][]byte{
		"a topic's name":   bytes.ReplaceAll(good, []byte("orders"), []byte("oreers")), // d and e differ in one bit
		"two pages remain": good[:2*os.Getpagesize()],
		"nothing remains":  nil,
	} {
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		before := tree(t, dir)
		p := start(t, args...)
		code, out := p.end(t)
		if said := p.stderr.String(); code != exitFailed || out != "" || strings.Count(said, "\n") != 1 || !strings.Contains(said, path+" is damaged: ") {
			t.Errorf("%s: code %d, stdout %q, stderr %s", what, code, out, said)
		}
		if after := tree(t, dir); !maps.Equal(before, after) {
			t.Errorf("%s: on disk there was\n%q\nand is\n%q", what, slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
		}
	}
	if err := os.WriteFile(path, good, 0o644); err != nil {
		t.Fatal(err)
	}
	p = start(t, args...)
	p.ready(t)
	p.Process.Signal(syscall.SIGTERM)
	p.end(t)
}

// tree is all that is in a directory, with what is in it.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			all[path] = ""
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestBadConfigurationOfTheBinary(t *testing.T) {
	p := start(t, "serve", "--override", "listeners=SSL://127.0.0.1:0")
	if code, out := p.end(t); code != exitUsage || out != "" || strings.Count(p.stderr.String(), "\n") != 1 {
		t.Errorf("code %d, stdout %q, stderr %s", code, out, p.stderr)
	}
}

func TestDevOfTheBinary(t *testing.T) {
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	c := exec.Command(path, "dev", "--override", "node.id=7", "--override", "listeners=PLAINTEXT://127.0.0.1:0")
	c.Env = append(os.Environ(), "TMPDIR="+temp)
	p := launch(t, c)
	p.ready(t)
	if made, err := os.ReadDir(temp); err != nil || len(made) != 1 {
		t.Errorf("data lies in %v, %v", made, err)
	}
	// What make, npm and timeout do to a terminal's Ctrl-C: it comes twice.
	p.Process.Signal(os.Interrupt)
	p.Process.Signal(syscall.SIGTERM)
	if code, _ := p.end(t); code != 0 {
		t.Errorf("code %d, stderr %s", code, p.stderr)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestSecondSignalStopsAtOnce(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), stubborn+"=1")
	p := launch(t, c)
	p.line(t)
	p.Process.Signal(syscall.SIGTERM)
	if got := p.line(t); got != "stopping\n" {
		t.Fatalf("after the first signal: %q", got)
	}
	begun := time.Now()
	go func() {
		for p.Process.Signal(syscall.SIGTERM) == nil { // the first of them may count as the one before
			time.Sleep(oneStop / 4)
		}
	}()
	if code, _ := p.end(t); code != exitFailed || time.Since(begun) > 20*time.Second {
		t.Errorf("code %d after %v", code, time.Since(begun))
	}
}

func TestVersionOfTheBinary(t *testing.T) {
	p := start(t, "version")
	if code, out := p.end(t); code != 0 || !strings.HasPrefix(out, "millrace test-version (go") {
		t.Errorf("code %d, %q", code, out)
	}
}
