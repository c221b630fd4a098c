package log

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"millrace/storage/batch"
	"millrace/storage/check"
	"millrace/storage/compact"
	"millrace/storage/disk"
)

// far is a log whose batches have offsets far apart, as a follower copies them from a compacted log, or lie far into their
// segment. Of both a segment and its indexes hold 31 bits.
type far struct {
	*lived
	offsets []batch.Offset // of the first record of each batch, whose time is 1000 and the batch's number
	last    []batch.Offset
}

func newFar(t *testing.T) *far {
	x := &far{lived: newLived(t)}
	c := x.o.Config
	c.IndexIntervalBytes, c.SegmentBytes, c.SegmentMs = 1, longest, 1<<60
	x.o.Config = c
	x.log.SetConfig(c)
	return x
}

// copied appends a batch at an offset, as a follower.
func (x *far) copied(o batch.Offset, records int) {
	x.t.Helper()
	u := batch.NewBuilder(batch.BuilderOptions{})
	for range records {
		u.Add(int64(1000+len(x.offsets)), []byte("key"), make([]byte, 20))
	}
	b := u.Bytes()
	batch.Patch(b, o, 1)
	_, err := x.log.AppendAsFollower(b)
	x.ok(err)
	x.offsets, x.last = append(x.offsets, o), append(x.last, o+batch.Offset(records-1))
}

// bases compares where the segments begin.
func (x *far) bases(want ...batch.Offset) {
	x.t.Helper()
	var got []batch.Offset
	for _, seg := range x.log.segs {
		got = append(got, seg.base)
	}
	if !slices.Equal(got, want) {
		x.t.Fatalf("segments begin at %d, not at %d", got, want)
	}
}

// found looks every batch up, by its offsets, by one in the gap before it, and by its time.
func (x *far) found(when string) {
	x.t.Helper()
	v := x.log.View()
	n := len(x.offsets)
	if v.LogEnd() != x.last[n-1]+1 {
		x.t.Fatalf("%s: the log ends at %d", when, v.LogEnd())
	}
	for i, o := range x.offsets {
		ask := []batch.Offset{o, x.last[i]}
		if i > 0 {
			ask = append(ask, max(o-1, x.last[i-1]+1), x.last[i-1]+1)
		}
		for _, at := range ask {
			s, err := v.Read(at, v.LogEnd(), 1, true)
			x.ok(err)
			b := make([]byte, batch.HeaderSize)
			_, err = s.ReadAt(b, 0)
			s.Release()
			if h, bad := batch.ParseHeader(b); err != nil || bad != nil || h.BaseOffset != o || h.LastOffset() != x.last[i] {
				x.t.Fatalf("%s: at %d is the batch %d to %d, not %d to %d: %v", when, at, h.BaseOffset, h.LastOffset(), o, x.last[i], err)
			}
		}
		if i == 0 && x.log.segs[0].size > 1<<20 {
			continue // a batch that holds nothing
		}
		if f, ok, err := x.log.OffsetForTime(int64(1000+i), v.LogEnd()); err != nil || !ok || f.Offset != o {
			x.t.Fatalf("%s: time %d is at %+v (%v, %v), not at %d", when, 1000+i, f, ok, err, o)
		}
	}
	if f, ok, err := x.log.OffsetOfMaxTimestamp(); err != nil || !ok || f.Offset != x.offsets[n-1] {
		x.t.Fatalf("%s: the largest time is at %+v (%v, %v)", when, f, ok, err)
	}
}

// sound asks the checker.
func (x *far) sound() {
	x.t.Helper()
	p, err := check.CheckPartition(x.fs, x.o.Dir, check.Options{RecoveryPoint: x.log.RecoveryPoint(), LogStart: -1, HighWatermark: -1})
	x.ok(err)
	for _, f := range p.Findings {
		if !f.Mended {
			x.t.Errorf("%v", f)
		}
	}
}

