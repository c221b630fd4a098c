package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disktest"
)

const fuzzDir = "/t-0"

// fuzzSegment is a segment of batches with one to three records, and the offset behind each.
func fuzzSegment() (data []byte, ends []batch.Offset) {
	next := batch.Offset(0)
	for i := range 12 {
		u := batch.NewBuilder(batch.BuilderOptions{Base: next})
		for j := range 1 + i%3 {
			u.Add(int64(1000+i*10+j), nil, bytes.Repeat([]byte{byte(i)}, 30))
		}
		data = append(data, u.Bytes()...)
		next += batch.Offset(1 + i%3)
		ends = append(ends, next)
	}
	return data, ends
}

func fuzzOpen(fs *disktest.FS, clean bool, point batch.Offset) (*Log, Report, error) {
	c := DefaultConfig()
	c.IndexIntervalBytes = 150
	return Open(Options{FS: fs, Dir: fuzzDir, Topic: "t", Config: c, Clean: clean, RecoveryPoint: point, Now: func() time.Time { return time.UnixMilli(2000) }})
}

// FuzzRecovery opens what a crash might have left of a segment: anything. The log must end up as batches that are right,
// and go on from there.
func FuzzRecovery(f *testing.F) {
	data, _ := fuzzSegment()
	f.Add(data, uint16(0), true)
	f.Add(data[:len(data)-7], uint16(5), false)
	f.Add(append(bytes.Clone(data), make([]byte, 100)...), uint16(0), false)
	bad := bytes.Clone(data)
	bad[len(bad)/2] ^= 1
	f.Add(bad, uint16(3), true)
	f.Add([]byte{}, uint16(9), true)
	f.Add(binary.BigEndian.AppendUint32(make([]byte, 8), 1<<31-1), uint16(0), false)
	f.Fuzz(recoverAnything)
}

// FuzzRecoveryOfEdits is FuzzRecovery of a good segment in which single bytes were changed and, with seal, the
// checksums made to agree: what a faulty writer would leave.
func FuzzRecoveryOfEdits(f *testing.F) {
	f.Add([]byte{0, 26, 255}, uint16(0), true)
	f.Add([]byte{0, 7, 9, 1, 200, 3}, uint16(4), true)
	f.Add([]byte{0, 23, 255, 1, 0, 1}, uint16(20), false)
	f.Fuzz(func(t *testing.T, edits []byte, point uint16, seal bool) {
		file, _ := fuzzSegment()
		for ; len(edits) >= 3; edits = edits[3:] {
			file[int(binary.BigEndian.Uint16(edits))%len(file)] ^= edits[2]
		}
		for at := 0; seal && at < len(file); {
			h, err := batch.ParseHeader(file[at:])
			if err != nil || h.Size() > len(file)-at {
				break
			}
			whole := file[at : at+h.Size()]
			binary.BigEndian.PutUint32(whole[17:], crc32.Checksum(whole[21:], crc32.MakeTable(crc32.Castagnoli)))
			at += h.Size()
		}
		recoverAnything(t, file, point, false)
	})
}

