package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/bench/ledger"
	"millrace/bench/peer"
)

// Of the loads that can be profiled it is the one that stands worst beside Kafka,
// and without Kafka beside the floor.
func TestSlowest(t *testing.T) {
	row := func(name string, ratios ...float64) ledger.Row {
		r := ledger.Row{Figure: name, Measure: "CPU s/GB", Ratios: map[string]ledger.Spread{}}
		for i, v := range ratios {
			r.Ratios[[]string{peer.Floor, peer.Kafka}[i]] = ledger.Spread{Median: v, N: 7}
		}
		return r
	}
	chosen := []figure{{name: "a", profiled: true}, {name: "b", profiled: true}, {name: "start"}}
	for _, tc := range []struct {
		rows []ledger.Row
		want string
	}{
		{[]ledger.Row{row("a", 3, 0.5), row("b", 2, 0.6), row("start", 4, 9)}, "b"},
		{[]ledger.Row{row("a", 3), row("b", 2)}, "a"},
		{[]ledger.Row{row("start", 4, 9)}, ""},
	} {
		if got, ok := slowest(chosen, tc.rows); got.name != tc.want || ok != (tc.want != "") {
			t.Errorf("%v: %q", tc.rows, got.name)
		}
	}
}

// A profile is kept of the time under load; one that is empty, and one that is
// refused, are errors.
func TestProfileIsKept(t *testing.T) {
	var loads atomic.Int32
	load := figure{name: "produce/x/c1", profiled: true, run: func(r *run, _ *peer.Peer) ([]measure, error) {
		loads.Add(1)
		time.Sleep(r.window)
		return nil, nil
	}}
	served := http.NewServeMux()
	served.HandleFunc("/debug/pprof/profile", func(w http.ResponseWriter, q *http.Request) {
		if loads.Load() != 2 || q.FormValue("seconds") != "1" {
			t.Errorf("asked for %v after %d loads", q.URL, loads.Load())
		}
		fmt.Fprint(w, "where time goes")
	})
	served.Handle("/debug/pprof/allocs", pprof.Handler("allocs"))
	empty := http.NewServeMux()
	empty.HandleFunc("/debug/pprof/profile", func(http.ResponseWriter, *http.Request) {})
	for _, tc := range []struct {
		name   string
		by     http.Handler
		length time.Duration
		bad    string
	}{{"served", served, time.Second, ""}, {"empty", empty, 0, "nothing"}, {"refused", http.NotFoundHandler(), 0, "404"}} {
		loads.Store(0)
		s := httptest.NewServer(tc.by)
		dir := t.TempDir()
		r := trial(t, 1, peer.Millrace)
		r.ramp = 10 * time.Millisecond
		err := r.profileOf(load, &peer.Peer{HTTP: strings.TrimPrefix(s.URL, "http://")}, dir, tc.length)
		s.Close()
		if tc.bad != "" {
			if err == nil || !strings.Contains(err.Error(), tc.bad) {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		kept, err := filepath.Glob(filepath.Join(dir, "*"))
		want := []string{filepath.Join(dir, "slowest.produce-x-c1.allocs.pprof"), filepath.Join(dir, "slowest.produce-x-c1.cpu.pprof")}
		if err != nil || !slices.Equal(kept, want) {
			t.Errorf("kept %v", kept)
		}
		if b, err := os.ReadFile(want[1]); err != nil || string(b) != "where time goes" {
			t.Errorf("the profile says %q, %v", b, err)
		}
	}
}
