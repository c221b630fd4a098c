package broker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/controller/config"
)

// Metadata in a directory that is not the one for it ends a start: log.dirs in
// another order, or a second log of metadata.
func TestOneMetadata(t *testing.T) {
	start := func(dirs ...string) error {
		static, _, err := config.ParseStatic(map[string]string{"node.id": "1", "log.dirs": strings.Join(dirs, ",")})
		if err != nil {
			t.Fatal(err)
		}
		_, err = identify(Options{Config: static})
		return err
	}
	root := t.TempDir()
	a, b := filepath.Join(root, "a"), filepath.Join(root, "b")
	write := func(dir string) {
		if err := os.MkdirAll(filepath.Join(dir, metadataLog), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, metadataLog, "raft.db"), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := start(a, b); err != nil {
		t.Errorf("empty directories: %v", err)
	}
	write(a)
	if err := os.MkdirAll(filepath.Join(b, metadataLog), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := start(a, b); err != nil {
		t.Errorf("metadata in the first, nothing in the second: %v", err)
	}
	link := filepath.Join(root, "link")
	if err := os.Symlink(a, link); err != nil {
		t.Fatal(err)
	}
	if err := start(link, a); err == nil || !strings.Contains(err.Error(), "names one directory twice") {
		t.Errorf("one directory by two names: %v", err)
	}
	if err := oneMetadata(nil, link, []string{a, b}); err != nil {
		t.Errorf("the first by another name: %v", err)
	}
	if err := start(b, a); !errors.Is(err, ErrNoMetadata) || !strings.Contains(err.Error(), "it is in "+a) {
		t.Errorf("metadata in the second: %v", err)
	}
	write(b)
	for _, dirs := range [][]string{{a, b}, {b, a}} {
		if err := start(dirs...); !errors.Is(err, ErrNoMetadata) || !strings.Contains(err.Error(), "both hold") {
			t.Errorf("metadata in both: %v", err)
		}
	}
	if err := start(a); err != nil {
		t.Errorf("one alone: %v", err)
	}
}
