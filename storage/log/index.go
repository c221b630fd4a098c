package log

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync/atomic"

	"millrace/storage/batch"
	"millrace/storage/disk"
)

// errEOF is io.EOF under a name that reads as what it is here: the end of a section or a segment.
var errEOF = io.EOF

// offsetEntry is one entry of a .index file: the last offset of a batch, relative to the segment's base, and where the
// batch begins.
type offsetEntry struct{ relative, position int32 }

// timeEntry is one entry of a .timeindex file: the largest timestamp so far, and the last offset of the batch that
// brought it, relative to the segment's base.
type timeEntry struct {
	timestamp int64
	relative  int32
}

const (
	offsetEntrySize = 8
	timeEntrySize   = 12
)

func encodeOffsetEntry(b []byte, e offsetEntry) {
	binary.BigEndian.PutUint32(b, uint32(e.relative))
	binary.BigEndian.PutUint32(b[4:], uint32(e.position))
}

func decodeOffsetEntry(b []byte) offsetEntry {
	return offsetEntry{relative: int32(binary.BigEndian.Uint32(b)), position: int32(binary.BigEndian.Uint32(b[4:]))}
}

func encodeTimeEntry(b []byte, e timeEntry) {
	binary.BigEndian.PutUint64(b, uint64(e.timestamp))
	binary.BigEndian.PutUint32(b[8:], uint32(e.relative))
}

func decodeTimeEntry(b []byte) timeEntry {
	return timeEntry{timestamp: int64(binary.BigEndian.Uint64(b)), relative: int32(binary.BigEndian.Uint32(b[8:]))}
}

// Tails begin small, as most partitions are quiet, and grow to what 512 KiB of segment bring.
const (
	firstTail = 16
	fullTail  = 128
)

// tail is the newest entries of an index that is being written. Entries below n never change, so readers need no lock.
type tail[E any] struct {
	first int // entries that are in the file, before these
	n     atomic.Int32
	e     []E // len is the room
}

// index is one index file of a segment. While its segment is the active one, the newest entries are in memory and reach
// the file a tail at a time: one write to the segment is then all that most appends cost, and what an append adds cannot
// fail. A crash loses them, and recovery reads the active segment again anyway. One goroutine adds; any number reads.
type index[E any] struct {
	fs     *room
	files  *Files
	path   string
	size   int
	encode func([]byte, E)
	decode func([]byte) E

	tail atomic.Pointer[tail[E]]
	// stored is how many entries the file holds, for an index that is not written any more; -1: nobody asked yet.
	stored atomic.Int64

	// file is what readers keep of the file, nil before the first: most indexes are never looked into. gone says that
	// there will be no more readers.
	file atomic.Pointer[indexFile[E]]
	gone atomic.Bool
}

func newOffsetIndex(fs *room, files *Files, path string) *index[offsetEntry] {
	x := &index[offsetEntry]{fs: fs, files: files, path: path, size: offsetEntrySize, encode: encodeOffsetEntry, decode: decodeOffsetEntry}
	x.stored.Store(-1)
	return x
}

func newTimeIndex(fs *room, files *Files, path string) *index[timeEntry] {
	x := &index[timeEntry]{fs: fs, files: files, path: path, size: timeEntrySize, encode: encodeTimeEntry, decode: decodeTimeEntry}
	x.stored.Store(-1)
	return x
}

// roomFor is how many entries an index of so many bytes holds.
func (x *index[E]) roomFor(bytes int32) int { return int(bytes) / x.size }

// create opens the file of an index that begin is to make writable with its first n entries.
func (x *index[E]) create(n int) (disk.File, error) {
	flag := disk.Write | disk.Create
	if n == 0 {
		flag |= disk.Truncated
	}
	f, err := x.fs.Open(x.path, flag)
	if err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	return f, nil
}

