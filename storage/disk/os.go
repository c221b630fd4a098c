package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// OS is the operating system's file system.
type OS struct{}

var _ FS = OS{}

type osFile struct{ *os.File }

func (f osFile) SysFile() *os.File { return f.File }

func (f osFile) Size() (int64, error) {
	i, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return i.Size(), nil
}

func (f osFile) Sync() error { return syncData(f.File) }

func (f osFile) Reserve(size int64) error { return reserve(f.File, size) }

// Open implements FS.
func (OS) Open(name string, flag Flag) (File, error) {
	mode := os.O_RDONLY
	if flag&Write != 0 {
		mode = os.O_RDWR
	}
	if flag&Create != 0 {
		mode |= os.O_CREATE
	}
	if flag&Exclusive != 0 {
		mode |= os.O_EXCL
	}
	if flag&Truncated != 0 {
		mode |= os.O_TRUNC
	}
	f, err := openPlain(name, mode)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// openPlain is os.OpenFile but for what that does to be told when a file is ready, which a regular file always is: half a
// dozen system calls, at a start for each of some thousand partitions.
func openPlain(name string, mode int) (*os.File, error) {
	for mode |= syscall.O_CLOEXEC | unnoted; ; {
		fd, err := syscall.Open(name, mode, 0o644)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), name), nil
		case err == syscall.EPERM && mode&unnoted != 0:
			mode &^= unnoted // only a file's owner may ask for it
		case err != syscall.EINTR:
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// Rename implements FS.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// RemoveAll implements FS.
func (OS) RemoveAll(name string) error { return os.RemoveAll(name) }

// MkdirAll implements FS.
func (OS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o755) }

// ReadDir implements FS.
func (OS) ReadDir(dir string) ([]Entry, error) {
	d, err := openPlain(dir, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	list, err := d.ReadDir(-1)
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	out := make([]Entry, len(list))
	for i, e := range list {
		out[i] = Entry{Name: e.Name(), Dir: e.IsDir()}
	}
	return out, nil
}

// Stat implements FS.
func (OS) Stat(name string) (Info, error) {
	i, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: i.Size(), Modified: i.ModTime(), Dir: i.IsDir()}, nil
}

// SetModified implements FS.
func (OS) SetModified(name string, at time.Time) error { return os.Chtimes(name, time.Time{}, at) }

// SyncDir implements FS. File systems that cannot sync a directory say EINVAL, which is no failure: they have nothing
// to sync.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}

// Free looks whether nobody holds the lock of a file, without one of its own afterwards and without writing anything: nil
// also where there is no such file, ErrLocked where somebody does.
func Free(name string) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return sharedLock(f)
}

// Lock implements FS. The lock dies with the process.
func (OS) Lock(name string) (io.Closer, error) {
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		if err := flock(f); err != nil {
			f.Close()
			return nil, err
		}
		// Its last holder may have removed the file since it was opened: a lock on a
		// file that has no name keeps nobody out.
		named, err := isNamed(f, name)
		if named {
			return f, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}

// isNamed says whether a file is the one that a name leads to.
func isNamed(f *os.File, name string) (bool, error) {
	held, err := f.Stat()
	if err != nil {
		return false, err
	}
	found, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(held, found), err
}
