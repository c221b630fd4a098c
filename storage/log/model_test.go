package log

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"millrace/storage/batch"
	"millrace/storage/disktest"
)

// soak makes the seeded tests go on for longer.
var soak = flag.Uint64("soak", 1, "how many times the seeded tests are as long as usual")

// TestAgainstModel does random things to a log and compares it with the model after each.
func TestAgainstModel(t *testing.T) {
	counts, runs := map[string]int{}, 0
	rapid.Check(t, func(t *rapid.T) {
		d := func(n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) }
		w := newWorld()
		if err := w.begin(); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			if d(20, "crash") == 0 {
				flushed := w.log.FlushedOffset()
				switch d(3, "how") {
				case 0:
					w.fs.Kill()
				case 1:
					w.fs.Crash(nil)
				default:
					w.fs.Crash(rand.New(rand.NewPCG(uint64(d(1<<30, "chance")), 1)))
				}
				w.counts["crash"]++
				if err := w.crashed(flushed); err != nil {
					t.Fatal(err)
				}
			} else if err := w.step(d); err != nil {
				t.Fatal(err)
			}
			if err := w.check(); err != nil {
				t.Fatal(err)
			}
			if err := w.checkReads(d); err != nil {
				t.Fatal(err)
			}
		}
		w.sum(counts)
		runs++
	})
	if testing.Short() {
		return // a fifth of the runs: the rarest step may be missing by chance
	}
	for _, s := range steps {
		if counts[s.name] == 0 {
			t.Errorf("step %q never happened", s.name)
		}
	}
	busy(t, counts, map[string]int{
		"crashes": runs * 4 / 5, "crashes that lost writes": runs / 3, "crashes that tore writes": runs / 12, "crashes that reordered writes": runs / 10,
		"crashes that lost names": runs / 3, "rolls": runs, "truncate": runs / 20, "close and open": runs / 40, "checked": 6 * runs,
	})
}

// worldSeeds is how many fixed seeds there are, for those who look for faults, too.
const worldSeeds = 2000

