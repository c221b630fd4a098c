package proxy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sample is a batch as a broker would hold it: n records, two keys taking turns, offsets from base.
func sample(base int64, n int) []byte {
	b := &batch{header: make([]byte, headerSize)}
	binary.BigEndian.PutUint64(b.header, uint64(base))
	b.header[atMagic] = 2
	binary.BigEndian.PutUint32(b.header[23:], uint32(n-1))
	for i := range n {
		b.records = append(b.records, record{timestampDelta: int64(i), offsetDelta: int64(i), key: fmt.Appendf(nil, "k%d", i%2),
			value: fmt.Appendf(nil, "value %d", i), headers: []byte{0}})
	}
	b.records[0].value = nil
	return b.bytes()
}

// decode reads a batch with kmsg, which has nothing to do with this package's own code.
func decode(t *testing.T, b []byte) (offsets []int64, texts []string) {
	t.Helper()
	var rb kmsg.RecordBatch
	if err := rb.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	if int(rb.Length) != len(b)-12 {
		t.Errorf("length %d of %d bytes", rb.Length, len(b)-12)
	}
	if crc := crc32.Checksum(b[21:], castagnoli); uint32(rb.CRC) != crc {
		t.Errorf("CRC %x, should be %x", uint32(rb.CRC), crc)
	}
	rest := rb.Records
	for range rb.NumRecords {
		size, n := binary.Varint(rest)
		var r kmsg.Record
		if err := r.ReadFrom(rest[:n+int(size)]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n+int(size):]
		offsets = append(offsets, rb.FirstOffset+int64(r.OffsetDelta))
		texts = append(texts, fmt.Sprintf("%d %s=%s", r.TimestampDelta64, r.Key, r.Value))
	}
	if len(rest) != 0 {
		t.Errorf("%d bytes after the last record", len(rest))
	}
	return offsets, texts
}

func TestFaults(t *testing.T) {
	honest := sample(100, 8)
	offsets, texts := decode(t, honest)
	for _, f := range Faults {
		t.Run(f.String(), func(t *testing.T) {
			b, err := parseBatch(honest)
			if err != nil {
				t.Fatal(err)
			}
			if again := b.bytes(); !bytes.Equal(again, honest) {
				t.Fatalf("put together again it is\n%x, was\n%x", again, honest)
			}
			what, done := f.plant(b)
			if !done {
				t.Fatal("nothing was planted")
			}
			gotOffsets, gotTexts := decode(t, b.bytes())
			t.Log(what, gotTexts)
			var different []int
			for i, text := range gotTexts {
				if i < len(texts) && text != texts[i] {
					different = append(different, i)
				}
			}
			switch f {
			case Drop:
				if len(gotTexts) != 7 || fmt.Sprint(gotOffsets) != "[100 101 102 103 105 106 107]" || gotTexts[4] != texts[5] {
					t.Errorf("%v at %v", gotTexts, gotOffsets)
				}
			case Repeat:
				if len(different) != 1 || gotTexts[different[0]] != texts[different[0]-1] {
					t.Errorf("%v", gotTexts)
				}
			case Reorder:
				if len(different) != 2 || gotTexts[different[0]] != texts[different[1]] || gotTexts[different[1]] != texts[different[0]] {
					t.Errorf("%v", gotTexts)
				}
			case Alter:
				if len(different) != 1 || len(gotTexts[different[0]]) != len(texts[different[0]]) {
					t.Errorf("%v", gotTexts)
				}
			}
			if f != Drop && fmt.Sprint(gotOffsets) != fmt.Sprint(offsets) {
				t.Errorf("offsets %v", gotOffsets)
			}
		})
	}
}

// The fault lands in one batch, and there again when that batch is fetched again.
func TestSpoilOneBatchAlways(t *testing.T) {
	p := &Proxy{fault: Alter}
	var stream []byte
	for i := range 6 {
		stream = append(stream, sample(int64(10*i), 8)...)
	}
	cut := append(bytes.Clone(stream), sample(60, 8)[:70]...)
	once, err := p.spoil("t", 0, cut)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(once[len(stream):], cut[len(stream):]) {
		t.Error("the batch that is cut off did not pass as it was")
	}
	again, err := p.spoil("t", 0, cut)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(once, again) {
		t.Error("the second fetch differs from the first")
	}
	spoiled := 0
	for rest, was := once[:len(stream)], stream; len(rest) > 0; {
		one, after, err := splitBatch(rest)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, was[:len(one)]) {
			spoiled++
		}
		rest, was = after, was[len(one):]
	}
	if spoiled != 1 {
		t.Errorf("%d batches were spoiled", spoiled)
	}
	if !strings.HasPrefix(p.Planted(), "t-0: altered offset 3") {
		t.Errorf("planted %q", p.Planted())
	}
	if other, _ := p.spoil("t", 1, stream); !bytes.Equal(other, stream) {
		t.Error("another partition was spoiled too")
	}
}

func TestBadBatches(t *testing.T) {
	whole := sample(0, 3)
	for n := range whole {
		if _, _, err := splitBatch(whole[:n]); err != errCut {
			t.Fatalf("first %d bytes: %v", n, err)
		}
	}
	for at := headerSize; at < len(whole); at++ {
		bad := bytes.Clone(whole)
		bad[at] ^= 0xff
		parseBatch(bad) // must not panic
	}
	bad := bytes.Clone(whole)
	bad[atAttributes+1] |= 4
	if _, err := parseBatch(bad); err == nil {
		t.Error("a compressed batch was taken apart")
	}
}
