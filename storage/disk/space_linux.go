package disk

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Space implements FS. What only the superuser may still write is not counted as usable.
func (OS) Space(dir string) (total, usable int64, err error) {
	var st unix.Statfs_t
	for {
		if err = unix.Statfs(dir, &st); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return blocks(st.Blocks, uint64(st.Frsize)), blocks(st.Bavail, uint64(st.Frsize)), nil
}

// blocks is their size together, at most what fits.
func blocks(n, size uint64) int64 {
	if size != 0 && n > math.MaxInt64/size {
		return math.MaxInt64
	}
	return int64(n * size)
}

// reserve takes blocks behind the file's end. What follows an error that means "not here" or "no room" is the same as
// without: the file grows as it is written to.
func reserve(f *os.File, size int64) error {
	for {
		switch err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size); err {
		case unix.EINTR:
		case nil, unix.EOPNOTSUPP, unix.ENOSYS, unix.ENOSPC, unix.EDQUOT, unix.EFBIG:
			return nil
		default:
			return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
		}
	}
}
