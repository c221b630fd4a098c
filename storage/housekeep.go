package storage

import (
	"errors"
	"maps"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/log"
)

// openLogs lists the open logs, by directory; those on their way to another directory are among those of that. It waits for
// nobody: one that is being opened, or recovered, is not open yet.
func (s *Store) openLogs() map[*directory]map[partitionKey]*log.Log {
	s.mu.Lock()
	entries := maps.Clone(s.logs)
	s.mu.Unlock()
	out := map[*directory]map[partitionKey]*log.Log{}
	for k, e := range entries {
		add := func(d *directory, l *log.Log) {
			if out[d] == nil {
				out[d] = map[partitionKey]*log.Log{}
			}
			out[d][k] = l
		}
		x := e.look()
		if x.log != nil {
			add(x.dir, x.log)
		}
		if x.future != nil {
			add(x.future.dir, x.future.log)
		}
	}
	return out
}

// awaitOpening returns when no log is being opened.
func (s *Store) awaitOpening() {
	s.mu.Lock()
	entries := maps.Clone(s.logs)
	s.mu.Unlock()
	for _, e := range entries { // any order: all are waited for
		func() {
			e.mu.Lock()
			defer e.mu.Unlock() // to wait is all that is wanted
		}()
	}
}

// Housekeep does what is due and needs no partition's lock: it removes deleted segments and partitions and writes the
// checkpoints. Retention and the expiry of producers change a log and are the partition's own; to wait for the disk until
// logs are durable is FlushDue's.
func (s *Store) Housekeep(now time.Time) error {
	var errs []error
	for _, logs := range s.openLogs() {
		for _, l := range logs {
			if l.Offline() == nil {
				errs = append(errs, l.RemoveDeleted(now))
			}
		}
	}
	errs = append(errs, s.removeDoomed(now))
	for i := range checkpointFiles {
		errs = append(errs, s.checkpoint(i, now, false))
	}
	return errors.Join(errs...)
}

