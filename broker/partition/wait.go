package partition

import (
	"slices"
	"sort"
	"sync"

	"millrace/storage/batch"
)

// Acks is what the appends of one request wait for, over any number of partitions. Register each append with Await, call
// Seal, then wait for Done or call Cancel.
//
// Most appends have nothing to wait for, on a single node for one: what waiting takes is made when somebody waits.
type Acks struct {
	mu     sync.Mutex // inside Partition.mu
	n      int        // appends there may be
	left   int        // of them not decided, and one until Seal
	done   chan struct{}
	slots  []ack
	called bool // Cancel was
}

type ack struct {
	p       *Partition
	last    batch.Offset
	pending bool
	err     error
}

// NewAcks makes room for n appends, numbered from 0.
func NewAcks(n int) *Acks {
	a := &Acks{}
	a.Expect(n)
	return a
}

// Expect makes a zero Acks what NewAcks returns.
func (a *Acks) Expect(n int) { a.n, a.left = n, 1 }

// Done is closed once every append is decided.
func (a *Acks) Done() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done == nil {
		a.done = make(chan struct{})
		if a.left == 0 {
			close(a.done)
		}
	}
	return a.done
}

// Seal says that no append will be registered any more.
func (a *Acks) Seal() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.one()
}

func (a *Acks) one() {
	if a.left--; a.left == 0 && a.done != nil {
		close(a.done)
	}
}

// slot is what is known of append i.
func (a *Acks) slot(i int) *ack {
	if a.slots == nil {
		a.slots = make([]ack, a.n)
	}
	return &a.slots[i]
}

// Err is how append i ended: nil where it is as safe as was asked, or where it did not wait.
func (a *Acks) Err(i int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slots == nil {
		return nil
	}
	return a.slots[i].err
}

// Cancel decides what is not decided: time is up. It may be called at any time.
func (a *Acks) Cancel() {
	a.mu.Lock()
	if a.called {
		a.mu.Unlock()
		return
	}
	a.called = true
	var waiting []ack
	for i := range a.slots {
		if a.slots[i].pending {
			waiting = append(waiting, a.slots[i])
		}
	}
	a.mu.Unlock()
	for _, w := range waiting {
		w.p.forget(a, w.last)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.slots {
		if a.slots[i].pending {
			a.slots[i].pending, a.slots[i].err = false, ErrTimedOut
			a.one()
		}
	}
}

func (a *Acks) register(i int, p *Partition, last batch.Offset) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*a.slot(i) = ack{p: p, last: last, pending: true}
	a.left++
}

func (a *Acks) decide(i int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.slot(i); s.pending {
		s.pending, s.err = false, err
		a.one()
	}
}

// wait is one append that waits at a partition.
type wait struct {
	last batch.Offset
	acks *Acks
	i    int
}

// waits are waits in order of offset. Appends come in order, so that adding is nearly always at the end; a duplicate of
// an earlier batch waits for the original's offset. They are decided in order, and mostly time out in order: taking off
// the first ones moves none of the others, however many there are.
type waits struct {
	list []wait
	off  int // of the list, at its start: they are taken off
}

func (w *waits) any() bool { return w.len() > 0 }

func (w *waits) len() int { return len(w.list) - w.off }

// after is the index in the list of the first wait for an offset above one.
func (w *waits) after(last batch.Offset) int {
	n := len(w.list)
	if n == w.off || w.list[n-1].last <= last {
		return n
	}
	return w.off + sort.Search(w.len(), func(i int) bool { return w.list[w.off+i].last > last })
}

func (w *waits) add(x wait) {
	if n := len(w.list); n == cap(w.list) && w.off > n/2 {
		w.list = slices.Delete(w.list, 0, w.off)
		w.off = 0
	}
	w.list = slices.Insert(w.list, w.after(x.last), x)
}

// drop takes the first n off.
func (w *waits) drop(n int) {
	clear(w.list[w.off : w.off+n])
	if w.off += n; w.off == len(w.list) {
		w.list, w.off = w.list[:0], 0
	}
}

// reach decides the waits for offsets below end.
func (w *waits) reach(end batch.Offset) { w.reachWith(end, nil) }

func (w *waits) reachWith(end batch.Offset, err error) {
	n := 0
	for _, x := range w.list[w.off:] {
		if x.last >= end {
			break
		}
		x.acks.decide(x.i, err)
		n++
	}
	w.drop(n)
}

func (w *waits) fail(err error) {
	for _, x := range w.list[w.off:] {
		x.acks.decide(x.i, err)
	}
	w.list, w.off = nil, 0
}

// forget takes off the waits of one request for an offset.
func (w *waits) forget(a *Acks, last batch.Offset) {
	for i := w.after(last - 1); i < len(w.list) && w.list[i].last == last; {
		switch {
		case w.list[i].acks != a:
			i++
		case i-w.off < w.len()/2:
			copy(w.list[w.off+1:i+1], w.list[w.off:i])
			w.drop(1)
			i++
		default:
			w.list = slices.Delete(w.list, i, i+1)
		}
	}
}

