package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
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

// Open opens the log in a directory, which it creates. Nothing is written
// before the first Sync. Everything is read, and damage is an error that names the
// file: nothing of it is put to use then, and nothing on disk has changed.
func Open(dir string) (*Bolt, error) {
	b := &Bolt{picture: newPicture(), dir: dir, made: missing(dir), dirtyAll: true}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("opening the raft log: %w", err)
	}
	path := filepath.Join(dir, fileName)
	if _, err := os.Stat(path); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("opening the raft log: %w", err)
		}
		snapshots, err := listSnapshots(dir)
		if err != nil {
			return nil, err
		}
		if len(snapshots) > 0 {
			return nil, fmt.Errorf("opening the raft log: %s has snapshots but no %s", dir, fileName)
		}
		return b, removeParts(dir)
	}
	options := boltOptions()
	options.OpenFile = b.openChecked
	db, err := bbolt.Open(path, 0o644, options)
	if err != nil {
		return nil, fmt.Errorf("opening the raft log: %w", err)
	}
	if err := removeParts(dir); err != nil {
		_ = db.Close()
		return nil, err
	}
	b.db = db
	return b, nil
}

func boltOptions() *bbolt.Options {
	return &bbolt.Options{
		Timeout: lockTimeout, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, InitialMmapSize: mapAtOpen, NoStatistics: true,
	}
}

// openChecked opens the file for bbolt, which locks and maps it when all that is
// in it has been read and found whole.
func (b *Bolt) openChecked(path string, _ int, _ os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err = lock(f); err == nil {
		err = b.load(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// lock takes the lock that bbolt takes then: it is that of the open file.
func lock(f *os.File) error {
	for until := time.Now().Add(lockTimeout); ; time.Sleep(lockRetry) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("locking %s: %w", f.Name(), err)
		}
		if time.Now().After(until) {
			return fmt.Errorf("%s is in use by another process", f.Name())
		}
	}
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

// load reads everything: the picture is what the disk holds, and the newest
// snapshot.
func (b *Bolt) load(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := b.read(f, info.Size()); err != nil {
		return fmt.Errorf("%s is damaged: %w", f.Name(), err)
	}
	if err := b.useSnapshot(); err != nil {
		return err
	}
	if first, commit, last := b.before+1, b.hard.GetCommit(), b.last(); commit+1 < first || commit > last {
		return fmt.Errorf("%s is damaged: entry %d is committed, and there are %d to %d", f.Name(), commit, first, last)
	}
	return nil
}

// read makes the picture that of a database.
func (b *Bolt) read(r io.ReaderAt, size int64) error {
	p, err := openPages(r, size)
	if err != nil {
		return err
	}
	buckets, err := p.buckets()
	if err != nil {
		return err
	}
	state, ok1 := buckets[string(stateBucket)]
	entries, ok2 := buckets[string(entriesBucket)]
	if !ok1 || !ok2 || len(buckets) != 2 {
		return fmt.Errorf("its buckets are %q", slices.Sorted(maps.Keys(buckets)))
	}
	stored := map[string][]byte{}
	err = p.values(state, func(k, v []byte) error {
		stored[string(k)] = bytes.Clone(v)
		return nil
	})
	if err != nil {
		return fmt.Errorf("the state: %w", err)
	}
	// Before there were checksums, the format was a byte by itself.
	format := stored[string(formatKey)]
	bare := len(format) == 1 && format[0] == bareFormat
	if bare {
		b.sums = sums{}
	} else if err := b.unsealState(stored); err != nil {
		return err
	}
	if err := b.readState(stored); err != nil {
		return err
	}
	b.dirtyAll = bare
	err = p.values(entries, func(k, v []byte) error {
		if !bare {
			var sum uint32
			if v, sum, err = unseal(entriesBucket, k, v); err != nil {
				return fmt.Errorf("the entry at %x: %w", k, err)
			}
			b.sums.putEntry(b.last()+1, sum)
		}
		return b.readEntry(k, v)
	})
	if err != nil || bare {
		return err
	}
	whole, err := readTotal(stored[string(totalKey)])
	if err != nil {
		return fmt.Errorf("the total: %w", err)
	}
	if is := (total{p.meta.transaction, b.sums.values, b.sums.sum}); is != whole && checked {
		return fmt.Errorf("its total is %d, and it comes to %d", whole, is)
	}
	return nil
}

// unsealState checks the values of the state, and gives them without checksums.
func (b *Bolt) unsealState(stored map[string][]byte) error {
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		v, sum, err := unseal(stateBucket, []byte(key), stored[key])
		if err != nil {
			return fmt.Errorf("state %q: %w", key, err)
		}
		if stored[key] = v; key != string(totalKey) {
			b.sums.putState([]byte(key), sum)
		}
	}
	if format := stored[string(formatKey)]; len(format) != 1 || format[0] != boltFormat {
		return fmt.Errorf("its format is %d, where %d is due", format, boltFormat)
	}
	return nil
}

func (b *Bolt) readState(stored map[string][]byte) error {
	self := stored[string(selfKey)]
	if len(self) != 8 || binary.BigEndian.Uint64(self) == 0 {
		return errors.New("it belongs to nobody")
	}
	b.self = binary.BigEndian.Uint64(self)
	if v := stored[string(foundingKey)]; v != nil {
		conf := &pb.ConfState{}
		if err := proto.Unmarshal(v, conf); err != nil {
			return fmt.Errorf("the founding members: %w", err)
		}
		if len(conf.GetVoters()) == 0 {
			return errors.New("the founding members: there is none")
		}
		b.self = 0
		if err := b.found(binary.BigEndian.Uint64(self), conf); err != nil {
			return err
		}
		b.founding = conf
	}
	if v := stored[string(hardKey)]; v != nil {
		hard := &pb.HardState{}
		if err := proto.Unmarshal(v, hard); err != nil {
			return fmt.Errorf("the hard state: %w", err)
		}
		b.hard = hard
	}
	if v := stored[string(compactedKey)]; len(v) == 16 {
		b.before, b.beforeTerm = binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])
	} else if v != nil {
		return errors.New("what was dropped: it is not of its size")
	}
	return nil
}

func (b *Bolt) readEntry(k, v []byte) error {
	e := &pb.Entry{}
	if err := proto.Unmarshal(v, e); err != nil {
		return fmt.Errorf("the entry at %x: %w", k, err)
	}
	if want := b.last() + 1; !bytes.Equal(k, indexKey(want)) || e.GetIndex() != want {
		return fmt.Errorf("the entry at %x has index %d, where %d is due", k, e.GetIndex(), want)
	}
	if before, _ := b.Term(b.last()); e.GetTerm() < before {
		return fmt.Errorf("entry %d is of term %d, and the one before it of %d", e.GetIndex(), e.GetTerm(), before)
	}
	b.entries = append(b.entries, e)
	return nil
}

// useSnapshot puts the newest snapshot to use.
func (b *Bolt) useSnapshot() error {
	snapshots, err := listSnapshots(b.dir)
	if err != nil {
		return err
	}
	if len(snapshots) == 0 || snapshots[len(snapshots)-1].index < b.before {
		if b.before > FoundingIndex {
			return fmt.Errorf("%s begins behind entry %d, and no snapshot of that or later is there", filepath.Join(b.dir, fileName), b.before)
		}
		if len(snapshots) == 0 {
			return nil
		}
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
	b.dirtyInstall()
	return nil
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
