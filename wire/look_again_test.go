package wire

import (
	"syscall"
	"testing"
	"time"
)

// A connection looks again before it sleeps only for a peer that sends several requests at a
// time and is quick, one connection at a time, and not once more after it has looked in vain.
func TestLooksAgainForAQuickPeer(t *testing.T) {
	if !manyProcessors {
		t.Skip("one processor: nobody looks again")
	}
	defer func() { sysRead = directRead }()
	const never = 1 << 30
	for _, c := range []struct {
		name           string
		several, quick int
		now, taken     bool // it does not wait; somebody else looks
		comes          int  // the read that finds something
		finds, vain    bool
	}{
		{name: "it is there", several: severalFor, quick: quickEnough, comes: 1, finds: true},
		{name: "one request at a time", quick: quickEnough, comes: 2},
		{name: "not known to be quick", several: severalFor, quick: quickEnough - 1, comes: 2},
		{name: "somebody else looks", several: severalFor, quick: quickEnough, taken: true, comes: 2},
		{name: "only what has come", several: severalFor, quick: quickEnough, now: true, comes: 2},
		{name: "several at a time, and quick", several: severalFor, quick: quickEnough, comes: 2, finds: true},
		{name: "in vain", several: severalFor, quick: quickEnough, comes: never, vain: true},
	} {
		r := &socketReader{now: c.now, looker: looker{several: c.several, quick: c.quick}}
		looking.Store(c.taken)
		reads := 0
		sysRead = func(int, []byte) (int, error) {
			if reads++; reads < c.comes {
				return -1, syscall.EAGAIN
			}
			return 4, nil
		}
		if r.run(0); (r.n == 4) != c.finds || !c.finds && !c.vain && reads != 1 || c.vain && (reads < 2 || r.quick != 0) {
			t.Errorf("%s: %d bytes after %d reads, quick %d", c.name, r.n, reads, r.quick)
		}
		putBuffer(r.buf)
		if looking.Load() != c.taken {
			t.Errorf("%s: who looks is not told right", c.name)
		}
	}
	looking.Store(false)
}

// Who is known as quick, and for how long somebody counts as one who sends several at a time.
func TestWhoIsQuick(t *testing.T) {
	var l looker
	l.parks()
	if l.woken(); l.quick != 0 {
		t.Error("how long a peer of single requests takes is looked at")
	}
	l.cameTogether()
	for i := range quickEnough {
		if l.may() {
			t.Fatalf("quick after %d waits", i)
		}
		l.waited(quickWait)
	}
	if l.waited(quickWait); l.quick != quickEnough {
		t.Errorf("quick %d", l.quick)
	}
	if l.waited(quickWait + time.Nanosecond); l.quick != 0 {
		t.Error("quick after a long wait")
	}
	l.quick = quickEnough
	for range severalFor {
		l.parks()
	}
	if l.may() {
		t.Error("the peer has long sent one request at a time")
	}
}
