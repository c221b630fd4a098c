// Command bench measures Millrace beside Apache Kafka, franz-go's kfake and the
// least that a server can do, in one run, and holds the ratios against the
// committed ones. docs/benchmarks.md says how, and is written by it.
//
// It is no test of correctness, but what it measures it checks: that what was
// acknowledged is stored, and what is read follows on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"millrace/bench/floor"
	"millrace/bench/ledger"
	"millrace/bench/peer"
	"millrace/compat-tests/launch"
)

func main() {
	s := settings{}
	be := flag.String("floor", "", "be the floor's server, with this directory")
	which := flag.String("figure", "", "a figure's name, an expression that names match, `telling`, or `list`; empty: all")
	others := flag.String("peers", "kafka,kfake", "whom Millrace is measured beside; none: nobody but the floor")
	flag.IntVar(&s.rounds, "rounds", committedRounds, "how often each figure is taken of each subject")
	flag.DurationVar(&s.window, "window", 800*time.Millisecond, "how long a load is measured")
	flag.DurationVar(&s.ramp, "ramp", 250*time.Millisecond, "how long it runs before")
	flag.DurationVar(&s.warm, "warm", time.Minute, "Kafka's load before the first figure")
	flag.IntVar(&s.fill, "fill", 192<<20, "bytes of a topic that is read")
	flag.Int64Var(&s.touch, "touch", 4<<30, "bytes of memory that are written before")
	flag.DurationVar(&s.limit, "limit", 55*time.Minute, "no round begins that would end later than this")
	flag.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "of the order")
	flag.BoolVar(&s.accept, "accept", false, "write to docs, too, what has fallen behind the committed figures or has fewer peers than they have")
	net := flag.String("network", "own", "own: one that this program makes and sets up; system: the one there is; here: the one it was started in is its own")
	dir := flag.String("dir", "", "where the servers' directories are made; empty: the system's for temporary files")
	flag.Parse()
	var err error
	if *be != "" {
		err = floor.Serve(*be, os.Stdin, os.Stdout)
	} else {
		err = within(*net, *which, *others, func() error { return bench(s, *which, *others, *dir) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// within runs the benchmark in the network that it is to have. What has to be
// fetched first is: a network of its own leads nowhere.
func within(net, which, others string, run func() error) error {
	switch net {
	case "here":
		if err := setUpNetwork(); err != nil {
			return err
		}
	case "own":
		if which == "list" || which == "page" {
			break
		}
		if _, err := choose(figures(), which); err != nil {
			return err
		}
		names, err := chosenPeers(others)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err := peer.Fetch(ctx, names); err != nil {
			return err
		}
		done, why, err := inOwnNetwork(ctx)
		if done || err != nil {
			return err
		}
		say("measured over the system's own loopback: %s", why)
	case "system":
	default:
		return fmt.Errorf("-network: %q is none of own, system and here", net)
	}
	return run()
}

// choose finds the figures that are named.
func choose(all []figure, which string) ([]figure, error) {
	if which == "" {
		return all, nil
	}
	pattern, err := regexp.Compile(which)
	if err != nil {
		return nil, fmt.Errorf("FIGURE: %w", err)
	}
	exact := slices.ContainsFunc(all, func(f figure) bool { return f.name == which })
	chosen := slices.DeleteFunc(slices.Clone(all), func(f figure) bool {
		switch {
		case which == "telling":
			return !f.telling
		case exact:
			return f.name != which
		}
		return !pattern.MatchString(f.name)
	})
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no figure is called %q, nor matches it; FIGURE=list names them", which)
	}
	return chosen, nil
}

func chosenPeers(list string) ([]string, error) {
	out := []string{peer.Millrace}
	if list == "none" {
		return out, nil
	}
	for _, word := range strings.Split(list, ",") {
		switch name := strings.TrimSpace(word); strings.ToLower(name) {
		case "kafka":
			out = append(out, peer.Kafka)
		case "kfake":
			out = append(out, peer.Kfake)
		case "", "millrace":
		default:
			return nil, fmt.Errorf("PEERS: no peer is called %q; there are kafka and kfake", name)
		}
	}
	return out, nil
}

func bench(s settings, which, others, dir string) (err error) {
	if which == "list" {
		for _, f := range figures() {
			fmt.Println(f.name)
		}
		return nil
	}
	if which == "page" {
		return page()
	}
	chosen, err := choose(figures(), which)
	if err != nil {
		return err
	}
	if s.peers, err = chosenPeers(others); err != nil {
		return err
	}
	if s.rounds < 1 {
		return errors.New("ROUNDS: at least one")
	}
	root, err := launch.Root()
	if err != nil {
		return err
	}
	commit, err := commitOf(root)
	if err != nil {
		return err
	}
	committed, err := committedBook(root)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	work, err := os.MkdirTemp(dir, "millrace-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	kept := filepath.Join(root, ".cache", "bench", time.Now().Format("20060102-150405"))
	if err := os.MkdirAll(kept, 0o755); err != nil {
		return err
	}
	r, err := start(ctx, s, work)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	rows, behind := r.take(chosen, committed.Rows, commit)
	if err := ctx.Err(); err != nil {
		return errors.New("interrupted: nothing is written")
	}
	if err := r.profile(chosen, rows, kept); err != nil {
		r.fail("%v", err)
	}
	book := ledger.Book{Machine: machine(work), Method: s.String(), Rows: rows}
	if err := write(kept, book); err != nil {
		return err
	}
	told, err := s.publish(filepath.Join(root, "docs"), committed, book, chosen, which == "" || which == "telling")
	if err != nil {
		return err
	}
	os.Stdout.Write(book.Tables(rows))
	for _, line := range told {
		say("%s", line)
	}
	say("%v; kept in %s", time.Since(r.begun).Round(time.Second), kept)
	return verdict(r.failed, behind)
}

// verdict is the error that a run ends with, if any.
func verdict(failed []string, behind []ledger.Behind) error {
	var errs []error
	for _, f := range failed {
		errs = append(errs, errors.New(f))
	}
	for _, b := range behind {
		errs = append(errs, fmt.Errorf("behind: %v", b))
	}
	return errors.Join(errs...)
}

func (s settings) String() string {
	return fmt.Sprintf("each load measured for %v after %v, beside %s", s.window, s.ramp, strings.Join(append(slices.Clone(s.peers[1:]), "the floor"), ", "))
}

// take measures figures, and what falls behind a second time. What falls behind
// twice is behind; the second rows stand in the place of the first.
func (r *run) take(chosen []figure, committed []ledger.Row, commit string) ([]ledger.Row, []ledger.Behind) {
	rows := ledger.Rows(r.measure(chosen), commit)
	behind := ledger.Fallen(committed, rows)
	if len(behind) == 0 || r.ctx.Err() != nil {
		return rows, behind
	}
	names := map[string]bool{}
	for _, b := range behind {
		say("measured again: %v", b)
		names[b.Row.Figure] = true
	}
	r.limit = max(r.limit, time.Since(r.begun)) + 5*time.Minute
	second := ledger.Rows(r.measure(slices.DeleteFunc(slices.Clone(chosen), func(f figure) bool { return !names[f.name] })), commit)
	return ledger.Merge(rows, second), ledger.Twice(behind, ledger.Fallen(committed, second), second)
}

// commitOf names the commit that is measured, and whether it is all.
func commitOf(root string) (string, error) {
	out, err := exec.Command("git", "-C", root, "describe", "--always", "--dirty", "--exclude", "*").Output()
	if err != nil {
		return "", fmt.Errorf("ask git for the commit: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
