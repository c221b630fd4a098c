package log

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"millrace/storage/batch"
)

// Retain removes old segments, from the oldest on, as long as the next one qualifies: it ends at or below the log start;
// or, where the cleanup policy holds "delete", the log without it is still at least retention.bytes long, or its largest
// timestamp is older than retention.ms. Nothing at or behind the high watermark is removed; an active segment that
// qualifies is rolled first, which leaves an empty one at the log end. The log start follows. It returns one line for
// each removed segment.
//
// The files are renamed and go after file.delete.delay.ms: at a later Retain or RemoveDeleted.
func (l *Log) Retain(now time.Time) ([]string, error) {
	if err := l.ready(); err != nil {
		return nil, err
	}
	if err := l.RemoveDeleted(now); err != nil {
		return nil, err
	}
	if len(l.segs) == 0 {
		return nil, nil
	}
	reasons, err := l.expired(now)
	if err != nil {
		return nil, fmt.Errorf("retention: %w", err)
	}
	if faults.keepExpired && len(reasons) > 0 {
		reasons = reasons[1:]
	}
	n := len(reasons)
	if n == 0 {
		return nil, nil
	}
	l.touched = true
	if n == len(l.segs) {
		at := now.UnixMilli()
		if !l.active.open {
			if err := l.openActive(at); err != nil {
				return nil, l.fail("opening the active segment", err)
			}
		}
		if err := l.roll(l.end, at); err != nil {
			return nil, l.fail("roll", err)
		}
	}
	gone := l.segs[:n]
	l.segs = append([]*segment(nil), l.segs[n:]...)
	if base := l.segs[0].base; base > l.start {
		l.setStart(base)
	}
	if l.hwAt.seg != nil && l.hwAt.seg.base < l.segs[0].base {
		l.hwAt = l.placeOf(l.hw) // it was the end of a segment that goes
	}
	l.publish()
	for _, seg := range gone {
		if err := l.dropSegment(seg); err != nil {
			return nil, l.fail("retention", err)
		}
	}
	return reasons, nil
}

// expired says, for the segments that are to go, why.
func (l *Log) expired(now time.Time) ([]string, error) {
	var reasons []string
	c := l.cfg.Load()
	excess := int64(-1)
	if c.Delete && c.RetentionBytes >= 0 {
		excess = l.Size() - c.RetentionBytes
	}
	for i, seg := range l.segs {
		active := i == len(l.segs)-1
		size, end := seg.size, l.end
		if active {
			size = l.active.size
		} else {
			end = l.segs[i+1].base
		}
		if l.hw < end || (active && size == 0) {
			break
		}
		why, err := l.why(c, seg, active, size, end, excess, now)
		if err != nil {
			return nil, err
		}
		if why == "" {
			break
		}
		excess -= size
		reasons = append(reasons, fmt.Sprintf("segment %d: %s", seg.base, why))
	}
	return reasons, nil
}

func (l *Log) why(c *Config, seg *segment, active bool, size int64, end batch.Offset, excess int64, now time.Time) (string, error) {
	if !active && end <= l.start {
		return fmt.Sprintf("ends at %d, below the log start %d", end, l.start), nil
	}
	if !c.Delete {
		return "", nil
	}
	if c.RetentionBytes >= 0 && excess >= size {
		return fmt.Sprintf("the log is %d bytes above retention.bytes, its %d bytes among them", excess, size), nil
	}
	if c.RetentionMs < 0 {
		return "", nil
	}
	largest, err := l.active.maxTimestamp, error(nil)
	if !active || !l.active.open {
		if largest, err = seg.maxTimestamp(); err != nil && !isContent(err) {
			return "", err
		}
	}
	if largest < 0 || err != nil {
		// No record has a timestamp: Kafka takes the file's. Where none can be read the segment is not to keep all behind it.
		info, err := seg.log.stat()
		if err != nil {
			return "", err
		}
		largest = info.Modified.UnixMilli()
	}
	if age := now.UnixMilli() - largest; age > c.RetentionMs || faults.hastyExpiry && age > c.RetentionMs/2 {
		return fmt.Sprintf("its largest timestamp is %d ms old, above retention.ms", age), nil
	}
	return "", nil
}

