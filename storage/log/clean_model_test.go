package log

import (
	"testing"

	"pgregory.net/rapid"
)

// TestCleanAgainstModel does random things to a compacted log, with crashes at any operation, and compares it with the
// model after each.
func TestCleanAgainstModel(t *testing.T) {
	counts, runs := map[string]int{}, 0
	rapid.Check(t, func(t *rapid.T) {
		d := func(n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) }
		w := newCleanWorld(d)
		if err := w.opening(false); err != nil {
			t.Fatal(err)
		}
		if err := w.live(d, rapid.IntRange(1, 60).Draw(t, "steps"), uint64(d(1000, "kind"))); err != nil {
			t.Fatal(err)
		}
		w.sum(counts)
		runs++
	})
	if testing.Short() {
		return // a fifth of the runs: what is rare may be missing by chance
	}
	busy(t, counts, map[string]int{
		"crashes": runs * 4 / 5, "crashes that lost writes": runs / 3, "crashes that tore writes": runs / 12, "crashes that reordered writes": runs / 10,
		"crashes that lost names": runs / 3, "cleaning": runs / 8, "swaps": runs / 8, "roll": runs / 8, "checked": 6 * runs,
	})
}

// cleanSeeds is how many fixed seeds there are, for those who look for faults, too.
const cleanSeeds = 400

// cleanLife lives from a seed.
func cleanLife(seed uint64, change func(*cleanWorld)) (*cleanWorld, error) {
	d := fromSeed(seed)
	w := newCleanWorld(d)
	if change != nil {
		change(w)
	}
	if err := w.opening(false); err != nil {
		return w, err
	}
	return w, w.live(d, 80, seed)
}

// TestCleanSeeds is TestCleanAgainstModel from fixed seeds, with floors on what happened in them.
func TestCleanSeeds(t *testing.T) {
	seeds := *soak * cleanSeeds
	if testing.Short() {
		seeds = 100
	}
	counts := map[string]int{}
	for seed := range seeds {
		w, err := cleanLife(seed, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		w.sum(counts)
	}
	n := int(seeds)
	busy(t, counts, map[string]int{
		"crashes": 5 * n, "crashes that lost writes": 4 * n, "crashes that tore writes": n * 3 / 4, "crashes that reordered writes": n,
		"crashes that lost names": 2 * n, "crash while cleaning": n / 4, "cleaning": 4 * n, "cleaned in part": n / 4, "swaps": 6 * n,
		"roll": 4 * n, "truncate": n / 2, "truncate fully": n / 5, "checked": 100 * n,
		"segments removed: below the log start": n / 25, "segments removed: too much": n / 40,
	})
	for _, s := range cleanSteps {
		if counts[s.name] == 0 {
			t.Errorf("step %q never happened", s.name)
		}
	}
}

// TestCleanPlantedFaults breaks cleaning one way at a time and wants the worlds that TestCleanSeeds plays to notice each.
func TestCleanPlantedFaults(t *testing.T) {
	for _, f := range []struct {
		name  string
		from  uint64 // the first seed that is tried: one that notices, so that the test is short
		plant func()
		world func(*cleanWorld)
	}{
		{name: "the directory is not synced after the exchange", plant: func() { faults.skipSwapSync = true }},
		{name: "the new segment is not synced", plant: func() { faults.skipCleanSync = true }},
		{name: "the old segments go before the new one has its name", from: 201, plant: func() { faults.oldFirst = true }},
		{name: "a start completes half a replacement", from: 207, plant: func() { faults.mixSwaps = true }},
		{name: "a truncation leaves the offset of the cleaner", from: 189, plant: func() { faults.keepCleaned = true }},
		{name: "the last batch of a producer goes", plant: func() { faults.forgetLast = true }},
		{name: "tombstones and markers go early", plant: func() { faults.noHorizon = true }},
		{name: "the index of aborted transactions is lost", plant: func() { faults.loseTxns = true }},
		{name: "indexes and the recovery point go before the log", plant: func() { faults.indexFirst = true }},
		{name: "no recovery point is stored before", world: func(w *cleanWorld) { w.noRaise = true }},
	} {
		t.Run(f.name, func(t *testing.T) {
			if f.plant != nil {
				f.plant()
			}
			defer func() { faults = faultSwitches{} }()
			for i := range uint64(cleanSeeds) {
				seed := (f.from + i) % cleanSeeds
				if _, err := cleanLife(seed, f.world); err != nil {
					t.Logf("noticed with seed %d: %v", seed, err)
					return
				}
			}
			t.Fatal("nobody noticed")
		})
	}
}