const (
	far31   = batch.Offset(1) << 31
	longest = 1<<31 - 1 // of a segment, in bytes
)

// TestOffsetsFarFromTheirSegment: a segment takes offsets up to 2^31-1 above its base, and the next one goes to another,
// which begins where the log ends, or where that is too far, too, with the batch. All are found, however the log is opened.
func TestOffsetsFarFromTheirSegment(t *testing.T) {
	x := newFar(t)
	x.copied(0, 1)
	x.copied(far31-1, 1) // the last that fits
	x.bases(0)
	x.copied(far31, 1)
	x.bases(0, far31)
	x.copied(2*far31-2, 1)
	x.copied(2*far31-1, 2) // of which the first would fit
	x.bases(0, far31, 2*far31-1)
	x.copied(9*far31, 1) // too far even from where the log ends
	x.copied(10*far31-2, 2)
	x.copied(10*far31, 1)
	bases := []batch.Offset{0, far31, 2*far31 - 1, 9 * far31, 10 * far31}
	x.bases(bases...)
	x.found("when it was appended")
	x.ok(x.log.Flush())
	x.sound()

	x.closed()
	x.bases(bases...)
	x.found("closed in order")
	x.killed()
	x.found("killed, with all flushed")
	x.o.RecoveryPoint = 0
	x.fs.Kill()
	if r, _ := x.open(false); r.Cut != nil || len(r.Damage) != 0 || r.Lost != 0 {
		t.Fatalf("%+v", r)
	}
	x.bases(bases...)
	x.found("recovered whole")
	x.ok(x.log.Close())
	x.o.RecoveryPoint = x.log.RecoveryPoint()
	for _, base := range bases {
		x.ok(x.fs.Remove(x.o.Dir + "/" + fileName(base, suffixIndex)))
		x.ok(x.fs.Remove(x.o.Dir + "/" + fileName(base, suffixTimeIndex)))
	}
	x.open(true)
	x.found("without its indexes")
	x.sound()

	x.ok(x.log.Truncate(10*far31 - 1)) // within the batch
	x.offsets, x.last = x.offsets[:6], x.last[:6]
	x.found("cut")
	x.bases(bases[:4]...)
	x.copied(10*far31-1, 1)
	x.bases(bases[:4]...)
	x.found("appended to")
}

// TestRecoveryOfFarOffsets has a batch lie further from its segment's base than that can hold: nothing was flushed, and the
// log is cut there.
func TestRecoveryOfFarOffsets(t *testing.T) {
	x := newFar(t)
	x.copied(0, 1)
	x.copied(far31-1, 1)
	at := x.place(far31 - 1)
	name := x.o.Dir + "/" + fileName(0, suffixLog)
	x.fs.Kill()
	b := x.fs.Bytes(name)
	binary.BigEndian.PutUint64(b[at:], uint64(far31))
	x.fs.Put(name, b)
	r, _ := x.open(false)
	if r.Cut == nil || r.Cut.Offset != 1 || r.Cut.Position != at || x.log.end != 1 {
		t.Fatalf("%+v, the log ends at %d", r, x.log.end)
	}
}

// TestCleaningKeepsOffsetsNear: segments become one only as far as that can hold their offsets.
func TestCleaningKeepsOffsetsNear(t *testing.T) {
	x := newFar(t)
	c := x.o.Config
	c.Compact, c.Delete = true, false
	x.log.SetConfig(c)
	add := func(o batch.Offset, key string) {
		t.Helper()
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(int64(1000+len(x.offsets)), []byte(key), []byte("value"))
		b := u.Bytes()
		batch.Patch(b, o, 1)
		_, err := x.log.AppendAsFollower(b)
		x.ok(err)
		x.ok(x.log.Roll())
		x.offsets, x.last = append(x.offsets, o), append(x.last, o)
	}
	add(0, "a")
	add(5, "b")
	add(far31-1, "c")
	add(far31, "d")
	add(2*far31, "e")
	add(2*far31+1, "f")
	x.log.SetHighWatermark(x.log.View().LogEnd())
	r, err := x.log.Cleanable(1 << 40)
	x.ok(err)
	out, err := x.log.Clean(CleanOptions{Range: r, Now: 1 << 40, Keys: compact.NewKeys(1<<20, 0.9), Exclusive: func(f func() error) error { return f() }})
	if err != nil || out.Segments != 6 || out.Into != 4 {
		t.Fatalf("%+v, %v", out, err)
	}
	x.bases(0, far31, far31+1, 2*far31+1, 2*far31+2)
	x.found("cleaned")
	x.sound()
	x.closed()
	x.found("closed in order")
	x.killed()
	x.found("killed")
}

