package log

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync/atomic"

	"millrace/storage/batch"
	"millrace/storage/disk"
)

// errRetired says that a truncation overtook the reader: the segment's file may hold other bytes now. The reader looks
// at the newest view.
var errRetired = errors.New("segment was replaced")

// maxSegment is the largest position an index can hold.
const maxSegment = 1<<31 - 1

// segment is one segment file and its indexes. Its bytes only grow, and only while it is the active one; a truncation
// makes a new segment.
type segment struct {
	base batch.Offset
	log  *handle

	offsets *index[offsetEntry]
	times   *index[timeEntry]
	txns    *txnIndex

	// given is how far readers may have been given the file's bytes; none are given behind allowed. A truncation lowers
	// allowed and then looks at given, a reader raises given and then looks at allowed: one of them sees the other.
	given, allowed atomic.Int64

	// recent is the newest batches, while the segment is active.
	recent atomic.Pointer[recent]

	// synced: the segment is not active any more, and everything of it is durable, the indexes too.
	synced atomic.Bool
	// snapshotSynced: the producer snapshot at its base is durable, if there is one.
	snapshotSynced atomic.Bool

	// size is the file's length once the segment is not active any more. While it is, each View says how much of it
	// is there.
	size int64
	// largest is the largest timestamp once the segment is not active any more; -1: the time index knows.
	largest atomic.Int64
	// first is the timestamp of the first batch; 0: nobody asked yet.
	first atomic.Int64
}

// recentSize is how many batches one piece of the list holds.
const recentSize = 64

// recent is the newest batches of the active segment: readers near the end, which is most of them, find their place
// without reading the disk. The first n never change.
type recent struct {
	prev atomic.Pointer[recent]
	n    atomic.Int32
	b    [recentSize]recentBatch
}

type recentBatch struct {
	base     batch.Offset
	delta    int32
	position int32
}

func (l *Log) newSegment(base batch.Offset, hasTxns bool) *segment {
	s := &segment{
		base:    base,
		log:     newHandle(l.fs, l.files, l.dir+"/"+fileName(base, suffixLog)),
		offsets: newOffsetIndex(l.fs, l.files, l.dir+"/"+fileName(base, suffixIndex)),
		times:   newTimeIndex(l.fs, l.files, l.dir+"/"+fileName(base, suffixTimeIndex)),
		txns:    newTxnIndex(l.fs, l.dir+"/"+fileName(base, suffixTxnIndex), base, hasTxns),
	}
	s.log.directory = l.directory
	s.largest.Store(batch.NoTimestamp)
	s.allowed.Store(math.MaxInt64)
	return s
}

// give notes that a reader gets the file's bytes up to end. false: a truncation overtook it and it may not.
func (s *segment) give(end int64) bool {
	for {
		g := s.given.Load()
		if g >= end || s.given.CompareAndSwap(g, end) {
			break
		}
	}
	return end <= s.allowed.Load()
}

// endAt ends the giving out of bytes behind pos, and says whether some were given before.
func (s *segment) endAt(pos int64) bool {
	s.allowed.Store(pos)
	return s.given.Load() > pos
}

// note adds a batch to the recent ones; writer only.
func (s *segment) note(base batch.Offset, delta int32, position int64) {
	r := s.recent.Load()
	if r == nil || r.n.Load() == recentSize {
		next := &recent{}
		if r != nil {
			r.prev.Store(nil)
			next.prev.Store(r)
		}
		s.recent.Store(next)
		r = next
	}
	n := r.n.Load()
	r.b[n] = recentBatch{base: base, delta: delta, position: int32(position)}
	r.n.Store(n + 1)
}

// found is a batch in a segment.
type found struct {
	pos  int64
	size int
	base batch.Offset
	last batch.Offset
}

// findRecent looks for the first batch that ends at or behind o among the recent ones; size is how much of the segment
// the reader's view holds.
func (s *segment) findRecent(o batch.Offset, size int64) (found, bool) {
	end := size       // where the batch looked at ends
	var after found   // the batch behind it
	hasAfter := false // there is one
	for r := s.recent.Load(); r != nil; r = r.prev.Load() {
		for i := int(r.n.Load()) - 1; i >= 0; i-- {
			b := r.b[i]
			pos := int64(b.position)
			if pos >= size {
				continue // appended after the view
			}
			at := found{pos: pos, size: int(end - pos), base: b.base, last: b.base + batch.Offset(b.delta)}
			if o > at.last {
				return after, hasAfter // o lies in a gap before it, or behind the view
			}
			if o >= at.base {
				return at, true
			}
			after, hasAfter, end = at, true, pos
		}
	}
	return found{}, false
}

// in says of an error that a scan of the segment's file came upon where it was.
func (s *segment) in(err error) error {
	var c *CorruptError
	if errors.As(err, &c) && c.File == "" {
		c.File = s.log.where()
	}
	return fmt.Errorf("segment %d: %w", s.base, err)
}

