package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"millrace/storage/codec"
)

// edit changes a batch's header and gives it a right checksum.
func edit(b []byte, f func(h *Header)) []byte {
	b = bytes.Clone(b)
	h := header(b)
	f(&h)
	h.put(b)
	setCRC(b)
	return b
}

// raw makes a batch of the given bytes of records.
func raw(kind codec.Kind, count int32, records []byte) []byte {
	packed, err := codec.Compress(kind, nil, records, 0)
	if err != nil {
		panic(err)
	}
	return packedBatch(kind, count, packed)
}

func packedBatch(kind codec.Kind, count int32, packed []byte) []byte {
	b := append(make([]byte, HeaderSize), packed...)
	h := Header{Length: int32(len(b) - LengthOverhead), Magic: Magic, Attributes: Attributes(kind), LastOffsetDelta: count - 1, Count: count, BaseTimestamp: now, MaxTimestamp: now, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}
	h.put(b)
	setCRC(b)
	return b
}

// one is a record with key "k", value "v" and no headers.
var one = []byte{16, 0, 0, 0, 2, 'k', 2, 'v', 0}

// two is one with offset delta 1.
var two = []byte{16, 0, 0, 2, 2, 'k', 2, 'v', 0}

func kindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

// TestHeaderRules is what Kafka refuses before it looks at a record, in its order: each case breaks a later rule too
// where it can.
func TestHeaderRules(t *testing.T) {
	good := build(codec.None, 3, 10)
	small := open()
	small.MaxBytes = len(good) - 1
	segment := open()
	segment.SegmentBytes = len(good) - 1
	flip := bytes.Clone(good)
	flip[len(flip)-1] ^= 1
	based := edit(good, func(h *Header) { h.BaseOffset = 1 })
	based[20] ^= 1 // the checksum
	for _, c := range []struct {
		name string
		b    []byte
		r    Rules
		want Kind
	}{
		{"good", good, open(), 0},
		{"base offset before checksum", based, open(), InvalidRecord},
		{"size before checksum", flip, small, TooLarge},
		{"checksum", flip, open(), Corrupt},
		{"segment size comes last", good, segment, TooLargeForSegment},
		{"cut", good[:len(good)-1], open(), Corrupt},
		{"codec 5", edit(good, func(h *Header) { h.Attributes |= 5 }), open(), Undecompressable},
		{"codec 7", edit(good, func(h *Header) { h.Attributes |= 7; h.Count = 0 }), open(), Undecompressable},
		{"codec that the data is not", edit(good, func(h *Header) { h.Attributes |= 4 }), open(), Undecompressable},
		{"no records", edit(good, func(h *Header) { h.Count, h.LastOffsetDelta = 0, -1 }), open(), InvalidRecord},
		{"count 0", edit(good, func(h *Header) { h.Count = 0 }), open(), InvalidRecord},
		{"count -1", edit(good, func(h *Header) { h.Count = -1 }), open(), InvalidRecord},
		{"count too small", edit(good, func(h *Header) { h.Count, h.LastOffsetDelta = 2, 1 }), open(), InvalidRecord},
		{"count too large", edit(good, func(h *Header) { h.Count, h.LastOffsetDelta = 4, 3 }), open(), InvalidRecord},
		{"count and last offset differ", edit(good, func(h *Header) { h.LastOffsetDelta = 3 }), open(), InvalidRecord},
		{"largest last offset", edit(good, func(h *Header) { h.LastOffsetDelta, h.Count = math.MaxInt32, math.MinInt32 }), open(), InvalidRecord},
		{"control batch", edit(good, func(h *Header) { h.Attributes |= controlBit }), open(), InvalidRecord},
		{"producer without a sequence", edit(good, func(h *Header) { h.ProducerID = 4 }), open(), InvalidRecord},
		{"producer with a sequence", edit(good, func(h *Header) { h.ProducerID, h.ProducerEpoch, h.BaseSequence = 4, 0, 0 }), open(), 0},
		{"sequence without a producer", edit(good, func(h *Header) { h.BaseSequence = 4 }), open(), 0},
		{"unused bits", edit(good, func(h *Header) { h.Attributes |= 0x7fc0 &^ deleteHorizonBit }), open(), 0},
	} {
		b := bytes.Clone(c.b)
		got, err := Validate(b, c.r)
		if kindOf(err) != c.want {
			t.Errorf("%s: %v (kind %d), want kind %d", c.name, err, kindOf(err), c.want)
		}
		if err == nil && !bytes.Equal(got.Batch, c.b) {
			t.Errorf("%s: the batch was changed", c.name)
		}
	}
}

