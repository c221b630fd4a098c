package disk

import (
	"io"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// mostPieces is what Linux takes in one call.
const mostPieces = 1024

// WriteAllAt implements File.
func (f osFile) WriteAllAt(pieces [][]byte, off int64) (int, error) {
	done := 0
	for len(pieces) > 0 {
		n, err := unix.Pwritev(int(f.Fd()), pieces[:min(len(pieces), mostPieces)], off+int64(done))
		switch {
		case err == unix.EINTR:
			continue
		case err == nil && n == 0:
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return done, &fs.PathError{Op: "write", Path: f.Name(), Err: err}
		}
		done += n
		rest := pieces
		for ; len(rest) > 0 && n >= len(rest[0]); rest = rest[1:] {
			n -= len(rest[0])
		}
		if pieces = rest; n > 0 {
			pieces = slices.Clone(pieces) // they are the caller's
			pieces[0] = pieces[0][n:]
		}
	}
	return done, nil
}
