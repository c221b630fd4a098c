package log

import (
	"errors"
	"io/fs"
	"sort"
	"time"

	"millrace/storage/batch"
	"millrace/storage/epoch"
)

// View is one state of a log, as readers see it. It never changes: LogStart <= LastStable <= HighWatermark <= LogEnd
// holds within one view, and what lies below its LogEnd is in the segments it knows.
type View struct {
	log  *Log
	segs []*segment
	size int64 // of the last segment

	start, stable, hw, end batch.Offset
	hwAt, stableAt         place

	epochs epoch.Cache
	// of the last segment; -1: its time index knows
	maxTimestamp int64
	maxOffset    batch.Offset
	closed       bool
}

// LogStart is the first offset that may be read.
func (v *View) LogStart() batch.Offset { return v.start }

// LastStable is the end of what a read_committed consumer may read.
func (v *View) LastStable() batch.Offset { return v.stable }

// HighWatermark is the end of what is replicated.
func (v *View) HighWatermark() batch.Offset { return v.hw }

// LogEnd is the offset of the next record.
func (v *View) LogEnd() batch.Offset { return v.end }

// LatestEpoch is the newest leader epoch; -1 if there is none.
func (v *View) LatestEpoch() batch.LeaderEpoch {
	e, _ := v.epochs.Latest()
	return e
}

// EndOffsetForEpoch is the largest epoch at or below e and where it ended; see epoch.Cache.EndOffset.
func (v *View) EndOffsetForEpoch(e batch.LeaderEpoch) (batch.LeaderEpoch, batch.Offset) {
	return v.epochs.EndOffset(e, v.end)
}

// EpochAt is the leader epoch in which the record at an offset was appended; -1 if that is not stored.
func (v *View) EpochAt(o batch.Offset) batch.LeaderEpoch { return v.epochs.At(o) }

// Epochs is the leader epochs.
func (v *View) Epochs() epoch.Cache { return v.epochs }

// Bytes is how many bytes the segments hold.
func (v *View) Bytes() int64 {
	n := v.size
	for i := range len(v.segs) - 1 {
		n += v.segs[i].size
	}
	return n
}

// segmentAt is the index of the segment an offset falls into; -1 if it lies below the first.
func (v *View) segmentAt(o batch.Offset) int {
	return sort.Search(len(v.segs), func(i int) bool { return v.segs[i].base > o }) - 1
}

// SegmentOf is the first offset of the segment that an offset falls into; the log end falls into the last one.
func (v *View) SegmentOf(o batch.Offset) batch.Offset {
	if len(v.segs) == 0 {
		return batch.NoOffset
	}
	return v.segs[max(v.segmentAt(o), 0)].base
}

func (v *View) sizeOf(i int) int64 {
	if i == len(v.segs)-1 {
		return v.size
	}
	return v.segs[i].size
}

// turns is how many truncations a reader lets overtake it.
const turns = 8

// mostWaits is how often a reader looks whether a change that is under way has ended, at last each 64 ms: ten seconds,
// which a busy disk may take for a few names.
const mostWaits = 160

// again runs a read on v, and on a newer view when a truncation, a cleaning, or the removal of old segments, overtook it.
// While a truncation or an exchange is under way its readers have a view that ends before the cut, or names what is gone,
// and indexes that may be cut already: they wait a moment for the view that goes with those.
func again[T any](v *View, read func(*View) (T, error)) (T, error) {
	for turn, waits := 0, 0; ; {
		x, err := read(v)
		if err == nil {
			return x, nil
		}
		next := v.log.View()
		if next.closed && (errors.Is(err, errRetired) || errors.Is(err, fs.ErrNotExist)) {
			return x, ErrClosed
		}
		if turn == turns || !(errors.Is(err, errRetired) || errors.Is(err, fs.ErrNotExist) || isCorrupt(err)) {
			return x, err
		}
		if next == v {
			cutting := v.log.cutting.Load()
			if next = v.log.View(); next == v && (!cutting || waits == mostWaits) {
				return x, err
			}
			if next == v {
				time.Sleep(time.Millisecond << min(waits, 6))
				waits++
				continue
			}
		}
		v = next
		turn++
	}
}

