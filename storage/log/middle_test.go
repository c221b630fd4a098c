package log

import (
	"math/rand/v2"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/check"
	"millrace/storage/disktest"
)

// lived is a log on a test disk, and what its checkpoint says.
type lived struct {
	t     *testing.T
	fs    *disktest.FS
	o     Options
	log   *Log
	bytes int64 // of the segments, in what the present life has appended
}

func newLived(t *testing.T) *lived {
	c := DefaultConfig()
	c.IndexIntervalBytes = 500
	x := &lived{t: t, fs: disktest.New(), o: Options{Dir: "/d/t-0", Now: func() time.Time { return time.UnixMilli(10_000) }, Topic: "t", TopicID: [16]byte{1}, Config: c, RecoveryPoint: -1, LogStart: -1, HighWatermark: -1}}
	x.o.FS = x.fs
	x.fs.Put("/d/x", nil)
	x.open(false)
	return x
}

func (x *lived) ok(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *lived) open(clean bool) (Report, disktest.Counts) {
	x.t.Helper()
	x.o.Clean = clean
	before := x.fs.Counts()
	l, r, err := Open(x.o)
	x.ok(err)
	x.log, x.bytes = l, 0
	return r, x.fs.Counts().Since(before)
}

// add appends batches of one producer, each with a later time.
func (x *lived) add(n int) {
	x.t.Helper()
	for range n {
		u := batch.NewBuilder(batch.BuilderOptions{Producer: true, ProducerID: 7, BaseSequence: int32(x.log.end)})
		u.Add(int64(1000+x.log.end), nil, make([]byte, 100))
		b := u.Bytes()
		h, err := batch.ParseHeader(b)
		x.ok(err)
		_, err = x.log.Append(b, h, 1000)
		x.ok(err)
		x.bytes += int64(len(b))
	}
}

// closed closes the log in order and opens it again.
func (x *lived) closed() {
	x.t.Helper()
	x.ok(x.log.Close())
	x.o.RecoveryPoint = x.log.RecoveryPoint()
	x.open(true)
}

// killed ends the process and opens the log again.
func (x *lived) killed() (Report, disktest.Counts) {
	x.t.Helper()
	x.o.RecoveryPoint = x.log.RecoveryPoint()
	x.fs.Kill()
	r, c := x.open(false)
	if r.Cut != nil || r.Lost != 0 || len(r.Damage)+len(r.Rebuilt)+len(r.Dropped) != 0 {
		x.t.Fatalf("%+v", r)
	}
	return r, c
}

// whole compares the log with what was appended to it.
func (x *lived) whole(end batch.Offset) {
	x.t.Helper()
	l := x.log
	if l.end != end {
		x.t.Fatalf("the log ends at %d, not at %d", l.end, end)
	}
	if e := l.Producers(); len(e) != 1 || e[0].LastSequence != int32(end)-1 {
		x.t.Fatalf("producers: %+v", e)
	}
	for o := batch.Offset(0); o < end; o += 7 {
		s, err := l.View().Read(o, end, 1, true)
		x.ok(err)
		b, err := sectionBytes(s)
		x.ok(err)
		if h, err := batch.ParseHeader(b); err != nil || h.BaseOffset != o {
			x.t.Fatalf("%d is read at %d: %v", h.BaseOffset, o, err)
		}
		if f, ok, err := l.OffsetForTime(int64(1000+o), end); err != nil || !ok || f.Offset != o {
			x.t.Fatalf("time %d is at %+v: %v", 1000+o, f, err)
		}
	}
	if f, ok, err := l.OffsetOfMaxTimestamp(); err != nil || !ok || f.Offset != end-1 {
		x.t.Fatalf("the largest timestamp is at %+v: %v", f, err)
	}
	p, err := check.CheckPartition(x.fs, x.o.Dir, check.Options{RecoveryPoint: l.RecoveryPoint(), LogStart: -1, HighWatermark: -1})
	x.ok(err)
	for _, f := range p.Findings {
		if !f.Mended {
			x.t.Error(f)
		}
	}
}

