package log

import (
	"fmt"
	"slices"

	"go.uber.org/zap"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/producer"
)

// openClean opens a log that was closed in order: the snapshot that closing it left says where it ends, so nothing is read
// but that snapshot and what stands at the end of the newest segment: somebody may have changed the file since.
func (l *Log) openClean(o Options, found []segmentFiles, report *Report) error {
	seg := l.last()
	point := o.RecoveryPoint
	known := l.closedAt(point, seg)
	end, pos, err := l.tail(seg, report)
	if err != nil && !isCorrupt(err) {
		return err
	}
	if l.closedBefore(seg, point) || known && err != nil && end >= point && !faults.trustClose {
		return l.goOn(o, found, report)
	}
	for i, f := range found {
		if (l.segs[i].size > 0 || l.segs[i] != seg) && !(f.index && f.time) {
			if err := l.makeIndexes(l.segs[i], report); err != nil {
				return l.damaged(err, l.segs[i])
			}
		}
	}
	for _, s := range l.segs[:len(l.segs)-1] {
		s.synced.Store(true)
	}
	l.active = active{size: seg.size, maxTimestamp: batch.NoTimestamp, maxOffset: seg.base}
	if faults.trustClose && known {
		end, err = point, nil
	}
	switch {
	case err == nil && (end <= point || !known):
		l.end = end
	case !known:
		return l.damaged(err, seg)
	case end < point:
		return l.openTorn(seg, end, pos, point, err, report)
	default:
		return l.goOn(o, found, report)
	}
	if l.end < point {
		report.Lost = point - l.end
		if err := seg.txns.truncate(l.end); err != nil && !isContent(err) {
			return l.fail("transaction index", err)
		}
		// What is appended now is not flushed, whatever the checkpoint says of its offsets.
		if l.lower != nil {
			if err := l.lower(l.end); err != nil {
				return l.fail("recovery point", err)
			}
		}
	}
	at, err := l.loadProducers(l.start, l.end, l.segs[0].base, report)
	if err != nil {
		return err
	}
	if at < l.end {
		for i := range l.segs {
			if err := l.replay(i, at, report); err != nil {
				return l.damaged(err, l.segs[i])
			}
		}
	}
	l.setFlushed(l.end)
	if seg.base > point && len(l.segs) > 1 && l.raise != nil {
		// A checkpoint that was lost, or is of another time. There may be holes behind what it says, which the next start
		// would take for a lost tail, were it one after a crash: what is appended now would go with all behind them.
		if err := l.raise(l.end, func() batch.Offset { return l.end }); err != nil {
			return l.fail("recovery point", err)
		}
	}
	return nil
}

// goOn opens a log that has more than it had when it was closed in order.
func (l *Log) goOn(o Options, found []segmentFiles, report *Report) error {
	seg := l.last()
	l.logger.Warn("log goes on behind where it was closed in order: what follows is read as after a crash", l.field(), zap.Int64("offset", int64(o.RecoveryPoint)), zap.String("segment", seg.log.path), zap.Int64("bytes", seg.size))
	return l.recover(o, found, true, report)
}

// closedBefore says whether the log was closed in order at an offset in front of its newest segment: that has come since. Were
// it gone on with, a kill would cut what is appended to it, behind a hole that a recovery takes for a lost tail. A segment
// that a roll has begun has a snapshot, and so has the one in which a log was closed whose checkpoint is of an earlier time.
func (l *Log) closedBefore(seg *segment, point batch.Offset) bool {
	n := len(l.snapshots)
	return n > 0 && l.snapshots[n-1] == point && point < seg.base && point > l.segs[0].base
}

// closedAt says whether the log was closed in order at an offset, with this its newest segment. The checkpoint and the snapshot say
// the same of it. Where a newer segment was taken away the snapshot of its base is left, or its index.
func (l *Log) closedAt(point batch.Offset, seg *segment) bool {
	n := len(l.snapshots)
	return n > 0 && l.snapshots[n-1] == point && point >= seg.base && l.missing <= seg.base && (n < 2 || l.snapshots[n-2] <= seg.base)
}

// openTorn opens a log that was closed in order at an offset to which its newest segment does not lead any more: what was flushed
// cannot be reached. It keeps its offsets, and its file is left as it is; the first append begins another segment. Nothing is
// written before that: a start may be cut short, or find no room. The snapshot at the log end stays meanwhile, also where the log
// starts there: it alone tells the next start, in order or not, that what is missing is no lost tail of a crash.
func (l *Log) openTorn(seg *segment, end batch.Offset, pos int64, point batch.Offset, why error, report *Report) error {
	l.end = point
	l.active = active{size: seg.size, maxTimestamp: batch.NoTimestamp, maxOffset: seg.base, torn: true}
	report.Damage = append(report.Damage, Damage{Segment: seg.log.path, Position: pos, Offset: end, Reason: fmt.Errorf("of the log that was closed at offset %d, %d bytes are left here: %w", point, seg.size-pos, why)})
	at, err := l.loadProducers(l.start, l.end, l.segs[0].base, report)
	if err != nil {
		return err
	}
	if at < l.end && !slices.Contains(l.snapshots, l.end) {
		l.touched = true // it could not be read: a close is to leave another
	}
	l.setFlushed(l.end)
	return nil
}

// recoverTorn opens a log that a start after a stop in order found torn, or would have found so, had it not been killed before
// it was written to again. It says whether that is so. Whoever has written to the segment since has made its indexes as long as
// they may get.
func (l *Log) recoverTorn(point batch.Offset, report *Report) (bool, error) {
	seg := l.last()
	if !l.closedAt(point, seg) {
		return false, nil
	}
	offset, some, err := seg.offsets.last()
	if err == nil && some && offset.position == 0 {
		return false, nil
	}
	if err == nil {
		var newest timeEntry
		if newest, some, err = seg.times.last(); err == nil && some && newest == (timeEntry{}) {
			return false, nil
		}
	}
	if isContent(err) || isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	end, pos, err := l.tail(seg, report)
	switch {
	case err == nil || isCorrupt(err) && end >= point:
		return false, nil
	case !isCorrupt(err):
		return false, err
	}
	return true, l.openTorn(seg, end, pos, point, err, report)
}

// tail is where a segment's batches end, by the newest entry of its index: of a small one that is not asked, one read has all.
func (l *Log) tail(seg *segment, report *Report) (end batch.Offset, pos int64, err error) {
	var from offsetEntry
	if seg.size > smallScan {
		if from, _, err = seg.offsets.last(); err != nil && !isContent(err) && !isMissing(err) {
			return seg.base, 0, err
		}
	}
	end, pos, read, err := seg.endOf(seg.size, from)
	report.Scanned += read
	return end, pos, err
}

// putSnapshot is writeSnapshot, but where the snapshot says how a torn log was closed it is there, whole, at any time.
func (l *Log) putSnapshot(at batch.Offset, sync bool) error {
	if !l.active.torn || !slices.Contains(l.snapshots, at) {
		return l.writeSnapshot(at, sync)
	}
	l.dirDirty.Store(true)
	if err := disk.Put(l.fs, l.dir, fileName(at, suffixSnapshot), producer.EncodeSnapshot(l.producers.Snapshot())); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}
