package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"go.uber.org/zap"

	"millrace/storage/batch"
	"millrace/storage/log"
)

// Log returns the log of a partition: the open one, the one on disk, or a new one in the directory with the fewest. A
// new one has no files before its first append. Files of another topic that had the same name are put aside.
func (s *Store) Log(topic string, id [16]byte, partition int32, c log.Config) (*log.Log, error) {
	return s.LogAt(Where{New: true}, topic, id, partition, c)
}

// Where is what the metadata knows of where a log lies (KIP-858).
type Where struct {
	Directory [16]byte // zero: nobody has said yet
	// New: the partition was just made, so that nothing of it can be anywhere.
	New bool
}

// assigned says whether the directory is told: reserved ids mean other things, such as that it is not.
func (w Where) assigned() bool { return !reserved(w.Directory) }

// LogAt is Log for a partition that may lie in a directory that was given up: as long as one is, a log that is not found
// is not begun anew unless it is known to be new and in no directory yet, or to belong to a directory that works. Nor is
// one whose directory is not among those of the store: a disk that is not mounted looks like an empty directory, and what
// lies on it is wanted when it comes back. (In Kafka the controller elects no leader in a directory that its broker has
// not registered.)
func (s *Store) LogAt(at Where, topic string, id [16]byte, partition int32, c log.Config) (*log.Log, error) {
	k := partitionKey{topic: topic, partition: partition}
	e, err := s.entry(k, id, at)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.log != nil || e.failed != nil {
		return e.log, e.failed
	}
	if e.fresh {
		// What a checkpoint says of the name is of a topic that was deleted; or somebody took its files away.
		if o := e.dir.stored(recoveryPoints, k); o > 0 && !at.New {
			s.logger.Error("log is not there: it begins anew", zap.String("dir", e.dir.path), zap.String("topic", topic), zap.Int32("partition", partition), zap.Int64("was_flushed_to", int64(o)))
		}
		if err := s.forget(e.dir, k); err != nil {
			return nil, err
		}
		e.fresh = false
	}
	l, err := s.openLog(e, k, id, c)
	var other *log.TopicIDError
	if errors.As(err, &other) {
		if err := s.putAside(e.dir, k); err != nil {
			e.fresh = true // perhaps: then what the checkpoints say is of the other one
			return nil, err
		}
		l, err = s.openLog(e, k, id, c)
	}
	if errors.Is(err, log.ErrNoDescriptor) {
		return nil, fmt.Errorf("open log %s: %w", partitionDir(topic, partition), err) // and to be tried again
	}
	if err != nil {
		e.failed = fmt.Errorf("open log %s: %w", partitionDir(topic, partition), err)
		return nil, e.failed
	}
	e.log = l
	e.show()
	return l, nil
}

// stored is what a checkpoint says of a partition; batch.NoOffset: nothing.
func (d *directory) stored(kind int, k partitionKey) batch.Offset {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o, ok := d.checkpoints[kind][k]; ok {
		return o
	}
	return batch.NoOffset
}

// entry finds or makes a partition's entry and chooses its directory.
func (s *Store) entry(k partitionKey, id [16]byte, at Where) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, log.ErrClosed
	}
	if e := s.logs[k]; e != nil {
		return e, nil
	}
	dir, err := s.choose(k, id, at)
	if err != nil {
		return nil, err
	}
	delete(s.preferred, k)
	e := &entry{dir: dir, fresh: !dir.found[k]}
	delete(dir.found, k)
	dir.open++
	s.logs[k] = e
	return e, nil
}