// TestRecoveryBeginsWhereTheLogWasClosed: of a segment that was begun before the last stop in order, what lies below is not
// read again.
func TestRecoveryBeginsWhereTheLogWasClosed(t *testing.T) {
	x := newLived(t)
	x.add(3000)
	x.closed()
	// Nothing was written since: nothing is read, and nothing is written.
	ops := x.fs.Ops()
	for range 2 {
		r, c := x.killed()
		if c.Changes != 0 || x.fs.Ops() != ops || r.Scanned > 2*smallScan || c.Bytes > 4*smallScan {
			t.Fatalf("a log that was not written to costs %+v: %+v", c, r)
		}
		x.whole(3000)
	}
	x.add(100)
	for range 2 {
		tail := x.bytes
		if tail == 0 {
			tail = 100 * 200
		}
		r, c := x.killed()
		if r.Scanned > tail+2*smallScan || c.Bytes > tail+8*smallScan {
			t.Fatalf("%d bytes behind the recovery point cost %+v: %+v", tail, c, r)
		}
		x.whole(3100)
	}
	// A life later the same, over a roll.
	x.add(20)
	x.ok(x.log.Roll())
	x.add(20)
	tail := int64(140 * 200)
	if r, _ := x.killed(); r.Scanned > tail+4*smallScan {
		t.Fatalf("%d bytes are read", r.Scanned)
	}
	x.whole(3140)
	x.closed()
	x.whole(3140)
}

// TestUnclosedSegmentIsReadWhole shows that the counting of TestRecoveryBeginsWhereTheLogWasClosed would notice: with the
// recovery point in the middle and no word of a close, the indexes are of unknown durability.
func TestUnclosedSegmentIsReadWhole(t *testing.T) {
	x := newLived(t)
	x.add(3000)
	x.ok(x.log.Flush())
	x.add(1)
	if r, _ := x.killed(); r.Scanned < 3000*100 {
		t.Fatalf("%d bytes are read", r.Scanned)
	}
	x.whole(3001)
	// Indexes that were made anew without a sync are no longer those of a close.
	x.closed()
	x.fs.Put("/d/t-0/00000000000000000000.index", []byte("12345678abc"))
	x.fs.Kill()
	x.open(true)
	x.add(1)
	x.o.RecoveryPoint = 3001
	x.fs.Kill()
	if r, _ := x.open(false); r.Scanned < 3000*100 {
		t.Fatalf("%d bytes are read", r.Scanned)
	}
	x.whole(3002)
}

// TestSegmentThatEndsAtTheRecoveryPoint is not read: where the one after it begins, all of it is durable.
func TestSegmentThatEndsAtTheRecoveryPoint(t *testing.T) {
	x := newLived(t)
	x.add(3000)
	x.ok(x.log.Flush()) // while it is written to
	before := x.fs.Counts()
	x.ok(x.log.Roll())
	if c := x.fs.Counts().Since(before); c.Syncs < 2 {
		t.Errorf("the indexes of a segment below the recovery point are not synced: %+v", c)
	}
	if x.log.RecoveryPoint() != 3000 {
		t.Fatalf("the recovery point is %d", x.log.RecoveryPoint())
	}
	r, c := x.killed()
	if r.Scanned != 0 || c.Bytes > 1000 {
		t.Fatalf("%+v: %+v", c, r)
	}
	x.whole(3000)
	// The other way round: rolled first, and flushed then.
	x.add(10)
	x.ok(x.log.Roll())
	if x.log.RecoveryPoint() != 3000 || !x.log.FlushRolledDue() {
		t.Fatalf("the recovery point is %d", x.log.RecoveryPoint())
	}
	x.ok(x.log.Flush())
	if x.log.RecoveryPoint() != 3010 || x.log.FlushRolledDue() {
		t.Fatalf("the recovery point is %d", x.log.RecoveryPoint())
	}
	if r, _ := x.killed(); r.Scanned != 0 {
		t.Fatalf("%+v", r)
	}
	x.whole(3010)
}

// TestRollBesideFlush: a segment that was flushed while it was written to, and rolled before the flush came to its end,
// does not count as durable with its indexes.
func TestRollBesideFlush(t *testing.T) {
	x := newLived(t)
	x.add(10)
	v := x.log.View()
	x.ok(x.log.Roll())
	x.log.flushing.Lock()
	x.ok(x.log.flushView(v, flushWritten))
	x.log.flushing.Unlock()
	if x.log.FlushedOffset() != 10 || x.log.RecoveryPoint() != 0 || !x.log.FlushRolledDue() {
		t.Fatalf("flushed to %d, the recovery point is %d", x.log.FlushedOffset(), x.log.RecoveryPoint())
	}
	x.ok(x.log.Flush())
	if x.log.RecoveryPoint() != 10 {
		t.Fatalf("the recovery point is %d", x.log.RecoveryPoint())
	}
}

