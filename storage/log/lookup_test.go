package log

import (
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disktest"
)

// written opens a log and writes one record for each timestamp.
func written(t *testing.T, conf Config, set func(l *Log), timestamps ...int64) *Log {
	t.Helper()
	l, _, err := Open(Options{FS: disktest.New(), Dir: "/t-0", Topic: "t", Config: conf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if set != nil {
		set(l)
	}
	if err := l.AssignEpoch(0); err != nil {
		t.Fatal(err)
	}
	for _, ts := range timestamps {
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(ts, []byte("key"), []byte("value"))
		b := u.Bytes()
		h, err := batch.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(b, h, time.Now().UnixMilli()); err != nil {
			t.Fatal(err)
		}
	}
	l.SetHighWatermark(batch.Offset(len(timestamps)))
	return l
}

func bases(l *Log) (list []batch.Offset) {
	for _, s := range l.View().segs {
		list = append(list, s.base)
	}
	return list
}

// TestTimeBelowTheStart: a segment whose newest records lie below the log start hides those of later segments from a look-up by
// time, as long as it is there.
func TestTimeBelowTheStart(t *testing.T) {
	conf := DefaultConfig()
	conf.SegmentBytes, conf.Delete, conf.RetentionMs = 160, true, -1
	l := written(t, conf, nil, 1000, 50, 1000, 60)
	if got := bases(l); len(got) != 2 || got[1] != 2 {
		t.Fatalf("segments at %v: the test wants two", got)
	}
	find := func(ts int64) batch.Offset {
		t.Helper()
		f, ok, err := l.OffsetForTime(ts, 4)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return -1
		}
		return f.Offset
	}
	for _, c := range []struct{ start, high, low batch.Offset }{{0, 0, 0}, {1, -1, 1}, {2, -1, -1}} {
		if c.start > 0 {
			if err := l.SetLogStart(c.start); err != nil {
				t.Fatal(err)
			}
		}
		if high, low := find(100), find(50); high != c.high || low != c.low {
			t.Errorf("log start %d: times 100 and 50 are at %d and %d, want %d and %d", c.start, high, low, c.high, c.low)
		}
	}
	if _, err := l.Retain(time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := find(100); got != 2 {
		t.Errorf("without the old segment time 100 is at %d", got)
	}
}

// TestIndexRoomOfTheFirstSegment: segment.index.bytes counts from the next segment on, also where the log has no files yet.
func TestIndexRoomOfTheFirstSegment(t *testing.T) {
	conf := DefaultConfig()
	conf.IndexIntervalBytes = 0
	l := written(t, conf, func(l *Log) {
		conf.IndexBytes = 24
		l.SetConfig(conf)
	}, 1, 2, 3, 4)
	if got := bases(l); len(got) != 1 {
		t.Errorf("the first segment's indexes were full: segments at %v", got)
	}
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(9, nil, []byte("value"))
		b := u.Bytes()
		h, _ := batch.ParseHeader(b)
		if _, err := l.Append(b, h, 9); err != nil {
			t.Fatal(err)
		}
	}
	if got := bases(l); len(got) < 3 {
		t.Errorf("the next segment's indexes have the old size: segments at %v", got)
	}
}

// TestTimeWithoutItsIndex: where a time index is gone the segment itself says.
func TestTimeWithoutItsIndex(t *testing.T) {
	x := newLived(t)
	x.add(30)
	x.ok(x.log.Roll())
	x.add(10)
	want, ok, err := x.log.OffsetForTime(0, x.log.End())
	x.ok(err)
	if !ok {
		t.Fatal("none of the records is found")
	}
	for _, fully := range []bool{false, true} {
		x.closed()
		if fully {
			x.ok(x.fs.Remove(x.o.Dir + "/" + fileName(0, suffixIndex)))
		}
		x.ok(x.fs.Remove(x.o.Dir + "/" + fileName(0, suffixTimeIndex)))
		got, ok, err := x.log.OffsetForTime(want.Timestamp, x.log.End())
		if err != nil || !ok || got.Offset != want.Offset {
			t.Errorf("without the offset index %v: %+v, %v, %v", fully, got, ok, err)
		}
	}
}
