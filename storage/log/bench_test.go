package log

import (
	"fmt"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disk"
)

// benchBatch is a batch of n records of size bytes.
func benchBatch(n, size int) ([]byte, batch.Header) {
	u := batch.NewBuilder(batch.BuilderOptions{})
	now := time.Now().UnixMilli()
	for range n {
		u.Add(now, nil, make([]byte, size))
	}
	h, err := batch.ParseHeader(u.Bytes())
	if err != nil {
		panic(err)
	}
	return u.Bytes(), h
}

func benchLog(b *testing.B) *Log {
	l, _, err := Open(Options{Dir: b.TempDir() + "/t-0", Topic: "t"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(l.Abandon)
	return l
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 16 << 10, 256 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l := benchLog(b)
			p, h := benchBatch(1, size)
			now := time.Now().UnixMilli()
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if l.active.size > 64<<20 {
					// Fresh page cache would be what is measured.
					if err := l.TruncateFully(l.end); err != nil {
						b.Fatal(err)
					}
					_ = l.RemoveDeleted(time.Now().Add(time.Hour))
				}
				if _, err := l.Append(p, h, now); err != nil {
					b.Fatal(err)
				}
				l.SetHighWatermark(l.end)
			}
		})
	}
}

// BenchmarkRead reads near the end, as most consumers do, and anywhere.
func BenchmarkRead(b *testing.B) {
	l := benchLog(b)
	p, h := benchBatch(1, 1000)
	for range 50_000 {
		if _, err := l.Append(p, h, 0); err != nil {
			b.Fatal(err)
		}
	}
	l.SetHighWatermark(l.end)
	for name, from := range map[string]func(i int) batch.Offset{
		"last":   func(int) batch.Offset { return l.end - 1 },
		"random": func(i int) batch.Offset { return batch.Offset(i*7919) % l.end },
		"end":    func(int) batch.Offset { return l.end },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				v := l.View()
				s, err := v.Read(from(i), v.HighWatermark(), 1<<20, true)
				if err != nil {
					b.Fatal(err)
				}
				s.Release()
			}
		})
	}
	if err := l.Roll(); err != nil {
		b.Fatal(err)
	}
	b.Run("closed segment", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			v := l.View()
			s, err := v.Read(batch.Offset(i*7919)%l.end, v.LogEnd(), 1<<20, true)
			if err != nil {
				b.Fatal(err)
			}
			s.Release()
		}
	})
}

// BenchmarkOpen opens a log that was closed in order: what a broker's start costs for each partition.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir() + "/t-0"
	l, _, err := Open(Options{FS: disk.OS{}, Dir: dir, Topic: "t", TopicID: [16]byte{1}})
	if err != nil {
		b.Fatal(err)
	}
	p, h := benchBatch(10, 1000)
	for range 1000 {
		if _, err := l.Append(p, h, 0); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		l, r, err := Open(Options{Dir: dir, Topic: "t", TopicID: [16]byte{1}, Clean: true, RecoveryPoint: 10000})
		if err != nil || r.Scanned != 0 {
			b.Fatal(err, r)
		}
		if err := l.AssignEpoch(1); err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAllocations holds the two walks to what they may allocate: an append its view, a read nothing.
func TestAllocations(t *testing.T) {
	l, _, err := Open(Options{Dir: t.TempDir() + "/t-0", Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Abandon()
	p, h := benchBatch(1, 100)
	add := func() {
		if _, err := l.Append(p, h, 0); err != nil {
			t.Fatal(err)
		}
		l.SetHighWatermark(l.end)
	}
	add()
	if n := testing.AllocsPerRun(1000, add); n > 2 {
		t.Errorf("an append and a high watermark allocate %v times, want 2", n)
	}
	if n := testing.AllocsPerRun(1000, func() {
		v := l.View()
		s, err := v.Read(l.end-1, v.HighWatermark(), 1000, true)
		if err != nil {
			t.Fatal(err)
		}
		s.Release()
	}); n > 0 {
		t.Errorf("a read allocates %v times", n)
	}
}
