package log

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"millrace/storage/disk"
)

// ErrNoDescriptor says that the process, or the system, lets no further file be opened, although files that nobody had
// were closed for it. It says nothing about the disk: no data directory is given up for it, and what was to be done may
// be tried again.
var ErrNoDescriptor = errors.New("no file descriptor is left")

func lacksDescriptor(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// patience is how long what lacked a descriptor waits before it is tried again; descriptors come back when connections
// end, too.
var patience = []time.Duration{0, time.Millisecond, 4 * time.Millisecond, 16 * time.Millisecond, 64 * time.Millisecond}

// AwaitDescriptor waits, where err is a lack of a descriptor, before what has failed is tried for the n-th time again,
// from 0, and says whether it is to be: where there is none for a moment, soon there may be some. Whoever waits holds no
// lock that others want: logs themselves, which change under their owners' locks, never do, and refuse at once.
func AwaitDescriptor(err error, n int) bool {
	if n >= len(patience) || !errors.Is(err, ErrNoDescriptor) {
		return false
	}
	time.Sleep(patience[n])
	return true
}

// room is a file system that makes room for what needs a descriptor where there is none left.
type room struct {
	disk.FS
	files *Files

	mu sync.Mutex
	// spares are descriptors for what may not stay half done. committed: that is under way, and insisted on.
	spares    []disk.File
	committed bool
}

// Room makes a file system one that closes files of segments which nobody has when no descriptor is left for what is
// asked of it, and fails with ErrNoDescriptor where there are none of them.
func (f *Files) Room(fs disk.FS) disk.FS { return f.room(fs) }

func (f *Files) room(fs disk.FS) *room {
	if r, ok := fs.(*room); ok {
		fs = r.FS
	}
	return &room{FS: fs, files: f}
}

// mostRelief is how often files are closed for one that is wanted: others may be faster to take what they held.
const mostRelief = 5

// try does what needs a descriptor, and makes room for it. It may close files: no handle's lock may be held.
func (r *room) try(do func() error) error {
	err := do()
	for n := 0; n < mostRelief && lacksDescriptor(err) && r.files.relieve() > 0; n++ {
		err = do()
	}
	for n := 0; lacksDescriptor(err) && r.insists(n); n++ {
		err = do()
	}
	if lacksDescriptor(err) {
		return fmt.Errorf("%w: %w", ErrNoDescriptor, err)
	}
	return err
}

// spareFiles is how many descriptors are put by for what may not stay half done: more than that has open at a time.
const spareFiles = 6

// insistence is how often what may not stay half done goes through all of patience when the spare descriptors are gone,
// too: somebody else was faster to take each of them.
const insistence = 20

// spare puts descriptors by, from a file that is there, so that what they are for is not begun without.
func (r *room) spare(path string) error {
	for range spareFiles {
		f, err := r.Open(path, 0)
		if err != nil {
			r.settled()
			return err
		}
		r.mu.Lock()
		r.spares = append(r.spares, f)
		r.mu.Unlock()
	}
	return nil
}

// commit says that what spares were put by for, if any were, has begun.
func (r *room) commit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committed = len(r.spares) > 0
}

// settled says that it has ended.
func (r *room) settled() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committed = false
	for _, f := range r.spares {
		_ = f.Close()
	}
	r.spares = nil
}

// insists gives back a spare descriptor, or waits for one, so that what has failed n times can be tried again; false:
// it may fail.
func (r *room) insists(n int) bool {
	r.mu.Lock()
	committed, k := r.committed && n < spareFiles+insistence*len(patience), len(r.spares)
	if committed && k > 0 {
		_ = r.spares[k-1].Close()
		r.spares = r.spares[:k-1]
	}
	r.mu.Unlock()
	if committed && k == 0 {
		time.Sleep(patience[n%len(patience)])
	}
	return committed
}

// Open is part of disk.FS.
func (r *room) Open(name string, flag disk.Flag) (f disk.File, err error) {
	err = r.try(func() (err error) {
		f, err = r.FS.Open(name, flag)
		return err
	})
	return f, err
}

// ReadDir is part of disk.FS.
func (r *room) ReadDir(dir string) (list []disk.Entry, err error) {
	err = r.try(func() (err error) {
		list, err = r.FS.ReadDir(dir)
		return err
	})
	return list, err
}

// SyncDir is part of disk.FS.
func (r *room) SyncDir(dir string) error {
	return r.try(func() error { return r.FS.SyncDir(dir) })
}

// RemoveAll is part of disk.FS. What it has removed before it failed is gone, and no error the next time.
func (r *room) RemoveAll(name string) error {
	return r.try(func() error { return r.FS.RemoveAll(name) })
}

// Lock is part of disk.FS.
func (r *room) Lock(name string) (c io.Closer, err error) {
	err = r.try(func() (err error) {
		c, err = r.FS.Lock(name)
		return err
	})
	return c, err
}
