package batch

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"millrace/storage/codec"
)

// TestOffsetDeltas: whatever offset deltas its records come with, a batch that is stored has those that go up by one from
// 0, and is else the same. Kafka fails on a compressed one that it would else store as it is.
func TestOffsetDeltas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := codec.Kind(rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "from"))
		r := open()
		if rapid.Bool().Draw(t, "anew") {
			r.Recompress, r.Codec = true, codec.Kind(rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "to"))
		}
		r.Compacted = rapid.IntRange(0, 4).Draw(t, "compacted") == 0
		var records []byte
		var want []string
		dense, keyless := true, false
		n := rapid.IntRange(1, 80).Draw(t, "records")
		for i := range n {
			delta := int32(i)
			if rapid.IntRange(0, 20).Draw(t, "odd") == 0 {
				delta = rapid.Int32().Draw(t, "delta")
			}
			dense = dense && delta == int32(i)
			body := appendVarint(appendVarlong([]byte{0}, int64(i)), delta)
			key := []byte{6, 'k', 'e', 'y'}
			if rapid.IntRange(0, 40).Draw(t, "key") == 0 {
				key, keyless = []byte{1}, true
			}
			value := bytes.Repeat([]byte{'v'}, rapid.SampledFrom([]int{0, 1, 100, windowSize + 5}).Draw(t, "value"))
			body = append(append(appendVarint(append(body, key...), int32(len(value))), value...), 0)
			records = append(appendVarint(records, int32(len(body))), body...)
			want = append(want, fmt.Sprint(i, now+int64(i), len(key), len(value)))
		}
		b := raw(from, int32(n), records)
		h := header(b)
		if rapid.Bool().Draw(t, "producer") {
			h.ProducerID, h.ProducerEpoch, h.BaseSequence = 4, 1, 7
			h.put(b)
			setCRC(b)
		}
		c, err := Validate(b, r)
		stored := from
		if r.Recompress {
			stored = r.Codec
		}
		switch {
		case r.Compacted && keyless:
			if kindOf(err) != InvalidRecord {
				t.Fatalf("a record without a key: %v", err)
			}
			return
		case !dense && stored == from && from != codec.None:
			if kindOf(err) != Undecompressable {
				t.Fatalf("compressed: %v", err)
			}
			return
		case err != nil:
			t.Fatal(err)
		}
		if CheckCRC(c.Batch) != nil || c.Header != header(c.Batch) || c.Header.Attributes != Attributes(stored) || c.Header.ProducerID != h.ProducerID || c.Header.BaseSequence != h.BaseSequence ||
			c.MaxTimestamp != now+int64(n-1) || c.OffsetOfMaxTimestamp != int32(n-1) {
			t.Fatalf("%+v", c)
		}
		var got []string
		for rec, err := range Records(c.Batch, 0) {
			if err != nil {
				t.Fatal(err)
			}
			k := 4
			if rec.Key == nil {
				k = 1
			}
			got = append(got, fmt.Sprint(rec.Offset, rec.Timestamp, k, len(rec.Value)))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("records %v, want %v", got, want)
		}
	})
}

// TestLengthsOfRecordsWrittenAnew: odd ways to say a length come out as Kafka writes them.
func TestLengthsOfRecordsWrittenAnew(t *testing.T) {
	// A key of length -2, a value whose length 1 takes two bytes, and a header with a value of length -3.
	body := []byte{0, 0, 0, 3, 0x82, 0, 'v', 2, 2, 'h', 5}
	r := open()
	r.Recompress = true
	c, err := Validate(raw(codec.Gzip, 1, append([]byte{byte(len(body) * 2)}, body...)), r)
	if err != nil {
		t.Fatal(err)
	}
	if want := []byte{20, 0, 0, 0, 1, 2, 'v', 2, 2, 'h', 1}; !bytes.Equal(c.Batch[HeaderSize:], want) {
		t.Errorf("written as %v, want %v", c.Batch[HeaderSize:], want)
	}
}

// TestMeasuredAsItCame: a plain batch that grows where it is numbered anew is measured as it came.
func TestMeasuredAsItCame(t *testing.T) {
	var records []byte
	for range 100 {
		records = append(records, 12, 0, 0, 0, 1, 1, 0) // offset delta 0, no key, no value: a delta from 64 on takes a byte more
	}
	b := raw(codec.None, 100, records)
	r := open()
	r.MaxBytes = len(b)
	c, err := Validate(b, r)
	if err != nil || len(c.Batch) <= len(b) {
		t.Fatalf("%v: %d bytes of %d", err, len(c.Batch), len(b))
	}
	r.MaxBytes--
	if _, err := Validate(b, r); kindOf(err) != TooLarge {
		t.Fatalf("a batch above the limit: %v", err)
	}
}
