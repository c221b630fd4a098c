package batch

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"millrace/storage/codec"
)

// TestLongRecords: a record above the limit is stepped over, and those behind it can be read.
func TestLongRecords(t *testing.T) {
	for kind := codec.None; kind <= codec.Zstd; kind++ {
		u := NewBuilder(BuilderOptions{Base: 70, Codec: kind})
		lengths := []int{10, windowSize + 1, 500, 5, 3 * windowSize, 20}
		for i, n := range lengths {
			u.Add(now+int64(i), []byte("k"), make([]byte, n))
		}
		i := 0
		for r, err := range Records(u.Bytes(), 400) {
			if want := Offset(70 + i); r.Offset != want || r.Timestamp != now+int64(i) {
				t.Fatalf("%v: record %d is at %d, %d", kind, i, r.Offset, r.Timestamp)
			}
			long := (*LongError)(nil)
			switch is := errors.As(err, &long); {
			case kind == codec.None || lengths[i] < 400:
				if err != nil || len(r.Value) != lengths[i] {
					t.Fatalf("%v: record %d has %d bytes, %v", kind, i, len(r.Value), err)
				}
			case !is || long.Length < lengths[i] || r.Key != nil || r.Value != nil:
				t.Fatalf("%v: record %d: %v, %+v", kind, i, err, r)
			}
			i++
		}
		if i != len(lengths) {
			t.Errorf("%v: %d records", kind, i)
		}
	}
}

// TestStamps: they are those of the records, and what is no record is told.
func TestStamps(t *testing.T) {
	for kind := codec.None; kind <= codec.Zstd; kind++ {
		for _, o := range []BuilderOptions{{Base: 7, Codec: kind}, {Codec: kind, Timestamps: LogAppendTime}} {
			u := NewBuilder(o)
			for i, n := range []int{0, windowSize + 1, 3} {
				u.Add(now-int64(i), make([]byte, n), make([]byte, n))
			}
			b := u.Bytes()
			var got, want []Stamp
			for s, err := range Stamps(b, nil) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, s)
			}
			for _, r := range all(t, b) {
				want = append(want, Stamp{r.Offset, r.Timestamp})
			}
			if !slices.Equal(got, want) || len(want) != 3 {
				t.Errorf("%v: %v, want %v", kind, got, want)
			}
			var last error
			for _, err := range Stamps(edit(b, func(h *Header) { h.Count++ }), nil) {
				last = err
			}
			if last == nil {
				t.Errorf("%v: a record is missing, and nothing is said", kind)
			}
		}
	}
}

// TestHeadersAreNotHeld: headers of two bytes each take no more than they are.
func TestHeadersAreNotHeld(t *testing.T) {
	const n = 1 << 20
	for _, kind := range []codec.Kind{codec.None, codec.Zstd} {
		u := NewBuilder(BuilderOptions{Codec: kind})
		u.Add(now, nil, nil, slices.Repeat([]RecordHeader{{}}, n)...)
		b := u.Bytes()
		got := 0
		if took := allocated(func() {
			for r, err := range Records(b, 1<<30) {
				if err != nil {
					t.Fatal(err)
				}
				for h := range r.Headers.All() {
					if h.Key != "" || h.Value != nil {
						t.Fatalf("%+v", h)
					}
					got++
				}
			}
		}); took > 12<<20 {
			t.Errorf("%v: %d headers take %d bytes", kind, n, took)
		}
		if got != n {
			t.Errorf("%v: %d headers", kind, got)
		}
	}
}

// TestRewrittenAsKafkaWrites: in a batch that is built anew records have no attributes, and odd ways to say a length come out
// as Kafka writes them; where the batch stays as it is they stay too.
func TestRewrittenAsKafkaWrites(t *testing.T) {
	// Attributes, a key whose length 1 takes two bytes, a value of length -2, and a header with a value of length -3.
	odd := []byte{22, 0x7f, 0, 0, 0x82, 0, 'k', 3, 2, 2, 'h', 5}
	want := []byte{20, 0, 0, 0, 2, 'k', 1, 2, 2, 'h', 1}
	for kind := codec.None; kind <= codec.Zstd; kind++ {
		b := raw(kind, 2, append(bytes.Clone(odd), two...))
		for _, c := range []struct {
			o    RewriteOptions
			keep Offset
			want []byte
		}{{RewriteOptions{Horizon: now}, 0, want}, {RewriteOptions{Horizon: now}, 2, append(bytes.Clone(want), two...)}} {
			got, out, err := Rewrite(nil, b, c.o, func(o Offset, _ Key, _ bool) bool { return o <= c.keep })
			if err != nil {
				t.Fatal(err)
			}
			records, err := codec.Decompress(kind, nil, got[HeaderSize:], 1000)
			if err != nil || !bytes.Equal(records, c.want) || out.Overgrown {
				t.Errorf("%v: written as %v, %v, want %v", kind, records, err, c.want)
			}
		}
		plain := raw(kind, 2, append(bytes.Clone(two), two...)) // no tombstone
		if got, _, err := Rewrite(nil, plain, RewriteOptions{}, func(Offset, Key, bool) bool { return true }); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%v: a batch that stays has changed: %v", kind, err)
		}
	}
}

// TestOvergrown: a batch that would grow to more than it may stays whole, behind what was there.
func TestOvergrown(t *testing.T) {
	for kind := codec.None; kind <= codec.Zstd; kind++ {
		b := build(kind, 9, 3*windowSize)
		got, out, err := Rewrite(append(make([]byte, 0, 1<<20), "before"...), b, RewriteOptions{Most: HeaderSize + 10}, func(o Offset, _ Key, _ bool) bool { return o != 3 })
		if err != nil {
			t.Fatal(err)
		}
		if kind == codec.None {
			if out.Overgrown || out.Kept != 8 {
				t.Errorf("a plain batch cannot grow: %+v", out)
			}
			continue
		}
		if !out.Overgrown || out.Read != 9 || out.Kept != 9 || out.Header != header(b) || !bytes.Equal(got, append([]byte("before"), b...)) {
			t.Errorf("%v: %+v", kind, out)
		}
	}
}
