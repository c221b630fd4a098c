package log

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"millrace/storage/batch"
	"millrace/storage/disktest"
)

// After a crash every log has to be read, but a start may not need a descriptor for
// each of them.
func TestRecoveryKeepsNoFileOpen(t *testing.T) {
	fs, files := disktest.New(), NewFiles(2, 2)
	append1 := func(l *Log) {
		t.Helper()
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(7, nil, []byte("v"))
		b := u.Bytes()
		h, err := batch.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(b, h, 7); err != nil {
			t.Fatal(err)
		}
	}
	open := func(i int) *Log {
		t.Helper()
		l, _, err := Open(Options{FS: fs, Dir: fmt.Sprintf("d/t-%d", i), Topic: "t", Files: files})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	const n = 8
	for i := range n {
		l := open(i)
		append1(l)
		append1(l)
		l.Abandon()
	}
	var logs []*Log
	for i := range n {
		logs = append(logs, open(i))
	}
	held := 0
	for _, l := range logs {
		if l.last().log.pins.Load() >= 0 {
			held++
		}
	}
	if held > 2 {
		t.Errorf("%d files are open after a recovery of %d logs, at most 2 may be", held, n)
	}
	for _, l := range logs {
		append1(l)
		if at, ok, err := l.OffsetForTime(7, 3); err != nil || !ok || at.Offset != 0 {
			t.Errorf("looking up a time: %v, %v, %v", at, ok, err)
		}
		if l.View().LogEnd() != 3 {
			t.Errorf("the log ends at %d", l.View().LogEnd())
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A start forgets who wrote what was all deleted, as Kafka does: nothing of it could
// be read, so nothing is known of it. A producer of a record that is left stays, and
// those beside it that a snapshot or the same segment names.
func TestProducersOfDeletedRecordsAreForgotten(t *testing.T) {
	for _, c := range []struct {
		start batch.Offset
		clean bool
		want  int
	}{{0, true, 2}, {1, true, 2}, {2, true, 0}, {0, false, 2}, {1, false, 2}, {2, false, 0}} {
		fs := disktest.New()
		o := Options{FS: fs, Dir: "d/t-0", Topic: "t", Now: func() time.Time { return time.UnixMilli(1000) }}
		l, _, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		for id := range batch.ProducerID(2) {
			firstOfProducer(t, l, id)
		}
		l.SetHighWatermark(2)
		if err := l.SetLogStart(c.start); err != nil {
			t.Fatal(err)
		}
		o.LogStart, o.HighWatermark, o.Clean = c.start, 2, c.clean
		if !c.clean {
			l.Abandon()
		} else if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if l, _, err = Open(o); err != nil {
				t.Fatal(err)
			}
			if got := len(l.Producers()); got != c.want {
				t.Errorf("start %d, closed in order %v: %d producers are known, want %d", c.start, c.clean, got, c.want)
			}
			l.Abandon()
			o.Clean = false
		}
	}
}

// A recovery knows what Kafka's does: the producers that the snapshot at the base of its
// first segment names, unless all below that was deleted, and those who have written to
// what it reads. What a close in order has left beside is not asked.
func TestRecoveryForgetsWhoWroteBelowItsSegment(t *testing.T) {
	for _, c := range []struct {
		start batch.Offset // as the checkpoint says, which says nothing of a log that begins with a segment
		known []int        // producers, opening after opening
	}{
		{0, []int{2, 2, 2, 2}},
		{1, []int{2, 1, 1, 1}},
		{-1, []int{2, 1, 1, 1}}, // the first opening has removed the snapshot at the log start
	} {
		fs := disktest.New()
		o := Options{FS: fs, Dir: "d/t-0", Topic: "t", Now: func() time.Time { return time.UnixMilli(1000) }}
		l, _, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		for id := range batch.ProducerID(2) {
			firstOfProducer(t, l, id)
			l.SetHighWatermark(batch.Offset(id) + 1)
			if id == 0 {
				if err := l.SetLogStart(max(c.start, -c.start)); err != nil {
					t.Fatal(err)
				}
				if err := l.Roll(); err != nil {
					t.Fatal(err)
				}
				if c.start < 0 {
					if _, err := l.Retain(o.Now()); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		o.LogStart, o.HighWatermark, o.RecoveryPoint, o.Clean = max(c.start, 0), 2, 2, true
		for i, want := range c.known {
			if l, _, err = Open(o); err != nil {
				t.Fatal(err)
			}
			if got := len(l.Producers()); got != want {
				t.Errorf("start %d, opening %d: %d producers are known, want %d", c.start, i, got, want)
			}
			// The third is closed in order, and the fourth finds what that has left.
			if o.Clean = i == 2; o.Clean {
				err = l.Close()
			} else {
				l.Abandon()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A crash keeps no producer that an orderly stop would let go: one whose last
// record is older than producers are remembered. Its record stays.
func TestRecoveryForgetsOldProducers(t *testing.T) {
	const hour = int64(3600e3)
	now := int64(100 * 24 * hour)
	fs, files := disktest.New(), NewFiles(2, 2)
	open := func() *Log {
		t.Helper()
		l, _, err := Open(Options{FS: fs, Dir: "d/t-0", Topic: "t", Files: files, ProducerExpireMs: 3 * hour, Now: func() time.Time { return time.UnixMilli(now) }})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := open()
	for id, age := range []int64{2 * hour, 3 * hour, 25 * hour} {
		u := batch.NewBuilder(batch.BuilderOptions{Producer: true, ProducerID: batch.ProducerID(id)})
		u.Add(now-age, nil, []byte("v"))
		b := u.Bytes()
		h, err := batch.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(b, h, now); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(l.Producers()); got != 3 {
		t.Fatalf("%d producers before the crash, not 3", got)
	}
	l.Abandon()
	l = open()
	defer l.Abandon()
	if got := l.Producers(); len(got) != 1 || got[0].ProducerID != 0 {
		t.Errorf("after the crash there are %v, not producer 0 alone", got)
	}
	if end := l.End(); end != 3 {
		t.Errorf("the log ends at %d, not 3", end)
	}
}

// TestRecoveryTells: who runs a broker learns how far a long recovery has come, and how much the cut of a tail took away,
// what could still be read included.
func TestRecoveryTells(t *testing.T) {
	x := newLived(t)
	x.add(20)
	x.ok(x.log.Roll())
	x.add(5)
	at := x.log.active.size
	x.add(15)
	size := x.bytes / 40 // of a batch
	x.ok(x.log.Roll())
	x.add(20)
	x.ok(x.log.Roll())
	x.fs.Kill()
	name := x.o.Dir + "/" + fileName(20, suffixLog)
	b := x.fs.Bytes(name)
	b[at+80] ^= 1
	x.fs.Put(name, b)

	clock, step := time.UnixMilli(20_000), time.Duration(0)
	x.o.Now = func() time.Time { clock = clock.Add(step); return clock }
	for _, c := range []struct {
		step time.Duration
		cut  bool
		want []string
	}{
		{time.Nanosecond, true, []string{fmt.Sprintf("log was cut at the first bad batch: offset 25 position %d bytes %d readable_batches 34", at, 35*size)}},
		{6 * time.Second, false, []string{
			fmt.Sprintf("log is being recovered: segments_done 0 of 2 bytes_checked 0 of_bytes %d", 25*size),
			fmt.Sprintf("log is being recovered: segments_done 1 of 2 bytes_checked %d of_bytes %d", 20*size, 25*size),
		}},
	} {
		core, lines := observer.New(zap.InfoLevel)
		x.o.Logger, step = zap.New(core), c.step
		r, _ := x.open(false)
		if (r.Cut != nil) != c.cut || x.log.end != 25 {
			t.Fatalf("it ends at %d: %+v", x.log.end, r)
		}
		if c.cut && (r.Cut.Offset != 25 || r.Cut.Position != at || r.Cut.Bytes != 35*size || r.Cut.Batches != 34) {
			t.Errorf("%+v", *r.Cut)
		}
		var told []string
		for _, l := range lines.All() {
			text, fields := l.Message+":", l.ContextMap()
			if fields["log"] != x.o.Dir {
				t.Errorf("%q is of the log %v", l.Message, fields["log"])
			}
			for _, key := range []string{"segments_done", "of", "offset", "position", "bytes", "readable_batches", "bytes_checked", "of_bytes"} {
				if v, ok := fields[key]; ok {
					text += fmt.Sprint(" ", key, " ", v)
				}
			}
			told = append(told, text)
		}
		if got, want := strings.Join(told, "\n"), strings.Join(c.want, "\n"); got != want {
			t.Errorf("told:\n%s\nwant:\n%s", got, want)
		}
		x.fs.Kill()
	}
}

// TestIndexesHalfMade: what a start has made of missing indexes when the process is killed is not taken for them.
func TestIndexesHalfMade(t *testing.T) {
	for _, clean := range []bool{false, true} {
		for n := 1; ; n++ {
			x := newLived(t)
			x.add(20)
			x.ok(x.log.Roll())
			x.add(20)
			x.ok(x.log.Close())
			x.o.RecoveryPoint = x.log.RecoveryPoint()
			name := x.o.Dir + "/" + fileName(0, suffixTimeIndex)
			x.ok(x.fs.Remove(name))
			x.fs.StopAt(n)
			x.o.Clean = clean
			_, _, err := Open(x.o)
			if err == nil {
				x.fs.StopAt(0)
				if n < 5 {
					t.Fatalf("it took %d operations", n)
				}
				break
			}
			x.fs.Kill()
			x.open(false)
			if at, err := x.log.segs[0].maxTimestamp(); err != nil || at != 1019 {
				t.Errorf("clean %v, killed at operation %d: the largest time of the first segment is %d: %v", clean, n, at, err)
			}
			x.whole(40)
		}
	}
}

// TestForgottenProducersCostNoReading: a start that forgets producers leaves a log of which the next one reads no more than
// where it ends.
func TestForgottenProducersCostNoReading(t *testing.T) {
	x := newLived(t)
	x.add(20)
	x.log.SetHighWatermark(20)
	x.ok(x.log.SetLogStart(20))
	x.o.LogStart, x.o.HighWatermark = 20, 20
	for life := range 3 {
		x.ok(x.log.Close())
		x.o.RecoveryPoint = x.log.RecoveryPoint()
		if r, _ := x.open(true); r.Scanned > x.log.active.size || r.Scanned > smallScan {
			t.Errorf("life %d: %d bytes were read", life, r.Scanned)
		}
	}
}

// TestRecoveryTellsWithinASegment: a recovery that takes long is told of within one segment, too, and not more often than
// the clock allows.
func TestRecoveryTellsWithinASegment(t *testing.T) {
	x := newLived(t)
	for range 12 {
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(1000, nil, make([]byte, 1<<20))
		b := u.Bytes()
		h, err := batch.ParseHeader(b)
		x.ok(err)
		_, err = x.log.Append(b, h, 1000)
		x.ok(err)
	}
	size := x.log.active.size
	x.fs.Kill()
	clock, step := time.UnixMilli(20_000), time.Duration(0)
	x.o.Now = func() time.Time { clock = clock.Add(step); return clock }
	for _, c := range []struct {
		step  time.Duration
		lines int
	}{{time.Nanosecond, 0}, {tellProgress / 2, 6}, {tellProgress, 12}} {
		core, lines := observer.New(zap.InfoLevel)
		x.o.Logger, step = zap.New(core), c.step
		x.open(false)
		x.fs.Kill()
		checked := int64(0)
		all := lines.All()
		for _, l := range all {
			fields := l.ContextMap()
			n, _ := fields["bytes_checked"].(int64)
			if n < checked || n > size || fields["of_bytes"] != size || fields["segments_done"] != int64(0) {
				t.Errorf("%s: %v, after %d of %d bytes", l.Message, fields, checked, size)
			}
			checked = n
		}
		if n := len(all); n < c.lines || n > c.lines+2 || c.lines > 0 && checked < size/2 {
			t.Errorf("with %v between two looks at the clock there are %d lines, the last after %d of %d bytes", c.step, n, checked, size)
		}
	}
}

// firstOfProducer appends a producer's first batch, of one record.
func firstOfProducer(t *testing.T, l *Log, id batch.ProducerID) {
	t.Helper()
	if err := appendFirst(l, id); err != nil {
		t.Fatal(err)
	}
}

func appendFirst(l *Log, id batch.ProducerID) error {
	u := batch.NewBuilder(batch.BuilderOptions{Producer: id >= 0, ProducerID: id})
	u.Add(7, nil, []byte("v"))
	h, err := batch.ParseHeader(u.Bytes())
	if err == nil {
		_, err = l.Append(u.Bytes(), h, 7)
	}
	return err
}
