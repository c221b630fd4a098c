package log

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// want does a step while descriptors run out, and wants it to be done, or to have failed for that alone and to have done
// nothing.
func (w *world) want(d draw) error {
	name, do := pick(d)
	if strings.HasPrefix(name, "truncate") {
		return w.step(func(n int, what string) int { // see TestTruncationWithoutDescriptors
			return d(n, what)
		})
	}
	if d(3, "close files") == 0 {
		for _, seg := range w.log.segs {
			w.log.files.close(seg.log)
		}
	}
	flushed := w.log.FlushedOffset()
	refused := scarce(w.fs, d(10, "descriptors"), 0)
	var err error
	if name == "close and open" {
		err = w.wantReopen(d)
	} else {
		err = do(w, d)
	}
	w.fs.Refuse(nil)
	if off := w.directory.Offline(); off != nil {
		return differ("%s without a descriptor: %v", name, off)
	}
	if *refused > 0 {
		w.counts[name+" without descriptors"]++
	}
	switch {
	case err == nil:
	case !errors.Is(err, ErrNoDescriptor):
		return fmt.Errorf("%s: %w", name, err)
	case w.log.View().Closed():
		w.counts["unclean"]++
		w.fs.Kill()
		return w.crashed(flushed)
	default:
		w.counts[name+" refused"]++
		w.arrived(w.under.appending, w.log.View().LogEnd())
	}
	w.under = underway{}
	return nil
}

// wantReopen closes the log and opens it again; what does not open is opened once more when there are descriptors.
func (w *world) wantReopen(d draw) error {
	for _, h := range w.held {
		h.s.Release()
	}
	w.held = nil
	if d(2, "close with ease") == 0 {
		w.fs.Refuse(nil)
	}
	if err := w.log.Close(); err != nil {
		return err
	}
	w.point, w.storedStart = w.log.RecoveryPoint(), w.start
	scarce(w.fs, d(10, "descriptors"), 0)
	if _, err := w.open(true); err == nil {
		w.log.Abandon()
	} else if !errors.Is(err, ErrNoDescriptor) {
		return err
	} else {
		w.counts["opening refused"]++
	}
	w.fs.Refuse(nil)
	return w.reopenClean()
}

// wantCrashed recovers from a crash, while descriptors run out at first.
func (w *world) wantCrashed(d draw, seed uint64) error {
	flushed := w.log.FlushedOffset()
	w.crash(seed)
	w.directory = &Directory{}
	scarce(w.fs, d(20, "descriptors"), 0)
	l, _, err := Open(w.options(false))
	w.fs.Refuse(nil)
	switch {
	case err == nil:
		l.Abandon()
	case !errors.Is(err, ErrNoDescriptor):
		return err
	default:
		w.counts["recovery refused"]++
	}
	if off := w.directory.Offline(); off != nil {
		return differ("recovery without a descriptor: %v", off)
	}
	return w.crashed(flushed)
}

func (w *world) liveInWant(seed uint64) error {
	if err := w.begin(); err != nil {
		return err
	}
	d := fromSeed(seed)
	for range 60 {
		var err error
		switch d(20, "crash") {
		case 0:
			err = w.wantCrashed(d, seed)
		default:
			err = w.want(d)
		}
		if err != nil {
			return err
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

// TestWithoutDescriptors has worlds in which at any step no further file can be opened: the step is done or it is not, and
// the directory stays.
func TestWithoutDescriptors(t *testing.T) {
	impatient(t)
	seeds := *soak * 400
	if testing.Short() {
		seeds = 50
	}
	counts := map[string]int{}
	for seed := range seeds {
		w := newWorld()
		if err := w.liveInWant(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		w.sum(counts)
	}
	n := int(seeds)
	busy(t, counts, map[string]int{
		"append refused": n, "append together refused": n / 4, "append as producer refused": n / 4, "append as follower refused": n / 4, "flush refused": n / 4, "flush what was rolled refused": n / 5,
		"roll refused": n / 2, "hold a section refused": n / 20, "opening refused": n / 8, "recovery refused": n / 2, "unclean": n / 20,
	})
}

// TestPlantedFaultsInWant breaks what is done without a descriptor, and wants the worlds to notice.
func TestPlantedFaultsInWant(t *testing.T) {
	impatient(t)
	for name, plant := range map[string]func(){
		"the log goes on before a segment that was not begun": func() { faults.passHalf = true },
		"what could not be synced counts as if it were so":    func() { faults.forgetDirty = true },
	} {
		t.Run(name, func(t *testing.T) {
			plant()
			defer func() { faults = faultSwitches{} }()
			for seed := range uint64(2000) {
				if err := newWorld().liveInWant(seed); err != nil {
					t.Logf("noticed with seed %d: %v", seed, err)
					return
				}
			}
			t.Fatal("nobody noticed")
		})
	}
}