// choose says, under mu, which directory a partition's log lies in, or is to lie in.
func (s *Store) choose(k partitionKey, id [16]byte, at Where) (*directory, error) {
	if d := s.holder(k, id); d != nil {
		return d, nil
	}
	var best, own *directory
	var lost error
	nameless := false
	for _, d := range s.dirs {
		if err := d.health.Offline(); err != nil {
			lost = err
			continue
		}
		if d.id == at.Directory {
			own = d
		}
		nameless = nameless || d.nameless
		if best == nil || d.roomier(best) {
			best = d
		}
	}
	if own != nil {
		if err := s.promote(own, k); err != nil {
			return nil, err
		}
		if own.found[k] {
			return own, nil
		}
	}
	preferred := s.preferred[k]
	if preferred != nil && preferred.health.Offline() != nil {
		preferred = nil
	}
	switch {
	case best == nil:
		return nil, ErrNoDirectory
	case own != nil && preferred != nil:
		return preferred, nil
	case own != nil:
		return own, nil
	case lost != nil && (!at.New || at.Directory != [16]byte{}):
		return nil, fmt.Errorf("%s may lie in a directory that was given up: %w", partitionDir(k.topic, k.partition), lost)
	case at.assigned() && !nameless:
		return nil, &ElsewhereError{Topic: k.topic, Partition: k.partition, Directory: at.Directory}
	case preferred != nil:
		return preferred, nil
	}
	return best, nil
}

// holder is, under mu, the directory that a partition was found in, or nil. Of several it is the one that holds the files
// of this topic, or else one that does not say whose it holds.
func (s *Store) holder(k partitionKey, id [16]byte) (found *directory) {
	var nameless *directory
	for _, d := range s.dirs {
		if !d.found[k] {
			continue
		}
		if found == nil {
			found = d
			continue
		}
		for _, d := range []*directory{found, d} {
			switch of, err := s.topicOf(d, k); {
			case err != nil:
			case of == id:
				return d
			case of == [16]byte{}:
				nameless = d
			}
		}
	}
	if nameless != nil {
		return nameless
	}
	return found
}

// ofTwoTopics says whether what two directories hold under a partition's name need not be of one topic: one of them was
// given up, then the topic was deleted and made anew in the other. Which of them is wanted the metadata says. One that says
// whose it is comes before one that does not, which is then put aside (Apache Kafka 4.4 puts aside whatever has no id).
// Two that do not say it nobody can choose from.
func (s *Store) ofTwoTopics(a, b *directory, k partitionKey) bool {
	x, errX := s.topicOf(a, k)
	y, errY := s.topicOf(b, k)
	return errX == nil && errY == nil && x != y
}

// topicOf is topicIn, but where a crash may have left the file without its bytes it does not say.
func (s *Store) topicOf(d *directory, k partitionKey) ([16]byte, error) {
	id, err := s.topicIn(d, k)
	if errors.Is(err, log.ErrMetadata) && !d.clean {
		return [16]byte{}, nil
	}
	return id, err
}

// topicIn is the id of the topic whose partition a directory holds; zero: it does not say.
func (s *Store) topicIn(d *directory, k partitionKey) ([16]byte, error) {
	return log.ReadTopicID(s.fs, d.path+"/"+partitionDir(k.topic, k.partition))
}

// roomier says, under Store.mu, whether a new log goes to this directory rather than to another: to one that is not
// cordoned, then to the one with the fewest logs.
func (d *directory) roomier(o *directory) bool {
	if d.cordoned != o.cordoned {
		return o.cordoned
	}
	return d.open+len(d.found) < o.open+len(o.found)
}

// Cordon says which directories get no new logs (KIP-1066): those with the given paths, which must be among those of the
// store, or with "*" all of them.
func (s *Store) Cordon(paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.dirs {
		d.cordoned = slices.ContainsFunc(paths, func(p string) bool { return p == "*" || d.isAt(p) })
	}
}

// CordonedIDs is the ids of the directories that get no new logs, in the order of the directories; never nil.
func (s *Store) CordonedIDs() [][16]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := [][16]byte{}
	for _, d := range s.dirs {
		if d.cordoned {
			out = append(out, d.id)
		}
	}
	return out
}

// isAt says whether a path, as a config says it, is the directory's.
func (d *directory) isAt(path string) bool {
	a, errA := filepath.Abs(path)
	b, errB := filepath.Abs(d.path)
	return errA == nil && errB == nil && a == b
}