// TestRebuilt is of batches that are compressed anew: what Kafka's builder of batches does not take, and does not carry over.
func TestRebuilt(t *testing.T) {
	good := build(codec.None, 3, 10)
	anew := open()
	anew.Recompress, anew.Codec = true, codec.Gzip
	for _, c := range []struct {
		name string
		b    []byte
		want Kind
	}{
		{"good", good, 0},
		{"a producer", edit(good, func(h *Header) { h.ProducerID, h.ProducerEpoch, h.BaseSequence = 4, 0, 0 }), 0},
		{"a producer without an epoch", edit(good, func(h *Header) { h.ProducerID, h.ProducerEpoch, h.BaseSequence = 4, -1, 0 }), Undecompressable},
		{"a timestamp below none", edit(good, func(h *Header) { h.BaseTimestamp = -50 }), Undecompressable},
		{"a delete horizon", edit(good, func(h *Header) { h.Attributes |= deleteHorizonBit }), 0},
	} {
		got, err := Validate(bytes.Clone(c.b), anew)
		if kindOf(err) != c.want {
			t.Errorf("%s: %v (kind %d), want kind %d", c.name, err, kindOf(err), c.want)
		}
		if err == nil && got.Header.Attributes != Attributes(codec.Gzip) {
			t.Errorf("%s: attributes %x", c.name, got.Header.Attributes)
		}
		if _, err := Validate(bytes.Clone(c.b), open()); err != nil {
			t.Errorf("%s, as it is: %v", c.name, err)
		}
	}
}