func isCorrupt(err error) bool {
	var c *CorruptError
	var x *IndexError
	return errors.As(err, &c) || errors.As(err, &x)
}

// Read returns a section that begins with the batch holding from, or the first one behind it, and ends before upper: at
// most maxBytes long and possibly ending within a batch, but not within the first. That one is left out where it does
// not fit (KIP-74), or with minOne comes whole however large it is. The section ends with its segment at the latest, so
// it may be shorter than asked although more follows; it is empty where nothing lies between from and upper. Its bytes
// may begin below from: batches are not split at their start.
//
// Without minOne it is also empty where sections that are being sent have all the files that may be open, or no descriptor
// is left: one reply alone could take them all.
func (v *View) Read(from, upper batch.Offset, maxBytes int, minOne bool) (Section, error) {
	s, err := again(v, func(v *View) (Section, error) { return v.read(from, upper, maxBytes, minOne) })
	if !minOne && errors.Is(err, ErrNoDescriptor) {
		return Section{}, nil
	}
	return s, err
}

func (v *View) read(from, upper batch.Offset, maxBytes int, minOne bool) (Section, error) {
	if v.closed {
		return Section{}, ErrClosed
	}
	if err := v.log.directory.Offline(); err != nil {
		return Section{}, err
	}
	if from < v.start || from > v.end {
		return Section{}, ErrOffsetOutOfRange
	}
	upper = min(upper, v.end)
	if from >= upper {
		return Section{}, nil
	}
	upperAt, err := v.place(upper)
	if err != nil {
		return Section{}, err
	}
	for i := max(v.segmentAt(from), 0); i < len(v.segs); i++ {
		seg, limit := v.segs[i], v.sizeOf(i)
		at, ok, err := seg.find(from, limit)
		if err != nil {
			return Section{}, err
		}
		if upperAt.seg == seg {
			limit = upperAt.pos
		} else if seg.base > upperAt.seg.base {
			return Section{}, nil
		}
		if !ok {
			continue
		}
		n := int64(maxBytes)
		if n < int64(at.size) {
			if !minOne {
				return Section{}, nil
			}
			n = int64(at.size)
		}
		n = min(n, limit-at.pos)
		if n <= 0 {
			return Section{}, nil
		}
		if !minOne && !seg.log.affordable() {
			return Section{}, nil
		}
		f, err := seg.log.acquire()
		if err != nil {
			return Section{}, err
		}
		if !seg.give(at.pos + n) {
			seg.log.release()
			return Section{}, errRetired
		}
		return Section{h: seg.log, f: f, pos: at.pos, n: int(n)}, nil
	}
	return Section{}, nil
}

// place is where an offset at or below the log end lies: the position of the first batch that ends at or behind it.
func (v *View) place(o batch.Offset) (place, error) {
	switch {
	case o == v.end:
		return place{seg: v.segs[len(v.segs)-1], pos: v.size}, nil
	case o == v.hw && v.hwAt.pos >= 0 && v.hwAt.seg != nil:
		return v.hwAt, nil
	case o == v.stable && v.stableAt.pos >= 0 && v.stableAt.seg != nil:
		return v.stableAt, nil
	}
	for i := max(v.segmentAt(o), 0); i < len(v.segs); i++ {
		at, ok, err := v.segs[i].find(o, v.sizeOf(i))
		if err != nil {
			return place{}, err
		}
		if ok {
			return place{seg: v.segs[i], pos: at.pos}, nil
		}
	}
	return place{seg: v.segs[len(v.segs)-1], pos: v.size}, nil
}

