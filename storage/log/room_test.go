package log

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disktest"
)

// impatient makes what needs a descriptor wait for none.
func impatient(t *testing.T) {
	was := patience
	patience = []time.Duration{0}
	t.Cleanup(func() { patience = was })
}

// scarce is a disk that lets so many files be opened, and none from then on; times, if it is not 0, is how often it says
// so before descriptors are back.
func scarce(fs *disktest.FS, after, times int) (refused *int) {
	refused = new(int)
	fs.Refuse(func(op, name string) error {
		switch op {
		case "open", "create", "readdir", "syncdir":
		default:
			return nil
		}
		if after--; after >= 0 || (times > 0 && *refused == times) {
			return nil
		}
		*refused++
		return &os.PathError{Op: op, Path: name, Err: syscall.EMFILE}
	})
	return refused
}

// TestTruncationWithoutDescriptors: a truncation that cannot begin changes nothing; one that was begun waits for
// descriptors.
func TestTruncationWithoutDescriptors(t *testing.T) {
	impatient(t)
	done := 0
	for after := range 40 {
		for _, times := range []int{0, 5} {
			w := newWorld()
			if err := w.begin(); err != nil {
				t.Fatal(err)
			}
			d := fromSeed(3)
			for range 12 {
				if err := w.append(d); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.hold(d); err != nil { // so that the head is copied
				t.Fatal(err)
			}
			for _, seg := range w.log.segs {
				w.log.files.close(seg.log)
			}
			end := w.end
			scarce(w.fs, after, times)
			err := w.truncateTo(w.end / 2)
			w.fs.Refuse(nil)
			offline := w.directory.Offline() != nil
			switch {
			case err == nil:
				done++
			case times > 0 && offline:
				t.Fatalf("after %d files: descriptors were back, and %v", after, err)
			case !offline && w.log.End() != end:
				t.Fatalf("after %d files: %v, and the log ends at %d of %d", after, err, w.log.End(), end)
			}
			if !offline {
				if err := w.check(); err != nil {
					t.Fatalf("after %d files: %v", after, err)
				}
				if err := w.append(d); err != nil {
					t.Fatal(err)
				}
				continue
			}
			// What it has left is what a crash leaves.
			w.under.truncating, w.under.truncateTo = true, 0
			w.crash(2)
			if err := w.crashed(0); err != nil {
				t.Fatalf("after %d files: %v", after, err)
			}
		}
	}
	if done < 20 {
		t.Errorf("only %d truncations came about", done)
	}
}

// TestSettle: files are synced and closed before they are too many, while they can be used, and who opens one waits for
// no other log's disk.
func TestSettle(t *testing.T) {
	const bound = 8
	fs := disktest.New()
	files := NewFiles(3, bound)
	syncing, open := make(chan string, 100), make(chan struct{})
	fs.HoldSyncs(suffixLog, func(name string) {
		syncing <- name
		<-open
	})
	logs := many(t, fs, files, 40)
	for _, l := range logs[:bound-1] {
		if err := appendOne(l); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-files.Crowded():
	default:
		t.Fatal("nobody says that there is something to do")
	}
	done := make(chan struct{})
	go func() {
		files.Settle()
		close(done)
	}()
	name := <-syncing
	for _, l := range logs[:bound] { // among them the one that is being synced, and one that is opened
		if err := appendOne(l); err != nil {
			t.Fatal(err)
		}
	}
	close(open)
	<-done
	files.Settle() // of what was written to meanwhile
	if _, written := files.Open(); written > bound-bound/4+1 {
		t.Errorf("%d files are open", written)
	}
	var used *Log
	for _, l := range logs[:bound] {
		if l.last().log.path == name {
			used = l
		}
	}
	if h := used.last().log; h.pins.Load() < 0 && h.dirty.Load() {
		t.Error("a file that was written to while it was synced was closed")
	}
	for _, l := range logs[:bound] {
		if h := l.last().log; h.pins.Load() < 0 && h.dirty.Load() {
			t.Errorf("%s was closed and not synced", h.path)
		}
	}
}

// TestSyncThatFailsIsToldOnce: whoever syncs a file beside another who is told that it failed knows of it, too.
func TestSyncThatFailsIsToldOnce(t *testing.T) {
	for seed := range uint64(200) {
		fs, bad := disktest.New(), errors.New("input/output error")
		l := many(t, fs, NewFiles(9, 9), 1)[0]
		if err := appendOne(l); err != nil {
			t.Fatal(err)
		}
		told := false
		fs.Refuse(func(op, name string) error {
			if op != "sync" || told {
				return nil
			}
			told = true
			return bad
		})
		h := l.last().log
		settled := make(chan struct{})
		go func() {
			if r := rand.New(rand.NewPCG(seed, 1)); r.IntN(2) == 0 {
				time.Sleep(time.Duration(r.IntN(20)) * time.Microsecond)
			}
			h.settle()
			close(settled)
		}()
		err := l.Flush()
		<-settled
		if told && l.directory.Offline() == nil {
			t.Fatal("the directory goes on")
		}
		if told && err == nil && l.FlushedOffset() == batch.Offset(1) && h.dirty.Load() {
			t.Fatal("a flush counts beside a sync that failed")
		}
	}
}

// TestTruncationKeepsAbortsThatAreNotStored: what no descriptor was left for is stored before a truncation makes the
// segment anew.
func TestTruncationKeepsAbortsThatAreNotStored(t *testing.T) {
	impatient(t)
	x := newTxnLog(t)
	first := x.data(1)
	x.fs.Refuse(func(op, name string) error {
		if (op == "open" || op == "create") && strings.HasSuffix(name, suffixTxnIndex) {
			return &os.PathError{Op: op, Path: name, Err: syscall.EMFILE}
		}
		return nil
	})
	x.marker(1, 0)
	last := x.data(2)
	x.log.SetHighWatermark(last + 1)
	x.aborted(0, last, AbortedTxn{ProducerID: 1, FirstOffset: first})
	x.fs.Refuse(nil)
	x.ok(x.log.Truncate(last))
	x.aborted(0, last, AbortedTxn{ProducerID: 1, FirstOffset: first})
	x.ok(x.log.Close())
	x.open(true, last)
	x.aborted(0, last, AbortedTxn{ProducerID: 1, FirstOffset: first})
}

// TestDiskFailsBesideALackOfDescriptors: what could not be synced is told although something else could not be opened.
func TestDiskFailsBesideALackOfDescriptors(t *testing.T) {
	impatient(t)
	x := newLived(t)
	x.add(1)
	bad := errors.New("input/output error")
	x.fs.Refuse(func(op, name string) error {
		switch {
		case op == "sync" && strings.HasSuffix(name, metadataFile):
			return bad
		case op == "syncdir":
			return syscall.EMFILE
		}
		return nil
	})
	if err := x.log.Flush(); !errors.Is(err, bad) || !errors.Is(x.log.Offline(), bad) {
		t.Errorf("the flush says %v, the directory %v", err, x.log.Offline())
	}
}

// TestTruncationRefusedBehindAHalf: a truncation that came to nothing leaves it known that the segment before one that was
// begun in part is not durable as a whole.
func TestTruncationRefusedBehindAHalf(t *testing.T) {
	impatient(t)
	x := newLived(t)
	x.add(10)
	x.ok(x.log.Flush())
	x.add(10)
	refuse := func(what string) {
		x.fs.Refuse(func(op, name string) error {
			if strings.Contains(op+" "+name, what) {
				return syscall.EMFILE
			}
			return nil
		})
	}
	refuse("create " + x.o.Dir + "/" + fileName(20, suffixTimeIndex))
	if err := x.log.Roll(); !errors.Is(err, ErrNoDescriptor) || !x.log.begunHalf {
		t.Fatalf("the roll says %v", err)
	}
	refuse("syncdir")
	if err := x.log.Truncate(5); !errors.Is(err, ErrNoDescriptor) || x.log.end != 20 {
		t.Fatalf("the log ends at %d: %v", x.log.end, err)
	}
	x.fs.Refuse(nil)
	x.ok(x.log.Flush())
	if f, p := x.log.FlushedOffset(), x.log.RecoveryPoint(); f != 20 || p >= 20 {
		t.Errorf("flushed to %d, a recovery begins at %d: the indexes of the segment before that are not synced", f, p)
	}
	x.add(1)
	x.ok(x.log.Flush())
	if p := x.log.RecoveryPoint(); p != 21 {
		t.Errorf("a recovery begins at %d", p)
	}
}

// TestIndexesThatCannotBeMade: a log whose indexes cannot be made anew for lack of a descriptor ends where it did.
func TestIndexesThatCannotBeMade(t *testing.T) {
	impatient(t)
	for after := range 10 {
		x := newLived(t)
		x.add(1200)
		x.closed()
		size := x.log.active.size
		x.ok(x.fs.Remove(x.o.Dir + "/" + fileName(0, suffixIndex)))
		refused := scarce(x.fs, after, 0)
		err := appendOne(x.log)
		x.fs.Refuse(nil)
		if *refused > 0 && !errors.Is(err, ErrNoDescriptor) {
			t.Fatalf("after %d files the append says %v", after, err)
		}
		if got := x.log.active.size; err != nil && got != size {
			t.Errorf("after %d files the log has %d bytes of %d", after, got, size)
		}
		if err != nil {
			x.ok(appendOne(x.log))
		}
		for o := batch.Offset(0); o <= 1200; o += 50 {
			s, err := x.log.View().Read(o, 1201, 1, true)
			x.ok(err)
			b, err := sectionBytes(s)
			x.ok(err)
			if h, err := batch.ParseHeader(b); err != nil || h.BaseOffset != o {
				t.Fatalf("after %d files: %d is read at %d: %v", after, h.BaseOffset, o, err)
			}
		}
	}
}

// TestNobodyWaitsInALog: where no descriptor is left a log refuses at once, because its owner's lock is held meanwhile.
func TestNobodyWaitsInALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		for name, do := range map[string]func(*Log) error{
			"append": appendOne, "roll": (*Log).Roll, "truncate": func(l *Log) error { return l.Truncate(1) }, "truncate fully": func(l *Log) error { return l.TruncateFully(9) },
			"flush": (*Log).Flush, "read": func(l *Log) error { _, err := l.View().Read(0, 2, 1, true); return err },
		} {
			fs := disktest.New()
			l := many(t, fs, NewFiles(9, 9), 1)[0]
			for range 2 {
				if err := appendOne(l); err != nil {
					t.Fatal(err)
				}
			}
			if h := l.last().log; !l.files.close(h) {
				t.Fatal("the file is in use")
			}
			scarce(fs, 0, 0)
			if err := do(l); !errors.Is(err, ErrNoDescriptor) || l.Offline() != nil || l.End() != 2 {
				t.Errorf("%s: %v; the log ends at %d", name, err, l.End())
			}
			fs.Refuse(nil)
			if err := do(l); err != nil {
				t.Errorf("%s, with descriptors: %v", name, err)
			}
		}
		if d := time.Since(begun); d != 0 {
			t.Errorf("they waited for %v", d)
		}
	})
}

