// Package launch gives the black-box tests a broker to speak to: one that runs already (MILLRACE_TEST_BOOTSTRAP), or the
// built binary started on a directory of the test's own.
//
// It relies on nothing but the command line: `millrace serve --override key=value` prints exactly one line on standard
// output when it is ready, stops with exit code 0 on SIGTERM, and goes on with the same directory when started again.
package launch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	readyTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second
)

// Broker is one running process.
type Broker struct {
	Bootstrap string // the address it announced, or the one that was given
	ClusterID string
	cmd       *exec.Cmd
	out       *tail
	ready     chan string // the first line of standard output; closed when there is none
	exited    chan struct{}
	waitErr   error // valid when exited is closed
	once      sync.Once
}

// Options say how to start the binary.
type Options struct {
	Binary    string   // "" finds bin/millrace
	Dir       string   // log.dirs
	Listen    string   // HOST:PORT; "" means 127.0.0.1:0
	Overrides []string // more key=value
	Args      []string // more arguments of serve
	Env       []string // NAME=value over the test's own environment
	Log       io.Writer
}

// ForTest returns a broker for a test, stopped at the test's end, and what the tests run against, in words.
func ForTest(t testing.TB) (bootstrap, name string) {
	t.Helper()
	if addr := os.Getenv("MILLRACE_TEST_BOOTSTRAP"); addr != "" {
		name = os.Getenv("MILLRACE_TEST_BROKER")
		if name == "" {
			name = "the broker at " + addr
		}
		return addr, name
	}
	b, err := Start(Options{Dir: filepath.Join(t.TempDir(), "data")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stopping the broker: %v", err)
		}
	})
	return b.Bootstrap, "Millrace"
}

// Binary returns the path of the built binary: MILLRACE_BIN, or bin/millrace at the repository's root.
func Binary() (string, error) {
	if path := os.Getenv("MILLRACE_BIN"); path != "" {
		return path, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "millrace")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("there is no built binary (make build, or name one in MILLRACE_BIN, or a running broker in MILLRACE_TEST_BOOTSTRAP): %w", err)
	}
	return path, nil
}

// Root returns the repository's root: the nearest folder upwards with a go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no go.mod above %s", dir)
		}
	}
}

// Start starts the binary and waits until it says that it is ready.
func Start(o Options) (*Broker, error) {
	b, err := Begin(o)
	if err != nil {
		return nil, err
	}
	return b, b.WaitReady(readyTimeout)
}

// Begin starts the binary and does not wait.
func Begin(o Options) (*Broker, error) {
	if o.Binary == "" {
		var err error
		if o.Binary, err = Binary(); err != nil {
			return nil, err
		}
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	args := []string{"serve", "--override", "listeners=PLAINTEXT://" + o.Listen, "--override", "log.dirs=" + o.Dir}
	for _, kv := range o.Overrides {
		args = append(args, "--override", kv)
	}
	args = append(args, o.Args...)
	b := &Broker{cmd: exec.Command(o.Binary, args...), out: &tail{also: o.Log}, exited: make(chan struct{}), ready: make(chan string, 1)}
	b.cmd.Stderr = b.out
	b.cmd.Env = append(os.Environ(), o.Env...)
	stdout, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := b.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Binary, err)
	}
	go func() {
		lines := bufio.NewScanner(stdout)
		for n := 0; lines.Scan(); n++ {
			if n == 0 {
				b.ready <- lines.Text()
				continue
			}
			fmt.Fprintf(b.out, "unexpected line on standard output: %s\n", lines.Text())
		}
		close(b.ready)
		b.waitErr = b.cmd.Wait()
		close(b.exited)
	}()
	return b, nil
}

// WaitReady waits for the ready line of a broker that Begin started. If it does not come, the process is ended.
func (b *Broker) WaitReady(limit time.Duration) error {
	select {
	case line, ok := <-b.ready:
		if !ok {
			<-b.exited
			return fmt.Errorf("the broker ended before it was ready: %w\n%s", b.exitError(), b.out)
		}
		if err := b.parse(line); err != nil {
			b.Kill()
			return err
		}
		return nil
	case <-time.After(limit):
		b.Kill()
		return fmt.Errorf("the broker was not ready after %v\n%s", limit, b.out)
	}
}

// parse reads `millrace ready bootstrap.servers=HOST:PORT[,...] node.id=N cluster.id=X`.
func (b *Broker) parse(line string) error {
	rest, ok := strings.CutPrefix(line, "millrace ready ")
	if !ok {
		return fmt.Errorf("the broker's first line on standard output is %q, not its ready line", line)
	}
	fields := make(map[string]string)
	for _, f := range strings.Fields(rest) {
		k, v, _ := strings.Cut(f, "=")
		fields[k] = v
	}
	b.Bootstrap, _, _ = strings.Cut(fields["bootstrap.servers"], ",")
	b.ClusterID = fields["cluster.id"]
	if b.Bootstrap == "" || fields["node.id"] == "" || b.ClusterID == "" {
		return fmt.Errorf("the ready line %q lacks bootstrap.servers, node.id or cluster.id", line)
	}
	return nil
}

func (b *Broker) exitError() error {
	if b.waitErr == nil {
		return errors.New("exit code 0")
	}
	return b.waitErr
}

// Stop sends SIGTERM and wants exit code 0.
func (b *Broker) Stop() error {
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		<-b.exited
		return fmt.Errorf("the broker had ended by itself: %w\n%s", b.exitError(), b.out)
	}
	select {
	case <-b.exited:
		if b.waitErr != nil {
			return fmt.Errorf("after SIGTERM: %w\n%s", b.waitErr, b.out)
		}
		return nil
	case <-time.After(stopTimeout):
		b.Kill()
		return fmt.Errorf("still running %v after SIGTERM\n%s", stopTimeout, b.out)
	}
}

// Kill ends the process at once, as kill -9 does, and waits until it is gone.
func (b *Broker) Kill() {
	b.once.Do(func() { b.cmd.Process.Kill() })
	<-b.exited
}

// Pid is the process's id.
func (b *Broker) Pid() int { return b.cmd.Process.Pid }

// Exited is closed when the process has ended for whatever reason.
func (b *Broker) Exited() <-chan struct{} { return b.exited }

// Log returns the end of what the process has written to standard error.
func (b *Broker) Log() string { return b.out.String() }

// FreeAddress returns a loopback address that nothing listened on a moment ago, for a broker that has to come back on
// the same port. It is below those that the system gives to whoever asks for any.
func FreeAddress() (string, error) {
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))); err == nil {
			defer l.Close()
			return l.Addr().String(), nil
		}
	}
	return "", fmt.Errorf("finding a free port: %w", err)
}

// tail keeps the last 64 KiB written to it.
type tail struct {
	mu   sync.Mutex
	buf  []byte
	also io.Writer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.also != nil {
		t.also.Write(p)
	}
	t.buf = append(t.buf, p...)
	if len(t.buf) > 1<<17 {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-1<<16:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
