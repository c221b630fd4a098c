package log

import (
	"errors"
	"fmt"
	"io"

	"go.uber.org/zap"

	"millrace/storage/batch"
	"millrace/storage/producer"
)

// Append appends one batch as the leader: it checks the producer's sequence, sets base offset and leader epoch in b, and
// writes. b is a batch that batch.Validate accepted and h its header; now is the time in ms.
//
// A batch that is stored already is not an error: Appended says where it is.
func (l *Log) Append(b []byte, h batch.Header, now int64) (Appended, error) {
	return l.AppendWith(b, h, now, producer.Rules{})
}

// AppendWith is Append with what the caller knows of the producer's transaction. For a control batch the marker is read
// from the batch.
func (l *Log) AppendWith(b []byte, h batch.Header, now int64, r producer.Rules) (Appended, error) {
	out, err := l.AppendUnseen(b, h, now, r)
	l.Publish()
	return out, err
}

// AppendUnseen is AppendWith, but readers do not see the batch before Publish, which is to follow while the caller's lock
// is held: most appends move the high watermark too, and one new View does for both.
func (l *Log) AppendUnseen(b []byte, h batch.Header, now int64, r producer.Rules) (Appended, error) {
	out, err := l.Gather(b, h, now, r)
	if lost := l.WriteGathered(); lost != nil {
		return Appended{}, lost
	}
	return out, err
}

// AppendAsFollower appends batches that were copied from the leader, with the offsets and epochs they carry. Each one's
// checksum is compared first: if one is bad, nothing is written. A batch cut off at the end of b is left out.
func (l *Log) AppendAsFollower(b []byte) (Appended, error) {
	if err := l.ready(); err != nil {
		return Appended{}, err
	}
	batches, err := l.parseCopied(b)
	if err != nil {
		return Appended{}, err
	}
	if len(batches) == 0 {
		return Appended{Base: l.end, Last: l.end - 1, MaxTimestamp: batch.NoTimestamp, LogStart: l.start}, nil
	}
	out, err := l.appendCopied(b, batches)
	l.Publish()
	return out, err
}

// appendCopied writes batches of b and notes them. What was written before an error stays.
func (l *Log) appendCopied(b []byte, batches []copied) (Appended, error) {
	now := l.now().UnixMilli()
	out := Appended{Base: batches[0].h.BaseOffset, MaxTimestamp: batch.NoTimestamp, LogStart: l.start}
	for len(batches) > 0 {
		// As many as one write can take: up to where the segment has to be rolled.
		first := batches[0]
		if err := l.prepare(first.h, first.h.Size(), now); err != nil {
			return Appended{}, err
		}
		n, size := 1, first.h.Size()
		for ; n < len(batches); n++ {
			h := batches[n].h
			full, err := l.mustRoll(h, h.Size(), now, int64(size), n)
			if err != nil {
				return Appended{}, l.fail("append", err)
			}
			if full {
				break
			}
			size += h.Size()
		}
		for _, c := range batches[:n] {
			if err := l.knowAborted(c.marker); err != nil {
				return Appended{}, err
			}
		}
		pos := l.active.size
		if err := l.active.seg.log.write(b[first.at:first.at+size], pos); err != nil {
			return Appended{}, l.fail("append", err)
		}
		for _, c := range batches[:n] {
			l.note(c.h, c.marker, pos)
			pos += int64(c.h.Size())
			out.Last, out.MaxTimestamp = c.h.LastOffset(), max(out.MaxTimestamp, c.h.MaxTimestamp)
		}
		if err := l.spill(l.last()); err != nil {
			return Appended{}, err
		}
		l.unseen = true
		batches = batches[n:]
	}
	return out, nil
}

// knowAborted sees to it that an abort marker can be noted without a look at the disk.
func (l *Log) knowAborted(m *batch.Marker) error {
	if m == nil || m.Type != batch.Abort {
		return nil
	}
	if _, err := l.last().txns.list(); err != nil {
		return l.fail("transaction index", err)
	}
	return nil
}