// TestTruncationHasSpareFiles: a truncation that has begun needs no descriptor that others may take.
func TestTruncationHasSpareFiles(t *testing.T) {
	impatient(t)
	for _, fully := range []bool{false, true} {
		fs := &counted{FS: disktest.New()}
		l := many(t, fs, NewFiles(9, 9), 1)[0]
		for range 20 {
			if err := appendOne(l); err != nil {
				t.Fatal(err)
			}
		}
		s, err := l.View().Read(0, 20, 1000, true) // so that the head is copied
		if err != nil {
			t.Fatal(err)
		}
		l.lower = func(batch.Offset) error { // asked right before the log is cut
			fs.mu.Lock()
			defer fs.mu.Unlock()
			fs.limit = fs.open + 2 // the indexes, which are open for a moment
			return nil
		}
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		if fully {
			err = l.TruncateFully(30)
		} else {
			err = l.Truncate(10)
		}
		if err != nil || l.Offline() != nil {
			t.Errorf("fully %v: %v", fully, err)
		}
		fs.limit = 0
		s.Release()
		if n := l.End(); err == nil && n != 10 && n != 30 {
			t.Errorf("the log ends at %d", n)
		}
		if err := appendOne(l); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if fs.open != 0 {
			t.Errorf("%d files are open", fs.open)
		}
	}
}