// Await registers append i of a, which ends at last and was made in the given epoch, to wait for what its acks ask: -1
// for the high watermark to pass it, 1 for the flush that is due. done says that there is nothing to wait for, and err
// how it ended then; Err(i) says the same.
func (p *Partition) Await(a *Acks, i int, ap Appended, acks int16) (done bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	done, err = p.safe(ap, acks)
	if done {
		if err != nil {
			a.mu.Lock()
			a.slot(i).err = err
			a.mu.Unlock()
		}
		return true, err
	}
	a.register(i, p, ap.Last)
	if acks == -1 {
		p.committed.add(wait{last: ap.Last, acks: a, i: i})
	} else {
		p.written.add(wait{last: ap.Last, acks: a, i: i})
	}
	return false, nil
}

// safe says, under the lock, whether there is nothing to wait for.
func (p *Partition) safe(ap Appended, acks int16) (bool, error) {
	if acks == 0 {
		return true, nil
	}
	r := p.role.Load()
	if r.gone {
		return true, ErrGone
	}
	if !r.leader || ap.LeaderEpoch < r.since {
		return true, ErrNotLeader // what was appended may have been cut away since
	}
	if err := p.Log().Offline(); err != nil {
		return true, err
	}
	if acks != -1 {
		return p.counted > ap.Last, nil
	}
	if p.Log().View().HighWatermark() <= ap.Last && !faults.ackAppended {
		return false, nil
	}
	if !p.leader.EnoughAfter() {
		return true, ErrNotEnoughReplicasAfterAppend
	}
	return true, nil
}

func (p *Partition) forget(a *Acks, last batch.Offset) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.committed.forget(a, last)
	p.written.forget(a, last)
}

// Interest is what a Waiter wants to be woken by; a change of leadership wakes every waiter.
type Interest int8

// The interests, which may be combined.
const (
	OnLogEnd        Interest = 1 << iota // a follower's fetch
	OnHighWatermark                      // a consumer's fetch
	OnLowWatermark                       // DeleteRecords
)

// Waiter is somebody who waits for any of several partitions. Watch them all, look again, then wait on C; at the end
// Unwatch them all.
type Waiter struct {
	c    chan struct{}
	call func()
}

// NewWaiter makes a waiter.
func NewWaiter() *Waiter { return &Waiter{c: make(chan struct{}, 1)} }

// NewCaller makes a waiter that is not woken but has a function called, under the partition's lock: it must not block,
// nor come back to the partition.
func NewCaller(call func()) *Waiter { return &Waiter{call: call} }

// C receives after something happened; several happenings may come as one.
func (w *Waiter) C() <-chan struct{} { return w.c }

// Wake wakes the waiter.
func (w *Waiter) Wake() {
	if w.call != nil {
		w.call()
		return
	}
	select {
	case w.c <- struct{}{}:
	default:
	}
}

// A Watching is a waiter's place at one partition, from Watch to Unwatch; the zero value is none. It is not to be copied
// or moved between the two.
type Watching struct {
	at int // its number among the partition's watchers, from 1; under Partition.mu
}

type watcher struct {
	w     *Waiter
	on    Interest
	place *Watching
}

// watchers are those who wait at a partition, in no order. Everyone's place is known to it, so that it is taken off at
// once, however many there are: thousands may wait at one partition, and all go when a record comes.
type watchers struct {
	list    []watcher
	touched int // how many were looked at or put elsewhere by remove, so far
}

func (x *watchers) add(place *Watching, w *Waiter, on Interest) {
	x.list = append(x.list, watcher{w: w, on: on, place: place})
	place.at = len(x.list)
}

func (x *watchers) remove(place *Watching) {
	if place.at == 0 {
		return
	}
	i, last := place.at-1, len(x.list)-1
	x.list[i] = x.list[last]
	x.list[i].place.at = i + 1
	x.list[last], place.at = watcher{}, 0
	x.list = x.list[:last]
	x.touched += 2
}

// Watch registers a waiter, whose place is to be a new one. One that comes when the partition is gone is woken at once.
func (p *Partition) Watch(place *Watching, w *Waiter, on Interest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role.Load().gone {
		w.Wake()
		return
	}
	p.watchers.add(place, w, on)
}

// Unwatch takes a waiter off; one that is not there is none of its business.
func (p *Partition) Unwatch(place *Watching) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers.remove(place)
}

func (p *Partition) wake(on Interest) {
	for _, w := range p.watchers.list {
		if w.on&on != 0 {
			w.w.Wake()
		}
	}
}

func (p *Partition) wakeAll() { p.wake(^Interest(0)) }
