package log

import (
	"fmt"
	"io"

	"millrace/storage/batch"
	"millrace/storage/disk"
)

// Truncate removes the records at and behind an offset. Batches are not split: one that holds the offset goes whole. The
// log then ends where its last batch does, as it will after the next start, and not in the gap a cleaning may have left
// before the offset. An offset at or behind the log end changes nothing.
//
// It is durable when it returns: were a removed batch to come back behind new ones after a crash, nothing would tell it
// from their continuation.
func (l *Log) Truncate(to batch.Offset) error {
	if err := l.ready(); err != nil {
		return err
	}
	if to < 0 {
		return fmt.Errorf("truncate to %d: %w", to, ErrOffsetOutOfRange)
	}
	if to >= l.end {
		return nil
	}
	if len(l.segs) == 0 || to < l.segs[0].base {
		return l.TruncateFully(to)
	}
	l.flushing.Lock()
	defer l.flushing.Unlock()
	return l.cutAt(func() error { return l.truncate(to) })
}

// cutAt cuts the log by a function. What cannot be opened for it before anything was cut leaves the log as it is. After
// that it cannot be refused: descriptors are put by for it first.
func (l *Log) cutAt(cut func() error) error {
	if len(l.segs) > 0 {
		if err := l.fs.spare(l.segs[0].log.path); err != nil {
			return l.fail("truncation", err)
		}
	}
	defer l.fs.settled()
	l.cutting.Store(true)
	before := l.cuts
	err := cut()
	l.cutting.Store(false)
	switch {
	case err == nil:
		return nil
	case l.cuts == before:
		return l.fail("truncation", err)
	}
	return l.giveUp("truncation", err)
}

func (l *Log) truncate(to batch.Offset) error {
	v := l.View()
	i := v.segmentAt(to)
	seg := l.segs[i]
	at, ok, err := seg.find(to, v.sizeOf(i))
	if err != nil {
		return err
	}
	pos := v.sizeOf(i)
	if ok {
		pos = at.pos
	}
	// An index that cannot be read leads nowhere.
	near, _, _ := seg.offsets.floor(func(e offsetEntry) bool { return int64(e.position) < pos })
	end, _, _, err := seg.endOf(pos, near)
	if err != nil {
		return err
	}
	if err := l.lowerTo(end); err != nil {
		return err
	}
	l.touched = true
	// The indexes' last entries go to their files, so that the new segment finds them all there.
	held := l.last()
	if err := l.closeActive(false); err != nil {
		return err
	}
	if err := seg.txns.save(); err != nil {
		return err
	}
	if err := l.dropHalf(); err != nil {
		return err
	}
	l.cuts++
	l.fs.commit()
	held.recent.Store(nil)
	behind := l.segs[i+1:]

	// Readers first: who is told from now on that it was overtaken finds a view that ends before the cut.
	l.segs = l.segs[: i+1 : i+1]
	l.active = active{size: pos, maxTimestamp: batch.NoTimestamp}
	l.end = end
	l.start = min(l.start, end)
	l.hw, l.hwAt = min(l.hw, end), place{pos: -1}
	l.epochs = l.epochs.TruncateFromEnd(end)
	l.publish() // with the producers of before: the last stable offset may only be too low meanwhile

	// The newest goes first: a crash in between leaves a log without a hole.
	for j := len(behind) - 1; j >= 0; j-- {
		if err := l.dropSegment(behind[j]); err != nil {
			return err
		}
	}
	if !faults.keepSnapshots {
		if err := l.dropSnapshots(func(o batch.Offset) bool { return o > end }); err != nil {
			return err
		}
	}
	next, err := l.cutSegment(seg, pos)
	if err != nil {
		return err
	}
	l.segs = append(l.segs[:i:i], next)
	if err := l.resume(next, pos, end); err != nil {
		return err
	}
	l.dirDirty.Store(false)
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	var report Report
	from, err := l.loadProducers(l.start, end, l.segs[0].base, &report)
	if err != nil {
		return err
	}
	l.cutFlushed(end)
	next.size = pos // for replay, which reads segments that are not written to
	for j := range l.segs {
		if err := l.replay(j, from, &report); err != nil {
			return err
		}
	}
	l.producers.HighWatermark(l.hw)
	l.snapped = l.end > l.start
	l.hwAt = l.placeOf(l.hw)
	l.publish()
	if next.log != seg.log {
		seg.log.retire()
	}
	seg.retireIndexes()
	if err := l.storeEpochs(l.View()); err != nil {
		return err
	}
	return l.syncNames()
}

// lowerTo stores a recovery point before the log is cut below the present one.
//
// It is also where a cleaning's checkpoint would be passed. What was cleaned was flushed, but the checkpoints of a log that
// Apache Kafka wrote need not say so.
func (l *Log) lowerTo(end batch.Offset) error {
	if end >= l.FlushedOffset() && end >= l.CleanedTo() {
		return nil
	}
	// First here, where the checkpoints are made from, then there.
	l.lowerFlushed(end)
	l.lowerCleaned(end)
	if l.lower != nil {
		if err := l.lower(end); err != nil {
			return fmt.Errorf("recovery point: %w", err)
		}
	}
	return nil
}

