package log

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/codec"
)

// vast is how long a record is that unpacks to more than anything may hold, and most what may be taken for it.
const (
	vast     = 24 << 20
	mostHeld = 12 << 20
)

// vastRecord is a record of which one field is vast.
type vastRecord struct {
	key, value int // lengths, of zeros; a key of less than 1<<20 is one letter, which is the number
	timestamp  int64
}

// packed is a zstd batch of records, made without holding them.
func packed(t testing.TB, records ...vastRecord) []byte {
	t.Helper()
	u := batch.NewBuilder(batch.BuilderOptions{})
	for range records {
		u.Add(0, nil, nil)
	}
	out := bytes.NewBuffer(slices.Clone(u.Bytes()[:batch.HeaderSize]))
	enc, err := new(codec.Encoders).Open(codec.Zstd, 0, out)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	most := int64(0)
	for i, r := range records {
		key := []byte{byte(r.key)}
		if r.key >= 1<<20 {
			key = nil
		}
		keyLen := max(len(key), r.key>>20<<20)
		head := binary.AppendVarint([]byte{0}, r.timestamp)
		head = binary.AppendVarint(head, int64(i))
		head = append(binary.AppendVarint(head, int64(keyLen)), key...)
		value := binary.AppendVarint(nil, int64(r.value))
		size := len(head) + keyLen - len(key) + len(value) + r.value + 1
		parts := [][]byte{binary.AppendVarint(nil, int64(size)), head}
		for n := keyLen - len(key); n > 0; n -= len(zeros) {
			parts = append(parts, zeros[:min(n, len(zeros))])
		}
		parts = append(parts, value)
		for n := r.value; n > 0; n -= len(zeros) {
			parts = append(parts, zeros[:min(n, len(zeros))])
		}
		for _, p := range append(parts, []byte{0}) {
			if _, err := enc.Write(p); err != nil {
				t.Fatal(err)
			}
		}
		most = max(most, r.timestamp)
	}
	if err := enc.Close(); err != nil {
		t.Fatal(err)
	}
	b := out.Bytes()
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-batch.LengthOverhead))
	b[22] = byte(codec.Zstd)
	binary.BigEndian.PutUint64(b[35:], uint64(most))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[atAttributes:], castagnoli))
	return b
}

// emptyHeaders is a plain batch of one record with so many headers of two bytes.
func emptyHeaders(ts int64, n int) []byte {
	u := batch.NewBuilder(batch.BuilderOptions{})
	u.Add(ts, []byte("k"), []byte("v"), slices.Repeat([]batch.RecordHeader{{}}, n)...)
	return u.Bytes()
}

// takes fails where f allocates more than may be held.
func takes(t *testing.T, what string, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > mostHeld {
		t.Errorf("%s takes %d MiB, want at most %d", what, n>>20, mostHeld>>20)
	}
}