// TestRollThatComesToNothing: the snapshot of a roll for which no descriptor was left does not come back after a crash, or
// a flush that was under way would say that the log was closed there.
func TestRollThatComesToNothing(t *testing.T) {
	impatient(t)
	for seed := range uint64(40) {
		x := newLived(t)
		x.add(10)
		x.ok(x.log.Flush())
		x.add(10)
		snapshot := x.o.Dir + "/" + fileName(20, suffixSnapshot)
		refuse := func(ops ...string) {
			x.fs.Refuse(func(op, name string) error {
				if slices.Contains(ops, op+" "+name) {
					return syscall.EMFILE
				}
				return nil
			})
		}
		if seed%2 == 0 {
			refuse("create "+x.o.Dir+"/"+fileName(20, suffixLog), "syncdir "+x.o.Dir)
			if err := x.log.Roll(); !errors.Is(err, ErrNoDescriptor) || len(x.log.begun) != 1 {
				t.Fatalf("a roll that leaves a snapshot says %v, and counts as one that did not begin", err)
			}
		}
		refuse("create " + x.o.Dir + "/" + fileName(20, suffixLog))
		if err := x.log.Roll(); !errors.Is(err, ErrNoDescriptor) || len(x.log.begun) != 0 {
			t.Fatalf("the roll says %v; begun: %v", err, x.log.begun)
		}
		x.fs.Refuse(nil)
		x.fs.Crash(rand.New(rand.NewPCG(seed, 1)))
		if _, err := x.fs.Stat(snapshot); err == nil {
			t.Fatalf("seed %d: the snapshot is there again", seed)
		}
	}
}

