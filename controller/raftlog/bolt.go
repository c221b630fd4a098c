package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

const (
	fileName    = "raft.db"
	newSuffix   = ".new"
	boltFormat  = 1
	mapAtOpen   = 1 << 20 // one mapping for a log of ordinary size
	lockTimeout = time.Second
)

var (
	entriesBucket = []byte("entries")
	stateBucket   = []byte("state")

	formatKey    = []byte("format")
	selfKey      = []byte("self")
	hardKey      = []byte("hard")
	foundingKey  = []byte("founding")
	compactedKey = []byte("compacted")
)

// Bolt is the log on disk.
type Bolt struct {
	picture
	dir  string
	made []string  // directories that Open made: their names are to be synced too
	db   *bbolt.DB // nil until the first Sync of a new log

	// What disk and picture differ in. The commit index alone is never reason
	// enough to write: raft finds it again.
	dirtyFrom    uint64 // entries from here on are to be written; 0: none
	dirtyHard    bool
	dirtyConf    *pb.ConfState // the founding to write
	dirtyCompact bool
	diskFirst    uint64 // lowest and highest index on disk; 0: none
	diskLast     uint64

	err error
}

// Open opens the log in a directory, which it creates. Nothing is written
// before the first Sync.
func Open(dir string) (*Bolt, error) {
	b := &Bolt{picture: newPicture(), dir: dir, made: missing(dir)}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("opening the raft log: %w", err)
	}
	path := filepath.Join(dir, fileName)
	if _, err := os.Stat(path); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("opening the raft log: %w", err)
		}
		snapshots, err := listSnapshots(dir, true)
		if err != nil {
			return nil, err
		}
		if len(snapshots) > 0 {
			return nil, fmt.Errorf("opening the raft log: %s has snapshots but no %s", dir, fileName)
		}
		return b, nil
	}
	db, err := openBolt(path)
	if err != nil {
		return nil, err
	}
	b.db = db
	if err := b.load(); err != nil {
		_ = db.Close()
		return nil, err
	}
	return b, nil
}

// Holds says whether a directory is one that Open has written.
func Holds(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, fileName))
	return err == nil
}

// missing lists a directory and those above it that are not there, innermost first.
func missing(dir string) []string {
	var list []string
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			return list
		}
		list = append(list, dir)
		up := filepath.Dir(dir)
		if up == dir {
			return list
		}
		dir = up
	}
}

func openBolt(path string) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o644, &bbolt.Options{
		Timeout: lockTimeout, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, InitialMmapSize: mapAtOpen, NoStatistics: true,
	})
	if err != nil {
		return nil, fmt.Errorf("opening the raft log %s: %w", path, err)
	}
	return db, nil
}

// load reads everything: the picture is what the disk holds, and the newest
// snapshot.
func (b *Bolt) load() error {
	err := b.db.View(func(tx *bbolt.Tx) error {
		state := tx.Bucket(stateBucket)
		if state == nil {
			return fmt.Errorf("bucket %q is missing", stateBucket)
		}
		if format := state.Get(formatKey); len(format) != 1 || format[0] != boltFormat {
			return fmt.Errorf("format %v is not %d", format, boltFormat)
		}
		self := state.Get(selfKey)
		if len(self) != 8 {
			return errors.New("it belongs to nobody")
		}
		if v := state.Get(foundingKey); v == nil {
			b.self = binary.BigEndian.Uint64(self)
		} else {
			conf := &pb.ConfState{}
			if err := proto.Unmarshal(v, conf); err != nil {
				return fmt.Errorf("the founding members: %w", err)
			}
			if err := b.found(binary.BigEndian.Uint64(self), conf); err != nil {
				return err
			}
		}
		if v := state.Get(hardKey); v != nil {
			hard := &pb.HardState{}
			if err := proto.Unmarshal(v, hard); err != nil {
				return fmt.Errorf("the hard state: %w", err)
			}
			b.hard = hard
		}
		if v := state.Get(compactedKey); len(v) == 16 {
			b.before, b.beforeTerm = binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])
		}
		c := tx.Bucket(entriesBucket).Cursor()
		for k, v := c.Seek(indexKey(b.before + 1)); k != nil; k, v = c.Next() {
			e := &pb.Entry{}
			if err := proto.Unmarshal(v, e); err != nil {
				return fmt.Errorf("the entry at %x: %w", k, err)
			}
			if want := b.last() + 1; e.GetIndex() != want || binary.BigEndian.Uint64(k) != want {
				return fmt.Errorf("the entry at %x has index %d where %d is due", k, e.GetIndex(), want)
			}
			b.entries = append(b.entries, e)
		}
		if len(b.entries) > 0 {
			b.diskFirst, b.diskLast = b.before+1, b.last()
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the raft log in %s: %w", b.dir, err)
	}
	snapshots, err := listSnapshots(b.dir, true)
	if err != nil || len(snapshots) == 0 {
		return err
	}
	newest := snapshots[len(snapshots)-1]
	s, err := readSnapshot(b.dir, newest.index, newest.term)
	if err != nil {
		return err
	}
	meta := s.GetMetadata()
	if term, err := b.Term(newest.index); err == nil && term == newest.term {
		b.snap = meta // a snapshot of what the log holds, or of its front
		b.raiseTo(meta)
		return nil
	}
	// From a leader: it replaces the log. The crash came between its file and
	// the deletion of the entries, which the next Sync makes up for.
	b.install(meta, nil)
	b.dirtyAll()
	return nil
}

