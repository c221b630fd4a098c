package log

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/compact"
	"millrace/storage/disktest"
	"millrace/storage/producer"
)

// laundry is a log that is cleaned by hand.
type laundry struct {
	t     *testing.T
	fs    *disktest.FS
	log   *Log
	clock int64
	keys  *compact.Keys
}

func newLaundry(t *testing.T, c Config) *laundry {
	x := &laundry{t: t, fs: disktest.New(), clock: 1_000_000, keys: compact.NewKeys(1<<20, 0.9)}
	if c.SegmentBytes == 0 {
		c.SegmentBytes = 1 << 20
	}
	c.SegmentMs, c.IndexBytes, c.IndexIntervalBytes, c.RetentionMs, c.RetentionBytes, c.Compact = 1<<60, 1<<10, 100, -1, -1, true
	if c.MaxCompactionMs == 0 {
		c.MaxCompactionMs = DefaultConfig().MaxCompactionMs
	}
	x.fs.Put("/data/meta.properties", nil)
	l, _, err := Open(Options{FS: x.fs, Dir: worldDir, Topic: "t", Config: c, Cleaned: -1, Now: func() time.Time { return time.UnixMilli(x.clock) }})
	if err != nil {
		t.Fatal(err)
	}
	x.log = l
	return x
}

// put appends a batch of records written as key=value; one without = is a tombstone.
func (x *laundry) put(o batch.BuilderOptions, records ...string) batch.Offset {
	x.t.Helper()
	u := batch.NewBuilder(o)
	for _, r := range records {
		k, v, ok := strings.Cut(r, "=")
		if ok {
			u.Add(x.clock, []byte(k), []byte(v))
		} else {
			u.Add(x.clock, []byte(k), nil)
		}
	}
	return x.append(u.Bytes())
}

func (x *laundry) append(b []byte) batch.Offset {
	x.t.Helper()
	h, err := batch.ParseHeader(b)
	if err != nil {
		x.t.Fatal(err)
	}
	a, err := x.log.AppendWith(b, h, x.clock, producer.Rules{Verified: true, Origin: producer.Coordinator})
	if err != nil {
		x.t.Fatal(err)
	}
	x.log.SetHighWatermark(x.log.View().LogEnd())
	return a.Base
}

func (x *laundry) end(id batch.ProducerID, epoch batch.ProducerEpoch, kind batch.ControlType) batch.Offset {
	u := batch.NewBuilder(batch.BuilderOptions{Producer: true, ProducerID: id, ProducerEpoch: epoch, BaseSequence: -1, Transactional: true, Control: true})
	key, value := batch.Marker{Type: kind}.KeyAndValue()
	u.Add(x.clock, key, value)
	return x.append(u.Bytes())
}

func (x *laundry) roll() {
	x.t.Helper()
	if err := x.log.Roll(); err != nil {
		x.t.Fatal(err)
	}
}

// clean cleans what can be.
func (x *laundry) clean() Cleaned {
	x.t.Helper()
	out, err := x.try()
	if err != nil {
		x.t.Fatal(err)
	}
	return out
}

func (x *laundry) try() (Cleaned, error) {
	x.t.Helper()
	if err := x.log.Flush(); err != nil {
		x.t.Fatal(err)
	}
	r, err := x.log.Cleanable(x.clock)
	if err != nil {
		x.t.Fatal(err)
	}
	return x.log.Clean(CleanOptions{Range: r, Now: x.clock, Keys: x.keys, Buffer: 256, Exclusive: func(f func() error) error { return f() }})
}

// lines is what the log holds: each batch in brackets, its records with their offsets.
func (x *laundry) lines() string { return strings.Join(dump(x.t, x.log.View()), " ") }

func dump(t *testing.T, v *View) []string {
	t.Helper()
	var out []string
	for at := v.LogStart(); at < v.LogEnd(); {
		s, err := v.Read(at, v.LogEnd(), 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		b, err := sectionBytes(s)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) == 0 {
			break
		}
		for len(b) > 0 {
			h, err := batch.ParseHeader(b)
			if err != nil {
				t.Fatal(err)
			}
			if err := batch.CheckCRC(b[:h.Size()]); err != nil {
				t.Fatal(err)
			}
			var parts []string
			for r, err := range batch.Records(b[:h.Size()], 0) {
				if err != nil {
					t.Fatal(err)
				}
				text := fmt.Sprintf("%d:%s", r.Offset, r.Key)
				if h.Attributes.Control() {
					m, _, _ := batch.ParseMarker(b[:h.Size()])
					text = fmt.Sprintf("%d:%s", r.Offset, [...]string{"abort", "commit"}[m.Type])
				} else if r.Value != nil {
					text += "=" + string(r.Value)
				}
				parts = append(parts, text)
			}
			if len(parts) == 0 {
				parts = append(parts, fmt.Sprintf("%d-%d", h.BaseOffset, h.LastOffset()))
			}
			if h.Attributes.DeleteHorizon() {
				parts = append(parts, fmt.Sprintf("until %d", h.BaseTimestamp))
			}
			out = append(out, "["+strings.Join(parts, " ")+"]")
			at = h.NextOffset()
			b = b[h.Size():]
		}
	}
	return out
}

func (x *laundry) is(want string) {
	x.t.Helper()
	if got := x.lines(); got != want {
		x.t.Fatalf("log holds\n%s\nwant\n%s", got, want)
	}
}

