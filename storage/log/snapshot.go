package log

import (
	"fmt"
	"slices"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/producer"
)

// maxSnapshot bounds what is read as a snapshot: some millions of producers.
const maxSnapshot = 256 << 20

// writeSnapshot stores the producer state as the one at an offset. Its checksum says whether it came whole, so it needs
// no second name.
func (l *Log) writeSnapshot(at batch.Offset, sync bool) error {
	f, err := l.fs.Open(l.dir+"/"+fileName(at, suffixSnapshot), disk.Write|disk.Create|disk.Truncated)
	if err != nil {
		return fmt.Errorf("open snapshot: %w", err)
	}
	defer f.Close()
	if _, err := f.WriteAt(producer.EncodeSnapshot(l.producers.Snapshot()), 0); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	if sync {
		if err := f.Sync(); err != nil {
			return fmt.Errorf("sync snapshot: %w", err)
		}
	}
	l.dirDirty.Store(true)
	if i, found := slices.BinarySearch(l.snapshots, at); !found {
		l.snapshots = slices.Insert(l.snapshots, i, at)
	}
	// One at the recovery point says that the log was closed there, as long as that is where a recovery begins.
	return l.dropSnapshots(func(o batch.Offset) bool { return o < at && !l.isBase(o) && int64(o) != l.point.Load() })
}

// snapshotDue says whether the segment that is to begin at an offset gets a snapshot. Kafka writes none that is not above its
// newest one or, as long as it has none, the log start: of a log whose records were all deleted before it was ever rolled, or
// opened with any. A recovery that begins with that segment then knows only who has written to it, where it would know the others
// too by a snapshot, once the checkpoint does not name the log start any more.
func (l *Log) snapshotDue(base batch.Offset) bool {
	return l.snapped || base > l.start || slices.Contains(l.snapshots, base) || faults.snapAlways
}

// isBase says whether a segment begins at an offset: its snapshot is kept as long as it is.
func (l *Log) isBase(o batch.Offset) bool {
	_, found := slices.BinarySearchFunc(l.segs, o, func(s *segment, o batch.Offset) int {
		switch {
		case s.base < o:
			return -1
		case s.base > o:
			return 1
		}
		return 0
	})
	return found
}

// dropSnapshots removes the snapshot files that gone names.
func (l *Log) dropSnapshots(gone func(batch.Offset) bool) error {
	kept := l.snapshots[:0]
	var failed error
	for _, o := range l.snapshots {
		if failed != nil || !gone(o) {
			kept = append(kept, o)
			continue
		}
		if err := l.removeIfThere(fileName(o, suffixSnapshot)); err != nil {
			failed = err
		}
		l.dirDirty.Store(true)
	}
	l.snapshots = kept
	return failed
}

// loadProducers loads the newest readable snapshot at or below an offset and above another, and says at which one the
// state is then. With none it is the state of an empty log at floor, or at that other offset. As in Kafka, a snapshot that
// is not above the log start is none: it knows but producers of what was deleted.
func (l *Log) loadProducers(above, upTo, floor batch.Offset, report *Report) (batch.Offset, error) {
	for i := len(l.snapshots) - 1; i >= 0; i-- {
		o := l.snapshots[i]
		if o > upTo {
			continue
		}
		if o <= above {
			break
		}
		name := fileName(o, suffixSnapshot)
		b, err := disk.ReadFile(l.fs, l.dir+"/"+name, maxSnapshot)
		if err != nil && !isTooLong(err) && !isMissing(err) { // a link may lead to nothing
			return 0, fmt.Errorf("read snapshot: %w", err)
		}
		entries, err := producer.DecodeSnapshot(b)
		if err != nil {
			report.Dropped = append(report.Dropped, name)
			if err := l.dropSnapshots(func(x batch.Offset) bool { return x == o }); err != nil {
				return 0, err
			}
			continue
		}
		l.producers.Load(entries, o, l.now().UnixMilli(), l.expireMs)
		return o, nil
	}
	floor = max(floor, min(above, upTo))
	l.producers.Clear(floor)
	return floor, nil
}
