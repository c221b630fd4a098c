package storage

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"

	"go.uber.org/zap"

	"millrace/storage/log"
)

// Name names a partition.
type Name struct {
	Topic     string
	Partition int32
}

// DirectoryUse is one data directory and the logs in it.
type DirectoryUse struct {
	Path     string // absolute
	ID       [16]byte
	Err      error // why the directory was given up, or could not be looked at; the rest is then empty
	Cordoned bool
	// Total and Usable are the bytes of its file system; -1: unknown.
	Total, Usable int64
	Logs          []LogUse // sorted by topic and partition
}

// LogUse is one log.
type LogUse struct {
	Name
	// Size is how many bytes its segments hold: indexes and what waits to be removed do not count, as in Kafka.
	Size int64
	// Lag is by how much the log end is behind the high watermark; of a log that is on its way, behind the log end of the
	// one whose place it is to take; of such a one that an earlier life has left and that is not open yet, at most.
	Lag int64
	// Future: the log is on its way here.
	Future bool
}

// Describe looks at all data directories, in their order, and at those logs that are wanted: the open ones, and those on
// their way that the start has found. Who does not see one of these could take that for the end of its move.
func (s *Store) Describe(wanted func(Name) bool) []DirectoryUse {
	for tries := 2; ; tries-- {
		if out, changed := s.describe(wanted); !changed || tries == 0 {
			return out
		}
	}
}

// describe is Describe at one moment; changed says that a partition has got another log meanwhile, which is not there.
func (s *Store) describe(wanted func(Name) bool) (out []DirectoryUse, changed bool) {
	left := s.left(wanted) // first: what is opened from now on is among the open ones
	logs := s.openLogs()
	out = make([]DirectoryUse, len(s.dirs))
	for i, d := range s.dirs {
		u := &out[i]
		u.Path, u.ID, u.Total, u.Usable = d.absolute(), d.id, -1, -1
		u.Cordoned = s.isCordoned(d)
		if u.Err = d.health.Offline(); u.Err != nil {
			continue
		}
		total, usable, err := s.fs.Space(d.path)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
		case err != nil:
			u.Err = err
			s.logger.Warn("data directory cannot be looked at", zap.String("dir", d.path), zap.Error(err))
			continue
		default:
			u.Total, u.Usable = total, usable
		}
		for k, l := range logs[d] {
			name := Name{Topic: k.topic, Partition: k.partition}
			if !wanted(name) {
				continue
			}
			v := l.View()
			if v.Closed() && !s.has(k, l) {
				changed = changed || s.entryOf(k) != nil
				continue // deleted in the meantime
			}
			use := LogUse{Name: name, Size: v.Bytes(), Lag: max(int64(v.HighWatermark()-v.LogEnd()), 0)}
			if current := s.currentOf(k, l); current != nil {
				use.Future, use.Lag = true, int64(current.View().LogEnd()-v.LogEnd())
			}
			u.Logs = append(u.Logs, use)
		}
		for k, name := range left[d] {
			e := s.entryOf(k)
			if logs[d][k] != nil || e == nil {
				continue
			}
			if x := e.look(); x.log != nil {
				if use, is := s.describeLeft(d, k, name, x.log); is {
					u.Logs = append(u.Logs, use)
				}
			}
		}
		slices.SortFunc(u.Logs, func(a, b LogUse) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
		})
	}
	return out, changed
}

// left lists the logs on their way that the start found and that are not open, by directory, with their names.
func (s *Store) left(wanted func(Name) bool) map[*directory]map[partitionKey]string {
	out := map[*directory]map[partitionKey]string{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.dirs {
		for k, name := range d.futures {
			if e := s.logs[k]; e == nil || e.dir == d || !wanted(Name{Topic: k.topic, Partition: k.partition}) {
				continue // of nobody, or where the log is: it goes
			}
			if out[d] == nil {
				out[d] = map[partitionKey]string{}
			}
			out[d][k] = name
		}
	}
	return out
}

// describeLeft tells of a log on its way that is not open what can be told without opening it; is: it is still there.
func (s *Store) describeLeft(d *directory, k partitionKey, name string, current *log.Log) (use LogUse, is bool) {
	size, reaches, err := log.Unopened(s.fs, d.path+"/"+name)
	if errors.Is(err, fs.ErrNotExist) {
		return LogUse{}, false // it was given up in the meantime
	}
	if err != nil {
		s.logger.Warn("a log on its way to another directory cannot be looked at", zap.String("dir", d.path+"/"+name), zap.Error(err))
	}
	reaches = max(reaches, d.stored(recoveryPoints, k))
	return LogUse{
		Name: Name{Topic: k.topic, Partition: k.partition}, Size: size, Future: true,
		Lag: max(int64(current.View().LogEnd()-reaches), 0),
	}, true
}

// has says whether a log is a partition's, or on its way to be: also one that is closed while another takes its place.
func (s *Store) has(k partitionKey, l *log.Log) bool {
	e := s.entryOf(k)
	if e == nil {
		return false
	}
	x := e.look()
	return x.log == l || x.future != nil && x.future.log == l
}

// currentOf is the log whose place a log is to take; nil: it is on no way.
func (s *Store) currentOf(k partitionKey, l *log.Log) *log.Log {
	e := s.entryOf(k)
	if e == nil {
		return nil
	}
	x := e.look()
	if x.future == nil || x.future.log != l {
		return nil
	}
	return x.log
}

// StoreLogStarts makes the log starts of some partitions durable now, where the next checkpoint would do so later: what
// DeleteRecords has answered outlives the process and the machine.
func (s *Store) StoreLogStarts(names []Name) error {
	byDir := map[*directory]map[partitionKey]*log.Log{}
	for _, n := range names {
		k := partitionKey{topic: n.Topic, partition: n.Partition}
		e := s.entryOf(k)
		if e == nil {
			continue
		}
		// A log that is exchanged at this moment tells where it starts to the one that takes its place, as stored.
		x := e.look()
		if x.log == nil {
			continue
		}
		if byDir[x.dir] == nil {
			byDir[x.dir] = map[partitionKey]*log.Log{}
		}
		byDir[x.dir][k] = x.log
	}
	var errs []error
	for _, d := range s.dirs {
		if logs := byDir[d]; logs != nil {
			errs = append(errs, s.storeStarts(d, logs))
		}
	}
	return errors.Join(errs...)
}
