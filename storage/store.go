// Package storage is the disks of one broker: its data directories, who they belong to, and the logs in them. The
// layout is Kafka's, byte for byte; FORMAT.md writes it down.
//
// It is not the logs themselves (storage/log) and does not know who leads what: the broker asks for the log of a
// partition and says when one is to go.
//
// It promises that two brokers never share a directory, that a directory of another node or cluster is refused before
// anything in it is touched, and that the mark of a clean stop is there only if every log of the directory was closed
// in order. A directory in which a write or sync failed is given up until the next start; the others go on.
package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"millrace/storage/disk"
	"millrace/storage/log"
)

// ErrLocked says that another process uses a data directory.
var ErrLocked = errors.New("data directory is used by another process")

// ErrNoDirectory says that no data directory is left to work with.
var ErrNoDirectory = errors.New("no usable data directory")

// ErrNested says that a data directory lies in another one, or is the root, in which all others do: what one of them holds
// would be taken for the other's.
var ErrNested = errors.New("data directories are to lie apart")

// ErrElsewhere says that a log lies in a directory that is not one of the store's.
var ErrElsewhere = errors.New("lies in a data directory that is not there")

// ElsewhereError is ErrElsewhere, and says which directory is not there.
type ElsewhereError struct {
	Topic     string
	Partition int32
	Directory [16]byte
}

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("%s %v: that one has the directory.id %s", partitionDir(e.Topic, e.Partition), ErrElsewhere, encodeUUID(e.Directory))
}

func (e *ElsewhereError) Unwrap() error { return ErrElsewhere }

// StoreOptions is what Open needs.
type StoreOptions struct {
	Dirs   []string // log.dirs
	FS     disk.FS  // nil: the operating system's
	Now    func() time.Time
	Logger *zap.Logger
	NodeID int32

	// OpenFiles bounds the segment files that are open only because they were read, and WrittenFiles those that logs write
	// to; 0: a part of what the system lets the process open, and of the former at most 1024.
	OpenFiles, WrittenFiles int
	// ProducerExpireMs is producer.id.expiration.ms; 0: a day.
	ProducerExpireMs int64
	// Flushed is told how long each flush of a log took; nil: nobody is.
	Flushed func(time.Duration)
	// Holes says that what lies in the directories may have been cleaned by a broker that does not note first what it has
	// flushed; see log.Options.
	Holes bool
	// Unfinished lets directories be opened that are marked as unfinished: by who is about to finish them.
	Unfinished bool
	// Failed is called when a data directory is given up; it must not block. Nil: nobody is told.
	Failed func()

	// How often Housekeep writes the checkpoints; 0: Kafka's 60 s, 60 s and 5 s.
	RecoveryPointEvery, LogStartEvery, HighWatermarkEvery time.Duration
}

// mostOpenFiles is enough for what consumers that read old segments come back to.
const mostOpenFiles = 1024

// openFiles says how many of the files that the process may open are for segments that are read, and for those that are
// written to. The rest is for connections, and for files that are open for a moment.
func openFiles(limit int) (read, written int) {
	return max(min(mostOpenFiles, limit/8), 1), max(limit/2, 1)
}

// Store is the data directories of one broker and the logs in them. Its methods may be called concurrently.
type Store struct {
	fs       disk.FS
	now      func() time.Time
	logger   *zap.Logger
	nodeID   int32
	files    *log.Files
	expireMs int64
	flushed  func(time.Duration)
	failed   func()
	holes    bool
	half     bool
	every    [kinds]time.Duration // by checkpoint kind

	scanned atomic.Int64 // bytes of segments that opening logs has read

	clusterID      string
	previousEpoch  int64 // broker epoch of the last clean stop, -1
	cleanDirsCount int

	mu          sync.Mutex
	dirs        []*directory
	logs        map[partitionKey]*entry
	doomed      []doomed
	preferred   map[partitionKey]*directory // where logs that are not here are to be made
	brokerEpoch int64
	closed      bool
}

