// Package disk is the small part of a file system that storage needs, as an interface, and the real one.
//
// It is not a general file system: paths are plain strings, a file is read and written at explicit positions only, and
// nothing is done behind the caller's back. What is durable is what POSIX makes durable: a file's bytes after Sync, a
// name (made, renamed, removed) after SyncDir of the directory that holds it.
//
// It promises that errors of the real file system and of a test disk satisfy the same errors.Is questions
// (fs.ErrNotExist, fs.ErrExist), so that code above needs no second path.
package disk

import (
	"io"
	"os"
	"time"
)

// Flag says how a file is opened.
type Flag int

// The flags; they combine with |. A file is always opened for reading.
const (
	Write     Flag = 1 << iota // for writing as well
	Create                     // make the file if it is missing
	Exclusive                  // with Create: fail if it is there
	Truncated                  // cut to no bytes
)

// FS is a file system.
type FS interface {
	Open(name string, flag Flag) (File, error)
	// Rename moves a file or directory over whatever file has the new name, atomically.
	Rename(from, to string) error
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// RemoveAll deletes a directory and all that is in it; a missing one is no error.
	RemoveAll(name string) error
	// MkdirAll makes a directory and its missing parents; one that is there is no error.
	MkdirAll(dir string) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(dir string) ([]Entry, error)
	Stat(name string) (Info, error)
	// SetModified makes a file one that was changed last at a time.
	SetModified(name string, at time.Time) error
	// SyncDir makes durable which names a directory holds.
	SyncDir(dir string) error
	// Space is the size of the file system that holds a directory and what of it can still be written, in bytes.
	Space(dir string) (total, usable int64, err error)
	// Lock takes an exclusive lock on a file, which it makes if it is missing, and fails at once with ErrLocked if
	// another holds it. Closing what it returns gives the lock back.
	Lock(name string) (io.Closer, error)
}

// File is an open file. Its methods may be called concurrently; overlapping writes are the caller's to prevent.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// WriteAllAt is WriteAt of several pieces, one behind the other, at once.
	WriteAllAt(pieces [][]byte, off int64) (int, error)
	// Size is the file's length.
	Size() (int64, error)
	// Truncate sets the file's length; bytes it adds are zero and take no room.
	Truncate(size int64) error
	// Reserve asks for room for the file to grow to size; its length stays. Truncate gives back what is behind the
	// length. Where the system cannot, or has no room, nothing happens.
	Reserve(size int64) error
	// Sync makes the file's bytes and length durable.
	Sync() error
	// SysFile is the operating system's file, for sendfile; nil where there is none.
	SysFile() *os.File
}

// Entry is one name in a directory.
type Entry struct {
	Name string
	Dir  bool
}

// Info is what Stat knows of a file.
type Info struct {
	Size     int64
	Modified time.Time
	Dir      bool
}

// ErrLocked says that another process, or another part of this one, holds the lock.
var ErrLocked = errLocked{}

type errLocked struct{}

func (errLocked) Error() string { return "locked by another process" }

// ReadFile reads a whole file that is no longer than limit.
func ReadFile(fs FS, name string, limit int64) ([]byte, error) {
	f, err := fs.Open(name, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, &TooLongError{Name: name, Size: size, Limit: limit}
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if n == len(b) {
		return b, nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

// TooLongError says that a file is longer than anything that belongs in it.
type TooLongError struct {
	Name        string
	Size, Limit int64
}

func (e *TooLongError) Error() string {
	return e.Name + " is longer than it can be"
}

// Replace puts a file with the given bytes in place of name: a reader after a crash finds the old bytes or the new,
// never a mix. It writes name + ".tmp", syncs it, renames it and syncs the directory.
func Replace(fs FS, dir, name string, b []byte) error {
	if err := Put(fs, dir, name, b); err != nil {
		return err
	}
	return fs.SyncDir(dir)
}

// Put is Replace but for the last step: after a crash the old bytes may be there until the directory was synced.
func Put(fs FS, dir, name string, b []byte) error {
	path := dir + "/" + name
	tmp := path + ".tmp"
	f, err := fs.Open(tmp, Write|Create|Truncated)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return fs.Rename(tmp, path)
}
