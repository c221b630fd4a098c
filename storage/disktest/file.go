package disktest

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"millrace/storage/disk"
)

// file is an open file.
type file struct {
	fs         *FS
	n          *node
	name       string
	generation int
	writable   bool
	closed     bool
}

var _ disk.File = (*file)(nil)

func (x *file) usable() error {
	switch {
	case x.generation != x.fs.generation || x.fs.stopped:
		return ErrStopped
	case x.closed:
		return &fs.PathError{Op: "use", Path: x.name, Err: fs.ErrClosed}
	}
	return nil
}

func (x *file) ReadAt(p []byte, off int64) (int, error) {
	x.fs.wait("read", x.name)
	x.fs.mu.Lock()
	defer x.fs.mu.Unlock()
	if err := x.usable(); err != nil {
		return 0, err
	}
	if err := x.fs.look("read", x.name); err != nil {
		return 0, err
	}
	n := x.n.now.read(p, off)
	x.fs.counts.Bytes += int64(n)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (x *file) WriteAt(p []byte, off int64) (int, error) {
	x.fs.wait("write", x.name)
	x.fs.mu.Lock()
	defer x.fs.mu.Unlock()
	if err := x.change(); err != nil {
		return 0, err
	}
	half, err := x.fs.begin("write", x.name, fmt.Sprintf("%d+%d", off, len(p)))
	if err != nil && !half {
		return 0, err
	}
	if half {
		p = p[:len(p)/2]
	}
	x.n.write(write{off: off, b: slices.Clone(p)})
	x.n.modified = x.fs.now()
	return len(p), err
}

// WriteAllAt is one write, which a crash may tear anywhere.
func (x *file) WriteAllAt(pieces [][]byte, off int64) (int, error) {
	return x.WriteAt(slices.Concat(pieces...), off)
}

func (x *file) change() error {
	if err := x.usable(); err != nil {
		return err
	}
	if !x.writable {
		return &fs.PathError{Op: "write", Path: x.name, Err: fs.ErrPermission}
	}
	return nil
}

func (x *file) Size() (int64, error) {
	x.fs.mu.Lock()
	defer x.fs.mu.Unlock()
	if err := x.usable(); err != nil {
		return 0, err
	}
	return x.n.now.size, nil
}

func (x *file) Truncate(size int64) error {
	x.fs.mu.Lock()
	defer x.fs.mu.Unlock()
	if err := x.change(); err != nil {
		return err
	}
	if _, err := x.fs.begin("truncate", x.name, fmt.Sprint(size)); err != nil {
		return err
	}
	if x.fs.deaf != nil && x.fs.deaf("truncate", x.name) {
		return nil
	}
	x.n.write(write{off: size, cut: true})
	x.n.reserved = 0
	return nil
}

// Reserve notes the room that was asked for; Truncate gives it back.
func (x *file) Reserve(size int64) error {
	x.fs.mu.Lock()
	defer x.fs.mu.Unlock()
	if err := x.change(); err != nil {
		return err
	}
	if _, err := x.fs.begin("reserve", x.name, fmt.Sprint(size)); err != nil {
		return err
	}
	x.n.reserved = size
	return nil
}

func (x *file) Sync() error {
	x.fs.wait("sync", x.name)
	x.fs.mu.Lock()
	defer x.fs.mu.Unlock()
	if err := x.usable(); err != nil {
		return err
	}
	if _, err := x.fs.begin("sync", x.name, ""); err != nil {
		return err
	}
	x.fs.counts.Syncs++
	if x.fs.deaf != nil && x.fs.deaf("sync", x.name) {
		return nil
	}
	for _, w := range x.n.writes {
		x.n.synced.apply(w)
	}
	x.n.writes = nil
	return nil
}

func (x *file) Close() error {
	x.fs.mu.Lock()
	defer x.fs.mu.Unlock()
	x.closed = true
	return nil
}

func (x *file) SysFile() *os.File { return nil }
