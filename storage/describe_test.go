package storage

import (
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
	f, err := h.s.BeginMove("t", [16]byte{1}, 0, "/b")
	h.ok(err)
	h.ok(copyTo(f, h.log("t", 1, 0)))
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
	f, err = h.s.ResumeMove("t", [16]byte{1}, 0)
	h.ok(err)
	h.fs.Hold(nil)
	h.end(f, 10)
	if o := h.s.dirs[0].stored(logStarts, partitionKey{topic: "t", partition: 0}); o != 3 {
		t.Errorf("the log start that is stored is %d", o)
	}
}
