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
//
// What was written to a file is synced before that is closed. Settle does so ahead of time, so that those who open files
// seldom wait for the disk, and for files of other logs.
type Files struct {
	mu            sync.Mutex
	read, written queue
	crowded       chan struct{} // Settle has something to do
	blocks        blocks
}

// queue is the open files of one kind, the one opened longest ago first. One that was used since it was queued goes round
// once more.
type queue struct {
	max  int
	list list.List    // of *handle
	n    atomic.Int64 // how many
}

// NewFiles makes a bound of read files that are only read and written files that logs write to.
func NewFiles(read, written int) *Files {
	f := &Files{crowded: make(chan struct{}, 1)}
	f.read.max, f.written.max = read, written
	return f
}

// settleAtOnce is how many files Settle waits for at a time.
const settleAtOnce = 8

// roomy is how many of the files that are written to may be open while Settle has nothing to do.
func (f *Files) roomy() int { return f.written.max - f.written.max/4 }

// Crowded is sent on when Settle has something to do.
func (f *Files) Crowded() <-chan struct{} { return f.crowded }

// Settle makes room: of the files that are written to it syncs and closes those that nobody has and that were opened
// longest ago, until a quarter of their bound is free. A file can be used while it is synced.
func (f *Files) Settle() {
	for {
		f.mu.Lock()
		victims := f.coldest(&f.written, max(f.roomy(), f.written.list.Len()-settleAtOnce), nil)
		f.mu.Unlock()
		if len(victims) == 0 {
			return
		}
		var wg sync.WaitGroup
		var closed atomic.Int64
		for _, h := range victims {
			wg.Go(func() {
				if f.close(h) {
					closed.Add(1)
				}
			})
		}
		wg.Wait()
		if closed.Load() == 0 {
			return // they are in use; more are opened when there is something to do again
		}
	}
}

// opened takes note of a handle that was just opened and closes those that are now too many. No handle's lock may be held:
// closing takes one.
func (f *Files) opened(h *handle) {
	f.mu.Lock()
	f.put(h)
	victims := f.surplus(h)
	if f.written.list.Len() > f.roomy() {
		select {
		case f.crowded <- struct{}{}:
		default:
		}
	}
	f.mu.Unlock()
	f.closeAll(victims)
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
	f.closeAll(victims)
}

// closed takes note that a handle is not open any more.
func (f *Files) closed(h *handle) {
	f.mu.Lock()
	f.take(h)
	f.mu.Unlock()
}

// relieve closes half of the files that nobody has and to which nothing was written since they were synced; where there
// are none, a few of the others: the process, or the system, has no descriptor left. It says how many it has closed. No
// handle's lock may be held.
func (f *Files) relieve() (closed int) {
	clean := func(h *handle) bool { return h.idle() && !h.dirty.Load() }
	f.mu.Lock()
	victims := f.oldest(&f.read, f.read.list.Len()/2, clean)
	victims = append(victims, f.oldest(&f.written, f.written.list.Len()/2, clean)...)
	if len(victims) == 0 {
		victims = f.oldest(&f.written, max(f.written.list.Len()-settleAtOnce, 0), (*handle).idle)
		victims = append(victims, f.oldest(&f.read, max(f.read.list.Len()-settleAtOnce, 0), (*handle).idle)...)
	}
	f.mu.Unlock()
	for _, h := range victims {
		if f.close(h) {
			closed++
		}
	}
	return closed
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
		h.in.n.Add(1)
	}
}

func (f *Files) take(h *handle) {
	if h.in != nil {
		h.in.list.Remove(h.element)
		h.in.n.Add(-1)
		h.in, h.element = nil, nil
	}
}

// surplus takes out of the queues what is beyond their bounds.
func (f *Files) surplus(but *handle) []*handle {
	return append(f.coldest(&f.read, f.read.max, but), f.coldest(&f.written, f.written.max, but)...)
}

// coldest takes handles that nobody has out of a queue, until it holds no more than most: those that were not used, and
// where all were used others, so that the bound holds all the same.
func (f *Files) coldest(q *queue, most int, but *handle) []*handle {
	out := f.oldest(q, most, func(h *handle) bool { return h != but && h.idle() && !h.used.Swap(false) })
	return append(out, f.oldest(q, most, func(h *handle) bool { return h != but && h.idle() })...)
}

