package log

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/storage/batch"
)

// full is a laundry of three closed segments that do not fit into one; the first two were cleaned before.
func full(t *testing.T) *laundry {
	x := newLaundry(t, Config{SegmentBytes: 150})
	none := batch.BuilderOptions{}
	x.put(none, "a=1")
	x.put(none, "b=1")
	x.roll()
	x.put(none, "c=1")
	x.put(none, "d=1")
	x.roll()
	x.put(none, "z=1")
	x.clean()
	x.put(none, "a=2")
	x.roll()
	x.put(none, "z=2")
	if v := x.log.View(); v.Segments() != 4 {
		t.Fatalf("%d segments", v.Segments())
	}
	return x
}

// TestCleanTellsOfDamageInLaterGroups damages what was cleaned before, in a segment that is reached when another one has
// been exchanged already: that is damage, and no change of the log under way.
func TestCleanTellsOfDamageInLaterGroups(t *testing.T) {
	x := full(t)
	path := worldDir + "/" + fileName(2, suffixLog)
	b := x.fs.Bytes(path)
	b[len(b)-1] ^= 1
	x.fs.Put(path, b)
	_, err := x.try()
	var damage *DamagedError
	if !errors.As(err, &damage) || damage.Damage.Offset != 3 {
		t.Fatalf("a bad batch gave %v", err)
	}
}

// TestOvertakenWaits asks whether a cleaning was overtaken while a truncation holds the lock: its view still names the
// segment that it cuts.
func TestOvertakenWaits(t *testing.T) {
	x := full(t)
	c := &cleaner{l: x.log, segs: x.log.segs[:2], cuts: x.log.cuts}
	c.o.Exclusive = func(f func() error) error { return f() }
	if c.overtaken() {
		t.Error("overtaken by nothing")
	}
	c.o.Exclusive = func(f func() error) error { x.log.cuts++; return f() }
	if !c.overtaken() {
		t.Error("a truncation that ends meanwhile was not noticed")
	}
	c.o.Exclusive = func(func() error) error { return ErrClosed }
	if !c.overtaken() {
		t.Error("a log that is gone was not overtaken")
	}
}

// TestCleaningEndsWithCompaction takes compact out of the cleanup policy while a cleaning is under way: nothing more is
// removed (Kafka aborts the cleaning).
func TestCleaningEndsWithCompaction(t *testing.T) {
	x := full(t)
	before := x.lines()
	r, err := x.log.Cleanable(x.clock)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.log.Flush(); err != nil {
		t.Fatal(err)
	}
	n := 0
	_, err = x.log.Clean(CleanOptions{
		Range: r, Now: x.clock, Keys: x.keys, Buffer: 256, Exclusive: func(f func() error) error { return f() },
		Throttle: func(<-chan struct{}, int) error {
			n++
			c := x.log.Config()
			c.Compact = false
			x.log.SetConfig(c)
			return nil
		},
	})
	if !errors.Is(err, ErrOvertaken) || n != 1 {
		t.Errorf("the cleaning went on, %d times, to %v", n, err)
	}
	x.is(before)
}