// TestRecordRules breaks records in every way there is, in every codec: a batch that is stored has to be readable.
func TestRecordRules(t *testing.T) {
	with := func(i int, v ...byte) []byte {
		b := bytes.Clone(one)
		return append(append(b[:i:i], v...), b[i+1:]...)
	}
	header := func(count byte, hs ...byte) []byte {
		b := append([]byte{0, 0, 0, 0, 2, 'k', 2, 'v', count}, hs...)
		b[0] = byte(len(b)-1) * 2
		return b
	}
	const scattered = Kind(-1) // offset deltas that are not 0, 1 and so on: fine in a plain batch, which is numbered anew
	for _, c := range []struct {
		name    string
		count   int32
		records []byte
		want    Kind
	}{
		{"one", 1, one, 0},
		{"two", 2, append(bytes.Clone(one), two...), 0},
		{"two that are one", 1, append(bytes.Clone(one), two...), InvalidRecord},
		{"one that is two", 2, one, InvalidRecord},
		{"none", 1, nil, InvalidRecord},
		{"the same offset twice", 2, append(bytes.Clone(one), one...), scattered},
		{"offsets backwards", 2, append(bytes.Clone(two), one...), scattered},
		{"first offset not 0", 1, two, scattered},
		{"a byte after the last", 1, append(bytes.Clone(one), 0), InvalidRecord},
		{"length 0", 1, []byte{0}, InvalidRecord},
		{"negative length", 1, with(0, 1), InvalidRecord},
		{"length too small", 1, with(0, 14), InvalidRecord},
		{"length too large", 1, with(0, 18), InvalidRecord},
		{"length cut", 1, []byte{0x80}, InvalidRecord},
		{"null key", 1, append([]byte{14, 0, 0, 0, 1}, one[6:]...), 0},
		{"key length -2", 1, append([]byte{14, 0, 0, 0, 3}, one[6:]...), 0}, // any negative length is null
		{"key too long", 1, with(4, 20), InvalidRecord},
		{"value too long", 1, with(6, 20), InvalidRecord},
		{"header count -1", 1, with(8, 1), InvalidRecord},
		{"header count without headers", 1, with(8, 2), InvalidRecord},
		{"a header", 1, header(2, 2, 'h', 2, 'v'), 0},
		{"a header with a null value", 1, header(2, 2, 'h', 1), 0},
		{"a header with an empty key", 1, header(2, 0, 0), 0},
		{"a header with a null key", 1, header(2, 1, 0), InvalidRecord},
		{"a header that is cut", 1, header(2, 4, 'h'), InvalidRecord},
		{"two headers that are one", 1, header(2, 2, 'h', 1, 2, 'h', 1), InvalidRecord},
		{"more headers than bytes", 1, header(0x7e, 2, 'h', 1), InvalidRecord},
		{"a timestamp of eleven bytes", 1, append([]byte{36, 0}, bytes.Repeat([]byte{0x80}, 17)...), InvalidRecord},
		{"an offset of six bytes", 1, append([]byte{36, 0, 0}, bytes.Repeat([]byte{0x80}, 16)...), InvalidRecord},
	} {
		for kind := codec.None; kind <= codec.Zstd; kind++ {
			b := raw(kind, c.count, c.records)
			_, err := Validate(b, open())
			want := c.want
			if want == scattered {
				if want = 0; kind != codec.None {
					want = Undecompressable
				}
			}
			if kind == codec.Snappy && c.records == nil {
				want = InvalidRecord
			}
			if kindOf(err) != want {
				t.Errorf("%s, %v: %v (kind %d), want kind %d", c.name, kind, err, kindOf(err), want)
			}
			n := 0
			var werr error
			for _, err := range Records(b, 0) {
				if err != nil {
					werr = err
					break
				}
				n++
			}
			if err == nil && (werr != nil || n != int(c.count)) {
				t.Errorf("%s, %v: accepted, but read as %d records, %v", c.name, kind, n, werr)
			}
		}
	}
	// Where Kafka fails outside its own checks it answers UNKNOWN_SERVER_ERROR.
	if _, err := Validate(raw(codec.None, 1, bytes.Repeat([]byte{0xff}, 20)), open()); kindOf(err) != Undecompressable {
		t.Errorf("a length of more than five bytes: %v", err)
	}
}

