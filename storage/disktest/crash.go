package disktest

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// StopAt takes the power away at the n-th changing operation from now on, which is not done any more; 0: never.
func (f *FS) StopAt(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopAt = 0
	if n > 0 {
		f.stopAt = f.ops + n
	}
}

// Stopped says whether the power is gone.
func (f *FS) Stopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

// FailAt makes the n-th changing operation from now on fail, once; half of what a write brings is then written.
func (f *FS) FailAt(n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failAt, f.failure = 0, err
	if n > 0 {
		f.failAt = f.ops + n
	}
}

// Refuse asks, before each operation (also those that change nothing), for an error to answer it with; nil: none.
func (f *FS) Refuse(why func(op, name string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = why
}

// Deaf makes operations that it names succeed without being done: "sync", "syncdir", "truncate".
func (f *FS) Deaf(to func(op, name string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deaf = to
}

// Slow makes the opening of files take time; nil: none does.
func (f *FS) Slow(by func(name string) time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow = by
}

// Hold calls a function before each opening, reading, writing and syncing of a file, and before each renaming, removal and
// syncing of a directory: with nothing of the disk held, so that it may block, as a disk that hangs does. Nil: it calls
// none.
func (f *FS) Hold(by func(op, name string)) {
	if by == nil {
		f.hold.Store(nil)
		return
	}
	f.hold.Store(&by)
}

// HoldSyncs is Hold for the syncing of files whose names end so.
func (f *FS) HoldSyncs(suffix string, by func(name string)) {
	f.Hold(func(op, name string) {
		if op == "sync" && strings.HasSuffix(name, suffix) {
			by(name)
		}
	})
}

func (f *FS) wait(op, name string) {
	if by := f.hold.Load(); by != nil {
		(*by)(op, name)
	}
}

// Trace begins to write down the changing operations.
func (f *FS) Trace() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tracing, f.trace = true, nil
}

// Done returns the operations since Trace, one a line.
func (f *FS) Done() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.trace)
}

// Halt ends the process at this moment: whatever it does until Crash or Kill fails and changes nothing.
func (f *FS) Halt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
}

// Crash makes the disk what it is after the power came back. Of what was not durable nothing is left if chance is nil;
// otherwise chance decides, sector by sector. Files and locks of before are dead.
func (f *FS) Crash(chance *rand.Rand) {
	var o Outcomes
	f.crash(func(n *node) { n.settle(chance, &o) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outcomes.Crashes++
	f.outcomes.Lost += min(o.Lost, 1)
	f.outcomes.Torn += min(o.Torn, 1)
	f.outcomes.Reordered += min(o.Reordered, 1)
	f.outcomes.Names += min(o.Names, 1)
}

// Outcomes counts what crashes of the power have done.
type Outcomes struct {
	Crashes   int
	Lost      int // crashes that lost something that was written to a file
	Torn      int // crashes that left a part of a write
	Reordered int // crashes that lost a write and kept one that came after it
	Names     int // crashes that lost changes of names
}

// Plus is what both have done.
func (o Outcomes) Plus(b Outcomes) Outcomes {
	return Outcomes{o.Crashes + b.Crashes, o.Lost + b.Lost, o.Torn + b.Torn, o.Reordered + b.Reordered, o.Names + b.Names}
}

// Under says which of a test's floors were not reached, so that a world in which crashes do no harm does not pass.
func (o Outcomes) Under(floors Outcomes) (out []string) {
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"crashes", o.Crashes, floors.Crashes}, {"crashes that lost writes", o.Lost, floors.Lost}, {"crashes that tore writes", o.Torn, floors.Torn},
		{"crashes that reordered writes", o.Reordered, floors.Reordered}, {"crashes that lost names", o.Names, floors.Names},
	} {
		if c.got < c.want {
			out = append(out, fmt.Sprintf("%d %s, at least %d are needed", c.got, c.what, c.want))
		}
	}
	return out
}

// Outcomes is what the crashes of the disk have done so far.
func (f *FS) Outcomes() Outcomes {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.outcomes
}

// Kill makes the disk what it is after the process died and the machine did not: everything is still there, and files
// and locks of before are dead.
func (f *FS) Kill() { f.crash(func(*node) {}) }

func (f *FS) crash(settle func(*node)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	settle(f.root)
	f.generation++
	f.locks = map[string]bool{}
	f.stopped, f.stopAt, f.failAt = false, 0, 0
}

// settle decides what of a node survives.
func (n *node) settle(chance *rand.Rand, o *Outcomes) {
	if !n.dir {
		lost := false
		for _, w := range n.writes {
			if chance == nil || chance.IntN(3) == 0 {
				o.Lost++
				lost = true
				continue
			}
			if n.synced.tear(w, chance) {
				o.Torn++
			}
			if lost {
				o.Reordered++
			}
		}
		n.now, n.writes = n.synced.clone(), nil
		return
	}
	kept := 0
	if chance != nil && len(n.changes) > 0 {
		kept = chance.IntN(len(n.changes) + 1)
	}
	for _, c := range n.changes[:kept] {
		apply(n.durable, c)
	}
	o.Names += len(n.changes) - kept
	n.names, n.changes = maps.Clone(n.durable), nil
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		n.names[name].settle(chance, o)
	}
}

// begin counts a changing operation and says whether it is to be done; half: a write is done half and then fails.
func (f *FS) begin(op, name, detail string) (half bool, err error) {
	if f.stopped {
		return false, ErrStopped
	}
	if f.refuse != nil {
		if err := f.refuse(op, name); err != nil {
			return false, &fs.PathError{Op: op, Path: name, Err: err}
		}
	}
	f.ops++
	if f.ops == f.stopAt {
		f.stopped = true
		return false, ErrStopped
	}
	if f.tracing {
		f.trace = append(f.trace, strings.TrimRight(op+" "+name+" "+detail, " "))
	}
	if f.ops == f.failAt {
		f.failAt = 0
		return true, &fs.PathError{Op: op, Path: name, Err: f.failure}
	}
	return false, nil
}

// look checks an operation that changes nothing.
func (f *FS) look(op, name string) error {
	if f.stopped {
		return ErrStopped
	}
	switch op {
	case "open":
		f.counts.Opens++
	case "read":
		f.counts.Reads++
	case "stat", "readdir":
		f.counts.Looks++
	}
	if f.refuse != nil {
		if err := f.refuse(op, name); err != nil {
			return &fs.PathError{Op: op, Path: name, Err: err}
		}
	}
	return nil
}
