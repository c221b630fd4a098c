// Package disktest is a disk for tests: in memory, and able to do what real disks do at the worst moment. It can lose
// power, keeping of what was not synced nothing, everything, or a torn part of it; fail an operation; forget to sync
// while saying it did; and it writes down what was done to it.
//
// It is not a model of one file system but of what POSIX lets any of them do: the bytes of a file are durable after its
// Sync, the names in a directory after SyncDir, and until then writes reach the platter in any order and in pieces of a
// sector. Only changes of one directory keep their order, as every journal keeps it.
package disktest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"millrace/storage/disk"
)

// ErrStopped is what every operation gets once the power is gone, and what files opened before a crash get after it.
var ErrStopped = errors.New("disktest: the power is gone")

// FS is the disk. Its methods may be called concurrently.
type FS struct {
	mu         sync.Mutex
	root       *node
	generation int
	locks      map[string]bool
	now        func() time.Time

	ops     int // changing operations so far
	stopAt  int // 0: never
	stopped bool
	failAt  int // 0: never
	failure error
	refuse  func(op, name string) error
	deaf    func(op, name string) bool
	slow    func(name string) time.Duration
	hold    atomic.Pointer[func(op, name string)]

	tracing bool
	trace   []string

	counts   Counts
	outcomes Outcomes
}

var _ disk.FS = (*FS)(nil)

// New makes an empty disk.
func New() *FS { return &FS{root: newDir(), locks: map[string]bool{}, now: time.Now} }

// node is a file or a directory.
type node struct {
	dir bool

	// A directory: what it holds, what of that is durable, and what was done since.
	names, durable map[string]*node
	changes        []change

	// A file: its bytes, those that are durable, and what was done since.
	now, synced content
	writes      []write
	modified    time.Time
	reserved    int64 // room that was asked for
}

// change is one change of a directory: a name taken away, a name given, or both at once.
type change struct {
	gone  string // "": none
	given string
	node  *node
}

// write is one change of a file's bytes; cut says that it sets the length instead.
type write struct {
	off int64
	b   []byte
	cut bool
}

func newDir() *node {
	return &node{dir: true, names: map[string]*node{}, durable: map[string]*node{}}
}

func (n *node) do(c change) {
	n.changes = append(n.changes, c)
	apply(n.names, c)
}

func apply(names map[string]*node, c change) {
	if c.gone != "" {
		delete(names, c.gone)
	}
	if c.given != "" {
		names[c.given] = c.node
	}
}

// Ops is how many changing operations were asked for: writes, cuts, syncs, and every change of a name.
func (f *FS) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

func split(name string) []string {
	name = strings.Trim(path.Clean(name), "/")
	if name == "" || name == "." {
		return nil
	}
	return strings.Split(name, "/")
}

// find walks to a node; nil if it is not there.
func (f *FS) find(name string) *node {
	n := f.root
	for _, part := range split(name) {
		if n == nil || !n.dir {
			return nil
		}
		n = n.names[part]
	}
	return n
}

// parentOf walks to the directory of a name.
func (f *FS) parentOf(op, name string) (*node, string, error) {
	parts := split(name)
	if len(parts) == 0 {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	d := f.find(strings.Join(parts[:len(parts)-1], "/"))
	if d == nil || !d.dir {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return d, parts[len(parts)-1], nil
}

// Open implements disk.FS.
func (f *FS) Open(name string, flag disk.Flag) (disk.File, error) {
	f.wait("open", name)
	f.mu.Lock()
	if by := f.slow; by != nil {
		f.mu.Unlock()
		time.Sleep(by(name))
		f.mu.Lock()
	}
	defer f.mu.Unlock()
	if err := f.look("open", name); err != nil {
		return nil, err
	}
	d, base, err := f.parentOf("open", name)
	if err != nil {
		return nil, err
	}
	n := d.names[base]
	switch {
	case n == nil && flag&disk.Create == 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case n == nil:
		if _, err := f.begin("create", name, ""); err != nil {
			return nil, err
		}
		n = &node{modified: f.now()}
		d.do(change{given: base, node: n})
	case n.dir:
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	case flag&disk.Create != 0 && flag&disk.Exclusive != 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrExist}
	case flag&disk.Truncated != 0 && n.now.size > 0:
		if _, err := f.begin("truncate", name, "0"); err != nil {
			return nil, err
		}
		n.write(write{cut: true})
	}
	return &file{fs: f, n: n, name: name, generation: f.generation, writable: flag&disk.Write != 0}, nil
}

// Rename implements disk.FS.
func (f *FS) Rename(from, to string) error {
	f.wait("rename", from)
	f.mu.Lock()
	defer f.mu.Unlock()
	d, base, err := f.parentOf("rename", from)
	if err != nil {
		return err
	}
	n := d.names[base]
	if n == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	e, target, err := f.parentOf("rename", to)
	if err != nil {
		return err
	}
	if old := e.names[target]; old != nil && old != n && (old.dir || n.dir) {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	if _, err := f.begin("rename", from, to); err != nil {
		return err
	}
	if d == e {
		d.do(change{gone: base, given: target, node: n})
		return nil
	}
	e.do(change{given: target, node: n})
	d.do(change{gone: base})
	return nil
}

// Remove implements disk.FS.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, base, err := f.parentOf("remove", name)
	if err != nil {
		return err
	}
	n := d.names[base]
	if n == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	if n.dir && len(n.names) > 0 {
		return &fs.PathError{Op: "remove", Path: name, Err: errors.New("directory not empty")}
	}
	if _, err := f.begin("remove", name, ""); err != nil {
		return err
	}
	d.do(change{gone: base})
	return nil
}

// RemoveAll implements disk.FS.
func (f *FS) RemoveAll(name string) error {
	f.wait("removeall", name)
	f.mu.Lock()
	defer f.mu.Unlock()
	d, base, err := f.parentOf("removeall", name)
	if err != nil || d.names[base] == nil {
		return nil
	}
	if _, err := f.begin("removeall", name, ""); err != nil {
		return err
	}
	d.do(change{gone: base})
	return nil
}

// MkdirAll implements disk.FS.
func (f *FS) MkdirAll(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.root
	at := ""
	for _, part := range split(dir) {
		at += "/" + part
		next := n.names[part]
		if next == nil {
			if _, err := f.begin("mkdir", at, ""); err != nil {
				return err
			}
			next = newDir()
			n.do(change{given: part, node: next})
		}
		if !next.dir {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("not a directory")}
		}
		n = next
	}
	return nil
}

