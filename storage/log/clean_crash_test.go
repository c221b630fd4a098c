package log

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disktest"
)

// cleanCrashSeeds is how many lives there are before such a cleaning.
const cleanCrashSeeds = 5

// TestCleanCrashAtEveryOperation takes the power away at each operation of a cleaning in turn, and looks at what the next
// start makes of what is left; a cleaning after that comes to its end.
func TestCleanCrashAtEveryOperation(t *testing.T) {
	seeds := *soak * cleanCrashSeeds
	if testing.Short() {
		seeds = 1
	}
	counts := map[string]int{}
	crashes, err := crashCleanings(seeds, counts)
	if err != nil {
		t.Fatal(err)
	}
	if n := 5 + int(seeds); crashes < 30*n {
		t.Errorf("only %d crashes: the cleanings do too little", crashes)
	}
	// Each state of an exchange is among what is left.
	busy(t, counts, map[string]int{
		"crash while cleaning": crashes * 9 / 10, "left .cleaned": crashes / 4, "left .swap": crashes / 20, "left .deleted": crashes / 20,
		"left .cleaned and .swap": crashes / 50, "left .deleted and .swap": crashes / 50,
		"crashes that lost writes": crashes / 4, "crashes that tore writes": crashes / 40, "crashes that reordered writes": crashes / 40, "crashes that lost names": crashes / 8,
	})
}

// crashCleanings crashes the cleanings of so many lives, each at all of its operations, and says how often it did. In the
// first life each of them ends in every way there is, in the others in one of them.
func crashCleanings(seeds uint64, counts map[string]int) (crashes int, err error) {
	for seed := range seeds {
		more := true
		for at := 1; more; at++ {
			ways := waysToEnd
			if seed > 0 {
				i := (int(seed) + at) % len(waysToEnd)
				ways = waysToEnd[i : i+1]
			}
			for _, kind := range ways {
				if more, err = crashCleaning(seed, kind, at, counts); err != nil {
					return crashes, fmt.Errorf("seed %d, kind %d, stopped at operation %d: %w", seed, kind, at, err)
				}
				if !more {
					break
				}
				crashes++
			}
		}
	}
	return crashes, nil
}

// waysToEnd are kinds of crashes: the process is killed; the power goes and nothing stays that was not synced; any part of it
// does.
var waysToEnd = []uint64{0, 1, 2, 5, 8}

// TestCleanCrashAtEveryOperationNotices plants faults and wants those crashes to show each.
func TestCleanCrashAtEveryOperationNotices(t *testing.T) {
	for name, plant := range map[string]func(){
		"the directory is not synced after the exchange":             func() { faults.skipSwapSync = true },
		"the new segment is not synced":                              func() { faults.skipCleanSync = true },
		"the old segments go before the new one has its name":        func() { faults.oldFirst = true },
		"a start completes a replacement that is not there as whole": func() { faults.mixSwaps = true },
	} {
		t.Run(name, func(t *testing.T) {
			plant()
			defer func() { faults = faultSwitches{} }()
			crashes, err := crashCleanings(cleanCrashSeeds, map[string]int{})
			if err == nil {
				t.Fatalf("nobody noticed in %d crashes", crashes)
			}
			t.Logf("noticed after %d crashes: %v", crashes, err)
		})
	}
}

// crashCleaning lives for a while, then takes the power away at an operation of a cleaning. It says whether it came to that.
func crashCleaning(seed, kind uint64, at int, counts map[string]int) (bool, error) {
	d := fromSeed(seed)
	w := newCleanWorld(d)
	if err := w.opening(false); err != nil {
		return false, err
	}
	for range 60 {
		if err := w.step(d); err != nil {
			return false, err
		}
	}
	for id := range 3 {
		if _, ok := w.open[batch.ProducerID(10+id)]; ok {
			if err := w.end1(batch.ProducerID(10+id), batch.ControlType(d(2, "commit"))); err != nil {
				return false, err
			}
		}
	}
	w.log.SetHighWatermark(w.end)
	w.hw, w.under = w.end, underway{}
	if err := w.roll(d); err != nil {
		return false, err
	}
	if err := w.log.RemoveDeleted(time.UnixMilli(w.clock + w.config.FileDeleteDelayMs)); err != nil {
		return false, err
	}
	flushed := w.log.FlushedOffset()
	w.fs.StopAt(at)
	err := w.cleanNow(d)
	if !w.fs.Stopped() {
		return false, err // or there was nothing to clean
	}
	if err != nil && !errors.Is(err, disktest.ErrStopped) {
		return true, err
	}
	if w.cleaning {
		counts["crash while cleaning"]++
	}
	flushed = max(flushed, w.log.FlushedOffset())
	if at%2 == 0 {
		w.checkpointBeside()
	}
	w.log.Abandon()
	w.crash(kind)
	defer outcomes(w.fs, counts)
	left, err := w.unfinished()
	if err != nil {
		return true, err
	}
	for _, a := range left {
		counts["left "+a]++
		for _, b := range left {
			if a < b {
				counts["left "+a+" and "+b]++
			}
		}
	}
	if err := w.crashed(flushed); err != nil {
		return true, err
	}
	if left, err = w.unfinished(); err != nil {
		return true, err
	}
	// A log that begins above where it ends is emptied by a start, so that there may be files to be deleted.
	for _, suffix := range left {
		if suffix != suffixDeleted {
			return true, differ("after the next start there are still files with %s", suffix)
		}
	}
	if err := w.check(d); err != nil {
		return true, err
	}
	w.log.SetHighWatermark(w.end)
	w.hw = w.end
	if err := w.cleanNow(d); err != nil {
		return true, err
	}
	return true, w.check(d)
}

// unfinished lists the suffixes of what a cleaning that was interrupted has left.
func (w *cleanWorld) unfinished() ([]string, error) {
	names, err := w.fs.ReadDir(worldDir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, suffix := range []string{suffixCleaned, suffixSwap, suffixDeleted} {
		for _, n := range names {
			if strings.HasSuffix(n.Name, suffix) {
				out = append(out, suffix)
				break
			}
		}
	}
	return out, nil
}
