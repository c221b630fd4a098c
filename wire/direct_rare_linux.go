//go:build !amd64 && !arm64

package wire

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// On processors that this is not tried on, calls go through Go's scheduler.

func directRead(fd int, p []byte) (int, error) { return syscall.Read(fd, p) }

func directSendmsg(fd int, vec []unix.Iovec, flags int) (int, error) {
	pieces := make([][]byte, len(vec))
	for i := range vec {
		pieces[i] = unsafe.Slice(vec[i].Base, int(vec[i].Len))
	}
	return unix.SendmsgBuffers(fd, pieces, nil, nil, flags)
}

func directSendfile(out, in int, off *int64, n int) (int, error) {
	return unix.Sendfile(out, in, off, n)
}

func directWaiting(int) int { return 0 }

func directSetsockopt(fd, level, name int, on bool) error {
	v := 0
	if on {
		v = 1
	}
	return unix.SetsockoptInt(fd, level, name, v)
}

func inMemory(int, int64, int) bool { return false }

func readCached(*os.File, []byte, int64) int { return 0 }
