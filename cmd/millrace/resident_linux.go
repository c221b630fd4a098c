package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// giveBackProgram has the system unmap the pages of the program's own file that
// the start has touched: tables, and code that runs once. What is needed again is
// mapped again from the page cache, which takes a microsecond for sixteen pages.
// It is for memory alone; where it cannot be done, nothing happens.
func giveBackProgram() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range bytes.Lines(maps) {
		if start, size, ok := programPages(line, exe); ok {
			syscall.Syscall(syscall.SYS_MADVISE, start, size, syscall.MADV_DONTNEED)
		}
	}
}

// programPages reads a line of /proc/self/maps: where pages of that file begin,
// and their length. ok is false for any other pages, and for those that were, or
// could be, written to: what is unmapped of them would be lost.
func programPages(line []byte, file string) (start, size uintptr, ok bool) {
	f := bytes.Fields(line)
	if len(f) < 6 || string(f[5]) != file || len(f[1]) != 4 || f[1][0] != 'r' || f[1][1] != '-' {
		return 0, 0, false
	}
	from, to, found := bytes.Cut(f[0], []byte("-"))
	a, err1 := strconv.ParseUint(string(from), 16, 64)
	b, err2 := strconv.ParseUint(string(to), 16, 64)
	if !found || err1 != nil || err2 != nil || b <= a {
		return 0, 0, false
	}
	return uintptr(a), uintptr(b - a), true
}
