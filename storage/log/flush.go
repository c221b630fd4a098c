package log

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync/atomic"

	"millrace/storage/batch"
	"millrace/storage/disk"
)

// FlushedOffset is the offset below which everything is durable. It may be called concurrently.
func (l *Log) FlushedOffset() batch.Offset { return batch.Offset(l.flushed.Load()) }

// RecoveryPoint is where a recovery has to begin, at or below FlushedOffset: it is the base of a segment only when the
// segments before that one, with their indexes, are durable as a whole. It may be called concurrently.
func (l *Log) RecoveryPoint() batch.Offset {
	if faults.pointAhead {
		return l.View().end
	}
	return batch.Offset(l.point.Load())
}

// Flushes says whether flush.messages or flush.ms are set at all. It may be called concurrently.
func (l *Log) Flushes() bool {
	c := l.cfg.Load()
	return c.FlushMessages != math.MaxInt64 || c.FlushMs != math.MaxInt64
}

// FlushDue says whether flush.messages or flush.ms ask for a flush now. Where the clock was set back by flush.ms or more
// since the last flush, one is due: Kafka's scheduler then flushes nothing for as long as it was set back by. It may be
// called concurrently.
func (l *Log) FlushDue(now int64) bool {
	unflushed := int64(l.View().end) - l.flushed.Load()
	if unflushed <= 0 {
		return false
	}
	c := l.cfg.Load()
	waited := now - l.flushedAt.Load()
	if waited < 0 {
		waited = -waited // the clock was set back: how long it has been nobody knows
	}
	return unflushed >= c.FlushMessages || waited >= c.FlushMs
}

// FlushRolledDue says whether segments that are not written to any more wait to be synced, so that the recovery point
// can pass them. It may be called concurrently.
func (l *Log) FlushRolledDue() bool {
	return l.View().waits()
}

// waits says whether segments before the last one wait to be synced.
func (v *View) waits() bool {
	return len(v.segs) > 1 && batch.Offset(v.log.point.Load()) < v.segs[len(v.segs)-1].base
}

// Flush makes everything appended before the call durable. It may be called concurrently with everything: callers that
// wait while another's sync runs are served together by the next one.
func (l *Log) Flush() error {
	return l.flush(flushWritten, func(v *View) bool { return l.FlushedOffset() < v.end || v.waits() })
}

// FlushRolled makes the segments durable that are not written to any more, so that the recovery point comes to where the
// active one begins. That one is left to the system, as Kafka does after a roll. It may be called concurrently with
// everything.
func (l *Log) FlushRolled() error { return l.flush(flushRolled, (*View).waits) }

// scope is how much of a view is made durable.
type scope int

const (
	flushRolled  scope = iota // the segments that are not written to any more, as a whole
	flushWritten              // the active one too, but not its indexes: after a crash they are made anew
	flushWhole                // these as well, which is for a close
)

// flush makes durable what the newest view holds, if that is asked for still when it is its turn.
func (l *Log) flush(what scope, due func(*View) bool) error {
	if !due(l.View()) {
		return l.usable()
	}
	l.flushing.Lock()
	defer l.flushing.Unlock()
	if !due(l.View()) {
		return l.usable()
	}
	if l.onFlush == nil {
		return l.flushView(l.View(), what)
	}
	begun := l.now()
	err := l.flushView(l.View(), what)
	l.onFlush(l.now().Sub(begun))
	return err
}

// flushView makes durable what a view holds; the caller holds flushing.
func (l *Log) flushView(v *View, what scope) error {
	if err := l.usable(); err != nil {
		return err
	}
	if v.closed {
		return ErrClosed
	}
	if faults.indexFirst {
		for _, seg := range v.segs {
			if err := l.syncIndexes(seg); err != nil {
				return l.fail("flush", err)
			}
		}
		l.raiseFlushed(v, what)
	}
	if err := l.syncView(v, what); err != nil {
		return l.fail("flush", err)
	}
	// A file that was closed meanwhile was synced at that, and says no more whether it could be.
	if err := l.directory.Offline(); err != nil {
		return err
	}
	l.raiseFlushed(v, what)
	if what != flushRolled {
		l.flushedAt.Store(l.now().UnixMilli())
	}
	return nil
}

