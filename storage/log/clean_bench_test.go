package log

import (
	"fmt"
	"testing"

	"millrace/storage/batch"
	"millrace/storage/codec"
	"millrace/storage/compact"
)

// BenchmarkClean cleans a log in which each key comes twice, with batches of a hundred records of 1 KiB: one batch in two
// stays, or half of each.
func BenchmarkClean(b *testing.B) {
	for _, x := range []struct {
		name  string
		codec codec.Kind
		half  bool
	}{{"whole batches", codec.None, false}, {"half batches", codec.None, true}, {"half batches, lz4", codec.LZ4, true}} {
		b.Run(x.name, func(b *testing.B) {
			c := DefaultConfig()
			c.Compact, c.SegmentBytes = true, 16<<20
			const batches, records = 640, 100
			b.SetBytes(batches * records * 1024)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				l, _, err := Open(Options{Dir: b.TempDir() + "/t-0", Topic: "t", Config: c})
				if err != nil {
					b.Fatal(err)
				}
				value := make([]byte, 1024)
				for n := range batches {
					u := batch.NewBuilder(batch.BuilderOptions{Codec: x.codec})
					for i := range records {
						key := n%(batches/2)*records + i
						if x.half && i%2 == 0 {
							key = n*records + i + 1<<20 // comes once
						}
						u.Add(1, fmt.Appendf(nil, "key-%09d", key), value)
					}
					h, err := batch.ParseHeader(u.Bytes())
					if err != nil {
						b.Fatal(err)
					}
					if _, err := l.Append(u.Bytes(), h, 1); err != nil {
						b.Fatal(err)
					}
				}
				if err := l.Roll(); err != nil {
					b.Fatal(err)
				}
				l.SetHighWatermark(l.end)
				if err := l.Flush(); err != nil {
					b.Fatal(err)
				}
				r, err := l.Cleanable(2)
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if _, err := l.Clean(CleanOptions{Range: r, Now: 2, Keys: compact.NewKeys(64<<20, 0.9), Buffer: 256 << 10, Exclusive: func(f func() error) error { return f() }}); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				l.Abandon()
				b.StartTimer()
			}
		})
	}
}
