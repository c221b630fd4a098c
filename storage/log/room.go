package log

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
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

// patience is how long what needs a descriptor waits before it is tried again; descriptors come back when connections
// end, too.
var patience = []time.Duration{0, time.Millisecond, 4 * time.Millisecond, 16 * time.Millisecond, 64 * time.Millisecond}

// insistence is how often all of that is gone through for what may not stay half done.
const insistence = 20

// room is a file system that makes room for what needs a descriptor where there is none left.
type room struct {
	disk.FS
	files *Files
	// insist: what is under way may not stay half done.
	insist atomic.Bool
}

// Room makes a file system one that closes files of segments which nobody has when no descriptor is left for what is
// asked of it, waits a moment, and then fails with ErrNoDescriptor.
func (f *Files) Room(fs disk.FS) disk.FS { return f.room(fs) }

func (f *Files) room(fs disk.FS) *room {
	if r, ok := fs.(*room); ok {
		fs = r.FS
	}
	return &room{FS: fs, files: f}
}

// try does what needs a descriptor, and makes room for it. It may close files: no handle's lock may be held.
func (r *room) try(do func() error) error {
	err := do()
	rounds := 1
	if r.insist.Load() {
		rounds = insistence
	}
	for range rounds {
		for _, wait := range patience {
			if !lacksDescriptor(err) {
				return err
			}
			time.Sleep(wait)
			r.files.relieve()
			err = do()
		}
	}
	if lacksDescriptor(err) {
		return fmt.Errorf("%w: %w", ErrNoDescriptor, err)
	}
	return err
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
