//go:build amd64 || arm64

package wire

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Pages that are still on their way from the disk are not in memory: whoever sends
// them waits for it.
func TestReadAheadIsNotInMemoryBeforeItHasCome(t *testing.T) {
	const n = 256 << 10
	f, _ := written(t, n)
	fd := int(f.Fd())
	for range 50 {
		if !evict(t, f) {
			t.Skip("the file system keeps what it was told it may drop")
		}
		if _, _, errno := unix.Syscall(unix.SYS_READAHEAD, uintptr(fd), 0, n); errno != 0 {
			t.Skip("the file system does not read ahead: ", errno)
		}
		there := inMemory(fd, 0, n)
		var b [1]byte
		if _, err := unix.Preadv2(fd, [][]byte{b[:]}, n-1, unix.RWF_NOWAIT); there && err == unix.EAGAIN {
			t.Fatal("in memory, but the last page has not come yet")
		}
	}
}
