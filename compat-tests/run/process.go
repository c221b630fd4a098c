package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"millrace/compat-tests/agent"
)

// Flavour is one variation of how a client's members join a group.
type Flavour struct {
	Strategy string `json:"strategy,omitempty"`
	Protocol string `json:"protocol,omitempty"`
}

func (f Flavour) String() string {
	s := f.Strategy
	if s == "" {
		s = "range"
	}
	if f.Protocol == "consumer" {
		return "consumer/" + s
	}
	return s
}

// Client is one entry of a clients/<name>/agents.json.
type Client struct {
	Name       string    `json:"name"`
	Command    []string  `json:"command"`
	Input      string    `json:"input"`       // go-sources or events
	Records    int       `json:"records"`     // 0: the run's number
	Flavours   []Flavour `json:"flavours"`    // beside the default
	GroupFirst bool      `json:"group_first"` // the group forms before the records are sent
	Flaky      string    `json:"flaky"`       // a fault of the client's own that spoils some runs; it is given up to three
	Folder     string    `json:"-"`
}

// Clients reads every agents.json below compat-tests/clients.
func Clients(root string) ([]Client, error) {
	files, err := filepath.Glob(filepath.Join(root, "compat-tests", "clients", "*", "agents.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var all []Client
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var some []Client
		if err := json.Unmarshal(text, &some); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		for _, c := range some {
			if c.Name == "" || len(c.Command) == 0 || (c.Input != "go-sources" && c.Input != "events") {
				return nil, fmt.Errorf("%s: client %q needs a name, a command, and go-sources or events as input", f, c.Name)
			}
			c.Folder = filepath.Base(filepath.Dir(f))
			all = append(all, c)
		}
	}
	return all, nil
}

// Answer is one answer of an agent: the union of all steps' results.
type Answer struct {
	ID          int64              `json:"id"`
	OK          bool               `json:"ok"`
	Error       string             `json:"error"`
	Unsupported string             `json:"unsupported"`
	Hello       *agent.Hello       `json:"hello"`
	Count       int                `json:"count"`
	Offsets     map[int32]int64    `json:"offsets"`
	Assignment  []int32            `json:"assignment"`
	Partitions  []PartitionAnswer  `json:"partitions"`
	Configs     map[string]*string `json:"configs"`
	State       string             `json:"state"`
	Members     int                `json:"members"`
	Lag         map[int32]int64    `json:"lag"`
}

// PartitionAnswer is one partition of a describe-topic answer.
type PartitionAnswer struct {
	ID       int32   `json:"id"`
	Leader   int32   `json:"leader"`
	Replicas []int32 `json:"replicas"`
	ISR      []int32 `json:"isr"`
}

// Agent is one running agent process.
type Agent struct {
	Hello agent.Hello

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	exited chan struct{}
	logs   *os.File

	mu      sync.Mutex
	nextID  int64
	waiting map[int64]chan Answer
	failed  error // set once no answer will come any more
}

// StartAgent starts a client's agent in the repository's root and reads its hello. Its standard error goes to a file in
// dir.
func StartAgent(root, dir string, c Client, bootstrap string) (*Agent, error) {
	work := filepath.Join(dir, "agent")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, err
	}
	logs, err := os.Create(filepath.Join(dir, "agent.log"))
	if err != nil {
		return nil, err
	}
	args := append(slices.Clone(c.Command[1:]), "--bootstrap", bootstrap, "--dir", work)
	program := c.Command[0]
	if filepath.Base(program) != program && !filepath.IsAbs(program) {
		program = filepath.Join(root, program)
	}
	a := &Agent{cmd: exec.Command(program, args...), exited: make(chan struct{}), logs: logs, waiting: make(map[int64]chan Answer)}
	a.cmd.Dir = root
	a.cmd.Stderr = logs
	if a.stdin, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := a.cmd.Start(); err != nil {
		logs.Close()
		return nil, fmt.Errorf("the agent of %s does not start (is it installed? compat-tests/install.sh %s): %w", c.Name, c.Folder, err)
	}
	hello := make(chan agent.Hello, 1)
	go a.read(stdout, hello)
	select {
	case a.Hello = <-hello:
		return a, nil
	case <-a.exited:
		return nil, fmt.Errorf("the agent of %s: %w\n%s", c.Name, a.failed, a.Log())
	case <-time.After(60 * time.Second):
		a.kill()
		return nil, fmt.Errorf("the agent of %s said no hello within 60 s\n%s", c.Name, a.Log())
	}
}

