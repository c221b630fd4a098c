package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"millrace/storage/disk"
)

// ofDirectories are the configs that say where data lies.
var ofDirectories = []string{"log.dirs", "log.dir", "metadata.log.dir"}

// devPrefix is what the names of dev's directories begin with; digits follow.
const devPrefix = "millrace-dev-"

// dev serves from a directory that does not outlive the broker; or, where the
// process was killed, not the start of the next dev.
func (p *program) dev(ctx context.Context, f flags) (err error) {
	for _, o := range f.overrides {
		if key, _, _ := strings.Cut(o, "="); slices.Contains(ofDirectories, strings.TrimSpace(key)) {
			return usageError{fmt.Errorf("--override %s: dev chooses its own directory; use serve to keep the data", o)}
		}
	}
	f.cleared = clearDead()
	dir, claimed, err := ownDir()
	if err != nil {
		return fmt.Errorf("making the data directory: %w", err)
	}
	defer func() {
		if gone := errors.Join(os.RemoveAll(dir), claimed.Close()); gone != nil {
			err = errors.Join(err, fmt.Errorf("removing the data directory: %w", gone))
		}
	}()
	f.throwAway = true
	f.overrides = append(f.overrides, "log.dirs="+dir, "metadata.log.dir="+dir)
	return p.serve(ctx, f)
}

// ownDir makes a directory and claims it. It is empty in between, and so nobody
// else takes it for one that the dead have left.
func ownDir() (string, *os.File, error) {
	dir, err := os.MkdirTemp("", devPrefix)
	if err != nil {
		return "", nil, err
	}
	claimed, err := claim(dir, 0) // one that looks at all directories may have it for a moment
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, claimed, nil
}

// claim opens a directory, no link to one, and locks it: until the file is closed,
// or the process ends, nobody else has it. With LOCK_NB it does not wait for those
// who have.
func claim(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	for err = syscall.EINTR; err == syscall.EINTR; {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|how)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return f, nil
}

// clearDead removes the directories of dev processes that were killed, and gives
// their names. What it cannot remove stays.
func clearDead() []string {
	names, err := filepath.Glob(filepath.Join(os.TempDir(), devPrefix+"*"))
	if err != nil {
		return nil // a temporary directory whose name is a pattern
	}
	var gone []string
	for _, dir := range names {
		if digits := strings.TrimPrefix(filepath.Base(dir), devPrefix); digits != "" && strings.Trim(digits, "0123456789") == "" && clearOne(dir) {
			gone = append(gone, dir)
		}
	}
	return gone
}

// clearOne removes a directory that is this user's, that nobody has claimed, and on
// which a broker has run that runs no more: its lock is there, and free.
func clearOne(dir string) bool {
	claimed, err := claim(dir, syscall.LOCK_NB)
	if err != nil {
		return false
	}
	defer claimed.Close()
	info, err := claimed.Stat()
	if err != nil {
		return false
	}
	if at, ok := info.Sys().(*syscall.Stat_t); !ok || int(at.Uid) != os.Geteuid() {
		return false
	}
	lock := filepath.Join(dir, ".lock")
	if at, err := os.Lstat(lock); err != nil || !at.Mode().IsRegular() {
		return false
	}
	return disk.Free(lock) == nil && os.RemoveAll(dir) == nil
}
