package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"millrace/storage/disk"
	"millrace/storage/log"
)

// The checkpoints, as indexes of directory.checkpoints.
const (
	recoveryPoints = iota
	logStarts
	highWatermarks
	cleanedOffsets
	kinds
)

var checkpointFiles = [kinds]string{recoveryPointFile, logStartFile, highWatermarkFile, cleanerFile}

// directory is one data directory.
type directory struct {
	path  string
	id    [16]byte
	meta  meta
	known bool // meta.properties is there and says everything
	// nameless: it has been used, and nothing there says under which id.
	nameless bool
	health   *log.Directory
	lock     io.Closer
	clean    bool
	mark     int64 // the broker epoch of the last stop, if that was a clean one that said it; else -1

	// Under mu, which is taken last and held while a checkpoint is written.
	mu          sync.Mutex
	checkpoints [kinds]checkpoint // as they are on disk
	// torn: the file has its name, and after a crash it may be the one before that.
	torn    [kinds]bool
	written [kinds]time.Time

	// Under Store.mu.
	found    map[partitionKey]bool   // partitions on disk that nobody asked for yet
	futures  map[partitionKey]string // names of logs on their way here that nobody asked for yet
	open     int                     // logs
	cordoned bool
}

// apart refuses directories of which one lies in another. It goes by their names.
func apart(paths []string) error {
	whole := make([]string, len(paths))
	for i, path := range paths {
		whole[i] = (&directory{path: path}).absolute()
		if whole[i] == "/" {
			return fmt.Errorf("%w: %s is the root of the file system", ErrNested, path)
		}
	}
	for i, outer := range whole {
		for j, inner := range whole {
			if strings.HasPrefix(inner, outer+"/") {
				return fmt.Errorf("%w: %s lies in %s", ErrNested, paths[j], paths[i])
			}
		}
	}
	return nil
}

// atStart is the operation that a directory was given up for before there was any.
const atStart = "start"

// failure is why a directory was given up, with its name, said once; nil: it works.
func (d *directory) failure() error {
	err := d.health.Offline()
	var offline *log.OfflineError
	if !errors.As(err, &offline) || offline.Op != atStart {
		if err != nil {
			err = fmt.Errorf("%s: %w", d.path, err)
		}
		return err
	}
	var at *fs.PathError
	if errors.As(offline.Err, &at) && (at.Path == d.path || strings.HasPrefix(at.Path, d.path+"/")) {
		return offline.Err
	}
	return fmt.Errorf("%s: %w", d.path, offline.Err)
}

