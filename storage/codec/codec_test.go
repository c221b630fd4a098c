package codec

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/pierrec/lz4/v4"
	"pgregory.net/rapid"
)

var kinds = []Kind{None, Gzip, Snappy, LZ4, Zstd}

// words makes data that packs well but not to nothing.
func words(n int) []byte {
	b := make([]byte, 0, n+16)
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, "w%d-%x ", i%97, i*i)
	}
	return b[:n]
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e Encoders
		var d Decoders
		for range rapid.IntRange(1, 5).Draw(t, "streams") {
			kind := rapid.SampledFrom(kinds).Draw(t, "kind")
			level := 0
			switch kind {
			case Gzip:
				level = rapid.SampledFrom([]int{0, -1, 1, 9}).Draw(t, "level")
			case LZ4:
				level = rapid.SampledFrom([]int{0, 1, 9, 17}).Draw(t, "level")
			case Zstd:
				level = rapid.SampledFrom([]int{0, -131072, 1, 3, 22}).Draw(t, "level")
			}
			src := words(rapid.IntRange(0, 300000).Draw(t, "size"))
			if rapid.Bool().Draw(t, "noise") {
				src = append(src, rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "bytes")...)
			}
			var out bytes.Buffer
			w, err := e.Open(kind, level, &out)
			if err != nil {
				t.Fatal(err)
			}
			for rest := src; len(rest) > 0; {
				n := min(len(rest), rapid.IntRange(1, 100000).Draw(t, "chunk"))
				if _, err := w.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			r, err := d.Open(kind, out.Bytes())
			if err != nil {
				t.Fatalf("%v: %v", kind, err)
			}
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, src) {
				t.Fatalf("%v level %d: %d bytes came back as %d: %v", kind, level, len(src), len(got), err)
			}
		}
	})
}

func TestLZ4FrameIsKafkas(t *testing.T) {
	b, err := Compress(LZ4, nil, words(200000), 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82}; !bytes.Equal(b[:7], want) {
		t.Errorf("header %x, want %x", b[:7], want)
	}
	if !bytes.Equal(b[len(b)-4:], make([]byte, 4)) {
		t.Errorf("no end mark: % x", b[len(b)-4:])
	}
	got, err := io.ReadAll(lz4.NewReader(bytes.NewReader(b)))
	if err != nil || !bytes.Equal(got, words(200000)) {
		t.Errorf("another reader of the format: %d bytes, %v", len(got), err)
	}
	wrong := bytes.Clone(b)
	wrong[6] ^= 1
	if _, err := NewReader(LZ4, wrong); err != errLZ4Header {
		t.Errorf("wrong header checksum: %v", err)
	}
	// Message format 0 took the checksum of the magic too.
	wrong[6] = 0x1a
	var d Decoders
	if _, err := d.OpenLegacyLZ4(wrong); err != nil {
		t.Errorf("the checksum of message format 0: %v", err)
	}
}