func (s *Store) isCordoned(d *directory) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return d.cordoned
}

func (s *Store) openLog(e *entry, k partitionKey, id [16]byte, c log.Config) (*log.Log, error) {
	o, err := s.options(e.dir, k, id, c, partitionDir(k.topic, k.partition))
	if err != nil {
		return nil, err
	}
	l, r, err := log.Open(o)
	if err != nil {
		return nil, err
	}
	s.scanned.Add(r.Scanned)
	s.report(o.Dir, r)
	return l, nil
}

// report writes down what opening a log found.
func (s *Store) report(dir string, r log.Report) {
	for _, d := range r.Damage {
		s.logger.Error("log is damaged below its recovery point", damageFields(dir, d)...)
	}
	if r.Lost > 0 {
		s.logger.Error("log ends below its recovery point", zap.String("log", dir), zap.Int64("offsets_lost", int64(r.Lost)))
	}
	if r.Behind > 0 {
		s.logger.Error("log ends below its log start", zap.String("log", dir), zap.Int64("offsets_between", int64(r.Behind)))
	}
	if len(r.Rebuilt)+len(r.Dropped) > 0 {
		s.logger.Warn("files were made anew or dropped", zap.String("log", dir), zap.Strings("made_anew", r.Rebuilt), zap.Strings("dropped", r.Dropped))
	}
	if r.Recovered {
		s.logger.Debug("log was recovered", zap.String("log", dir), zap.Int64("bytes_read", r.Scanned))
	}
}

// damageFields say whose damage it is and where it stands.
func damageFields(dir string, d log.Damage) []zap.Field {
	fields := []zap.Field{zap.String("log", dir)}
	name := filepath.Base(dir)
	k, ok := parsePartitionDir(name)
	if !ok {
		k, ok = parseFutureDir(name)
	}
	if ok {
		fields = append(fields, zap.String("topic", k.topic), zap.Int32("partition", k.partition))
	}
	return append(fields, zap.Int64("offset", int64(d.Offset)), zap.String("segment", d.Segment), zap.Int64("position", d.Position), zap.Error(d.Reason))
}

// putAside renames a partition's directory so that another topic can have its name.
func (s *Store) putAside(d *directory, k partitionKey) error {
	from := d.path + "/" + partitionDir(k.topic, k.partition)
	to := d.path + "/" + doomedDir(k.topic, k.partition, straySuffix)
	s.logger.Warn("files of another topic of the same name are put aside", zap.String("from", from), zap.String("to", to))
	if err := s.fs.Rename(from, to); err != nil {
		return d.health.Fail("putting aside a stray log", err)
	}
	if err := s.fs.SyncDir(d.path); err != nil {
		return d.health.Fail("putting aside a stray log", err)
	}
	return s.forget(d, k)
}

// PutAside gives the files of a partition that nobody opened a name that no start looks at: those of a replica that the
// metadata does not assign here.
func (s *Store) PutAside(topic string, partition int32) error {
	k := partitionKey{topic: topic, partition: partition}
	s.mu.Lock()
	var in []*directory
	for _, d := range s.dirs {
		if d.found[k] {
			in = append(in, d)
			delete(d.found, k)
		}
	}
	s.mu.Unlock()
	var errs []error
	for _, d := range in {
		errs = append(errs, s.putAside(d, k))
	}
	return errors.Join(errs...)
}

// Found is a partition that is on disk.
type Found struct {
	Topic     string
	Partition int32
	TopicID   [16]byte // zero: not stored, or not readable
}