// makeDir makes a directory and its missing parents, durably: what is synced in a directory whose own name is lost in a
// power cut is lost with it.
func makeDir(fsys disk.FS, dir string) error {
	var parents []string
	for at := dir; ; {
		if _, err := fsys.Stat(at); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		up := filepath.Dir(at)
		if up == at {
			break
		}
		parents = append(parents, up)
		at = up
	}
	if len(parents) == 0 {
		return nil
	}
	if err := fsys.MkdirAll(dir); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("a link there leads to nothing: %w", err)
	} else if err != nil {
		return err
	}
	for _, p := range parents {
		if err := fsys.SyncDir(p); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) openDir(d *directory) error {
	if err := makeDir(s.fs, d.path); err != nil {
		return err
	}
	lock, err := s.fs.Lock(d.path + "/" + lockFile)
	if errors.Is(err, disk.ErrLocked) {
		return fmt.Errorf("%w: %s", ErrLocked, d.path)
	}
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	d.lock = lock
	m, ok, err := readMeta(s.fs, d.path)
	if err != nil {
		return err
	}
	if ok && m.nodeID != s.nodeID {
		return fmt.Errorf("%w: %s is of node %d, this is node %d; set node.id=%d to use the directory, or name an empty one in log.dirs", ErrIdentity, d.path, m.nodeID, s.nodeID, m.nodeID)
	}
	d.meta, d.id = m, m.directory
	d.known = ok && m.clusterID != "" && m.directory != [16]byte{}
	if d.id == ([16]byte{}) {
		d.id = newUUID()
	}
	mark, err := disk.ReadFile(s.fs, d.path+"/"+cleanFile, 1<<16)
	switch {
	case err == nil:
		d.clean = true
		d.mark = decodeClean(mark)
		if e := d.mark; s.cleanDirsCount == 0 || e == s.previousEpoch {
			s.previousEpoch = e
		} else {
			s.previousEpoch = -1
		}
		s.cleanDirsCount++
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read %s: %w", cleanFile, err)
	}
	for i, name := range checkpointFiles {
		c, err := readCheckpoint(s.fs, d.path, name)
		if err != nil {
			if i == recoveryPoints || (d.clean && i != cleanedOffsets) {
				return err
			}
			// Without its log starts and high watermarks a log begins with its first segment, and cleaning begins anew:
			// safe, and logged.
			s.logger.Warn("checkpoint is not readable", zap.String("dir", d.path), zap.Error(err))
			c = checkpoint{}
		}
		d.checkpoints[i] = c
		d.written[i] = s.now()
	}
	names, err := s.fs.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("list %s: %w", d.path, err)
	}
	if !s.half && slices.ContainsFunc(names, func(n disk.Entry) bool { return n.Name == UnfinishedFile }) {
		return fmt.Errorf("%s: %w", d.path, ErrUnfinished)
	}
	var foreign []string // what is no broker's
	for _, n := range names {
		if m.directory == ([16]byte{}) && n.Name != lockFile && n.Name != metaFile {
			d.nameless = true
		}
		if n.Name == metadataDir {
			continue
		}
		if !n.Dir {
			if !ownFile(n.Name) {
				foreign = append(foreign, n.Name)
			}
			continue
		}
		if strings.HasSuffix(n.Name, deleteSuffix) {
			path := d.path + "/" + n.Name
			s.doomed = append(s.doomed, doomed{dir: d, path: path, remove: func() error { return s.fs.RemoveAll(path) }, at: s.now().UnixMilli()})
			continue
		}
		if strings.HasSuffix(n.Name, futureSuffix) && s.foundFuture(d, n.Name) {
			continue
		}
		if hasAnySuffix(n.Name, straySuffix, futureSuffix) {
			s.logger.Warn("directory is left alone", zap.String("dir", d.path+"/"+n.Name))
			continue
		}
		if k, ok := parsePartitionDir(n.Name); ok {
			d.found[k] = true
		} else if !ownFile(n.Name) {
			foreign = append(foreign, n.Name)
		}
	}
	if d.clean && len(d.found) > 0 && !slices.Contains(names, disk.Entry{Name: recoveryPointFile}) {
		// Every stop writes it, and with it the others. Logs end where their segments do, but begin with the first of them.
		s.logger.Warn("checkpoint is missing where a stop in order has left one", zap.String("dir", d.path), zap.String("file", recoveryPointFile))
	}
	if len(foreign) > 0 {
		slices.Sort(foreign)
		s.logger.Warn("data directory holds what is no broker's; it is left alone", zap.String("dir", d.path),
			zap.Strings("some", foreign[:min(len(foreign), 5)]), zap.Int("all", len(foreign)))
	}
	return nil
}

// ownFile says whether a file of a data directory is one that a broker, Apache Kafka's too, keeps there, or the file
// system itself.
func ownFile(name string) bool {
	name = strings.TrimSuffix(name, ".tmp")
	switch name {
	case lockFile, metaFile, cleanFile, UnfinishedFile, "cleaner-offset-checkpoint", "bootstrap.checkpoint", "lost+found":
		return true
	}
	return slices.Contains(checkpointFiles[:], name)
}

// metadataDir is where the controller keeps the cluster's metadata; it is no log of this store.
const metadataDir = "__cluster_metadata-0"

// checkIdentity compares the directories with one another.
func (s *Store) checkIdentity() error {
	ids := map[[16]byte]string{}
	for _, d := range s.dirs {
		if d.health.Offline() != nil {
			continue
		}
		if other, ok := ids[d.id]; ok {
			return fmt.Errorf("%w: %s and %s have the same directory.id", ErrIdentity, other, d.path)
		}
		ids[d.id] = d.path
		switch {
		case d.meta.clusterID == "":
		case s.clusterID == "":
			s.clusterID = d.meta.clusterID
		case s.clusterID != d.meta.clusterID:
			return fmt.Errorf("%w: %s is of cluster %s, another directory of %s", ErrIdentity, d.path, d.meta.clusterID, s.clusterID)
		}
	}
	for i, d := range s.dirs {
		for k := range d.found {
			for _, other := range s.dirs[:i] {
				if other.found[k] && !s.ofTwoTopics(other, d, k) {
					return fmt.Errorf("%w: %s and %s both hold %s", ErrIdentity, other.path, d.path, partitionDir(k.topic, k.partition))
				}
			}
		}
	}
	return nil
}

// absolute is the path that Kafka's tools name the directory by.
func (d *directory) absolute() string {
	if abs, err := filepath.Abs(d.path); err == nil {
		return abs
	}
	return d.path
}
