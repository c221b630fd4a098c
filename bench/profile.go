package main

import (
	"errors"
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

// slowest is the figure in which Millrace stands worst, beside Kafka or else
// beside the floor, of those that are a steady load.
func slowest(chosen []figure, rows []ledger.Row) (f figure, ok bool) {
	loads := slices.DeleteFunc(slices.Clone(rows), func(row ledger.Row) bool {
		return !slices.ContainsFunc(chosen, func(f figure) bool { return f.profiled && f.name == row.Figure })
	})
	for _, beside := range []string{peer.Kafka, peer.Floor} {
		if worst, ok := ledger.Slowest(loads, beside); ok {
			say("the slowest beside %s is %s (%.3g): profiled", beside, worst.Key(), worst.Ratios[beside].Median)
			return chosen[slices.IndexFunc(chosen, func(f figure) bool { return f.name == worst.Figure })], true
		}
	}
	return figure{}, false
}

// profile runs the slowest figure once more against a Millrace that serves
// profiles, and keeps them.
func (r *run) profile(chosen []figure, rows []ledger.Row, dir string) error {
	f, ok := slowest(chosen, rows)
	if !ok {
		return nil
	}
	p, err := peer.StartProfiled(r.work)
	if err != nil {
		return err
	}
	defer p.Stop()
	p.Name = "profiled" // its topics are its own
	if err := r.profileOf(f, p, dir, 5*time.Second); err != nil {
		return fmt.Errorf("profile %s: %w", f.name, err)
	}
	return nil
}

// profileOf keeps where a server's processor time goes under a figure's load, in
// whole seconds, and what it has allocated.
func (r *run) profileOf(f figure, p *peer.Peer, dir string, length time.Duration) error {
	if _, err := f.run(r, p); err != nil { // makes and fills what is read
		return err
	}
	s := *r
	s.window = length + s.ramp
	failed := make(chan error, 1)
	go func() {
		_, err := f.run(&s, p)
		failed <- err
	}()
	time.Sleep(r.ramp)
	base := filepath.Join(dir, "slowest."+strings.ReplaceAll(f.name, "/", "-"))
	from := "http://" + p.HTTP + "/debug/pprof/"
	err := download(fmt.Sprintf("%sprofile?seconds=%d", from, int(length.Seconds())), base+".cpu.pprof")
	if err == nil {
		err = download(from+"allocs", base+".allocs.pprof")
	}
	return errors.Join(err, <-failed)
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
	n, err := io.Copy(f, resp.Body)
	if err == nil && n == 0 {
		err = fmt.Errorf("%s: nothing", url)
	}
	return errors.Join(err, f.Close())
}
