package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

const (
	fileName    = "raft.db"
	newSuffix   = ".new"
	boltFormat  = 2
	bareFormat  = 1       // values without checksums, and no total
	mapAtOpen   = 1 << 20 // one mapping for a log of ordinary size
	lockTimeout = time.Second
	lockRetry   = 50 * time.Millisecond
)

var (
	entriesBucket = []byte("entries")
	stateBucket   = []byte("state")

	formatKey    = []byte("format")
	selfKey      = []byte("self")
	hardKey      = []byte("hard")
	foundingKey  = []byte("founding")
	compactedKey = []byte("compacted")
	totalKey     = []byte("total")
)

// Bolt is the log on disk.
type Bolt struct {
	picture
	dir  string
	made []string  // directories that Open made: their names are to be synced too
	db   *bbolt.DB // nil until the first Sync of a new log
	sums sums      // of what is on disk

	// What disk and picture differ in. The commit index alone is never reason
	// enough to write: raft finds it again.
	dirtyAll     bool          // everything: nothing is on disk, or all of it in an older format
	dirtyFrom    uint64        // entries from here on are to be written; 0: none
	founding     *pb.ConfState // to be written, unless nil
	dirtyHard    bool
	dirtyCompact bool

	err error
}

func boltOptions() *bbolt.Options {
	return &bbolt.Options{
		Timeout: lockTimeout, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, InitialMmapSize: mapAtOpen, NoStatistics: true,
	}
}

// Holds says whether a directory is one that Open has written.
func Holds(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, fileName))
	return err == nil
}

func (b *Bolt) dirtyInstall() {
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
	b.founding, b.dirtyHard, b.dirtyCompact = conf, true, true
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
	b.dirtyAll, b.dirtyFrom, b.founding, b.dirtyHard, b.dirtyCompact = false, 0, nil, false, false
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
	options := boltOptions()
	options.NoSync, options.NoGrowSync = true, true
	db, err := bbolt.Open(path+newSuffix, 0o644, options)
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
	if b.dirtyAll {
		b.dirtyFrom, b.dirtyCompact, b.sums = b.before+1, true, sums{}
		for _, name := range [][]byte{stateBucket, entriesBucket} {
			if err := tx.DeleteBucket(name); err != nil && !errors.Is(err, berrors.ErrBucketNotFound) {
				return err
			}
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
	}
	if err := b.fillEntries(tx.Bucket(entriesBucket)); err != nil {
		return err
	}
	return b.fillState(tx.Bucket(stateBucket), uint64(tx.ID()))
}

func (b *Bolt) fillEntries(entries *bbolt.Bucket) error {
	if b.dirtyCompact {
		for i := b.sums.first; i < b.sums.end() && i <= b.before; i++ {
			if err := entries.Delete(indexKey(i)); err != nil {
				return err
			}
		}
		b.sums.dropTo(b.before)
	}
	if b.dirtyFrom == 0 {
		return nil
	}
	for i := max(b.last()+1, b.sums.first); i < b.sums.end(); i++ {
		if err := entries.Delete(indexKey(i)); err != nil {
			return err
		}
	}
	b.sums.dropFrom(b.last() + 1)
	// Keys only ever grow at the end: full pages waste nothing.
	entries.FillPercent = 1
	from := max(b.dirtyFrom, b.before+1)
	for _, e := range b.entries[from-b.before-1:] {
		v, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, sumSize, sumSize+proto.Size(e)), e)
		if err != nil {
			return err
		}
		key := indexKey(e.GetIndex())
		b.sums.putEntry(e.GetIndex(), seal(entriesBucket, key, v))
		if err := entries.Put(key, v); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bolt) fillState(state *bbolt.Bucket, transaction uint64) error {
	put := func(key, v []byte) error {
		v = append(make([]byte, sumSize, sumSize+len(v)), v...)
		if sum := seal(stateBucket, key, v); !bytes.Equal(key, totalKey) {
			b.sums.putState(key, sum)
		}
		return state.Put(key, v)
	}
	if b.dirtyAll {
		if err := errors.Join(put(formatKey, []byte{boltFormat}), put(selfKey, indexKey(b.self))); err != nil {
			return err
		}
	}
	if b.founding != nil {
		v, err := proto.Marshal(b.founding)
		if err != nil {
			return err
		}
		if err := put(foundingKey, v); err != nil {
			return err
		}
	}
	if b.hard != nil {
		v, err := proto.Marshal(b.hard)
		if err != nil {
			return err
		}
		if err := put(hardKey, v); err != nil {
			return err
		}
	}
	if b.dirtyCompact {
		if err := put(compactedKey, binary.BigEndian.AppendUint64(indexKey(b.before), b.beforeTerm)); err != nil {
			return err
		}
	}
	return put(totalKey, total{transaction, b.sums.values, b.sums.sum}.append(nil))
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
	b.dirtyInstall()
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

var errAbandoned = errors.New("the raft log was abandoned")

// Abandon is part of Log.
func (b *Bolt) Abandon() error {
	if b.err == nil {
		b.err = errAbandoned
	}
	if b.db == nil {
		return nil
	}
	err := b.db.Close()
	b.db = nil
	return err
}