func recoverAnything(t *testing.T, file []byte, point uint16, index bool) {
	fs := disktest.New()
	fs.Put(fuzzDir+"/"+fileName(0, suffixLog), file)
	if index {
		fs.Put(fuzzDir+"/"+fileName(0, suffixIndex), file[:len(file)/2])
		fs.Put(fuzzDir+"/"+fileName(0, suffixTimeIndex), file[len(file)/2:])
	}
	l, r, err := fuzzOpen(fs, false, batch.Offset(point))
	if err != nil {
		var damaged *DamagedError
		if !errors.As(err, &damaged) || damaged.Offset >= batch.Offset(point) {
			t.Fatalf("open: %v", err)
		}
		if !bytes.Equal(fs.Bytes(fuzzDir+"/"+fileName(0, suffixLog)), file) {
			t.Fatal("a damaged segment was changed")
		}
		return
	}
	kept := fs.Bytes(fuzzDir + "/" + fileName(0, suffixLog))
	if !bytes.HasPrefix(file, kept) {
		t.Fatal("recovery changed bytes")
	}
	if (r.Cut == nil) != (len(kept) == len(file)) || (r.Cut != nil && r.Cut.Bytes != int64(len(file)-len(kept))) {
		t.Fatalf("%d bytes of %d are kept: %+v", len(kept), len(file), r.Cut)
	}
	// Behind the recovery point everything that stays is right; whatever went began with something that is not.
	next := batch.Offset(0)
	for at := 0; at < len(kept); {
		h, err := batch.ParseHeader(kept[at:])
		if err != nil || h.Size() > len(kept)-at {
			t.Fatalf("kept bytes at %d: %v", at, err)
		}
		if err := batch.CheckCRC(kept[at : at+h.Size()]); err != nil && h.NextOffset() > batch.Offset(point) {
			t.Fatalf("batch %d stays: %v", h.BaseOffset, err)
		}
		next, at = h.NextOffset(), at+h.Size()
	}
	if l.View().LogEnd() != next {
		t.Fatalf("log ends at %d, its batches at %d", l.View().LogEnd(), next)
	}
	l.SetHighWatermark(next)
	for o := range min(next, 100) {
		s, err := l.View().Read(o, next, 1000, true)
		if err != nil {
			t.Fatal(err)
		}
		s.Release()
	}
	if next < 1<<40 {
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(1, nil, nil)
		h, _ := batch.ParseHeader(u.Bytes())
		if a, err := l.Append(u.Bytes(), h, 1); err != nil || a.Base != next {
			t.Fatalf("append behind it: %+v %v", a, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, _, err := fuzzOpen(fs, true, l.RecoveryPoint())
	if err != nil || again.View().LogEnd() != l.View().LogEnd() {
		t.Fatalf("opened again: %v", err)
	}
}

// FuzzIndexes opens a good segment with indexes that hold anything. What is read must not depend on them.
func FuzzIndexes(f *testing.F) {
	data, ends := fuzzSegment()
	end := ends[len(ends)-1]
	f.Add([]byte{}, []byte{})
	f.Add([]byte{0, 0, 0, 5, 0, 0, 1, 0}, []byte{0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 2})
	f.Add(bytes.Repeat([]byte{0}, 80), bytes.Repeat([]byte{0}, 120))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 101}, []byte{1})
	f.Fuzz(func(t *testing.T, offsets, times []byte) {
		fs := disktest.New()
		fs.Put(fuzzDir+"/"+fileName(0, suffixLog), data)
		fs.Put(fuzzDir+"/"+fileName(0, suffixIndex), offsets)
		fs.Put(fuzzDir+"/"+fileName(0, suffixTimeIndex), times)
		fs.Put(fuzzDir+"/"+fileName(end, suffixSnapshot), []byte{0, 1, 0x48, 0x67, 0x4b, 0xc7, 0, 0, 0, 0})
		l, _, err := fuzzOpen(fs, true, end)
		if err != nil {
			t.Fatal(err)
		}
		l.SetHighWatermark(end)
		start := batch.Offset(0)
		for _, next := range ends {
			for o := start; o < next; o++ {
				s, err := l.View().Read(o, end, 1, true)
				if err != nil {
					t.Fatal(err)
				}
				b, err := sectionBytes(s)
				if err != nil {
					t.Fatal(err)
				}
				if h, err := batch.ParseHeader(b); err != nil || h.BaseOffset != start || h.NextOffset() != next {
					t.Fatalf("read at %d gives a batch of %d to %d, want %d to %d (%v)", o, h.BaseOffset, h.NextOffset(), start, next, err)
				}
			}
			start = next
		}
		for ts := int64(990); ts < 1130; ts += 7 {
			_, _, _ = l.OffsetForTime(ts, end)
		}
		_, _, _ = l.OffsetOfMaxTimestamp()
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(1, nil, nil)
		h, _ := batch.ParseHeader(u.Bytes())
		if a, err := l.Append(u.Bytes(), h, 1); err != nil || a.Base != end {
			t.Fatalf("append: %+v %v", a, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzDecodeTxnIndex(f *testing.F) {
	f.Add(appendTxnEntry(appendTxnEntry(nil, abortedTxn{1, 0, 5, 6}), abortedTxn{2, 3, 9, 7}))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := decodeTxnIndex(b, 0)
		if err != nil {
			return
		}
		var again []byte
		for _, e := range entries {
			again = appendTxnEntry(again, e)
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("%x decodes as %v", b, entries)
		}
	})
}

func FuzzDecodeMetadata(f *testing.F) {
	f.Add(encodeMetadata([16]byte{1, 2, 3}))
	f.Add([]byte("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := decodeMetadata(b)
		if err != nil {
			return
		}
		if got, err := decodeMetadata(encodeMetadata(id)); err != nil || got != id || id == ([16]byte{}) {
			t.Fatalf("%q is %x, again %x, %v", b, id, got, err)
		}
	})
}
