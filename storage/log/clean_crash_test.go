package log

import (
	"errors"
	"strings"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disktest"
)

// TestCleanCrashAtEveryOperation takes the power away at each operation of a cleaning in turn, in several ways, and looks
// at what the next start makes of what is left; a cleaning after that comes to its end.
func TestCleanCrashAtEveryOperation(t *testing.T) {
	kinds := waysToEnd
	if testing.Short() {
		kinds = kinds[:3]
	}
	crashes, counts := 0, map[string]int{}
	for seed := range *soak {
		for _, kind := range kinds {
			for at := 1; ; at++ {
				stopped, err := crashCleaning(seed, kind, at, counts)
				if err != nil {
					t.Fatalf("seed %d, kind %d, stopped at operation %d: %v", seed, kind, at, err)
				}
				if !stopped {
					break
				}
				crashes++
			}
		}
	}
	if crashes < 30*len(kinds) {
		t.Errorf("only %d crashes: the cleanings do too little", crashes)
	}
	// Each state of an exchange is among what is left.
	busy(t, counts, map[string]int{
		"crash while cleaning": crashes * 9 / 10, "left .cleaned": crashes / 4, "left .swap": crashes / 20, "left .deleted": crashes / 20,
		"left .cleaned and .swap": crashes / 50, "left .deleted and .swap": crashes / 50,
	})
}

// waysToEnd are kinds of crashes: the process is killed; the power goes and nothing stays that was not synced; any part of it
// does.
var waysToEnd = []uint64{0, 1, 2, 5, 8}

// TestCleanCrashAtEveryOperationNotices plants faults and wants such crashes to show each.
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
			for seed := range uint64(20) {
				for _, kind := range waysToEnd {
					for at := 1; ; at++ {
						stopped, err := crashCleaning(seed, kind, at, map[string]int{})
						if err != nil {
							t.Logf("noticed with seed %d, kind %d, operation %d: %v", seed, kind, at, err)
							return
						}
						if !stopped {
							break
						}
					}
				}
			}
			t.Fatal("nobody noticed")
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
	w.log.Abandon()
	w.crash(kind)
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