// oldest takes handles that may be taken out of a queue, until it holds no more than most.
func (f *Files) oldest(q *queue, most int, may func(*handle) bool) (out []*handle) {
	for n := q.list.Len(); n > 0 && q.list.Len() > most; n-- {
		h := q.list.Front().Value.(*handle)
		if !may(h) {
			q.list.MoveToBack(h.element)
			continue
		}
		f.take(h)
		out = append(out, h)
	}
	return out
}

func (f *Files) closeAll(victims []*handle) {
	for _, h := range victims {
		f.close(h)
	}
}

// close closes a file that was taken out of its queue, and says whether it did: somebody may have taken it in the meantime,
// or written to it; it is judged again then.
func (f *Files) close(h *handle) bool {
	h.settle()
	if h.closeIdle() {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if h.pins.Load() >= 0 {
		f.put(h)
	}
	return false
}

// Open is how many files are known to be open, of either kind.
func (f *Files) Open() (read, written int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read.list.Len(), f.written.list.Len()
}

// handle is one file of a segment. It is opened when somebody wants it and closed when nobody has it and room is needed.
type handle struct {
	fs    *room
	files *Files

	// pins counts who has the file; -1: it is closed. Whoever moves it from -1 or to -1 holds mu.
	pins atomic.Int64
	used atomic.Bool // since the handle was queued
	held atomic.Bool // its log writes to it
	gone atomic.Bool // never to be opened again; closed as soon as nobody has it
	// dirty: something was written that was not synced since. Whoever wrote says so while it still has the file.
	dirty atomic.Bool

	mu   sync.Mutex // never held while anything waits for the disk, but for the file to be opened
	path string
	f    disk.File // valid while pins >= 0

	// syncing is held while the file is synced, and until the directory was given up if it could not be: of two who sync it
	// at a time only one is told.
	syncing sync.Mutex

	// Under Files.mu: where it is queued; nil: it is closed, or about to be.
	in      *queue
	element *list.Element

	closed func() // called when the file was closed, with no lock but mu; nil: nobody is told
	// directory is given up when a sync fails that the file got before it was closed; nil: nobody writes to it.
	directory *Directory
}

func newHandle(fsys *room, files *Files, path string) *handle {
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
	if err := h.fs.try(h.open); err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	h.files.opened(h)
	return h.f, nil
}

// open opens the file for one who has it then, or takes it if somebody else was first. To open it and to look at its name
// are one, under the lock: the name may be given to another file.
func (h *handle) open() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pin() {
		return nil
	}
	if h.gone.Load() {
		return errRetired
	}
	f, err := h.fs.FS.Open(h.path, disk.Write)
	if err != nil {
		return err
	}
	h.f = f
	h.pins.Store(1)
	return nil
}

// affordable says whether somebody more can have the file without one more than the bound being held open.
func (h *handle) affordable() bool {
	f, q := h.files, &h.files.read
	if h.held.Load() {
		q = &f.written
	}
	n := h.pins.Load()
	if n > 0 || q.n.Load() < int64(q.max) {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for e := q.list.Front(); e != nil; e = e.Next() {
		if o := e.Value.(*handle); o != h && o.idle() {
			return true // it makes way
		}
	}
	return h.in == q && q.list.Len() <= q.max
}

// idle says whether nobody has the file.
func (h *handle) idle() bool { return h.pins.Load() == 0 }

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

// sync makes what was written durable, or gives the directory up. What is written meanwhile may be, and counts as not.
func (h *handle) sync(f disk.File) error {
	h.syncing.Lock()
	defer h.syncing.Unlock()
	h.dirty.Store(false)
	err := f.Sync()
	if err != nil && h.directory != nil {
		return h.directory.Fail("sync of "+h.where(), err)
	}
	return err
}

// settle syncs what was written, while others may use the file. The bytes are the system's to keep, but that it could not
// write them is told to those who have the file open: whoever opens it later may not hear of it. A file that will not be
// opened again is one that goes.
func (h *handle) settle() {
	if !h.dirty.Load() || h.gone.Load() || !h.pin() {
		return
	}
	_ = h.sync(h.f) // the directory is given up if it fails
	h.release()
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

// closeIdle closes the file if nobody has it and nothing was written to it that was not synced. It says whether the file
// is closed.
func (h *handle) closeIdle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.pins.CompareAndSwap(0, -1) {
		return h.pins.Load() < 0
	}
	if h.dirty.Load() && !h.gone.Load() {
		h.pins.Store(0)
		return false
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
