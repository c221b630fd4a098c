package log

import (
	"bytes"
	"errors"
	"testing"

	"millrace/storage/batch"
)

// damage changes a byte of the log's first segment, and says what the file then holds.
func (x *lived) damage(at int64) []byte {
	name := x.o.Dir + "/" + fileName(0, suffixLog)
	b := x.fs.Bytes(name)
	b[at] ^= 0x40
	x.fs.Put(name, b)
	return b
}

// place is where a batch begins.
func (x *lived) place(o batch.Offset) int64 {
	x.t.Helper()
	at, ok, err := x.log.segs[0].find(o, x.log.active.size)
	if err != nil || !ok {
		x.t.Fatal(ok, err)
	}
	return at.pos
}

// TestDamageBelowTheRecoveryPoint is reported and left alone, whatever follows it.
func TestDamageBelowTheRecoveryPoint(t *testing.T) {
	x := newLived(t)
	x.add(20)
	x.ok(x.log.Flush())
	x.add(5)
	x.o.RecoveryPoint = x.log.RecoveryPoint()
	pos := x.place(4)
	x.fs.Kill()
	want := x.damage(pos + 80) // in the records
	for range 2 {
		r, _ := x.open(false)
		if len(r.Damage) != 1 || r.Damage[0].Offset != 4 || r.Damage[0].Position != pos || r.Cut != nil {
			t.Fatalf("%+v", r)
		}
		if x.log.end != 25 || !bytes.Equal(x.fs.Bytes("/d/t-0/00000000000000000000.log"), want) {
			t.Fatalf("the log ends at %d, or was changed", x.log.end)
		}
		x.fs.Kill()
	}
	// What lies behind it can be read, and the batch itself is given as it is: its reader compares the checksum.
	x.open(false)
	s, err := x.log.View().Read(4, 6, 1, true)
	x.ok(err)
	b, err := sectionBytes(s)
	x.ok(err)
	if err := batch.CheckCRC(b); err == nil {
		t.Error("a damaged batch has the right checksum")
	}
	// Nor does a follower take it.
	y := newLived(t)
	y.add(4)
	var wrong *batch.CRCError
	if _, err := y.log.AppendAsFollower(b); !errors.As(err, &wrong) || y.log.end != 4 {
		t.Errorf("a damaged batch is copied: %v", err)
	}
}

// TestDamagedFrameBelowTheRecoveryPoint: where the batches behind the damage cannot be found the log stays shut, and its
// files as they are.
func TestDamagedFrameBelowTheRecoveryPoint(t *testing.T) {
	x := newLived(t)
	x.add(20)
	x.ok(x.log.Flush())
	x.o.RecoveryPoint = x.log.RecoveryPoint()
	pos := x.place(4)
	x.fs.Kill()
	want := x.damage(pos + 8) // the length
	for range 2 {
		_, r, err := Open(x.o)
		var damaged *DamagedError
		if !errors.As(err, &damaged) || damaged.Position != pos || damaged.Offset != 4 || r.Cut != nil {
			t.Fatalf("%v, %+v", err, r)
		}
		if !bytes.Equal(x.fs.Bytes("/d/t-0/00000000000000000000.log"), want) {
			t.Fatal("the segment was changed")
		}
		x.fs.Kill()
	}
	// Behind the recovery point the same is a tail that is cut.
	x.o.RecoveryPoint = 4
	if r, _ := x.open(false); r.Cut == nil || r.Cut.Offset != 4 || r.Cut.Position != pos || x.log.end != 4 {
		t.Fatalf("%+v", r)
	}
}
