//go:build amd64 || arm64

package wire

import (
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Calls on sockets never block here, and neither does sending a part of a file
// that lies in the page cache, if that it was read is not noted in it (O_NOATIME):
// such a note may have to wait for the file system's journal. Go's scheduler need
// not know of such a call. What it does for one that may block is dear to a
// server that waits after each request: with all else idle its watching thread
// sleeps, the first call wakes it, a futex and a wake-up across processors, and it
// then looks every 20 microseconds until all is idle again. That was a fifth of
// the processor time of a Fetch of 256 KiB.
//
// A direct call holds its processor, as far as Go goes, and nothing preempts it.
// So each is bounded (directStep, directSection) to about a tenth of a millisecond.

func directRead(fd int, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, _, errno := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	if errno != 0 {
		return -1, errno
	}
	fills(p[:n])
	return int(n), nil
}

func directSendmsg(fd int, vec []unix.Iovec, flags int) (int, error) {
	var h unix.Msghdr
	h.Iov = &vec[0]
	h.SetIovlen(len(vec))
	n, _, errno := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&h)), uintptr(flags))
	if errno != 0 {
		return -1, errno
	}
	for i := range vec {
		sees(unsafe.Slice(vec[i].Base, int(vec[i].Len)))
	}
	return int(n), nil
}

func directSendfile(out, in int, off *int64, n int) (int, error) {
	sent, _, errno := syscall.RawSyscall6(unix.SYS_SENDFILE, uintptr(out), uintptr(in), uintptr(unsafe.Pointer(off)), uintptr(n), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(sent), nil
}

// readCached reads what lies in the page cache, without waiting for the disk.
func readCached(f *os.File, p []byte, at int64) int {
	if f == nil || len(p) == 0 {
		return 0
	}
	v := unix.Iovec{Base: &p[0]}
	v.SetLen(len(p))
	n, _, errno := syscall.RawSyscall6(unix.SYS_PREADV2, f.Fd(), uintptr(unsafe.Pointer(&v)), 1, uintptr(at), 0, unix.RWF_NOWAIT)
	runtime.KeepAlive(f)
	if errno != 0 {
		return 0
	}
	fills(p[:n])
	return int(n)
}

// directWaiting is how many bytes lie in a socket to be read.
func directWaiting(fd int) int {
	n := int32(0)
	_, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCINQ, uintptr(unsafe.Pointer(&n)))
	if errno != 0 {
		return 0
	}
	return int(n)
}

func directSetsockopt(fd, level, name int, on bool) error {
	v := int32(0)
	if on {
		v = 1
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name), uintptr(unsafe.Pointer(&v)), unsafe.Sizeof(v), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// readAhead is less than systems read ahead at once.
const readAhead = 64 << 10

// noCachestat: the system does not tell what is in its page cache (Linux does
// from 6.5 on), or not to this process.
var noCachestat atomic.Bool

// inMemory says whether a part of a file lies in the page cache, and has come
// there: pages that are read ahead are counted when they are asked for, and one that
// is still on its way has whoever sends it wait. So it is looked whether a byte in
// each stretch of readAhead can be read at once, the last and the first among them.
//
// What is left is a hole that must stay small, because a direct call that waits
// holds its processor: Go can stop the world for a collection only when the disk has
// answered, and every connection stands still until then. Pages on their way come
// from somebody who reads the disk; while this server does, or did a moment ago, it
// sends nothing directly (diskGate.stirred). Left are a few pages that somebody else
// reads at that moment, pages that were just used and are dropped between two calls,
// and one that an earlier read has marked to have more read ahead when it is used,
// while the disk's queue is full: each is the wait of one read, not of many.
func inMemory(fd int, off int64, n int) bool {
	if n <= 0 || noCachestat.Load() {
		return false
	}
	r := unix.CachestatRange{Off: uint64(off), Len: uint64(n)}
	var st unix.Cachestat_t
	_, _, errno := syscall.RawSyscall6(unix.SYS_CACHESTAT, uintptr(fd), uintptr(unsafe.Pointer(&r)), uintptr(unsafe.Pointer(&st)), 0, 0, 0)
	switch errno {
	case 0:
		return st.Cache >= pages(off, n) && probe(off, n, func(at int64) bool { return hasCome(fd, at) })
	case unix.ENOSYS, unix.EPERM:
		noCachestat.Store(true)
	}
	return false
}

// probe asks for a byte in each stretch of readAhead of a part of a file, from its
// end on; what is read ahead lies before somebody who reads, and so at the end.
func probe(off int64, n int, come func(at int64) bool) bool {
	for at := off + int64(n) - 1; at > off; at -= readAhead {
		if !come(at) {
			return false
		}
	}
	return n <= readAhead || come(off)
}

// hasCome says whether a byte of a file can be read without waiting for the disk.
func hasCome(fd int, at int64) bool {
	var b [1]byte
	v := unix.Iovec{Base: &b[0]}
	v.SetLen(len(b))
	n, _, errno := syscall.RawSyscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(unsafe.Pointer(&v)), 1, uintptr(at), 0, unix.RWF_NOWAIT)
	return errno == 0 && n == 1
}

// pages is how many pages a part of a file touches.
func pages(off int64, n int) uint64 {
	size := int64(pageSize)
	return uint64((off+int64(n)-1)/size - off/size + 1)
}
