package disk

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestReserve: a reservation takes blocks and leaves the length, and Truncate gives back what is behind the length.
func TestReserve(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f, err := OS{}.Open(name, Write|Create)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	blocks := func() int64 {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() != 5 {
			t.Fatalf("the length is %d", info.Size())
		}
		return info.Sys().(*syscall.Stat_t).Blocks
	}
	if _, err := f.WriteAt([]byte("bytes"), 0); err != nil {
		t.Fatal(err)
	}
	before := blocks()
	if err := f.Reserve(1 << 20); err != nil {
		t.Fatal(err)
	}
	if blocks() < 1<<20/512 {
		t.Skip("this file system reserves nothing")
	}
	if err := f.Truncate(5); err != nil {
		t.Fatal(err)
	}
	if after := blocks(); after > before+16 {
		t.Errorf("%d blocks before, %d after", before, after)
	}
	if err := f.Reserve(1 << 60); err != nil {
		t.Errorf("more room than there is: %v", err)
	}
}
