package disk

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// flock takes a lock of the open file description: it keeps out the POSIX lock that a Java broker takes on the same
// file, and a second holder in this process as well.
func flock(f *os.File) error { return ofdLock(f, unix.F_WRLCK) }

// sharedLock takes one that keeps out only those that want it for themselves; a file that was opened to be read will do.
func sharedLock(f *os.File) error { return ofdLock(f, unix.F_RDLCK) }

func ofdLock(f *os.File, kind int16) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Whence: io.SeekStart})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrLocked
	}
	if err != nil {
		return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return nil
}
