package raw

import (
	"errors"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var window = Window{Ramp: 5 * time.Millisecond, Length: 20 * time.Millisecond, CPU: clock()}

// measured runs a load until something was done in its window, which a busy
// machine may leave empty.
func measured(run func() (Result, error)) (r Result, err error) {
	for range 100 {
		if r, err = run(); !errors.Is(err, ErrNothing) {
			return r, err
		}
	}
	return r, err
}

// clock stands in for a server's processor time.
func clock() func() (time.Duration, error) {
	begun := time.Now()
	return func() (time.Duration, error) { return time.Since(begun), nil }
}

func TestBatch(t *testing.T) {
	for _, tc := range []struct{ value, bytes, records int }{{100, 0, 1}, {100, 16 << 10, 150}, {1024, 256 << 10, 252}, {1024, 1 << 10, 1}} {
		b := NewBatch(tc.value, tc.bytes, time.Now())
		var got kmsg.RecordBatch
		if err := got.ReadFrom(b.Bytes); err != nil {
			t.Fatal(err)
		}
		if int(got.Length) != len(b.Bytes)-12 || uint32(got.CRC) != crc32.Checksum(b.Bytes[attributesAt:], castagnoli) || span(b.Bytes) != int64(b.Records) {
			t.Errorf("%+v: header %+v", tc, got)
		}
		n := 0
		for rest := got.Records; len(rest) > 0; n++ {
			var r kmsg.Record
			if err := r.ReadFrom(rest); err != nil {
				t.Fatal(err)
			}
			if r.OffsetDelta != int32(n) || len(r.Value) != tc.value {
				t.Fatalf("record %d: %+v", n, r)
			}
			rest = rest[len(r.AppendTo(nil)):]
		}
		if n != b.Records || n != int(got.NumRecords) || b.Values != n*tc.value {
			t.Errorf("%+v: %d records, said to be %d", tc, n, b.Records)
		}
		if tc.bytes >= 16<<10 && (len(b.Bytes) > tc.bytes || len(b.Bytes) < tc.bytes-tc.value-20) {
			t.Errorf("%+v: %d bytes", tc, len(b.Bytes))
		}
	}
}

func load(addr string, partitions int) Producing {
	return Producing{Addr: addr, Topic: "t", Partitions: partitions, Batch: NewBatch(100, 2000, time.Now()), Acks: -1, Conns: 2, Depth: 3}
}

func TestProduceIsVerified(t *testing.T) {
	var s *server
	var p Producing
	var addr string
	var sent int64
	r, err := measured(func() (r Result, err error) {
		s, addr = serve(t, 3, faults{})
		p = load(addr, 3)
		r, sent, err = p.Run(window)
		return r, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify(addr, "t", 3, p.Batch, sent, true); err != nil {
		t.Error(err)
	}
	stored := s.ends[0] / int64(p.Batch.Records)
	if sent != stored || r.Requests > sent || r.Bytes != r.Requests*3*int64(len(p.Batch.Bytes)) {
		t.Errorf("%d sent, %d stored, %+v", sent, stored, r)
	}
	if err := Verify(addr, "t", 3, p.Batch, sent-1, false); err == nil {
		t.Error("more is stored than was sent, and nobody said so")
	}
	if err := Verify(addr, "t", 3, NewBatch(100, 2001, time.Now().Add(time.Hour)), sent, false); err == nil {
		t.Error("another batch passed")
	}
}

// Servers that lie are found out.
func TestPlantedFaults(t *testing.T) {
	for name, f := range map[string]faults{"drops a batch": {drop: 40}, "alters a byte": {alter: true}, "refuses": {refuse: 3}, "mixes answers up": {foreign: true}} {
		_, addr := serve(t, 1, f)
		p := load(addr, 1)
		err := p.Fill(100)
		if err == nil {
			err = Verify(addr, "t", 1, p.Batch, 100, true)
		}
		if err == nil {
			t.Errorf("a server that %s passed", name)
		}
	}
	s, addr := serve(t, 1, faults{})
	p := load(addr, 1)
	if err := p.Fill(100); err != nil {
		t.Fatal(err)
	}
	end := 100 * int64(p.Batch.Records)
	f := Fetching{Addr: addr, Topic: "t", Partitions: 1, Bytes: 5000, Conns: 2, Ends: []int64{end}}
	fetch := func() (Result, error) { return f.Run(window) }
	r, err := measured(fetch)
	if err != nil {
		t.Fatal(err)
	}
	// Two batches fit into what is asked, and half of a third comes for nothing.
	if r.Bytes%int64(len(p.Batch.Bytes)) != 0 || r.Bytes > r.Requests*2*int64(len(p.Batch.Bytes)) || r.Bytes < r.Requests*int64(len(p.Batch.Bytes)) {
		t.Errorf("%+v in batches of %d bytes", r, len(p.Batch.Bytes))
	}
	s.gap = true
	if _, err := measured(fetch); err == nil || !strings.Contains(err.Error(), "a batch at offset") {
		t.Errorf("a gap: %v", err)
	}
	s.gap = false
	f.Ends = []int64{end - 1}
	if _, err := measured(fetch); err == nil || !strings.Contains(err.Error(), "behind its end") {
		t.Errorf("records behind the end: %v", err)
	}
	f.Ends = []int64{end + 1}
	if _, err := measured(fetch); err == nil || !strings.Contains(err.Error(), "nothing was found") {
		t.Errorf("nothing before the end: %v", err)
	}
}

// A window in which nothing happened is no figure.
func TestNothing(t *testing.T) {
	_, err := window.Over(1, func(_ int, l *Load, _ *Counter) error {
		for !l.Stopped() {
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	if !errors.Is(err, ErrNothing) {
		t.Error(err)
	}
	broken := errors.New("broken")
	if _, err := window.Over(2, func(i int, l *Load, c *Counter) error {
		if i == 1 {
			return broken
		}
		for !l.Stopped() {
			c.Add(1)
		}
		return nil
	}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestTailAndLatency(t *testing.T) {
	p := load("", 1)
	p.Every = time.Millisecond
	var sent int64
	r, err := measured(func() (r Result, err error) {
		_, p.Addr = serve(t, 1, faults{})
		r, sent, err = Tail{Producing: p, Readers: 2, Bytes: 1 << 20}.Run(window)
		return r, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if sent == 0 || r.Bytes > 2*sent*int64(len(p.Batch.Bytes)) {
		t.Errorf("%d sent, %+v", sent, r)
	}
	_, addr := serve(t, 1, faults{})
	took, err := Latency{Addr: addr, Topic: "t", Rate: 1000, For: 50 * time.Millisecond, Value: 100}.Run()
	if err != nil {
		t.Fatal(err)
	}
	if len(took) != 45 || took[0] < 0 || took[44] < took[0] {
		t.Errorf("latencies %v", took)
	}
	for name, drop := range map[string]int{"in the middle": 20, "the last": 50} {
		_, addr = serve(t, 1, faults{drop: drop})
		if _, err := (Latency{Addr: addr, Topic: "t", Rate: 1000, For: 50 * time.Millisecond, Value: 100, Patience: 100 * time.Millisecond}).Run(); err == nil {
			t.Errorf("a record that was lost %s is not missed", name)
		}
	}
}

// TestWalkProduced takes what kmsg takes, and refuses what is cut off or has more.
func TestWalkProduced(t *testing.T) {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = produceVersion
	for _, name := range []string{"one", "another"} {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic = name
		for i := range int32(3) {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.BaseOffset = i, 1<<40
			topic.Partitions = append(topic.Partitions, p)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	b := resp.AppendTo(nil)
	if n, err := walkProduced(b); n != 6 || err != nil {
		t.Errorf("%d partitions, %v", n, err)
	}
	for i := range b {
		if _, err := walkProduced(b[:i]); err == nil {
			t.Errorf("the first %d bytes are taken for an answer", i)
		}
	}
	if _, err := walkProduced(append(b, 0)); err == nil {
		t.Error("a byte too many is taken")
	}
	resp.Topics[1].Partitions[2].ErrorCode = 6
	if _, err := walkProduced(resp.AppendTo(nil)); !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("a refused partition: %v", err)
	}
	if n := testing.AllocsPerRun(100, func() { walkProduced(b) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