// Unopened lists the partitions on disk whose log nobody asked for, sorted: after the metadata is known, those that it
// does not assign here.
func (s *Store) Unopened() []Found {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Found
	for _, d := range s.dirs {
		for k := range d.found {
			id, err := s.topicIn(d, k)
			if err != nil {
				s.logger.Warn("topic id is not readable", zap.String("dir", d.path), zap.String("topic", k.topic), zap.Int32("partition", k.partition), zap.Error(err))
			}
			out = append(out, Found{Topic: k.topic, Partition: k.partition, TopicID: id})
		}
	}
	slices.SortFunc(out, func(a, b Found) int {
		return compareKeys(partitionKey{a.Topic, a.Partition}, partitionKey{b.Topic, b.Partition})
	})
	return out
}

// DirectoryOf is the id of the directory a partition's log lies in; zero if it has none.
func (s *Store) DirectoryOf(topic string, partition int32) [16]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.logs[partitionKey{topic: topic, partition: partition}]; e != nil {
		return e.dir.id
	}
	return [16]byte{}
}

// Delete closes a partition's log, whoever uses it, and gives its directory a name under which Housekeep removes it
// after file.delete.delay.ms. A partition that is not here is no error.
func (s *Store) Delete(topic string, partition int32) error {
	k := partitionKey{topic: topic, partition: partition}
	s.mu.Lock()
	e := s.logs[k]
	if e == nil {
		s.mu.Unlock()
		if d, name := s.claimFuture(k); d != nil {
			s.doomDir(d, name)
		}
		s.mu.Lock()
		for _, d := range s.dirs {
			if d.found[k] {
				delete(d.found, k)
				s.mu.Unlock()
				return s.deleteUnopened(d, k)
			}
		}
		s.mu.Unlock()
		return nil
	}
	delete(s.logs, k)
	e.dir.open--
	s.mu.Unlock()

	e.mu.Lock()
	defer e.mu.Unlock()
	if err := s.cancel(e, k); err != nil {
		s.logger.Error("a log on its way to another directory is left behind", zap.Error(err))
	}
	if e.log == nil {
		return s.deleteUnopened(e.dir, k)
	}
	if err := s.doomLog(e.dir, e.log, doomedDir(topic, partition, deleteSuffix)); err != nil {
		return fmt.Errorf("delete log %s: %w", partitionDir(topic, partition), err)
	}
	return nil
}

// doomLog closes a log and gives its directory a name under which Housekeep removes it.
func (s *Store) doomLog(d *directory, l *log.Log, name string) error {
	to, delay, remove := d.path+"/"+name, l.Config().FileDeleteDelayMs, l.Remove
	err := l.MarkDeleted(to)
	if errors.Is(err, log.ErrNoDescriptor) {
		remove = s.onceNamed(d, l.Remove)
	} else if err != nil {
		return err
	}
	s.doom(d, to, remove, delay)
	return err
}

func (s *Store) deleteUnopened(d *directory, k partitionKey) error {
	if err := d.health.Offline(); err != nil {
		return err
	}
	to := d.path + "/" + doomedDir(k.topic, k.partition, deleteSuffix)
	err := s.fs.Rename(d.path+"/"+partitionDir(k.topic, k.partition), to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return d.health.Fail("deletion", err)
	}
	remove := func() error { return s.fs.RemoveAll(to) }
	if err = s.fs.SyncDir(d.path); errors.Is(err, log.ErrNoDescriptor) {
		remove = s.onceNamed(d, remove)
	} else if err != nil {
		return d.health.Fail("deletion", err)
	}
	s.doom(d, to, remove, log.DefaultConfig().FileDeleteDelayMs)
	return err
}

// onceNamed is a removal of what has its name for that, and is to have it after a crash before any file goes: half of them
// would be taken for a log.
func (s *Store) onceNamed(d *directory, remove func() error) func() error {
	return func() error {
		if err := s.fs.SyncDir(d.path); err != nil {
			return err
		}
		return remove()
	}
}

func (s *Store) doom(d *directory, path string, remove func() error, delay int64) {
	s.mu.Lock()
	s.doomed = append(s.doomed, doomed{dir: d, path: path, remove: remove, at: s.now().UnixMilli() + min(delay, math.MaxInt64/2)})
	s.mu.Unlock()
}
