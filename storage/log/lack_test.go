package log

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disktest"
)

// lackFor lets a disk do no such thing for lack of a descriptor.
func lackFor(d *disktest.FS, op string, is func(name string) bool) {
	d.Refuse(func(o, name string) error {
		if o == op && is(name) {
			return &os.PathError{Op: op, Path: name, Err: syscall.EMFILE}
		}
		return nil
	})
}

// TestExchangedFilesGoWithoutDescriptors: what a cleaning has exchanged, and could not make durable for lack of a
// descriptor, is removed in its time all the same, and not before it is durable.
func TestExchangedFilesGoWithoutDescriptors(t *testing.T) {
	x := newLaundry(t, Config{FileDeleteDelayMs: 1000})
	x.put(batch.BuilderOptions{}, "a=1", "b=1")
	x.roll()
	x.put(batch.BuilderOptions{}, "a=2")
	x.roll()
	x.put(batch.BuilderOptions{}, "c=1")
	if err := x.log.Flush(); err != nil {
		t.Fatal(err)
	}
	lackFor(x.fs, "syncdir", func(name string) bool { return name == worldDir })
	if _, err := x.try(); !errors.Is(err, ErrNoDescriptor) {
		t.Fatalf("a cleaning without a descriptor: %v", err)
	}
	deleted := func() (n int) {
		names, err := x.fs.ReadDir(worldDir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range names {
			if strings.HasSuffix(e.Name, suffixDeleted) {
				n++
			}
		}
		return n
	}
	if deleted() == 0 {
		t.Fatal("nothing was exchanged")
	}
	x.clock += 2000
	n := deleted()
	if err := x.log.RemoveDeleted(time.UnixMilli(x.clock)); !errors.Is(err, ErrNoDescriptor) || deleted() != n {
		t.Errorf("%d of %d files that may come back under their names are left (%v)", deleted(), n, err)
	}
	x.fs.Refuse(nil)
	if err := x.log.RemoveDeleted(time.UnixMilli(x.clock)); err != nil || deleted() != 0 {
		t.Errorf("%d files are left (%v)", deleted(), err)
	}
	x.clean()
	if got := x.lines(); !strings.Contains(got, "a=2") || strings.Contains(got, "a=1") {
		t.Errorf("the log holds %s", got)
	}
}

// TestRecoveryWithoutDescriptorsLeavesWhatACloseHasLeft: a recovery that lacks a descriptor where it is to begin does not
// begin further down, where what a close has left counts for nothing, but is tried again.
func TestRecoveryWithoutDescriptorsLeavesWhatACloseHasLeft(t *testing.T) {
	for _, suffix := range []string{suffixTxnIndex, suffixIndex, suffixTimeIndex} {
		x := newTxnLog(t)
		x.conf.IndexIntervalBytes = 100
		x.log.SetConfig(x.conf)
		for range 50 {
			x.data(10)
		}
		x.marker(10, batch.Abort)
		x.ok(x.log.Close())
		point := x.log.RecoveryPoint()
		x.open(true, point)
		x.data(20)
		x.fs.Kill()
		name := "/t-0/" + fileName(0, suffix)
		snapshot := "/t-0/" + fileName(point, suffixSnapshot)
		before := slices.Clone(x.fs.Bytes(snapshot))
		lackFor(x.fs, "open", func(n string) bool { return n == name })
		o := Options{FS: x.fs, Dir: "/t-0", Topic: "t", Config: x.conf, RecoveryPoint: point, HighWatermark: 1 << 40, Now: func() time.Time { return time.UnixMilli(5000) }}
		if _, _, err := Open(o); !errors.Is(err, ErrNoDescriptor) {
			t.Errorf("%s: without a descriptor it opens: %v", suffix, err)
		}
		if _, err := x.fs.Stat(snapshot); errors.Is(err, fs.ErrNotExist) || len(before) == 0 {
			t.Errorf("%s: what vouches for the indexes is gone", suffix)
		}
		x.fs.Refuse(nil)
		l, r, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Scanned > 2*smallScan || r.Cut != nil || l.end != point+1 {
			t.Errorf("%s: %d bytes are read to %d: %+v", suffix, r.Scanned, l.end, r)
		}
		l.Abandon()
	}
}
