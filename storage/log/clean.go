package log

import (
	"errors"
	"fmt"
	"math"

	"go.uber.org/zap"

	"millrace/storage/batch"
	"millrace/storage/compact"
)

// ErrOvertaken says that a cleaning was given up because the log was truncated, or lost old segments, meanwhile. What it
// had put in place stays; the next one begins where this one did.
var ErrOvertaken = errors.New("cleaning was overtaken by a change of the log")

// CleanOptions are what Clean needs.
type CleanOptions struct {
	// Range is what Cleanable said.
	Range compact.Range
	Now   int64 // ms
	Keys  *compact.Keys
	// Buffer is how many bytes are read, and how many written, at a time; a batch that is larger is read whole.
	Buffer int
	// Throttle is told of bytes that were read, and of those that were written, and may wait, but not once stop is
	// closed: who closes or deletes the log waits for the cleaning to end. An error ends the cleaning. Nil: nobody is told.
	Throttle func(stop <-chan struct{}, bytes int) error
	// Exclusive runs a function under the lock under which the log is changed, or says why it cannot.
	Exclusive func(func() error) error
	// Scratch is reused compressors; nil makes them anew.
	Scratch *batch.Scratch

	longest int64 // of a segment; 0: what an index can address
	grown   int   // of a batch that is written anew; 0: what the package batch says
}

// Cleaned is what a cleaning did.
type Cleaned struct {
	From, To          batch.Offset // what was dirty, and is not any more
	MapBytes, MapRead int64        // bytes and records looked at for their keys
	BytesRead         int64
	BytesWritten      int64
	Read, Kept        int64   // records
	Invalid           int64   // records without a key among them
	Overgrown         int64   // batches that stay whole because they would become too long
	Full              float64 // how much of the room for keys was used
	Segments, Into    int     // how many segments became how many
}

// CleanedTo is the first offset that was not cleaned; -1: nothing was. It may be called concurrently.
func (l *Log) CleanedTo() batch.Offset {
	l.cleanedMu.Lock()
	defer l.cleanedMu.Unlock()
	return l.cleaned
}

func (l *Log) setCleaned(o batch.Offset) {
	l.cleanedMu.Lock()
	l.cleaned = o
	l.cleanedMu.Unlock()
}

// lowerCleaned makes what is behind an offset dirty: the log is cut there, and other records follow.
func (l *Log) lowerCleaned(to batch.Offset) {
	l.cleanedMu.Lock()
	if l.cleaned > to && !faults.keepCleaned {
		l.cleaned = to
	}
	l.cleanedMu.Unlock()
}

// stopCleaning ends a cleaning that is under way, waits for that, and lets none begin.
func (l *Log) stopCleaning() {
	l.noClean.Store(true)
	l.cleanedMu.Lock()
	if l.stop != nil {
		close(l.stop)
		l.stop = nil
	}
	l.cleanedMu.Unlock()
	l.cleaning.Lock()
	defer l.cleaning.Unlock() // to wait is all that is wanted
}

func (l *Log) setStop(stop chan struct{}) {
	l.cleanedMu.Lock()
	l.stop = stop
	l.cleanedMu.Unlock()
}

// Cleanable says what of the log could be cleaned at a time, in ms. It may be called concurrently.
func (l *Log) Cleanable(now int64) (compact.Range, error) {
	return again(l.View(), func(v *View) (compact.Range, error) {
		if v.closed {
			return compact.Range{}, ErrClosed
		}
		c := l.cfg.Load()
		look := compact.Log{
			Start: v.start, LastStable: v.stable, End: v.end, Cleaned: l.CleanedTo(),
			Lags: compact.Lags{MinMs: c.MinCompactionMs, MaxMs: c.MaxCompactionMs},
		}
		for i, seg := range v.segs {
			s := compact.Segment{Base: seg.base, Size: v.sizeOf(i), First: batch.NoTimestamp}
			if i < len(v.segs)-1 {
				var err error
				if c.MinCompactionMs > 0 {
					if s.Largest, err = seg.newest(); err != nil {
						return compact.Range{}, err
					}
				}
				if c.MaxCompactionMs < math.MaxInt64 {
					if s.First, err = seg.firstTimestamp(); err != nil {
						return compact.Range{}, err
					}
				}
			}
			look.Segments = append(look.Segments, s)
		}
		return compact.Look(look, now), nil
	})
}

// newest is the largest timestamp of a segment that is not active, or where no record has one that of its file.
func (s *segment) newest() (int64, error) {
	t, err := s.maxTimestamp()
	if err != nil || t >= 0 {
		return t, err
	}
	info, err := s.log.stat()
	if err != nil {
		return 0, err
	}
	return info.Modified.UnixMilli(), nil
}

