package batch

import (
	"bytes"
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"

	"millrace/storage/codec"
)

// set packs messages the way a client of that magic does.
func set(magic int8, kind codec.Kind, ms ...message) []byte {
	var b []byte
	for i := range ms {
		ms[i].magic = magic
		b = appendMessage(b, &ms[i])
	}
	if kind == codec.None {
		return b
	}
	packed, err := codec.Compress(kind, nil, b, 0)
	if err != nil {
		panic(err)
	}
	if magic == 0 && kind == codec.LZ4 {
		codec.SpoilLZ4Header(packed)
	}
	return appendMessage(nil, &message{magic: magic, flags: byte(kind), timestamp: now, value: packed})
}

var setKinds = []codec.Kind{codec.None, codec.Gzip, codec.Snappy, codec.LZ4}

// TestMessageBytes holds the format to bytes that Kafka's documentation of it gives.
func TestMessageBytes(t *testing.T) {
	m0 := appendMessage(nil, &message{offset: 5, key: nil, value: []byte("v")})
	if got := hex.EncodeToString(m0); got != "0000000000000005"+"0000000f"+hex.EncodeToString(m0[12:16])+"00"+"00"+"ffffffff"+"00000001"+"76" {
		t.Errorf("magic 0: %s", got)
	}
	m1 := appendMessage(nil, &message{offset: 5, magic: 1, timestamp: 7, key: []byte("k"), value: nil})
	if got := hex.EncodeToString(m1); got != "0000000000000005"+"00000017"+hex.EncodeToString(m1[12:16])+"01"+"00"+"0000000000000007"+"00000001"+"6b"+"ffffffff" {
		t.Errorf("magic 1: %s", got)
	}
	lz := set(0, codec.LZ4, message{value: []byte("v")})
	m, err := parseMessage(lz)
	if err != nil || m.value[6] != 0x1a {
		t.Errorf("lz4 in magic 0: header checksum %#x, %v", m.value[6], err)
	}
}

func TestUpgrade(t *testing.T) {
	for _, magic := range []int8{0, 1} {
		for _, kind := range setKinds {
			s := set(magic, kind, message{timestamp: now, key: []byte("k"), value: []byte("v")}, message{timestamp: now - 1, value: []byte{}}, message{timestamp: now + 1, key: []byte("k")})
			b, err := Upgrade(append(s, s[:20]...), open(), 1<<20)
			if err != nil {
				t.Errorf("magic %d, %v: %v", magic, kind, err)
				continue
			}
			c, err := Validate(b, open())
			if err != nil || c.Header.Count != 3 || c.Header.Attributes.Codec() != kind {
				t.Errorf("magic %d, %v: %+v, %v", magic, kind, c.Header, err)
			}
			if want := map[int8]int64{0: -1, 1: now + 1}[magic]; c.MaxTimestamp != want {
				t.Errorf("magic %d, %v: largest timestamp %d, want %d", magic, kind, c.MaxTimestamp, want)
			}
			r := open()
			r.Recompress, r.Codec = true, codec.Zstd
			if b, err = Upgrade(s, r, 1<<20); err != nil {
				t.Errorf("to zstd: %v", err)
			} else if c, err = Validate(b, r); err != nil || c.Header.Attributes.Codec() != codec.Zstd {
				t.Errorf("to zstd: %+v, %v", c.Header, err)
			}
			r = open()
			r.Compacted = true
			if b, err = Upgrade(s, r, 1<<20); err != nil {
				t.Error(err)
			} else if _, err = Validate(b, r); kindOf(err) != InvalidRecord {
				t.Errorf("a null key in a compacted topic: %v", err)
			}
		}
	}
}