// begin makes the index writable, keeping its first n entries. The file is sized for room entries, as Kafka does while
// a segment is active; what it does not use takes no space on disk.
func (x *index[E]) begin(f disk.File, n, room int) error {
	// Cut first: bytes behind the kept entries must read as zero.
	if n > 0 {
		if err := f.Truncate(int64(n) * int64(x.size)); err != nil {
			return fmt.Errorf("cut index: %w", err)
		}
	}
	if err := f.Truncate(int64(max(room, n)) * int64(x.size)); err != nil {
		return fmt.Errorf("size index: %w", err)
	}
	x.tail.Store(&tail[E]{first: n})
	if kept := x.file.Load(); kept != nil {
		kept.changes()
	}
	return nil
}

// forget makes the index one of which nothing is known, as its file is to be made anew.
func (x *index[E]) forget() {
	x.tail.Store(nil)
	x.stored.Store(-1)
	if kept := x.file.Load(); kept != nil {
		kept.changes()
	}
}

// count is the number of entries.
func (x *index[E]) count() (int, error) {
	if t := x.tail.Load(); t != nil {
		return t.first + int(t.n.Load()), nil
	}
	if n := x.stored.Load(); n >= 0 {
		return int(n), nil
	}
	info, err := x.fs.Stat(x.path)
	if err != nil {
		return 0, fmt.Errorf("size of index: %w", err)
	}
	if info.Size%int64(x.size) != 0 {
		return 0, &IndexError{File: x.path, Why: fmt.Sprintf("%d bytes are no multiple of %d", info.Size, x.size)}
	}
	n := info.Size / int64(x.size)
	x.stored.Store(n)
	return int(n), nil
}

// add appends an entry, in memory.
func (x *index[E]) add(e E) {
	t := x.tail.Load()
	n := int(t.n.Load())
	if n == len(t.e) {
		grown := &tail[E]{first: t.first, e: make([]E, max(firstTail, 2*n))}
		copy(grown.e, t.e)
		grown.n.Store(int32(n))
		x.tail.Store(grown)
		t = grown
	}
	t.e[n] = e
	t.n.Store(int32(n + 1))
}

// spill writes what is in memory to the file, where that is enough.
func (x *index[E]) spill() error {
	t := x.tail.Load()
	if t == nil || t.n.Load() < fullTail {
		return nil
	}
	f, err := x.open()
	if err != nil {
		return err
	}
	defer f.Close()
	n := int(t.n.Load())
	if err := x.writeTail(f, t, n); err != nil {
		return err
	}
	x.tail.Store(&tail[E]{first: t.first + n, e: make([]E, fullTail)})
	return nil
}

// open opens the file to be written to.
func (x *index[E]) open() (disk.File, error) {
	f, err := x.fs.Open(x.path, disk.Write)
	if err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	return f, nil
}

func (x *index[E]) writeTail(f disk.File, t *tail[E], n int) error {
	b := make([]byte, n*x.size)
	for i, e := range t.e[:n] {
		x.encode(b[i*x.size:], e)
	}
	if _, err := f.WriteAt(b, int64(t.first)*int64(x.size)); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}

// finish writes what is in memory and cuts the file to its entries. Readers that have the tail may go on using it.
func (x *index[E]) finish(f disk.File, sync bool) error {
	t := x.tail.Load()
	n := int(t.n.Load())
	if n > 0 {
		if err := x.writeTail(f, t, n); err != nil {
			return err
		}
	}
	if err := f.Truncate(int64(t.first+n) * int64(x.size)); err != nil {
		return fmt.Errorf("trim index: %w", err)
	}
	if sync {
		if err := f.Sync(); err != nil {
			return fmt.Errorf("sync index: %w", err)
		}
	}
	x.stored.Store(int64(t.first + n))
	x.tail.Store(nil)
	return nil
}

// IndexError says that an index file is not what an index can be.
type IndexError struct{ File, Why string }

func (e *IndexError) Error() string { return fmt.Sprintf("index %s: %s", e.File, e.Why) }

// fits says whether an offset can be stored relative to a base.
func fits(o, base batch.Offset) bool { return o >= base && o-base <= 1<<31-1 }
