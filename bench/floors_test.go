package main

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"millrace/bench/floor"
	"millrace/bench/ledger"
	"millrace/bench/peer"
)

// The echo is taken by the short run, of the floor alone, and comes to a row.
func TestEchoIsTelling(t *testing.T) {
	telling, err := choose(figures(), "telling")
	if err != nil {
		t.Fatal(err)
	}
	echo, err := choose(telling, "floor/echo")
	if err != nil {
		t.Fatal(err)
	}
	r := trial(t, 1, peer.Millrace)
	r.peers[peer.Floor].Addr = floorServer(t)
	r.window = 20 * time.Millisecond
	rows := ledger.Rows(r.measure(echo), "c")
	if len(rows) != 3 || len(r.failed) > 0 {
		t.Fatalf("%v, failed %v", rows, r.failed)
	}
	for _, row := range rows {
		if len(row.Subjects) != 1 || row.Subjects[peer.Floor].Median <= 0 {
			t.Errorf("%s: %v", row.Key(), row.Subjects)
		}
	}
}

// trial is a run whose peers are names.
func trial(t *testing.T, rounds int, peers ...string) *run {
	r := &run{settings: settings{rounds: rounds, peers: peers, limit: time.Hour}, ctx: context.Background(), work: t.TempDir(), begun: time.Now(),
		rng: rand.New(rand.NewPCG(1, 0)), peers: map[string]*peer.Peer{}, filled: map[string]filled{}}
	for _, name := range append([]string{peer.Floor}, peers...) {
		r.peers[name] = &peer.Peer{Name: name}
	}
	return r
}

// floorServer serves until the test has ended.
func floorServer(t *testing.T) string {
	in, end := io.Pipe()
	out, said := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- floor.Serve(t.TempDir(), in, said) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	_, addr, _ := strings.Cut(strings.TrimSpace(line), "bootstrap.servers=")
	return addr
}