// cutSegment makes the segment that holds the first pos bytes of seg. Where readers may have been given more of them,
// the kept bytes go to a new file: a socket may hold the pages of the old one, and cutting a file clears the rest of a
// page.
func (l *Log) cutSegment(seg *segment, pos int64) (*segment, error) {
	next := l.newSegment(seg.base, seg.txns.exists())
	if given := seg.endAt(pos); !given || faults.overwrite {
		f, err := seg.log.acquire()
		if err != nil {
			return nil, err
		}
		defer seg.log.release()
		if !faults.keepTail {
			if err := f.Truncate(pos); err != nil {
				return nil, fmt.Errorf("cut segment: %w", err)
			}
		}
		if err := seg.log.sync(f); err != nil {
			return nil, fmt.Errorf("sync segment: %w", err)
		}
		next.log = seg.log
		next.given.Store(pos)
		return next, nil
	}
	if err := l.copyHead(seg, pos); err != nil {
		return nil, err
	}
	// Readers of the view before may still open the file by its name, which is the new one's: its bytes count as given.
	next.given.Store(pos)
	return next, nil
}

// copyHead puts a file with the first pos bytes of a segment in the segment's place. The name it is written under is one
// that a start removes.
func (l *Log) copyHead(seg *segment, pos int64) error {
	from, err := seg.log.acquire()
	if err != nil {
		return err
	}
	defer seg.log.release()
	path := l.dir + "/" + fileName(seg.base, suffixLog)
	to, err := l.fs.Open(path+suffixCut, disk.Write|disk.Create|disk.Truncated)
	if err != nil {
		return fmt.Errorf("make segment: %w", err)
	}
	defer to.Close()
	buf := make([]byte, min(pos, wholeScan))
	for at := int64(0); at < pos; {
		n, err := from.ReadAt(buf[:min(int64(len(buf)), pos-at)], at)
		if n == 0 {
			if err == nil || err == io.EOF {
				err = &CorruptError{Position: at, Why: "the segment ends", Err: io.ErrUnexpectedEOF}
			}
			return fmt.Errorf("copy segment: %w", err)
		}
		if _, err := to.WriteAt(buf[:n], at); err != nil {
			return fmt.Errorf("copy segment: %w", err)
		}
		at += int64(n)
	}
	if err := to.Sync(); err != nil {
		return fmt.Errorf("sync segment: %w", err)
	}
	return l.fs.Rename(path+suffixCut, path)
}

// resume makes a segment that was cut the active one: it keeps the index entries below the cut and finds the largest
// timestamp of what is left.
func (l *Log) resume(seg *segment, pos int64, end batch.Offset) error {
	// Entries are followed by zeros where the file has the length of one that is written to.
	offsets, err := seg.offsets.lowerBound(func(e offsetEntry) bool { return e.position > 0 && int64(e.position) < pos })
	if err != nil {
		return err
	}
	times, err := seg.times.lowerBound(func(e timeEntry) bool { return e != (timeEntry{}) && seg.base+batch.Offset(e.relative) < end })
	if err != nil {
		return err
	}
	if err := seg.txns.truncate(end); err != nil {
		return err
	}
	f, err := seg.log.acquire()
	if err != nil {
		return err
	}
	defer seg.log.release()
	if err := l.startActive(seg, pos, offsets, times, l.now().UnixMilli()); err != nil {
		return err
	}
	a := &l.active
	if e, ok, err := seg.times.last(); err != nil {
		return err
	} else if ok {
		a.maxTimestamp, a.maxOffset, a.indexed = e.timestamp, seg.base+batch.Offset(e.relative), e.timestamp
	}
	from := int64(0)
	if e, ok, err := seg.offsets.last(); err != nil {
		return err
	} else if ok {
		from = int64(e.position)
	}
	s := scanner{f: f, pos: from, limit: pos, buf: make([]byte, smallScan)}
	for {
		h, err := s.header()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.MaxTimestamp > a.maxTimestamp {
			a.maxTimestamp, a.maxOffset = h.MaxTimestamp, h.LastOffset()
		}
		if s.pos == 0 {
			a.first, a.hasFirst = h.MaxTimestamp, true
		}
		a.sinceIndex += h.Size()
		s.step(h)
	}
}

// TruncateFully removes everything: the log is then empty and starts, and ends, at an offset.
func (l *Log) TruncateFully(start batch.Offset) error {
	if err := l.ready(); err != nil {
		return err
	}
	if start < 0 {
		return fmt.Errorf("truncate fully, to start at %d: %w", start, ErrOffsetOutOfRange)
	}
	l.flushing.Lock()
	defer l.flushing.Unlock()
	return l.cutAt(func() error { return l.truncateFully(start) })
}

func (l *Log) truncateFully(start batch.Offset) error {
	// Everything goes, on purpose: whatever a crash on the way leaves is no loss.
	if err := l.lowerTo(0); err != nil {
		return err
	}
	made := len(l.segs) > 0
	behind := l.segs
	if made && l.active.open {
		if err := l.closeActive(false); err != nil {
			return err
		}
	}
	if err := l.dropHalf(); err != nil {
		return err
	}
	l.cuts++
	l.fs.commit()
	l.touched = true
	l.segs, l.active = nil, active{}
	l.start, l.end, l.hw, l.hwAt = start, start, start, place{pos: -1}
	l.epochs = l.epochs.TruncateFromEnd(0)
	l.producers.Clear(start)
	l.snapped = false
	l.publish()
	for j := len(behind) - 1; j >= 0; j-- {
		if err := l.dropSegment(behind[j]); err != nil {
			return err
		}
	}
	if err := l.dropSnapshots(func(batch.Offset) bool { return true }); err != nil {
		return err
	}
	if made {
		if err := l.begin(start, l.now().UnixMilli()); err != nil {
			return err
		}
		// The recovery point is the start now: what it says of the log has to be durable.
		l.dirDirty.Store(true)
		if err := l.syncNames(); err != nil {
			return err
		}
	}
	l.setFlushed(start)
	l.hwAt = l.placeOf(l.hw)
	l.publish()
	if !made {
		return nil // what a crash leaves is a log without records all the same, and names wait for a flush
	}
	if err := l.storeEpochs(l.View()); err != nil {
		return err
	}
	return l.syncNames()
}
