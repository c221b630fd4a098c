package batch

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"testing"

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

// contents are what a batch's records say.
func contents(t testing.TB, b []byte) []Record {
	var out []Record
	for r, err := range Records(b, 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func TestUpgrade(t *testing.T) {
	for _, magic := range []int8{0, 1} {
		for _, kind := range setKinds {
			s := set(magic, kind, message{timestamp: now, key: []byte("k"), value: []byte("v")}, message{timestamp: now - 1, value: []byte{}}, message{timestamp: now + 1, key: []byte{}})
			for _, to := range []codec.Kind{-1, codec.None, codec.Gzip, codec.Zstd} {
				r := open()
				want := kind
				if to >= 0 {
					r.Recompress, r.Codec, want = true, to, to
				}
				c, err := Upgrade(append(s, s[:20]...), r)
				if err != nil {
					t.Errorf("magic %d, %v to %v: %v", magic, kind, to, err)
					continue
				}
				if h, err := ParseHeader(c.Batch); err != nil || h != c.Header || h.Size() != len(c.Batch) || CheckCRC(c.Batch) != nil {
					t.Errorf("magic %d, %v to %v: header %+v, %v, told %+v", magic, kind, to, h, err, c.Header)
				}
				if c.Header.Count != 3 || c.Header.Attributes != Attributes(want) || c.Header.LastOffsetDelta != 2 || c.Header.HasProducer() || c.AppendTime != -1 {
					t.Errorf("magic %d, %v to %v: %+v", magic, kind, to, c)
				}
				times := map[int8][]int64{0: {-1, -1, -1}, 1: {now, now - 1, now + 1}}[magic]
				most, place := now+1, int32(2)
				if magic == 0 {
					most, place = -1, 0
				}
				if c.MaxTimestamp != most || c.Header.MaxTimestamp != most || c.OffsetOfMaxTimestamp != place {
					t.Errorf("magic %d, %v to %v: largest timestamp %d at %d", magic, kind, to, c.MaxTimestamp, c.OffsetOfMaxTimestamp)
				}
				got := contents(t, c.Batch)
				for i, w := range []Record{{Key: []byte("k"), Value: []byte("v")}, {Value: []byte{}}, {Key: []byte{}}} {
					g := got[i]
					if !bytes.Equal(g.Key, w.Key) || (g.Key == nil) != (w.Key == nil) || !bytes.Equal(g.Value, w.Value) || (g.Value == nil) != (w.Value == nil) || g.Timestamp != times[i] || g.Offset != Offset(i) {
						t.Errorf("magic %d, %v to %v, record %d: %+v", magic, kind, to, i, g)
					}
				}
				r.Timestamps, r.Now = LogAppendTime, now+7
				if c, err = Upgrade(s, r); err != nil || !c.Header.Attributes.LogAppendTime() || c.MaxTimestamp != now+7 || c.AppendTime != now+7 || c.OffsetOfMaxTimestamp != 0 {
					t.Errorf("LogAppendTime: %+v, %v", c, err)
				}
			}
		}
	}
	// A batch of magic 2 is what Validate makes of it.
	if c, err := Upgrade(build(codec.Gzip, 2, 3), open()); err != nil || c.Header.Count != 2 {
		t.Errorf("magic 2: %+v, %v", c, err)
	}
}

func TestUpgradeRefuses(t *testing.T) {
	one := message{timestamp: now, key: []byte("k"), value: []byte("v")}
	flip := func(b []byte, i int) []byte { b = bytes.Clone(b); b[(i+len(b))%len(b)] ^= 1; return b }
	inner := func(magic int8, b []byte) []byte {
		packed, _ := codec.Compress(codec.Gzip, nil, b, 0)
		return appendMessage(nil, &message{magic: magic, flags: 1, value: packed})
	}
	at := func(offset Offset, b []byte) []byte { binary.BigEndian.PutUint64(b, uint64(offset)); return b }
	// form sets bytes of a message and its checksum.
	form := func(b []byte, i int, with ...byte) []byte {
		copy(b[i:], with)
		binary.BigEndian.PutUint32(b[atMessageCRC:], crc32.ChecksumIEEE(b[atMagic:]))
		return b
	}
	flagged := message{timestamp: now, flags: setAppendTime, key: []byte("k")}
	keyless, late := message{timestamp: now}, message{timestamp: now + 1<<50, key: []byte("k")}
	nested := message{magic: 1, flags: 1, value: []byte("v")}
	large := message{timestamp: now, key: []byte("k"), value: make([]byte, 3*windowSize)}
	strict := open()
	strict.AfterMax = 1000
	compacted := strict
	compacted.Compacted = true
	small := open()
	small.MaxBytes = 100
	short := open()
	short.MaxRecordBytes = 1000
	segment := open()
	segment.SegmentBytes = 80
	append1 := open()
	append1.Timestamps = LogAppendTime
	wide := func(b []byte) []byte { return inner(1, b) }
	for name, c := range map[string]struct {
		set   []byte
		rules Rules
		want  Kind
	}{
		"a changed byte":                  {flip(set(1, codec.None, one), -1), open(), Corrupt},
		"a changed byte, packed":          {inner(1, flip(set(1, codec.None, one), -1)), open(), Corrupt},
		"a changed byte, packed and big":  {inner(1, flip(set(1, codec.None, large), -1)), open(), Corrupt},
		"not gzip":                        {appendMessage(nil, &message{magic: 1, flags: 1, value: []byte("v")}), open(), Undecompressable},
		"half of gzip":                    {appendMessage(nil, &message{magic: 1, flags: 1, value: inner(1, set(1, codec.None, one))[34:60]}), open(), Undecompressable},
		"zstd":                            {appendMessage(nil, &message{magic: 1, flags: 4, value: []byte("v")}), open(), InvalidRecord},
		"codec 6":                         {appendMessage(nil, &message{magic: 1, flags: 6, value: []byte("v")}), open(), Undecompressable},
		"null packed":                     {appendMessage(nil, &message{magic: 1, flags: 1}), open(), InvalidRecord},
		"nothing packed":                  {inner(1, nil), open(), InvalidRecord},
		"two magics":                      {append(set(1, codec.None, one), set(0, codec.None, one)...), open(), InvalidRecord},
		"another magic inside":            {inner(1, set(0, codec.None, one)), open(), InvalidRecord},
		"packed within packed":            {inner(1, appendMessage(nil, &nested)), open(), InvalidRecord},
		"two packed":                      {append(set(1, codec.Gzip, one), set(1, codec.Gzip, one)...), open(), InvalidRecord},
		"packed behind plain":             {append(set(1, codec.None, one), set(1, codec.Gzip, one)...), open(), InvalidRecord},
		"nothing but half a message":      {inner(1, set(1, codec.None, one)[:20]), open(), InvalidRecord},
		"a big message cut":               {inner(1, set(1, codec.None, large)[:2*windowSize]), open(), InvalidRecord},
		"a packed length too small":       {inner(1, make([]byte, 30)), open(), Corrupt},
		"a batch behind a message":        {append(set(1, codec.None, one), build(codec.None, 1, 1)...), open(), InvalidRecord},
		"two batches":                     {append(build(codec.None, 1, 1), build(codec.None, 1, 1)...), open(), InvalidRecord},
		"a batch not at 0":                {at(3, build(codec.None, 1, 1)), open(), InvalidRecord},
		"an outer offset too small":       {at(1, inner(1, append(set(1, codec.None, one), at(5, set(1, codec.None, one))...))), open(), InvalidRecord},
		"a key beyond":                    {form(set(1, codec.None, one), keyInMagic1, 0, 0, 0, 90), open(), Undecompressable},
		"a value beyond":                  {form(set(0, codec.None, one), keyInMagic0+5, 0, 0, 0, 90), open(), Undecompressable},
		"a key beyond, packed":            {wide(form(set(1, codec.None, one), keyInMagic1, 0, 0, 0, 90)), open(), Undecompressable},
		"a key beyond, packed and big":    {wide(form(set(1, codec.None, large), keyInMagic1, 0x7f, 0, 0, 90)), open(), Undecompressable},
		"a value short, packed and big":   {wide(form(set(1, codec.None, large), keyInMagic1+5, 0, 0, 0, 9)), open(), Undecompressable},
		"flagged, topic of create time":   {set(1, codec.None, message{timestamp: -1, flags: setAppendTime}), open(), InvalidTimestamp},
		"flagged, topic of append time":   {set(1, codec.None, flagged), append1, InvalidTimestamp},
		"too late":                        {set(1, codec.None, one, late), strict, InvalidTimestamp},
		"too late, packed":                {set(1, codec.Gzip, one, late), strict, InvalidTimestamp},
		"keyless":                         {set(1, codec.None, one, keyless), compacted, InvalidRecord},
		"keyless before too late":         {set(1, codec.None, keyless, late), compacted, InvalidRecord},
		"keyless and too late, packed":    {set(1, codec.Gzip, keyless, late), compacted, InvalidTimestamp},
		"keyless and big":                 {set(1, codec.Gzip, message{timestamp: now, value: make([]byte, 3*windowSize)}), compacted, InvalidRecord},
		"too late before a changed byte":  {inner(1, append(set(1, codec.None, late), flip(set(1, codec.None, one), -1)...)), strict, Corrupt},
		"a changed byte before no length": {inner(1, append(flip(set(1, codec.None, one), -1), make([]byte, 30)...)), open(), Corrupt},
		"a message too large":             {set(1, codec.None, message{value: make([]byte, 90)}), small, TooLarge},
		"messages too large together":     {set(1, codec.None, message{value: make([]byte, 50)}, message{value: make([]byte, 50)}), small, TooLarge},
		"a packed message too long":       {set(1, codec.Gzip, message{value: make([]byte, 2000)}), short, InvalidRecord},
		"above the segment":               {set(1, codec.None, one, one, one), segment, TooLargeForSegment},
	} {
		if got, err := Upgrade(c.set, c.rules); kindOf(err) != c.want {
			t.Errorf("%s: %d bytes, %v (kind %d), want kind %d", name, len(got.Batch), err, kindOf(err), c.want)
		}
	}
	for _, s := range [][]byte{nil, {1, 2, 3}, set(1, codec.None, one)[:20]} {
		if c, err := Upgrade(s, open()); c.Batch != nil || err != nil {
			t.Errorf("no whole message: %v, %v", c, err)
		}
	}
}

// TestShapeOld: what a whole request is refused for, by its first message or by any.
func TestShapeOld(t *testing.T) {
	one := set(1, codec.None, message{timestamp: now, key: []byte("k"), value: []byte("v")})
	none := func(b []byte) []byte { b = bytes.Clone(b); b[atLength+3] = 13; return b }
	called := func(b []byte, magic byte) []byte { b = bytes.Clone(b); b[atMagic] = magic; return b }
	longer := set(1, codec.None, message{timestamp: now, value: make([]byte, 40)})
	for name, c := range map[string]struct {
		set        []byte
		first, all Kind
	}{
		"one":                              {one, 0, 0},
		"one and half of one":              {append(bytes.Clone(one), one[:20]...), 0, 0},
		"none":                             {nil, 0, 0},
		"no length":                        {none(one), Corrupt, Corrupt},
		"no length behind one":             {append(bytes.Clone(one), none(one)...), 0, Corrupt},
		"magic 3 behind one":               {append(bytes.Clone(one), called(one, 3)...), 0, Corrupt},
		"a batch without a producer's id":  {called(one, 2), 0, Undecompressable},
		"such a batch behind one":          {append(bytes.Clone(one), called(one, 2)...), 0, Undecompressable},
		"a batch up to some producer's id": {called(longer, 2), 0, 0},
		"a batch":                          {build(codec.None, 1, 1), 0, 0},
	} {
		first, all := ShapeOld(c.set), ShapeOldSet(c.set)
		if kindOf(first) != c.first || kindOf(all) != c.all {
			t.Errorf("%s: %v and %v, want kinds %d and %d", name, first, all, c.first, c.all)
		}
		var refused *Error
		if errors.As(all, &refused) && !refused.Request {
			t.Errorf("%s: only the partition is refused", name)
		}
	}
}

// TestUpgradeTakes: what looks odd and is good all the same.
func TestUpgradeTakes(t *testing.T) {
	one := message{timestamp: now, key: []byte("k"), value: []byte("v")}
	gz := func(outer message, b []byte) []byte {
		outer.value, _ = codec.Compress(codec.Gzip, nil, b, 0)
		outer.magic, outer.flags = 1, outer.flags|1
		return appendMessage(nil, &outer)
	}
	two := set(1, codec.None, one, one)
	big := message{timestamp: now - 5, key: make([]byte, 2*windowSize), value: bytes.Repeat([]byte("x"), 3*windowSize)}
	odd := message{timestamp: now, value: []byte{}}
	for name, c := range map[string]struct {
		set    []byte
		count  int
		latest int64
	}{
		"a packed set that is cut":     {gz(message{}, append(bytes.Clone(two), two[:30]...)), 2, now},
		"a packed set that ends early": {gz(message{}, append(bytes.Clone(two), 1, 2, 3)), 2, now},
		"an append time of its own":    {gz(message{timestamp: now + 9, flags: setAppendTime}, two), 2, now + 9},
		"one flagged":                  {set(1, codec.None, message{timestamp: now, flags: setAppendTime}, message{timestamp: now + 3}), 2, now + 3},
		"larger than the window":       {gz(message{}, set(1, codec.None, one, big, odd)), 3, now},
		"large with a null value":      {gz(message{}, set(1, codec.None, message{timestamp: now, key: big.key}, one)), 2, now},
	} {
		got, err := Upgrade(c.set, open())
		if err != nil || int(got.Header.Count) != c.count || got.MaxTimestamp != c.latest {
			t.Errorf("%s: %+v, %v", name, got.Header, err)
			continue
		}
		contents(t, got.Batch)
	}
	got, err := Upgrade(gz(message{}, set(1, codec.None, one, big, odd)), open())
	if err != nil {
		t.Fatal(err)
	}
	// A null is any negative length.
	under := func(ms message, keyLen, valueLen int32) []byte {
		b := appendMessage(nil, &ms)
		binary.BigEndian.PutUint32(b[keyInMagic1:], uint32(keyLen))
		if valueLen < 0 {
			binary.BigEndian.PutUint32(b[keyInMagic1+4+max(0, int(keyLen)):], uint32(valueLen))
		}
		binary.BigEndian.PutUint32(b[atMessageCRC:], crc32.ChecksumIEEE(b[atMagic:]))
		return b
	}
	for name, m := range map[string][]byte{
		"key":   under(message{magic: 1, timestamp: now, value: big.value}, -100, 0),
		"value": under(message{magic: 1, timestamp: now, key: big.key}, int32(len(big.key)), -100),
	} {
		for _, b := range [][]byte{m, gz(message{}, m)} {
			got, err := Upgrade(b, open())
			if err != nil {
				t.Errorf("a %s of length -100: %v", name, err)
				continue
			}
			if r := contents(t, got.Batch); name == "key" && r[0].Key != nil || name == "value" && r[0].Value != nil {
				t.Errorf("a %s of length -100 is not null", name)
			}
			if _, err := Validate(got.Batch, open()); err != nil {
				t.Errorf("a %s of length -100 makes a batch that is refused: %v", name, err)
			}
		}
	}
	if r := contents(t, got.Batch); !bytes.Equal(r[1].Key, big.key) || !bytes.Equal(r[1].Value, big.value) || r[1].Timestamp != now-5 || r[2].Value == nil {
		t.Error("a message larger than the window is not what it was")
	}
}

// TestOldBombs: what unpacks to much is refused, or passes, in little memory.
func TestOldBombs(t *testing.T) {
	inner := appendMessage(nil, &message{magic: 1, timestamp: now, key: []byte("k"), value: make([]byte, 16<<20)})
	packed, err := codec.Compress(codec.Gzip, nil, inner, 0)
	if err != nil {
		t.Fatal(err)
	}
	bomb := appendMessage(nil, &message{magic: 1, flags: 1, value: packed})
	inner = nil
	sc := &Scratch{}
	for _, to := range []codec.Kind{codec.None, codec.Gzip, codec.LZ4} {
		r := open()
		r.MaxBytes, r.Recompress, r.Codec, r.Scratch = 1<<20, true, to, sc
		if _, err := Upgrade(bomb, r); to == codec.None && kindOf(err) != TooLarge || to != codec.None && err != nil {
			t.Errorf("to %v: %v", to, err)
		}
		if n := allocated(func() { Upgrade(bomb, r) }); n > 8<<20 {
			t.Errorf("to %v: %d bytes for a set of %d", to, n, len(bomb))
		}
	}
	r := open()
	c, err := Upgrade(bomb, r)
	if err != nil {
		t.Fatal(err)
	}
	d := Downgrader{Magic: 1, Limit: 1 << 20, Scratch: sc}
	if n := allocated(func() { _, err = d.Downgrade(nil, c.Batch) }); !errors.Is(err, ErrTooLargeToDowngrade) || n > 4<<20 {
		t.Errorf("a large record: %v, %d bytes", err, n)
	}
	// Many small records, each of which gets a checksum of its own.
	u := NewBuilder(BuilderOptions{Codec: codec.Gzip})
	for i := range 60_000 {
		u.Add(now+int64(i%7), nil, nil)
	}
	many := u.Bytes()
	u, d.Limit = nil, 1<<16
	if n := allocated(func() { _, err = d.Downgrade(nil, many) }); !errors.Is(err, ErrTooLargeToDowngrade) || n > 8<<20 {
		t.Errorf("many records in %d bytes: %v, %d bytes", len(many), err, n)
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}

func FuzzUpgrade(f *testing.F) {
	for _, magic := range []int8{0, 1} {
		for _, kind := range setKinds {
			f.Add(set(magic, kind, message{timestamp: now, key: []byte("k"), value: []byte("v")}, message{timestamp: now}), false, int8(0))
		}
	}
	f.Add(set(1, codec.Gzip, message{timestamp: now, value: make([]byte, 3*windowSize)}), true, int8(3))
	f.Add(build(codec.None, 2, 3), false, int8(0))
	f.Fuzz(func(t *testing.T, s []byte, right bool, to int8) {
		if right && len(s) > toMagic {
			// With a right checksum the rest is reached.
			s = bytes.Clone(s)
			binary.BigEndian.PutUint32(s[atMessageCRC:], crc32.ChecksumIEEE(s[atMagic:]))
		}
		r := open()
		r.MaxBytes, r.MaxRecordBytes = 1<<20, 1<<20
		if k := codec.Kind(to); to != 0 && k.Valid() {
			r.Recompress, r.Codec = true, k
		}
		c, err := Upgrade(s, r)
		if err != nil || c.Batch == nil {
			return
		}
		if h, err := ParseHeader(c.Batch); err != nil || h != c.Header || h.Size() != len(c.Batch) || CheckCRC(c.Batch) != nil {
			t.Fatalf("%+v, %v, told %+v", h, err, c.Header)
		}
		// What was made is good by the rules that it was made by.
		r.MaxBytes, r.Recompress = 0, false
		if _, err := Validate(bytes.Clone(c.Batch), r); err != nil {
			t.Fatal(err)
		}
		if c.Header.Attributes.Codec() == codec.Zstd {
			return
		}
		d := Downgrader{Magic: 1}
		out, err := d.Downgrade(nil, c.Batch)
		if err != nil {
			t.Fatal(err)
		}
		if got := unset(t, out, 1); len(got) != int(c.Header.Count) {
			t.Fatalf("%d messages of %d records", len(got), c.Header.Count)
		}
	})
}

// BenchmarkOldSets converts a batch of a thousand records to a message set and back.
func BenchmarkOldSets(b *testing.B) {
	for _, kind := range setKinds {
		u := NewBuilder(BuilderOptions{Codec: kind})
		for i := range 1000 {
			u.Add(now, []byte("key"), fmt.Appendf(nil, "a value of usual length, number %d", i))
		}
		size := int64(u.Size()) // as it is before it is compressed
		stored, d := u.Bytes(), Downgrader{Magic: 1, Scratch: &Scratch{}}
		set, err := d.Downgrade(nil, stored)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("down/"+kind.String(), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(size)
			room := set
			for b.Loop() {
				room, _ = d.Downgrade(room[:0], stored)
			}
		})
		b.Run("up/"+kind.String(), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(size)
			r := open()
			r.Scratch = d.Scratch
			set := bytes.Clone(set)
			for b.Loop() {
				if _, err := Upgrade(set, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