func TestClean(t *testing.T) {
	x := newLaundry(t, Config{DeleteRetentionMs: 100})
	var none batch.BuilderOptions
	x.put(none, "a=1", "b=1", "c=1")
	x.put(none, "a=2")
	x.roll()
	x.put(none, "b", "d=1")
	x.put(none, "c=2")
	x.roll()
	x.put(none, "a=3")
	out := x.clean()
	x.is("[3:a=2] [4:b 5:d=1 until 1000100] [6:c=2] [7:a=3]")
	if out.From != 0 || out.To != 7 || out.Read != 7 || out.Kept != 4 || out.Segments != 2 || out.Into != 1 || x.log.CleanedTo() != 7 {
		t.Errorf("%+v, cleaned to %d", out, x.log.CleanedTo())
	}
	// Nothing is dirty.
	if out := x.clean(); out.To != 7 || out.Into != 0 {
		t.Errorf("%+v", out)
	}
	x.roll()
	x.put(none, "z=1")
	x.clock += 99
	x.clean()
	x.is("[4:b 5:d=1 until 1000100] [6:c=2] [7:a=3] [8:z=1]")
	x.clock++
	x.roll()
	x.put(none, "y=1")
	x.clean()
	x.is("[5:d=1 until 1000100] [6:c=2] [7:a=3] [8:z=1] [9:y=1]")
	if v := x.log.View(); v.LogStart() != 0 || v.FirstSegment() != 0 || v.Segments() != 2 {
		t.Errorf("starts at %d, in %d segments", v.LogStart(), v.Segments())
	}
}

func TestCleanTransactions(t *testing.T) {
	x := newLaundry(t, Config{DeleteRetentionMs: 100})
	in := func(id batch.ProducerID, seq int32) batch.BuilderOptions {
		return batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: seq, Transactional: true}
	}
	var none batch.BuilderOptions
	x.put(in(1, 0), "a=1")
	x.put(in(2, 0), "a=2")
	x.roll()
	x.put(in(2, 1), "b=2")
	x.end(1, 0, batch.Commit)
	x.end(2, 0, batch.Abort)
	x.put(in(3, 0), "c=1")
	x.roll()
	x.put(none, "x=1")
	// The third one is open: its segment is not cleaned.
	x.clean()
	x.is("[0:a=1] [1-1] [2:b=2] [3:commit] [4:abort] [5:c=1] [6:x=1]")
	x.end(3, 0, batch.Commit)
	x.roll()
	x.put(none, "x=2")
	aborted := func(want ...AbortedTxn) {
		t.Helper()
		got, err := x.log.View().Aborted(0, 99)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("aborted are %v, %v, want %v", got, err, want)
		}
	}
	aborted(AbortedTxn{2, 1})
	x.clean()
	x.is("[0:a=1] [2-2] [3:commit] [4:abort] [5:c=1] [6:x=1] [7:commit] [8:x=2]")
	aborted(AbortedTxn{2, 1})
	// Producer 2 is still known, by its last batch: its transaction has a batch left, and so its marker no end.
	x.put(in(2, 2), "e=1")
	x.end(2, 0, batch.Commit)
	x.roll()
	x.put(none, "x=3")
	x.clock += 1000
	x.clean()
	x.is("[0:a=1] [3:commit] [4:abort] [5:c=1] [7:commit] [8:x=2] [9:e=1] [10:commit] [11:x=3]")
	x.roll()
	x.put(none, "x=4")
	x.clean()
	x.is("[0:a=1] [3:commit] [4:abort until 1001100] [5:c=1] [7:commit] [9:e=1] [10:commit] [11:x=3] [12:x=4]")
	aborted()
	x.clock += 1000
	x.roll()
	x.put(none, "a=5", "c=5")
	x.roll()
	x.put(none, "x=5")
	x.clean()
	x.is("[0-0] [3:commit] [5-5] [7:commit] [9:e=1] [10:commit] [12:x=4] [13:a=5 14:c=5] [15:x=5]")
	if n := len(x.log.Producers()); n != 3 {
		t.Errorf("%d producers", n)
	}
}

// TestCleanKeepsProducers opens a cleaned log after a crash: the producers are known as before.
func TestCleanKeepsProducers(t *testing.T) {
	x := newLaundry(t, Config{})
	id := func(id batch.ProducerID, seq int32) batch.BuilderOptions {
		return batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: seq}
	}
	for i := range int32(5) {
		x.put(id(1, 2*i), "a=1", "b=1")
		x.put(id(2, i), "a=2")
		x.roll()
	}
	x.put(batch.BuilderOptions{}, "a=3", "b=3")
	x.roll()
	x.put(batch.BuilderOptions{}, "z=1")
	before := x.log.Producers()
	x.clean()
	x.is("[12-13] [14-14] [15:a=3 16:b=3] [17:z=1]")
	if v := x.log.View(); v.Segments() != 2 {
		t.Errorf("%d segments", v.Segments())
	}
	end := x.log.FlushedOffset()
	x.log.Abandon()
	x.fs.Crash(nil)
	l, r, err := Open(Options{FS: x.fs, Dir: worldDir, Topic: "t", RecoveryPoint: end, HighWatermark: end, Config: x.log.Config(), Now: func() time.Time { return time.UnixMilli(x.clock) }})
	if err != nil || r.Cut != nil || r.Lost != 0 || len(r.Damage) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	x.log = l
	x.is("[12-13] [14-14] [15:a=3 16:b=3] [17:z=1]")
	if got := x.log.Producers(); !reflect.DeepEqual(got, before) {
		t.Errorf("producers are\n%+v, want\n%+v", got, before)
	}
}
