package log

import (
	"errors"
	"io/fs"

	"millrace/storage/batch"
	"millrace/storage/disk"
)

// Unopened tells of a log that is not open what its directory says without reading a file: how many bytes its segments
// have, as they lie there, and the offset that its end is at or behind, where its newest segment begins.
func Unopened(on disk.FS, dir string) (size int64, reaches batch.Offset, err error) {
	names, err := on.ReadDir(dir)
	if err != nil {
		return 0, 0, err
	}
	for _, n := range names {
		base, suffix, ok := parseName(n.Name)
		if !ok || suffix != suffixLog {
			continue
		}
		info, err := on.Stat(dir + "/" + n.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // whoever opens the log has removed it
		}
		if err != nil {
			return 0, 0, err
		}
		size += info.Size
		reaches = max(reaches, base)
	}
	return size, reaches, nil
}
