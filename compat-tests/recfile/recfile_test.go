package recfile

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func genBytes(null bool) *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) []byte {
		if null && rapid.IntRange(0, 3).Draw(t, "null") == 0 {
			return nil
		}
		return append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes")...)
	})
}

func genRecord(withOffset bool) *rapid.Generator[Record] {
	return rapid.Custom(func(t *rapid.T) Record {
		r := Record{
			Partition: rapid.Int32Range(-1, 9).Draw(t, "partition"),
			Timestamp: rapid.Int64().Draw(t, "timestamp"),
			Key:       genBytes(true).Draw(t, "key"),
			Value:     genBytes(true).Draw(t, "value"),
		}
		if withOffset {
			r.Offset = rapid.Int64().Draw(t, "offset")
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			r.Headers = append(r.Headers, Header{rapid.StringN(0, 5, 20).Draw(t, "hkey"), genBytes(true).Draw(t, "hvalue")})
		}
		return r
	})
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		withOffset := rapid.Bool().Draw(t, "withOffset")
		want := rapid.SliceOfN(genRecord(withOffset), 0, 10).Draw(t, "records")
		var buf bytes.Buffer
		w := NewWriter(&buf, withOffset)
		for i := range want {
			if err := w.Write(&want[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		data := buf.Bytes()
		r := NewReader(bytes.NewReader(data), withOffset)
		rest := data
		for i := range want {
			got, err := r.Read()
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want[i]) {
				t.Fatalf("read %+v, wrote %+v", got, want[i])
			}
			var s Span
			if s, rest, err = Next(rest, withOffset); err != nil {
				t.Fatal(err)
			}
			if s.Partition != got.Partition || s.Offset != got.Offset || s.Timestamp != got.Timestamp ||
				!bytes.Equal(s.Key, got.Key) || (s.Key == nil) != (got.Key == nil) || !bytes.Equal(s.Content, AppendContent(nil, &got)) {
				t.Fatalf("split %+v, read %+v", s, got)
			}
		}
		if _, err := r.Read(); err != io.EOF {
			t.Fatalf("after the last record: %v", err)
		}
		if len(rest) != 0 {
			t.Fatalf("%d bytes left", len(rest))
		}
	})
}

func TestDamagedFile(t *testing.T) {
	whole := Append(nil, &Record{Key: []byte("key"), Value: []byte("value"), Headers: []Header{{"h", []byte("v")}}}, false)
	for n := 1; n < len(whole); n++ {
		if _, err := NewReader(bytes.NewReader(whole[:n]), false).Read(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("first %d bytes of a record: %v", n, err)
		}
		if _, _, err := Next(whole[:n], false); err == nil {
			t.Errorf("first %d bytes of a record were split off as a whole one", n)
		}
	}
	for _, at := range []int{12, 19, 28, 32, 37} { // each of the length fields
		bad := bytes.Clone(whole)
		copy(bad[at:], "\x80\x00\x00\x00")
		if _, err := NewReader(bytes.NewReader(bad), false).Read(); err == nil {
			t.Errorf("negative length at %d was accepted", at)
		}
		if _, _, err := Next(bad, false); err == nil {
			t.Errorf("negative length at %d was accepted by Next", at)
		}
	}
}
