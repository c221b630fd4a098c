package log

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disktest"
)

// condemned is a log of two segments, the first with an aborted transaction and wholly below the recovery point, and what
// a cleaning of that was cut short at: its indexes are called finished, and the segment itself is not. It says which files
// of the log a start has to leave as they are.
func condemned(t *testing.T) (o Options, disk *disktest.FS, want map[string][]byte) {
	t.Helper()
	x := newTxnLog(t)
	x.conf.IndexIntervalBytes = 100
	x.log.SetConfig(x.conf)
	for range 4 {
		x.data(10)
	}
	x.marker(10, batch.Abort)
	x.ok(x.log.Roll())
	x.data(20)
	x.marker(20, batch.Commit)
	x.ok(x.log.Flush())
	x.ok(x.log.FlushRolled())
	o = Options{FS: x.fs, Dir: "/t-0", Topic: "t", Config: x.conf, RecoveryPoint: x.log.RecoveryPoint(), HighWatermark: 1 << 40, Now: func() time.Time { return time.UnixMilli(5000) }}
	x.log.Abandon()
	x.fs.Kill()
	want = map[string][]byte{}
	for _, suffix := range []string{suffixLog, suffixIndex, suffixTimeIndex, suffixTxnIndex} {
		name := "/t-0/" + fileName(0, suffix)
		b := x.fs.Bytes(name)
		if len(b) == 0 {
			t.Fatalf("%s is empty", name)
		}
		want[name] = b
		if suffix == suffixLog {
			x.fs.Put(name+suffixCleaned, b[:len(b)/2])
		} else {
			x.fs.Put(name+suffixSwap, nil)
		}
	}
	return o, x.fs, want
}

// startsCutShort starts the log with the power going at each operation of a start in turn, and at each of the one after
// that. It says what is not as it was in the end, and how many starts were cut short.
func startsCutShort(t *testing.T, kind uint64) (wrong string, cuts int) {
	t.Helper()
	for first := 1; ; first++ {
		for second := 1; ; second++ {
			o, disk, want := condemned(t)
			stops := 0
			for _, at := range []int{first, second} {
				disk.StopAt(at)
				l, _, err := Open(o)
				if !disk.Stopped() {
					if err != nil {
						t.Fatalf("stops at %d and %d: %v", first, second, err)
					}
					l.Abandon()
					break
				}
				stops++
				switch kind {
				case 0:
					disk.Kill()
				case 1:
					disk.Crash(nil)
				default:
					disk.Crash(rand.New(rand.NewPCG(kind, uint64(100*first+second))))
				}
			}
			disk.StopAt(0)
			cuts += stops
			l, r, err := Open(o)
			if err != nil || len(r.Damage) > 0 {
				t.Fatalf("stops at %d and %d: %v, %+v", first, second, err, r)
			}
			if list, err := l.View().Aborted(0, l.View().LogEnd()); err != nil || len(list) != 1 {
				return fmt.Sprintf("stops at %d and %d: aborted are %v, %v", first, second, list, err), cuts
			}
			l.Abandon()
			for name, b := range want {
				if !bytes.Equal(disk.Bytes(name), b) {
					return fmt.Sprintf("stops at %d and %d: %s is another one", first, second, name), cuts
				}
			}
			if stops == 0 {
				return "", cuts
			}
			if stops < 2 {
				break
			}
		}
	}
}

// TestStartsThatAreCutShort: what is left of a replacement that was not complete never comes into the log, however many
// starts come to nothing.
func TestStartsThatAreCutShort(t *testing.T) {
	for _, kind := range waysToEnd {
		wrong, cuts := startsCutShort(t, kind)
		if wrong != "" || cuts < 20 {
			t.Errorf("kind %d: %d starts were cut short: %s", kind, cuts, wrong)
		}
	}
}

// TestStartsThatAreCutShortNotice plants the fault.
func TestStartsThatAreCutShortNotice(t *testing.T) {
	faults.witnessFirst = true
	defer func() { faults = faultSwitches{} }()
	for kind := range uint64(20) {
		if wrong, _ := startsCutShort(t, kind); wrong != "" {
			return
		}
	}
	t.Error("nobody notices")
}
