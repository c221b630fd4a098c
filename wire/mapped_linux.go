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
	if err := unix.Munmap(b); err != nil {
		panic("wire: giving memory back: " + err.Error())
	}
}
