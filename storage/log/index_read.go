package log

import (
	"fmt"
	"io"
	"sort"
	"sync"
	"sync/atomic"

	"millrace/storage/disk"
)

// blockSize is how much of an index file is read at a time: a search ends with a run of neighbours.
const blockSize = 4096

// keptBlocks is how many blocks are kept at most, of all index files together: 4 MiB.
const keptBlocks = 1024

// blocks are those that were read last, of all files: a consumer goes from one batch to the next, and of one file many
// may be at as many places. A block may have to go for any other.
type blocks [keptBlocks]atomic.Pointer[block]

// block is a piece of an index file: entries first to first+len(b)/size. It never changes.
type block struct {
	of    uint64 // what the file was called then, see indexFile
	first int
	b     []byte
}

// at is where a block of a file is kept, or another.
func (k *blocks) at(of uint64, at int) *atomic.Pointer[block] {
	const odd, bits = 0x9e3779b97f4a7c15, 10
	return &k[(of*odd+uint64(at))*odd>>(64-bits)]
}

// indexFile is what readers keep of an index file between look-ups, so that one away from the tail costs no more than a
// read: the open file, which counts among those that Files bounds, and the first entries of blocks that searches came by,
// because every search begins with the same. They go when the file is closed.
type indexFile[E any] struct {
	handle
	called atomic.Uint64 // a number for what it holds: another once it holds other entries
	mu     sync.Mutex
	pivots []pivot[E] // by block
}

type pivot[E any] struct {
	e     E
	known bool
}

// called is the last number that was given to an index file.
var called atomic.Uint64

func (f *indexFile[E]) forget() {
	f.mu.Lock()
	f.pivots = nil
	f.mu.Unlock()
}

// changes is to be called when the file holds other entries than before.
func (f *indexFile[E]) changes() {
	f.called.Store(called.Add(1))
	f.forget()
}

// opened is the file's keep, made for the first reader.
func (x *index[E]) opened() *indexFile[E] {
	f := x.file.Load()
	if f == nil {
		f = &indexFile[E]{handle: handle{fs: x.fs, files: x.files, path: x.path}}
		f.pins.Store(-1)
		f.called.Store(called.Add(1))
		f.closed = f.forget
		if !x.file.CompareAndSwap(nil, f) {
			f = x.file.Load()
		}
	}
	if x.gone.Load() {
		f.retire()
	}
	return f
}

// retire closes the file as soon as no reader has it, for good.
func (x *index[E]) retire() {
	x.gone.Store(true)
	if f := x.file.Load(); f != nil {
		f.retire()
	}
}

// reader reads entries of one index. It looks into the file only if the wanted entry is not in memory.
type reader[E any] struct {
	x     *index[E]
	t     *tail[E]
	n     int // entries
	file  *indexFile[E]
	f     disk.File
	block *block
}

func (x *index[E]) read() (reader[E], error) {
	r := reader[E]{x: x, t: x.tail.Load()}
	if r.t != nil {
		r.n = r.t.first + int(r.t.n.Load())
		return r, nil
	}
	n, err := x.count()
	if err != nil {
		return r, err
	}
	r.n = n
	return r, nil
}

func (r *reader[E]) close() {
	if r.f != nil {
		r.file.release()
	}
}

// inFile is how many entries are to be found in the file only.
func (r *reader[E]) inFile() int {
	if r.t != nil {
		return r.t.first
	}
	return r.n
}

// room is how many entries a block holds.
func (r *reader[E]) room() int { return blockSize / r.x.size }

// at is entry i, which must be below n.
func (r *reader[E]) at(i int) (E, error) {
	if i >= r.inFile() {
		return r.t.e[i-r.t.first], nil
	}
	if !r.block.holds(i, r.x.size) {
		if err := r.load(i / r.room()); err != nil {
			var zero E
			return zero, err
		}
	}
	return r.entry(i), nil
}

func (b *block) holds(i, size int) bool {
	return b != nil && i >= b.first && (i-b.first+1)*size <= len(b.b)
}

// entry is an entry of the block.
func (r *reader[E]) entry(i int) E { return r.x.decode(r.block.b[(i-r.block.first)*r.x.size:]) }

// open makes the file ready to be read.
func (r *reader[E]) open() error {
	if r.f != nil {
		return nil
	}
	if r.file == nil {
		r.file = r.x.opened()
	}
	f, err := r.file.acquire()
	if err != nil {
		return fmt.Errorf("open index: %w", err)
	}
	r.f = f
	return nil
}

// load reads a block, unless it is kept. Entries that are not in the file yet stay out of it: the file reads as zeros there.
func (r *reader[E]) load(at int) error {
	if r.file == nil {
		r.file = r.x.opened()
	}
	of, first := r.file.called.Load(), at*r.room()
	n := min(r.room(), r.inFile()-first)
	kept := r.x.files.blocks.at(of, at)
	if b := kept.Load(); b != nil && b.of == of && b.first == first && len(b.b) >= n*r.x.size {
		r.block = b
		return nil
	}
	b := &block{of: of, first: first, b: make([]byte, n*r.x.size)}
	if err := r.pread(b.b, first); err != nil {
		return err
	}
	r.block = b
	kept.Store(b)
	return nil
}