// syncView syncs the segments of a view, the names of the files, and the leader epochs.
func (l *Log) syncView(v *View, what scope) error {
	last := len(v.segs) - 1
	// Below a segment that is wholly durable all are; before the recovery point enters a segment, those below it are.
	from := last
	for from > 0 && !v.segs[from-1].synced.Load() {
		from--
	}
	for i := max(from, 0); i < last; i++ {
		if err := l.syncSegment(v.segs[i], true); err != nil {
			return err
		}
		v.segs[i].synced.Store(true)
	}
	if last >= 0 && what != flushRolled {
		if err := l.syncSegment(v.segs[last], what == flushWhole); err != nil {
			return err
		}
	} else if last >= 0 {
		// A recovery that begins with the segment begins with what was known of producers there.
		if err := l.syncSnapshot(v.segs[last]); err != nil {
			return err
		}
	}
	// The epochs go before the recovery point passes their batches: behind it, recovery finds them in the batches.
	if err := l.storeEpochs(v); err != nil {
		return err
	}
	return l.syncNames()
}

// raiseFlushed takes note that of a view so much is durable.
func (l *Log) raiseFlushed(v *View, what scope) {
	l.pointMu.Lock()
	defer l.pointMu.Unlock()
	// Where the view's last segment begins: the ones before it are durable as a whole.
	base := batch.Offset(0)
	if n := len(v.segs); n > 0 {
		base = v.segs[n-1].base
	}
	end := base
	if what != flushRolled && !faults.rolledAhead {
		end = v.end
	}
	if faults.rolledAhead {
		base, end = v.end, v.end
	}
	l.flushed.Store(max(l.flushed.Load(), int64(end)))
	for len(l.begun) > 0 && (l.begun[0] <= base || l.begun[0] < end) {
		l.begun = l.begun[1:] // the view has it, and the one before it was synced as a whole
	}
	// Where the view ends a segment may have begun since: its own last one was synced while it was written to, without
	// its indexes. A close syncs these too, under the owner's lock: what it finds begun there has come to nothing.
	if len(l.begun) > 0 && l.begun[0] == end && what != flushWhole && !faults.pointPasses {
		end = base
	}
	l.point.Store(max(l.point.Load(), int64(end)))
}

// setFlushed says that everything below an offset is durable, and nothing else.
func (l *Log) setFlushed(o batch.Offset) {
	l.pointMu.Lock()
	defer l.pointMu.Unlock()
	l.flushed.Store(int64(o))
	l.point.Store(int64(o))
	l.begun = nil
}

// lowerFlushed says that nothing at or behind an offset counts as durable.
func (l *Log) lowerFlushed(o batch.Offset) {
	l.pointMu.Lock()
	defer l.pointMu.Unlock()
	l.flushed.Store(min(l.flushed.Load(), int64(o)))
	l.point.Store(min(l.point.Load(), int64(o)))
}

// cutFlushed is lowerFlushed where the log was cut at an offset.
func (l *Log) cutFlushed(o batch.Offset) {
	l.lowerFlushed(o)
	l.pointMu.Lock()
	defer l.pointMu.Unlock()
	l.begun = nil // they may be gone, and no flush is under way that does not know those that are left
}

// beginsAt says that a segment is to begin at an offset, and whether the recovery point is there already, so that the
// segment before it has to be durable as a whole.
func (l *Log) beginsAt(o batch.Offset) bool {
	l.pointMu.Lock()
	defer l.pointMu.Unlock()
	if n := len(l.begun); n == 0 || l.begun[n-1] != o { // it may have been said before, and come to nothing
		l.begun = append(l.begun, o)
	}
	return l.point.Load() >= int64(o)
}

