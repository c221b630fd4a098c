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
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Open opens the log in a directory, which it creates. Nothing is written
// before the first Sync. Everything is read, and damage is an error that names the
// file: nothing of it is put to use then, and nothing on disk has changed.
func Open(dir string) (*Bolt, error) {
	b := &Bolt{picture: newPicture(), dir: dir, made: missing(dir), dirtyAll: true}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("opening the raft log: %w", err)
	}
	path := filepath.Join(dir, fileName)
	// A link that leads nowhere is no directory without a log: what it led to is not there at the moment.
	if _, err := os.Lstat(path); err != nil {
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
