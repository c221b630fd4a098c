package log

import (
	"errors"
	"io"
	"syscall"
	"time"

	"millrace/storage/disk"
)

// relieved is a disk on which what takes a descriptor is asked again where the process, or the system, has none left:
// files that nobody has are closed first. A segment is begun, a checkpoint exchanged and a directory synced with a
// descriptor each, and a data directory is not to be given up for want of one that can be had.
type relieved struct {
	disk.FS
	files *Files
}

// relieveTries is how often it is asked again, and relievePause how long it is waited then: many descriptors are taken
// for a moment only, by others who sync a file.
const (
	relieveTries = 10
	relievePause = 5 * time.Millisecond
)

// Relieved is a disk whose operations make room among the files where there is no descriptor left for them.
func (f *Files) Relieved(fsys disk.FS) disk.FS {
	if r, ok := fsys.(relieved); ok && r.files == f {
		return r
	}
	return relieved{fsys, f}
}

// unrelieved is the disk below.
func unrelieved(fsys disk.FS) disk.FS {
	if r, ok := fsys.(relieved); ok {
		return r.FS
	}
	return fsys
}

// relieveAgain makes room for the nth time.
func (f *Files) relieveAgain(n int) {
	if n > 0 {
		time.Sleep(relievePause)
	}
	f.relieve()
}

func noDescriptor(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

func (r relieved) again(try func() error) error {
	err := try()
	for n := 0; n < relieveTries && noDescriptor(err); n++ {
		r.files.relieveAgain(n)
		err = try()
	}
	return err
}

func (r relieved) Open(name string, flag disk.Flag) (f disk.File, err error) {
	err = r.again(func() error { f, err = r.FS.Open(name, flag); return err })
	return f, err
}

func (r relieved) ReadDir(dir string) (out []disk.Entry, err error) {
	err = r.again(func() error { out, err = r.FS.ReadDir(dir); return err })
	return out, err
}

func (r relieved) RemoveAll(name string) error {
	return r.again(func() error { return r.FS.RemoveAll(name) })
}

func (r relieved) SyncDir(dir string) error {
	return r.again(func() error { return r.FS.SyncDir(dir) })
}

func (r relieved) Lock(name string) (c io.Closer, err error) {
	err = r.again(func() error { c, err = r.FS.Lock(name); return err })
	return c, err
}
