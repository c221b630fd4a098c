//go:build amd64 || arm64

package disk

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// directMost is how much is read without telling Go's scheduler: a call that
// copies more than that takes long enough to be told of.
const directMost = 64 << 10

// ReadAt reads what lies in the page cache without telling Go's scheduler, which
// takes more time than such a read. What does not is read as files are, by a
// thread that may wait. The caller sees to it that nobody closes the file
// meanwhile, as a segment's readers do.
func (f osFile) ReadAt(p []byte, at int64) (int, error) {
	if len(p) > 0 && len(p) <= directMost && at >= 0 {
		v := unix.Iovec{Base: &p[0]}
		v.SetLen(len(p))
		n, _, errno := syscall.RawSyscall6(unix.SYS_PREADV2, f.Fd(), uintptr(unsafe.Pointer(&v)), 1, uintptr(at), 0, unix.RWF_NOWAIT)
		if errno == 0 && int(n) == len(p) {
			return int(n), nil
		}
	}
	return f.File.ReadAt(p, at)
}