func TestTimestamps(t *testing.T) {
	at := func(ts ...int64) []byte {
		u := NewBuilder(BuilderOptions{})
		for _, x := range ts {
			u.Add(x, []byte("k"), nil)
		}
		return u.Bytes()
	}
	flagged := func(b []byte, max int64) []byte {
		return edit(b, func(h *Header) { h.Attributes |= logAppendTimeBit; h.MaxTimestamp = max })
	}
	bounded := open()
	bounded.BeforeMax, bounded.AfterMax = 1000, 500
	appendTime := open()
	appendTime.Timestamps = LogAppendTime
	for _, c := range []struct {
		name    string
		b       []byte
		r       Rules
		kind    Kind
		bad     []int32 // records in error
		max     int64   // as stored
		flag    bool
		changed bool
	}{
		{"now", at(now), bounded, 0, nil, now, false, false},
		{"the earliest", at(now - 1000), bounded, 0, nil, now - 1000, false, false},
		{"too early", at(now - 1001), bounded, InvalidTimestamp, []int32{0}, 0, false, false},
		{"the latest", at(now + 500), bounded, 0, nil, now + 500, false, false},
		{"too late", at(now, now+501, now, now+502), bounded, InvalidTimestamp, []int32{1, 3}, 0, false, false},
		{"none", at(-1), bounded, 0, nil, -1, false, false},
		{"none and one", at(-1, now), bounded, 0, nil, now, false, false},
		{"header with a wrong maximum", edit(at(now, now-5), func(h *Header) { h.MaxTimestamp = 5 }), bounded, 0, nil, now, false, true},
		{"flagged on a CreateTime topic", flagged(at(now), now-3), bounded, 0, nil, now - 3, false, true},
		{"flagged on a CreateTime topic, without a time", flagged(at(now), -1), bounded, InvalidTimestamp, []int32{0}, 0, false, false},
		{"LogAppendTime", at(now-99999999, -1), appendTime, 0, nil, now, true, true},
		{"flagged on a LogAppendTime topic", flagged(at(now), now), appendTime, InvalidTimestamp, []int32{0}, 0, false, false},
	} {
		b := bytes.Clone(c.b)
		got, err := Validate(b, c.r)
		var e *Error
		errors.As(err, &e)
		if kindOf(err) != c.kind {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if err != nil {
			var bad []int32
			for _, r := range e.Records {
				bad = append(bad, r.Index)
			}
			if len(bad) != len(c.bad) || bad[0] != c.bad[0] || e.Message != "One or more records have been rejected due to invalid timestamp" {
				t.Errorf("%s: %+v", c.name, e)
			}
			continue
		}
		h, perr := ParseHeader(b)
		if perr != nil || CheckCRC(b) != nil {
			t.Errorf("%s: left with %v, %v", c.name, perr, CheckCRC(b))
		}
		if h != got.Header || h.MaxTimestamp != c.max || got.MaxTimestamp != c.max || h.Attributes.LogAppendTime() != c.flag || bytes.Equal(b, c.b) == c.changed {
			t.Errorf("%s: %+v", c.name, h)
		}
		if want := int64(-1); c.r.Timestamps == LogAppendTime {
			want = now
			if got.AppendTime != want {
				t.Errorf("%s: append time %d", c.name, got.AppendTime)
			}
		} else if got.AppendTime != want {
			t.Errorf("%s: append time %d", c.name, got.AppendTime)
		}
	}
}

// TestMessages are the texts that a producer is shown.
func TestMessages(t *testing.T) {
	u := NewBuilder(BuilderOptions{})
	for i := range 5 {
		u.Add(now+int64(i), nil, []byte("v"))
	}
	b := u.Bytes()
	r := open()
	r.Compacted = true
	_, err := Validate(b, r)
	var e *Error
	if !errors.As(err, &e) || e.Kind != InvalidRecord || len(e.Records) != 5 {
		t.Fatalf("%v", err)
	}
	const each = "Compacted topic cannot accept message without key in topic partition t-3"
	const all = "One or more records have been rejected due to 5 record errors in total, and only showing the first three errors at most: " +
		"[RecordError(batchIndex=0, message='" + each + "'), RecordError(batchIndex=1, message='" + each + "'), RecordError(batchIndex=2, message='" + each + "')]"
	if e.Message != all || e.Records[4] != (RecordError{Index: 4, Message: each}) {
		t.Errorf("%s\n%+v", e.Message, e.Records)
	}
	r = open()
	r.AfterMax, r.BeforeMax = 1, 2
	_, err = Validate(edit(b, func(h *Header) { h.BaseTimestamp += 10 }), r)
	if !errors.As(err, &e) || e.Kind != InvalidTimestamp {
		t.Fatal(err)
	}
	if want := "Timestamp 1700000000012 of message with offset 2 is out of range. The timestamp should be within [1699999999998, 1700000000001]"; e.Records[2].Message != want {
		t.Errorf("%q", e.Records[2].Message)
	}
	r = open()
	r.Timestamps = LogAppendTime
	for kind, class := range map[codec.Kind]string{codec.None: "DefaultRecord", codec.LZ4: "PartialDefaultRecord"} {
		fb := edit(build(kind, 1, 10), func(h *Header) { h.Attributes |= logAppendTimeBit })
		_, err = Validate(fb, r)
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		if want := "Invalid timestamp type in message " + class + "(offset=0, timestamp=1700000000000, key=2 bytes, value=10 bytes). Producer should not set timestamp type to LogAppendTime."; e.Records[0].Message != want {
			t.Errorf("%q", e.Records[0].Message)
		}
	}
}

// TestATimestampErrorDecides: one bad timestamp among records without keys makes the whole batch INVALID_TIMESTAMP.
func TestATimestampErrorDecides(t *testing.T) {
	u := NewBuilder(BuilderOptions{})
	u.Add(now, nil, nil)
	u.Add(now+7200000, []byte("k"), nil)
	r := open()
	r.Compacted = true
	if _, err := Validate(u.Bytes(), r); kindOf(err) != InvalidTimestamp {
		t.Error(err)
	}
}

func TestShape(t *testing.T) {
	good := build(codec.None, 2, 10)
	stray := func(n int, v byte) []byte { return append(bytes.Clone(good), bytes.Repeat([]byte{v}, n)...) }
	magic := func(m byte) []byte {
		b := bytes.Clone(good)
		b[atMagic] = m
		return b
	}
	zst := build(codec.Zstd, 2, 10)
	codec5 := bytes.Clone(good)
	codec5[atAttributes+1] = 5
	short := bytes.Clone(good[:40])
	binary.BigEndian.PutUint32(short[atLength:], 28)
	for _, c := range []struct {
		name    string
		records []byte
		version int16
		want    Kind
	}{
		{"one", good, 9, 0},
		{"nothing", nil, 9, InvalidRecord},
		{"a cut one", good[:len(good)-1], 9, InvalidRecord},
		{"two", append(bytes.Clone(good), good...), 9, InvalidRecord},
		{"one and a cut one", append(bytes.Clone(good), good[:len(good)-1]...), 9, 0},
		{"stray bytes", stray(5, 1), 9, 0},
		{"stray bytes that are no length", stray(20, 0), 9, Corrupt},
		{"magic 0", magic(0), 9, UnsupportedMagic},
		{"magic 1", magic(1), 9, UnsupportedMagic},
		{"magic 3", magic(3), 9, Corrupt},
		{"magic -1", magic(0xff), 9, Corrupt},
		{"zstd in version 6", zst, 6, UnsupportedCompression},
		{"zstd in version 7", zst, 7, 0},
		{"shorter than a header", short, 9, Corrupt},
		{"codec 5 in version 6", codec5, 6, Undecompressable},
		{"codec 5 in version 7", codec5, 7, 0},
	} {
		h, b, err := Shape(c.records, c.version)
		var refused *Error
		if whole := errors.As(err, &refused) && refused.Request; whole != slices.Contains([]string{"magic 3", "magic -1", "codec 5 in version 6"}, c.name) {
			t.Errorf("%s: refusing the whole request is %v", c.name, whole)
		}
		if kindOf(err) != c.want {
			t.Errorf("%s: %v (kind %d), want kind %d", c.name, err, kindOf(err), c.want)
		}
		if err == nil && (len(b) != h.Size() || cap(b) != len(b)) {
			t.Errorf("%s: %d bytes of %d", c.name, len(b), h.Size())
		}
	}
}

// TestBombs sends small batches that claim or unpack to very much: the memory they take has to stay small.
func TestBombs(t *testing.T) {
	const most = 24 << 20
	zeros := make([]byte, 32<<20)
	huge := binary.AppendUvarint(nil, uint64(uint32(len(zeros)-20)<<1)) // a record that fills it
	bombs := map[string][]byte{}
	copy(zeros, huge)
	for _, kind := range []codec.Kind{codec.Gzip, codec.LZ4, codec.Zstd, codec.Snappy} {
		bombs["one vast record, "+kind.String()] = raw(kind, 1, zeros)
	}
	claim := binary.AppendUvarint(nil, math.MaxUint32-1)
	bombs["a length of 2 GiB"] = raw(codec.None, 1, claim)
	bombs["a length of 2 GiB, packed"] = raw(codec.Zstd, 1, claim)
	bombs["2^31-1 records"] = raw(codec.Gzip, math.MaxInt32, append(bytes.Clone(one), two...))
	many := binary.AppendUvarint([]byte{0, 0, 0, 0, 1, 1}, math.MaxUint32-1)
	many[0] = byte(len(many)-1) * 2
	bombs["2^31-1 headers"] = raw(codec.None, 1, many)
	bombs["a snappy block of 4 GiB"] = packedBatch(codec.Snappy, 1, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0})
	bombs["a zstd window of 128 MiB"] = packedBatch(codec.Zstd, 1, []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 17 << 3, 1, 0, 0})
	bombs["a zstd frame of 2^60 bytes"] = packedBatch(codec.Zstd, 1, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x10, 1, 0, 0})
	bombs["an lz4 block of 4 MiB"] = packedBatch(codec.LZ4, 1, []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73, 1, 0, 0, 0, 0x10})
	for name, b := range bombs {
		r := open()
		r.MaxRecordBytes = 1 << 20
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Validate(bytes.Clone(b), r)
		for _, rerr := range Records(b, 1<<20) {
			if rerr == nil {
				continue
			}
			break
		}
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > most {
			t.Errorf("%s: %d bytes of %d MiB", name, len(b), grown>>20)
		}
	}
}

