package coordinator

import (
	"context"
	"encoding/binary"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"millrace/broker/machine"
	"millrace/storage/batch"
	"millrace/storage/codec"
)

// TestBatches compares what is written with what Kafka's group coordinator
// writes, field by field.
func TestBatches(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDesk(t, &memLog{}).open()
		d.want(put{key: "a,b", value: "1"}, "ok")
		d.want(put{key: "a", value: "2", producer: &machine.Producer{ID: 9, Epoch: 3}}, "ok")
		if err := d.s.Mark(context.Background(), machine.Marker{Producer: machine.Producer{ID: 9, Epoch: 3}, CoordinatorEpoch: 5, Commit: true}); err != nil {
			t.Fatal(err)
		}
		d.s.Stop()
		type fields struct {
			attributes            batch.Attributes
			last                  int32
			id                    batch.ProducerID
			epoch                 batch.ProducerEpoch
			sequence, count       int32
			base, max             int64
			control, transactonal bool
		}
		now := time.Now().UnixMilli()
		want := []fields{
			{0, 1, -1, -1, 0, 2, now, now, false, false},
			{0x10, 0, 9, 3, 0, 1, now, now, false, true},
			{0x30, 0, 9, 3, -1, 1, now, now, true, true},
		}
		for i, b := range d.log.batches {
			h, err := batch.ParseHeader(b)
			if err != nil {
				t.Fatal(err)
			}
			got := fields{h.Attributes, h.LastOffsetDelta, h.ProducerID, h.ProducerEpoch, h.BaseSequence, h.Count,
				h.BaseTimestamp, h.MaxTimestamp, h.Attributes.Control(), h.Attributes.Transactional()}
			if got != want[i] {
				t.Errorf("batch %d is %+v, want %+v", i, got, want[i])
			}
			if err := batch.CheckCRC(b); err != nil {
				t.Error(err)
			}
		}
		mk, ok, err := batch.ParseMarker(d.log.batches[2])
		if err != nil || !ok || mk.Type != batch.Commit || mk.CoordinatorEpoch != 5 {
			t.Fatalf("marker %+v, %v, %v", mk, ok, err)
		}
		if got := binary.BigEndian.Uint16(d.log.batches[0][21:]); got != 0 {
			t.Fatalf("attributes %x", got)
		}
	})
}

// TestVastRecords: whoever may write to the topic can leave records there that
// unpack to more than there is memory for. The shard loads all the same, with
// what stands before and behind them, and takes its turn for what is packed.
func TestVastRecords(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := &memLog{}
		d := newDesk(t, l)
		d.o.LoadLimit = 1 << 20
		turns := 0
		d.o.Scratch = func(f func(*batch.Scratch)) {
			turns++
			f(new(batch.Scratch))
		}
		logs, seen := observer.New(zap.WarnLevel)
		d.o.Logger = zap.New(logs)
		d.open()
		d.want(put{key: "a", value: "1"}, "ok")
		d.s.Stop()
		vast := batch.NewBuilder(batch.BuilderOptions{Codec: codec.Zstd})
		vast.Add(1, []byte("vast"), make([]byte, 24<<20))
		vast.Add(1, []byte("c"), []byte("3"))
		headers := batch.NewBuilder(batch.BuilderOptions{})
		headers.Add(1, []byte("d"), []byte("4"), slices.Repeat([]batch.RecordHeader{{}}, 1<<20)...)
		for _, b := range [][]byte{vast.Bytes(), headers.Bytes()} {
			if _, _, err := l.Append(b); err != nil {
				t.Fatal(err)
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d.open()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 12<<20 {
			t.Errorf("loading takes %d MiB", n>>20)
		}
		d.want(get{"a"}, "1")
		d.want(get{"vast"}, "")
		d.want(get{"c"}, "3")
		d.want(get{"d"}, "4")
		if turns != 1 || seen.FilterMessage("skipped records of the coordinator's log").Len() != 1 {
			t.Errorf("%d turns, %v", turns, seen.All())
		}
		d.want(put{key: "b", value: "2"}, "ok")
		d.reopen()
		d.want(get{"b"}, "2")
		d.s.Stop()
	})
}

// TestManyUnknownRecords: a log that was taken over may be full of records that
// the machine has no use for. Each load tells of them in one line, with how many
// there are and what the first is.
func TestManyUnknownRecords(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := &memLog{}
		d := newDesk(t, l)
		logs, seen := observer.New(zap.WarnLevel)
		d.o.Logger = zap.New(logs)
		d.open()
		d.want(put{key: "a", value: "1"}, "ok")
		d.s.Stop()
		for range 3 {
			b := batch.NewBuilder(batch.BuilderOptions{})
			for range 1000 {
				b.Add(1, []byte("?"), nil)
			}
			if _, _, err := l.Append(b.Bytes()); err != nil {
				t.Fatal(err)
			}
		}
		d.open()
		d.want(get{"a"}, "1")
		d.s.Stop()
		lines := seen.FilterMessage("skipped records of the coordinator's log").All()
		if seen.Len() != 1 || len(lines) != 1 {
			t.Fatalf("%d lines: %v", seen.Len(), seen.All()[:min(seen.Len(), 3)])
		}
		if f := lines[0].ContextMap(); f["records"] != int64(3000) || f["offset"] != int64(1) || f["why"] != "a key that begins with a question mark" {
			t.Errorf("the line says %v", f)
		}
	})
}
