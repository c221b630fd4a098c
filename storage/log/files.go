package log

import (
	"container/list"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"millrace/storage/disk"
)

// Files bounds how many files of segments stay open: those that logs write to, and those, their indexes among them, that are
// open only because they were read. A file that somebody has at the moment, to write to it or because a section is being
// sent from it, is open regardless.
type Files struct {
	mu            sync.Mutex
	read, written queue
}

// queue is the open files of one kind, the one opened longest ago first. One that was used since it was queued goes round
// once more.
type queue struct {
	max  int
	list list.List // of *handle
}

// NewFiles makes a bound of read files that are only read and written files that logs write to.
func NewFiles(read, written int) *Files {
	return &Files{read: queue{max: read}, written: queue{max: written}}
}

// opened takes note of a handle that was just opened and closes those that are now too many. No handle's lock may be held:
// closing takes one.
func (f *Files) opened(h *handle) {
	f.mu.Lock()
	f.put(h)
	victims := f.surplus(h)
	f.mu.Unlock()
	f.close(victims)
}

// changed takes note that a handle's log began, or stopped, to write to it.
func (f *Files) changed(h *handle) {
	f.mu.Lock()
	if h.in != nil && h.in != f.queueOf(h) {
		f.take(h)
		f.put(h)
	}
	victims := f.surplus(nil)
	f.mu.Unlock()
	f.close(victims)
}

// closed takes note that a handle is not open any more.
func (f *Files) closed(h *handle) {
	f.mu.Lock()
	f.take(h)
	f.mu.Unlock()
}

// relieve closes half of the files that nobody has: the process, or the system, has no descriptor left.
func (f *Files) relieve() {
	f.mu.Lock()
	victims := f.oldest(&f.read, f.read.list.Len()/2, nil, true)
	victims = append(victims, f.oldest(&f.written, f.written.list.Len()/2, nil, true)...)
	f.mu.Unlock()
	f.close(victims)
}

func (f *Files) queueOf(h *handle) *queue {
	if h.held.Load() {
		return &f.written
	}
	return &f.read
}

func (f *Files) put(h *handle) {
	if h.in == nil {
		h.in = f.queueOf(h)
		h.element = h.in.list.PushBack(h)
	}
}

func (f *Files) take(h *handle) {
	if h.in != nil {
		h.in.list.Remove(h.element)
		h.in, h.element = nil, nil
	}
}

func (f *Files) surplus(but *handle) []*handle {
	victims := f.oldest(&f.read, f.read.max, but, false)
	return append(victims, f.oldest(&f.written, f.written.max, but, false)...)
}

// oldest takes handles that nobody has out of a queue, until it holds no more than most; with used also those that would
// go round once more.
func (f *Files) oldest(q *queue, most int, but *handle, used bool) (out []*handle) {
	// Twice round: where all were used, the bound holds all the same.
	for n := 2 * q.list.Len(); n > 0 && q.list.Len() > most; n-- {
		h := q.list.Front().Value.(*handle)
		if h == but || (h.used.Swap(false) && !used) || h.pins.Load() > 0 {
			q.list.MoveToBack(h.element)
			continue
		}
		f.take(h)
		out = append(out, h)
	}
	return out
}

func (f *Files) close(victims []*handle) {
	for _, h := range victims {
		if !h.closeIdle() {
			// Somebody took it in the meantime; it is in use and will be judged again.
			f.mu.Lock()
			if h.pins.Load() >= 0 {
				f.put(h)
			}
			f.mu.Unlock()
		}
	}
}

// Open is how many files are known to be open, of either kind.
func (f *Files) Open() (read, written int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read.list.Len(), f.written.list.Len()
}

// handle is one file of a segment. It is opened when somebody wants it and closed when nobody has it and room is needed.
type handle struct {
	fs    disk.FS
	files *Files

	// pins counts who has the file; -1: it is closed. Whoever moves it from -1 or to -1 holds mu.
	pins atomic.Int64
	used atomic.Bool // since the handle was queued
	held atomic.Bool // its log writes to it
	gone atomic.Bool // never to be opened again; closed as soon as nobody has it
	// dirty: something was written that was not synced since. Whoever wrote says so while it still has the file.
	dirty atomic.Bool

	mu   sync.Mutex
	path string
	f    disk.File // valid while pins >= 0

	// Under Files.mu: where it is queued; nil: it is closed, or about to be.
	in      *queue
	element *list.Element

	closed func() // called when the file was closed, with no lock but mu; nil: nobody is told
	// directory is given up when a sync fails that the file got before it was closed; nil: nobody writes to it.
	directory *Directory
}

func newHandle(fsys disk.FS, files *Files, path string) *handle {
	h := &handle{fs: fsys, files: files, path: path}
	h.pins.Store(-1)
	return h
}

// created gives a handle the file that was just made under its path and that its log writes to.
func (h *handle) created(f disk.File) {
	h.mu.Lock()
	h.f = f
	h.held.Store(true)
	h.pins.Store(0)
	h.mu.Unlock()
	h.files.opened(h)
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
	// Not through relieved: room is made without the lock.
	plain := unrelieved(h.fs)
	f, err := plain.Open(h.path, disk.Write)
	for n := 0; n < relieveTries && noDescriptor(err); n++ {
		h.mu.Unlock()
		h.files.relieveAgain(n)
		h.mu.Lock()
		if h.pin() {
			h.mu.Unlock()
			return h.f, nil
		}
		if h.gone.Load() {
			h.mu.Unlock()
			return nil, errRetired
		}
		f, err = plain.Open(h.path, disk.Write)
	}
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

// write writes to the file, which is opened for it if it is not open.
func (h *handle) write(b []byte, at int64) error {
	f, err := h.acquire()
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, at)
	h.dirty.Store(true) // also what an error left half written
	h.release()
	return err
}

// sync makes what was written durable. What is written meanwhile may be, and counts as not.
func (h *handle) sync(f disk.File) error {
	h.dirty.Store(false)
	return f.Sync()
}

// hold says that the file is written to from now on.
func (h *handle) hold() {
	h.held.Store(true)
	h.files.changed(h)
}

// unhold says that it is not written to any more.
func (h *handle) unhold() {
	h.held.Store(false)
	h.files.changed(h)
}

// closeIdle closes the file if nobody has it. It says whether the file is closed.
func (h *handle) closeIdle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.pins.CompareAndSwap(0, -1) {
		return h.pins.Load() < 0
	}
	// The bytes are the system's to keep, but that it could not write them is told to those who have the file open: whoever
	// opens it later may not hear of it. A file that will not be opened again is one that goes.
	if h.dirty.Load() && !h.gone.Load() {
		if err := h.sync(h.f); err != nil && h.directory != nil {
			_ = h.directory.Fail("sync of "+h.path, err)
		}
	}
	_ = h.f.Close()
	h.f = nil
	h.files.closed(h)
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
