package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
)

// A consumer that waits must not hold up another one or the other steps, and its own steps keep their order.
func TestServeRunsConsumersSideBySide(t *testing.T) {
	gate := make(chan struct{})
	var order []string // of consumer A alone
	steps := map[string]Func{
		"consume": func(r Request) (any, error) {
			if r.Consumer == "A" {
				<-gate
				order = append(order, "consume")
			}
			return map[string]any{"count": r.Count}, nil
		},
		"commit":       func(r Request) (any, error) { order = append(order, "commit"); return nil, nil },
		"open":         func(r Request) (any, error) { close(gate); return nil, nil },
		"lag":          func(r Request) (any, error) { return nil, Unsupported("no call") },
		"delete-topic": func(r Request) (any, error) { return nil, errors.New("no such topic") },
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Serve(inR, outW, Hello{Client: "c", Version: "1"}, steps)
		outW.Close()
	}()
	lines := bufio.NewScanner(outR)
	next := func() map[string]any {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("output ended: %v", lines.Err())
		}
		var m map[string]any
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	if h := next()["hello"].(map[string]any); h["client"] != "c" || h["version"] != "1" {
		t.Fatalf("hello %v", h)
	}
	ask := func(text string) { fmt.Fprintln(inW, text) }
	ask(`{"id":1,"step":"consume","consumer":"A","count":5}`)
	ask(`{"id":2,"step":"commit","consumer":"A"}`)
	ask(`{"id":3,"step":"consume","consumer":"B","count":7}`)
	if m := next(); m["id"] != 3.0 || m["ok"] != true || m["count"] != 7.0 {
		t.Fatalf("B was not answered beside the waiting A: %v", m)
	}
	ask(`{"id":4,"step":"lag"}`)
	if m := next(); m["id"] != 4.0 || m["unsupported"] != "no call" {
		t.Fatalf("lag: %v", m)
	}
	ask(`{"id":5,"step":"delete-topic"}`)
	if m := next(); m["id"] != 5.0 || m["ok"] != false || m["error"] != "no such topic" {
		t.Fatalf("delete-topic: %v", m)
	}
	ask(`{"id":6,"step":"open","consumer":"C"}`)
	got := map[any]bool{next()["id"]: true, next()["id"]: true, next()["id"]: true}
	for _, id := range []float64{1, 2, 6} {
		if !got[id] {
			t.Errorf("no answer to %v in %v", id, got)
		}
	}
	inW.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(order) != 2 || order[0] != "consume" {
		t.Errorf("A's steps ran as %v", order)
	}
}
