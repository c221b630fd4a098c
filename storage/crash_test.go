package storage

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disktest"
	"millrace/storage/log"
)

// TestStoreCrashAtEveryOperation takes the power away at each operation of a life with two topics, one of them deleted
// and made again. What was flushed must be there, and what was deleted must not come back under the new topic.
func TestStoreCrashAtEveryOperation(t *testing.T) {
	o, err := crashStore(t, *soak*crashKinds)
	if err != nil {
		t.Fatal(err)
	}
	n := int(*soak * crashKinds)
	t.Logf("%+v", o)
	for _, few := range o.Under(disktest.Outcomes{Crashes: 100 * n, Lost: 80 * n, Torn: 12 * n, Reordered: 25 * n, Names: 40 * n}) {
		t.Error(few)
	}
}

// soak makes the tests with crashes go on for longer.
var soak = flag.Uint64("soak", 1, "how many times the tests with crashes are as long as usual")

// crashKinds is in how many ways the power goes at each operation of a store's life.
const crashKinds = 6

// TestPlantedFaults breaks the store one way at a time and wants the crashes to show it.
func TestPlantedFaults(t *testing.T) {
	for name, plant := range map[string]func(){
		"checkpoints keep what they say of a deleted topic": func() { faults.remember = true },
		"a truncation leaves the recovery point":            func() { faults.keepPoint = true },
		"a start leaves the mark of a clean stop":           func() { faults.keepMark = true },
	} {
		t.Run(name, func(t *testing.T) {
			plant()
			defer func() { faults = faultSwitches{} }()
			o, err := crashStore(t, crashKinds)
			if err == nil {
				t.Fatalf("nobody noticed in %d crashes", o.Crashes)
			}
			t.Logf("noticed after %d crashes: %v", o.Crashes, err)
		})
	}
}

// crashStore crashes a life at each of its operations, in so many ways, and says what the crashes have done.
func crashStore(t *testing.T, kinds uint64) (sum disktest.Outcomes, err error) {
	for kind := range kinds {
		for at := 1; ; at++ {
			h := newHouse(t)
			h.add(h.log("a", 1, 0), 1)
			h.ok(h.s.Close(true))
			h.open()
			h.fs.StopAt(at)
			flushed, made, err := h.life()
			if err != nil {
				return sum, err
			}
			if !h.fs.Stopped() {
				break
			}
			if kind == 0 {
				h.fs.Crash(nil)
			} else {
				h.fs.Crash(rand.New(rand.NewPCG(kind, uint64(at))))
			}
			sum = sum.Plus(h.fs.Outcomes())
			for range 2 {
				if err := h.survived(flushed, made); err != nil {
					return sum, fmt.Errorf("kind %d, operation %d: %w", kind, at, err)
				}
				h.ok(h.s.Close(true))
			}
		}
	}
	return sum, nil
}

// survived opens the store and looks for what was flushed.
func (h *house) survived(flushed map[partitionKey]batch.Offset, made map[partitionKey]byte) (err error) {
	if h.s, err = h.try(1); err != nil {
		return err
	}
	for k, want := range flushed {
		l, err := h.s.Log(k.topic, [16]byte{made[k]}, k.partition, log.DefaultConfig())
		if err != nil {
			return err
		}
		if got := l.View().LogEnd(); got < want {
			return fmt.Errorf("%v ends at %d, was flushed to %d", k, got, want)
		}
		if s, err := l.View().Read(l.View().LogStart(), want, 1<<20, true); err != nil {
			return err
		} else {
			s.Release()
		}
	}
	return nil
}

// life does things until the power goes; it returns what was flushed and which topic id has each name.
func (h *house) life() (flushed map[partitionKey]batch.Offset, made map[partitionKey]byte, err error) {
	flushed, made = map[partitionKey]batch.Offset{}, map[partitionKey]byte{}
	logs := map[partitionKey]*log.Log{}
	get := func(topic string, id byte) *log.Log {
		l, err := h.s.Log(topic, [16]byte{id}, 0, log.DefaultConfig())
		if err != nil {
			return nil
		}
		logs[partitionKey{topic, 0}], made[partitionKey{topic, 0}] = l, id
		return l
	}
	add := func(l *log.Log, n int) {
		for range n {
			u := batch.NewBuilder(batch.BuilderOptions{})
			u.Add(1, nil, bytes.Repeat([]byte("value"), 400)) // several sectors, so that it can tear
			b, _ := batch.ParseHeader(u.Bytes())
			_, _ = l.Append(u.Bytes(), b, 1)
		}
		l.SetHighWatermark(l.View().LogEnd())
	}
	flush := func(topic string) {
		k := partitionKey{topic, 0}
		if logs[k].Flush() == nil {
			flushed[k] = logs[k].FlushedOffset()
		}
	}
	a, b := get("a", 1), get("b", 2)
	if a == nil || b == nil {
		return flushed, made, nil
	}
	add(a, 5)
	flush("a")
	add(b, 4)
	flush("b")
	_ = b.SetLogStart(3)
	_ = h.s.Checkpoint()
	add(a, 2)
	_ = a.Roll()
	add(a, 1)
	_ = h.s.FlushDue(context.Background(), h.clock.Add(time.Minute))
	flush("a")
	_ = h.s.Housekeep(h.clock.Add(time.Minute))
	if !h.fs.Stopped() {
		flushed[partitionKey{"a", 0}] = a.FlushedOffset()
	}
	delete(flushed, partitionKey{"b", 0})
	if h.s.Delete("b", 0) != nil {
		return flushed, made, nil
	}
	if b = get("b", 3); b == nil {
		return flushed, made, nil
	}
	if b.View().LogEnd() != 0 {
		return flushed, made, fmt.Errorf("a new topic begins at %d", b.View().LogEnd())
	}
	add(b, 2)
	flush("b")
	if k := (partitionKey{"a", 0}); flushed[k] > 6 {
		flushed[k] = 6
	}
	_ = a.Truncate(6)
	add(a, 1)
	flush("a")
	_ = h.s.Close(true)
	return flushed, made, nil
}