// entry is one partition's log. Its lock is held while the log is opened, so that two logs can be recovered at a time, and
// while one is exchanged for another: who only wants to know what is open looks at shown.
type entry struct {
	mu  sync.Mutex
	dir *directory // changes under Store.mu too
	log *log.Log
	// failed is why the log did not open: it is tried again at the next start.
	failed error
	// future is the log that is to take its place; nil: none.
	future *future
	// fresh: there were no files when the entry was made.
	fresh bool
	// coming is the directory of a future log that is being opened. Under Store.mu.
	coming *directory

	shown atomic.Pointer[shown]
}

// shown is the open logs of an entry, as they were last.
type shown struct {
	dir    *directory
	log    *log.Log // nil: there is none
	future *future
}

// show makes known what is open now.
func (e *entry) show() { e.shown.Store(&shown{dir: e.dir, log: e.log, future: e.future}) }

// look is what is open; nothing while the first log is being opened.
func (e *entry) look() shown {
	if x := e.shown.Load(); x != nil {
		return *x
	}
	return shown{}
}

// doomed is a directory that waits to be removed.
type doomed struct {
	dir    *directory
	path   string
	remove func() error
	at     int64
}

// Open takes the data directories: it makes those that are missing, locks them, reads whose they are and the
// checkpoints, and takes away the mark of a clean stop. No log is opened yet. A directory whose disk fails is given up;
// it is an error if none is left.
func Open(o StoreOptions) (*Store, error) {
	s := &Store{
		fs: o.FS, now: o.Now, logger: o.Logger, nodeID: o.NodeID, expireMs: o.ProducerExpireMs, flushed: o.Flushed, failed: o.Failed, holes: o.Holes, half: o.Unfinished,
		every: [kinds]time.Duration{o.RecoveryPointEvery, o.LogStartEvery, o.HighWatermarkEvery, time.Minute},
		logs:  map[partitionKey]*entry{}, preferred: map[partitionKey]*directory{},
		previousEpoch: -1, brokerEpoch: -1,
	}
	if s.fs == nil {
		s.fs = disk.OS{}
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.logger == nil {
		s.logger = zap.NewNop()
	}
	for i, d := range [kinds]time.Duration{time.Minute, time.Minute, 5 * time.Second, time.Minute} {
		if s.every[i] <= 0 {
			s.every[i] = d
		}
	}
	read, written := openFiles(disk.MaxOpen())
	if o.OpenFiles > 0 {
		read = o.OpenFiles
	}
	if o.WrittenFiles > 0 {
		written = o.WrittenFiles
	}
	s.files = log.NewFiles(read, written)
	s.fs = s.files.Room(s.fs)
	if err := s.open(o.Dirs); err != nil {
		s.unlock(false)
		return nil, err
	}
	return s, nil
}

func (s *Store) open(paths []string) error {
	if err := apart(paths); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, path := range paths {
		path = strings.TrimRight(path, "/")
		if path == "" {
			path = "/"
		}
		if seen[path] {
			return fmt.Errorf("data directory %s is named twice", path)
		}
		seen[path] = true
		d := &directory{path: path, mark: -1, health: &log.Directory{Told: s.failed}, found: map[partitionKey]bool{}, futures: map[partitionKey]string{}}
		s.dirs = append(s.dirs, d)
		err := s.openDir(d)
		if errors.Is(err, ErrLocked) || errors.Is(err, ErrIdentity) || errors.Is(err, ErrMeta) || errors.Is(err, ErrUnfinished) {
			return err
		}
		if err != nil {
			_ = d.health.GiveUp(atStart, err)
		}
	}
	if err := s.checkIdentity(); err != nil {
		return err
	}
	// Only now, when all of them are known to be ours, is anything taken away.
	for _, d := range s.dirs {
		if d.health.Offline() != nil || !d.clean || faults.keepMark {
			continue
		}
		err := s.fs.Remove(d.path + "/" + cleanFile)
		if err == nil {
			err = s.fs.SyncDir(d.path)
		}
		if err != nil {
			_ = d.health.GiveUp(atStart, err)
		}
	}
	why := s.Failures()
	if len(why) == len(s.dirs) {
		return fmt.Errorf("%w: %w", ErrNoDirectory, errors.Join(why...)) // whoever is given it tells of it
	}
	for _, err := range why {
		s.logger.Error("a data directory was given up: its partitions are not served until the next start", zap.Error(err))
	}
	return nil
}

// State is how a broker's data directories were when they were opened.
type State int

const (
	LeftEmpty   State = iota // no partition is in them
	LeftClean                // those with partitions were closed in order
	LeftUnclean              // their broker has ended some other way
)

func (f State) String() string {
	return [...]string{"empty", "closed in order", "not closed in order"}[f]
}

// State says how the directories were left; one that is new among others says nothing. It is for the time before logs
// are opened.
func (s *Store) State() State {
	state := LeftEmpty
	for _, d := range s.dirs {
		switch {
		case d.clean:
			state = LeftClean
		case len(d.found) > 0:
			return LeftUnclean
		}
	}
	return state
}

// ClusterID is what meta.properties says, or what WriteMeta was told; "" while nobody has said it.
func (s *Store) ClusterID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clusterID
}

