package batch

import (
	"bytes"
	"slices"
	"testing"

	"millrace/storage/codec"
)

const now = int64(1_700_000_000_000)

// open are the rules of a topic with Kafka's defaults.
func open() Rules {
	return Rules{Topic: "t", Partition: 3, Now: now, BeforeMax: 1<<63 - 1, AfterMax: 3600000}
}

// build makes a batch of n records of about size bytes.
func build(kind codec.Kind, n, size int) []byte {
	u := NewBuilder(BuilderOptions{Codec: kind})
	for i := range n {
		u.Add(now+int64(i), []byte{byte(i), byte(i >> 8)}, bytes.Repeat([]byte{byte(i)}, size), RecordHeader{Key: "h", Value: []byte("v")}, RecordHeader{Key: "null"})
	}
	return u.Bytes()
}

func TestValidateAcceptsWhatIsBuilt(t *testing.T) {
	for kind := codec.None; kind <= codec.Zstd; kind++ {
		for _, size := range []int{0, 10, 1000, 100000} {
			b := build(kind, 7, size)
			before := bytes.Clone(b)
			c, err := Validate(b, open())
			if err != nil {
				t.Fatalf("%v, %d: %v", kind, size, err)
			}
			if !bytes.Equal(before, b) {
				t.Errorf("%v, %d: a batch that needs no change was changed", kind, size)
			}
			if c.MaxTimestamp != now+6 || c.OffsetOfMaxTimestamp != 6 || c.AppendTime != -1 || c.Header.Count != 7 {
				t.Errorf("%v, %d: %+v", kind, size, c)
			}
			for to := codec.None; to <= codec.Zstd; to++ {
				r := open()
				r.Recompress, r.Codec = true, to
				c, err := Validate(bytes.Clone(b), r)
				if err != nil {
					t.Fatalf("%v to %v, %d: %v", kind, to, size, err)
				}
				if c.Header.Attributes.Codec() != to || CheckCRC(c.Batch) != nil || c.Header.Size() != len(c.Batch) {
					t.Fatalf("%v to %v, %d: %+v", kind, to, size, c.Header)
				}
				i := 0
				for rec, err := range Records(c.Batch, 0) {
					if err != nil {
						t.Fatal(err)
					}
					if rec.Offset != Offset(i) || rec.Timestamp != now+int64(i) || len(rec.Value) != size || rec.Headers.Len() != 2 || slices.Collect(rec.Headers.All())[1].Value != nil {
						t.Fatalf("record %d: %+v", i, rec)
					}
					i++
				}
				if i != 7 {
					t.Fatalf("%d records", i)
				}
			}
		}
	}
}

func TestValidateDoesNotAllocate(t *testing.T) {
	b := build(codec.None, 100, 100)
	r := open()
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Validate(b, r); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for an uncompressed batch, want none", n)
	}
}

func BenchmarkValidate(b *testing.B) {
	for kind := codec.None; kind <= codec.Zstd; kind++ {
		b.Run(kind.String(), func(b *testing.B) {
			rec := build(kind, 1000, 100)
			r := open()
			r.Scratch = &Scratch{}
			b.ReportAllocs()
			b.SetBytes(int64(len(build(codec.None, 1000, 100))))
			for b.Loop() {
				if _, err := Validate(rec, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
