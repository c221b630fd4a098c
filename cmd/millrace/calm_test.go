package main

import (
	"sync"
	"testing"
)

var burst [][]byte

// What a burst took goes back when the process has come to rest, also what lies in
// pools, and not before; then nothing is looked for until there was work again, and
// for a while not even then where it brought nothing.
func TestCalm(t *testing.T) {
	c := newCalm()
	c.giveBack()
	before := c.held
	c.pause = 0
	var pool sync.Pool
	work := func() {
		burst = nil
		for range 64 {
			b := make([]byte, 1<<20)
			burst = append(burst, b)
			pool.Put(&b)
		}
	}
	work()
	if c.look() {
		t.Error("a process that allocates is taken for one at rest")
	}
	burst = nil
	if !c.look() {
		t.Fatal("64 MiB of garbage are no reason to look for some")
	}
	c.giveBack()
	if c.held > before+calmHeap {
		t.Errorf("%d bytes are held after it, and %d before", c.held, before)
	}
	if c.pause != 0 || c.look() {
		t.Error("nothing has happened, and it is looked again")
	}

	work() // what is in use now
	if c.look() || !c.look() {
		t.Error("work is not followed by a look")
	}
	if c.giveBack(); c.pause != calmPause {
		t.Errorf("nothing was garbage, and %d looks are left out", c.pause)
	}
	inUse := burst
	work()
	looks := 1
	for c.look(); !c.look() && looks <= calmPause; looks++ {
	}
	if looks != calmPause-1 {
		t.Errorf("looked after %d", looks)
	}
	if burst = nil; len(inUse) != 64 {
		t.Error("it was not in use")
	}
}
