// Package agent is the side of the agent protocol (PROTOCOL.md) that every agent written in Go shares: the flags, the
// hello line, reading requests, the order in which they are carried out, and writing answers.
//
// It knows no Kafka client: an agent hands it one function per step. It promises that the steps of one consumer run in
// the order they came, that different consumers run at the same time, that all other steps run one after another beside
// them, and that each request gets exactly one answer.
package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
)

// Hello is the first line an agent writes.
type Hello struct {
	Client           string   `json:"client"`
	Version          string   `json:"version"`
	Cannot           []string `json:"cannot,omitempty"`
	Codecs           []string `json:"codecs,omitempty"`
	NoCommitOnRevoke string   `json:"no_commit_on_revoke,omitempty"`
	Note             string   `json:"note,omitempty"`
}

// Request is one request of the driver: the union of all steps' fields.
type Request struct {
	ID         int64             `json:"id"`
	Step       string            `json:"step"`
	Topic      string            `json:"topic,omitempty"`
	Partitions int32             `json:"partitions,omitempty"`
	Configs    map[string]string `json:"configs,omitempty"`
	File       string            `json:"file,omitempty"`
	Codec      string            `json:"codec,omitempty"`
	Idempotent bool              `json:"idempotent,omitempty"`
	Acks       string            `json:"acks,omitempty"`
	Consumer   string            `json:"consumer,omitempty"`
	Group      string            `json:"group,omitempty"`
	Instance   string            `json:"instance,omitempty"`
	Strategy   string            `json:"strategy,omitempty"`
	Protocol   string            `json:"protocol,omitempty"`
	Count      int               `json:"count"`
	Out        string            `json:"out,omitempty"`
	TimeoutMS  int64             `json:"timeout_ms,omitempty"`
	Timestamp  int64             `json:"timestamp,omitempty"`
}

// Unsupported is the error of a step that the client has no call for; its text says why.
type Unsupported string

func (u Unsupported) Error() string { return string(u) }

// Func carries out one step. Its result is marshalled into the answer's fields and must be a JSON object or nil.
type Func func(Request) (any, error)

// Flags reads the two flags every agent has.
func Flags() (bootstrap, dir string) {
	flag.StringVar(&bootstrap, "bootstrap", "", "address of a broker")
	flag.StringVar(&dir, "dir", "", "a directory of the agent's own")
	flag.Parse()
	if bootstrap == "" || dir == "" {
		fmt.Fprintln(os.Stderr, "an agent is started with --bootstrap HOST:PORT --dir WORKDIR")
		os.Exit(2)
	}
	return bootstrap, dir
}

// Serve answers requests from in until it ends and all steps in progress are answered.
func Serve(in io.Reader, out io.Writer, hello Hello, steps map[string]Func) error {
	var mu sync.Mutex
	write := func(v any) error {
		line, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("marshal an answer: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		_, err = out.Write(append(line, '\n'))
		return err
	}
	if err := write(map[string]any{"hello": hello}); err != nil {
		return err
	}
	var wg sync.WaitGroup
	queues := make(map[string]chan Request) // by consumer name; "" is everything else
	defer func() {
		for _, q := range queues {
			close(q)
		}
		wg.Wait()
	}()
	r := bufio.NewReaderSize(in, 1<<16)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			var req Request
			if err := json.Unmarshal(line, &req); err != nil {
				return fmt.Errorf("request %q: %w", line, err)
			}
			q := queues[req.Consumer]
			if q == nil {
				q = make(chan Request, 64)
				queues[req.Consumer] = q
				wg.Go(func() {
					for req := range q {
						if err := write(Answer(req, steps)); err != nil {
							fmt.Fprintln(os.Stderr, "write an answer:", err)
						}
					}
				})
			}
			q <- req
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
	}
}

// Answer carries out one request and gives the answer's fields.
func Answer(req Request, steps map[string]Func) map[string]any {
	answer := map[string]any{"id": req.ID}
	f := steps[req.Step]
	if f == nil {
		answer["unsupported"] = "the agent has no step " + req.Step
		return answer
	}
	result, err := f(req)
	var unsupported Unsupported
	switch {
	case errors.As(err, &unsupported):
		answer["unsupported"] = string(unsupported)
		return answer
	case err != nil:
		answer["ok"], answer["error"] = false, err.Error()
		return answer
	}
	if result != nil {
		text, err := json.Marshal(result)
		if err == nil {
			err = json.Unmarshal(text, &answer)
		}
		if err != nil {
			answer["ok"], answer["error"] = false, "result: "+err.Error()
			return answer
		}
	}
	answer["id"], answer["ok"] = req.ID, true
	return answer
}
