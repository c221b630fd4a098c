package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMissingRightsAreToldWithTheOwner(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	denied := func(path string) error {
		return fmt.Errorf("opening: %w", &fs.PathError{Op: "open", Path: path, Err: os.ErrPermission})
	}
	// What is not there would be made in the directory above it.
	got := withOwner(denied(filepath.Join(dir, "sub", "file")))
	want := fmt.Sprintf("%s is of user %d, group", dir, os.Geteuid())
	if !errors.Is(got, os.ErrPermission) || !strings.Contains(got.Error(), want) || !strings.Contains(got.Error(), "mode 0750") {
		t.Errorf("got %v, want %s", got, want)
	}
	for _, err := range []error{errors.New("x"), &fs.PathError{Op: "open", Path: dir, Err: os.ErrNotExist}, os.ErrPermission} {
		if withOwner(err) != err {
			t.Errorf("%v became %v", err, withOwner(err))
		}
	}
}
