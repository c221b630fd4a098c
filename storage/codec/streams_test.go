package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"pgregory.net/rapid"
)

func unpack(kind Kind, src []byte) ([]byte, error) {
	return Decompress(kind, nil, src, 1<<26)
}

// TestCutStreams: a stream that ends early never passes for a whole one.
func TestCutStreams(t *testing.T) {
	src := words(100000)
	for _, kind := range kinds[1:] {
		b, err := Compress(kind, nil, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(b); n += 1 + len(b)/97 {
			if got, err := unpack(kind, b[:n]); err == nil && len(got) == len(src) {
				t.Errorf("%v: %d of %d bytes unpack to everything", kind, n, len(b))
			}
		}
	}
}

// TestStreamsOfOthers: what other writers of the formats make is read.
func TestStreamsOfOthers(t *testing.T) {
	src := words(300000)
	var z bytes.Buffer
	for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedBestCompression} {
		for _, window := range []int{1 << 10, 1 << 20, 32 << 20} {
			z.Reset()
			w, err := zstd.NewWriter(&z, zstd.WithEncoderLevel(level), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
			if err != nil {
				t.Fatal(err)
			}
			w.Write(src[:1000])
			w.Flush() // so that the frame is not a single segment
			w.Write(src[1000:])
			w.Close()
			if got, err := unpack(Zstd, z.Bytes()); err != nil || !bytes.Equal(got, src) {
				t.Errorf("zstd with a window of %d: %d bytes, %v", window, len(got), err)
			}
		}
	}
	for _, o := range [][]lz4.Option{
		{lz4.BlockSizeOption(lz4.Block4Mb)},
		{lz4.BlockSizeOption(lz4.Block256Kb), lz4.BlockChecksumOption(true)},
		{lz4.SizeOption(uint64(len(src))), lz4.ChecksumOption(true)},
	} {
		var b bytes.Buffer
		w := lz4.NewWriter(&b)
		if err := w.Apply(o...); err != nil {
			t.Fatal(err)
		}
		w.Write(src)
		w.Close()
		if got, err := unpack(LZ4, b.Bytes()); err != nil || !bytes.Equal(got, src) {
			t.Errorf("lz4: %d bytes, %v", len(got), err)
		}
	}
	if got, err := unpack(Snappy, snappy.Encode(nil, src)); err != nil || !bytes.Equal(got, src) {
		t.Errorf("one raw snappy block: %d bytes, %v", len(got), err)
	}
}

func TestSeveralStreams(t *testing.T) {
	a, b := words(5000), words(700)
	for _, kind := range []Kind{Gzip, Snappy, Zstd} {
		x, _ := Compress(kind, nil, a, 0)
		x, err := Compress(kind, x, b, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := unpack(kind, x); err != nil || !bytes.Equal(got, append(bytes.Clone(a), b...)) {
			t.Errorf("%v: %d bytes, %v", kind, len(got), err)
		}
	}
	x, _ := Compress(LZ4, nil, a, 0)
	x, _ = Compress(LZ4, x, b, 0)
	if got, err := unpack(LZ4, x); err != nil || !bytes.Equal(got, a) {
		t.Errorf("lz4 reads one frame: %d bytes, %v", len(got), err)
	}
	g, _ := Compress(Gzip, nil, a, 0)
	if got, err := unpack(Gzip, append(g, "rubbish"...)); err != nil || !bytes.Equal(got, a) {
		t.Errorf("what follows a gzip member and is none: %d bytes, %v", len(got), err)
	}
	var skip []byte
	skip = binary.LittleEndian.AppendUint32(skip, zstdSkippable+3)
	skip = append(binary.LittleEndian.AppendUint32(skip, 4), 1, 2, 3, 4)
	z, _ := Compress(Zstd, skip, a, 0)
	if got, err := unpack(Zstd, append(z, skip...)); err != nil || !bytes.Equal(got, a) {
		t.Errorf("skippable zstd frames: %d bytes, %v", len(got), err)
	}
}

func TestRefused(t *testing.T) {
	src := words(70000)
	pack := func(kind Kind) []byte { b, _ := Compress(kind, nil, src, 0); return b }
	edit := func(b []byte, at int, v byte) []byte { b[at] = v; return b }
	lzHeader := func(flags, bd byte) []byte {
		h := []byte{0x04, 0x22, 0x4d, 0x18, flags, bd, 0}
		h[6] = byte(xxh32(h[4:6]) >> 8)
		return append(h, 0, 0, 0, 0)
	}
	for name, c := range map[string]struct {
		kind Kind
		b    []byte
	}{
		"kind 5":                      {5, src},
		"empty snappy":                {Snappy, nil},
		"snappy version 0":            {Snappy, edit(pack(Snappy), 11, 0)},
		"snappy block longer":         {Snappy, edit(pack(Snappy), 16, 0x7f)},
		"snappy block of length -1":   {Snappy, edit(pack(Snappy), 16, 0xff)},
		"snappy of the s2 kind":       {Snappy, []byte{8, 0 << 2, 'a', 1 | 3<<2, 0}}, // a copy with offset 0
		"snappy copy before start":    {Snappy, []byte{8, 0 << 2, 'a', 1 | 3<<2, 2}},
		"snappy claims more":          {Snappy, []byte{9, 0 << 2, 'a', 1 | 3<<2, 1}},
		"gzip of nothing":             {Gzip, nil},
		"gzip with a wrong sum":       {Gzip, edit(pack(Gzip), len(pack(Gzip))-8, pack(Gzip)[len(pack(Gzip))-8]^1)},
		"lz4 with a content size cut": {LZ4, lzHeader(0x68, 0x40)[:9]},
		"lz4 of dependent blocks":     {LZ4, lzHeader(0x40, 0x40)},
		"lz4 version 2":               {LZ4, lzHeader(0xa0, 0x40)},
		"lz4 reserved flag":           {LZ4, lzHeader(0x62, 0x40)},
		"lz4 with a dictionary":       {LZ4, lzHeader(0x61, 0x40)},
		"lz4 block size 3":            {LZ4, lzHeader(0x60, 0x30)},
		"lz4 reserved size bit":       {LZ4, lzHeader(0x60, 0xc0)},
		"lz4 without end mark":        {LZ4, pack(LZ4)[:len(pack(LZ4))-4]},
		"zstd with another magic":     {Zstd, edit(pack(Zstd), 0, 0)},
		"zstd window 256 MiB":         {Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 18 << 3, 1, 0, 0}},
		"zstd reserved block":         {Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0, 7, 0, 0}},
		"zstd that announces more":    {Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 9, 1, 0, 0}},
	} {
		if got, err := unpack(c.kind, c.b); err == nil {
			t.Errorf("%s: unpacks to %d bytes", name, len(got))
		}
	}
	if got, err := unpack(Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 17 << 3, 1, 0, 0}); err != nil || len(got) != 0 {
		t.Errorf("an empty zstd frame with the largest window: %v", err)
	}
	if _, err := Decompress(Gzip, nil, pack(Gzip), 100); !errors.Is(err, ErrTooLong) {
		t.Errorf("a limit of 100 bytes: %v", err)
	}
	var e *UnknownKindError
	if _, err := new(Encoders).Open(9, 0, io.Discard); !errors.As(err, &e) {
		t.Errorf("%v", err)
	}
}

