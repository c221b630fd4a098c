package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"millrace/bench/ledger"
	"millrace/bench/peer"
)

// profile runs the figure in which Millrace stands worst, beside Kafka or else
// beside the floor, once more against a Millrace that serves profiles, and keeps
// where its processor time goes and what it has allocated.
func (r *run) profile(chosen []figure, rows []ledger.Row, dir string) error {
	loads := slices.DeleteFunc(slices.Clone(rows), func(row ledger.Row) bool {
		return !slices.ContainsFunc(chosen, func(f figure) bool { return f.profiled && f.name == row.Figure })
	})
	beside := peer.Kafka
	worst, ok := ledger.Slowest(loads, beside)
	if !ok {
		beside = peer.Floor
		if worst, ok = ledger.Slowest(loads, beside); !ok {
			return nil
		}
	}
	f := chosen[slices.IndexFunc(chosen, func(f figure) bool { return f.name == worst.Figure })]
	say("the slowest beside %s is %s (%.3g): profiled", beside, worst.Key(), worst.Ratios[beside].Median)
	p, err := peer.StartProfiled(r.work)
	if err != nil {
		return err
	}
	defer p.Stop()
	p.Name = "profiled"                    // its topics are its own
	if _, err := f.run(r, p); err != nil { // makes and fills what is read
		return fmt.Errorf("profile %s: %w", f.name, err)
	}
	s := *r
	const length = 5 * time.Second
	s.window = length + s.ramp
	failed := make(chan error, 1)
	go func() {
		_, err := f.run(&s, p)
		failed <- err
	}()
	time.Sleep(r.ramp)
	base := filepath.Join(dir, "slowest."+strings.ReplaceAll(f.name, "/", "-"))
	for _, kind := range []struct{ path, name string }{{fmt.Sprintf("profile?seconds=%d", int(length.Seconds())), ".cpu.pprof"}, {"allocs", ".allocs.pprof"}} {
		if err := download("http://"+p.HTTP+"/debug/pprof/"+kind.path, base+kind.name); err != nil {
			return fmt.Errorf("profile %s: %w", f.name, err)
		}
	}
	return <-failed
}

func download(url, file string) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, resp.Body); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