func (s *Store) removeDoomed(now time.Time) error {
	s.mu.Lock()
	var due []doomed
	kept := s.doomed[:0]
	for _, d := range s.doomed {
		if d.at <= now.UnixMilli() {
			due = append(due, d)
		} else {
			kept = append(kept, d)
		}
	}
	s.doomed = kept
	s.mu.Unlock()
	var errs []error
	for _, d := range due {
		if d.dir.health.Offline() != nil {
			continue
		}
		err := d.remove()
		if err != nil {
			err = d.dir.health.Fail("removing "+d.path, err)
		}
		if errors.Is(err, log.ErrNoDescriptor) {
			s.mu.Lock()
			s.doomed = append(s.doomed, d) // the next time
			s.mu.Unlock()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Checkpoint writes the checkpoints of all directories now.
func (s *Store) Checkpoint() error {
	var errs []error
	for i := range checkpointFiles {
		errs = append(errs, s.checkpoint(i, s.now(), true))
	}
	return errors.Join(errs...)
}

// checkpoint writes one checkpoint file of each directory if it is due and says something new.
func (s *Store) checkpoint(kind int, now time.Time, always bool) error {
	var errs []error
	for _, d := range s.dirs {
		if d.health.Offline() == nil {
			errs = append(errs, s.checkpointDir(d, kind, now, always))
		}
	}
	return errors.Join(errs...)
}

func (s *Store) checkpointDir(d *directory, kind int, now time.Time, always bool) error {
	d.mu.Lock()
	due := always || now.Sub(d.written[kind]) >= s.every[kind]
	d.mu.Unlock()
	if !due {
		return nil
	}
	keep := s.notOpen(d)
	return s.writeCheckpoint(d, kind, now, keep, s.openLogs()[d], false)
}

// notOpen lists the partitions on disk whose log is not open: what was read of them stays as it is.
func (s *Store) notOpen(d *directory) map[partitionKey]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := maps.Clone(d.found)
	for k := range d.futures {
		keep[k] = true
	}
	for k, e := range s.logs {
		if e.dir == d || e.coming == d {
			keep[k] = true // it may just be being opened; if it is open, the log itself says
		}
	}
	return keep
}

// writeCheckpoint writes one checkpoint file if it says something new. final says that the logs were closed in order.
func (s *Store) writeCheckpoint(d *directory, kind int, now time.Time, keep map[partitionKey]bool, logs map[partitionKey]*log.Log, final bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.written[kind] = now
	next := checkpoint{}
	for k, o := range d.checkpoints[kind] {
		if keep[k] && logs[k] == nil {
			next[k] = o
		}
	}
	for k, l := range logs {
		v := l.View()
		if v.Closed() && !final {
			// Deleted meanwhile, or exchanged for another one of that name, of which something may have been stored since
			// the logs were listed. What is left of a deleted one goes the next time.
			if o, ok := d.checkpoints[kind][k]; ok {
				next[k] = o
			}
			continue
		}
		if o, ok := offsetOf(l, v, kind); ok {
			next[k] = o
		}
	}
	if maps.Equal(next, d.checkpoints[kind]) && !d.torn[kind] {
		return nil
	}
	return s.replace(d, kind, next)
}

func offsetOf(l *log.Log, v *log.View, kind int) (batch.Offset, bool) {
	if !v.HasFiles() {
		return 0, false
	}
	switch kind {
	case recoveryPoints:
		return l.RecoveryPoint(), true
	case logStarts:
		return v.LogStart(), v.LogStart() > v.FirstSegment()
	case cleanedOffsets:
		o := l.CleanedTo()
		return o, o >= 0
	default:
		return v.HighWatermark(), true
	}
}

func (s *Store) replace(d *directory, kind int, next checkpoint) error {
	if err := disk.Put(s.fs, d.path, checkpointFiles[kind], next.encode()); err != nil {
		return d.health.Fail("writing "+checkpointFiles[kind], err)
	}
	d.checkpoints[kind], d.torn[kind] = next, true
	if err := s.fs.SyncDir(d.path); err != nil {
		return d.health.Fail("writing "+checkpointFiles[kind], err)
	}
	d.torn[kind] = false
	return nil
}

// lower makes sure that neither the stored recovery point of a log nor the offset to which it was cleaned is above an
// offset. The latter goes first: what was cleaned lies below the recovery point.
func (s *Store) lower(d *directory, k partitionKey, to batch.Offset) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, kind := range []int{cleanedOffsets, recoveryPoints} {
		o, ok := d.checkpoints[kind][k]
		if (!ok || o <= to) && !d.torn[kind] || faults.keepPoint {
			continue
		}
		next := maps.Clone(d.checkpoints[kind])
		if ok {
			next[k] = min(o, to)
		}
		if err := s.replace(d, kind, next); err != nil {
			return err
		}
	}
	return nil
}

// storeStarts writes the log starts of some logs of a directory beside those that its checkpoint holds.
func (s *Store) storeStarts(d *directory, logs map[partitionKey]*log.Log) error {
	if err := d.health.Offline(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	next := maps.Clone(d.checkpoints[logStarts])
	for k, l := range logs {
		v := l.View()
		if o, ok := offsetOf(l, v, logStarts); ok && !v.Closed() {
			next[k] = o
		}
	}
	if maps.Equal(next, d.checkpoints[logStarts]) && !d.torn[logStarts] {
		return nil
	}
	return s.replace(d, logStarts, next)
}

// forget removes what the checkpoints say of a partition whose files are gone.
func (s *Store) forget(d *directory, k partitionKey) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range checkpointFiles {
		if _, ok := d.checkpoints[i][k]; !ok && !d.torn[i] || faults.remember {
			continue
		}
		next := maps.Clone(d.checkpoints[i])
		delete(next, k)
		if err := s.replace(d, i, next); err != nil {
			return err
		}
	}
	return nil
}
