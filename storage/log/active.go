package log

import (
	"errors"
	"fmt"

	"millrace/storage/batch"
	"millrace/storage/disk"
)

// materialise makes the directory and the first segment.
func (l *Log) materialise(base batch.Offset, now int64) error {
	if !l.dirMade {
		if err := l.fs.MkdirAll(l.dir); err != nil {
			return err
		}
		l.dirMade = true
		l.madeDirty.Store(true)
	}
	if l.topicID != ([16]byte{}) {
		if err := l.writeMetadata(); err != nil {
			return err
		}
	}
	return l.begin(base, now)
}

// begin makes a new segment and makes it the active one. Before it there may be none. Where no descriptor is left for its
// indexes its file stays, and nothing may be appended before it is the active one: after a crash it would be taken for where
// the log ends.
func (l *Log) begin(base batch.Offset, now int64) error {
	if l.begunHalf && l.halfBase != base {
		if err := l.dropHalf(); err != nil {
			return err
		}
	}
	seg := l.newSegment(base, false)
	f, err := l.fs.Open(seg.log.path, disk.Write|disk.Create|disk.Truncated)
	if err != nil {
		return err
	}
	l.begunHalf, l.halfBase = true, base
	seg.log.created(f)
	if err := l.startActive(seg, 0, 0, 0, now); err != nil {
		seg.retire()
		l.dirDirty.Store(true)
		l.begunHalf = !faults.passHalf
		return err
	}
	l.begunHalf = false
	l.segs = append(l.segs[:len(l.segs):len(l.segs)], seg)
	l.dirDirty.Store(true)
	return nil
}