// spoil has the next append begin a segment, because of what this one's files hold.
func (l *Log) spoil(why error) {
	if !l.active.spoilt {
		l.active.spoilt = true
		l.logger.Error("a new segment is begun: to the active one nothing can be appended", l.field(), zap.String("segment", l.last().log.where()), errField(why))
	}
}

// copied is one batch of what a follower fetched.
type copied struct {
	h      batch.Header
	marker *batch.Marker
	at     int
}

func (l *Log) parseCopied(b []byte) ([]copied, error) {
	var out []copied
	next := l.end
	for at := 0; at < len(b); {
		h, err := batch.ParseHeader(b[at:])
		if errors.Is(err, batch.ErrShort) || (err == nil && h.Size() > len(b)-at) {
			break
		}
		if err != nil {
			return nil, err
		}
		whole := b[at : at+h.Size()]
		if err := batch.CheckCRC(whole); err != nil {
			return nil, &CopiedError{Offset: h.BaseOffset, Err: err}
		}
		if len(whole) > int(l.cfg.Load().SegmentBytes) {
			return nil, &BatchTooLargeError{Size: len(whole), Limit: int(l.cfg.Load().SegmentBytes)}
		}
		if h.LastOffsetDelta < 0 {
			return nil, &CorruptError{Position: int64(at), Why: fmt.Sprintf("last offset delta %d", h.LastOffsetDelta)}
		}
		if h.BaseOffset < next {
			return nil, &UnexpectedOffsetError{First: h.BaseOffset, LogEnd: next}
		}
		c := copied{h: h, at: at}
		if h.Attributes.Control() {
			m, ok, err := batch.ParseMarker(whole)
			if err != nil {
				return nil, err
			}
			if ok {
				c.marker = &m
			}
		}
		out = append(out, c)
		next = h.NextOffset()
		at += h.Size()
	}
	return out, nil
}

// prepare makes the active segment one that a batch of size bytes can be appended to: it makes the files of a log that
// has none, opens those of a log just started, or rolls.
func (l *Log) prepare(h batch.Header, size int, now int64) error {
	l.touched = true
	if len(l.segs) == 0 {
		if err := l.materialise(l.end, now); err != nil {
			return l.fail("making the files", err)
		}
	}
	if !l.active.open {
		if err := l.openActive(now); err != nil {
			return l.fail("opening the active segment", err)
		}
	}
	full := l.begunHalf
	if !full {
		var err error
		if full, err = l.mustRoll(h, size, now, 0, 0); err != nil {
			return l.fail("append", err)
		}
	}
	if full {
		// The new segment begins where the old one ends, also before a gap: recovery takes a hole between two segments
		// for a tail that was lost. Only a gap that no segment can hold is left between them.
		base := l.end
		if !fits(h.LastOffset(), base) {
			base = h.BaseOffset
		}
		if err := l.roll(base, now); err != nil {
			return l.fail("roll", err)
		}
	}
	return nil
}

// mustRoll says whether a batch has to go to a new segment, if pending bytes in n batches will have been appended before
// it.
func (l *Log) mustRoll(h batch.Header, size int, now int64, pending int64, n int) (bool, error) {
	a := &l.active
	seg := l.last()
	if a.spoilt {
		return true, nil
	}
	have := a.size + pending
	if have > int64(l.cfg.Load().SegmentBytes)-int64(size) || have+int64(size) > maxSegment || !fits(h.LastOffset(), seg.base) {
		return true, nil
	}
	if have == 0 {
		return false, nil
	}
	if !a.hasFirst && a.size > 0 {
		first, err := l.firstTimestamp(seg)
		if isContent(err) {
			l.spoil(err) // what cannot be read says no time, nor what the batches before the appended ones are
			return true, nil
		}
		if err != nil {
			return false, err
		}
		a.first, a.hasFirst = first, true
	}
	waited := now - a.created
	if a.hasFirst && a.first >= 0 {
		waited = h.MaxTimestamp - a.first
	}
	if waited > l.cfg.Load().rollMs()-a.jitter {
		return true, nil
	}
	offsets, err := seg.offsets.count()
	if err != nil {
		return false, err
	}
	times, err := seg.times.count()
	if err != nil {
		return false, err
	}
	// The time index keeps one place for the entry that closing the segment adds.
	return offsets+n >= a.offsetRoom || times+n >= a.timeRoom-1, nil
}