func (b *Bolt) dirtyAll() {
	b.dirtyFrom, b.dirtyHard, b.dirtyCompact = b.before+1, true, true
}

// Found is part of Log.
func (b *Bolt) Found(self uint64, conf *pb.ConfState) error {
	if b.err != nil {
		return b.err
	}
	if err := b.found(self, conf); err != nil {
		return err
	}
	b.dirtyConf, b.dirtyHard, b.dirtyCompact = conf, true, true
	return nil
}

// Join is part of Log.
func (b *Bolt) Join(self uint64) error {
	if b.err != nil {
		return b.err
	}
	if err := b.join(self); err != nil {
		return err
	}
	b.dirtyHard = true
	return nil
}

// Append is part of Log.
func (b *Bolt) Append(hard *pb.HardState, entries []*pb.Entry) error {
	if b.err != nil {
		return b.err
	}
	old := b.hard
	from, err := b.put(hard, entries)
	if err != nil {
		return err
	}
	if b.hard.GetTerm() != old.GetTerm() || b.hard.GetVote() != old.GetVote() {
		b.dirtyHard = true
	}
	if from != 0 && (b.dirtyFrom == 0 || from < b.dirtyFrom) {
		b.dirtyFrom = from
	}
	return nil
}

// Sync is part of Log. It is one bbolt transaction, whatever there is to write.
func (b *Bolt) Sync() error {
	if b.err != nil {
		return b.err
	}
	if b.dirtyFrom == 0 && !b.dirtyHard && !b.dirtyCompact {
		return nil
	}
	if err := b.write(); err != nil {
		b.err = fmt.Errorf("writing the raft log in %s: %w", b.dir, err)
		return b.err
	}
	b.dirtyFrom, b.dirtyHard, b.dirtyConf, b.dirtyCompact = 0, false, nil, false
	b.diskFirst, b.diskLast = b.before+1, b.last()
	return nil
}