// TestRecordErrorsAreBounded: Kafka lists every bad record; a small packed batch could make millions of them.
func TestRecordErrorsAreBounded(t *testing.T) {
	u := NewBuilder(BuilderOptions{Codec: codec.Zstd})
	for range 100000 {
		u.Add(now, nil, nil)
	}
	r := open()
	r.Compacted = true
	for _, c := range []struct{ asked, want int }{{0, MostListed}, {100, 100}, {1, FewestListed}, {-5, FewestListed}, {1 << 20, MostListed}} {
		r.ListedErrors = c.asked
		_, err := Validate(u.Bytes(), r)
		var e *Error
		if !errors.As(err, &e) || len(e.Records) != c.want || !strings.Contains(e.Message, "due to 100000 record errors") || strings.Count(e.Message, "batchIndex") != 3 {
			t.Errorf("%d are to be listed: %d are, %v", c.asked, len(e.Records), err)
		}
	}
}

// TestRecompressedSize: max.message.bytes is asked of the batch that came and of the one that is stored.
func TestRecompressedSize(t *testing.T) {
	b := build(codec.Zstd, 100, 1000)
	r := open()
	r.Recompress, r.Codec = true, codec.None
	r.MaxBytes = len(b) + 1000
	if _, err := Validate(bytes.Clone(b), r); kindOf(err) != TooLarge {
		t.Errorf("a batch that unpacks to more than the limit: %v", err)
	}
	r.MaxBytes = 1 << 20
	c, err := Validate(bytes.Clone(b), r)
	if err != nil || len(c.Batch) != len(build(codec.None, 100, 1000)) {
		t.Errorf("%d bytes, %v", len(c.Batch), err)
	}
	// A bad record is told before the size.
	r.MaxBytes, r.AfterMax, r.BeforeMax = len(b)+1000, -1, 0
	if _, err := Validate(bytes.Clone(b), r); kindOf(err) != InvalidTimestamp {
		t.Errorf("%v", err)
	}
}

