package batch

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"millrace/storage/codec"
)

func FuzzParseHeader(f *testing.F) {
	f.Add(build(codec.None, 2, 3))
	f.Add(build(codec.None, 2, 3)[:HeaderSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHeader(b)
		if err != nil {
			return
		}
		again := make([]byte, HeaderSize)
		h.put(again)
		if !bytes.Equal(again, b[:HeaderSize]) {
			t.Fatalf("%x comes back as %x", b[:HeaderSize], again)
		}
		if h.Size() < HeaderSize {
			t.Fatalf("size %d", h.Size())
		}
		if h.NextOffset() != h.LastOffset()+1 {
			t.Fatalf("next offset %d after the last, %d", h.NextOffset(), h.LastOffset())
		}
	})
}

// FuzzValidate gives whatever it is given a right checksum, so that the records are reached, and checks the promise:
// what is accepted can be read, has dense offsets and a right checksum.
func FuzzValidate(f *testing.F) {
	for kind := codec.None; kind <= codec.Zstd; kind++ {
		f.Add(build(kind, 3, 5), int8(0), false)
		f.Add(build(kind, 1, 300), int8(kind), true)
	}
	f.Add(raw(codec.None, 1, one), int8(0), false)
	f.Fuzz(func(t *testing.T, b []byte, to int8, appendTime bool) {
		if len(b) < HeaderSize {
			return
		}
		b = bytes.Clone(b)
		setCRC(b)
		_, b, err := Shape(b, 9)
		if err != nil {
			return
		}
		r := open()
		r.MaxRecordBytes, r.MaxBytes = 1<<16, 1<<20
		if appendTime {
			r.Timestamps = LogAppendTime
		}
		if k := codec.Kind(to); to != 0 && k.Valid() {
			r.Recompress, r.Codec = true, k
		}
		h := header(b)
		if h.Count > 1<<16 {
			return // a stream of that many records takes its time, not memory
		}
		c, err := Validate(b, r)
		if err != nil {
			return
		}
		if err := CheckCRC(c.Batch); err != nil {
			t.Fatal(err)
		}
		if got, err := ParseHeader(c.Batch); err != nil || got != c.Header || got.Size() != len(c.Batch) {
			t.Fatalf("%+v, %v, want %+v", got, err, c.Header)
		}
		n := Offset(0)
		for rec, err := range Records(c.Batch, 1<<16) {
			if err != nil {
				t.Fatalf("accepted, but record %d: %v", n, err)
			}
			if rec.Offset != n {
				t.Fatalf("record %d has offset %d", n, rec.Offset)
			}
			n++
		}
		if n != Offset(h.Count) {
			t.Fatalf("accepted %d records, read %d", h.Count, n)
		}
	})
}

func FuzzRecords(f *testing.F) {
	for kind := codec.None; kind <= codec.Zstd; kind++ {
		f.Add(build(kind, 3, 5))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		size := 0
		for rec, err := range Records(b, 1<<16) {
			if err != nil {
				break
			}
			n := 0
			for h := range rec.Headers.All() {
				n++
				size += len(h.Key) + len(h.Value)
			}
			if n != rec.Headers.Len() {
				t.Fatalf("%d headers of %d", n, rec.Headers.Len())
			}
			if size += len(rec.Key) + len(rec.Value) + 1; size > 1<<20 {
				break
			}
		}
		ParseMarker(b)
	})
}

// FuzzRewrite: what a cleaning leaves of a batch is a batch of the records that were to stay, each where it was.
func FuzzRewrite(f *testing.F) {
	for kind := codec.None; kind <= codec.Zstd; kind++ {
		f.Add(build(kind, 3, 5), uint64(5), false)
		f.Add(build(kind, 9, windowSize), uint64(6), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, stays uint64, force bool) {
		if len(b) < HeaderSize {
			return
		}
		b = bytes.Clone(b)
		setCRC(b)
		if h := header(b); h.Count > 1<<12 {
			return
		}
		var want []Record
		n, good := 0, true
		for r, err := range Records(b, 1<<16) {
			if good = err == nil; !good {
				break
			}
			if stays>>(n%64)&1 != 0 {
				want = append(want, r)
			}
			n++
		}
		i, keys := 0, 0
		got, out, err := Rewrite(nil, b, RewriteOptions{ForceHorizon: force, Horizon: now, KeepEmpty: true}, func(Offset, Key, bool) bool {
			i++
			return stays>>((i-1)%64)&1 != 0
		})
		if werr := WalkKeys(b, nil, func(Offset, Key) bool { keys++; return true }); (werr == nil) != (err == nil) || keys != i {
			t.Fatalf("%d keys, %v, and %d records, %v", keys, werr, i, err)
		}
		if !good {
			return
		}
		if err != nil {
			if header(b).Size() != len(b) {
				return // bytes behind the batch
			}
			t.Fatalf("its records can be read: %v", err)
		}
		if h, err := ParseHeader(got); err != nil || h != out.Header || h.Size() != len(got) || h.LastOffset() != header(b).LastOffset() || out.Overgrown || out.Kept != len(want) {
			t.Fatalf("%+v, %v: %+v", h, err, out)
		}
		if got := all(t, got); !slices.EqualFunc(got, want, same) {
			t.Fatalf("%+v are left, want %+v", got, want)
		}
	})
}

