package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"millrace/broker"
	"millrace/storage/disk"
)

// left makes a directory as dev has it, with a record in it that is not to be
// lost as long as anybody may want it.
func left(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "t-0"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".lock", "t-0/00000000000000000000.log"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func there(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "t-0", "00000000000000000000.log"))
	return err == nil
}

// A dev that was killed leaves its directory behind. The next one takes it away, and
// nothing of which it is not certain.
func TestDevTakesAwayWhatTheDeadHaveLeft(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	dead, other := left(t, filepath.Join(tmp, "millrace-dev-1")), left(t, filepath.Join(tmp, "millrace-dev-22"))
	used, begun := left(t, filepath.Join(tmp, "millrace-dev-3")), left(t, filepath.Join(tmp, "millrace-dev-4"))
	named, away := left(t, filepath.Join(tmp, "millrace-dev-mine")), left(t, filepath.Join(t.TempDir(), "data"))
	unlocked := left(t, filepath.Join(tmp, "millrace-dev-6"))
	kept := []string{used, begun, named, away, unlocked}
	if err := errors.Join(os.Remove(filepath.Join(unlocked, ".lock")), os.Symlink(away, filepath.Join(tmp, "millrace-dev-5")),
		os.Mkdir(filepath.Join(tmp, "millrace-dev-7"), 0o700), os.WriteFile(filepath.Join(tmp, "millrace-dev-8"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	lock, err := disk.OS{}.Lock(filepath.Join(used, ".lock")) // its broker runs
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	alive, err := claim(begun, syscall.LOCK_NB) // it has not come to its broker yet
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()

	var own string
	code, _, stderr := try(t, func(_ context.Context, o broker.Options) error {
		own = left(t, o.Config.LogDirs()[0])
		if gone := clearDead(); len(gone) > 0 || !there(own) {
			t.Errorf("another one takes %v away while this one runs", gone)
		}
		return nil
	}, nil, "dev")
	if code != 0 {
		t.Fatal(code, stderr)
	}
	for _, dir := range []string{dead, other, own} {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
	for _, dir := range kept {
		if !there(dir) {
			t.Errorf("%s was taken away", dir)
		}
	}
	for _, name := range []string{"millrace-dev-5", "millrace-dev-7", "millrace-dev-8"} {
		if _, err := os.Lstat(filepath.Join(tmp, name)); err != nil {
			t.Error(err)
		}
	}
	if strings.Count(stderr, "\n") != 2 || !strings.Contains(stderr, dead+`"`) || !strings.Contains(stderr, other+`"`) {
		t.Errorf("told %q", stderr)
	}
}