// pread reads entries from the file, from the first on.
func (r *reader[E]) pread(b []byte, first int) error {
	if err := r.open(); err != nil {
		return err
	}
	n, err := r.f.ReadAt(b, int64(first)*int64(r.x.size))
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		// A truncation has overtaken the reader, or the file is not what was written: a newer view, or the segment, says.
		return &IndexError{File: r.x.path, Why: fmt.Sprintf("it ends before entry %d", first+n/r.x.size)}
	}
	return fmt.Errorf("read index: %w", err)
}

// firstOf is the first entry of a block.
func (r *reader[E]) firstOf(at int) (E, error) {
	if first := at * r.room(); r.block.holds(first, r.x.size) {
		return r.entry(first), nil
	}
	if r.file == nil {
		r.file = r.x.opened()
	}
	f := r.file
	f.mu.Lock()
	if at < len(f.pivots) && f.pivots[at].known {
		defer f.mu.Unlock()
		return f.pivots[at].e, nil
	}
	f.mu.Unlock()
	var e E
	b := make([]byte, r.x.size)
	if err := r.pread(b, at*r.room()); err != nil {
		return e, err
	}
	e = r.x.decode(b)
	f.mu.Lock()
	defer f.mu.Unlock()
	if at >= len(f.pivots) {
		f.pivots = append(f.pivots, make([]pivot[E], (r.inFile()+r.room()-1)/r.room()-len(f.pivots))...)
	}
	f.pivots[at] = pivot[E]{e: e, known: true}
	return e, nil
}

// search says how many entries below is true for; those come first. Kafka's look-up likewise begins with the newest
// entries: most readers are near the end.
func (r *reader[E]) search(below func(E) bool) (int, error) {
	if r.t != nil && r.n > r.t.first && below(r.t.e[0]) {
		t := r.t.e[:r.n-r.t.first]
		return r.t.first + sort.Search(len(t), func(i int) bool { return !below(t[i]) }), nil
	}
	n := r.inFile()
	if n == 0 {
		return 0, nil
	}
	var failed error
	blocks := sort.Search((n+r.room()-1)/r.room(), func(at int) bool {
		if failed != nil {
			return true
		}
		e, err := r.firstOf(at)
		if err != nil {
			failed = err
			return true
		}
		return !below(e)
	})
	if failed != nil || blocks == 0 {
		return 0, failed
	}
	if err := r.load(blocks - 1); err != nil {
		return 0, err
	}
	return r.within(r.block.first, min(r.block.first+r.room(), n), below), nil
}

// within searches among entries of the block.
func (r *reader[E]) within(from, end int, below func(E) bool) int {
	return from + sort.Search(end-from, func(i int) bool { return !below(r.entry(from + i)) })
}

// floor finds the last entry for which below is true; entries for which it is true come first. ok is false if there is
// none.
func (x *index[E]) floor(below func(E) bool) (e E, ok bool, err error) {
	r, err := x.read()
	if err != nil {
		return e, false, err
	}
	defer r.close()
	i, err := r.search(below)
	if err != nil || i == 0 {
		return e, false, err
	}
	e, err = r.at(i - 1)
	return e, err == nil, err
}

// around is floor, and the entry behind that one; hasNext is false if there is none.
func (x *index[E]) around(below func(E) bool) (e E, ok bool, next E, hasNext bool, err error) {
	r, err := x.read()
	if err != nil {
		return e, false, next, false, err
	}
	defer r.close()
	i, err := r.search(below)
	if err == nil && i > 0 {
		e, err = r.at(i - 1)
		ok = err == nil
	}
	if err == nil && i < r.n {
		next, err = r.at(i)
		hasNext = err == nil
	}
	return e, ok, next, hasNext, err
}

// last is the newest entry; ok is false if there is none. It keeps nothing: a start looks at the ends of many.
func (x *index[E]) last() (e E, ok bool, err error) {
	r, err := x.read()
	if err != nil || r.n == 0 {
		return e, false, err
	}
	if i := r.n - 1; i >= r.inFile() {
		return r.t.e[i-r.t.first], true, nil
	}
	defer r.close()
	b := make([]byte, x.size)
	if err := r.pread(b, r.n-1); err != nil {
		return e, false, err
	}
	return x.decode(b), true, nil
}

// lowerBound is how many entries keep is true for; they come first.
func (x *index[E]) lowerBound(keep func(E) bool) (int, error) {
	r, err := x.read()
	if err != nil {
		return 0, err
	}
	defer r.close()
	return r.search(keep)
}
