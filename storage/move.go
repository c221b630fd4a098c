package storage

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"millrace/storage/batch"
	"millrace/storage/log"
)

// A log is moved to another data directory (KIP-113) by a second one that is filled from it there and then takes its
// place. Until then its directory is called <topic>-<partition>.<32 hex digits>-future, and its checkpoints stand among
// those of its own data directory. The steps of the exchange are such that whatever a crash leaves, one whole log is
// found: the new one is closed in order, the old one is renamed for deletion, the new one gets the plain name. A future
// log without a log is such a crash's, if the metadata has its directory for the log's: the metadata is told before the
// exchange.

// mostPreferred bounds how many partitions that are not here have a directory to be made in.
const mostPreferred = 1 << 16

// ErrMoveOver says that there is no move to go on with.
var ErrMoveOver = errors.New("no log is on its way to another directory")

// future is a log on its way.
type future struct {
	dir *directory
	log *log.Log
	// placed: its directory was given the plain name.
	placed bool
}

func futureDir(topic string, partition int32) string {
	id := newUUID()
	return partitionDir(topic, partition) + "." + hex.EncodeToString(id[:]) + futureSuffix
}

// MovableName says whether the name that a log's directory has while it is on its way fits into a file system.
func (s *Store) MovableName(topic string, partition int32) bool {
	return len(partitionDir(topic, partition))+len(".")+32+len(futureSuffix) <= maxName
}

// parseFutureDir is the inverse of futureDir.
func parseFutureDir(name string) (k partitionKey, ok bool) {
	rest, ok := strings.CutSuffix(name, futureSuffix)
	if !ok || len(rest) < 33 || rest[len(rest)-33] != '.' {
		return k, false
	}
	if _, err := hex.DecodeString(rest[len(rest)-32:]); err != nil {
		return k, false
	}
	return parsePartitionDir(rest[:len(rest)-33])
}

// foundFuture takes note, at the start, of a log that was on its way. Of several of one partition the first is kept.
func (s *Store) foundFuture(d *directory, name string) bool {
	k, ok := parseFutureDir(name)
	if !ok {
		return false
	}
	for _, other := range s.dirs {
		if other.futures[k] != "" {
			s.doomDir(d, name)
			return true
		}
	}
	d.futures[k] = name
	return true
}

// doomDir has a directory removed at the next Housekeep.
func (s *Store) doomDir(d *directory, name string) {
	path := d.path + "/" + name
	s.doom(d, path, func() error { return s.fs.RemoveAll(path) }, 0)
}

// PlaceOf is the absolute path of the directory a partition's log lies in, and of the one it is on its way to, or was in
// an earlier life and may be again; "" where there is none.
func (s *Store) PlaceOf(topic string, partition int32) (at, to string) {
	k := partitionKey{topic: topic, partition: partition}
	e := s.entryOf(k)
	if e == nil {
		return "", ""
	}
	if x := e.look(); x.future != nil {
		return x.dir.absolute(), x.future.dir.absolute()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.dirs {
		if d.futures[k] != "" && d != e.dir {
			to = d.absolute()
		}
	}
	return e.dir.absolute(), to
}

// FutureOf is the id of the directory that a partition's log is on its way to; zero if it is on none.
func (s *Store) FutureOf(topic string, partition int32) [16]byte {
	e := s.entryOf(partitionKey{topic: topic, partition: partition})
	if e == nil {
		return [16]byte{}
	}
	if x := e.look(); x.future != nil {
		return x.future.dir.id
	}
	return [16]byte{}
}

func (s *Store) entryOf(k partitionKey) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs[k]
}

// Prefer has the log of a partition that is not here made in a directory, if it is made before the broker stops.
func (s *Store) Prefer(topic string, partition int32, dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := partitionKey{topic: topic, partition: partition}
	if _, again := s.preferred[k]; !again && len(s.preferred) >= mostPreferred {
		return
	}
	for _, d := range s.dirs {
		if d.absolute() == dir {
			s.preferred[k] = d
		}
	}
}

