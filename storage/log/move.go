package log

import (
	"fmt"

	"millrace/storage/producer"
)

// What a log in another directory that is to take this one's place is given beside the batches themselves.

// Seed makes producers known to a log that holds nothing yet: those of records that its copy will not hold, because
// they lie below the log start.
func (l *Log) Seed(entries []producer.Entry) {
	if l.start != l.end {
		panic(fmt.Sprintf("log %s holds %d offsets and is seeded", l.dir, l.end-l.start))
	}
	l.producers.Load(entries, l.end, l.now().UnixMilli(), l.expireMs)
}

// Adopt takes over what another log with the same batches knows and batches do not tell: epochs without a record, the
// producers as they are remembered in memory, the high watermark. The other log must not be changed any more.
func (l *Log) Adopt(from *Log) error {
	if err := l.ready(); err != nil {
		return err
	}
	if l.end != from.end {
		return fmt.Errorf("log %s ends at %d and is to take the place of one that ends at %d", l.dir, l.end, from.end)
	}
	l.touched = true
	l.start, l.epochs, l.epoch, l.producers = from.start, from.epochs, from.epoch, from.producers
	l.hw, l.hwAt = from.hw, l.placeOf(from.hw)
	l.setCleaned(from.CleanedTo())
	l.publish()
	return nil
}

// Materialise makes the files of a log that was never written to, so that it can be seen on disk where it ends.
func (l *Log) Materialise() error {
	if err := l.ready(); err != nil || len(l.segs) > 0 {
		return err
	}
	l.touched = true
	if err := l.materialise(l.end, l.now().UnixMilli()); err != nil {
		return l.fail("making the files", err)
	}
	l.publish()
	return nil
}

// PauseCleaning ends a cleaning that is under way and lets none begin until ResumeCleaning: one that removes a marker, or
// a tombstone, behind the copied part of a log would leave the copy with what they were to end.
func (l *Log) PauseCleaning() { l.stopCleaning() }

// ResumeCleaning lets the log be cleaned again.
func (l *Log) ResumeCleaning() { l.noClean.Store(false) }

// CleaningPaused says whether the log is not to be cleaned.
func (l *Log) CleaningPaused() bool { return l.noClean.Load() }

// IsCopyOf says whether a log that is being filled is a copy of another one as that is cleaned now.
func (l *Log) IsCopyOf(from *Log) bool { return l.CleanedTo() == from.CleanedTo() }

// CopyOf says that it is one from now on.
func (l *Log) CopyOf(from *Log) { l.setCleaned(from.CleanedTo()) }
