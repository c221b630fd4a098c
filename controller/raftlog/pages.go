package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// This file reads a bbolt database without bbolt, which maps it and believes it:
// a damaged page ends the process there, in a goroutine of bbolt's or by a signal,
// or is passed over. Here it is an error. What bbolt would do to the file later is
// covered as well: it finds the free pages by walking the same tree, so a tree that
// claims its own pages, each once and to the size it says, is one that no write
// destroys.
//
// Integers are in the machine's order, as bbolt writes them.
//
//	page     id 8, flags 2 (1 branch, 2 leaf, 4 meta), count 2, overflow 4 (pages that follow and belong to it)
//	meta     magic 4, version 4, page size 4, flags 4, root's page 8, root's sequence 8, free list 8, pages 8, transaction 8, FNV-1a of these 8
//	branch   for each child: position of its key 4, size 4, page 8; then the keys
//	leaf     for each value: flags 4 (1: a bucket), position of its key 4, sizes of key and value 4 each; then key and value of each
//	bucket   root's page 8 (0: the root follows here), sequence 8
//
// Positions count from the entry that holds them. bbolt leaves no gaps, and a
// child's key in a branch is the first key of the child.
const (
	pageHead    = 16
	elementSize = 16
	bucketHead  = 16
	metaSize    = 64

	branchPage = 1
	leafPage   = 2

	boltMagic     = 0xED0CDAED
	boltVersion   = 2
	noFreeList    = ^uint64(0)
	minPageSize   = 1 << 10
	maxPageSize   = 1 << 24
	maxDepth      = 64
	firstDataPage = 2
	bucketFlag    = 1
)

var native = binary.NativeEndian

// pages is a database's file.
type pages struct {
	r    io.ReaderAt
	size int64 // of a page
	meta meta
	seen []bool // pages that belong to the tree
	buf  []byte // of the page that is looked at
}

type meta struct{ pageSize, root, freeList, pages, transaction uint64 }

// bucket is where a bucket's tree begins: at a page, or in the page that is here.
type bucket struct {
	page   uint64
	inline []byte
}

// openPages reads the two meta pages of a file of so many bytes. Both have to be
// whole: bbolt makes do with the older one, and with it goes the last transaction,
// though it was synced. One that a power cut tears is not among what disks leave:
// its 80 bytes lie in one sector.
func openPages(r io.ReaderAt, size int64) (*pages, error) {
	if size == 0 {
		return nil, errors.New("it is empty")
	}
	first, err := readMeta(r, 0)
	if err != nil {
		return nil, fmt.Errorf("page 0: %w", err)
	}
	second, err := readMeta(r, int64(first.pageSize))
	if err != nil {
		return nil, fmt.Errorf("page 1: %w", err)
	}
	last := second
	if first.transaction > second.transaction {
		first, last = second, first
	}
	if last.transaction != first.transaction+1 || last.pageSize != first.pageSize {
		return nil, fmt.Errorf("its two heads, of transactions %d and %d, are not of one file", first.transaction, last.transaction)
	}
	if last.freeList != noFreeList {
		return nil, errors.New("it has a list of free pages, which only another program writes")
	}
	if due := int64(last.pages) * int64(last.pageSize); last.pages > 1<<38 || size < due {
		return nil, fmt.Errorf("it is cut: %d bytes where there should be %d pages of %d", size, last.pages, last.pageSize)
	}
	return &pages{r: r, size: int64(last.pageSize), meta: last, seen: make([]bool, last.pages)}, nil
}

func readMeta(r io.ReaderAt, at int64) (m meta, err error) {
	var b [pageHead + metaSize]byte
	if n, err := r.ReadAt(b[:], at); n < len(b) {
		return m, fmt.Errorf("it is cut: %w", err)
	}
	v := b[pageHead:]
	sum := fnv.New64a()
	sum.Write(v[:metaSize-8])
	if native.Uint32(v) != boltMagic || native.Uint32(v[4:]) != boltVersion || sum.Sum64() != native.Uint64(v[metaSize-8:]) {
		return m, errors.New("its checksum does not match")
	}
	m = meta{pageSize: uint64(native.Uint32(v[8:])), root: native.Uint64(v[16:]), freeList: native.Uint64(v[32:]), pages: native.Uint64(v[40:]), transaction: native.Uint64(v[48:])}
	if m.pageSize < minPageSize || m.pageSize > maxPageSize || m.pageSize&(m.pageSize-1) != 0 {
		return m, fmt.Errorf("its pages are of %d bytes", m.pageSize)
	}
	return m, nil
}

// page reads a page with what belongs to it. It is good until the next one is read.
func (p *pages) page(id uint64) ([]byte, error) {
	if id < firstDataPage || id >= p.meta.pages {
		return nil, fmt.Errorf("page %d is none of the %d", id, p.meta.pages)
	}
	if p.buf == nil {
		p.buf = make([]byte, p.size)
	}
	if _, err := p.r.ReadAt(p.buf[:p.size], int64(id)*p.size); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	if self := native.Uint64(p.buf); self != id {
		return nil, fmt.Errorf("page %d says that it is page %d", id, self)
	}
	more := uint64(native.Uint32(p.buf[12:]))
	if more >= p.meta.pages-id {
		return nil, fmt.Errorf("page %d has %d pages behind it, and there are %d", id, more, p.meta.pages)
	}
	for i := id; i <= id+more; i++ {
		if p.seen[i] {
			return nil, fmt.Errorf("page %d belongs to two", i)
		}
		p.seen[i] = true
	}
	size := int64(1+more) * p.size
	if more := size - int64(len(p.buf)); more > 0 {
		p.buf = append(p.buf, make([]byte, more)...)
	}
	if more > 0 {
		if _, err := p.r.ReadAt(p.buf[p.size:size], int64(id+1)*p.size); err != nil {
			return nil, fmt.Errorf("page %d: %w", id+1, err)
		}
	}
	return p.buf[:size], nil
}

