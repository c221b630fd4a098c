package log

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"millrace/storage/batch"
)

// epochsLost recovers a log whose leader epochs are not readable, so that all of its segments are read and their indexes
// made anew, cuts it, which stores the epochs, and loses the power. It says what is not as it was then.
func epochsLost(t *testing.T, seed uint64) string {
	t.Helper()
	x := newTxnLog(t)
	x.conf.IndexIntervalBytes = 100
	x.log.SetConfig(x.conf)
	x.ok(x.log.AssignEpoch(3))
	for range 2 {
		for range 60 {
			x.data(10)
		}
		x.marker(10, batch.Abort)
		x.ok(x.log.Roll())
	}
	x.data(20)
	x.data(20)
	x.ok(x.log.Flush())
	point := x.log.RecoveryPoint()
	x.fs.Kill()
	x.fs.Put("/t-0/"+epochFile, []byte("no epochs"))
	o := Options{FS: x.fs, Dir: "/t-0", Topic: "t", Config: x.conf, RecoveryPoint: point, HighWatermark: 1 << 40, Now: x.log.now}
	o.LowerRecoveryPoint = func(to batch.Offset) error {
		o.RecoveryPoint = min(o.RecoveryPoint, to)
		return nil
	}
	l, r, err := Open(o)
	x.ok(err)
	if len(r.Dropped) != 1 || l.end != point {
		t.Fatalf("%+v", r)
	}
	want := map[string][]byte{}
	for _, seg := range l.segs[:2] {
		for _, suffix := range []string{suffixLog, suffixIndex, suffixTimeIndex, suffixTxnIndex} {
			name := "/t-0/" + fileName(seg.base, suffix)
			if want[name] = x.fs.Bytes(name); len(want[name]) == 0 {
				t.Fatalf("%s is empty", name)
			}
		}
	}
	x.ok(l.Truncate(l.end - 1))
	l.Abandon()
	x.fs.Crash(rand.New(rand.NewPCG(seed, 10)))
	l, _, err = Open(o)
	if err != nil {
		return err.Error()
	}
	defer l.Abandon()
	if l.LatestEpoch() != 3 {
		return fmt.Sprintf("the latest epoch is %d", l.LatestEpoch())
	}
	for name, b := range want {
		if !bytes.Equal(x.fs.Bytes(name), b) {
			return name + " is another one"
		}
	}
	return ""
}

// TestIndexesMadeAnewForTheEpochs: what a recovery makes anew below the recovery point, because the leader epochs were not
// readable, is what a later one finds.
func TestIndexesMadeAnewForTheEpochs(t *testing.T) {
	for seed := range uint64(40) {
		if wrong := epochsLost(t, seed); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
}

func TestIndexesMadeAnewForTheEpochsNotice(t *testing.T) {
	faults.skipMadeAnew = true
	defer func() { faults = faultSwitches{} }()
	for seed := range uint64(40) {
		if wrong := epochsLost(t, seed); wrong != "" {
			t.Logf("noticed with seed %d: %s", seed, wrong)
			return
		}
	}
	t.Error("nobody notices")
}
