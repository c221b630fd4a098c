package storage

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/log"
)

// scarce lets so many files be opened, and none from then on.
func (h *house) scarce(after int) {
	h.fs.Refuse(func(op, name string) error {
		switch op {
		case "open", "create", "readdir", "syncdir", "removeall":
			if after--; after < 0 {
				return &os.PathError{Op: op, Path: name, Err: syscall.EMFILE}
			}
		}
		return nil
	})
}

// TestLogsWithoutDescriptors: what fails because no file can be opened may be tried again. The directory stays, and a log that
// did not open is opened when it is asked for again.
func TestLogsWithoutDescriptors(t *testing.T) {
	for after := range 12 {
		h := newHouse(t)
		h.add(h.log("t", 1, 0), 3)
		h.ok(h.log("t", 1, 0).Flush())
		if after%2 == 0 {
			h.ok(h.s.Close(true))
		} else {
			h.fs.Kill()
		}
		h.open()
		h.scarce(after)
		l, err := h.s.Log("t", [16]byte{1}, 0, log.DefaultConfig())
		if err != nil && !errors.Is(err, log.ErrNoDescriptor) {
			t.Fatalf("after %d files: %v", after, err)
		}
		h.fs.Refuse(nil)
		if l == nil {
			l = h.log("t", 1, 0)
		}
		h.end(l, 3)
		// Another topic of that name: the files are put aside, and nothing of them is taken for the new one's.
		h.fs.Kill()
		h.open()
		h.scarce(after)
		if _, err = h.s.Log("t", [16]byte{2}, 0, log.DefaultConfig()); err != nil && !errors.Is(err, log.ErrNoDescriptor) {
			t.Fatalf("after %d files: %v", after, err)
		}
		h.fs.Refuse(nil)
		if l := h.log("t", 2, 0); l.View().LogEnd() != 0 {
			t.Fatalf("after %d files: a new topic ends at %d", after, l.View().LogEnd())
		}
		if err := h.s.dirs[0].health.Offline(); err != nil {
			t.Fatalf("after %d files: %v", after, err)
		}
	}
}

// TestHousekeepWithoutDescriptors: checkpoints and removals that cannot be done are done later.
func TestHousekeepWithoutDescriptors(t *testing.T) {
	h := newHouse(t)
	a := h.log("a", 1, 0)
	h.add(a, 3)
	h.add(h.log("b", 2, 0), 1)
	h.ok(h.s.Delete("b", 0))
	h.clock = h.clock.Add(2 * time.Minute)
	h.ok(a.Roll())
	h.scarce(0)
	if err := h.s.Housekeep(h.clock); !errors.Is(err, log.ErrNoDescriptor) {
		t.Fatal(err)
	}
	if err := h.s.FlushDue(t.Context(), h.clock); !errors.Is(err, log.ErrNoDescriptor) {
		t.Fatal(err)
	}
	h.fs.Refuse(nil)
	h.ok(h.s.dirs[0].health.Offline())
	h.clock = h.clock.Add(2 * time.Minute)
	h.ok(h.s.FlushDue(t.Context(), h.clock))
	h.ok(h.s.Housekeep(h.clock))
	if got := string(h.fs.Bytes("/data/" + highWatermarkFile)); got != "0\n1\na 0 3\n" {
		t.Errorf("high watermarks: %q", got)
	}
	names, err := h.fs.ReadDir("/data")
	h.ok(err)
	for _, n := range names {
		if n.Dir && n.Name != "a-0" {
			t.Errorf("%s is still there", n.Name)
		}
	}
}

// TestStartWithoutDescriptors: a directory that cannot be locked and read is not one to go on with.
func TestStartWithoutDescriptors(t *testing.T) {
	h := newHouse(t)
	h.ok(h.s.Close(true))
	h.scarce(0)
	if _, err := h.try(1); !errors.Is(err, ErrNoDirectory) {
		t.Fatal(err)
	}
}

