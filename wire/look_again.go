package wire

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// A peer that sends several requests at a time mostly has the next ready before a goroutine
// has gone to sleep for it and was woken, which takes both sides tens of microseconds, much
// of it processor time. With such a peer it is looked again for a moment first. One that
// sends a request at a time waits for its answer, and looking for it would be in vain.
const (
	// lookFor is how long is looked, and lookEach how far apart: each look takes the lock of the
	// socket, which who sends wants.
	lookFor  = 40 * time.Microsecond
	lookEach = 2 * time.Microsecond
	// quickWait is how long a wait is, asleep, of one that looking would have ended, and
	// quickEnough how many such in a row there are before a peer is known as quick.
	quickWait   = 80 * time.Microsecond
	quickEnough = 4
	// severalFor is for how many waits a peer is known as one that sends several at a time.
	severalFor = 8
)

// looking is held by the one who looks: more would take what others need to run.
var looking atomic.Bool

// manyProcessors: with one, whoever sends could not run while it is looked.
var manyProcessors = runtime.GOMAXPROCS(0) > 1

// looker knows whether to look again.
type looker struct {
	parked  time.Time // when it began to wait; zero: that is of no interest
	quick   int       // how many waits in a row were short ones, up to quickEnough
	several int       // for how many waits more the peer counts as one that sends several at a time
}

// cameTogether notes that several requests were there at once.
func (l *looker) cameTogether() { l.several = severalFor }

// parks notes that a wait begins.
func (l *looker) parks() {
	if l.several > 0 {
		l.several--
		l.parked = time.Now()
	}
}

// woken notes that there is something.
func (l *looker) woken() {
	if l.parked.IsZero() {
		return
	}
	l.waited(time.Since(l.parked))
	l.parked = time.Time{}
}

func (l *looker) waited(d time.Duration) {
	if d > quickWait {
		l.quick = 0
	} else if l.quick < quickEnough {
		l.quick++
	}
}

// may says whether it is worth to look again, which is to follow.
func (l *looker) may() bool {
	return l.several > 0 && l.quick == quickEnough && manyProcessors && looking.CompareAndSwap(false, true)
}

// again reads until there is something, for a moment.
func (l *looker) again(fd int, p []byte) (n int, err error) {
	defer looking.Store(false)
	now := time.Now()
	for until := now.Add(lookFor); now.Before(until); {
		for next := now.Add(lookEach); now.Before(next); now = time.Now() {
		}
		if n, err = sysRead(fd, p); err != syscall.EAGAIN {
			return n, err
		}
	}
	l.quick = 0
	return -1, syscall.EAGAIN
}
