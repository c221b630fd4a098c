package wire

import (
	"sync/atomic"
	"time"
)

// A diskGate is the gate of calls that may block on a cold disk: each that does
// takes a thread, and there may be many thousand connections. It knows whether the
// disk was read lately.
type diskGate struct {
	gate
	start   time.Time
	sending atomic.Int32 // parts of files that are not known to be in memory
	last    atomic.Int64 // when the disk was last seen to be read, of clock
}

const (
	gateWidth = 128
	// diskRead is what a read takes that waited for the disk.
	diskRead = time.Millisecond
	// stirTime is how long what was read ahead with a part of a file may still be on
	// its way.
	stirTime = 250 * time.Millisecond
)

func newDiskGate(width int) *diskGate {
	g := &diskGate{gate: make(gate, width), start: time.Now()}
	g.last.Store(int64(-stirTime))
	return g
}

func (g *diskGate) clock() int64 { return int64(time.Since(g.start)) }

// read runs a call that reads what may not be in memory.
func (g *diskGate) read(call func() (int, error)) (int, error) {
	g.enter()
	defer g.leave()
	return g.timed(call)
}

// send runs a call that may have to read the disk.
func (g *diskGate) send(call func() (int, error)) (int, error) {
	g.enter()
	g.sending.Add(1)
	defer func() {
		g.sending.Add(-1)
		g.leave()
	}()
	return g.timed(call)
}

// timed takes note when a call waits for the disk: most that might do not. A page may only be looked at by somebody else
// at the moment, one that is written back for example.
func (g *diskGate) timed(call func() (int, error)) (int, error) {
	begun := g.clock()
	defer func() {
		if now := g.clock(); now-begun >= int64(diskRead) {
			g.last.Store(now)
		}
	}()
	return call()
}

// stirred says whether the disk is being read, or was a moment ago. Pages may then
// be on their way to memory, also such as nobody has asked for yet.
func (g *diskGate) stirred() bool {
	return g.sending.Load() > 0 || g.clock()-g.last.Load() < int64(stirTime)
}
