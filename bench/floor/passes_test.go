package floor

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSegments: what a pass writes lies in segments of the size asked for, each with two indexes, and goes with the end.
func TestSegments(t *testing.T) {
	dir := t.TempDir()
	s, err := newSegments(dir, 3*passBlock)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, passBlock)
	for range 7 {
		if err := s.write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int64{
		"0.log": 3 * passBlock, "1.log": 3 * passBlock, "2.log": passBlock,
		"0.index-8": 3 * passBlock / 4096 * 8, "2.index-12": passBlock / 4096 * 12,
	} {
		if f, err := os.Stat(filepath.Join(s.dir, name)); err != nil || f.Size() != size {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	if names, _ := os.ReadDir(s.dir); len(names) != 9 {
		t.Errorf("%v", names)
	}
	s.remove()
	if _, _, err := (Passes{Bytes: 4 * passBlock, Reads: 2, Keep: 2, Segment: passBlock}).Run(dir); err != nil {
		t.Error(err)
	}
	if names, _ := os.ReadDir(dir); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}
