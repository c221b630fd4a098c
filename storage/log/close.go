package log

import (
	"fmt"
)

// Close closes the log in order: everything is made durable, the indexes are cut to their entries, and a producer
// snapshot at the log end lets the next Open read little else. A log that was not written to since Open is left as it
// is. Sections that are being sent keep their files.
func (l *Log) Close() error {
	if l.closed {
		return nil
	}
	l.stopCleaning()
	defer l.abandon()
	if err := l.usable(); err != nil {
		return err
	}
	if err := l.dropHalf(); err != nil {
		return l.fail("close", err)
	}
	if !l.touched || len(l.segs) == 0 {
		return nil
	}
	l.flushing.Lock()
	defer l.flushing.Unlock()
	if err := l.closeActive(false); err != nil {
		return l.fail("close", err)
	}
	// The snapshot says to a recovery that the indexes are durable: they are before it is there.
	if err := l.flushView(l.View(), flushWhole); err != nil {
		return err
	}
	if err := l.putSnapshot(l.end, true); err != nil {
		return l.fail("close", err)
	}
	if err := l.syncNames(); err != nil {
		return l.fail("close", err)
	}
	return nil
}

// Abandon gives the log's files back and writes nothing more: what a crash would leave.
func (l *Log) Abandon() {
	l.stopCleaning()
	l.abandon()
}

func (l *Log) abandon() {
	if l.closed {
		return
	}
	l.closed = true
	v := View{log: l}
	if before := l.View(); before != nil {
		v = *before
	}
	v.closed = true
	l.view.Store(&v) // first: a reader that finds the segments gone looks there for why
	l.active.open = false
	for _, seg := range l.segs {
		seg.retire()
	}
	l.deletedMu.Lock()
	defer l.deletedMu.Unlock()
	for _, d := range l.deleted {
		d.retire()
	}
}

// MarkDeleted closes the log without making anything durable and gives its directory another name, from which Remove
// deletes it later. Sections that are being sent keep their files.
func (l *Log) MarkDeleted(dir string) error {
	l.stopCleaning()
	l.flushing.Lock()
	defer l.flushing.Unlock()
	l.abandon()
	if !l.dirMade {
		return nil
	}
	if err := l.directory.Offline(); err != nil {
		return err
	}
	if err := l.fs.Rename(l.dir, dir); err != nil {
		return l.fail("deletion", err)
	}
	l.putAt = dir
	if err := l.fs.SyncDir(parent(dir)); err != nil {
		return l.fail("deletion", err)
	}
	return nil
}

// Remove deletes the directory of a log that was closed.
func (l *Log) Remove() error {
	if !l.closed {
		panic(fmt.Sprintf("log %s is removed while it is open", l.dir))
	}
	if !l.dirMade {
		return nil
	}
	dir := l.dir
	if l.putAt != "" {
		dir = l.putAt
	}
	if err := l.fs.RemoveAll(dir); err != nil {
		return l.fail("deletion", err)
	}
	return nil
}
