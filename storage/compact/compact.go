// Package compact decides what cleaning a compacted log does, as Kafka's log cleaner does it: which log is the dirtiest,
// which of its segments become one, which records and batches stay, and when a tombstone or a transaction's marker may
// go.
//
// It is pure: it sees headers, keys and times and returns values. The files are storage/log's, the threads and the
// checkpoint of cleaned offsets are storage's.
//
// It promises, of a log from its start to where it was cleaned:
//   - Of each key the record with the highest offset stays, unless it is a tombstone whose delete horizon has passed.
//     Records without a key go.
//   - Offsets and their order stay; a batch keeps its base offset, its last offset, its sequence and its leader epoch.
//   - What a transaction that was aborted wrote goes; its marker goes in a later cleaning than its last record, and not
//     before its delete horizon has passed (KIP-534).
//   - The last batch of each producer that is still known stays, empty if need be, so that sequence and epoch can be read
//     from the log again; so does the last batch of what is cleaned.
package compact

import (
	"math"

	"millrace/storage/batch"
)

// Segment is what choosing and grouping need to know of a segment.
type Segment struct {
	Base        batch.Offset
	Size        int64
	OffsetIndex int64 // bytes of its offset index
	TimeIndex   int64
	// Largest is its largest timestamp and First that of its first batch; only asked where a compaction lag is set.
	Largest, First int64
}

// Lags are a topic's min.compaction.lag.ms and max.compaction.lag.ms.
type Lags struct{ MinMs, MaxMs int64 }

// NoLags is what a topic has that sets neither.
var NoLags = Lags{MinMs: 0, MaxMs: math.MaxInt64}

// Log is a log as the choice of what to clean sees it.
type Log struct {
	Start, LastStable, End batch.Offset
	Cleaned                batch.Offset // what the checkpoint says; -1: nothing
	Segments               []Segment    // by base; the last is the active one
	Lags                   Lags
}

// Range is what of a log could be cleaned.
type Range struct {
	From  batch.Offset // the first dirty offset
	Upper batch.Offset // the first one that may not be cleaned: a segment's base
	// Clean is the bytes of the segments that begin below From, Dirty of those that would be cleaned.
	Clean, Dirty int64
	// LateMs is for how long max.compaction.lag.ms has been over for the oldest dirty segment; 0: it is not.
	LateMs int64
	// Reset says that the checkpoint does not fit the log: it starts behind it, or ends before it.
	Reset bool
}

// Look says what of a log could be cleaned at a time, in ms: neither the active segment, nor one that reaches past the
// last stable offset, nor one with a record younger than min.compaction.lag.ms, nor anything behind one of these.
func Look(l Log, now int64) Range {
	r := Range{From: l.Cleaned}
	if l.Cleaned < l.Start || l.Cleaned > l.End {
		r.From, r.Reset = l.Start, l.Cleaned >= 0
	}
	if len(l.Segments) == 0 {
		r.Upper = r.From
		return r
	}
	active := l.Segments[len(l.Segments)-1].Base
	dirty := l.dirty(r.From)
	upper := min(l.LastStable, active)
	if l.Lags.MinMs > 0 {
		for _, s := range dirty {
			if s.Largest > now-l.Lags.MinMs {
				upper = min(upper, s.Base)
				break
			}
		}
	}
	// A segment is cleaned whole or not at all.
	r.Upper = active
	if rest := l.dirty(max(upper, r.From)); len(rest) > 0 {
		r.Upper = rest[0].Base
	}
	for i, s := range l.Segments {
		if s.Base < r.From {
			r.Clean += s.Size
		}
		holds := s.Base >= r.From || (i+1 < len(l.Segments) && l.Segments[i+1].Base > r.From)
		if holds && s.Base < r.Upper {
			r.Dirty += s.Size
		}
	}
	if l.Lags.MaxMs < math.MaxInt64 {
		for _, s := range dirty {
			if s.First > 0 {
				r.LateMs = max(r.LateMs, now-max(l.Lags.MaxMs, 0)-s.First)
			}
		}
	}
	return r
}

// dirty lists the segments, but for the active one, from the one that holds an offset on.
func (l Log) dirty(from batch.Offset) []Segment {
	rest := l.Segments[:len(l.Segments)-1]
	for len(rest) > 0 {
		next := l.Segments[len(l.Segments)-len(rest)].Base
		if next > from {
			break
		}
		rest = rest[1:]
	}
	return rest
}

// Ratio is how much of the log is dirty, between 0 and 1.
func (r Range) Ratio() float64 {
	if r.Clean+r.Dirty == 0 {
		return 0
	}
	return float64(r.Dirty) / float64(r.Clean+r.Dirty)
}

// Due says whether a log is to be cleaned that has this min.cleanable.dirty.ratio. One whose oldest dirty record is over
// max.compaction.lag.ms is, whatever the ratio.
func (r Range) Due(least float64) bool {
	return r.Dirty > 0 && (r.LateMs > 0 || r.Ratio() > least)
}

// Limits bound a segment that several become.
type Limits struct {
	Bytes int64 // segment.bytes
	Index int64 // segment.index.bytes, of either index
}

// Group says which of the segments, in their order, become one each: as many neighbours as fit the limits, so that
// segments do not get smaller and more with every cleaning. upper is where the last of them ends.
func Group(segments []Segment, limits Limits, upper batch.Offset) [][]Segment {
	var out [][]Segment
	for at := 0; at < len(segments); {
		n := 1
		size, offsets, times := segments[at].Size, segments[at].OffsetIndex, segments[at].TimeIndex
		for ; at+n < len(segments); n++ {
			s := segments[at+n]
			last := upper - 1
			if at+n+1 < len(segments) {
				last = segments[at+n+1].Base - 1
			}
			if size+s.Size > limits.Bytes || offsets+s.OffsetIndex > limits.Index || times+s.TimeIndex > limits.Index ||
				(s.Size > 0 && last-segments[at].Base > math.MaxInt32) {
				break
			}
			size, offsets, times = size+s.Size, offsets+s.OffsetIndex, times+s.TimeIndex
		}
		out = append(out, segments[at:at+n])
		at += n
	}
	return out
}

// Candidate is a log that may be cleaned.
type Candidate struct {
	Range Range
	Least float64 // its min.cleanable.dirty.ratio
}

// Filthiest is the index of the log to clean next, the one with the largest share of dirty bytes among those that are
// due; -1: none is.
func Filthiest(list []Candidate) int {
	best := -1
	for i, c := range list {
		if c.Range.Due(c.Least) && (best < 0 || c.Range.Ratio() > list[best].Range.Ratio()) {
			best = i
		}
	}
	return best
}