func (l *Log) firstTimestamp(seg *segment) (int64, error) {
	f, err := seg.log.acquire()
	if err != nil {
		return 0, err
	}
	defer seg.log.release()
	s := scanner{f: f, limit: l.active.size, buf: make([]byte, batch.HeaderSize)}
	h, err := s.header()
	if err == io.EOF {
		return batch.NoTimestamp, nil
	}
	if err != nil {
		return 0, fmt.Errorf("first batch of segment %d: %w", seg.base, err)
	}
	return h.MaxTimestamp, nil
}

// written takes note of a batch that stands at pos in the active segment.
func (l *Log) written(h batch.Header, m *batch.Marker, pos int64) error {
	l.note(h, m, pos)
	return l.spill(l.last())
}

// note is what written does in memory.
func (l *Log) note(h batch.Header, m *batch.Marker, pos int64) {
	seg := l.last()
	l.active.index(seg, h, pos, l.cfg.Load().IndexIntervalBytes)
	seg.note(h.BaseOffset, h.LastOffsetDelta, pos)
	l.end = h.NextOffset()
	if last, ok := l.epochs.Latest(); h.LeaderEpoch >= 0 && (!ok || h.LeaderEpoch > last) {
		l.epochs = l.epochs.Assign(h.LeaderEpoch, h.BaseOffset)
	}
	if h.HasProducer() {
		if done, ok := l.producers.Appended(h, m); ok && done.Aborted {
			seg.txns.add(done)
			l.dirDirty.Store(true) // its first entry makes the file
		}
	}
}

// spill writes to the files of a segment's indexes what was noted for them. Nothing vouches for it before it is there:
// where no descriptor is left it goes there later. An error is told of batches that the segment has: nothing goes on from there.
func (l *Log) spill(seg *segment) error {
	if err := seg.spill(); err != nil && !errors.Is(err, ErrNoDescriptor) {
		return l.giveUp("index", err)
	}
	return nil
}

// spill writes to the files of the indexes what has gathered for them.
func (s *segment) spill() error {
	if err := s.offsets.spill(); err != nil {
		return err
	}
	if err := s.times.spill(); err != nil {
		return err
	}
	return s.txns.save()
}

// index takes note of a batch at pos in what a and the segment's indexes say. An entry names the batch before which more
// than index.interval.bytes were appended since the last entry.
func (a *active) index(seg *segment, h batch.Header, pos int64, interval int32) {
	if pos == 0 {
		a.first, a.hasFirst = h.MaxTimestamp, true
	}
	if h.MaxTimestamp > a.maxTimestamp {
		a.maxTimestamp, a.maxOffset = h.MaxTimestamp, h.LastOffset()
	}
	if a.sinceIndex > int(interval) {
		seg.offsets.add(offsetEntry{relative: int32(h.LastOffset() - seg.base), position: int32(pos)})
		a.indexTime(seg)
		a.sinceIndex = 0
	}
	a.sinceIndex += h.Size()
	a.size = pos + int64(h.Size())
}

// indexTime adds the largest timestamp so far to the time index if it grew since the last entry.
func (a *active) indexTime(seg *segment) {
	if a.maxTimestamp <= a.indexed {
		return
	}
	a.indexed = a.maxTimestamp
	seg.times.add(timeEntry{timestamp: a.maxTimestamp, relative: int32(a.maxOffset - seg.base)})
}
