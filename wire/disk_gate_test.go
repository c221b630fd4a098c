package wire

import (
	"testing"
	"testing/synctest"
	"time"
)

// The disk is stirred while something is sent that may have to be read, and for a
// moment after it, and after a read that took as long as one of the disk.
func TestDiskGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newDiskGate(2)
		check := func(when string, want bool) {
			t.Helper()
			if got := g.stirred(); got != want {
				t.Errorf("%s: stirred: %v", when, got)
			}
		}
		check("at first", false)
		g.send(func() (int, error) {
			time.Sleep(10 * stirTime)
			check("while something is sent", true)
			return 0, nil
		})
		check("after that", true)
		time.Sleep(stirTime)
		check("a moment after that", false)
		read := func(d time.Duration) {
			g.read(func() (int, error) { time.Sleep(d); return 0, nil })
		}
		read(diskRead - 1)
		check("after a quick read", false)
		read(diskRead)
		check("after a slow read", true)
		time.Sleep(stirTime)
		g.send(func() (int, error) { return 0, nil })
		check("after a quick send", false)
		if len(g.gate) != 0 {
			t.Errorf("%d places are taken", len(g.gate))
		}
	})
}