func TestUpgradeRefuses(t *testing.T) {
	one := message{timestamp: now, key: []byte("k"), value: []byte("v")}
	flip := func(b []byte, i int) []byte { b = bytes.Clone(b); b[(i+len(b))%len(b)] ^= 1; return b }
	inner := func(magic int8, b []byte) []byte {
		packed, _ := codec.Compress(codec.Gzip, nil, b, 0)
		return appendMessage(nil, &message{magic: magic, flags: 1, value: packed})
	}
	nested := message{magic: 1, flags: 1, value: []byte("v")}
	for name, c := range map[string]struct {
		set  []byte
		want Kind
	}{
		"a changed byte":             {flip(set(1, codec.None, one), -1), Corrupt},
		"a changed byte, packed":     {inner(1, flip(set(1, codec.None, one), -1)), Corrupt},
		"not gzip":                   {appendMessage(nil, &message{magic: 1, flags: 1, value: []byte("v")}), Undecompressable},
		"zstd":                       {appendMessage(nil, &message{magic: 1, flags: 4, value: []byte("v")}), UnsupportedCompression},
		"codec 6":                    {appendMessage(nil, &message{magic: 1, flags: 6, value: []byte("v")}), Undecompressable},
		"null packed":                {appendMessage(nil, &message{magic: 1, flags: 1}), InvalidRecord},
		"nothing packed":             {inner(1, nil), InvalidRecord},
		"two magics":                 {append(set(1, codec.None, one), set(0, codec.None, one)...), InvalidRecord},
		"another magic inside":       {inner(1, set(0, codec.None, one)), InvalidRecord},
		"packed within packed":       {inner(1, appendMessage(nil, &nested)), InvalidRecord},
		"two packed":                 {append(set(1, codec.Gzip, one), set(1, codec.Gzip, one)...), InvalidRecord},
		"packed behind plain":        {append(set(1, codec.None, one), set(1, codec.Gzip, one)...), InvalidRecord},
		"cut within packed":          {inner(1, set(1, codec.None, one)[:20]), InvalidRecord},
		"a length cut within packed": {inner(1, set(1, codec.None, one)[:9]), Corrupt},
		"a batch behind a message":   {append(set(1, codec.None, one), build(codec.None, 1, 1)...), InvalidRecord},
		"too much unpacked":          {set(1, codec.Gzip, message{value: make([]byte, 2000)}), Corrupt},
		"too much unpacked in all":   {set(1, codec.Gzip, message{value: make([]byte, 600)}, message{value: make([]byte, 600)}), TooLarge},
	} {
		if b, err := Upgrade(c.set, open(), 1000); kindOf(err) != c.want {
			t.Errorf("%s: %d bytes, %v (kind %d), want kind %d", name, len(b), err, kindOf(err), c.want)
		}
	}
	for _, s := range [][]byte{nil, {1, 2, 3}, set(1, codec.None, one)[:20]} {
		if b, err := Upgrade(s, open(), 1000); b != nil || err != nil {
			t.Errorf("no whole message: %v, %v", b, err)
		}
	}
}

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
		m, ferr := parseMessage(b[:size])
		if ferr != nil || m.magic != magic {
			t.Fatalf("magic %d: %v", m.magic, ferr)
		}
		b = b[size:]
		if m.codec() == codec.None {
			out = append(out, m)
			continue
		}
		var inner []message
		if ferr := unpackSet(&m, nil, 1<<30, func(x *message) *Error {
			y := *x
			y.key, y.value = bytes.Clone(x.key), bytes.Clone(x.value)
			inner = append(inner, y)
			return nil
		}); ferr != nil {
			t.Fatal(ferr)
		}
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
				if !o.Control {
					want = append(want, m)
				}
			}
			base += Offset(u.Len())
			records = append(records, u.Bytes()...)
		}
		if rapid.Bool().Draw(t, "cut") {
			records = append(records, records[:min(len(records)-1, 70)]...)
		}
		got, err := Downgrade([]byte("before"), records, magic, nil)
		if err != nil || !bytes.HasPrefix(got, []byte("before")) {
			t.Fatal(err)
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
	if _, err := Downgrade(nil, build(codec.Zstd, 1, 1), 1, nil); kindOf(err) != UnsupportedCompression {
		t.Errorf("zstd: %v", err)
	}
	lat := NewBuilder(BuilderOptions{Timestamps: LogAppendTime})
	lat.Add(now, nil, []byte("v"))
	b, err := Downgrade(nil, lat.Bytes(), 1, nil)
	if err != nil || b[atMessageFlags] != setAppendTime {
		t.Errorf("LogAppendTime: %x, %v", b, err)
	}
}

func FuzzUpgrade(f *testing.F) {
	for _, magic := range []int8{0, 1} {
		for _, kind := range setKinds {
			f.Add(set(magic, kind, message{timestamp: now, key: []byte("k"), value: []byte("v")}, message{timestamp: now}))
		}
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		b, err := Upgrade(s, open(), 1<<20)
		if err != nil || b == nil {
			return
		}
		c, err := Validate(b, open())
		if err != nil {
			if kindOf(err) != InvalidTimestamp {
				t.Fatal(err)
			}
			return
		}
		if _, err := Downgrade(nil, c.Batch, 1, nil); err != nil {
			t.Fatal(err)
		}
	})
}
