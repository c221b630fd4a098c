package log

import (
	"slices"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disktest"
)

// TestOldOffsets lists the offsets of a log of three segments in every way that
// ListOffsets version 0 has.
func TestOldOffsets(t *testing.T) {
	fs := disktest.New()
	conf := DefaultConfig()
	conf.SegmentBytes = 200
	l, _, err := Open(Options{FS: fs, Dir: "/t-0", Topic: "t", Config: conf})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	now := time.Now().UnixMilli()
	list := func(v *View, ts int64, most int) []batch.Offset {
		t.Helper()
		got, err := v.OldOffsets(ts, now, most)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for ts, want := range map[int64][]batch.Offset{oldLatest: {0}, oldEarliest: {0}, now: {0}, now + 1: {0}, now - 1: {}} {
		if got := list(l.View(), ts, 10); !slices.Equal(got, want) {
			t.Errorf("without files, at %d: %v, want %v", ts, got, want)
		}
	}
	if err := l.AssignEpoch(0); err != nil {
		t.Fatal(err)
	}
	for range 7 {
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(now, []byte("key"), []byte("value"))
		b := u.Bytes()
		h, err := batch.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(b, h, now); err != nil {
			t.Fatal(err)
		}
	}
	v := l.View()
	var bases []batch.Offset
	for _, s := range v.segs {
		bases = append(bases, s.base)
	}
	if len(bases) < 3 {
		t.Fatalf("segments begin at %v: the test wants three", bases)
	}
	down := append(slices.Clone(bases), 7)
	slices.Reverse(down)
	later := time.Now().UnixMilli() + 5000
	for _, c := range []struct {
		ts   int64
		most int
		want []batch.Offset
	}{
		{oldLatest, 10, down}, {oldLatest, 1, down[:1]}, {oldLatest, 2, down[:2]}, {oldLatest, 0, nil},
		{oldEarliest, 10, []batch.Offset{0}}, {oldEarliest, 0, nil},
		{later, 10, down}, {later, 2, down[:2]}, {now - 3600e3, 10, nil}, {0, 10, nil},
	} {
		if got := list(v, c.ts, c.most); !slices.Equal(got, c.want) {
			t.Errorf("at %d, at most %d: %v, want %v", c.ts, c.most, got, c.want)
		}
	}
	// The log start stands for the segment it falls into.
	l.SetHighWatermark(7)
	if err := l.SetLogStart(1); err != nil {
		t.Fatal(err)
	}
	if got := list(l.View(), oldEarliest, 10); !slices.Equal(got, []batch.Offset{1}) {
		t.Errorf("earliest is %v with a log start of 1", got)
	}
}

// TestMaxTimestampOfTimelessRecords: where no record has a timestamp, the first
// is the one with the largest.
func TestMaxTimestampOfTimelessRecords(t *testing.T) {
	l, _, err := Open(Options{FS: disktest.New(), Dir: "/t-0", Topic: "t", Config: DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, ok, err := l.OffsetOfMaxTimestamp(); ok || err != nil {
		t.Errorf("an empty log: %v, %v", ok, err)
	}
	for _, ts := range []int64{batch.NoTimestamp, batch.NoTimestamp, 5} {
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(ts, nil, []byte("v"))
		b := u.Bytes()
		h, err := batch.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(b, h, 5); err != nil {
			t.Fatal(err)
		}
		found, ok, err := l.OffsetOfMaxTimestamp()
		want := FoundOffset{Offset: 0, Timestamp: batch.NoTimestamp, LeaderEpoch: found.LeaderEpoch}
		if ts == 5 {
			want.Offset, want.Timestamp = 2, 5
		}
		if !ok || err != nil || found != want {
			t.Errorf("after a record at %d: %+v %v %v, want %+v", ts, found, ok, err, want)
		}
	}
}

// TestMaxTimestampOfAnEmptyBatch: the first batch that has the largest timestamp is
// asked for its record. A batch that cleaning has emptied and had to leave has none,
// whatever lies behind it.
func TestMaxTimestampOfAnEmptyBatch(t *testing.T) {
	x := newLaundry(t, Config{})
	x.put(batch.BuilderOptions{}, "a=1")
	x.clock += 1000
	x.put(batch.BuilderOptions{Producer: true, ProducerID: 7}, "k=1")
	x.put(batch.BuilderOptions{}, "c=1")
	x.roll()
	if f, ok, err := x.log.OffsetOfMaxTimestamp(); err != nil || !ok || f.Offset != 1 {
		t.Fatalf("before cleaning: %+v, %v, %v", f, ok, err)
	}
	x.clock -= 500
	x.put(batch.BuilderOptions{}, "k=2")
	x.roll()
	x.put(batch.BuilderOptions{}, "b=1")
	x.clean()
	if f, ok, err := x.log.OffsetOfMaxTimestamp(); err != nil || ok {
		t.Errorf("with the batch emptied: %+v, %v, %v; the log is %s", f, ok, err, x.lines())
	}
}
