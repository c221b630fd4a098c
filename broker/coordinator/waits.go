package coordinator

import (
	"container/heap"
	"slices"
	"time"

	"millrace/broker/machine"
	"millrace/storage/batch"
)

// hold says what a waiter waits for: the high watermark at end, but not past
// until, when it gets late.
type hold struct {
	end   batch.Offset
	until time.Time // zero: as long as it takes
	late  *Error
}

// waiter is an answer that has to wait, or a send.
type waiter struct {
	hold
	call   *call
	result result
	send   *machine.Send
	run    *run
	gone   bool
}

func (w *waiter) release() {
	w.gone = true
	if w.send != nil {
		w.run.start(*w.send)
		return
	}
	w.call.out <- w.result
}

// waits holds the waiters by offset, and those whose time can run out by time.
// Answers to writes and to reads have different patience, the same within each
// kind, so each kind's queue is in order of time as it comes.
type waits struct {
	byEnd  waitHeap
	queues [2][]*waiter // writes, reads
	late   int          // waiters in byEnd that were answered late
}

// add keeps a waiter, or lets it go at once if there is nothing to wait for.
func (q *waits) add(h hold, w *waiter, hw batch.Offset) {
	w.hold = h
	if h.end <= hw {
		w.release()
		return
	}
	heap.Push(&q.byEnd, w)
	if !h.until.IsZero() {
		i := 0
		if h.late == ErrLoading {
			i = 1
		}
		q.queues[i] = append(q.queues[i], w)
	}
}

func (q *waits) committed(hw batch.Offset) {
	for len(q.byEnd) > 0 && q.byEnd[0].end <= hw {
		if w := heap.Pop(&q.byEnd).(*waiter); w.gone {
			q.late--
		} else {
			w.release()
		}
	}
	for i := range q.queues {
		q.trim(i)
	}
}

func (q *waits) trim(i int) {
	for len(q.queues[i]) > 0 && q.queues[i][0].gone {
		q.queues[i] = q.queues[i][1:]
	}
}

// expire answers those whose time is up.
func (q *waits) expire(now time.Time) {
	for i := range q.queues {
		for q.trim(i); len(q.queues[i]) > 0 && !q.queues[i][0].until.After(now); q.trim(i) {
			w := q.queues[i][0]
			w.gone = true
			w.result = result{}
			w.call.out <- result{err: w.late}
			q.late++
		}
	}
	if q.late > 64 && q.late > len(q.byEnd)/2 {
		// The high watermark stands still and may do so for long.
		q.byEnd = slices.DeleteFunc(q.byEnd, func(w *waiter) bool { return w.gone })
		heap.Init(&q.byEnd)
		q.late = 0
	}
}

func (q *waits) deadline() time.Time {
	var first time.Time
	for i := range q.queues {
		if q.trim(i); len(q.queues[i]) > 0 {
			first = earliest(first, q.queues[i][0].until)
		}
	}
	return first
}

// abandon answers everybody; sends are dropped.
func (q *waits) abandon(res result) {
	for _, w := range q.byEnd {
		if !w.gone && w.call != nil {
			w.gone = true
			w.call.out <- res
		}
	}
	*q = waits{}
}

type waitHeap []*waiter

func (h waitHeap) Len() int           { return len(h) }
func (h waitHeap) Less(i, j int) bool { return h[i].end < h[j].end }
func (h waitHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *waitHeap) Push(x any)        { *h = append(*h, x.(*waiter)) }
func (h *waitHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return w
}
