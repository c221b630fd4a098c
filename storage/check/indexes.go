package check

import (
	"fmt"

	"millrace/storage/batch"
	"millrace/storage/producer"
)

// indexes are those of one segment, compared while its batches go by.
type indexes struct {
	p    *partition
	base batch.Offset
	last bool // of the log's segments
	made bool // a start makes them anew
	size int64

	offsets []OffsetEntry
	times   []TimeEntry
	aborted []AbortedEntry
	noTimes bool // the file is not there

	offset, time, abort int // compared so far
	pending             *OffsetEntry
	largest             int64
	count               int
}

// mended says whether a start makes the indexes anew: those of segments that reach to the recovery point.
func (x *indexes) mended() bool { return x.made }

func (x *indexes) file(suffix string) string { return x.p.path(segmentName(x.base, suffix)) }

func (x *indexes) add(suffix string, at int64, o batch.Offset, format string, args ...any) {
	x.p.add(x.file(suffix), at, o, x.mended(), format, args...)
}

func (p *partition) openIndexes(i int) (*indexes, error) {
	base, last := p.bases[i], i == len(p.bases)-1
	x := &indexes{p: p, base: base, last: last, largest: batch.NoTimestamp}
	x.made = !p.o.Clean && (last || p.bases[i+1] > p.o.RecoveryPoint)
	open := x.made
	read := func(suffix string, size int) ([]byte, error) {
		if !p.has[segmentName(base, suffix)] {
			return nil, nil
		}
		b, partial, err := readEntries(p.fs, x.file(suffix), size, open)
		if err != nil {
			return nil, err
		}
		if partial > 0 {
			x.p.add(x.file(suffix), int64(len(b)), -1, open, "%d bytes are no whole entry", partial)
		}
		return b, nil
	}
	b, err := read(".index", offsetEntrySize)
	if err != nil {
		return nil, err
	}
	x.offsets = offsetEntries(b, base)
	if b, err = read(".timeindex", timeEntrySize); err != nil {
		return nil, err
	}
	x.times = timeEntries(b, base)
	if b, err = read(".txnindex", abortedEntrySize); err != nil {
		return nil, err
	}
	x.aborted = abortedEntries(b)
	x.noTimes = !p.has[segmentName(base, ".timeindex")]
	if !p.has[segmentName(base, ".index")] || x.noTimes {
		p.add(x.file(".index"), -1, base, true, "an index is missing")
	}
	return x, nil
}

// batch compares the entries that a batch bears out.
func (x *indexes) batch(fr frame) {
	for x.offset < len(x.offsets) && x.offsets[x.offset].Position <= fr.pos {
		e := &x.offsets[x.offset]
		at := int64(x.offset) * offsetEntrySize
		x.offset++
		switch {
		case e.Position < fr.pos:
			x.add(".index", at, e.Offset, "no batch begins at position %d", e.Position)
			continue
		case x.pending != nil:
			x.add(".index", at, x.pending.Offset, "no batch before position %d ends there", e.Position)
		}
		if e.Offset < fr.h.BaseOffset {
			x.add(".index", at, e.Offset, "the batch at position %d begins at %d", e.Position, fr.h.BaseOffset)
			continue
		}
		x.pending = e
	}
	if x.pending != nil && fr.h.LastOffset() >= x.pending.Offset {
		if fr.h.LastOffset() != x.pending.Offset {
			x.add(".index", -1, x.pending.Offset, "no batch ends there")
		}
		x.pending = nil
	}
	x.count++
	x.largest = max(x.largest, fr.h.MaxTimestamp)
	for x.time < len(x.times) && x.times[x.time].Offset <= fr.h.LastOffset() {
		e := x.times[x.time]
		if e.Timestamp != x.largest {
			x.add(".timeindex", int64(x.time)*timeEntrySize, e.Offset, "says time %d, the largest so far is %d", e.Timestamp, x.largest)
		} else if x.time > 0 && e.Timestamp <= x.times[x.time-1].Timestamp {
			x.add(".timeindex", int64(x.time)*timeEntrySize, e.Offset, "time %d does not grow", e.Timestamp)
		}
		x.time++
	}
}

// marker compares the entry of a transaction that was aborted. Its data may have been in the log before it began.
func (x *indexes) marker(h batch.Header, done producer.Completed, known bool) {
	known = known && done.FirstOffset >= x.p.o.LogStart // a start forgets who wrote when every record was deleted
	soft := func(format string, args ...any) {
		x.p.unlike = append(x.p.unlike, Finding{File: x.file(".txnindex"), Position: -1, Offset: h.BaseOffset, Mended: x.mended(), Reason: fmt.Sprintf(format, args...)})
	}
	for x.abort < len(x.aborted) && x.aborted[x.abort].Last < h.LastOffset() {
		x.noMarker(false)
	}
	if x.abort < len(x.aborted) && x.aborted[x.abort].Last == h.LastOffset() {
		e := x.aborted[x.abort]
		at := int64(x.abort) * abortedEntrySize
		x.abort++
		switch {
		case e.Version != 0:
			x.add(".txnindex", at, e.Last, "entry of version %d", e.Version)
		case e.ProducerID != h.ProducerID:
			x.add(".txnindex", at, e.Last, "names producer %d, the marker is of %d", e.ProducerID, h.ProducerID)
		case e.First > e.Last || e.First < 0 || e.LastStable < 0 || e.LastStable > e.Last+1:
			x.add(".txnindex", at, e.Last, "a transaction from %d, stable to %d", e.First, e.LastStable)
		case known && e.First != done.FirstOffset:
			soft("the transaction ended at %d begins at %d, the log says %d", e.Last, e.First, done.FirstOffset)
		case known && e.LastStable != done.LastStable:
			soft("the transaction ended at %d leaves the log stable to %d, the log says %d", e.Last, e.LastStable, done.LastStable)
		}
		return
	}
	if known {
		soft("the transaction of producer %d, aborted at %d, is missing", h.ProducerID, h.BaseOffset)
	}
}

// noMarker tells of the next aborted transaction, whose marker is not where it is said to be. A cleaning keeps the one as long
// as the other, but what lies behind a place that cannot be read is not known.
func (x *indexes) noMarker(unknown bool) {
	f := Finding{File: x.file(".txnindex"), Position: int64(x.abort) * abortedEntrySize, Offset: x.aborted[x.abort].Last, Mended: x.mended(), Reason: "no transaction was aborted there"}
	x.abort++
	if unknown {
		x.p.unlike = append(x.p.unlike, f)
		return
	}
	x.p.add(f.File, f.Position, f.Offset, f.Mended, "%s", f.Reason)
}

// finish looks at what is left of the indexes when their segment has ended.
func (x *indexes) finish(broken bool) {
	if x.pending != nil {
		x.add(".index", -1, x.pending.Offset, "no batch ends there")
	}
	if n := x.offset; n < len(x.offsets) {
		x.add(".index", int64(n)*offsetEntrySize, x.offsets[n].Offset, "position %d, the segment's batches end at %d", x.offsets[n].Position, x.size)
	}
	if n := x.time; n < len(x.times) {
		x.add(".timeindex", int64(n)*timeEntrySize, x.times[n].Offset, "the segment's batches end before it")
	}
	if x.abort < len(x.aborted) {
		x.noMarker(broken)
	}
	closed := !x.last || x.p.o.Clean
	if closed && !broken && !x.noTimes && x.largest >= 0 && (len(x.times) == 0 || x.times[len(x.times)-1].Timestamp != x.largest) {
		x.add(".timeindex", -1, x.p.End-1, "does not end with the segment's largest time %d", x.largest)
	}
}
