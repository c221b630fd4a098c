package log

import (
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"millrace/storage/disk"
)

// Files bounds how many files of segments, their indexes among them, stay open only because they were read. Files that a log writes to and files that
// a section is being sent from are open regardless.
type Files struct {
	max int

	mu sync.Mutex
	// queue holds the handles that may be closed, the one opened longest ago first. A handle read since it was queued
	// goes round once more.
	queue []*handle
}

// NewFiles makes a bound of max open files.
func NewFiles(max int) *Files { return &Files{max: max} }

// opened takes note of a handle that was just opened, or that its log stopped writing to, and closes those that are now
// too many. No handle's lock may be held: closing takes one.
func (f *Files) opened(h *handle) {
	f.mu.Lock()
	if !h.queued {
		h.queued = true
		f.queue = append(f.queue, h)
	}
	var victims []*handle
	for n := len(f.queue); n > 0 && len(f.queue) > f.max; n-- {
		v := f.queue[0]
		f.queue = f.queue[1:]
		switch {
		case v.held.Load():
			v.queued = false // its log lets it go later and queues it again
		case v != h && !v.used.Swap(false) && v.pins.Load() <= 0:
			v.queued = false
			victims = append(victims, v)
		default:
			f.queue = append(f.queue, v)
		}
	}
	f.mu.Unlock()
	for _, v := range victims {
		if !v.closeIdle() {
			// Somebody took it in the meantime; it is in use and will be judged again.
			f.mu.Lock()
			if !v.queued && v.pins.Load() >= 0 {
				v.queued = true
				f.queue = append(f.queue, v)
			}
			f.mu.Unlock()
		}
	}
}

// open is how many files are known to be open and not written to.
func (f *Files) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.queue)
}

// handle is one file of a segment. It is opened when somebody wants it and closed when nobody has it and room is needed.
type handle struct {
	fs    disk.FS
	files *Files

	// pins counts who has the file; -1: it is closed. Whoever moves it from -1 or to -1 holds mu.
	pins atomic.Int64
	used atomic.Bool // since the handle was queued
	held atomic.Bool // by the log that writes to it
	gone atomic.Bool // never to be opened again; closed as soon as nobody has it

	mu   sync.Mutex
	path string
	f    disk.File // valid while pins >= 0

	queued bool // under Files.mu

	closed func() // called when the file was closed, with no lock but mu; nil: nobody is told
}

func newHandle(fsys disk.FS, files *Files, path string) *handle {
	h := &handle{fs: fsys, files: files, path: path}
	h.pins.Store(-1)
	return h
}

// created is a handle on a file that was just made; the caller holds it.
func created(fsys disk.FS, files *Files, path string, f disk.File) *handle {
	h := &handle{fs: fsys, files: files, path: path, f: f}
	h.pins.Store(1)
	h.held.Store(true)
	return h
}

// acquire returns the open file; release gives it back.
func (h *handle) acquire() (disk.File, error) {
	if h.pin() {
		h.used.Store(true)
		return h.f, nil
	}
	h.mu.Lock()
	if h.pin() {
		h.mu.Unlock()
		return h.f, nil
	}
	if h.gone.Load() {
		h.mu.Unlock()
		return nil, errRetired
	}
	f, err := h.fs.Open(h.path, disk.Write)
	if err != nil {
		h.mu.Unlock()
		return nil, fmt.Errorf("open segment: %w", err)
	}
	h.f = f
	h.pins.Store(1)
	h.mu.Unlock()
	h.files.opened(h)
	return f, nil
}

func (h *handle) pin() bool {
	for {
		n := h.pins.Load()
		if n < 0 {
			return false
		}
		if h.pins.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (h *handle) release() {
	n := h.pins.Add(-1)
	if n < 0 {
		panic(fmt.Sprintf("segment %s released %d times too often", h.path, -n))
	}
	if n == 0 && h.gone.Load() {
		h.closeIdle()
	}
}

// hold acquires the file for writing: it stays open until unhold.
func (h *handle) hold() (disk.File, error) {
	f, err := h.acquire()
	if err != nil {
		return nil, err
	}
	h.held.Store(true)
	return f, nil
}

func (h *handle) unhold() {
	h.held.Store(false)
	h.release()
	if !h.gone.Load() {
		h.files.opened(h)
	}
}

// closeIdle closes the file if nobody has it. It says whether the file is closed.
func (h *handle) closeIdle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.pins.CompareAndSwap(0, -1) {
		return h.pins.Load() < 0
	}
	// What was written is in the file or was synced by its log; closing a file that was only read cannot lose a thing.
	_ = h.f.Close()
	h.f = nil
	if h.closed != nil {
		h.closed()
	}
	return true
}

// retire closes the file as soon as nobody has it, for good.
func (h *handle) retire() {
	h.gone.Store(true)
	h.closeIdle()
}

// rename moves the file; those who have it open keep it.
func (h *handle) rename(to string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.fs.Rename(h.path, to); err != nil {
		return err
	}
	h.path = to
	return nil
}

// Section is a stretch of one segment, for a reply to be sent from. It keeps the segment's file open until Release,
// which must be called exactly once. The zero value is empty. Its bytes never change: what a reader may have been given
// is not written over, whatever happens to the log.
type Section struct {
	h   *handle
	f   disk.File
	pos int64
	n   int
}

// Len is the section's length in bytes.
func (s Section) Len() int { return s.n }

// ReadAt reads from the section. Fewer bytes than announced are io.EOF or an error of the disk.
func (s Section) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read section: %w", fs.ErrInvalid)
	}
	if off >= int64(s.n) {
		return 0, errEOF
	}
	short := int64(len(p)) > int64(s.n)-off
	if short {
		p = p[:int64(s.n)-off]
	}
	n, err := s.f.ReadAt(p, s.pos+off)
	if err == nil && short {
		err = errEOF
	}
	if err == errEOF && n == len(p) && !short {
		err = nil
	}
	return n, err
}

// SysFile is the operating system's file and the section's position in it; nil where there is none.
func (s Section) SysFile() (*os.File, int64) {
	if s.f == nil {
		return nil, 0
	}
	return s.f.SysFile(), s.pos
}

// Release gives the section's hold on its file back.
func (s Section) Release() {
	if s.h != nil {
		s.h.release()
	}
}