// TestDeletionDoesNotWaitForTheThrottle deletes a log whose cleaning waits for its rate.
func TestDeletionDoesNotWaitForTheThrottle(t *testing.T) {
	x := full(t)
	r, err := x.log.Cleanable(x.clock)
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{})
	ended := make(chan error)
	go func() {
		_, err := x.log.Clean(CleanOptions{
			Range: r, Now: x.clock, Keys: x.keys, Buffer: 256, Exclusive: func(f func() error) error { return f() },
			Throttle: func(stop <-chan struct{}, _ int) error {
				close(waits)
				<-stop // or the test hangs
				return nil
			},
		})
		ended <- err
	}()
	<-waits
	done := make(chan error)
	go func() { done <- x.log.MarkDeleted("/data/gone") }()
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("the cleaning ended with %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestRaiseAsksWhatIsFlushed truncates between a cleaning's flush and its storing the recovery point.
func TestRaiseAsksWhatIsFlushed(t *testing.T) {
	x := full(t)
	asked := false
	x.log.raise = func(to batch.Offset, flushed func() batch.Offset) error {
		asked = true
		if flushed() < to {
			t.Errorf("%d are flushed, %d are to be", flushed(), to)
		}
		if err := x.log.Truncate(2); err != nil {
			t.Error(err)
		}
		if flushed() >= to {
			t.Errorf("%d are flushed behind a truncation, no less than %d", flushed(), to)
		}
		return ErrOvertaken
	}
	if _, err := x.try(); !errors.Is(err, ErrOvertaken) || !asked {
		t.Errorf("%v, asked %v", err, asked)
	}
}

// TestTruncationBelowCleaned cuts a log whose checkpoints say that more was cleaned than flushed, as those that Apache
// Kafka writes may.
func TestTruncationBelowCleaned(t *testing.T) {
	x := full(t)
	x.log.setCleaned(5)
	x.log.flushed.Store(2)
	lowered := batch.NoOffset
	x.log.lower = func(o batch.Offset) error { lowered = o; return nil }
	if err := x.log.Truncate(3); err != nil {
		t.Fatal(err)
	}
	if c := x.log.CleanedTo(); c != 3 || lowered != 3 || x.log.FlushedOffset() != 2 {
		t.Errorf("cleaned to %d, lowered to %d, flushed to %d", c, lowered, x.log.FlushedOffset())
	}
}

// TestHolesOfAnotherBroker opens, after a crash, a log whose cleaning left a hole behind the recovery point that is known.
func TestHolesOfAnotherBroker(t *testing.T) {
	for _, holes := range []bool{false, true} {
		x := full(t)
		none := batch.BuilderOptions{}
		x.put(none, "b=2", "d=2")
		x.roll()
		x.put(none, "z=3")
		x.clean()
		if err := x.log.Flush(); err != nil {
			t.Fatal(err)
		}
		before := dump(t, x.log.View())
		end := x.log.View().LogEnd()
		x.log.Abandon()
		x.fs.Crash(nil)
		l, r, err := Open(Options{FS: x.fs, Dir: worldDir, Topic: "t", RecoveryPoint: 0, HighWatermark: end, Config: x.log.Config(), Holes: holes, Now: func() time.Time { return time.UnixMilli(x.clock) }})
		if err != nil {
			t.Fatal(err)
		}
		if whole := slices.Equal(dump(t, l.View()), before) && r.Cut == nil; whole != holes {
			t.Errorf("holes %v: %v of %v, cut %+v", holes, dump(t, l.View()), before, r.Cut)
		}
	}
}

// TestReadersWaitForASlowExchange lets an exchange take two seconds, as a busy disk may.
func TestReadersWaitForASlowExchange(t *testing.T) {
	x := full(t)
	synctest.Test(t, func(t *testing.T) {
		v := x.log.View()
		x.log.cutting.Store(true)
		go func() {
			time.Sleep(2 * time.Second)
			x.log.publish()
			x.log.cutting.Store(false)
		}()
		if _, err := again(v, func(now *View) (int, error) {
			if now == v {
				return 0, errRetired
			}
			return 1, nil
		}); err != nil {
			t.Error(err)
		}
		// One that does not end is told of.
		v = x.log.View()
		x.log.cutting.Store(true)
		if _, err := again(v, func(*View) (int, error) { return 0, errRetired }); !errors.Is(err, errRetired) {
			t.Error(err)
		}
		x.log.cutting.Store(false)
	})
}

// TestCleanedSegmentsKeepTheirAge: a cleaned segment is as old as the newest of those it was made of, in its indexes too:
// where records have no timestamp retention goes by it.
func TestCleanedSegmentsKeepTheirAge(t *testing.T) {
	x := newLaundry(t, Config{})
	for i := range 3 {
		x.put(batch.BuilderOptions{}, "a=1")
		x.roll()
		old := time.UnixMilli(int64(10_000 * (i + 1)))
		for _, suffix := range []string{suffixLog, suffixIndex, suffixTimeIndex} {
			if err := x.fs.SetModified(worldDir+"/"+fileName(batch.Offset(i), suffix), old); err != nil {
				t.Fatal(err)
			}
		}
	}
	if out := x.clean(); out.Segments != 3 || out.Into != 1 {
		t.Fatalf("%+v", out)
	}
	for _, suffix := range []string{suffixLog, suffixIndex, suffixTimeIndex} {
		info, err := x.fs.Stat(worldDir + "/" + fileName(0, suffix))
		if err != nil || info.Modified.UnixMilli() != 30_000 {
			t.Errorf("%s was changed at %d: %v", suffix, info.Modified.UnixMilli(), err)
		}
	}
}

// TestCleanSplitsWhatGrows: a group of which more stays than one segment can hold becomes two, and a segment of which that is
// true by itself stays as it is, with the transactions in it counted all the same.
func TestCleanSplitsWhatGrows(t *testing.T) {
	grow := func(longest int64) (*laundry, Cleaned) {
		x := newLaundry(t, Config{})
		txn := func(seq int32) batch.BuilderOptions {
			return batch.BuilderOptions{Producer: true, ProducerID: 9, BaseSequence: seq, Transactional: true}
		}
		x.put(batch.BuilderOptions{}, "a=1", "b=1")
		x.roll()
		x.put(txn(0), "t=1")
		x.put(batch.BuilderOptions{}, "a=2")
		x.roll()
		x.put(txn(1), "u=1", "v=1")
		x.end(9, 0, batch.Abort)
		x.roll()
		x.put(batch.BuilderOptions{}, "c=1")
		x.roll()
		if err := x.log.Flush(); err != nil {
			t.Fatal(err)
		}
		r, err := x.log.Cleanable(x.clock)
		if err != nil {
			t.Fatal(err)
		}
		out, err := x.log.Clean(CleanOptions{Range: r, Now: x.clock, Keys: x.keys, Buffer: 256, Exclusive: func(f func() error) error { return f() }, longest: longest})
		if err != nil {
			t.Fatal(err)
		}
		return x, out
	}
	x, out := grow(0)
	want := x.lines()
	if out.Into != 1 || out.Segments != 4 {
		t.Fatalf("%+v", out)
	}
	x, split := grow(260)
	if x.is(want); split.Into < 2 || split.Segments != 4 || split.Kept != out.Kept || split.To != out.To {
		t.Fatalf("%+v, and %+v when they become one", split, out)
	}
	x, left := grow(1) // nothing but what is empty fits
	if left.Into != 4 || left.To != out.To || x.log.CleanedTo() != out.To {
		t.Fatalf("%+v", left)
	}
	x.is("[0:a=1 1:b=1] [2:t=1] [3:a=2] [4:u=1 5:v=1] [6:abort] [7:c=1]")
	if list, err := x.log.View().Aborted(0, x.log.end); err != nil || len(list) != 1 {
		t.Fatalf("aborted: %v, %v", list, err)
	}
	names, err := x.fs.ReadDir(worldDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.Contains(n.Name, suffixCleaned) || strings.Contains(n.Name, suffixSwap) {
			t.Errorf("%s is left", n.Name)
		}
	}
}

// TestDeletedNameIsGivenAgain: of two files that wait to be removed under one name the second waits its own time.
func TestDeletedNameIsGivenAgain(t *testing.T) {
	x := newLaundry(t, Config{FileDeleteDelayMs: 1000})
	there := func(want bool) {
		t.Helper()
		if err := x.log.RemoveDeleted(time.UnixMilli(x.clock)); err != nil {
			t.Fatal(err)
		}
		if _, err := x.fs.Stat(worldDir + "/" + fileName(0, suffixLog) + suffixDeleted); (err == nil) != want {
			t.Fatalf("at %d the deleted segment is there: %v", x.clock, err == nil)
		}
	}
	for range 2 {
		x.put(batch.BuilderOptions{}, "a=1")
		x.roll()
		x.put(batch.BuilderOptions{}, "b=1")
		x.clean()
		x.clock += 600
		there(true)
	}
	x.clock += 399 // 1599 after the first, 999 after the second
	there(true)
	x.clock++
	there(false)
	if len(x.log.deleted) != 0 {
		t.Errorf("%d names wait", len(x.log.deleted))
	}
}

// A file system that takes no times costs a cleaned segment its age, and nothing else.
func TestAgeThatCannotBeKept(t *testing.T) {
	x := newLaundry(t, Config{})
	for range 3 {
		x.put(batch.BuilderOptions{}, "a=1")
		x.roll()
	}
	asked := false
	x.fs.Refuse(func(op, name string) error {
		if op == "setmodified" {
			asked = true
			return errors.New("not here")
		}
		return nil
	})
	if out := x.clean(); out.Segments != 3 || out.Into != 1 {
		t.Fatalf("%+v", out)
	}
	if !asked {
		t.Error("no age was set")
	}
	if err := x.log.directory.Offline(); err != nil {
		t.Errorf("the directory was given up: %v", err)
	}
}