// TestSeeds is TestAgainstModel from fixed seeds, each with one kind of crash.
func TestSeeds(t *testing.T) {
	seeds := *soak * worldSeeds
	if testing.Short() {
		seeds = 200
	}
	counts := map[string]int{}
	for seed := range seeds {
		w := newWorld()
		if err := w.begin(); err != nil {
			t.Fatal(err)
		}
		if err := w.live(fromSeed(seed), 60, seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		w.sum(counts)
	}
	n := int(seeds)
	busy(t, counts, map[string]int{
		"crashes": n, "crashes that lost writes": n / 2, "crashes that tore writes": n / 8, "crashes that reordered writes": n / 4,
		"crashes that lost names": n / 4, "rolls": 2 * n, "truncate": n, "truncate fully": n / 4, "close and open": n / 2, "checked": 10 * n,
		"segments removed: below the log start": n / 25, "segments removed: too much": n / 5, "segments removed: too old": n / 40,
		"clock set back": n / 8, "records of the far future": n / 8,
	})
}

// busy wants what happened to have happened at least as often.
func busy(t *testing.T, counts, floors map[string]int) {
	t.Helper()
	for _, k := range slices.Sorted(maps.Keys(floors)) {
		if counts[k] < floors[k] {
			t.Errorf("%s: %d, at least %d are needed", k, counts[k], floors[k])
		}
	}
	t.Logf("%v", counts)
}

// live does steps, with a crash now and then, and checks after each. Runs of every other seed read nothing in between:
// a segment of which no reader has bytes is cut in another way.
func (w *world) live(d draw, steps int, seed uint64) error {
	quiet := seed%2 == 1
	for i := range steps {
		if d(20, "crash") == 0 {
			flushed := w.log.FlushedOffset()
			w.crash(seed)
			if err := w.crashed(flushed); err != nil {
				return err
			}
		} else if err := w.step(d); err != nil {
			return err
		}
		if quiet && i < steps-1 {
			if err := w.checkOffsets(); err != nil {
				return err
			}
			continue
		}
		if err := w.check(); err != nil {
			return err
		}
		if err := w.checkReads(d); err != nil {
			return err
		}
	}
	return nil
}

// crash ends the process or the power; the seed says which, and what survives.
func (w *world) crash(seed uint64) {
	w.lives++
	switch seed % 3 {
	case 0:
		if w.lives%3 == 0 {
			w.fs.Crash(rand.New(rand.NewPCG(seed, 5))) // what a process has left that was killed is not durable
			return
		}
		w.fs.Kill()
	case 1:
		w.fs.Crash(nil)
	default:
		w.fs.Crash(rand.New(rand.NewPCG(seed, 4)))
	}
}

// TestCrashAtEveryOperation takes the power away at each operation of a run in turn, in each of three ways.
func TestCrashAtEveryOperation(t *testing.T) {
	runs := *soak * crashRuns
	if testing.Short() {
		runs = 1
	}
	counts := map[string]int{}
	crashes, err := crashEverywhere(runs, counts)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d crashes", crashes)
	if crashes < 100*int(runs) {
		t.Errorf("only %d crashes: the runs do too little", crashes)
	}
	n := int(runs)
	busy(t, counts, map[string]int{"crashes that lost writes": 50 * n, "crashes that tore writes": 10 * n, "crashes that reordered writes": 15 * n, "crashes that lost names": 20 * n, "rolls": 100 * n, "truncate": 10 * n})
}

// crashRuns is how many runs there are, each crashed at all of its operations.
const crashRuns = 3

// crashEverywhere crashes so many runs and says how often it did.
func crashEverywhere(runs uint64, counts map[string]int) (crashes int, err error) {
	for seed := uint64(1); seed <= runs; seed++ {
		for kind := range uint64(3) {
			for at := 1; ; at++ {
				stopped, err := crashAt(seed, seed*3+kind, at, counts)
				if err != nil {
					return crashes, fmt.Errorf("seed %d, kind %d, stopped at operation %d: %w", seed, kind, at, err)
				}
				if !stopped {
					break
				}
				crashes++
			}
		}
	}
	return crashes, nil
}

// TestCrashAtEveryOperationNotices plants faults of the order of writes and syncs, and wants those crashes to show each.
func TestCrashAtEveryOperationNotices(t *testing.T) {
	for name, plant := range map[string]func(){
		"flush does not sync":                              func() { faults.skipSync = true },
		"flush does not sync the directory":                func() { faults.skipDirSync = true },
		"indexes and the recovery point go before the log": func() { faults.indexFirst = true },
		"recovery point ahead of the log":                  func() { faults.pointAhead = true },
	} {
		t.Run(name, func(t *testing.T) {
			plant()
			defer func() { faults = faultSwitches{} }()
			crashes, err := crashEverywhere(crashRuns, map[string]int{})
			if err == nil {
				t.Fatalf("nobody noticed in %d crashes", crashes)
			}
			t.Logf("noticed after %d crashes: %v", crashes, err)
		})
	}
}

// crashAt does the steps of a seed until the power goes at an operation, recovers, checks, and goes on for a while. It
// says whether it came to that.
func crashAt(seed, kind uint64, at int, counts map[string]int) (bool, error) {
	d := fromSeed(seed)
	w := newWorld()
	if err := w.begin(); err != nil {
		return false, err
	}
	w.fs.StopAt(at)
	for range 50 {
		err := w.step(d)
		if w.fs.Stopped() {
			if err != nil && !errors.Is(err, disktest.ErrStopped) {
				return true, err
			}
			flushed := w.log.FlushedOffset()
			if at%2 == 0 {
				w.checkpointBeside()
			}
			w.log.Abandon()
			w.crash(kind)
			if err := w.crashed(flushed); err != nil {
				return true, err
			}
			if err := w.check(); err != nil {
				return true, err
			}
			defer w.sum(counts)
			// What it left has to be good for a second life, and a second crash.
			return true, w.live(fromSeed(seed+uint64(at)), 12, kind)
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// TestFailAtEveryOperation makes each operation of a run fail in turn: the log must say so, take its directory out of use
// and try nothing again; a restart must find everything that was flushed.
func TestFailAtEveryOperation(t *testing.T) {
	bad := errors.New("input/output error")
	failures := 0
	for seed := range *soak * 2 {
		for at := 1; ; at++ {
			d := fromSeed(seed)
			w := newWorld()
			if err := w.begin(); err != nil {
				t.Fatal(err)
			}
			w.fs.FailAt(at, bad)
			var err error
			for i := 0; i < 40 && err == nil; i++ {
				err = w.step(d)
			}
			if err == nil {
				break
			}
			failures++
			if !errors.Is(err, bad) {
				t.Fatalf("seed %d, operation %d: %v", seed, at, err)
			}
			var offline *OfflineError
			if !errors.As(err, &offline) || w.directory.Offline() == nil {
				t.Fatalf("seed %d, operation %d: the directory is still in use after: %v", seed, at, err)
			}
			before := w.fs.Ops()
			p, h := w.build(d, batch.BuilderOptions{})
			for name, try := range map[string]func() error{
				"append":          func() error { _, err := w.log.Append(p, h, 0); return err },
				"append (copied)": func() error { _, err := w.log.AppendAsFollower(p); return err },
				"epoch":           func() error { return w.log.AssignEpoch(w.epoch + 1) },
				"log start":       func() error { return w.log.SetLogStart(w.hw) },
				"truncate":        func() error { return w.log.Truncate(0) },
				"truncate fully":  func() error { return w.log.TruncateFully(0) },
				"roll":            w.log.Roll,
				"flush":           w.log.Flush,
				"retain":          func() error { _, err := w.log.Retain(w.clock.Add(1e15)); return err },
				"remove":          func() error { return w.log.RemoveDeleted(w.clock.Add(1e15)) },
				"close":           w.log.Close,
			} {
				if err := try(); !errors.Is(err, bad) && !errors.Is(err, ErrClosed) && (err != nil || !w.log.closed) {
					t.Fatalf("seed %d, operation %d, %s afterwards: %v", seed, at, name, err)
				}
			}
			if w.fs.Ops() != before {
				t.Fatalf("seed %d, operation %d: the disk is written to after %v", seed, at, err)
			}
			flushed := w.log.FlushedOffset()
			w.log.Abandon()
			w.fs.Kill()
			if err := w.crashed(flushed); err != nil {
				t.Fatalf("seed %d, operation %d, next start: %v", seed, at, err)
			}
			if err := w.check(); err != nil {
				t.Fatalf("seed %d, operation %d, next start: %v", seed, at, err)
			}
		}
	}
	if failures < 100 {
		t.Errorf("only %d failures", failures)
	}
}
