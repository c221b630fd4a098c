package log

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disktest"
)

// Clocks are wrong at times: a producer's, which then sends a record of the year 2099 (message.timestamp.after.max.ms lets
// it pass where it was raised), and the broker's own, which is set back. What Kafka makes of it is expected here; of the
// flush that is due by time more is promised (see FlushDue).

// watched is a log whose records have the times they are given.
type watched struct {
	t   *testing.T
	o   Options
	log *Log
	now int64
}

const hour = int64(3600_000)

func newWatched(t *testing.T, c Config) *watched {
	x := &watched{t: t, now: 1_700_000_000_000}
	fs := disktest.New()
	fs.Put("/data/x", nil)
	x.o = Options{FS: fs, Dir: "/data/t-0", Topic: "t", Config: c, Now: func() time.Time { return time.UnixMilli(x.now) }, RecoveryPoint: -1, LogStart: -1, HighWatermark: -1}
	x.open()
	return x
}

func (x *watched) open() {
	x.t.Helper()
	l, _, err := Open(x.o)
	if err != nil {
		x.t.Fatal(err)
	}
	x.log = l
}

// put appends a batch of one record for each time.
func (x *watched) put(times ...int64) {
	x.t.Helper()
	for _, ts := range times {
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(ts, nil, []byte("value"))
		h, err := batch.ParseHeader(u.Bytes())
		if err != nil {
			x.t.Fatal(err)
		}
		if _, err := x.log.Append(u.Bytes(), h, x.now); err != nil {
			x.t.Fatal(err)
		}
	}
	x.log.SetHighWatermark(x.log.End())
}

// segments wants the log to have segments that begin at these offsets.
func (x *watched) segments(when string, want ...batch.Offset) {
	x.t.Helper()
	var got []batch.Offset
	for _, s := range x.log.View().segs {
		got = append(got, s.base)
	}
	if !slices.Equal(got, want) {
		x.t.Errorf("%s: the segments begin at %v, want %v", when, got, want)
	}
}

func (x *watched) retain() {
	x.t.Helper()
	if _, err := x.log.Retain(time.UnixMilli(x.now)); err != nil {
		x.t.Fatal(err)
	}
}

func TestRecordOfTheFarFuture(t *testing.T) {
	c := DefaultConfig()
	c.SegmentMs, c.RetentionMs = hour, 24*hour
	x := newWatched(t, c)
	begun := x.now
	x.put(begun, begun+1)
	x.put(farFuture)
	x.segments("it is later than the first record by more than segment.ms", 0, 2)
	x.now += 48 * hour
	x.put(x.now, x.now)
	x.segments("what is older than the first record of a segment never makes it too old", 0, 2)

	// A look-up goes to the first segment that has a record as young, and in it to the first that is.
	looks := func(when string) {
		t.Helper()
		for _, q := range []struct {
			ts   int64
			want batch.Offset // -1: none
		}{{begun, 0}, {begun + 1, 1}, {begun + 2, 2}, {x.now, 2}, {farFuture, 2}, {farFuture + 1, -1}} {
			f, ok, err := x.log.OffsetForTime(q.ts, x.log.End())
			if err != nil || ok != (q.want >= 0) || ok && f.Offset != q.want {
				t.Errorf("%s: looking up %d finds %+v, %v, %v, want %d", when, q.ts, f, ok, err, q.want)
			}
		}
		if f, ok, err := x.log.OffsetOfMaxTimestamp(); err != nil || !ok || f.Offset != 2 || f.Timestamp != farFuture {
			t.Errorf("%s: the record of the largest time is %+v, %v, %v", when, f, ok, err)
		}
	}
	looks("while it runs")
	x.log.Abandon()
	x.open()
	x.log.SetHighWatermark(x.log.End())
	looks("after a kill")
	if err := x.log.Close(); err != nil {
		t.Fatal(err)
	}
	x.o.Clean, x.o.RecoveryPoint = true, x.log.RecoveryPoint()
	x.open()
	x.log.SetHighWatermark(x.log.End())
	looks("after a stop in order")

	if err := x.log.Roll(); err != nil {
		t.Fatal(err)
	}
	x.put(x.now)
	if err := x.log.Roll(); err != nil {
		t.Fatal(err)
	}
	x.put(x.now)
	x.segments("rolled by hand", 0, 2, 5, 6)
	x.now += 365 * 24 * hour
	x.retain()
	x.segments("it keeps all behind it", 2, 5, 6)
	x.now = farFuture + c.RetentionMs
	x.retain()
	x.segments("it is as old as retention.ms and no older", 2, 5, 6)
	x.now++
	x.retain()
	x.segments("its time has come", 7)
	if _, ok, err := x.log.OffsetForTime(0, x.log.End()); ok || err != nil {
		t.Errorf("an empty log has a record: %v", err)
	}
}

