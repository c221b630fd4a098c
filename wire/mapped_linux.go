package wire

import "golang.org/x/sys/unix"

// mapBytes takes n bytes from the system, zeroed and outside of Go's heap; nil if it has none.
func mapBytes(n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil
	}
	return b
}

// unmapBytes gives back what mapBytes took; nobody looks at it any more.
func unmapBytes(b []byte) {
	if unix.Munmap(b) != nil {
		// A process has only so many mappings, and this would make two of one. The memory goes all the same.
		unix.Madvise(b, unix.MADV_DONTNEED)
	}
}