// firstTimestamp is that of the first batch of a segment that is not active; -1: it has none.
func (s *segment) firstTimestamp() (int64, error) {
	if s.size == 0 {
		return batch.NoTimestamp, nil
	}
	if t := s.first.Load(); t != 0 {
		return t, nil
	}
	f, err := s.log.acquire()
	if err != nil {
		return 0, err
	}
	defer s.log.release()
	sc := scanner{f: f, limit: s.size, buf: make([]byte, batch.HeaderSize)}
	h, err := sc.header()
	if err != nil {
		return 0, fmt.Errorf("first batch of segment %d: %w", s.base, err)
	}
	s.first.Store(h.MaxTimestamp)
	return h.MaxTimestamp, nil
}

// Clean removes from the segments below o.Range.Upper what newer records of the same keys make superfluous, and what the
// package compact says beside. It reads and writes beside appends and readers; only the exchange of segments, group by
// group, is made under the owner's lock.
//
// The caller stores CleanedTo afterwards, and not before: the exchanged segments are durable when Clean returns. A
// *DamagedError says that the log does not read as a sequence of good batches; it is left as it was.
func (l *Log) Clean(o CleanOptions) (Cleaned, error) {
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
	c := cleaner{l: l, o: o, stop: make(chan struct{}), out: Cleaned{From: o.Range.From, To: o.Range.From}}
	l.setStop(c.stop)
	defer l.setStop(nil)
	if c.o.Buffer < batch.HeaderSize {
		c.o.Buffer = wholeScan
	}
	if c.o.Scratch == nil {
		c.o.Scratch = &batch.Scratch{}
	}
	if c.o.longest == 0 {
		c.o.longest = maxSegment
	}
	err := c.clean()
	if err == nil {
		return c.out, nil
	}
	// Why it failed may be that the log is another one now.
	switch {
	case l.noClean.Load():
		err = ErrClosed
	case isOverrun(err) && c.overtaken():
		err = ErrOvertaken
	}
	return c.out, err
}

// isOverrun says whether an error may come from a change of the log under a cleaning's hands.
func isOverrun(err error) bool {
	return isCorrupt(err) || errors.Is(err, errRetired) || isMissing(err) || errors.As(err, new(*DamagedError))
}

// cleaner is one cleaning.
type cleaner struct {
	l    *Log
	o    CleanOptions
	stop chan struct{}
	segs []*segment // those to be cleaned
	done int        // how many of them were exchanged
	cuts int        // of the log, when it began
	out  Cleaned

	filter compact.Filter
	buf    []byte
}

// overtaken says whether the log was cut, or the segments that were not exchanged yet are not all the log's any more. It
// waits for a change that is under way: a truncation cuts a segment that its view still names.
func (c *cleaner) overtaken() bool {
	over := true
	_ = c.o.Exclusive(func() error { // if it is refused, the log is another's
		over = c.l.cuts != c.cuts
		v := c.l.View()
		for _, seg := range c.segs[c.done:] {
			i := v.segmentAt(seg.base)
			over = over || i < 0 || v.segs[i] != seg
		}
		return nil
	})
	return over
}

// check says why the cleaning has to end.
func (c *cleaner) check() error {
	if c.l.noClean.Load() {
		return ErrClosed
	}
	if !c.l.cfg.Load().Compact {
		return ErrOvertaken // it is to be kept whole from now on
	}
	return c.l.directory.Offline()
}

func (c *cleaner) throttle(n int) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.o.Throttle == nil {
		return nil
	}
	if err := c.o.Throttle(c.stop, n); err != nil {
		return err
	}
	return c.check()
}

