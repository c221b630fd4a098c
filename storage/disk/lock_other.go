//go:build unix && !linux

package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func flock(f *os.File) error { return fileLock(f, unix.LOCK_EX) }

// sharedLock takes one that keeps out only those that want it for themselves.
func sharedLock(f *os.File) error { return fileLock(f, unix.LOCK_SH) }

func fileLock(f *os.File, kind int) error {
	err := unix.Flock(int(f.Fd()), kind|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	if err != nil {
		return &os.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
	return nil
}
