package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"
	"syscall"
)

// giveBackProgram has the system unmap the pages of the program's own file that
// the start has touched: tables, and code that runs once. What is needed again is
// mapped again from the page cache, which takes a microsecond for sixteen pages.
// It is for memory alone; where it cannot be done, nothing happens.
func giveBackProgram() {
	if exe, err := os.Readlink("/proc/self/exe"); err == nil {
		giveBackFile(exe)
	}
}

// giveBackFile unmaps the pages of a file that are as they are in the file.
func giveBackFile(path string) {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	for _, p := range cleanPages(f, path) {
		syscall.Syscall(syscall.SYS_MADVISE, p.start, p.size, syscall.MADV_DONTNEED)
	}
}

// pages are those of one mapping.
type pages struct{ start, size uintptr }

// cleanPages reads what /proc/self/smaps says, up to where the file's mappings
// end, and lists those of that file none of whose pages are the process's own:
// what is unmapped of such a page would be lost. Pages that can be written to now
// are left out, and so are mappings that say that they have, or do not say that
// they have no, anonymous pages: of a program that may lie at any address those
// that pointers were put into before they were made read-only (RELRO), and code
// with a debugger's breakpoints in it.
func cleanPages(smaps io.Reader, file string) []pages {
	var list []pages
	var at pages
	seen, open := false, false // open: at is a mapping to be judged
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		line := lines.Bytes()
		if value, is := bytes.CutPrefix(line, []byte("Anonymous:")); is {
			if open && string(bytes.TrimSpace(value)) == "0 kB" {
				list = append(list, at)
			}
			open = false
			continue
		}
		f := bytes.Fields(line)
		if len(f) == 0 || bytes.HasSuffix(f[0], []byte(":")) {
			continue
		}
		mine := len(f) == 6 && string(f[5]) == file
		if seen && !mine {
			break // there may be many thousands
		}
		seen = seen || mine
		at, open = programPages(line, file)
	}
	return list
}

// programPages reads the first line on a mapping: where pages of that file begin,
// and their length. ok is false for any other pages, and for those that can be
// written to.
func programPages(line []byte, file string) (p pages, ok bool) {
	f := bytes.Fields(line)
	if len(f) != 6 || string(f[5]) != file || len(f[1]) != 4 || f[1][0] != 'r' || f[1][1] != '-' {
		return pages{}, false
	}
	from, to, found := bytes.Cut(f[0], []byte("-"))
	a, err1 := strconv.ParseUint(string(from), 16, 64)
	b, err2 := strconv.ParseUint(string(to), 16, 64)
	if !found || err1 != nil || err2 != nil || b <= a {
		return pages{}, false
	}
	return pages{uintptr(a), uintptr(b - a)}, true
}
