package log

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"millrace/storage/batch"
)

// twice is a log that was cleaned once, and whose next cleaning finds of its aborted transaction no batch but the marker:
// what is put in the place of the first segment has no index of aborted transactions, and that one has. With first, it was
// not cleaned yet, and what is put there has the index that the second segment has.
func twice(t *testing.T, first bool) *laundry {
	x := newLaundry(t, Config{DeleteRetentionMs: 100})
	in := func(seq int32) batch.BuilderOptions {
		return batch.BuilderOptions{Producer: true, ProducerID: 1, BaseSequence: seq, Transactional: true}
	}
	var none batch.BuilderOptions
	x.put(in(0), "a=1")
	if first {
		x.roll()
	}
	x.end(1, 0, batch.Abort)
	x.put(in(1), "b=1") // the producer is known by this one
	x.end(1, 0, batch.Commit)
	x.roll()
	x.put(none, "x=1")
	if !first {
		x.clean()
		x.roll()
		x.put(none, "x=2")
	}
	if err := x.log.RemoveDeleted(time.UnixMilli(1 << 40)); err != nil {
		t.Fatal(err)
	}
	return x
}

// again opens the log after a crash.
func (x *laundry) again(point batch.Offset) {
	x.t.Helper()
	c := x.log.Config()
	l, r, err := Open(Options{FS: x.fs, Dir: worldDir, Topic: "t", Config: c, Cleaned: -1, RecoveryPoint: point, HighWatermark: 1 << 40, Now: func() time.Time { return time.UnixMilli(x.clock) }})
	if err != nil || len(r.Damage) > 0 {
		x.t.Fatalf("%+v, %v", r, err)
	}
	x.log = l
}

// killedExchanges ends a cleaning at each of its operations in turn. It says what is wrong with what the next start makes of
// the aborted transaction, and how often the cleaning had got so far that the start made its segment the log's, and how
// often not.
func killedExchanges(t *testing.T, first bool, kind uint64) (wrong string, over, before int) {
	t.Helper()
	for at := 1; ; at++ {
		x := twice(t, first)
		if err := x.log.Flush(); err != nil {
			t.Fatal(err)
		}
		point := x.log.RecoveryPoint()
		x.fs.StopAt(at)
		_, err := x.try()
		if !x.fs.Stopped() {
			if err != nil || at < 20 {
				t.Fatalf("%d operations, %v", at, err)
			}
			return "", over, before
		}
		x.log.Abandon()
		switch kind {
		case 0:
			x.fs.Kill()
		case 1:
			x.fs.Crash(nil)
		default:
			x.fs.Crash(rand.New(rand.NewPCG(kind, uint64(at))))
		}
		x.again(point)
		lines := x.lines()
		cleaned := !strings.Contains(lines, "a=1")
		want := 1
		if !first {
			cleaned = strings.Contains(lines, ":abort until")
			if cleaned {
				want = 0
			}
		}
		if cleaned {
			over++
		} else {
			before++
		}
		list, err := x.log.View().Aborted(0, x.log.View().LogEnd())
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != want {
			return fmt.Sprintf("stopped at %d: aborted are %v, the log is %s", at, list, lines), over, before
		}
		x.log.Abandon()
	}
}

// TestKilledExchangesLeaveTheRightTransactions: an index of aborted transactions goes with the segment that had it, and
// comes with the one that has it, whatever ends an exchange between two names. Were one left that names a transaction whose
// marker a later cleaning takes, a consumer would take all that its producer writes afterwards for aborted.
func TestKilledExchangesLeaveTheRightTransactions(t *testing.T) {
	for _, first := range []bool{true, false} {
		for _, kind := range waysToEnd {
			wrong, over, before := killedExchanges(t, first, kind)
			if wrong != "" {
				t.Errorf("first cleaning %v, kind %d: %s", first, kind, wrong)
			} else if before < 10 || kind == 0 && over < 10 {
				t.Errorf("first cleaning %v, kind %d: %d starts went on with the cleaned segment, %d with the old ones", first, kind, over, before)
			}
		}
	}
}

// TestKilledExchangesNotice plants what would be wrong.
func TestKilledExchangesNotice(t *testing.T) {
	for name, c := range map[string]struct {
		first bool
		plant func()
	}{
		"an old index stays":                  {false, func() { faults.keepReplaced = true }},
		"a new index is there before its log": {true, func() { faults.indexesFirst = true }},
	} {
		t.Run(name, func(t *testing.T) {
			c.plant()
			defer func() { faults = faultSwitches{} }()
			if wrong, _, _ := killedExchanges(t, c.first, 0); wrong == "" {
				t.Error("nobody notices")
			}
		})
	}
}

// TestKilledExchangeOfAnotherBroker: Apache Kafka renames the old segment before its indexes. It, too, removes them when it
// starts.
func TestKilledExchangeOfAnotherBroker(t *testing.T) {
	x := twice(t, false)
	old := x.fs.Bytes(worldDir + "/" + fileName(0, suffixTxnIndex))
	if len(old) != txnEntrySize {
		t.Fatalf("%d bytes", len(old))
	}
	x.clean()
	point := x.log.RecoveryPoint()
	x.log.Abandon()
	x.fs.Kill()
	for _, suffix := range []string{suffixLog, suffixIndex, suffixTimeIndex} {
		name := worldDir + "/" + fileName(0, suffix)
		if err := x.fs.Rename(name, name+suffixSwap); err != nil {
			t.Fatal(err)
		}
		if suffix != suffixLog {
			x.fs.Put(name, []byte("of the old one"))
		}
	}
	x.fs.Put(worldDir+"/"+fileName(0, suffixTxnIndex), old)
	x.again(point)
	if list, err := x.log.View().Aborted(0, x.log.View().LogEnd()); err != nil || len(list) != 0 {
		t.Errorf("aborted are %v, %v", list, err)
	}
	if _, err := x.fs.Stat(worldDir + "/" + fileName(0, suffixTxnIndex)); !isMissing(err) {
		t.Errorf("the old index is there: %v", err)
	}
}
