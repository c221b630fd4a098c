package log

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"go.uber.org/zap"

	"millrace/storage/batch"
	"millrace/storage/disk"
)

// cleanedSegment is a segment that a cleaning writes, under names with .cleaned behind them.
type cleanedSegment struct {
	c    *cleaner
	seg  *segment // with those names
	f    disk.File
	at   active
	txns []abortedTxn

	buf      []byte // not written yet; it begins at written
	written  int64
	sync     bool
	finished bool
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// where is the file's name, which changes where the segment leaves the log.
func (h *handle) where() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.path
}

func (c *cleaner) newWriter(base batch.Offset) (*cleanedSegment, error) {
	l := c.l
	seg := l.newSegment(base, false)
	for _, path := range []*string{&seg.log.path, &seg.offsets.path, &seg.times.path, &seg.txns.path} {
		*path += suffixCleaned
	}
	w := &cleanedSegment{c: c, seg: seg, at: active{maxTimestamp: batch.NoTimestamp, maxOffset: base, indexed: batch.NoTimestamp}, sync: !faults.skipCleanSync}
	f, err := l.fs.Open(seg.log.path, disk.Write|disk.Create|disk.Truncated)
	if err == nil {
		w.f = f
		err = beginIndex(seg.offsets)
	}
	if err == nil {
		err = beginIndex(seg.times)
	}
	if err != nil {
		w.drop()
		return nil, w.failed(err)
	}
	return w, nil
}

// beginIndex makes an index that is empty.
func beginIndex[E any](x *index[E]) error {
	f, err := x.create(0)
	if err != nil {
		return err
	}
	defer f.Close()
	return x.begin(f, 0, 0)
}

// finishIndex writes what is left of an index.
func finishIndex[E any](x *index[E], sync bool) error {
	f, err := x.open()
	if err != nil {
		return err
	}
	defer f.Close()
	return x.finish(f, sync)
}

// failed is an error of the disk, which gives its directory up; unless the log was deleted meanwhile, with its directory.
func (w *cleanedSegment) failed(err error) error {
	if w.c.l.noClean.Load() {
		return ErrClosed
	}
	return w.c.l.fail("cleaning", err)
}

// filter takes over what is to be kept of a batch.
func (w *cleanedSegment) filter(h batch.Header, b []byte, m *batch.Marker) (bool, error) {
	c := w.c
	c.out.BytesRead += int64(len(b))
	fate := c.filter.Batch(h, m)
	if fate.Aborted != nil && !faults.loseTxns {
		a := fate.Aborted
		w.txns = append(w.txns, abortedTxn{producerID: a.ProducerID, first: a.First, last: a.Last, lastStable: a.LastStable})
	}
	if fate.Drop {
		return true, nil
	}
	o := batch.RewriteOptions{KeepEmpty: fate.KeepEmpty, Horizon: c.filter.Horizon(), ForceHorizon: fate.Horizon, Most: c.o.grown, Scratch: c.o.Scratch}
	before := len(w.buf)
	buf, out, err := batch.Rewrite(w.buf, b, o, func(offset batch.Offset, key batch.Key, hasValue bool) bool {
		switch {
		case fate.DropRecords:
			return false
		case h.Attributes.Control():
			return true
		case key.Null() && offset <= c.filter.Keys.Latest():
			c.out.Invalid++
		}
		return c.filter.Record(h, offset, key, hasValue)
	})
	if err != nil {
		return false, err
	}
	w.buf = buf
	c.out.Read += int64(out.Read)
	c.out.Kept += int64(out.Kept)
	if out.Overgrown {
		c.out.Overgrown++
		c.l.logger.Warn("a batch would grow too much when it is cleaned: it stays as it is", c.l.field(), zap.Int64("offset", int64(h.BaseOffset)), zap.Int("bytes", len(b)))
	}
	if len(w.buf) == before {
		return true, nil
	}
	pos := w.written + int64(before)
	if pos+int64(out.Header.Size()) > c.o.longest {
		return false, ours(errTooLong)
	}
	w.at.index(w.seg, out.Header, pos, c.l.cfg.Load().IndexIntervalBytes)
	if err := w.seg.spill(); err != nil {
		return false, ours(w.failed(err))
	}
	if w.seg.first.Load() == 0 {
		w.seg.first.Store(out.Header.MaxTimestamp)
	}
	if len(w.buf) >= c.o.Buffer {
		if err := w.flush(); err != nil {
			return false, ours(err)
		}
	}
	return true, nil
}

func (w *cleanedSegment) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	if _, err := w.f.WriteAt(w.buf, w.written); err != nil {
		return w.failed(err)
	}
	n := len(w.buf)
	w.written += int64(n)
	w.c.out.BytesWritten += int64(n)
	w.buf = w.buf[:0]
	if cap(w.buf) > 2*w.c.o.Buffer {
		w.buf = nil // it had to grow for a batch
	}
	return w.c.throttle(n)
}

// finish makes the segment durable, under the names it has, and as old as what it was made of: where records have no
// timestamp, retention goes by the file's.
func (w *cleanedSegment) finish(modified time.Time) error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.finishFiles(); err != nil {
		return w.failed(err)
	}
	for _, path := range []string{w.seg.offsets.path, w.seg.times.path, w.seg.log.path} {
		if err := w.c.l.fs.SetModified(path, modified); err != nil {
			// Some file systems take no times. The records are safe; only their age begins anew.
			w.c.l.logger.Warn("a cleaned segment does not keep its age", w.c.l.field(), zap.String("file", path), zap.Error(err))
			break
		}
	}
	w.finished = true
	return nil
}