// Where is the segment's file, and the position in it, of the first batch that ends at or behind an offset.
func (v *View) Where(o batch.Offset) (segment string, position int64, err error) {
	if len(v.segs) == 0 {
		return "", 0, ErrOffsetOutOfRange
	}
	at, err := again(v, func(v *View) (place, error) { return v.place(o) })
	if err != nil {
		return "", 0, err
	}
	return at.seg.log.where(), at.pos, nil
}

// Size estimates how many bytes lie between two offsets, for a fetch that waits until there are enough. Where it cannot
// tell it says 0.
func (v *View) Size(from, upper batch.Offset) int64 {
	n, err := again(v, func(v *View) (int64, error) {
		upper := min(upper, v.end)
		if from < v.start || from >= upper || v.closed {
			return 0, nil
		}
		a, err := v.place(from)
		if err != nil {
			return 0, err
		}
		b, err := v.place(upper)
		if err != nil || a.seg == b.seg {
			return b.pos - a.pos, err
		}
		if b.seg.base < a.seg.base {
			return 0, nil // the end of one segment and the start of the next are one place
		}
		n := b.pos - a.pos
		for i, seg := range v.segs {
			if seg.base >= a.seg.base && seg.base < b.seg.base {
				n += v.sizeOf(i)
			}
		}
		return n, nil
	})
	if err != nil {
		return 0
	}
	return n
}

// ReadCommitted is Read with the aborted transactions among the records, as Aborted lists them. Both are of one view: of an
// aborted transaction a cleaning takes records, marker and entry away, and what one view says of the other's records leaves
// a reader with a transaction that it takes for committed, or for one that never ends.
func (v *View) ReadCommitted(from, upper batch.Offset, maxBytes int, minOne bool) (Section, []AbortedTxn, error) {
	type found struct {
		s       Section
		aborted []AbortedTxn
	}
	x, err := again(v, func(v *View) (found, error) {
		s, err := v.read(from, upper, maxBytes, minOne)
		if err != nil || s.Len() == 0 {
			return found{s: s}, err
		}
		aborted, err := v.aborted(from, upper)
		if err != nil {
			s.Release()
			return found{}, err
		}
		return found{s: s, aborted: aborted}, nil
	})
	if !minOne && errors.Is(err, ErrNoDescriptor) {
		return Section{}, nil, nil
	}
	return x.s, x.aborted, err
}

// Aborted lists the aborted transactions with records between two offsets, as a read_committed fetch of them needs, in
// the order of their markers. Where records between them were removed since, and with them what was known of them, they are
// out of range.
func (v *View) Aborted(from, upper batch.Offset) ([]AbortedTxn, error) {
	return again(v, func(newer *View) ([]AbortedTxn, error) {
		if newer != v && (from < newer.start || upper > newer.end) {
			return nil, ErrOffsetOutOfRange
		}
		return newer.aborted(from, upper)
	})
}

func (v *View) aborted(from, upper batch.Offset) ([]AbortedTxn, error) {
	var out []AbortedTxn
	for i := max(v.segmentAt(from), 0); i < len(v.segs); i++ {
		entries, err := v.segs[i].txns.list()
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.last >= from && e.first < upper {
				out = append(out, AbortedTxn{ProducerID: e.producerID, FirstOffset: e.first})
			}
			if e.lastStable >= upper {
				// Transactions that end later began at or behind it.
				return out, nil
			}
		}
	}
	return out, nil
}

// Closed says whether the log was closed, or its partition deleted, since.
func (v *View) Closed() bool { return v.closed }

// HasFiles says whether the log has files: one that was never appended to has none.
func (v *View) HasFiles() bool { return len(v.segs) > 0 }

// FirstSegment is the base of the first segment; 0 for a log without files.
func (v *View) FirstSegment() batch.Offset {
	if len(v.segs) == 0 {
		return 0
	}
	return v.segs[0].base
}

// Segments is how many segments there are; none before the first append.
func (v *View) Segments() int { return len(v.segs) }
