package tools

import (
	"bufio"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"millrace/compat-tests/kafka"
	"millrace/compat-tests/launch"
)

//go:embed java
var sources embed.FS

// compile compiles the Java side into .cache/compat/tools, once for each content
// of it, and returns the class path with Kafka's jars.
func compile(ctx context.Context) (string, error) {
	jars, err := kafka.Install(ctx, kafka.Newest)
	if err != nil {
		return "", err
	}
	root, err := launch.Root()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	var files []string
	err = fs.WalkDir(sources, "java", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := sources.ReadFile(path)
		sum.Write(b)
		files = append(files, filepath.Join(root, "compat-tests", "tools", path))
		return err
	})
	if err != nil {
		return "", err
	}
	home := filepath.Join(root, ".cache", "compat", "tools")
	classes := filepath.Join(home, hex.EncodeToString(sum.Sum(nil))[:16])
	if _, err := os.Stat(classes); err == nil {
		return classes + ":" + jars, nil
	}
	if _, err := exec.LookPath("javac"); err != nil {
		return "", errors.New("running Kafka's tools needs javac (a JDK 17 or newer), which is not installed")
	}
	if err := os.RemoveAll(home); err != nil {
		return "", err
	}
	args := append([]string{"--release", "17", "-Xlint:all,-processing,-path", "-Werror", "-d", classes + ".new", "-cp", jars}, files...)
	if out, err := exec.CommandContext(ctx, "javac", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling what runs Kafka's tools: %w\n%s", err, out)
	}
	return classes + ":" + jars, os.Rename(classes+".new", classes)
}

// Result is what a command left behind.
type Result struct {
	Exit    int    `json:"exit"` // -1 while it runs
	Out     string `json:"out"`
	Err     string `json:"err"`
	Stopped bool   `json:"stopped"` // it was stopped at its limit or on demand
	Hung    bool   `json:"hung"`    // and did not end even then
}

// Runner is the virtual machine that runs the tools, any number at a time.
type Runner struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	mu      sync.Mutex // of what follows, and of writing to in
	next    int64
	waiting map[int64]chan Result
	dead    error
}

// StartRunner compiles and starts it. What no command printed goes to log.
func StartRunner(ctx context.Context, log io.Writer) (*Runner, error) {
	cp, err := compile(ctx)
	if err != nil {
		return nil, err
	}
	r := &Runner{waiting: make(map[int64]chan Result)}
	r.cmd = exec.Command("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-Duser.language=en", "-Duser.country=US", "-Duser.timezone=UTC",
		"--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp", cp, "millrace.tools.Runner")
	r.cmd.Stderr = log
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start what runs Kafka's tools: %w", err)
	}
	go r.read(out)
	return r, nil
}

func (r *Runner) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var a struct {
			ID int64 `json:"id"`
			Result
		}
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			break
		}
		r.mu.Lock()
		c := r.waiting[a.ID]
		delete(r.waiting, a.ID)
		r.mu.Unlock()
		if c != nil {
			c <- a.Result
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = fmt.Errorf("what runs Kafka's tools has ended (%v)", lines.Err())
	for id, c := range r.waiting {
		close(c)
		delete(r.waiting, id)
	}
}

// ask sends a request; the channel gives its answer and is closed without one
// when the machine has ended.
func (r *Runner) ask(request map[string]any) (int64, <-chan Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead != nil {
		return 0, nil, r.dead
	}
	r.next++
	id, c := r.next, make(chan Result, 1)
	request["id"] = id
	line, err := json.Marshal(request)
	if err != nil {
		return 0, nil, err
	}
	r.waiting[id] = c
	_, err = r.in.Write(append(line, '\n'))
	return id, c, err
}

// Begin starts a command. After limit it is stopped, as SIGTERM does.
func (r *Runner) Begin(class string, args []string, stdin string, limit time.Duration) (int64, <-chan Result, error) {
	return r.ask(map[string]any{"run": class, "args": args, "stdin": stdin, "limit": limit.Milliseconds()})
}

// Do runs a command to its end.
func (r *Runner) Do(class string, args []string, stdin string, limit time.Duration) (Result, error) {
	_, c, err := r.Begin(class, args, stdin, limit)
	if err != nil {
		return Result{}, err
	}
	return receive(c)
}

// Peek tells what a running command has printed so far.
func (r *Runner) Peek(id int64) (Result, error) {
	_, c, err := r.ask(map[string]any{"peek": id})
	if err != nil {
		return Result{}, err
	}
	return receive(c)
}

// Stop does to a running command what SIGTERM does to a process.
func (r *Runner) Stop(id int64) error {
	_, c, err := r.ask(map[string]any{"stop": id})
	if err != nil {
		return err
	}
	_, err = receive(c)
	return err
}

func receive(c <-chan Result) (Result, error) {
	res, ok := <-c
	if !ok {
		return Result{}, errors.New("what runs Kafka's tools has ended")
	}
	return res, nil
}

// Close ends the machine.
func (r *Runner) Close() {
	r.in.Close()
	r.cmd.Wait()
}
