//go:build unix

package disk

import "golang.org/x/sys/unix"

// fewOpen is what every system lets a process open.
const fewOpen = 256

// MaxOpen is how many files the system lets the process open, sockets among them.
func MaxOpen() int {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fewOpen
	}
	return int(min(uint64(l.Cur), 1<<20))
}
