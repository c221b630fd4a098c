package log

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

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

// FlushDue says whether flush.messages or flush.ms ask for a flush now. It may be called concurrently.
func (l *Log) FlushDue(now int64) bool {
	unflushed := int64(l.View().end) - l.flushed.Load()
	if unflushed <= 0 {
		return false
	}
	c := l.cfg.Load()
	return unflushed >= c.FlushMessages || now-l.flushedAt.Load() >= c.FlushMs
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
	v := l.View()
	if l.FlushedOffset() >= v.end && !v.waits() {
		return l.directory.Offline()
	}
	l.flushing.Lock()
	defer l.flushing.Unlock()
	if l.FlushedOffset() >= v.end && !v.waits() {
		return l.directory.Offline()
	}
	if l.onFlush == nil {
		return l.flushView(l.View(), false)
	}
	begun := l.now()
	err := l.flushView(l.View(), false)
	l.onFlush(l.now().Sub(begun))
	return err
}

// flushView syncs what a view holds; the caller holds flushing. all also syncs the active segment's indexes, which is
// for a close: after a crash they are made anew.
func (l *Log) flushView(v *View, all bool) error {
	if err := l.directory.Offline(); err != nil {
		return err
	}
	if v.closed {
		return ErrClosed
	}
	// Below a segment that is wholly durable all are; before the recovery point enters a segment, those below it are.
	from := len(v.segs)
	for from > 0 && !v.segs[from-1].synced.Load() {
		from--
	}
	for i := from; i < len(v.segs); i++ {
		closed := i < len(v.segs)-1
		if err := l.syncSegment(v.segs[i], all || closed); err != nil {
			return l.fail("flush", err)
		}
		if closed {
			v.segs[i].synced.Store(true)
		}
	}
	if err := l.syncNames(); err != nil {
		return l.fail("flush", err)
	}
	// The epochs go before the recovery point passes their batches: behind it, recovery finds them in the batches.
	if err := l.storeEpochs(v); err != nil {
		return l.fail("flush", err)
	}
	// A file that was closed meanwhile was synced at that, and says no more whether it could be.
	if err := l.directory.Offline(); err != nil {
		return err
	}
	l.raiseFlushed(v)
	l.flushedAt.Store(l.now().UnixMilli())
	return nil
}

// raiseFlushed takes note that what a view holds is durable.
func (l *Log) raiseFlushed(v *View) {
	l.pointMu.Lock()
	defer l.pointMu.Unlock()
	l.flushed.Store(max(l.flushed.Load(), int64(v.end)))
	// Where the view ends a segment may have begun since: its own last one was synced while it was written to, without
	// its indexes.
	for len(l.begun) > 0 && l.begun[0] < v.end {
		l.begun = l.begun[1:] // the view has it, and the one before it was synced as a whole
	}
	if n := len(v.segs); n == 0 || len(l.begun) == 0 || l.begun[0] != v.end || v.segs[n-1].base == v.end || faults.pointPasses {
		l.point.Store(max(l.point.Load(), int64(v.end)))
	}
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
	l.begun = nil // they may be gone, and no flush is under way that does not know those that are left
}

// beginsAt says that a segment is to begin at an offset, and whether the recovery point is there already, so that the
// segment before it has to be durable as a whole.
func (l *Log) beginsAt(o batch.Offset) bool {
	l.pointMu.Lock()
	defer l.pointMu.Unlock()
	l.begun = append(l.begun, o)
	return l.point.Load() >= int64(o)
}

// syncNames makes durable which files there are, and whose they are; the caller holds flushing.
func (l *Log) syncNames() error {
	if l.metaDirty.Swap(false) {
		if err := l.syncFile(l.dir + "/" + metadataFile); err != nil {
			return err
		}
	}
	if l.dirDirty.Swap(false) && !faults.skipDirSync {
		if err := l.fs.SyncDir(l.dir); err != nil {
			return fmt.Errorf("sync directory: %w", err)
		}
	}
	if l.madeDirty.Swap(false) {
		if err := l.fs.SyncDir(parent(l.dir)); err != nil {
			return fmt.Errorf("sync directory: %w", err)
		}
	}
	return nil
}

// storeEpochs writes the epoch file if it does not say what the view does; the caller holds flushing.
func (l *Log) storeEpochs(v *View) error {
	if len(v.segs) == 0 || v.epochs.Equal(l.stored) || faults.skipEpochs {
		return nil
	}
	if err := disk.Replace(l.fs, l.dir, epochFile, v.epochs.Encode()); err != nil {
		return fmt.Errorf("write leader epochs: %w", err)
	}
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
	// The snapshot at its base was written once, before the segment was begun.
	if !seg.snapshotSynced.Load() {
		if err := l.syncFile(l.dir + "/" + fileName(seg.base, suffixSnapshot)); err != nil {
			return err
		}
		seg.snapshotSynced.Store(true)
	}
	if !indexes {
		return nil
	}
	for _, path := range []string{seg.offsets.path, seg.times.path, seg.txns.path} {
		if err := l.syncFile(path); err != nil {
			return err
		}
	}
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
