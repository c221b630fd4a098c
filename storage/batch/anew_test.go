package batch

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"millrace/storage/codec"
)

// TestWrittenAnew: a batch that is compressed anew holds the same records, told as Kafka tells them: without attributes,
// with times counted from the first one's, and all with the largest where its producer flagged it as one of append time.
func TestWrittenAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := codec.Kind(rapid.IntRange(0, 3).Draw(t, "from")), codec.Kind(rapid.IntRange(0, 3).Draw(t, "to"))
		u := NewBuilder(BuilderOptions{Codec: from})
		var want []Record
		var headers [][]RecordHeader
		for range rapid.IntRange(1, 8).Draw(t, "records") {
			r := Record{Timestamp: rapid.Int64Range(-1, 1<<40).Draw(t, "time"), Key: []byte("k"), Value: bytes.Repeat([]byte("v"), rapid.SampledFrom([]int{0, 1, 50, windowSize, 3 * windowSize}).Draw(t, "length"))}
			var hs []RecordHeader
			if rapid.Bool().Draw(t, "headers") {
				hs = []RecordHeader{{Key: "h", Value: bytes.Repeat([]byte("x"), rapid.SampledFrom([]int{0, 9, 2 * windowSize}).Draw(t, "header"))}, {Key: "n"}}
			}
			u.Add(r.Timestamp, r.Key, r.Value, hs...)
			want, headers = append(want, r), append(headers, hs)
		}
		b := u.Bytes()
		h := header(b)
		flagged := h.MaxTimestamp >= 0 && rapid.Bool().Draw(t, "flagged")
		if flagged {
			h.Attributes |= logAppendTimeBit
			h.put(b)
			setCRC(b)
		}
		r := open()
		r.Recompress, r.Codec = true, to
		c, err := Validate(b, r)
		if err != nil {
			t.Fatal(err)
		}
		if CheckCRC(c.Batch) != nil || c.Header.Attributes != Attributes(to) || c.Header != header(c.Batch) {
			t.Fatalf("%+v", c.Header)
		}
		i := 0
		for got, err := range Records(c.Batch, 0) {
			if err != nil {
				t.Fatal(err)
			}
			w := want[i]
			if flagged && from != to {
				w.Timestamp = h.MaxTimestamp
			}
			if i == 0 && from != to && c.Header.BaseTimestamp != w.Timestamp {
				t.Fatalf("the first timestamp is %d, want %d", c.Header.BaseTimestamp, w.Timestamp)
			}
			if got.Attributes != 0 || got.Timestamp != w.Timestamp || got.Offset != Offset(i) || !bytes.Equal(got.Key, w.Key) || !bytes.Equal(got.Value, w.Value) || got.Headers.Len() != len(headers[i]) {
				t.Fatalf("record %d is another", i)
			}
			for j, x := range slices.Collect(got.Headers.All()) {
				if x.Key != headers[i][j].Key || !bytes.Equal(x.Value, headers[i][j].Value) {
					t.Fatalf("record %d, header %d is another", i, j)
				}
			}
			i++
		}
		if i != len(want) {
			t.Fatalf("%d records, want %d", i, len(want))
		}
	})
}