// find looks for the first batch that ends at or behind o; size is how much of the segment the reader's view holds. ok
// is false if there is none.
func (s *segment) find(o batch.Offset, size int64) (at found, ok bool, err error) {
	if at, ok := s.findRecent(o, size); ok {
		return at, true, nil
	}
	e, ok, next, hasNext, err := s.offsets.around(func(e offsetEntry) bool { return s.base+batch.Offset(e.relative) <= o })
	if err == nil && hasNext && int64(next.position)-int64(e.position) > smallScan && int64(next.position) < size {
		// Large batches have an entry each: most likely the next one is that of the batch that holds o.
		if at, ok, err := s.scanTo(&next, o, size, batch.HeaderSize); err == nil && ok && at.base <= o {
			return at, true, nil
		}
	}
	if err == nil && ok && e.position > 0 && int64(e.position) < size {
		window := smallScan
		if hasNext && next.position > e.position {
			window = min(window, int(next.position-e.position)+batch.HeaderSize)
		}
		at, ok, err = s.scanTo(&e, o, size, window)
		if !isCorrupt(err) {
			return at, ok, err
		}
		// No checksum covers an index: the segment itself says.
	}
	return s.scanTo(nil, o, size, smallScan)
}

// scanTo looks for the first batch that ends at or behind o, from an index entry on; nil: from the start. It reads window
// bytes at a time.
func (s *segment) scanTo(from *offsetEntry, o batch.Offset, size int64, window int) (found, bool, error) {
	f, err := s.log.acquire()
	if err != nil {
		return found{}, false, err
	}
	defer s.log.release()
	buf := smallBuffers.Get().(*[]byte)
	defer smallBuffers.Put(buf)
	sc := scanner{f: f, limit: size, buf: (*buf)[:window]}
	if from != nil {
		sc.pos = int64(from.position)
	}
	for {
		h, err := sc.header()
		if err == io.EOF {
			return found{}, false, nil
		}
		if err != nil {
			return found{}, false, s.in(err)
		}
		if from != nil {
			if h.LastOffset() != s.base+batch.Offset(from.relative) {
				return found{}, false, &IndexError{File: s.offsets.path, Why: fmt.Sprintf("entry %d at %d leads to a batch that ends at %d", from.relative, from.position, h.LastOffset())}
			}
			from = nil
		}
		if h.LastOffset() >= o {
			return found{pos: sc.pos, size: h.Size(), base: h.BaseOffset, last: h.LastOffset()}, true, nil
		}
		sc.step(h)
	}
}

// endOf is the offset behind the last batch of the segment's first size bytes, and where that batch ends. They are followed from
// an entry of the index on, or where it leads to no batch, or is zero, from the start. A *CorruptError says why they do not end with
// the size. read is how many bytes that took.
func (s *segment) endOf(size int64, from offsetEntry) (end batch.Offset, pos, read int64, err error) {
	if size == 0 {
		return s.base, 0, 0, nil
	}
	f, err := s.log.acquire()
	if err != nil {
		return s.base, 0, 0, err
	}
	defer s.log.release()
	buf := smallBuffers.Get().(*[]byte)
	defer smallBuffers.Put(buf)
	sc := scanner{f: f, limit: size, buf: *buf}
	if from.position > 0 && int64(from.position) < size {
		sc.pos = int64(from.position)
		if h, err := sc.header(); isCorrupt(err) || err == nil && h.LastOffset() != s.base+batch.Offset(from.relative) {
			sc.pos = 0
		}
	}
	for end = s.base; ; {
		h, err := sc.header()
		switch {
		case err == io.EOF:
			return end, sc.pos, sc.read, nil
		case err == nil && (h.BaseOffset < end || !fits(h.LastOffset(), s.base)):
			err = &CorruptError{Position: sc.pos, Why: fmt.Sprintf("batch of offsets %d to %d, expected %d", h.BaseOffset, h.LastOffset(), end)}
			fallthrough
		case err != nil:
			return end, sc.pos, sc.read, s.in(err)
		}
		end = h.NextOffset()
		sc.step(h)
	}
}

// maxTimestamp is the largest timestamp of a segment that is not active, as its time index says; -1 if no record has
// one.
func (s *segment) maxTimestamp() (int64, error) {
	if t := s.largest.Load(); t >= 0 {
		return t, nil
	}
	t, err := s.maxIndexed(s.size)
	if err == nil && t >= 0 {
		s.largest.Store(t)
	}
	return t, err
}

// maxIndexed is the newest timestamp in the time index, or that of the segment's first size bytes where the index is not
// what one can be.
func (s *segment) maxIndexed(size int64) (int64, error) {
	e, ok, err := s.times.last()
	switch {
	case err == nil && !ok:
		return batch.NoTimestamp, nil
	case err == nil && e.timestamp >= 0 && e.relative >= 0:
		return e.timestamp, nil
	case err != nil && !isCorrupt(err) && !errors.Is(err, fs.ErrNotExist):
		return batch.NoTimestamp, err
	}
	most := batch.NoTimestamp
	f, err := s.log.acquire()
	if err != nil {
		return most, err
	}
	defer s.log.release()
	buf := smallBuffers.Get().(*[]byte)
	defer smallBuffers.Put(buf)
	sc := scanner{f: f, limit: size, buf: *buf}
	for {
		h, err := sc.header()
		if err == io.EOF {
			return most, nil
		}
		if err != nil {
			return most, s.in(err)
		}
		most = max(most, h.MaxTimestamp)
		sc.step(h)
	}
}

// retire closes the segment's files as soon as nobody has them, for good.
func (s *segment) retire() {
	s.log.retire()
	s.retireIndexes()
}

// retireIndexes does so with its indexes: the segment's bytes may still be read under another name, or in a new segment.
func (s *segment) retireIndexes() {
	s.offsets.retire()
	s.times.retire()
	s.txns.retire()
}

func (h *handle) stat() (disk.Info, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	info, err := h.fs.Stat(h.path)
	if err != nil {
		return disk.Info{}, fmt.Errorf("stat segment: %w", err)
	}
	return info, nil
}