// DirectoryID is the first directory's id.
func (s *Store) DirectoryID() [16]byte { return s.dirs[0].id }

// DirectoryIDs is the ids of the directories that work, sorted.
func (s *Store) DirectoryIDs() [][16]byte { return s.ids(true) }

// OfflineIDs is the ids of the directories that were given up, sorted.
func (s *Store) OfflineIDs() [][16]byte { return s.ids(false) }

// Failures is why directories were given up, in the order of the directories.
func (s *Store) Failures() []error {
	var out []error
	for _, d := range s.dirs {
		if err := d.failure(); err != nil {
			out = append(out, err)
		}
	}
	return out
}

// Directory is what is known of a data directory.
type Directory struct {
	Path     string
	Absolute string // Path, as Kafka's tools name the directory
	ID       [16]byte
	Failure  error // why it was given up; nil: it works
	Cordoned bool
}

// Directories lists the data directories, in their configured order.
func (s *Store) Directories() []Directory {
	out := make([]Directory, len(s.dirs))
	for i, d := range s.dirs {
		out[i] = Directory{Path: d.path, Absolute: d.absolute(), ID: d.id, Failure: d.health.Offline(), Cordoned: s.isCordoned(d)}
	}
	return out
}

func (s *Store) ids(online bool) [][16]byte {
	var out [][16]byte
	for _, d := range s.dirs {
		if (d.health.Offline() == nil) == online {
			out = append(out, d.id)
		}
	}
	slices.SortFunc(out, func(a, b [16]byte) int { return slices.Compare(a[:], b[:]) })
	return out
}

// PreviousBrokerEpoch is the broker epoch noted at the last stop, if that was a clean one for all directories; else -1.
func (s *Store) PreviousBrokerEpoch() int64 {
	if s.cleanDirsCount != len(s.dirs) {
		return -1
	}
	return s.previousEpoch
}

// ClosedUnder is the newest broker epoch that was noted at a clean stop of any of the directories which say whose they are; -1
// where none does.
func (s *Store) ClosedUnder() int64 {
	newest := int64(-1)
	for _, d := range s.dirs {
		if d.meta.clusterID != "" {
			newest = max(newest, d.mark)
		}
	}
	return newest
}

// SetBrokerEpoch says what a clean stop will note. Until then it leaves the marks as they were.
func (s *Store) SetBrokerEpoch(e int64) {
	s.mu.Lock()
	s.brokerEpoch = e
	s.mu.Unlock()
}

// WriteMeta makes the directories those of a cluster and node. What they already say must not contradict it.
func (s *Store) WriteMeta(clusterID string, nodeID int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clusterID != "" && s.clusterID != clusterID {
		return fmt.Errorf("%w: it is of cluster %s, this is %s", ErrIdentity, s.clusterID, clusterID)
	}
	if nodeID != s.nodeID {
		return fmt.Errorf("%w: it is of node %d, this is node %d", ErrIdentity, s.nodeID, nodeID)
	}
	s.clusterID = clusterID
	for _, d := range s.dirs {
		if d.known || d.health.Offline() != nil {
			continue
		}
		d.meta = meta{clusterID: clusterID, nodeID: nodeID, directory: d.id}
		if err := disk.Replace(s.fs, d.path, metaFile, d.meta.encode(s.now())); err != nil {
			return d.health.Fail("writing "+metaFile, err)
		}
		d.known = true
	}
	return nil
}
