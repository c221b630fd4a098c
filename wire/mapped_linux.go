package wire

import "golang.org/x/sys/unix"

var pageSize = unix.Getpagesize()

// mapBytes takes n bytes from the system, zeroed and outside of Go's heap; nil if
// it has none. They take memory as they are written to, a page at a time.
func mapBytes(n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil
	}
	unix.Madvise(b, unix.MADV_NOHUGEPAGE) // where there are no huge pages it is not needed
	return b
}

// unmapBytes gives back what mapBytes took; nobody looks at it any more.
func unmapBytes(b []byte) {
	if unix.Munmap(b) != nil {
		// A process has only so many mappings, and this would make two of one. The memory goes all the same.
		unix.Madvise(b, unix.MADV_DONTNEED)
	}
}

// discardBytes gives back the memory of what mapBytes took from an offset on, to
// within a page. They can be written to again.
func discardBytes(b []byte, from int) {
	if from = (from + pageSize - 1) / pageSize * pageSize; from < len(b) {
		unix.Madvise(b[from:], unix.MADV_DONTNEED)
	}
}
