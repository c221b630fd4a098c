package log

import (
	"strings"
	"testing"
)

// TestPlantedFaults breaks the log, or the disk under it, one way at a time and wants the worlds that TestSeeds plays, or the
// lives that a test of their own does, to notice each.
func TestPlantedFaults(t *testing.T) {
	deaf := func(op string) func(*world) {
		return func(w *world) {
			w.fs.Deaf(func(o, name string) bool { return o == op && !strings.HasSuffix(name, "index") })
		}
	}
	for _, f := range []struct {
		name  string
		plant func()
		disk  func(*world)
		life  func(*world, uint64) error // nil: random ones
		seeds uint64                     // of it, as many as its own test plays
	}{
		{name: "truncation leaves the tail", plant: func() { faults.keepTail = true }},
		{name: "truncation leaves snapshots", plant: func() { faults.keepSnapshots = true }, life: staleSnapshot, seeds: 1},
		{name: "truncation overwrites what readers have", plant: func() { faults.overwrite = true }},
		{name: "flush does not sync", plant: func() { faults.skipSync = true }},
		{name: "flush does not sync the directory", plant: func() { faults.skipDirSync = true }},
		{name: "flush does not write the epochs", plant: func() { faults.skipEpochs = true }},
		{name: "recovery keeps snapshots newer than the log", plant: func() { faults.keepNewer = true }, life: lostTails, seeds: lostTailsSeeds},
		{name: "recovery trusts the indexes it finds", plant: func() { faults.keepIndexes = true }},
		{name: "recovery point ahead of the log", plant: func() { faults.pointAhead = true }},
		{name: "a recovery point passes indexes that were not synced", plant: func() { faults.pointPasses = true }},
		{name: "what was rolled counts for all when it is flushed", plant: func() { faults.rolledAhead = true }},
		{name: "a roll passes what was gathered", plant: func() { faults.passGathered = true }},
		{name: "recovery trusts checksums", plant: func() { faults.trustCRC = true }},
		{name: "recovery accepts holes", plant: func() { faults.acceptHoles = true }},
		{name: "retention leaves a segment that is to go", plant: func() { faults.keepExpired = true }},
		{name: "retention takes a segment that is to stay", plant: func() { faults.hastyExpiry = true }},
		{name: "disk ignores syncs", disk: deaf("sync")},
		{name: "disk ignores directory syncs", disk: deaf("syncdir")},
		{name: "disk ignores cuts", disk: deaf("truncate")},
	} {
		t.Run(f.name, func(t *testing.T) {
			if f.plant != nil {
				f.plant()
			}
			defer func() { faults = faultSwitches{} }()
			seeds := f.seeds
			if f.life == nil {
				seeds = worldSeeds
			}
			for seed := range seeds {
				w := newWorld()
				if f.disk != nil {
					f.disk(w)
				}
				err := w.begin()
				switch {
				case err != nil:
				case f.life != nil:
					err = f.life(w, seed)
				default:
					err = w.live(fromSeed(seed), 60, seed)
				}
				if err != nil {
					t.Logf("noticed with seed %d: %v", seed, err)
					return
				}
			}
			t.Fatal("nobody noticed")
		})
	}
}

// staleSnapshot is a life in which a snapshot of before a truncation would be taken for one of after it.
func staleSnapshot(w *world, _ uint64) error {
	d := fromSeed(1)
	add := func(n int, f func(*world, draw) error) error {
		for range n {
			if err := f(w, d); err != nil {
				return err
			}
		}
		return nil
	}
	w.config.SegmentBytes = 1 << 20
	w.log.SetConfig(w.config)
	if err := add(6, (*world).appendIdempotent); err != nil {
		return err
	}
	if err := w.reopen(d); err != nil {
		return err
	}
	was := w.end
	if err := w.truncateTo(w.batches[1].base); err != nil {
		return err
	}
	for w.end < was+5 {
		if err := add(1, (*world).append); err != nil {
			return err
		}
	}
	if err := w.truncateTo(was + 1); err != nil {
		return err
	}
	if err := add(6, (*world).appendIdempotent); err != nil {
		return err
	}
	return add(3, (*world).sendAgain)
}

// lostTails is a life in which the power goes among rolls that nobody has flushed, again and again: a snapshot may outlive
// the segment that was to begin with it.
func lostTails(w *world, seed uint64) error {
	d := fromSeed(seed)
	for range 4 {
		for range 3 {
			if err := w.appendIdempotent(d); err != nil {
				return err
			}
			if err := w.roll(d); err != nil {
				return err
			}
		}
		flushed := w.log.FlushedOffset()
		w.crash(3*seed + 2)
		if err := w.crashed(flushed); err != nil {
			return err
		}
		if err := w.reopen(d); err != nil {
			return err
		}
	}
	return w.check()
}

// lostTailsSeeds is how many such lives TestLostTails plays.
const lostTailsSeeds = 20

func TestLostTails(t *testing.T) {
	for seed := range uint64(lostTailsSeeds) {
		w := newWorld()
		if err := w.begin(); err != nil {
			t.Fatal(err)
		}
		if err := lostTails(w, seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func TestStaleSnapshot(t *testing.T) {
	w := newWorld()
	if err := w.begin(); err != nil {
		t.Fatal(err)
	}
	if err := staleSnapshot(w, 0); err != nil {
		t.Fatal(err)
	}
}