// beginsNot says that the segment that was to begin at an offset does not.
func (l *Log) beginsNot(o batch.Offset) {
	l.pointMu.Lock()
	defer l.pointMu.Unlock()
	if n := len(l.begun); n > 0 && l.begun[n-1] == o {
		l.begun = l.begun[:n-1]
	}
}

// syncNames makes durable which files there are, and whose they are; the caller holds flushing.
func (l *Log) syncNames() error {
	// One after the other, up to the first error: beside a lack of descriptors an error of the disk would not be seen.
	if err := settle(&l.metaDirty, func() error { return l.syncFile(l.dir + "/" + metadataFile) }); err != nil {
		return err
	}
	if err := settle(&l.dirDirty, func() error { return l.syncDir(l.dir) }); err != nil {
		return err
	}
	return settle(&l.madeDirty, func() error { return l.syncDir(parent(l.dir)) })
}

// settle does what is to be done where something is dirty. What becomes dirty meanwhile stays so, as does what could not be
// done.
func settle(dirty *atomic.Bool, do func() error) error {
	if !dirty.Swap(false) {
		return nil
	}
	err := do()
	if err != nil && !faults.forgetDirty {
		dirty.Store(true)
	}
	return err
}

func (l *Log) syncDir(dir string) error {
	if faults.skipDirSync && dir == l.dir {
		return nil
	}
	if err := l.fs.SyncDir(dir); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// storeEpochs writes the epoch file if it does not say what the view does; syncNames makes its name durable. The caller
// holds flushing.
func (l *Log) storeEpochs(v *View) error {
	if len(v.segs) == 0 || v.epochs.Equal(l.stored) || faults.skipEpochs {
		return nil
	}
	if err := disk.Put(l.fs, l.dir, epochFile, v.epochs.Encode()); err != nil {
		return fmt.Errorf("write leader epochs: %w", err)
	}
	l.dirDirty.Store(true)
	l.stored = v.epochs
	return nil
}

// syncSegment syncs a segment, and for one that is not written to any more its indexes and the snapshot at its base.
func (l *Log) syncSegment(seg *segment, indexes bool) error {
	f, err := seg.log.acquire()
	if errors.Is(err, errRetired) || errors.Is(err, fs.ErrNotExist) {
		return nil // removed in the meantime
	}
	if err != nil {
		return err
	}
	if !faults.skipSync {
		err = seg.log.sync(f)
	}
	seg.log.release()
	if err != nil {
		return fmt.Errorf("sync segment %d: %w", seg.base, err)
	}
	if err := l.syncSnapshot(seg); err != nil || !indexes {
		return err
	}
	if err := l.syncIndexes(seg); err != nil {
		return err
	}
	return l.syncTxns(seg)
}

// syncIndexes syncs the offset and the time index of a segment.
func (l *Log) syncIndexes(seg *segment) error {
	for _, path := range []string{seg.offsets.path, seg.times.path} {
		if err := l.syncFile(path); err != nil {
			return err
		}
	}
	return nil
}

// syncTxns makes durable which transactions were aborted in a segment.
func (l *Log) syncTxns(seg *segment) error {
	if err := seg.txns.save(); err != nil {
		return err
	}
	return l.syncFile(seg.txns.path)
}

// syncSnapshot syncs the producers' snapshot at a segment's base, which was written once, before the segment was begun.
func (l *Log) syncSnapshot(seg *segment) error {
	if seg.snapshotSynced.Load() {
		return nil
	}
	if err := l.syncFile(l.dir + "/" + fileName(seg.base, suffixSnapshot)); err != nil {
		return err
	}
	seg.snapshotSynced.Store(true)
	return nil
}

// syncFile syncs a file that may not be there.
func (l *Log) syncFile(path string) error {
	f, err := l.fs.Open(path, disk.Write)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}

func parent(dir string) string {
	for i := len(dir) - 1; i > 0; i-- {
		if dir[i] == '/' {
			return dir[:i]
		}
	}
	return "."
}
