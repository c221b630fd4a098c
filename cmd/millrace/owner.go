package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// withOwner adds to an error about a right that is missing who asked for it and
// whose the place is: what a directory that is mounted into a container mostly
// fails at.
func withOwner(err error) error {
	var at *fs.PathError
	if !errors.Is(err, fs.ErrPermission) || !errors.As(err, &at) {
		return err
	}
	for path := at.Path; ; path = filepath.Dir(path) {
		info, no := os.Stat(path)
		if no != nil && path != filepath.Dir(path) {
			continue // what is not there, or not to be seen, is decided above it
		}
		if no != nil {
			return err
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return err
		}
		return fmt.Errorf("%w (this process runs as user %d, group %d; %s is of user %d, group %d, mode %#o)",
			err, os.Geteuid(), os.Getegid(), path, owner.Uid, owner.Gid, info.Mode().Perm())
	}
}