func (a *Agent) read(stdout io.Reader, hello chan<- agent.Hello) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 16<<20)
	var err error
	for first := true; lines.Scan(); first = false {
		var ans Answer
		if err = json.Unmarshal(lines.Bytes(), &ans); err != nil {
			err = fmt.Errorf("line on standard output that is no answer: %q: %w", lines.Text(), err)
			break
		}
		if first {
			if ans.Hello == nil {
				err = fmt.Errorf("the first line is no hello: %q", lines.Text())
				break
			}
			hello <- *ans.Hello
			continue
		}
		a.mu.Lock()
		ch := a.waiting[ans.ID]
		delete(a.waiting, ans.ID)
		a.mu.Unlock()
		if ch == nil {
			err = fmt.Errorf("an answer to no request: %q", lines.Text())
			break
		}
		ch <- ans
	}
	if err == nil {
		err = lines.Err()
	}
	if err != nil {
		a.cmd.Process.Kill()
	}
	waitErr := a.cmd.Wait()
	if err == nil {
		err = waitErr
	}
	if err == nil {
		err = errors.New("it ended with exit code 0")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = fmt.Errorf("the agent is gone: %w", err)
	for id, ch := range a.waiting {
		ch <- Answer{ID: id, Error: a.failed.Error()}
	}
	clear(a.waiting)
	close(a.exited)
}

// UnsupportedError is the error of a step that the client has no call for.
type UnsupportedError string

func (u UnsupportedError) Error() string { return "unsupported: " + string(u) }

// Start sends a request and returns a function that waits for its answer.
func (a *Agent) Start(ctx context.Context, req agent.Request) func() (Answer, error) {
	ch := make(chan Answer, 1)
	a.mu.Lock()
	if a.failed != nil {
		err := a.failed
		a.mu.Unlock()
		return func() (Answer, error) { return Answer{}, err }
	}
	a.nextID++
	req.ID = a.nextID
	a.waiting[req.ID] = ch
	line, err := json.Marshal(req)
	if err == nil {
		_, err = a.stdin.Write(append(line, '\n'))
	}
	a.mu.Unlock()
	if err != nil {
		return func() (Answer, error) { return Answer{}, fmt.Errorf("send %s: %w", req.Step, err) }
	}
	return func() (Answer, error) {
		select {
		case ans := <-ch:
			switch {
			case ans.OK:
				return ans, nil
			case ans.Unsupported != "":
				return ans, UnsupportedError(ans.Unsupported)
			default:
				return ans, fmt.Errorf("%s: %s", req.Step, ans.Error)
			}
		case <-ctx.Done():
			return Answer{}, fmt.Errorf("%s: no answer: %w", req.Step, context.Cause(ctx))
		}
	}
}

// Call sends a request and waits for its answer.
func (a *Agent) Call(ctx context.Context, req agent.Request) (Answer, error) {
	return a.Start(ctx, req)()
}

func (a *Agent) kill() {
	a.cmd.Process.Kill()
	<-a.exited
}

// Close ends the agent by ending its standard input.
func (a *Agent) Close() error {
	defer a.logs.Close()
	a.stdin.Close()
	select {
	case <-a.exited:
		var exit *exec.ExitError
		if errors.As(a.failed, &exit) {
			return a.failed
		}
		return nil
	case <-time.After(15 * time.Second):
		a.kill()
		return errors.New("the agent did not end within 15 s of the end of its input")
	}
}

// Log returns the end of what the agent wrote to standard error.
func (a *Agent) Log() string {
	text, err := os.ReadFile(a.logs.Name())
	if err != nil {
		return err.Error()
	}
	if len(text) > 8<<10 {
		text = text[len(text)-8<<10:]
	}
	return string(text)
}