func (c *cleaner) clean() error {
	l, r := c.l, c.o.Range
	if err := c.check(); err != nil {
		return err
	}
	c.filter = compact.Filter{Keys: c.o.Keys, Upper: r.Upper, Now: c.o.Now, DeleteRetentionMs: l.cfg.Load().DeleteRetentionMs, Last: map[batch.ProducerID]compact.LastRecord{}}
	durable := r.Upper
	err := c.o.Exclusive(func() error {
		if err := l.ready(); err != nil {
			return err
		}
		c.cuts = l.cuts
		for _, e := range l.producers.Entries() {
			durable = l.end // a last batch that a crash takes would leave its producer none
			c.filter.Last[e.ProducerID] = compact.LastRecord{Offset: e.LastOffset, Epoch: e.Epoch}
		}
		if l.end < r.Upper || !l.isBase(r.Upper) {
			return ErrOvertaken // since it was looked at
		}
		for _, seg := range l.segs {
			if seg.base < r.Upper {
				c.segs = append(c.segs, seg)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if faults.forgetLast {
		clear(c.filter.Last)
	}
	if faults.noHorizon {
		c.filter.DeleteRetentionMs = 0
	}
	if r.From >= r.Upper || len(c.segs) == 0 {
		return nil
	}
	// Cleaning leaves holes between segments, and only below the recovery point a hole is no lost tail. A truncation
	// lowers it again, and is noticed.
	if l.RecoveryPoint() < durable {
		if err := l.Flush(); err != nil {
			return err
		}
	}
	if l.raise != nil {
		if err := l.raise(r.Upper, l.RecoveryPoint); err != nil {
			return err
		}
	}
	if err := c.buildMap(); err != nil {
		return err
	}
	c.out.Full = c.o.Keys.Full()
	end := c.o.Keys.Latest() + 1
	if end <= r.From {
		return fmt.Errorf("clean %s from %d: the batch there has more keys than there is room for (log.cleaner.dedupe.buffer.size)", l.dir, r.From)
	}
	groups, err := c.groups(end)
	if err != nil {
		return err
	}
	c.filter.Txns = compact.NewTransactions()
	for _, group := range groups {
		if err := c.cleanGroup(group); err != nil {
			return err
		}
	}
	c.out.To = end
	return c.o.Exclusive(func() error {
		if l.cuts != c.cuts {
			return ErrOvertaken
		}
		l.setCleaned(end)
		return nil
	})
}

// groups says which of the segments below an offset become one each.
func (c *cleaner) groups(end batch.Offset) ([][]*segment, error) {
	cfg := c.l.cfg.Load()
	var list []compact.Segment
	for _, seg := range c.segs {
		if seg.base >= end {
			break
		}
		s := compact.Segment{Base: seg.base, Size: seg.size}
		offsets, err := seg.offsets.count()
		if err != nil {
			return nil, err
		}
		times, err := seg.times.count()
		if err != nil {
			return nil, err
		}
		s.OffsetIndex, s.TimeIndex = int64(offsets)*offsetEntrySize, int64(times)*timeEntrySize
		list = append(list, s)
	}
	var out [][]*segment
	at := 0
	for _, g := range compact.Group(list, compact.Limits{Bytes: int64(cfg.SegmentBytes), Index: int64(cfg.IndexBytes)}, c.o.Range.Upper) {
		out = append(out, c.segs[at:at+len(g)])
		at += len(g)
	}
	return out, nil
}

// errTooLong says that what stays of a group makes a segment longer than an index can address: a batch that is written anew
// with another compressor can grow.
var errTooLong = errors.New("longer than a segment can be")

// cleanGroup puts one segment, with what is left of them, in the place of neighbouring segments. Where that one would be
// too long they are cleaned as two groups, and a segment that is too long by itself stays as it is.
func (c *cleaner) cleanGroup(group []*segment) error {
	txns, before := c.filter.Txns.Clone(), c.out
	err := c.cleanInto(group)
	if !errors.Is(err, errTooLong) {
		return err
	}
	c.filter.Txns = txns
	c.out.Read, c.out.Kept, c.out.Invalid, c.out.Overgrown = before.Read, before.Kept, before.Invalid, before.Overgrown
	field := zap.Int64("segment", int64(group[0].base))
	if n := len(group) / 2; n > 0 {
		c.l.logger.Warn("cleaned segments would be longer than one can be together: they become two", c.l.field(), field, zap.Int("segments", len(group)))
		if err := c.cleanGroup(group[:n]); err != nil {
			return err
		}
		return c.cleanGroup(group[n:])
	}
	c.l.logger.Warn("a segment would be longer than one can be when it is cleaned: it stays as it is", c.l.field(), field)
	c.done++
	c.out.Segments++
	c.out.Into++
	return c.follow(group[0], func(h batch.Header, _ []byte, m *batch.Marker) (bool, error) {
		c.filter.Batch(h, m)
		return true, nil
	})
}

// cleanInto is cleanGroup for a group that becomes one segment.
func (c *cleaner) cleanInto(group []*segment) (err error) {
	w, err := c.newWriter(group[0].base)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			w.drop()
		}
	}()
	for _, seg := range group {
		if err := c.follow(seg, w.filter); err != nil {
			return err
		}
	}
	info, err := group[len(group)-1].log.stat()
	if err != nil {
		return err
	}
	if err := w.finish(info.Modified); err != nil {
		return err
	}
	if err := c.exchange(w, group); err != nil {
		return err
	}
	c.done += len(group)
	c.out.Segments += len(group)
	c.out.Into++
	return nil
}
