//go:build compat && linux

package badinput

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// produce makes a Produce of these records.
func produce(version int16, to string, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, 1, 5000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = to
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = records
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// code is the error of the one partition of a Produce.
func code(o frame.Outcome) (int16, error) {
	resp, ok := o.Response.(*kmsg.ProduceResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("%s", o)
	}
	return resp.Topics[0].Partitions[0].ErrorCode, nil
}

const (
	unknownServerError = -1
	corruptMessage     = 2
	messageTooLarge    = 10
	unsupportedCodec   = 76
	invalidRecord      = 87
)

// bad is a batch, and the error it is answered with.
type bad struct {
	name    string
	records []byte
	want    int16
}

func spoilt(b []byte, change func(b []byte)) []byte {
	change(b)
	return b
}

func corruptBatches() []bad {
	put32 := func(at int, n uint32) func(b []byte) {
		return func(b []byte) { binary.BigEndian.PutUint32(b[at:], n); sum(b) }
	}
	plain := func() []byte { return plainBatch("one", "two", "three") }
	list := []bad{
		{"a good one", plain(), 0},
		{"a wrong checksum", spoilt(plain(), func(b []byte) { b[17] ^= 1 }), corruptMessage},
		{"a flipped bit of a record", spoilt(plain(), func(b []byte) { b[len(b)-3] ^= 1 }), corruptMessage},
		{"2^31-1 records", spoilt(plain(), put32(57, 1<<31-1)), invalidRecord},
		{"no records", spoilt(plain(), put32(57, 0)), invalidRecord},
		{"-1 records", spoilt(plain(), put32(57, 1<<32-1)), invalidRecord},
		{"a last offset delta of 2^31-1", spoilt(plain(), put32(23, 1<<31-1)), invalidRecord},
		{"2^31-1 records that agree", batch(0, 1<<31-1, nil), invalidRecord},
		{"two records, said to be three", batch(0, 3, append(record(0, "a"), record(1, "b")...)), invalidRecord},
		{"a record of 2^31-1 bytes", batch(0, 1, binary.AppendVarint(nil, 1<<31-1)), invalidRecord},
		{"a record of -1 bytes", batch(0, 1, append(binary.AppendVarint(nil, -1), 0, 0, 0, 1, 1, 0)), invalidRecord},
		{"a value of 2^31-1 bytes", batch(0, 1, append([]byte{24, 0, 0, 0, 1}, binary.AppendVarint(nil, 1<<31-1)...)), invalidRecord},
		{"2^31-1 headers", batch(0, 1, append([]byte{20, 0, 0, 0, 1, 1}, binary.AppendVarint(nil, 1<<31-1)...)), invalidRecord},
		{"a varint without end", batch(0, 1, bytes.Repeat([]byte{0xff}, 40)), unknownServerError},
		{"nothing", []byte{}, invalidRecord},
		{"less than a header", plain()[:40], invalidRecord},
		{"a length of 2^31-1", spoilt(plain(), func(b []byte) { binary.BigEndian.PutUint32(b[8:], 1<<31-1) }), invalidRecord},
		{"a length of -1", spoilt(plain(), func(b []byte) { binary.BigEndian.PutUint32(b[8:], 1<<32-1) }), corruptMessage},
		{"magic 3", spoilt(plain(), func(b []byte) { b[16] = 3 }), corruptMessage},
		{"codec 7", spoilt(plain(), func(b []byte) { b[22] = 7; sum(b) }), unknownServerError},
	}
	for n := 1; n < len(plain()); n += 7 {
		list = append(list, bad{fmt.Sprintf("cut to %d bytes", n), plain()[:n], invalidRecord})
	}
	for codec := int16(1); codec <= 4; codec++ {
		nothing := int16(unknownServerError)
		if codec == 4 {
			nothing = invalidRecord // no frames at all are a good zstd stream
		}
		list = append(list,
			bad{fmt.Sprintf("codec %d, nothing", codec), batch(codec, 1, nil), nothing},
			bad{fmt.Sprintf("codec %d, garbage", codec), batch(codec, 1, bytes.Repeat([]byte{0xa5}, 100)), unknownServerError},
		)
	}
	return list
}

// bomb compresses one record whose value is n zeros, without holding them.
func bomb(t *testing.T, codec int16, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	var err error
	switch codec {
	case 1:
		w, err = gzip.NewWriterLevel(&out, gzip.BestCompression)
	case 2:
		out.Write([]byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1})
		w = &xerial{to: &out}
	case 3:
		z := lz4.NewWriter(&out)
		err = z.Apply(lz4.ChecksumOption(false), lz4.BlockSizeOption(lz4.Block4Mb))
		w = z
	case 4:
		w, err = zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	head := binary.AppendVarint([]byte{0, 0, 0, 1}, int64(n))
	head = append(binary.AppendVarint(nil, int64(len(head)+n+1)), head...)
	zeros := make([]byte, 1<<20)
	w.Write(head)
	for left := n; left > 0; left -= len(zeros) {
		w.Write(zeros[:min(left, len(zeros))])
	}
	w.Write([]byte{0})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return batch(codec, 1, out.Bytes())
}

// xerial writes the frames of Java's snappy.
type xerial struct{ to *bytes.Buffer }

func (x *xerial) Write(p []byte) (int, error) {
	block := s2.EncodeSnappyBetter(nil, p)
	binary.Write(x.to, binary.BigEndian, uint32(len(block)))
	x.to.Write(block)
	return len(p), nil
}

func (x *xerial) Close() error { return nil }

// TestBatches: corrupt batches, bombs of each codec, random bytes.
func TestBatches(t *testing.T) {
	t.Parallel()
	v := withBudget(t)
	c, err := frame.Dial(v.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func(version int16, records []byte) (int16, error) {
		req := produce(version, topic, records)
		return code(c.Ask(req))
	}
	for _, version := range []int16{3, 7, 9, 12} {
		for _, b := range corruptBatches() {
			if version < 7 && len(b.records) > 22 && b.records[22]&7 == 4 {
				b.want = unsupportedCodec
			}
			got, err := ask(version, append([]byte(nil), b.records...))
			if err != nil {
				t.Fatalf("v%d %s: %v", version, b.name, err)
			}
			if got != b.want {
				t.Errorf("v%d %s: error %d, want %d", version, b.name, got, b.want)
			}
		}
	}
	v.check(t, budget+allowance)

	t.Run("bombs", func(t *testing.T) {
		for codec, n := range map[int16]int{1: 500 * mib, 2: 16 * mib, 3: 200 * mib, 4: 2000 * mib} {
			b := bomb(t, codec, n)
			begun := time.Now()
			got, err := ask(9, b)
			// A bomb that fits max.message.bytes is a record like any other.
			want := int16(0)
			if len(b) > 1048588 {
				want = messageTooLarge
			}
			if err != nil || got != want {
				t.Errorf("codec %d: error %d, %v, want %d", codec, got, err, want)
			}
			t.Logf("codec %d: %d bytes that unpack to %d MiB took %v", codec, len(b), n/mib, time.Since(begun).Round(time.Millisecond))
		}
		v.check(t, budget+allowance)
	})

	r := rand.New(rand.NewPCG(3, 3))
	for range 1000 {
		b := plainBatch("some", "records", "to", "spoil")
		switch r.IntN(3) {
		case 0: // the checksum hides nothing
			b[21+r.IntN(len(b)-21)] ^= byte(1 + r.IntN(255))
			sum(b)
		case 1:
			b[r.IntN(len(b))] ^= byte(1 + r.IntN(255))
		default:
			for i := range b[:r.IntN(len(b))] {
				b[i] = byte(r.Uint32())
			}
		}
		if _, err := ask(9, b); err != nil {
			t.Fatalf("a spoilt batch %x: %v", b, err)
		}
	}
	v.check(t, budget+allowance)
	v.ends(t)
}