// deletedFile is a file that waits to be removed.
type deletedFile struct {
	path string
	at   int64 // ms
	// handle is closed with the file's removal, or what the disk has of it would stay taken as long as it is open; nil:
	// there is none.
	handle *handle
	// unsure: its name was not synced. Were the file removed, and its name of before back after a crash, it would be missed.
	unsure bool
}

func (d deletedFile) retire() {
	if d.handle != nil {
		d.handle.retire()
	}
}

// dropSegment takes a segment's files out of the log: they are renamed and removed later. Readers that have the segment
// keep it.
func (l *Log) dropSegment(seg *segment) error {
	paths, err := l.renameDeleted(seg)
	due := l.now().UnixMilli() + l.cfg.Load().FileDeleteDelayMs
	for _, p := range paths {
		if p == seg.log.path { // the caller's to change
			l.remember(deletedFile{path: p, at: due, handle: seg.log})
		} else {
			l.remember(deletedFile{path: p, at: due})
		}
	}
	return err
}

// renameDeleted gives a segment's files the names under which they wait to be removed, and lists those.
func (l *Log) renameDeleted(seg *segment) (renamed []string, err error) {
	path := l.dir + "/" + fileName(seg.base, suffixLog)
	seg.retireIndexes()
	rename := func(p string) error {
		l.unremember(p + suffixDeleted)
		err := l.fs.Rename(p, p+suffixDeleted)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			renamed = append(renamed, p+suffixDeleted)
		}
		return err
	}
	// The segment goes after its indexes, which are made anew where they are missing. What was aborted in it is not looked for
	// anew: that index goes last, and a start drops it where there is no segment.
	for _, p := range []string{seg.offsets.path, seg.times.path} {
		if err := rename(p); err != nil {
			return renamed, err
		}
	}
	aborted := seg.txns.exists()
	if err := l.dropSnapshots(func(o batch.Offset) bool { return o == seg.base && !l.isBase(o) }); err != nil {
		return renamed, err
	}
	l.unremember(path + suffixDeleted)
	if err := seg.log.rename(path + suffixDeleted); err != nil {
		return renamed, err
	}
	l.dirDirty.Store(true)
	renamed = append(renamed, path+suffixDeleted)
	if aborted {
		err = rename(seg.txns.path)
	}
	return renamed, err
}

func (l *Log) remember(d deletedFile) {
	l.deletedMu.Lock()
	l.deleted = append(l.deleted, d)
	l.deletedMu.Unlock()
}

// unremember takes a name out of those that wait to be removed: another file is to get it, and to wait its own time.
func (l *Log) unremember(path string) {
	l.deletedMu.Lock()
	defer l.deletedMu.Unlock()
	for l.removing == path {
		l.removed.Wait()
	}
	l.deleted = slices.DeleteFunc(l.deleted, func(d deletedFile) bool {
		if d.path == path {
			d.retire()
		}
		return d.path == path
	})
}

// RemoveDeleted removes the files of removed segments whose time has come. It may be called concurrently.
func (l *Log) RemoveDeleted(now time.Time) error {
	l.deletedMu.Lock()
	defer l.deletedMu.Unlock()
	for {
		if err := l.directory.Offline(); err != nil {
			return err
		}
		i := slices.IndexFunc(l.deleted, func(d deletedFile) bool { return d.at <= now.UnixMilli() })
		if i < 0 || l.removing != "" { // or somebody is at it already
			return nil
		}
		due := l.deleted[i]
		l.deleted = slices.Delete(l.deleted, i, i+1)
		l.removing = due.path
		l.deletedMu.Unlock()
		err := error(nil)
		if due.unsure {
			err = l.fs.SyncDir(l.dir)
		}
		if err == nil {
			err = l.fs.Remove(due.path)
			due.retire()
		}
		l.deletedMu.Lock()
		l.removing = ""
		if errors.Is(err, ErrNoDescriptor) {
			l.deleted = append(l.deleted, due) // the next time
		}
		l.removed.Broadcast()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return l.fail("removing a deleted segment", err)
		}
	}
}
