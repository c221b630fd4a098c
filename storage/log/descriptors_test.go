package log

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/disktest"
)

// counted is a disk that counts the files that are open.
type counted struct {
	disk.FS
	mu         sync.Mutex
	open, most int
	limit      int // 0: none
	refuseAll  bool
}

type countedFile struct {
	disk.File
	by *counted
}

func (c *counted) Open(name string, flag disk.Flag) (disk.File, error) {
	c.mu.Lock()
	full := c.refuseAll || c.limit > 0 && c.open >= c.limit
	c.mu.Unlock()
	if full {
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
	}
	f, err := c.FS.Open(name, flag)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.open++
	c.most = max(c.most, c.open)
	c.mu.Unlock()
	return countedFile{f, c}, nil
}

func (f countedFile) Close() error {
	f.by.mu.Lock()
	f.by.open--
	f.by.mu.Unlock()
	return f.File.Close()
}

// many opens so many logs of one disk and one bound.
func many(t *testing.T, fs disk.FS, files *Files, n int) []*Log {
	t.Helper()
	var logs []*Log
	for i := range n {
		l, _, err := Open(Options{FS: fs, Dir: fmt.Sprintf("/d/t-%d", i), Topic: "t", Partition: int32(i), Files: files})
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	return logs
}

func appendOne(l *Log) error {
	u := batch.NewBuilder(batch.BuilderOptions{})
	u.Add(7, nil, []byte("v"))
	b := u.Bytes()
	h, err := batch.ParseHeader(b)
	if err == nil {
		_, err = l.Append(b, h, 7)
	}
	return err
}

// TestWrittenFilesAreBounded writes to more logs than may have their files open. What is closed is synced first, and opened
// again when it is written to; what a section is being sent from stays open.
func TestWrittenFilesAreBounded(t *testing.T) {
	const n, bound = 40, 5
	fs := &counted{FS: disktest.New()}
	files := NewFiles(3, bound)
	logs := many(t, fs, files, n)
	for round := range 3 {
		for i, l := range logs {
			if err := appendOne(l); err != nil {
				t.Fatal(err)
			}
			l.SetHighWatermark(l.end)
			if got := l.View().LogEnd(); got != batch.Offset(round+1) {
				t.Fatalf("log %d ends at %d in round %d", i, got, round)
			}
		}
	}
	if _, written := files.Open(); written > bound || fs.open > bound+3 {
		t.Errorf("%d files that are written to are open, %d in all", written, fs.open)
	}
	if fs.most > bound+3+2 { // one that is being opened, and an index for a moment
		t.Errorf("%d files were open at a time", fs.most)
	}
	var sections []Section
	for _, l := range logs[:20] {
		s, err := l.View().Read(0, 3, 1000, true)
		if err != nil {
			t.Fatal(err)
		}
		sections = append(sections, s)
	}
	for _, l := range logs {
		if err := appendOne(l); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range sections {
		if n, err := batchesIn(s); n != 3 || err != nil {
			t.Fatalf("a section whose file was to be closed has %d batches: %v", n, err)
		}
		s.Release()
	}
	for i, l := range logs {
		if h := l.last().log; h.pins.Load() < 0 && h.dirty.Load() {
			t.Errorf("the file of log %d was closed and not synced", i)
		}
	}
	if got := fs.FS.(*disktest.FS).Counts().Syncs; got < 3*n {
		t.Errorf("%d syncs", got)
	}
}

// TestErrorOfAClosedFile: that the system could not write what was written is told once, to those who have the file open.
func TestErrorOfAClosedFile(t *testing.T) {
	fs := disktest.New()
	d := &Directory{}
	files := NewFiles(1, 1)
	logs := make([]*Log, 3)
	for i := range logs {
		l, _, err := Open(Options{FS: fs, Dir: fmt.Sprintf("/d/t-%d", i), Topic: "t", Files: files, Directory: d})
		if err != nil {
			t.Fatal(err)
		}
		logs[i] = l
	}
	if err := appendOne(logs[0]); err != nil {
		t.Fatal(err)
	}
	bad := errors.New("input/output error")
	fs.Refuse(func(op, name string) error {
		if op == "sync" && strings.HasPrefix(name, "/d/t-0/") {
			return bad
		}
		return nil
	})
	for range 3 {
		for _, l := range logs[1:] {
			_ = appendOne(l)
		}
	}
	if err := d.Offline(); !errors.Is(err, bad) {
		t.Errorf("a file that could not be synced was closed, and the directory is %v", err)
	}
}

// TestNoDescriptorLeft: where the process may open no more, files that nobody has are closed for the one that is wanted.
func TestNoDescriptorLeft(t *testing.T) {
	fs := &counted{FS: disktest.New(), limit: 12}
	logs := many(t, fs, NewFiles(100, 100), 10)
	for _, l := range logs {
		if err := appendOne(l); err != nil {
			t.Fatal(err)
		}
	}
	fs.limit = fs.open
	l := logs[0]
	l.last().log.used.Store(false)
	if h := l.last().log; !l.files.close(h) {
		t.Fatal("the file is in use")
	}
	fs.limit = fs.open
	if err := appendOne(l); err != nil {
		t.Errorf("with every descriptor taken: %v", err)
	}
	if fs.open >= fs.limit {
		t.Errorf("%d files are open of %d", fs.open, fs.limit)
	}
}

// TestBusyFilesAreBounded: files that all were used since they were opened are bounded as well.
func TestBusyFilesAreBounded(t *testing.T) {
	const bound = 5
	files := NewFiles(3, bound)
	logs := many(t, disktest.New(), files, 40)
	for range 3 {
		for _, l := range logs {
			if err := appendOne(l); err != nil {
				t.Fatal(err)
			}
			if _, written := files.Open(); written > bound {
				t.Fatalf("%d files that are written to are open", written)
			}
			for _, other := range logs {
				if len(other.segs) > 0 {
					other.last().log.used.Store(true)
				}
			}
		}
	}
}

// reopened tells of each file before it is opened.
type reopened struct {
	disk.FS
	before func(name string)
}

func (r reopened) Open(name string, flag disk.Flag) (disk.File, error) {
	r.before(name)
	return r.FS.Open(name, flag)
}

// TestFlushAfterAFailedClose: a file that is opened again does not say any more that what was written to it is lost.
func TestFlushAfterAFailedClose(t *testing.T) {
	fs, bad := disktest.New(), errors.New("input/output error")
	var l *Log
	armed := false
	l = many(t, reopened{fs, func(name string) {
		if armed && strings.HasSuffix(name, ".log") {
			armed = false
			// What a closing says that was under way when the flush looked whether the directory is given up.
			_ = l.directory.Fail("sync", bad)
		}
	}}, NewFiles(9, 9), 1)[0]
	if err := appendOne(l); err != nil {
		t.Fatal(err)
	}
	if h := l.last().log; !l.files.close(h) {
		t.Fatal("the file is in use")
	}
	armed = true
	if err := l.Flush(); !errors.Is(err, bad) || l.FlushedOffset() != 0 {
		t.Errorf("flushed to %d: %v", l.FlushedOffset(), err)
	}
}

// TestFlushWithNoDescriptorLeft: a flush opens indexes, snapshots and directories as well. Where the process may open no
// more, files that nobody has make way for those too, and the directory is not given up.
func TestFlushWithNoDescriptorLeft(t *testing.T) {
	fs := &counted{FS: disktest.New()}
	d := &Directory{}
	files := NewFiles(100, 100)
	var logs []*Log
	for i := range 10 {
		l, _, err := Open(Options{FS: fs, Dir: fmt.Sprintf("/d/t-%d", i), Topic: "t", Partition: int32(i), Files: files, Directory: d})
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
		if err := appendOne(l); err != nil {
			t.Fatal(err)
		}
	}
	fs.limit = fs.open
	l := logs[0]
	if err := l.Roll(); err != nil {
		t.Fatalf("a segment with every descriptor taken: %v", err)
	}
	if err := appendOne(l); err != nil {
		t.Fatal(err)
	}
	fs.limit = fs.open
	if err := l.Flush(); err != nil || l.FlushedOffset() != 2 || l.RecoveryPoint() != 2 {
		t.Errorf("flushed to %d, recovery from %d: %v", l.FlushedOffset(), l.RecoveryPoint(), err)
	}
	if err := d.Offline(); err != nil {
		t.Error(err)
	}
	// With none to close either it is an error.
	fs.refuseAll = true
	if _, err := l.fs.Open("/d/none", disk.Write|disk.Create); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("with nothing to close: %v", err)
	}
}

// TestRemovedSegmentsAreClosed: a file that is open keeps its room on the disk after its name is gone.
func TestRemovedSegmentsAreClosed(t *testing.T) {
	for _, closes := range []bool{false, true} {
		fs := &counted{FS: disktest.New()}
		l := many(t, fs, NewFiles(9, 9), 1)[0]
		for range 3 {
			if err := errors.Join(appendOne(l), l.Roll()); err != nil {
				t.Fatal(err)
			}
		}
		l.SetHighWatermark(3)
		if err := l.SetLogStart(3); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Retain(l.now()); err != nil || len(l.segs) != 1 {
			t.Fatalf("%d segments: %v", len(l.segs), err)
		}
		if closes {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		} else if err := l.RemoveDeleted(l.now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{false: 1, true: 0}[closes]; fs.open != want {
			t.Errorf("closed %v: %d files are open, not %d", closes, fs.open, want)
		}
	}
}

// TestSectionsAreBounded: sections that are held take no more files than may be open, but for each reader's first.
func TestSectionsAreBounded(t *testing.T) {
	const n, bound = 40, 5
	fs := &counted{FS: disktest.New()}
	files := NewFiles(bound, bound)
	logs := many(t, fs, files, n)
	for _, l := range logs {
		if err := errors.Join(appendOne(l), l.Roll(), appendOne(l)); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []batch.Offset{0, 1} { // of files that are only read, and of those that are written to
		var held []Section
		for i, l := range logs {
			s, err := l.View().Read(from, 2, 1000, i == n-1)
			if err != nil {
				t.Fatal(err)
			}
			if s.Len() == 0 && i < bound {
				t.Errorf("from %d: only %d sections", from, i)
			}
			held = append(held, s)
		}
		if held[n-1].Len() == 0 {
			t.Errorf("from %d: one that is to come whole does not come", from)
		}
		if most := 2*bound + 1; fs.open > most {
			t.Errorf("from %d: %d files are open, %d may be", from, fs.open, most)
		}
		for _, s := range held {
			s.Release()
		}
		if s, err := logs[n/2].View().Read(from, 2, 1000, false); err != nil || s.Len() == 0 {
			t.Errorf("from %d: nothing once they are released: %v", from, err)
		} else {
			s.Release()
		}
	}
}