// element is what a page holds: a child, a value or a bucket.
type element struct {
	key, value []byte
	child      uint64
	bucket     bool
}

// elements takes a page apart. end is where its content ends.
func elements(b []byte) (leaf bool, list []element, end int, err error) {
	if len(b) < pageHead {
		return false, nil, 0, errors.New("it is cut")
	}
	flags, count := native.Uint16(b[8:]), int(native.Uint16(b[10:]))
	if flags != branchPage && flags != leafPage {
		return false, nil, 0, fmt.Errorf("it is of no kind (%#x)", flags)
	}
	leaf = flags == leafPage
	end = pageHead + count*elementSize
	if end > len(b) {
		return false, nil, 0, fmt.Errorf("%d elements do not fit into it", count)
	}
	list = make([]element, count)
	for i := range list {
		at := pageHead + i*elementSize
		h := b[at : at+elementSize]
		var e element
		var pos, keySize, valueSize uint32
		if leaf {
			kind := native.Uint32(h)
			if kind > bucketFlag {
				return false, nil, 0, fmt.Errorf("element %d is of no kind (%#x)", i, kind)
			}
			e.bucket = kind == bucketFlag
			pos, keySize, valueSize = native.Uint32(h[4:]), native.Uint32(h[8:]), native.Uint32(h[12:])
		} else {
			pos, keySize, e.child = native.Uint32(h), native.Uint32(h[4:]), native.Uint64(h[8:])
		}
		if keySize == 0 || uint64(at)+uint64(pos) != uint64(end) || uint64(keySize)+uint64(valueSize) > uint64(len(b)-end) {
			return false, nil, 0, fmt.Errorf("element %d is not where it belongs", i)
		}
		e.key, end = b[end:end+int(keySize)], end+int(keySize)
		e.value, end = b[end:end+int(valueSize)], end+int(valueSize)
		list[i] = e
	}
	return leaf, list, end, nil
}

// buckets gives the database's buckets by name. There is nothing beside them.
func (p *pages) buckets() (map[string]bucket, error) {
	all := map[string]bucket{}
	err := p.walk(bucket{page: p.meta.root}, func(e element) error {
		if !e.bucket || len(e.value) < bucketHead {
			return fmt.Errorf("%q is no bucket", e.key)
		}
		b := bucket{page: native.Uint64(e.value)}
		if b.page == 0 {
			b.inline = bytes.Clone(e.value[bucketHead:])
		} else if len(e.value) != bucketHead {
			return fmt.Errorf("bucket %q is in two places", e.key)
		}
		all[string(e.key)] = b
		return nil
	})
	return all, err
}

// values gives the values of a bucket by ascending key. What f is given is good
// until it returns.
func (p *pages) values(b bucket, f func(key, value []byte) error) error {
	return p.walk(b, func(e element) error {
		if e.bucket {
			return fmt.Errorf("%q is a bucket", e.key)
		}
		return f(e.key, e.value)
	})
}

func (p *pages) walk(b bucket, f func(element) error) error {
	w := walk{p: p, f: f}
	if b.page != 0 {
		return w.page(b.page, nil, 0)
	}
	leaf, list, end, err := elements(b.inline)
	if err == nil && (!leaf || end != len(b.inline) || native.Uint64(b.inline) != 0 || native.Uint32(b.inline[12:]) != 0) {
		err = errors.New("it is not of its size")
	}
	if err != nil {
		return fmt.Errorf("a bucket within a page: %w", err)
	}
	return w.leaf(list)
}

// walk is a way through a bucket's tree.
type walk struct {
	p    *pages
	f    func(element) error
	last []byte // the key before
}

// page goes through what lies under a page whose first key is to be from; nil: any.
func (w *walk) page(id uint64, from []byte, depth int) error {
	b, err := w.p.page(id)
	if err != nil {
		return err
	}
	if native.Uint16(b[8:]) == branchPage {
		b = bytes.Clone(b) // its children are read while it is looked at
	}
	leaf, list, end, err := elements(b)
	switch {
	case err != nil:
	case (int64(end)+w.p.size-1)/w.p.size*w.p.size != int64(len(b)):
		err = errors.New("it is not of its size")
	case from != nil && (len(list) == 0 || !bytes.Equal(list[0].key, from)):
		err = errors.New("it does not begin with the key it is found by")
	case !leaf && (len(list) == 0 || depth == maxDepth):
		err = errors.New("it leads nowhere")
	case leaf:
		err = w.leaf(list)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	if leaf {
		return nil
	}
	for _, e := range list {
		if err := w.page(e.child, e.key, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) leaf(list []element) error {
	for _, e := range list {
		if w.last != nil && bytes.Compare(e.key, w.last) <= 0 {
			return fmt.Errorf("key %x follows key %x", e.key, w.last)
		}
		w.last = append(w.last[:0], e.key...)
		if err := w.f(e); err != nil {
			return err
		}
	}
	return nil
}