// TestPassingAgrees: a record read as it passes through the window is judged like one that lies in memory.
func TestPassingAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "body")
		if rapid.Bool().Draw(t, "shaped") {
			u := NewBuilder(BuilderOptions{})
			u.Add(1, rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "key"), rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "value"),
				RecordHeader{Key: rapid.StringN(0, 4, 8).Draw(t, "hk"), Value: rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "hv")})
			b := u.Bytes()[HeaderSize:]
			_, n := varint(b, 0)
			body = b[n:]
			if len(body) > 0 && rapid.Bool().Draw(t, "spoilt") {
				body[rapid.IntRange(0, len(body)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "with")
			}
		}
		var a, p seen
		aerr := parse(body, &a)
		// A window of twelve bytes makes every record one that passes.
		w := walk{src: bytes.NewReader(body), buf: make([]byte, 0, 12)}
		perr := w.pass(len(body), &p)
		if (aerr == nil) != (perr == nil) {
			t.Fatalf("in memory %v, passing %v", aerr, perr)
		}
		if aerr == nil && a != p {
			t.Fatalf("in memory %+v, passing %+v", a, p)
		}
		if aerr != nil && aerr.Kind != perr.Kind {
			t.Fatalf("in memory %v, passing %v", aerr, perr)
		}
	})
}

// TestBuilt: what goes into a builder comes out of the batch.
func TestBuilt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytesOrNil := rapid.Custom(func(t *rapid.T) []byte {
			if rapid.Bool().Draw(t, "null") {
				return nil
			}
			return append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "bytes")...)
		})
		o := BuilderOptions{Base: Offset(rapid.Int64Range(0, 1<<60).Draw(t, "base")), Codec: codec.Kind(rapid.IntRange(0, 4).Draw(t, "codec"))}
		u := NewBuilder(o)
		var want []Record
		var headers [][]RecordHeader
		for i := range rapid.IntRange(1, 20).Draw(t, "records") {
			r := Record{Timestamp: rapid.Int64Range(-1, 1<<45).Draw(t, "time"), Offset: o.Base + Offset(i), Key: bytesOrNil.Draw(t, "key"), Value: bytesOrNil.Draw(t, "value")}
			var hs []RecordHeader
			for range rapid.IntRange(0, 3).Draw(t, "headers") {
				hs = append(hs, RecordHeader{Key: rapid.String().Draw(t, "hk"), Value: bytesOrNil.Draw(t, "hv")})
			}
			u.Add(r.Timestamp, r.Key, r.Value, hs...)
			want, headers = append(want, r), append(headers, hs)
		}
		b := u.Bytes()
		if err := CheckCRC(b); err != nil {
			t.Fatal(err)
		}
		i := 0
		for got, err := range Records(b, 0) {
			if err != nil {
				t.Fatal(err)
			}
			w := want[i]
			same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
			if got.Timestamp != w.Timestamp || got.Offset != w.Offset || !same(got.Key, w.Key) || !same(got.Value, w.Value) || got.Headers.Len() != len(headers[i]) {
				t.Fatalf("record %d is %+v, want %+v", i, got, w)
			}
			for j, h := range slices.Collect(got.Headers.All()) {
				if h.Key != headers[i][j].Key || !same(h.Value, headers[i][j].Value) {
					t.Fatalf("record %d, header %d is %+v, want %+v", i, j, h, headers[i][j])
				}
			}
			i++
		}
		if i != len(want) {
			t.Fatalf("%d records, want %d", i, len(want))
		}
	})
}