// TestLookUpInVastRecords: a look-up by time takes no memory for what a small batch unpacks to, nor for headers.
func TestLookUpInVastRecords(t *testing.T) {
	l := written(t, DefaultConfig(), nil)
	for _, b := range [][]byte{packed(t, vastRecord{key: 'a', value: vast, timestamp: 1000}, vastRecord{key: 'b', timestamp: 1500}), emptyHeaders(2000, 1<<20)} {
		h, err := batch.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(b, h, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		ts   int64
		want batch.Offset
	}{{0, 0}, {1001, 1}, {1501, 2}} {
		takes(t, "a look-up by time", func() {
			f, ok, err := l.OffsetForTime(c.ts, l.View().LogEnd())
			if err != nil || !ok || f.Offset != c.want {
				t.Errorf("time %d is at %+v, %v, %v, want %d", c.ts, f, ok, err, c.want)
			}
		})
	}
	takes(t, "the largest time", func() {
		if f, ok, err := l.OffsetOfMaxTimestamp(); err != nil || !ok || f.Offset != 2 || f.Timestamp != 2000 {
			t.Errorf("%+v, %v, %v", f, ok, err)
		}
	})
	if n := ScratchesInUse(); n != 0 {
		t.Errorf("%d decompressors are still in use", n)
	}
}

// TestLookUpsWaitForTheirTurn: no more compressed batches are looked into at once than are checked.
func TestLookUpsWaitForTheirTurn(t *testing.T) {
	l := written(t, DefaultConfig(), nil)
	b := packed(t, vastRecord{key: 'a', value: 10, timestamp: 1000})
	h, err := batch.ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(b, h, 1); err != nil {
		t.Fatal(err)
	}
	release, done := make(chan struct{}), make(chan error, 1)
	held := make(chan struct{})
	var holders sync.WaitGroup
	for range cap(scratches.slots) {
		holders.Go(func() {
			WithScratch(func(*batch.Scratch) {
				held <- struct{}{}
				<-release
			})
		})
		<-held
	}
	go func() {
		_, _, err := l.OffsetForTime(0, 1)
		done <- err
	}()
	select {
	case <-done:
		t.Error("a look-up did not wait")
		done <- nil
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	holders.Wait()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// offsetsOf are the offsets of a log's records, those of a batch in brackets.
func offsetsOf(t *testing.T, v *View) string {
	t.Helper()
	var out strings.Builder
	for at := v.LogStart(); at < v.LogEnd(); {
		s, err := v.Read(at, v.LogEnd(), 1, true)
		if err != nil {
			t.Fatal(err)
		}
		b, err := sectionBytes(s)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) == 0 {
			break
		}
		h, err := batch.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := batch.CheckCRC(b[:h.Size()]); err != nil {
			t.Fatal(err)
		}
		out.WriteString("[")
		for r, err := range batch.Stamps(b[:h.Size()], nil) {
			if err != nil {
				t.Fatal(err)
			}
			out.WriteByte(byte('0' + r.Offset))
		}
		out.WriteString("]")
		at = h.NextOffset()
	}
	return out.String()
}

// TestCleanVastRecords: a cleaning takes no memory for what a small batch unpacks to, whether the batch stays as it is, is
// written anew, or goes, and tells long keys apart all the same.
func TestCleanVastRecords(t *testing.T) {
	x := newLaundry(t, Config{})
	// One that stays, one of two that does, one of three that goes, and two that stay.
	x.append(packed(t, vastRecord{key: 'a', value: vast, timestamp: 1}))
	x.append(packed(t, vastRecord{key: 'b', value: vast, timestamp: 1}, vastRecord{key: 'c', value: vast, timestamp: 2}))
	x.append(packed(t, vastRecord{key: vast, value: 1, timestamp: 1}, vastRecord{key: vast - 1<<20, value: 1, timestamp: 1}, vastRecord{key: 'd', value: 5, timestamp: 10}))
	x.append(packed(t, vastRecord{key: vast, value: 2, timestamp: 1}))
	x.append(packed(t, vastRecord{key: 'b', value: 7, timestamp: 1}))
	x.roll()
	var out Cleaned
	takes(t, "a cleaning", func() { out = x.clean() })
	if got, want := offsetsOf(t, x.log.View()), "[0][2][45][6][7]"; got != want {
		t.Errorf("records %s stay, want %s", got, want)
	}
	if out.Read != 8 || out.Kept != 6 || out.Overgrown != 0 {
		t.Errorf("%+v", out)
	}
}

// TestCleanLeavesWhatGrowsTooMuch: a batch that another compressor would make too much of stays whole, what else is cleaned is,
// and a later cleaning comes to it again.
func TestCleanLeavesWhatGrowsTooMuch(t *testing.T) {
	x := newLaundry(t, Config{})
	x.append(packed(t, vastRecord{key: 'a', value: 1 << 20, timestamp: 1}, vastRecord{key: 'b', value: 1 << 20, timestamp: 1}))
	x.put(batch.BuilderOptions{}, "c=1", "a=2")
	x.put(batch.BuilderOptions{}, "c=2")
	x.roll()
	clean := func(grown int) Cleaned {
		t.Helper()
		if err := x.log.Flush(); err != nil {
			t.Fatal(err)
		}
		r, err := x.log.Cleanable(x.clock)
		if err != nil {
			t.Fatal(err)
		}
		out, err := x.log.Clean(CleanOptions{Range: r, Now: x.clock, Keys: x.keys, Buffer: 256, Exclusive: func(f func() error) error { return f() }, grown: grown})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := clean(batch.HeaderSize + 20); out.Overgrown != 1 || out.Read != 5 || out.Kept != 4 {
		t.Errorf("%+v", out)
	}
	if got, want := offsetsOf(t, x.log.View()), "[01][3][4]"; got != want {
		t.Errorf("records %s stay, want %s", got, want)
	}
	x.put(batch.BuilderOptions{}, "d=1", "a=3")
	x.roll()
	if out := clean(0); out.Overgrown != 0 {
		t.Errorf("%+v", out)
	}
	if got, want := offsetsOf(t, x.log.View()), "[1][4][56]"; got != want {
		t.Errorf("records %s stay, want %s", got, want)
	}
}
