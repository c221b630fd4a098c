package log

import (
	"testing"

	"millrace/storage/batch"
	"millrace/storage/disktest"
)

// TestLookUpCost counts what a read away from the tail asks of the disk: to begin with the index is opened and the path
// through it read; then whoever goes on from batch to batch pays one read of the segment, and whoever jumps about one
// read of the index more.
func TestLookUpCost(t *testing.T) {
	fs := disktest.New()
	c := DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes = 8<<20, 100
	l, _, err := Open(Options{FS: fs, Dir: "/t-0", Topic: "t", Config: c})
	if err != nil {
		t.Fatal(err)
	}
	for range 30_000 {
		b, h := benchBatch(1, 40)
		if _, err := l.Append(b, h, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	l.SetHighWatermark(l.end)
	read := func(o batch.Offset) disktest.Counts {
		before := fs.Counts()
		s, err := l.View().Read(o, l.end, 1000, true)
		if err != nil || s.Len() == 0 {
			t.Fatal(s.Len(), err)
		}
		p, err := sectionBytes(s)
		if err != nil {
			t.Fatal(err)
		}
		if h, err := batch.ParseHeader(p); err != nil || h.BaseOffset > o || h.LastOffset() < o {
			t.Fatalf("reading at %d begins with %+v: %v", o, h, err)
		}
		cost := fs.Counts().Since(before)
		cost.Reads-- // of the section itself
		return cost
	}
	blocks := l.segs[0].offsets.stored.Load() * offsetEntrySize / blockSize
	if blocks < 20 {
		t.Fatalf("the index has %d blocks", blocks)
	}
	if cost := read(15_000); cost.Opens > 1 || cost.Reads > 10 || cost.Looks != 0 {
		t.Errorf("the first look-up costs %+v", cost)
	}
	var sum disktest.Counts
	for o := batch.Offset(15_000); o < 15_400; o++ {
		cost := read(o)
		sum.Reads, sum.Opens = sum.Reads+cost.Reads, sum.Opens+cost.Opens
	}
	if sum.Opens != 0 || sum.Reads > 402 {
		t.Errorf("400 look-ups from batch to batch cost %+v", sum)
	}
	sum = disktest.Counts{}
	for i := range 400 {
		cost := read(batch.Offset(i * 7919 % 30_000))
		sum.Reads, sum.Opens = sum.Reads+cost.Reads, sum.Opens+cost.Opens
	}
	if sum.Opens != 0 || sum.Reads > 2*400+int(blocks) {
		t.Errorf("400 look-ups here and there cost %+v", sum)
	}
	// So do those that go from batch to batch at many places of one log.
	sum = disktest.Counts{}
	for i := range 400 {
		cost := read(batch.Offset(i%16*1_800 + i/16))
		sum.Reads, sum.Opens = sum.Reads+cost.Reads, sum.Opens+cost.Opens
	}
	if sum.Opens != 0 || sum.Reads > 400+16+int(blocks) {
		t.Errorf("400 look-ups of sixteen that go from batch to batch cost %+v", sum)
	}
	// What a file holds of its index goes with it.
	f := l.segs[0].offsets.file.Load()
	if len(f.pivots) == 0 {
		t.Error("nothing is kept")
	}
	if !f.closeIdle() || f.pivots != nil {
		t.Error("a closed index keeps what was read of it")
	}
}

// TestBlocksOfAnotherIndex: what was read of an index is not taken for what stands there once it is written anew.
func TestBlocksOfAnotherIndex(t *testing.T) {
	fs := disktest.New()
	x := newOffsetIndex(&room{FS: fs}, NewFiles(10, 10), "/x.index")
	const n = 2000
	write := func(step int32) {
		t.Helper()
		f, err := x.create(0)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.begin(f, 0, n); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, n*offsetEntrySize)
		for i := range int32(n) {
			encodeOffsetEntry(b[i*offsetEntrySize:], offsetEntry{relative: i * step, position: i})
		}
		if _, err := f.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		f.Close()
		x.tail.Store(nil)
		x.stored.Store(n)
	}
	for step := int32(1); step < 5; step++ {
		write(step)
		for i := int32(0); i < n; i += 37 {
			e, ok, err := x.floor(func(e offsetEntry) bool { return e.relative <= i*step })
			if err != nil || !ok || e.position != i {
				t.Fatalf("written for the %d. time, %d: %+v, %v, %v", step, i, e, ok, err)
			}
		}
		if x.file.Load().closeIdle(); step%2 == 0 {
			x.forget()
		}
	}
}

// TestLookUpCostOfLargeBatches: a batch that is larger than what lies between two index entries is found by its own, with
// one read of its header; so is none behind a gap or among small ones by mistake.
func TestLookUpCostOfLargeBatches(t *testing.T) {
	fs := disktest.New()
	l, _, err := Open(Options{FS: fs, Dir: "/t-0", Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		n := 20 // records of 1 KiB
		if i%7 == 0 {
			n = 1
		}
		b, h := benchBatch(n, 1024)
		if _, err := l.Append(b, h, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	l.SetHighWatermark(l.end)
	large, reads := 0, 0
	for o := batch.Offset(0); o < l.end; {
		before := fs.Counts()
		at, ok, err := l.segs[0].find(o, l.segs[0].size)
		if err != nil || !ok || at.base != o {
			t.Fatalf("at %d is found %+v, %v, %v", o, at, ok, err)
		}
		if mid, ok, err := l.segs[0].find((at.base+at.last)/2, l.segs[0].size); err != nil || !ok || mid != at {
			t.Fatalf("within %+v is found %+v, %v, %v", at, mid, ok, err)
		}
		if at.size > smallScan && o > 100 {
			large++
			reads += fs.Counts().Since(before).Reads
		}
		o = at.last + 1
	}
	// Two look-ups each; one in seven comes behind a small batch that has no entry of its own.
	if large < 200 || reads > 2*large+large/3 {
		t.Errorf("finding %d large batches twice costs %d reads", large, reads)
	}
}

// TestFlushCost: what makes an append durable is one sync, in the first segment and in those that follow it.
func TestFlushCost(t *testing.T) {
	fs := disktest.New()
	l, _, err := Open(Options{FS: fs, Dir: "/t-0", Topic: "t", TopicID: [16]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		if i%4 == 0 {
			if err := l.Roll(); err != nil {
				t.Fatal(err)
			}
		}
		b, h := benchBatch(1, 40)
		if _, err := l.Append(b, h, 0); err != nil {
			t.Fatal(err)
		}
		before := fs.Counts()
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		if cost := fs.Counts().Since(before); i%4 != 0 && cost != (disktest.Counts{Changes: 1, Syncs: 1}) {
			t.Errorf("flush %d costs %+v", i, cost)
		}
	}
}