// BeginMove makes the log that is to be filled and to take the place of a partition's, in the directory of that absolute
// path. The partition has a log, and none on its way.
func (s *Store) BeginMove(topic string, id [16]byte, partition int32, dir string) (*log.Log, error) {
	k := partitionKey{topic: topic, partition: partition}
	e := s.entryOf(k)
	if e == nil {
		return nil, log.ErrClosed
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var to *directory
	for _, d := range s.dirs {
		if d.absolute() == dir {
			to = d
		}
	}
	switch {
	case to == nil:
		return nil, fmt.Errorf("%s is no data directory", dir)
	case e.log == nil || e.future != nil || to == e.dir:
		return nil, fmt.Errorf("a move of %s to %s cannot begin", partitionDir(topic, partition), dir)
	}
	if err := s.forget(to, k); err != nil {
		return nil, err // what a checkpoint says of the name is of an earlier log
	}
	return s.openFuture(e, k, id, to, futureDir(topic, partition))
}

// ResumeMove opens the log that an earlier life left on its way; nil if there is none. One that leads nowhere is removed, and
// one in which the start finds damage is emptied.
// After log.ErrNoDescriptor, which is the only error, it may be tried again.
func (s *Store) ResumeMove(topic string, id [16]byte, partition int32) (*log.Log, error) {
	k := partitionKey{topic: topic, partition: partition}
	e := s.entryOf(k)
	if e == nil {
		return nil, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.log == nil || e.future != nil {
		return nil, nil
	}
	d, name := s.futureOf(k)
	if d == nil {
		return nil, nil
	}
	if d != e.dir {
		l, err := s.openFuture(e, k, id, d, name)
		if errors.Is(err, log.ErrNoDescriptor) {
			return nil, err
		}
		if err == nil {
			s.claimFuture(k)
			return l, nil
		}
		s.logger.Warn("a log that was on its way to another directory does not open: it is removed", zap.String("dir", d.path+"/"+name), zap.Error(err))
	}
	s.claimFuture(k)
	s.doomDir(d, name)
	return nil, nil
}

// LeftOnItsWay says whether the start found a log of a partition on its way that nobody has asked for yet.
func (s *Store) LeftOnItsWay(topic string, partition int32) bool {
	d, _ := s.futureOf(partitionKey{topic: topic, partition: partition})
	return d != nil
}

// futureOf is a log that the start found on its way.
func (s *Store) futureOf(k partitionKey) (*directory, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.dirs {
		if name := d.futures[k]; name != "" {
			return d, name
		}
	}
	return nil, ""
}

// claimFuture takes a log that the start found on its way.
func (s *Store) claimFuture(k partitionKey) (*directory, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.dirs {
		if name := d.futures[k]; name != "" {
			delete(d.futures, k)
			return d, name
		}
	}
	return nil, ""
}

func (s *Store) openFuture(e *entry, k partitionKey, id [16]byte, d *directory, name string) (*log.Log, error) {
	come := func(to *directory) {
		s.mu.Lock()
		e.coming = to
		s.mu.Unlock()
	}
	come(d) // what the checkpoints say of it stays while it is opened
	defer come(nil)
	o, err := s.options(d, k, id, e.log.Config(), name)
	if err != nil {
		return nil, err
	}
	l, r, err := log.Open(o)
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", name, err)
	}
	s.report(o.Dir, r)
	if len(r.Damage) > 0 {
		// What it is a copy of is better, and is here.
		s.logger.Warn("a damaged copy takes the place of no log: it is begun anew", zap.String("dir", o.Dir))
		if err := l.TruncateFully(0); err != nil {
			l.Abandon()
			return nil, err
		}
	}
	e.future = &future{dir: d, log: l}
	e.show()
	s.mu.Lock()
	d.open++
	s.mu.Unlock()
	return l, nil
}

// DropFutures removes the logs found on their way of partitions that nobody asked for and that are not to be kept. Whoever
// asked for one's log decides about its move, and may be opening it at this moment.
func (s *Store) DropFutures(keep func(topic string, partition int32) bool) {
	type drop struct {
		d    *directory
		name string
	}
	var list []drop
	s.mu.Lock()
	for _, d := range s.dirs {
		for k, name := range d.futures {
			if s.logs[k] == nil && !keep(k.topic, k.partition) {
				delete(d.futures, k)
				list = append(list, drop{d, name})
			}
		}
	}
	s.mu.Unlock()
	for _, x := range list {
		s.logger.Warn("a log on its way to another directory belongs to no partition here: it is removed", zap.String("dir", x.d.path+"/"+x.name))
		s.doomDir(x.d, x.name)
	}
}

// CancelMove gives up the log that is on its way. That there is none is no error.
func (s *Store) CancelMove(topic string, partition int32) error {
	k := partitionKey{topic: topic, partition: partition}
	e := s.entryOf(k)
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return s.cancel(e, k)
}

// cancel is CancelMove, under the entry's lock.
func (s *Store) cancel(e *entry, k partitionKey) error {
	f := e.future
	if f == nil {
		if d, name := s.claimFuture(k); d != nil {
			s.doomDir(d, name)
		}
		return nil
	}
	e.future = nil
	e.show()
	s.mu.Lock()
	f.dir.open--
	s.mu.Unlock()
	if err := s.doomLog(f.dir, f.log, doomedDir(k.topic, k.partition, deleteSuffix)); err != nil {
		return fmt.Errorf("give up the move of %s: %w", partitionDir(k.topic, k.partition), err)
	}
	return nil
}

// putBy is how many descriptors an exchange of logs is begun with: more than its steps have open at a time.
const putBy = 8

// FinishMove puts the log that was on its way, and holds all that the partition's does, in its place. The caller sees to
// it that nobody changes either meanwhile. After log.ErrNoDescriptor nothing was done, and it may be tried again. Another
// error before the old log was touched leaves it as it is and gives up the new one; after that, with touched, the
// partition has no log until the next start.
func (s *Store) FinishMove(topic string, id [16]byte, partition int32) (l *log.Log, touched bool, err error) {
	k := partitionKey{topic: topic, partition: partition}
	e := s.entryOf(k)
	if e == nil {
		return nil, false, log.ErrClosed
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	f, old, from := e.future, e.log, e.dir
	if f == nil || old == nil {
		return nil, false, ErrMoveOver
	}
	if err := old.OutOfUse(); err != nil {
		return nil, false, err // nobody knows what its files hold: not that the new one holds the same
	}
	// Where there is none the exchange is not to stop half way.
	if err := s.reserve(f.dir); err != nil {
		return nil, false, err
	}
	name := filepath.Base(f.log.Dir())
	if old.View().HasFiles() {
		if err := f.log.Materialise(); err != nil {
			return nil, false, err
		}
	}
	if err := s.storeStarts(f.dir, map[partitionKey]*log.Log{k: f.log}); err != nil {
		return nil, false, err
	}
	if err := f.log.Close(); errors.Is(err, log.ErrNoDescriptor) {
		return nil, false, fmt.Errorf("close the log %s: %v", name, err) // it is closed, and cannot be filled any more
	} else if err != nil {
		return nil, false, err
	}
	if faults.exchangeBackwards {
		if err := s.rename(f.dir, name, partitionDir(topic, partition)); err != nil {
			return nil, false, err
		}
	}
	doomedName := doomedDir(topic, partition, deleteSuffix)
	delay := old.Config().FileDeleteDelayMs
	err = insisted(old.MarkDeleted(from.path+"/"+doomedName), func() error { return s.syncNames(from) })
	if err != nil {
		s.halfWay(e, k, name, err)
		return nil, true, fmt.Errorf("take the log %s out of %s: %w", partitionDir(topic, partition), from.path, err)
	}
	l, err = s.takePlace(f, k, id, name, old)
	if err != nil {
		err = errors.Join(err, s.giveBack(f, from, k, name, doomedName))
		s.halfWay(e, k, name, err)
		return nil, true, err
	}
	s.doom(from, from.path+"/"+doomedName, old.Remove, delay)
	s.mu.Lock()
	e.dir, e.log, e.future = f.dir, l, nil
	from.open--
	s.mu.Unlock()
	e.show()
	return l, true, s.forget(from, k)
}

// giveBack undoes, for the next start, an exchange that could not be brought to its end: it is to find the old log, and not
// the new one beside it. Where the new one keeps the plain name, which is whole and closed in order, the old one gets a name
// that a start leaves alone.
func (s *Store) giveBack(f *future, from *directory, k partitionKey, name, doomedName string) error {
	plain := partitionDir(k.topic, k.partition)
	var err error
	if f.placed {
		err = s.rename(f.dir, plain, name)
	}
	if f.placed && s.holds(f.dir, plain) {
		plain = doomedDir(k.topic, k.partition, straySuffix)
	}
	return errors.Join(err, s.rename(from, doomedName, plain))
}

// holds says whether a data directory may hold something of that name.
func (s *Store) holds(d *directory, name string) bool {
	_, err := s.fs.Stat(d.path + "/" + name)
	return !errors.Is(err, fs.ErrNotExist)
}

// halfWay takes note, under the entry's lock, that a partition has no log until the next start because an exchange ended
// half way: of no directory a mark says that all was closed in order, and what the checkpoints say of its logs stays.
func (s *Store) halfWay(e *entry, k partitionKey, name string, err error) {
	f, from := e.future, e.dir
	e.log, e.future, e.failed = nil, nil, err
	there := f.placed && s.holds(f.dir, partitionDir(k.topic, k.partition))
	s.mu.Lock()
	if there {
		e.dir = f.dir
		from.open--
	} else {
		f.dir.futures[k] = name
		f.dir.open--
	}
	s.mu.Unlock()
	e.show()
}

// reserve sees to it that there are descriptors to go on with.
func (s *Store) reserve(d *directory) error {
	for range putBy {
		f, err := s.fs.Open(d.path+"/"+lockFile, 0)
		if err != nil {
			return fmt.Errorf("begin an exchange of logs: %w", err)
		}
		defer f.Close()
	}
	return nil
}

// exchangePatience is how often a step of an exchange that has begun goes through all of the patience that there is with a
// lack of descriptors: others may have taken what was put by.
const exchangePatience = 5

// insisted is what comes of such a step when it, or what is left of it, is done again as long as it lacks a descriptor.
func insisted(err error, again func() error) error {
	for range exchangePatience {
		for n := 0; log.AwaitDescriptor(err, n); n++ {
			err = again()
		}
	}
	return err
}

// syncNames makes durable which directories there are in a data directory.
func (s *Store) syncNames(d *directory) error {
	if err := s.fs.SyncDir(d.path); err != nil {
		return d.health.Fail("renaming", err)
	}
	return nil
}

// takePlace gives a log that was closed in order the plain name and opens it anew.
func (s *Store) takePlace(f *future, k partitionKey, id [16]byte, name string, old *log.Log) (*log.Log, error) {
	var err error
	f.placed, err = s.renamed(f.dir, name, partitionDir(k.topic, k.partition))
	if err = insisted(err, func() error { return s.syncNames(f.dir) }); err != nil {
		return nil, err
	}
	o, err := s.options(f.dir, k, id, f.log.Config(), partitionDir(k.topic, k.partition))
	if err != nil {
		return nil, err
	}
	v := old.View()
	o.Clean, o.RecoveryPoint, o.LogStart, o.HighWatermark = true, v.LogEnd(), v.LogStart(), v.HighWatermark()
	l, r, err := log.Open(o)
	err = insisted(err, func() (err error) {
		l, r, err = log.Open(o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open log %s: %w", partitionDir(k.topic, k.partition), err)
	}
	s.report(o.Dir, r)
	if err := l.Adopt(old); err != nil {
		l.Abandon()
		return nil, err
	}
	return l, nil
}

// rename gives a directory of a data directory another name, durably. That it is not there is no error: a log that was
// never written to has none.
func (s *Store) rename(d *directory, from, to string) error {
	_, err := s.renamed(d, from, to)
	return err
}

// renamed is rename, and says whether the directory has the name now, durably or not.
func (s *Store) renamed(d *directory, from, to string) (done bool, err error) {
	err = s.fs.Rename(d.path+"/"+from, d.path+"/"+to)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if done = err == nil; done {
		err = s.fs.SyncDir(d.path)
	}
	if err != nil {
		err = d.health.Fail("renaming "+from, err)
	}
	return done, err
}

// promote completes, under mu, an exchange that a crash has cut short.
func (s *Store) promote(d *directory, k partitionKey) error {
	name := d.futures[k]
	if name == "" {
		return nil
	}
	s.logger.Warn("the log of a partition is the one that was on its way to where the metadata has it", zap.String("dir", d.path+"/"+name))
	if err := s.rename(d, name, partitionDir(k.topic, k.partition)); err != nil {
		return err
	}
	delete(d.futures, k)
	d.found[k] = true
	return nil
}

// options is what a log of a directory is opened with.
func (s *Store) options(d *directory, k partitionKey, id [16]byte, c log.Config, name string) (log.Options, error) {
	if err := d.health.Offline(); err != nil {
		return log.Options{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at := func(i int) batch.Offset {
		if o, ok := d.checkpoints[i][k]; ok {
			return o
		}
		return batch.NoOffset
	}
	return log.Options{
		FS: s.fs, Dir: d.path + "/" + name, Topic: k.topic, Partition: k.partition, TopicID: id, Config: c, Now: s.now,
		RecoveryPoint: at(recoveryPoints), LogStart: at(logStarts), HighWatermark: at(highWatermarks), Cleaned: at(cleanedOffsets),
		Clean: d.clean, Directory: d.health, Files: s.files, ProducerExpireMs: s.expireMs, Flushed: s.flushed, Logger: s.logger,
		LowerRecoveryPoint: func(o batch.Offset) error { return s.lower(d, k, o) },
		RaiseRecoveryPoint: func(o batch.Offset, flushed func() batch.Offset) error { return s.raise(d, k, o, flushed) },
		Holes:              s.holes,
	}, nil
}