// TestRollThatFailsForGood: what a roll has failed for is told, also where a descriptor lacks for what comes after it.
func TestRollThatFailsForGood(t *testing.T) {
	x := newLived(t)
	x.add(10)
	x.fs.Refuse(func(op, name string) error {
		switch {
		case op == "truncate" && strings.HasSuffix(name, suffixTimeIndex):
			return syscall.EIO
		case op == "syncdir":
			return syscall.EMFILE
		}
		return nil
	})
	if err := x.log.Roll(); !errors.Is(err, syscall.EIO) || x.log.Offline() == nil {
		t.Errorf("an error of the disk says %v; the directory: %v", err, x.log.Offline())
	}
}

// TestEmptyLogWithoutDescriptors: a log without records, of which a directory is there, begins anew without a file.
func TestEmptyLogWithoutDescriptors(t *testing.T) {
	fs := disktest.New()
	if err := errors.Join(fs.MkdirAll("/d/t-0"), fs.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	l := many(t, fs, NewFiles(9, 9), 1)[0]
	scarce(fs, 0, 0)
	if err := l.TruncateFully(9); err != nil || l.Offline() != nil {
		t.Fatalf("%v; the directory: %v", err, l.Offline())
	}
	fs.Refuse(nil)
	if err := errors.Join(appendOne(l), l.Flush()); err != nil {
		t.Fatal(err)
	}
	fs.Crash(rand.New(rand.NewPCG(1, 1)))
	l, _, err := Open(Options{FS: fs, Dir: "/d/t-0", Topic: "t", RecoveryPoint: l.RecoveryPoint(), LogStart: -1, HighWatermark: -1})
	if err != nil {
		t.Fatal(err)
	}
	if v := l.View(); v.LogStart() != 9 || v.LogEnd() != 10 {
		t.Errorf("it goes from %d to %d", v.LogStart(), v.LogEnd())
	}
}
