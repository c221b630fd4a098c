package disk

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// flock takes a lock of the open file description: it keeps out the POSIX lock that a Java broker takes on the same
// file, and a second holder in this process as well.
func flock(f *os.File) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrLocked
	}
	if err != nil {
		return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return nil
}