// TestRollsBesideFlush: the same where a second segment was begun meanwhile.
func TestRollsBesideFlush(t *testing.T) {
	x := newLived(t)
	x.add(10)
	v := x.log.View()
	x.ok(x.log.Roll())
	x.add(10)
	x.ok(x.log.Roll())
	x.log.flushing.Lock()
	x.ok(x.log.flushView(v, flushWritten))
	x.log.flushing.Unlock()
	if x.log.FlushedOffset() != 10 || x.log.RecoveryPoint() != 0 {
		t.Fatalf("flushed to %d, the recovery point is %d", x.log.FlushedOffset(), x.log.RecoveryPoint())
	}
	x.ok(x.log.Flush())
	if x.log.RecoveryPoint() != 20 || x.log.FlushRolledDue() {
		t.Fatalf("the recovery point is %d", x.log.RecoveryPoint())
	}
}

// TestPowerFailsInAClose: a snapshot at the recovery point says that the indexes below are durable, so that they have to be
// before it is there; nothing else knows of aborted transactions.
func TestPowerFailsInAClose(t *testing.T) {
	for stop := 1; ; stop++ {
		stopped := false
		for seed := range uint64(20) {
			x := newTxnLog(t)
			first := x.data(1)
			x.ok(x.log.Flush())
			x.marker(1, batch.Abort)
			x.data(2)
			x.marker(2, batch.Commit)
			end := x.log.end
			x.ok(x.log.Flush())
			x.fs.StopAt(stop)
			err := x.log.Close()
			if stopped = x.fs.Stopped(); !stopped {
				x.ok(err)
			}
			x.fs.Crash(rand.New(rand.NewPCG(seed, uint64(stop))))
			l, _, err := Open(Options{FS: x.fs, Dir: "/t-0", Topic: "t", Config: x.conf, RecoveryPoint: end, HighWatermark: end})
			x.ok(err)
			x.log = l
			if x.log.end != end {
				t.Fatalf("stop %d, seed %d: the log ends at %d, not at %d", stop, seed, x.log.end, end)
			}
			got, err := l.View().Aborted(0, end)
			x.ok(err)
			if len(got) != 1 || got[0].FirstOffset != first {
				t.Fatalf("stop %d, seed %d: aborted are %v", stop, seed, got)
			}
		}
		if !stopped {
			return
		}
	}
}

// TestSnapshotOfTheRecoveryPointIsSpoilt: the segment is read from its start then, on what was there at its start: an older
// close's snapshot knows already what is read again.
func TestSnapshotOfTheRecoveryPointIsSpoilt(t *testing.T) {
	x := newTxnLog(t)
	first := x.data(1)
	x.marker(1, batch.Abort)
	second := x.data(1)
	x.ok(x.log.Close())
	older := x.fs.Bytes("/t-0/00000000000000000003.snapshot")
	x.open(true, 3)
	x.marker(1, batch.Abort)
	x.ok(x.log.Close())
	x.fs.Put("/t-0/00000000000000000003.snapshot", older)
	x.fs.Put("/t-0/00000000000000000004.snapshot", []byte("spoilt"))
	l, r, err := Open(Options{FS: x.fs, Dir: "/t-0", Topic: "t", Config: x.conf, RecoveryPoint: 4, HighWatermark: 4})
	x.ok(err)
	if len(r.Dropped) != 1 {
		t.Fatalf("%+v", r)
	}
	x.log = l
	x.aborted(0, 4, AbortedTxn{ProducerID: 1, FirstOffset: first}, AbortedTxn{ProducerID: 1, FirstOffset: second})
}

// TestTransactionIndexIsThere: the file an aborted transaction makes is one whose name a flush makes durable.
func TestTransactionIndexIsThere(t *testing.T) {
	x := newTxnLog(t)
	x.data(1)
	x.ok(x.log.Flush())
	x.marker(1, batch.Abort)
	x.ok(x.log.Flush())
	x.fs.Crash(nil)
	if _, err := x.fs.Stat("/t-0/00000000000000000000.txnindex"); err != nil {
		t.Error(err)
	}
}

// TestNamesOfAnEarlierLife: a process that ends leaves names of which nobody knows whether they are durable. Whatever is
// flushed later is to be found after the power has failed.
func TestNamesOfAnEarlierLife(t *testing.T) {
	for _, rolls := range []bool{false, true} {
		x := newLived(t)
		if rolls {
			x.add(1)
			x.ok(x.log.Flush())
			x.ok(x.log.Roll())
		}
		x.add(1)
		x.fs.Kill()
		x.open(false)
		end := x.log.end
		x.ok(x.log.Flush())
		x.o.RecoveryPoint = x.log.RecoveryPoint()
		x.fs.Crash(nil)
		if r, _ := x.open(false); x.log.end != end || r.Lost != 0 {
			t.Errorf("rolls %v: the log ends at %d, it was flushed to %d", rolls, x.log.end, end)
		}
	}
}