// ReadDir implements disk.FS.
func (f *FS) ReadDir(dir string) ([]disk.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.look("readdir", dir); err != nil {
		return nil, err
	}
	n := f.find(dir)
	if n == nil || !n.dir {
		return nil, &fs.PathError{Op: "readdir", Path: dir, Err: fs.ErrNotExist}
	}
	var out []disk.Entry
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		out = append(out, disk.Entry{Name: name, Dir: n.names[name].dir})
	}
	return out, nil
}

// Stat implements disk.FS.
func (f *FS) Stat(name string) (disk.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.look("stat", name); err != nil {
		return disk.Info{}, err
	}
	n := f.find(name)
	if n == nil {
		return disk.Info{}, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return disk.Info{Size: n.now.size, Modified: n.modified, Dir: n.dir}, nil
}

// SetModified implements disk.FS.
func (f *FS) SetModified(name string, at time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.find(name)
	if n == nil {
		return &fs.PathError{Op: "setmodified", Path: name, Err: fs.ErrNotExist}
	}
	if _, err := f.begin("setmodified", name, ""); err != nil {
		return err
	}
	n.modified = at
	return nil
}

// Space implements disk.FS: a disk of a tebibyte, half of it free.
func (f *FS) Space(dir string) (total, usable int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.look("space", dir); err != nil {
		return 0, 0, err
	}
	if f.find(dir) == nil {
		return 0, 0, &fs.PathError{Op: "space", Path: dir, Err: fs.ErrNotExist}
	}
	return 1 << 40, 1 << 39, nil
}

// SyncDir implements disk.FS.
func (f *FS) SyncDir(dir string) error {
	f.wait("syncdir", dir)
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.find(dir)
	if n == nil || !n.dir {
		return &fs.PathError{Op: "syncdir", Path: dir, Err: fs.ErrNotExist}
	}
	if _, err := f.begin("syncdir", dir, ""); err != nil {
		return err
	}
	if f.deaf != nil && f.deaf("syncdir", dir) {
		return nil
	}
	for _, c := range n.changes {
		apply(n.durable, c)
	}
	n.changes = nil
	return nil
}

// Lock implements disk.FS.
func (f *FS) Lock(name string) (io.Closer, error) {
	file, err := f.Open(name, disk.Write|disk.Create)
	if err != nil {
		return nil, err
	}
	_ = file.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	key := path.Clean(name)
	if f.locks[key] {
		return nil, disk.ErrLocked
	}
	f.locks[key] = true
	return &lock{fs: f, key: key, generation: f.generation}, nil
}

type lock struct {
	fs         *FS
	key        string
	generation int
}

func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.generation == l.fs.generation {
		delete(l.fs.locks, l.key)
	}
	return nil
}

// Reserved is the room that was asked for a file and not given back; 0 for one that is not there.
func (f *FS) Reserved(name string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.find(name); n != nil {
		return n.reserved
	}
	return 0
}

// Bytes returns a copy of a file's bytes as a reader sees them; nil if it is not there.
func (f *FS) Bytes(name string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.find(name)
	if n == nil || n.dir {
		return nil
	}
	b := make([]byte, n.now.size)
	n.now.read(b, 0)
	return b
}

// Put makes a durable file with the given bytes, and the directories above it.
func (f *FS) Put(name string, b []byte) {
	dir := path.Dir(name)
	if err := f.MkdirAll(dir); err != nil {
		panic(fmt.Sprintf("disktest: put %s: %v", name, err))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	d, base, err := f.parentOf("put", name)
	if err != nil {
		panic(fmt.Sprintf("disktest: %v", err))
	}
	n := &node{modified: f.now()}
	n.now.apply(write{b: b})
	n.synced = n.now.clone()
	d.names[base] = n
	at := f.root
	at.durable, at.changes = maps.Clone(at.names), nil
	for _, part := range split(dir) {
		at = at.names[part]
		at.durable, at.changes = maps.Clone(at.names), nil
	}
}

func (n *node) write(w write) {
	n.writes = append(n.writes, w)
	n.now.apply(w)
}
