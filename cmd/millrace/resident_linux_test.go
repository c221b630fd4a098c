package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Only pages of the program's file that cannot have been written to are given
// back.
func TestProgramPages(t *testing.T) {
	const file = "/usr/bin/millrace"
	for line, want := range map[string]pages{
		"00400000-00a00000 r-xp 00000000 fe:00 17 /usr/bin/millrace\n":  {0x400000, 0x600000},
		"00a00000-00a01000 r--p 00600000 fe:00 17 /usr/bin/millrace\n":  {0xa00000, 0x1000},
		"00a01000-00a02000 rw-p 00601000 fe:00 17 /usr/bin/millrace\n":  {},
		"00a01000-00a02000 ---p 00601000 fe:00 17 /usr/bin/millrace\n":  {},
		"00a01000-00a02000 r--p 00601000 fe:00 17 /usr/bin/millrace2\n": {},
		"c000000000-c000400000 rw-p 00000000 00:00 0\n":                 {},
		"00a02000-00a01000 r--p 00600000 fe:00 17 /usr/bin/millrace\n":  {},
		"nonsense r--p 0 0 0 /usr/bin/millrace\n":                       {},
	} {
		if got, ok := programPages([]byte(line), file); got != want || ok != (want.size > 0) {
			t.Errorf("%q: %x %v", line, got, ok)
		}
	}
}

// A mapping that was written to before it was made read-only keeps what was
// written, as the tables of a program do that may lie at any address.
func TestWrittenPagesAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, bytes.Repeat([]byte("f"), 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := syscall.Mmap(int(f.Fd()), 0, 1<<16, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(b)
	b[5000] = 'w'
	if err := syscall.Mprotect(b, syscall.PROT_READ); err != nil {
		t.Fatal(err)
	}
	giveBackFile(path)
	if b[5000] != 'w' || b[0] != 'f' {
		t.Errorf("%q and %q are left of what was written and what was read", b[5000], b[0])
	}
}

// Mappings are judged by what is said of each; what comes behind the file's is
// not read.
func TestCleanPages(t *testing.T) {
	const smaps = `003f0000-00400000 r--p 00000000 fe:00 3 /lib/other
Anonymous:             0 kB
00400000-00a00000 r-xp 00000000 fe:00 17 /usr/bin/millrace
Size:               6144 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me sd
00a00000-00a01000 r--p 00600000 fe:00 17 /usr/bin/millrace
Anonymous:             4 kB
00a01000-00a02000 r--p 00601000 fe:00 17 /usr/bin/millrace
Rss:                   4 kB
00a02000-00a03000 rw-p 00602000 fe:00 17 /usr/bin/millrace
Anonymous:             0 kB
00a03000-00a05000 r--p 00603000 fe:00 17 /usr/bin/millrace
Anonymous:             0 kB
00b00000-00b01000 rw-p 00000000 00:00 0
Anonymous:             0 kB
00c00000-00c01000 r--p 00603000 fe:00 17 /usr/bin/millrace
Anonymous:             0 kB
`
	want := []pages{{0x400000, 0x600000}, {0xa03000, 0x2000}}
	if got := cleanPages(strings.NewReader(smaps), "/usr/bin/millrace"); !slices.Equal(got, want) {
		t.Errorf("%x, not %x", got, want)
	}
}

// The program goes on, with less of its file resident.
func TestGiveBackProgram(t *testing.T) {
	resident := func() int {
		b, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(b)
		if m == nil {
			t.Skip("this system does not tell")
		}
		n, _ := strconv.Atoi(string(m[1])) // digits
		return n
	}
	before := resident()
	giveBackProgram()
	if after := resident(); after > before/2 {
		t.Errorf("%d kB of files are resident after %d kB", after, before)
	}
}