func (b *Bolt) write() error {
	if b.db != nil {
		return b.db.Update(b.fill)
	}
	// A new log: until the rename nothing of it counts, so one sync of the whole
	// file does, where a transaction's own order of writes takes three.
	path := filepath.Join(b.dir, fileName)
	if err := os.Remove(path + newSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := bbolt.Open(path+newSuffix, 0o644, &bbolt.Options{
		Timeout: lockTimeout, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, InitialMmapSize: mapAtOpen, NoStatistics: true,
		NoSync: true, NoGrowSync: true,
	})
	if err != nil {
		return err
	}
	err = db.Update(b.fill)
	if err == nil {
		err = db.Sync()
	}
	if err == nil {
		err = os.Rename(path+newSuffix, path)
	}
	if err == nil {
		err = syncDir(b.dir)
	}
	for _, made := range b.made {
		if err == nil {
			err = syncDir(filepath.Dir(made))
		}
	}
	if err != nil {
		_ = db.Close()
		return err
	}
	db.NoSync, db.NoGrowSync = false, false
	b.db = db
	return nil
}

// fill writes all that differs.
func (b *Bolt) fill(tx *bbolt.Tx) error {
	state, err := tx.CreateBucketIfNotExists(stateBucket)
	if err != nil {
		return err
	}
	entries, err := tx.CreateBucketIfNotExists(entriesBucket)
	if err != nil {
		return err
	}
	if state.Get(formatKey) == nil {
		if err := state.Put(formatKey, []byte{boltFormat}); err != nil {
			return err
		}
	}
	if state.Get(selfKey) == nil {
		if err := state.Put(selfKey, indexKey(b.self)); err != nil {
			return err
		}
	}
	if b.dirtyConf != nil {
		v, err := proto.Marshal(b.dirtyConf)
		if err != nil {
			return err
		}
		if err := state.Put(foundingKey, v); err != nil {
			return err
		}
	}
	if b.hard != nil {
		v, err := proto.Marshal(b.hard)
		if err != nil {
			return err
		}
		if err := state.Put(hardKey, v); err != nil {
			return err
		}
	}
	if b.dirtyCompact {
		v := binary.BigEndian.AppendUint64(indexKey(b.before), b.beforeTerm)
		if err := state.Put(compactedKey, v); err != nil {
			return err
		}
		for i := b.diskFirst; i != 0 && i <= min(b.before, b.diskLast); i++ {
			if err := entries.Delete(indexKey(i)); err != nil {
				return err
			}
		}
	}
	if b.dirtyFrom == 0 {
		return nil
	}
	// Keys only ever grow at the end: full pages waste nothing.
	entries.FillPercent = 1
	from := max(b.dirtyFrom, b.before+1)
	for _, e := range b.entries[from-b.before-1:] {
		v, err := proto.Marshal(e)
		if err != nil {
			return err
		}
		if err := entries.Put(indexKey(e.GetIndex()), v); err != nil {
			return err
		}
	}
	for i := max(b.last()+1, b.diskFirst); i <= b.diskLast; i++ {
		if err := entries.Delete(indexKey(i)); err != nil {
			return err
		}
	}
	return nil
}

func indexKey(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }

// Snapshot is part of raft.Storage.
func (b *Bolt) Snapshot() (*pb.Snapshot, error) {
	if b.err != nil {
		return nil, b.err
	}
	if b.snap.GetIndex() <= FoundingIndex {
		return &pb.Snapshot{Metadata: b.snap}, nil
	}
	return readSnapshot(b.dir, b.snap.GetIndex(), b.snap.GetTerm())
}

// StoreSnapshot is part of Log.
func (b *Bolt) StoreSnapshot(s *pb.Snapshot) error { return writeSnapshot(b.dir, s) }

// Install is part of Log. The file comes first: Open replaces the log by a
// snapshot that is beyond it.
func (b *Bolt) Install(s *pb.Snapshot) error {
	if b.err != nil {
		return b.err
	}
	// Before the file: a snapshot without a database would read as a lost one.
	if err := b.Sync(); err != nil {
		return err
	}
	if err := writeSnapshot(b.dir, s); err != nil {
		b.err = err
		return err
	}
	b.install(s.GetMetadata(), nil)
	b.dirtyAll()
	if err := b.Sync(); err != nil {
		return err
	}
	return dropSnapshots(b.dir, s.GetMetadata().GetIndex())
}

// Compact is part of Log. The entries leave the disk with the next Sync.
func (b *Bolt) Compact(snapshot *pb.SnapshotMetadata, index uint64) error {
	if b.err != nil {
		return b.err
	}
	if _, err := os.Stat(filepath.Join(b.dir, snapshotName(snapshot.GetIndex(), snapshot.GetTerm()))); err != nil {
		return errNoSnapshot(snapshot)
	}
	if err := b.compact(snapshot, nil, index); err != nil {
		return err
	}
	b.dirtyCompact = true
	return dropSnapshots(b.dir, snapshot.GetIndex())
}

// Close is part of Log.
func (b *Bolt) Close() error {
	if b.db != nil && b.err == nil {
		b.dirtyHard = true // the commit index, for a start that need not find it again
	}
	err := b.Sync()
	if b.db != nil {
		if closed := b.db.Close(); err == nil {
			err = closed
		}
		b.db = nil
	}
	if b.err == nil {
		b.err = errors.New("the raft log is closed")
	}
	return err
}
