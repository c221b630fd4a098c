package main

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// Only pages of the program's file that cannot have been written to are given
// back.
func TestProgramPages(t *testing.T) {
	const file = "/usr/bin/millrace"
	for line, want := range map[string]struct{ start, size uintptr }{
		"00400000-00a00000 r-xp 00000000 fe:00 17 /usr/bin/millrace\n":  {0x400000, 0x600000},
		"00a00000-00a01000 r--p 00600000 fe:00 17 /usr/bin/millrace\n":  {0xa00000, 0x1000},
		"00a01000-00a02000 rw-p 00601000 fe:00 17 /usr/bin/millrace\n":  {},
		"00a01000-00a02000 ---p 00601000 fe:00 17 /usr/bin/millrace\n":  {},
		"00a01000-00a02000 r--p 00601000 fe:00 17 /usr/bin/millrace2\n": {},
		"c000000000-c000400000 rw-p 00000000 00:00 0\n":                 {},
		"00a02000-00a01000 r--p 00600000 fe:00 17 /usr/bin/millrace\n":  {},
		"nonsense r--p 0 0 0 /usr/bin/millrace\n":                       {},
	} {
		start, size, ok := programPages([]byte(line), file)
		if start != want.start || size != want.size || ok != (want.size > 0) {
			t.Errorf("%q: %x %x %v", line, start, size, ok)
		}
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