// TestBigWindowIsNotKept: the memory of a large window goes with its stream.
func TestBigWindowIsNotKept(t *testing.T) {
	var z bytes.Buffer
	w, err := zstd.NewWriter(&z, zstd.WithWindowSize(32<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	src := strings.Repeat("a", 1<<20)
	for range 40 {
		io.WriteString(w, src)
	}
	w.Close()
	var d Decoders
	small, _ := Compress(Zstd, nil, words(1000), 0)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	read := func(b []byte) {
		r, err := d.Open(Zstd, b)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read(small)
	before := heap()
	read(z.Bytes())
	read(small)
	if after := heap(); after > before+8<<20 {
		t.Errorf("%d MiB are kept", (after-before)>>20)
	}
	runtime.KeepAlive(&d)
}

// TestRepeatsOfS2AreRefused: what the s2 encoder makes is taken only where it is snappy.
func TestRepeatsOfS2AreRefused(t *testing.T) {
	refused := 0
	for _, src := range [][]byte{words(100), words(5000), []byte(strings.Repeat("a", 5000)), bytes.Repeat(words(40), 90)} {
		b := s2.EncodeBest(nil, src)
		got, err := unpack(Snappy, b)
		if err != nil {
			refused++
			continue
		}
		if !bytes.Equal(got, src) {
			t.Errorf("%d bytes come back as %d", len(src), len(got))
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// TestPlainSnappy: the look beforehand passes what the library makes, and never goes astray in what is spoilt.
func TestPlainSnappy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := rapid.SliceOfN(rapid.ByteRange(0, 3), 0, 3000).Draw(t, "src")
		b := snappy.Encode(nil, src)
		spoilt := rapid.Bool().Draw(t, "spoilt")
		if spoilt && len(b) > 1 {
			b[rapid.IntRange(1, len(b)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "with"))
		}
		got, err := unpack(Snappy, b)
		if !spoilt && len(src) > 0 && (err != nil || !bytes.Equal(got, src)) {
			t.Fatalf("a good block does not unpack: %v", err)
		}
		lib, lerr := snappy.Decode(nil, b)
		if err == nil && (lerr != nil || !bytes.Equal(lib, got)) {
			t.Fatalf("the library disagrees: %v", lerr)
		}
	})
}

func FuzzDecoders(f *testing.F) {
	src := words(2000)
	for _, kind := range kinds[1:] {
		b, _ := Compress(kind, nil, src, 0)
		f.Add(int8(kind), b)
	}
	f.Add(int8(Snappy), snappy.Encode(nil, src))
	var g bytes.Buffer
	w := gzip.NewWriter(&g)
	w.Name = "x"
	w.Write(src)
	w.Close()
	f.Add(int8(Gzip), g.Bytes())
	var d Decoders
	f.Fuzz(func(t *testing.T, kind int8, b []byte) {
		r, err := d.Open(Kind(kind), b)
		if err != nil {
			return
		}
		var room [4096]byte
		for total := 0; total < 1<<22; {
			n, err := r.Read(room[:])
			total += n
			if err != nil {
				break
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	src := words(1 << 20)
	for _, kind := range kinds {
		packed, err := Compress(kind, nil, src, 0)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(kind.String(), func(b *testing.B) {
			var d Decoders
			buf := make([]byte, 32<<10)
			b.ReportAllocs()
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				r, err := d.Open(kind, packed)
				for err == nil {
					_, err = r.Read(buf)
				}
				if err != io.EOF {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	src := words(1 << 20)
	for _, kind := range kinds {
		b.Run(kind.String(), func(b *testing.B) {
			var e Encoders
			b.ReportAllocs()
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				w, err := e.Open(kind, 0, io.Discard)
				if err == nil {
					if _, err = w.Write(src); err == nil {
						err = w.Close()
					}
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
