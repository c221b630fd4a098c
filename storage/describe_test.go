package storage

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// While the log is opened that an earlier life has left on its way, which may be to recover it, nobody waits who stores
// where the partition's log starts, or cleans that.
func TestNobodyWaitsForALogOnItsWayToBeOpen(t *testing.T) {
	h := newHouse(t, "/a", "/b")
	h.add(h.log("t", 1, 0), 10)
	h.fill()
	h.fs.Kill()
	h.open()
	l := h.log("t", 1, 0)
	l.SetHighWatermark(5)
	h.ok(l.SetLogStart(3))
	var once sync.Once
	h.fs.Hold(func(op, name string) {
		if op != "open" || !strings.Contains(name, futureSuffix+"/") {
			return
		}
		once.Do(func() {
			done := make(chan struct{})
			go func() {
				defer close(done)
				if err := h.s.StoreLogStarts([]Name{{Topic: "t", Partition: 0}}); err != nil {
					t.Error(err)
				}
				if d := h.s.directoryOf(partitionKey{topic: "t", partition: 0}, l); d == nil || d.path != "/a" {
					t.Errorf("the log is in %v", d)
				}
			}()
			select {
			case <-done:
			case <-time.After(5 * time.Second):
				t.Error("they wait")
			}
		})
	})
	f, err := h.s.ResumeMove("t", [16]byte{1}, 0)
	h.ok(err)
	h.fs.Hold(nil)
	h.end(f, 10)
	if o := h.s.dirs[0].stored(logStarts, partitionKey{topic: "t", partition: 0}); o != 3 {
		t.Errorf("the log start that is stored is %d", o)
	}
}

// While a log takes another's place the partition is described as lying somewhere, at every moment.
func TestAPartitionIsDescribedWhileLogsAreExchanged(t *testing.T) {
	h := newHouse(t, "/a", "/b")
	h.add(h.log("t", 1, 0), 10)
	h.fill()
	size := h.log("t", 1, 0).View().Bytes()
	looks := 0
	h.fs.Hold(func(op, name string) {
		if op != "open" {
			return
		}
		looks++
		here := 0
		for _, d := range h.s.Describe(func(Name) bool { return true }) {
			for _, l := range d.Logs {
				if !l.Future {
					here++
				}
				if l.Size != size {
					t.Errorf("at %s: %d bytes in %s, want %d", name, l.Size, d.Path, size)
				}
			}
		}
		if here != 1 {
			t.Errorf("at %s: it lies in %d directories", name, here)
		}
	})
	_, _, err := h.s.FinishMove("t", [16]byte{1}, 0)
	h.ok(err)
	h.fs.Hold(nil)
	if looks <= putBy {
		t.Errorf("%d looks", looks)
	}
	h.ok(h.s.Delete("t", 0))
	for _, d := range h.s.Describe(func(Name) bool { return true }) {
		if len(d.Logs) > 0 {
			t.Errorf("deleted, and described in %s", d.Path)
		}
	}
}

// A log on its way that the start has found, and that is not open yet, is described as what it is, and once.
func TestALogLeftOnItsWayIsDescribed(t *testing.T) {
	for _, clean := range []bool{true, false} {
		h := newHouse(t, "/a", "/b")
		h.add(h.log("t", 1, 0), 10)
		f := h.fill()
		size := f.View().Bytes()
		h.add(h.log("t", 1, 0), 5)
		if clean {
			h.ok(h.s.Close(true))
		} else {
			h.fs.Kill()
		}
		h.open()
		described := func() (out []LogUse) {
			d := h.s.Describe(func(n Name) bool { return n.Topic == "t" })
			if len(h.s.Describe(func(Name) bool { return false })[1].Logs) > 0 {
				t.Error("what is not wanted is described")
			}
			return d[1].Logs
		}
		if got := described(); len(got) != 0 {
			t.Errorf("of a partition that nobody has asked for: %v", got)
		}
		h.log("t", 1, 0)
		lag := int64(15) // after a kill, where it ends is not known
		if clean {
			lag = 5
		}
		want := []LogUse{{Name: Name{Topic: "t"}, Size: size, Lag: lag, Future: true}}
		if got := described(); !slices.Equal(got, want) {
			t.Errorf("clean %v, before it is open: %v, want %v", clean, got, want)
		}
		_, err := h.s.ResumeMove("t", [16]byte{1}, 0)
		h.ok(err)
		want[0].Lag = 5
		if got := described(); !slices.Equal(got, want) {
			t.Errorf("clean %v, open: %v, want %v", clean, got, want)
		}
		h.ok(h.s.CancelMove("t", 0))
		if got := described(); len(got) != 0 {
			t.Errorf("clean %v, given up: %v", clean, got)
		}
	}
}