func TestClockSetBack(t *testing.T) {
	c := DefaultConfig()
	c.SegmentMs, c.RetentionMs, c.FileDeleteDelayMs, c.FlushMs = hour/2, 2*hour, hour/4, hour/10
	x := newWatched(t, c)
	begun := x.now
	x.put(begun)
	x.now += hour
	x.put(x.now)
	x.segments("a later record", 0, 1)

	// Time for rolls is told by the records.
	x.now -= hour
	x.put(x.now, x.now+hour/2+hour)
	x.segments("an earlier record, and one as late as segment.ms allows", 0, 1)
	x.put(x.now + hour/2 + hour + 1)
	x.segments("a record that is too late", 0, 1, 4)

	// What was too old is not any more, until the clock is there again.
	x.now = begun + 2*hour
	x.retain()
	x.segments("nothing is older than retention.ms", 0, 1, 4)
	x.now -= hour
	x.retain()
	x.segments("set back", 0, 1, 4)
	x.now = begun + 2*hour + 1
	x.retain()
	x.segments("the first is too old", 1, 4)
	files := func() (n int) {
		list, err := x.o.FS.ReadDir(x.o.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			if strings.HasSuffix(e.Name, suffixDeleted) {
				n++
			}
		}
		return n
	}
	waiting := files()
	x.now -= hour
	x.retain()
	if waiting == 0 || files() != waiting {
		t.Errorf("%d files wait to be removed, %d with the clock set back", waiting, files())
	}
	x.now = begun + 2*hour + 1 + c.FileDeleteDelayMs
	x.retain()
	if files() != 0 {
		t.Errorf("%d files wait to be removed although file.delete.delay.ms is over", files())
	}

	// A flush that is due by time does not wait until the clock is there again.
	if err := x.log.Flush(); err != nil {
		t.Fatal(err)
	}
	x.put(x.now)
	for back, want := range map[int64]bool{0: false, c.FlushMs - 1: false, c.FlushMs: true, hour: true, -c.FlushMs + 1: false, -c.FlushMs: true} {
		if got := x.log.FlushDue(x.now - back); got != want {
			t.Errorf("set back by %d ms a flush is due: %v, want %v", back, got, want)
		}
	}
	c.FlushMs = DefaultConfig().FlushMs
	x.log.SetConfig(c)
	if x.log.FlushDue(x.now - 100*hour) {
		t.Error("a flush is due by time although flush.ms is not set")
	}
}

// TestHorizonWithTheClockSetBack: a tombstone has the delete horizon that its first cleaning gave it, whatever the clock
// says meanwhile, and goes when that has passed; nor does the time of a record move it.
func TestHorizonWithTheClockSetBack(t *testing.T) {
	for name, ts := range map[string]int64{"a record of now": 0, "a record of the far future": farFuture} {
		t.Run(name, func(t *testing.T) {
			x := newLaundry(t, Config{DeleteRetentionMs: 2 * hour})
			x.clock = 1_700_000_000_000
			begun, others := x.clock, 0
			put := func(key string, value []byte) {
				u := batch.NewBuilder(batch.BuilderOptions{})
				u.Add(max(ts, x.clock), []byte(key), value)
				x.append(u.Bytes())
			}
			// cleaned makes the log dirty and cleans it, and says whether the tombstone is there.
			cleaned := func() bool {
				t.Helper()
				others++
				put(fmt.Sprint("other", others), []byte("v"))
				x.roll()
				if r, err := x.log.Cleanable(x.clock); err != nil || !r.Due(0) {
					t.Fatalf("nothing is to be cleaned: %+v, %v", r, err)
				}
				x.clean()
				return strings.Contains(x.lines(), ":k")
			}
			put("k", []byte("v"))
			put("k", nil)
			x.roll()
			if !cleaned() {
				t.Fatal("the first cleaning takes the tombstone")
			}
			for _, step := range []struct {
				at    int64
				there bool
			}{{begun - hour, true}, {begun + hour, true}, {begun + 2*hour - 1, true}, {begun - hour, true}, {begun + 2*hour, false}} {
				if x.clock = step.at; cleaned() != step.there {
					t.Errorf("%d ms after it got its horizon, two hours ahead, the tombstone is there: %v", step.at-begun, !step.there)
				}
			}
		})
	}
}

// TestLagOfTheFarFuture: min.compaction.lag.ms counts from the largest time of a segment, so that a record of the far
// future keeps all behind it from being cleaned; without a lag it keeps nothing.
func TestLagOfTheFarFuture(t *testing.T) {
	for lag, want := range map[int64]batch.Offset{0: 4, hour: 1} {
		x := newLaundry(t, Config{MinCompactionMs: lag})
		for _, segment := range [][]int64{{x.clock}, {x.clock, farFuture}, {x.clock}} {
			for _, ts := range segment {
				u := batch.NewBuilder(batch.BuilderOptions{})
				u.Add(ts, []byte("k"), []byte("v"))
				x.append(u.Bytes())
			}
			x.roll()
		}
		x.clock += 2 * hour
		r, err := x.log.Cleanable(x.clock)
		if err != nil || r.Upper != want {
			t.Errorf("with a lag of %d ms up to %d can be cleaned: %v", lag, r.Upper, err)
		}
	}
}