func TestSequences(t *testing.T) {
	for _, c := range []struct{ from, n, want int32 }{
		{0, 0, 0}, {0, 5, 5}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 3, 1}, {-1, 1, 0},
	} {
		if got := AddSequence(c.from, c.n); got != c.want {
			t.Errorf("%d + %d = %d, want %d", c.from, c.n, got, c.want)
		}
	}
}

func TestMarker(t *testing.T) {
	for _, typ := range []ControlType{Abort, Commit} {
		u := NewBuilder(BuilderOptions{Producer: true, ProducerID: 9, ProducerEpoch: 2, BaseSequence: -1, Transactional: true, Control: true})
		k, v := Marker{Type: typ, CoordinatorEpoch: 77}.KeyAndValue()
		u.Add(now, k, v)
		b := u.Bytes()
		m, ok, err := ParseMarker(b)
		if err != nil || !ok || m != (Marker{Type: typ, CoordinatorEpoch: 77, Timestamp: now}) {
			t.Errorf("%+v %v %v", m, ok, err)
		}
		h, err := ParseHeader(b)
		if err != nil || !h.Attributes.Control() || !h.Attributes.Transactional() || h.LastSequence() != -1 || h.ProducerID != 9 {
			t.Errorf("%+v %v", h, err)
		}
	}
	// The cleaner leaves an emptied control batch behind.
	empty := edit(build(codec.None, 1, 0)[:HeaderSize], func(h *Header) { h.Count, h.Length = 0, HeaderSize-LengthOverhead })
	if _, ok, err := ParseMarker(empty); ok || err != nil {
		t.Errorf("an empty batch: %v, %v", ok, err)
	}
}