// dropHalf removes, durably, what is there of a segment that was not begun.
func (l *Log) dropHalf() error {
	if !l.begunHalf {
		return nil
	}
	for _, suffix := range []string{suffixTimeIndex, suffixIndex, suffixLog} {
		if err := l.removeIfThere(fileName(l.halfBase, suffix)); err != nil {
			return err
		}
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	l.begunHalf = false
	l.beginsNot(l.halfBase)
	return nil
}

// startActive makes a segment the one that is written to, with so many bytes and index entries. Every file is open before
// anything is changed: nothing is where no descriptor is left.
func (l *Log) startActive(seg *segment, size int64, offsets, times int, now int64) error {
	c := l.cfg.Load()
	room := c.IndexBytes
	if l.indexBytes > 0 {
		room = l.indexBytes
	}
	next := active{
		open: true, seg: seg, size: size, maxTimestamp: batch.NoTimestamp, maxOffset: seg.base, indexed: batch.NoTimestamp,
		created: now, jitter: l.jitter(seg.base),
		offsetRoom: seg.offsets.roomFor(room), timeRoom: seg.times.roomFor(room),
	}
	offsetFile, err := seg.offsets.create(offsets)
	if err != nil {
		return err
	}
	defer offsetFile.Close()
	timeFile, err := seg.times.create(times)
	if err != nil {
		return err
	}
	defer timeFile.Close()
	if c.Preallocate {
		f, err := seg.log.acquire()
		if err != nil {
			return err
		}
		err = f.Reserve(int64(c.SegmentBytes))
		seg.log.release()
		if err != nil {
			return err
		}
		next.reserved = true
	}
	if err := seg.offsets.begin(offsetFile, offsets, next.offsetRoom); err != nil {
		return err
	}
	if err := seg.times.begin(timeFile, times, next.timeRoom); err != nil {
		return err
	}
	seg.synced.Store(false) // it may have been closed before, for a segment that was not begun
	seg.log.hold()
	l.active, l.indexBytes = next, 0
	return nil
}

// openActive opens the active segment of a log that was not written to since Open. One behind which a segment was begun in
// part stays closed: a recovery may begin with that, and not look at the indexes before it. Behind one that is torn another
// segment begins.
func (l *Log) openActive(now int64) error {
	if l.active.torn {
		return l.roll(l.end, now)
	}
	if l.begunHalf {
		return nil
	}
	seg := l.last()
	spoilt := l.active.spoilt
	// Of a segment whose aborted transactions nobody can tell a read_committed reader is given nothing.
	_, bad := seg.txns.list()
	switch {
	case faults.trustTxns:
		bad = nil
	case bad != nil && !isContent(bad):
		return bad
	case bad != nil && l.active.size == 0:
		if bad = seg.txns.reset(); bad != nil {
			return bad
		}
	}
	if err := l.openIndexes(seg, now); err != nil {
		return err
	}
	if l.active.spoilt = l.active.spoilt || spoilt; bad != nil {
		l.spoil(bad)
	}
	return nil
}

// openIndexes makes a segment the one that is written to, with the indexes that it has or, where these are not what they can
// be, such as are made anew.
func (l *Log) openIndexes(seg *segment, now int64) error {
	offsets, times, newest, err := l.checkIndexes(seg, l.active.size)
	if isMissing(err) || errors.As(err, new(*IndexError)) {
		l.logger.Warn("index is rebuilt", l.field(), errField(err))
		return l.rebuild(seg, l.active.size, now, true)
	}
	if err != nil {
		return err
	}
	if err := l.startActive(seg, l.active.size, offsets, times, now); err != nil {
		return err
	}
	if newest.timestamp >= 0 {
		l.active.maxTimestamp, l.active.maxOffset, l.active.indexed = newest.timestamp, seg.base+batch.Offset(newest.relative), newest.timestamp
	}
	return nil
}

// checkIndexes looks at the ends of a segment's indexes, which is where what a crash left would show.
func (l *Log) checkIndexes(seg *segment, size int64) (offsets, times int, newest timeEntry, err error) {
	newest.timestamp = batch.NoTimestamp
	if offsets, err = seg.offsets.count(); err != nil {
		return 0, 0, newest, err
	}
	if times, err = seg.times.count(); err != nil {
		return 0, 0, newest, err
	}
	if e, ok, err := seg.offsets.last(); err != nil {
		return 0, 0, newest, err
	} else if ok && (e.relative < 0 || e.position <= 0 || int64(e.position) >= size) {
		return 0, 0, newest, &IndexError{File: seg.offsets.path, Why: fmt.Sprintf("last entry points to position %d of %d", e.position, size)}
	}
	if e, ok, err := seg.times.last(); err != nil {
		return 0, 0, newest, err
	} else if ok {
		if e.relative < 0 || e.timestamp < 0 || (seg.base+batch.Offset(e.relative) >= l.end && seg == l.last()) {
			return 0, 0, newest, &IndexError{File: seg.times.path, Why: fmt.Sprintf("last entry is time %d at relative offset %d", e.timestamp, e.relative)}
		}
		newest = e
	}
	return offsets, times, newest, nil
}

// closeActive ends the writing to the active segment: its indexes get their last entry and are cut to their size. Where no
// descriptor is left it stays the active one.
func (l *Log) closeActive(sync bool) error {
	a := &l.active
	if !a.open {
		return nil
	}
	seg := a.seg
	offsetFile, err := seg.offsets.open()
	if err != nil {
		return err
	}
	defer offsetFile.Close()
	timeFile, err := seg.times.open()
	if err != nil {
		return err
	}
	defer timeFile.Close()
	var reserved disk.File
	if a.reserved {
		if reserved, err = seg.log.acquire(); err != nil {
			return err
		}
		defer seg.log.release()
	}
	a.indexTime(seg)
	if err := seg.offsets.finish(offsetFile, sync); err != nil {
		return err
	}
	if err := seg.times.finish(timeFile, sync); err != nil {
		return err
	}
	if reserved != nil {
		if err := reserved.Truncate(a.size); err != nil { // its bytes stay; what was reserved behind them goes
			return err
		}
	}
	seg.size = a.size
	seg.largest.Store(a.maxTimestamp)
	a.open = false
	seg.log.unhold()
	return nil
}

// Roll closes the active segment and begins a new one, unless the active one is empty.
func (l *Log) Roll() error {
	if err := l.ready(); err != nil {
		return err
	}
	if len(l.segs) == 0 || l.active.size == 0 {
		return nil
	}
	now := l.now().UnixMilli()
	l.touched = true
	if !l.active.open {
		if err := l.openActive(now); err != nil {
			return l.fail("opening the active segment", err)
		}
	}
	if err := l.roll(l.end, now); err != nil {
		return l.fail("roll", err)
	}
	l.publish()
	return nil
}

// roll begins a segment at base. The old one is not synced here, under the partition's lock: the next Flush does it. But
// where it is flushed up to its end, its indexes are.
func (l *Log) roll(base batch.Offset, now int64) error {
	if l.active.size == 0 && l.last().base == base {
		return nil
	}
	// A recovery that begins with the new segment does not look at the old one.
	sync := l.beginsAt(base) && !faults.pointPasses
	err := l.exchangeActive(base, now, sync)
	if (errors.Is(err, ErrNoDescriptor) || isContent(err)) && l.active.torn {
		if !l.begunHalf {
			l.beginsNot(base) // and the snapshot says the truth
		}
		return err
	}
	if (errors.Is(err, ErrNoDescriptor) || isContent(err)) && !l.begunHalf {
		// A snapshot where no segment begins says that the log was closed there. A flush that is under way may raise the
		// recovery point to it without another look at the directory: it is gone for good before that.
		if drop := l.dropSnapshots(func(o batch.Offset) bool { return o == base && !l.isBase(o) }); drop != nil {
			return drop
		}
		if drop := l.fs.SyncDir(l.dir); drop != nil {
			return drop
		}
		l.beginsNot(base)
	}
	return err
}

// exchangeActive closes the active segment and begins one at base. Where no descriptor is left, or something else stands
// under the new one's names, the old one is opened again at the next append.
func (l *Log) exchangeActive(base batch.Offset, now int64, sync bool) error {
	seg := l.last()
	if err := l.closeActive(sync); err != nil {
		return err
	}
	seg.recent.Store(nil)
	if sync {
		if err := l.syncTxns(seg); err != nil {
			return err
		}
		seg.synced.Store(true)
	}
	due := l.snapshotDue(base)
	if due {
		if err := l.putSnapshot(base, sync); err != nil {
			return err
		}
	}
	if err := l.begin(base, now); err != nil {
		return err
	}
	l.snapped = due
	l.last().snapshotSynced.Store(sync)
	return nil
}
