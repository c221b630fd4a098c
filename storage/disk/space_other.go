//go:build !linux

package disk

import (
	"errors"
	"os"
)

// Space implements FS: it is asked on Linux alone.
func (OS) Space(dir string) (total, usable int64, err error) {
	return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: errors.ErrUnsupported}
}

// reserve is done on Linux alone.
func reserve(*os.File, int64) error { return nil }
