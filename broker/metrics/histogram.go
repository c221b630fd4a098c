package metrics

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets of a histogram: eight to each power of two, so that a value is known
// within an eighth; what is larger than 2^40 counts as that.
const (
	subBits = 3
	subs    = 1 << subBits
	maxBits = 40
	buckets = (maxBits-subBits)*subs + subs
)

func bucketOf(v int64) int {
	switch {
	case v < subs:
		return int(max(v, 0))
	case v >= 1<<maxBits:
		return buckets - 1
	}
	shift := bits.Len64(uint64(v)) - 1 - subBits
	return shift*subs + int(v>>shift)
}

// valueOf is the middle of a bucket.
func valueOf(bucket int) float64 {
	if bucket < 2*subs {
		return float64(bucket)
	}
	shift := bucket/subs - 1
	low := int64(bucket-shift*subs) << shift
	return float64(low) + float64(int64(1)<<shift-1)/2
}

// Histogram counts values: microseconds, or bytes. It takes 2.4 KiB, whatever
// the values, and may be used from anywhere.
type Histogram struct {
	counts [buckets]atomic.Uint64
	sum    atomic.Int64
}

// Observe counts a value; below zero it is 0.
func (h *Histogram) Observe(v int64) {
	h.counts[bucketOf(v)].Add(1)
	h.sum.Add(max(v, 0))
}

// Duration counts a time in microseconds.
func (h *Histogram) Duration(d time.Duration) { h.Observe(int64(d / time.Microsecond)) }

// Quantiles are those that the exporter shows of a Kafka histogram, with the
// names it gives them.
var Quantiles = []struct {
	Name string
	At   float64
}{{"0.50", 0.50}, {"0.75", 0.75}, {"0.95", 0.95}, {"0.98", 0.98}, {"0.99", 0.99}, {"0.999", 0.999}}

// Summary is what is told of a histogram.
type Summary struct {
	Count uint64 // since the start
	// Of the last minutes, or of the last values there were:
	Mean, Max float64
	Quantiles [6]float64
}

// Window looks at a histogram from time to time and tells of the last minutes:
// Kafka's percentiles forget with a half-life of some minutes too. One goroutine
// uses it. It costs something only when it is looked at.
type Window struct {
	Of *Histogram

	base, next *reading // what is subtracted, and what will be
	last       Summary
	seen       bool
}

// reading is a histogram at one moment.
type reading struct {
	at     time.Time
	counts [buckets]uint64
	sum    int64
}

// nothing is the reading before the first one.
var nothing reading

// span is how old a reading is when a newer one takes its place: percentiles are
// of the last 2.5 to 5 minutes.
const span = 150 * time.Second

func (h *Histogram) read(into *reading, now time.Time) (count uint64) {
	into.at, into.sum = now, h.sum.Load()
	for i := range h.counts {
		into.counts[i] = h.counts[i].Load()
		count += into.counts[i]
	}
	return count
}

// Summary looks at the histogram.
func (w *Window) Summary(now time.Time) Summary {
	var cur reading
	count := w.Of.read(&cur, now)
	if w.next == nil {
		w.next = &reading{}
		*w.next = cur
	} else if now.Sub(w.next.at) >= span {
		if w.base == nil {
			w.base = &reading{}
		}
		w.base, w.next = w.next, w.base
		*w.next = cur
	}
	base := w.base
	if base == nil {
		base = &nothing // since the start
	}
	if s, ok := summarise(&cur, base); ok || !w.seen {
		w.last, w.seen = s, true
	}
	w.last.Count = count
	return w.last
}

// summarise tells of what came between two readings; not ok: nothing did.
func summarise(cur, base *reading) (s Summary, ok bool) {
	var n uint64
	top := 0
	for i := range cur.counts {
		if d := cur.counts[i] - base.counts[i]; d > 0 {
			n += d
			top = i
		}
	}
	if n == 0 {
		return s, false
	}
	s.Mean, s.Max = float64(cur.sum-base.sum)/float64(n), valueOf(top)
	var passed uint64
	q := 0
	for i := 0; i <= top && q < len(Quantiles); i++ {
		passed += cur.counts[i] - base.counts[i]
		for q < len(Quantiles) && float64(passed) >= Quantiles[q].At*float64(n) {
			s.Quantiles[q] = valueOf(i)
			q++
		}
	}
	return s, true
}
