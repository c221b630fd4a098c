package batch

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"millrace/storage/codec"
)

// unset reads a message set the way a client of that time does.
func unset(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, b []byte, magic int8) []message {
	var out []message
	for len(b) > 0 {
		size, err := entry(b)
		if err != nil || size == 0 {
			t.Fatalf("%d bytes left: %v", len(b), err)
		}
		if err := messageCRC(b[:size]); err != nil {
			t.Fatal(err)
		}
		m, ferr := parseMessage(b[:size])
		if ferr != nil || m.magic != magic {
			t.Fatalf("magic %d: %v", m.magic, ferr)
		}
		b = b[size:]
		if m.codec() == codec.None {
			out = append(out, m)
			continue
		}
		src, err2 := new(codec.Decoders).Open(m.codec(), m.value)
		if magic == 0 && m.codec() == codec.LZ4 {
			src, err2 = new(codec.Decoders).OpenLegacyLZ4(m.value)
		}
		if err2 != nil {
			t.Fatal(err2)
		}
		plain, err2 := io.ReadAll(src)
		if err2 != nil {
			t.Fatal(err2)
		}
		inner := unset(t, plain, magic)
		if magic == 1 {
			last := inner[len(inner)-1].offset
			for i := range inner {
				inner[i].offset += m.offset - last
			}
		}
		out = append(out, inner...)
	}
	return out
}

func TestDowngrade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		magic := int8(rapid.IntRange(0, 1).Draw(t, "magic"))
		var records []byte
		var want []message
		base := Offset(rapid.IntRange(0, 100).Draw(t, "base"))
		d := Downgrader{Magic: magic, From: base + Offset(rapid.IntRange(0, 10).Draw(t, "from"))}
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			o := BuilderOptions{Base: base, Codec: rapid.SampledFrom(setKinds).Draw(t, "codec"), Control: rapid.IntRange(0, 5).Draw(t, "control") == 0}
			u := NewBuilder(o)
			for i := range rapid.IntRange(1, 5).Draw(t, "records") {
				m := message{offset: base + Offset(i), timestamp: now + int64(rapid.IntRange(-9, 9).Draw(t, "time")), value: rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "value")}
				if rapid.Bool().Draw(t, "key") {
					m.key = []byte("key")
				}
				u.Add(m.timestamp, m.key, m.value, RecordHeader{Key: "lost"})
				if magic == 0 {
					m.timestamp = -1
				}
				if !o.Control && (o.Codec != codec.None || m.offset >= d.From) {
					want = append(want, m)
				}
			}
			base += Offset(u.Len())
			records = append(records, u.Bytes()...)
		}
		got := []byte("before")
		for b := records; len(b) > 0; {
			h, err := ParseHeader(b)
			if err == nil {
				got, err = d.Downgrade(got, b[:h.Size()])
			}
			if err != nil || !bytes.HasPrefix(got, []byte("before")) {
				t.Fatal(err)
			}
			b = b[h.Size():]
		}
		ms := unset(t, got[6:], magic)
		if len(ms) != len(want) {
			t.Fatalf("%d messages, want %d", len(ms), len(want))
		}
		for i, m := range ms {
			w := want[i]
			if m.offset != w.offset || m.timestamp != w.timestamp || !bytes.Equal(m.key, w.key) || (m.key == nil) != (w.key == nil) || !bytes.Equal(m.value, w.value) {
				t.Fatalf("message %d is %+v, want %+v", i, m, w)
			}
		}
	})
	d := Downgrader{Magic: 1}
	if _, err := d.Downgrade(nil, build(codec.Zstd, 1, 1)); kindOf(err) != UnsupportedCompression {
		t.Errorf("zstd: %v", err)
	}
	for _, kind := range setKinds {
		lat := NewBuilder(BuilderOptions{Timestamps: LogAppendTime, Codec: kind})
		lat.Add(now, nil, []byte("v"))
		lat.Add(now+4, nil, []byte("w"))
		b, err := d.Downgrade(nil, lat.Bytes())
		if err != nil || b[atMessageFlags] != setAppendTime|byte(kind) {
			t.Fatalf("LogAppendTime: %x, %v", b, err)
		}
		for _, m := range unset(t, b, 1) {
			if m.timestamp != now+4 || !m.appendTime() {
				t.Errorf("LogAppendTime, %v: %+v", kind, m)
			}
		}
	}
	for _, b := range [][]byte{nil, build(codec.None, 1, 1)[:70], set(1, codec.None, message{})} {
		if out, err := d.Downgrade([]byte("x"), b); err == nil || string(out) != "x" {
			t.Errorf("no whole batch: %q, %v", out, err)
		}
	}
}

// TestDowngradeSparse: what compaction left keeps its offsets.
func TestDowngradeSparse(t *testing.T) {
	for _, kind := range setKinds {
		// Records of a batch at 100 whose deltas are 2, 3 and 7, of 0 to 9.
		var body []byte
		for _, delta := range []int32{2, 3, 7} {
			rec := appendVarint([]byte{0, 0}, delta)
			rec = append(rec, 1, 2, 'v', 0) // null key, value of one byte, no headers
			body = append(appendVarint(body, int32(len(rec))), rec...)
		}
		packed, err := codec.Compress(kind, nil, body, 0)
		if err != nil {
			t.Fatal(err)
		}
		b := append(make([]byte, HeaderSize), packed...)
		Header{BaseOffset: 100, Length: int32(len(b) - LengthOverhead), Magic: Magic, Attributes: Attributes(kind), LastOffsetDelta: 9, BaseTimestamp: now, MaxTimestamp: now, Count: 3}.put(b)
		for magic := range int8(2) {
			d := Downgrader{Magic: magic, From: 103}
			out, err := d.Downgrade(nil, b)
			if err != nil {
				t.Fatal(err)
			}
			var got []Offset
			for _, m := range unset(t, out, magic) {
				got = append(got, m.offset)
			}
			want := []Offset{103, 107}
			if kind != codec.None {
				want = []Offset{102, 103, 107}
			}
			if !slices.Equal(got, want) {
				t.Errorf("magic %d, %v: offsets %v, want %v", magic, kind, got, want)
			}
		}
	}
}

// FuzzDowngrade: a stored batch is one that Validate took, but disks tell lies; nothing but an error comes of one.
func FuzzDowngrade(f *testing.F) {
	for _, kind := range setKinds {
		f.Add(build(kind, 3, 5), int8(0), int64(1))
		f.Add(build(kind, 1, 300), int8(1), int64(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, magic int8, from int64) {
		if len(b) < HeaderSize || header(b).Count > 1<<16 {
			return
		}
		d := Downgrader{Magic: magic & 1, From: Offset(from), Limit: 1 << 18}
		out, err := d.Downgrade([]byte("x"), b)
		if err != nil {
			if string(out) != "x" {
				t.Fatalf("%q is left", out)
			}
			return
		}
		if n := len(unset(t, out[1:], magic&1)); n > max(0, int(header(b).Count)) {
			t.Fatalf("%d messages of %d records", n, header(b).Count)
		}
	})
}
