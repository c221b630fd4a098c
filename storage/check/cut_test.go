package check_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"testing"

	"millrace/storage/batch"
	"millrace/storage/check"
	"millrace/storage/disktest"
)

// TestCutIsTold spoils batches behind the recovery point of a log that kill -9 has left. The checker says what the start
// then cuts: as many bytes, and as many readable batches. Where there are any the directory is not sound.
func TestCutIsTold(t *testing.T) {
	k := leftByKill(t)
	lossless := 0
	for _, name := range slices.Sorted(maps.Keys(k.at)) {
		for i, p := range k.at[name] {
			if p.offset < k.point || i%6 > 0 && k.behind(p) > 1 {
				continue
			}
			for _, at := range []int{p.pos + p.size - 1, p.pos + inMagic + 1} { // a record, the checksum
				fs := k.spoilt(name, at, 3)
				r := report(t, fs)
				c, behind := r.Cut(), k.behind(p)
				if c.Batches != int64(behind) || r.Sound() != (behind == 0) {
					t.Errorf("batch %d of %s: %d batches behind it, %+v, sound %v", i, name, behind, c, r.Sound())
				}
				if behind == 0 {
					lossless++
				}
				s, err := k.start(fs, "t")
				if err != nil {
					t.Fatal(err)
				}
				if said := s.said(saidCut); len(said) != 1 || said[0]["bytes"] != c.Bytes || said[0]["readable_batches"] != c.Batches {
					t.Errorf("batch %d of %s: the checker says %+v, the start %v", i, name, c, said)
				}
			}
			// Where no length leads on the batches behind it are found all the same.
			for _, at := range []int{inLength, inLength + 3, inMagic} {
				fs := k.spoilt(name, p.pos+at, 6)
				r := report(t, fs)
				if c := r.Cut(); c.Batches != int64(k.behind(p)) || r.Sound() != (k.behind(p) == 0) {
					t.Errorf("byte %d of batch %d of %s: %d batches behind it, %+v, sound %v", at, i, name, k.behind(p), c, r.Sound())
				}
			}
		}
	}
	if lossless == 0 {
		t.Error("the last batch was never hit")
	}
}

// TestTornTailIsSound: what a kill leaves of the batch that was being written has nothing behind it.
func TestTornTailIsSound(t *testing.T) {
	k := leftByKill(t)
	name := slices.Max(slices.Collect(maps.Keys(k.at)))
	list := k.at[name]
	p := list[len(list)-1]
	for _, left := range []int{1, batch.HeaderSize - 1, batch.HeaderSize, p.size - 1} {
		for _, zeros := range []int{0, p.size - left, 5000} {
			fs := k.spoilt("", 0, 0)
			b := bytes.Clone(k.files[name][:p.pos+left])
			fs.Put(name, append(b, make([]byte, zeros)...))
			r := report(t, fs)
			if c := r.Cut(); c != (check.Cut{Bytes: int64(left + zeros)}) || !r.Sound() {
				t.Errorf("%d bytes of the last batch and %d zeros: %+v, %v", left, zeros, c, r.All())
			}
		}
	}
}

// TestCutAtAHole takes a segment away behind the recovery point: those that follow go too.
func TestCutAtAHole(t *testing.T) {
	k := leftByKill(t)
	names := slices.Sorted(maps.Keys(k.at))
	gone := names[len(names)-2]
	if k.at[gone][0].offset < k.point {
		t.Fatal("no two segments lie behind the recovery point")
	}
	fs := disktest.New()
	for n, b := range k.files {
		if strings.TrimSuffix(n, ".log") != strings.TrimSuffix(gone, ".log") {
			fs.Put(n, b)
		}
	}
	r := report(t, fs)
	after := k.at[names[len(names)-1]]
	if c := r.Cut(); c.Batches != int64(len(after)) || c.Bytes != int64(len(k.files[names[len(names)-1]])) || r.Sound() {
		t.Errorf("%d batches behind a hole: %+v, %v", len(after), c, r.All())
	}
}

// TestCutIsAmongTheFindings: however much else is found, a cut is told.
func TestCutIsAmongTheFindings(t *testing.T) {
	k := leftByKill(t)
	name := slices.Max(slices.Collect(maps.Keys(k.at)))
	fs := k.spoilt(name, k.at[name][0].pos+100, 0)
	for i := range 100 {
		fs.Put(fmt.Sprintf("%s/t-0/%020d.index.tmp", dir, i), nil)
	}
	if r := report(t, fs); r.Cut().Batches == 0 || r.Sound() {
		t.Errorf("%v", r.All())
	}
}

// TestCutCountsRecords: the words have what goes.
func TestCutCountsRecords(t *testing.T) {
	k := leftByKill(t)
	name := slices.Max(slices.Collect(maps.Keys(k.at)))
	list := k.at[name]
	if len(list) < 2 {
		t.Fatal("one batch in the last segment")
	}
	p, records := list[0], 0
	for _, q := range list[1:] {
		records += int(binary.BigEndian.Uint32(k.files[name][q.pos+57:]))
	}
	r := report(t, k.spoilt(name, p.pos+p.size-1, 0))
	want := fmt.Sprintf("(the next start cuts %d bytes, in which %d batches with %d records can be read)", len(k.files[name])-p.pos, len(list)-1, records)
	for _, f := range r.All() {
		if strings.HasSuffix(f.String(), want) && !f.Mended {
			return
		}
	}
	t.Errorf("no finding says %s: %v", want, r.All())
}

// TestBadRecordsWithTheRightChecksum: a start compares checksums. It leaves a batch whose records cannot be read but for that,
// and cuts at a transaction marker that is none. The checker says no other.
func TestBadRecordsWithTheRightChecksum(t *testing.T) {
	k := leftByKill(t)
	seen := map[bool]int{}
	for _, name := range slices.Sorted(maps.Keys(k.at)) {
		for i, p := range k.at[name] {
			h, err := batch.ParseHeader(k.files[name][p.pos:])
			if err != nil {
				t.Fatal(err)
			}
			control := h.Attributes.Control()
			if p.offset < k.point || h.Attributes.Codec() != 0 || k.behind(p) == 0 || seen[control] > 3 {
				continue
			}
			seen[control]++
			fs := k.spoilt("", 0, 0)
			b := bytes.Clone(k.files[name])
			b[p.pos+batch.HeaderSize] ^= 0x04 // the length of its first record
			one := b[p.pos:][:p.size]
			binary.BigEndian.PutUint32(one[17:], crc32.Checksum(one[21:], crc32.MakeTable(crc32.Castagnoli)))
			fs.Put(name, b)
			r := report(t, fs)
			s, err := k.start(fs, "t")
			gone := k.bytes - size(fs)
			if control && (err != nil || s.bytes == k.bytes) { // who reads such records is told, and that is no start
				t.Fatalf("batch %d of %s, control %v: the start comes to %v", i, name, control, err)
			}
			if r.Sound() || r.Cut().Bytes != gone || control != (gone > 0) {
				t.Errorf("batch %d of %s, control %v: %d bytes are cut, the checker says %v", i, name, control, gone, r.All())
			}
		}
	}
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("seen: %v", seen)
	}
}