// TestCleanWithoutDescriptors: a cleaning that fails at any file is given up, and begun again.
func TestCleanWithoutDescriptors(t *testing.T) {
	refused := 0
	for after := 0; after < 60; after += 3 {
		h := newHouse(t)
		s, all := laundry(t, h.fs, "/cleaned", "a")
		for i := range 6 {
			all[0].put(t, string(rune('a'+i%2)), []byte("value"))
			roll(t, all[0])
		}
		c := s.NewCleaner(listed(all), ordinary)
		h.scarce(after)
		done := c.CleanOnce(context.Background())
		h.fs.Refuse(nil)
		h.ok(s.dirs[0].health.Offline())
		if !done {
			refused++
			// What was cleaned, and could not be noted on disk, is noted with the next checkpoint.
			if all[0].log.CleanedTo() != 6 && !c.CleanOnce(context.Background()) {
				t.Fatalf("after %d files: it is not cleaned any more", after)
			}
		}
		l := all[0].log
		if l.CleanedTo() != 6 || l.View().LogEnd() != 6 {
			t.Fatalf("after %d files: cleaned to %d of %d", after, l.CleanedTo(), l.View().LogEnd())
		}
		section, err := l.View().Read(0, 6, 1<<20, true)
		h.ok(err)
		b := make([]byte, section.Len())
		_, err = section.ReadAt(b, 0)
		h.ok(err)
		section.Release()
		if first, err := batch.ParseHeader(b); err != nil || first.BaseOffset != 4 {
			t.Fatalf("after %d files: the log begins with %d: %v", after, first.BaseOffset, err)
		}
		h.ok(s.Close(true))
	}
	if refused < 8 {
		t.Errorf("only %d cleanings were refused a file", refused)
	}
}

// TestCheckpointWithoutDescriptors: a checkpoint that was written, and lacked a descriptor to be durable, is one that a
// truncation has to lower, and one that is written again.
func TestCheckpointWithoutDescriptors(t *testing.T) {
	stored := func(h *house) batch.Offset {
		c, err := readCheckpoint(h.fs, "/a", recoveryPointFile)
		h.ok(err)
		return c[partitionKey{"t", 0}]
	}
	for _, cut := range []bool{true, false} {
		h := newHouse(t, "/a")
		l := h.log("t", 1, 0)
		h.add(l, 10)
		h.ok(l.Flush())
		h.fs.Refuse(func(op, name string) error {
			if op == "syncdir" && name == "/a" {
				return syscall.EMFILE
			}
			return nil
		})
		if err := h.s.Checkpoint(); !errors.Is(err, log.ErrNoDescriptor) {
			t.Fatalf("the checkpoint says %v", err)
		}
		h.fs.Refuse(nil)
		if cut {
			h.ok(l.Truncate(5))
		} else {
			h.ok(h.s.Checkpoint())
		}
		if o := stored(h); o != l.End() {
			t.Errorf("the log ends at %d, the recovery point is %d", l.End(), o)
		}
		h.fs.Crash(nil)
		if o := stored(h); o != l.End() {
			t.Errorf("the log ended at %d, after a crash the recovery point is %d", l.End(), o)
		}
	}
}

// TestDeletionWithoutDescriptors: a deletion whose new name lacked a descriptor to be durable is one all the same, and its
// files go after the name is.
func TestDeletionWithoutDescriptors(t *testing.T) {
	t.Run("open", func(t *testing.T) { deleteWithoutDescriptors(t, false) })
	t.Run("not opened yet", func(t *testing.T) { deleteWithoutDescriptors(t, true) })
}

func deleteWithoutDescriptors(t *testing.T, unopened bool) {
	h := newHouse(t, "/a")
	h.add(h.log("t", 1, 0), 3)
	if unopened {
		h.ok(h.s.Close(true))
		h.open()
	}
	h.fs.Refuse(func(op, name string) error {
		if op == "syncdir" && name == "/a" {
			return syscall.EMFILE
		}
		return nil
	})
	if err := h.s.Delete("t", 0); !errors.Is(err, log.ErrNoDescriptor) {
		t.Fatalf("the deletion says %v", err)
	}
	later := h.s.now().Add(time.Hour)
	if err := h.s.Housekeep(later); !errors.Is(err, log.ErrNoDescriptor) || len(h.holders(partitionKey{"t", 0})) != 1 {
		t.Fatalf("files go before their name is durable: %v", err)
	}
	h.fs.Refuse(nil)
	h.ok(h.s.Housekeep(later))
	if list := h.holders(partitionKey{"t", 0}); len(list) != 0 {
		t.Errorf("left: %v", list)
	}
}