func (w *cleanedSegment) finishFiles() error {
	w.at.indexTime(w.seg)
	if err := finishIndex(w.seg.offsets, w.sync); err != nil {
		return err
	}
	if err := finishIndex(w.seg.times, w.sync); err != nil {
		return err
	}
	if len(w.txns) > 0 {
		if err := w.writeTxns(); err != nil {
			return err
		}
	}
	if w.sync {
		if err := w.f.Sync(); err != nil {
			return fmt.Errorf("sync segment: %w", err)
		}
	}
	f := w.f
	w.f = nil
	return f.Close()
}

func (w *cleanedSegment) writeTxns() error {
	var b []byte
	for _, e := range w.txns {
		b = appendTxnEntry(b, e)
	}
	f, err := w.c.l.fs.Open(w.seg.txns.path, disk.Write|disk.Create|disk.Truncated)
	if err != nil {
		return fmt.Errorf("open transaction index: %w", err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, 0); err != nil {
		return fmt.Errorf("write transaction index: %w", err)
	}
	if w.sync {
		return f.Sync()
	}
	return nil
}

// names are the segment's files without .cleaned, the segment itself last. In that order they get .swap, so that whoever
// finds the segment finds the others; in the opposite one they lose it: as long as there is a segment with .swap, what has
// a name that it covers is old, and goes at a start. (Apache Kafka's start goes by that, too.)
func (w *cleanedSegment) names() []string {
	base := w.seg.base
	names := []string{fileName(base, suffixIndex), fileName(base, suffixTimeIndex), fileName(base, suffixLog)}
	if len(w.txns) > 0 {
		names = slices.Insert(names, 0, fileName(base, suffixTxnIndex))
	}
	return names
}

// drop removes what was written of a segment that comes to nothing. A file that stays is removed at the next start.
func (w *cleanedSegment) drop() {
	if w.f != nil {
		_ = w.f.Close()
		w.f = nil
	}
	l := w.c.l
	if l.directory.Offline() != nil {
		return
	}
	for _, path := range []string{w.seg.txns.path, w.seg.offsets.path, w.seg.times.path, w.seg.log.path} {
		if err := l.fs.Remove(path); err != nil && !isMissing(err) {
			_ = w.failed(err)
			return
		}
	}
}

// exchange puts a finished segment in the place of those it was made of. A crash at any moment leaves the old segments,
// or some names of the new one with .swap behind them, which a start finishes.
func (c *cleaner) exchange(w *cleanedSegment, group []*segment) error {
	l := c.l
	// Readers of the view before go on with what the old segments' indexes of transactions said.
	for _, seg := range group {
		if _, err := seg.txns.list(); err != nil {
			return err
		}
	}
	var renamed []string
	err := c.o.Exclusive(func() error {
		if err := l.ready(); err != nil {
			return err
		}
		if err := c.check(); err != nil {
			return err
		}
		at := slices.Index(l.segs, group[0])
		if l.cuts != c.cuts || at < 0 || at+len(group) >= len(l.segs) || !slices.Equal(l.segs[at:at+len(group)], group) {
			return ErrOvertaken
		}
		l.cutting.Store(true)
		defer l.cutting.Store(false)
		var err error
		if renamed, err = l.swapIn(w, at, len(group)); err != nil {
			return l.fail("cleaning", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !faults.skipSwapSync {
		err = l.fs.SyncDir(l.dir)
	}
	// Only when nothing brings them back any more may the old files go.
	if err == nil || errors.Is(err, ErrNoDescriptor) {
		due := l.now().UnixMilli() + l.cfg.Load().FileDeleteDelayMs
		for _, p := range renamed {
			l.remember(deletedFile{path: p, at: due, unsure: err != nil}) // the segments are retired
		}
	}
	if err != nil {
		return w.failed(fmt.Errorf("sync directory: %w", err))
	}
	return nil
}

// swapIn renames the files, under the owner's lock, and publishes the view that goes with the new names. It returns the
// names of the old files.
func (l *Log) swapIn(w *cleanedSegment, at, n int) ([]string, error) {
	old := l.segs[at : at+n]
	next := l.newSegment(w.seg.base, len(w.txns) > 0)
	next.size = w.at.size
	next.synced.Store(true)
	next.largest.Store(w.at.maxTimestamp)
	next.first.Store(w.seg.first.Load())
	names := w.names()
	rename := func(names []string, from, to string) error {
		for _, name := range names {
			if err := l.fs.Rename(l.dir+"/"+name+from, l.dir+"/"+name+to); err != nil {
				return err
			}
		}
		return nil
	}
	l.dirDirty.Store(true)
	l.touched = true
	if !faults.oldFirst {
		if err := rename(names, suffixCleaned, suffixSwap); err != nil {
			return nil, err
		}
	}
	segs := append([]*segment(nil), l.segs[:at]...)
	segs = append(segs, next)
	l.segs = append(segs, l.segs[at+n:]...)
	var gone []string
	for _, seg := range old {
		// Who comes with the view before finds no file to open and looks at the next view. The name may be given again.
		seg.log.retire()
		paths, err := l.renameDeleted(seg)
		gone = append(gone, paths...)
		if err != nil {
			return gone, err
		}
	}
	if faults.oldFirst {
		if err := rename(names, suffixCleaned, suffixSwap); err != nil {
			return gone, err
		}
	}
	if !faults.indexesFirst {
		slices.Reverse(names)
	}
	if err := rename(names, suffixSwap, ""); err != nil {
		return gone, err
	}
	if slices.Contains(old, l.hwAt.seg) {
		l.hwAt = l.placeOf(l.hw)
	}
	l.publish()
	return gone, nil
}