// TestSegmentOfTwoGigabytes fills a segment to the last byte that an index can address, behind a batch that is a hole of
// almost two gigabytes.
func TestSegmentOfTwoGigabytes(t *testing.T) {
	x := newFar(t)
	x.copied(0, 1)
	small := x.log.active.size // of a batch
	x.ok(x.log.Close())
	x.o.RecoveryPoint = x.log.RecoveryPoint()
	name := x.o.Dir + "/" + fileName(0, suffixLog)
	large := longest - 3*small
	head := x.fs.Bytes(name)
	binary.BigEndian.PutUint32(head[8:], uint32(large-batch.LengthOverhead))
	binary.BigEndian.PutUint32(head[17:], crcOfHole(head[atAttributes:], large-small))
	f, err := x.fs.Open(name, disk.Write)
	x.ok(err)
	_, err = f.WriteAt(head, 0)
	x.ok(err)
	x.ok(f.Truncate(large))
	x.ok(f.Sync())
	x.ok(f.Close())

	x.open(true)
	for o := range batch.Offset(3) {
		x.copied(1+o, 1)
	}
	if x.log.active.size != longest {
		t.Fatalf("the segment has %d bytes", x.log.active.size)
	}
	x.bases(0)
	x.found("full")
	x.copied(4, 1)
	x.bases(0, 4)
	x.found("rolled")
	x.killed() // from where it was closed on
	x.bases(0, 4)
	x.found("killed")
	x.closed()
	x.found("closed in order")
	if e, ok, err := x.log.segs[0].offsets.last(); err != nil || !ok || int64(e.position) != longest-small {
		t.Errorf("the last entry of the index is %+v: %v", e, err)
	}
	x.o.RecoveryPoint = 0
	x.fs.Kill()
	if r, _ := x.open(false); r.Cut != nil || len(r.Damage) != 0 || r.Scanned < longest {
		t.Fatalf("%+v", r)
	}
	x.bases(0, 4)
	// Nobody has read yet: what a reader has is copied by a cut.
	x.ok(x.log.Truncate(3))
	x.offsets, x.last = x.offsets[:3], x.last[:3]
	x.found("recovered whole, and cut")
	x.copied(3, 1)
	x.bases(0)
	x.found("full again")

	// One byte more is none of ours.
	x.fs.Kill()
	f, err = x.fs.Open(name, disk.Write)
	x.ok(err)
	x.ok(f.Truncate(longest + 1))
	x.ok(f.Close())
	if _, _, err := Open(x.o); err == nil || !strings.Contains(err.Error(), fmt.Sprint(int64(longest)+1)) {
		t.Errorf("a segment of %d bytes is opened: %v", int64(longest)+1, err)
	}
}

// crcOfHole is the checksum of bytes and of so many zeros behind them.
func crcOfHole(b []byte, zeros int64) uint32 {
	sum := crc32.Checksum(b, castagnoli)
	for hole := make([]byte, 1<<20); zeros > 0; zeros -= int64(len(hole)) {
		sum = crc32.Update(sum, castagnoli, hole[:min(zeros, int64(len(hole)))])
	}
	return sum
}
