package storage

import (
	"fmt"
	"strings"
	"testing"

	"millrace/storage/batch"
	"millrace/storage/check"
	"millrace/storage/producer"
)

// without removes the second of four segments and some checkpoints. What is left looks as a cleaned log does.
func (x *handled) without(checkpoints ...string) {
	x.t.Helper()
	for _, suffix := range []string{".log", ".index", ".timeindex", ".snapshot"} {
		x.ok(x.fs.Remove(x.name(10, suffix)))
	}
	for _, name := range checkpoints {
		x.ok(x.fs.Remove("/data/" + name))
	}
}

// TestHoleWithoutRecoveryPoint: the checkpoint of recovery points is lost after a stop in order, and the process is killed
// soon after the next start. The start after that takes no hole for the end of the log.
func TestHoleWithoutRecoveryPoint(t *testing.T) {
	for what, do := range map[string]func(*handled){
		"lost":  func(x *handled) { x.without(recoveryPointFile) },
		"older": func(x *handled) { x.without(); x.fs.Put("/data/"+recoveryPointFile, []byte("0\n1\nt 0 5\n")) },
	} {
		t.Run(what, func(t *testing.T) {
			x := filled(t, true)
			do(x)
			x.open()
			l := x.log(Where{Directory: x.s.DirectoryID()})
			x.ok(l.AssignEpoch(3))
			appendTo(t, l, batch.BuilderOptions{}, producer.Rules{}, 1_700_000_001_000, nil, []byte("goes on"))
			x.fs.Kill()
			if r, err := check.Directory(x.fs, "/data", false); err != nil || !r.Sound() {
				t.Errorf("the checker says %v, %v", r.All(), err)
			}
			x.opensWith(span(3, 10, 20, 41))
		})
	}
}

// opensWith is that a start reads some offsets, and no others.
func (x *handled) opensWith(offsets []batch.Offset) {
	x.t.Helper()
	x.open()
	want := fmt.Sprint(offsets)
	if got := fmt.Sprint(x.reads(x.log(Where{Directory: x.s.DirectoryID()}))); got != want {
		x.t.Errorf("read is %s, want %s; it said %v", got, want, x.logs.All())
	}
}

// TestCleanedWithoutRecoveryPoint: the checkpoint is lost after a kill. What was cleaned had been flushed, and its holes
// are no end of the log.
func TestCleanedWithoutRecoveryPoint(t *testing.T) {
	x := filled(t, false)
	x.without(recoveryPointFile)
	x.fs.Put("/data/"+cleanerFile, []byte("0\n1\nt 0 20\n"))
	if r, err := check.Directory(x.fs, "/data", false); err != nil || !r.Sound() {
		t.Errorf("the checker says %v, %v", r.All(), err)
	}
	x.opensWith(span(3, 10, 20, 40))
}

// TestLogStartBehindTheEnd: a log that was closed in order where it ends is not emptied because the checkpoint of log
// starts says something else. After a kill it is, as its end may have been lost, and that is told.
func TestLogStartBehindTheEnd(t *testing.T) {
	for _, clean := range []bool{true, false} {
		x := filled(t, clean)
		x.fs.Put("/data/"+logStartFile, []byte("0\n1\nt 0 900\n"))
		found := false
		r, err := check.Directory(x.fs, "/data", false)
		x.ok(err)
		for _, f := range r.All() {
			found = found || strings.Contains(f.String(), "says that t-0 begins at 900, it ends at 40")
		}
		if !found || r.Sound() == clean {
			t.Errorf("the checker says %v", r.All())
		}
		x.open()
		l := x.log(Where{Directory: x.s.DirectoryID()})
		want, end := span(0, 40), batch.Offset(40)
		if !clean {
			want, end = nil, 900
		}
		if got := x.reads(l); fmt.Sprint(got) != fmt.Sprint(want) || l.View().LogEnd() != end {
			t.Errorf("clean %t: of a log that ends at %d is read %v, want %v of one that ends at %d", clean, l.View().LogEnd(), got, want, end)
		}
		if n := x.logs.FilterMessage("log ends below its log start").Len(); n != 1 {
			t.Errorf("clean %t: that is said %d times: %v", clean, n, x.logs.All())
		}
		x.ok(x.s.Close(true))
		x.open()
		l = x.log(Where{Directory: x.s.DirectoryID()})
		if got := x.reads(l); fmt.Sprint(got) != fmt.Sprint(want) || l.View().LogEnd() != end || x.logs.Len() > 0 {
			t.Errorf("clean %t: the next start reads %v, ends at %d and says %v", clean, got, l.View().LogEnd(), x.logs.All())
		}
		x.ok(x.s.Close(true))
	}
}
