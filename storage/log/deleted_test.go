package log

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"millrace/storage/batch"
)

// deletedLives are lives of a log from which records are deleted, and whom the opening after each knows, as Apache Kafka was
// seen to.
var deletedLives = []struct {
	name  string
	lives []deletedLife
}{
	{"the log start passes what was written behind a close", []deletedLife{
		{write: []int64{11, 12}, clean: true, known: []int64{11, 12}},
		{write: []int64{-1, -1}, known: []int64{11, 12}},
		{start: 3, known: []int64{11, 12}},
		{known: []int64{11, 12}},
		{clean: true, known: []int64{11, 12}},
	}},
	{"all that a close knew is deleted", []deletedLife{
		{write: []int64{11, 12}, clean: true, known: []int64{11, 12}},
		{start: 2, write: []int64{-1}, known: []int64{11, 12}},
		{known: []int64{11, 12}},
	}},
	{"part of what a close knew is deleted", []deletedLife{
		{write: []int64{11, 12}, clean: true, known: []int64{11, 12}},
		{start: 1, write: []int64{-1}, known: []int64{11, 12}},
		{clean: true, known: []int64{11, 12}},
	}},
	{"nothing was written since the close", []deletedLife{
		{write: []int64{11, 12, -1}, clean: true, known: []int64{11, 12}},
		{start: 2, known: []int64{11, 12}},
		{clean: true, known: []int64{11, 12}},
		{known: []int64{11, 12}},
	}},
	{"a start has forgotten who is read of again", []deletedLife{
		{write: []int64{11, 12}, start: 2, clean: true},
		{write: []int64{-1, -1}, clean: true},
		{known: []int64{11, 12}},
	}},
	{"older segments are deleted", []deletedLife{
		{write: []int64{11, 0, 12, 0, 13, 14, 15, -1}, clean: true, known: []int64{11, 12, 13, 14, 15}},
		{start: 4, known: []int64{13, 14, 15}},
		{write: []int64{-1}, known: []int64{13, 14, 15}},
	}},
	{"segments that are read are deleted", []deletedLife{
		{write: []int64{11, 0, 12, 0, 13, 14, -1}, start: 3, known: []int64{13, 14}},
		{known: []int64{13, 14}},
	}},
	{"the first segment that is read is not deleted whole", []deletedLife{
		{write: []int64{11, 12, 0, 13}, start: 1, known: []int64{11, 12, 13}},
	}},
	{"all is deleted", []deletedLife{
		{write: []int64{11, 12}, clean: true, known: []int64{11, 12}},
		{write: []int64{13}, start: 3},
	}},
	{"all is deleted of a log without snapshot, before its first roll", []deletedLife{
		{write: []int64{11, 12, allDeleted, 0, 13}, retained: true, known: []int64{13}},
		{known: []int64{13}},
	}},
	{"all is deleted of a log without snapshot, before each roll", []deletedLife{
		{write: []int64{11, 12, allDeleted, 0, 13, allDeleted, 0, 14}, retained: true, known: []int64{14}},
	}},
	{"all is deleted of a log without snapshot, which is closed", []deletedLife{
		{write: []int64{11, 12, allDeleted, 0, 13}, retained: true, clean: true, known: []int64{11, 12, 13}},
		{known: []int64{13}},
	}},
	{"nearly all is deleted of a log without snapshot", []deletedLife{
		{write: []int64{11, 12, allDeleted, 13, 0, 14, allDeleted}, retained: true, known: nil},
		{write: []int64{15}, known: []int64{14, 15}},
	}},
	{"all is deleted of a log that was rolled", []deletedLife{
		{write: []int64{11, 0, 12, allDeleted, 0, 13}, retained: true, known: []int64{11, 12, 13}},
		{known: []int64{13}},
	}},
	{"all is deleted of a log that was opened after a kill", []deletedLife{
		{write: []int64{11, 12}, known: []int64{11, 12}},
		{write: []int64{-1, allDeleted, 0, 13}, retained: true, known: []int64{11, 12, 13}},
	}},
	{"all is deleted of a log that was opened after a close", []deletedLife{
		{write: []int64{11, 12}, clean: true, known: []int64{11, 12}},
		{write: []int64{allDeleted, 0, 13}, retained: true, known: []int64{11, 12, 13}},
	}},
	{"all was deleted before a kill", []deletedLife{
		{write: []int64{11, 12, allDeleted}},
		{write: []int64{13, allDeleted, 0, 14}, retained: true, known: []int64{14}},
	}},
	{"all was deleted before a close", []deletedLife{
		{write: []int64{11, 12, allDeleted}, clean: true},
		{write: []int64{13, allDeleted, 0, 14}, retained: true, known: []int64{13, 14}},
	}},
}

// allDeleted: all that was written is deleted.
const allDeleted = -2

// deletedLife: producers write, each its first record (-1: a record of no producer, 0: a roll), records are deleted up to
// start, segments below are removed and the checkpoint does not name the log start any more, the log is closed or the process
// killed, and the next opening knows some.
type deletedLife struct {
	write    []int64
	start    batch.Offset
	retained bool
	clean    bool
	known    []int64
}

// live plays lives from an empty log on, and says what is not as it should be.
func (x *lived) live(lives []deletedLife) error {
	for i, life := range lives {
		for _, id := range life.write {
			switch id {
			case 0:
				x.ok(x.log.Roll())
			case allDeleted:
				x.log.SetHighWatermark(x.log.End())
				x.ok(x.log.SetLogStart(x.log.End()))
				x.o.LogStart = x.log.End()
			default:
				firstOfProducer(x.t, x.log, batch.ProducerID(id))
			}
		}
		x.log.SetHighWatermark(x.log.End())
		if life.start > 0 {
			x.ok(x.log.SetLogStart(life.start))
			x.o.LogStart = life.start
		}
		if life.retained {
			if _, err := x.log.Retain(x.o.Now()); err != nil {
				return err
			}
			if v := x.log.View(); v.LogStart() == v.FirstSegment() {
				x.o.LogStart = -1
			}
		}
		x.o.HighWatermark = x.log.End()
		if life.clean {
			x.closed()
		} else {
			x.killed()
		}
		var known []int64
		for _, e := range x.log.Producers() {
			known = append(known, int64(e.ProducerID))
		}
		if !slices.Equal(known, life.known) {
			return fmt.Errorf("after life %d producers %v are known, not %v", i, known, life.known)
		}
	}
	return nil
}

// TestRecoveryKnowsWhoseRecordsAreDeleted: a recovery knows who wrote to the segments that it reads, also below the log
// start, and of those that lie below it whole nobody, whatever a close has left.
func TestRecoveryKnowsWhoseRecordsAreDeleted(t *testing.T) {
	for _, c := range deletedLives {
		t.Run(c.name, func(t *testing.T) { x := newLived(t); x.ok(x.live(c.lives)) })
	}
}

// TestRecoveryKnowsWhoseRecordsAreDeletedNotices shows that those lives would tell a recovery that goes by snapshots alone, and
// one that forgets nobody.
func TestRecoveryKnowsWhoseRecordsAreDeletedNotices(t *testing.T) {
	for what, plant := range map[string]func(){
		"a close's snapshot is asked":           func() { faults.trustDeleted = true },
		"segments below the log start are told": func() { faults.keepDeleted = true },
		"each roll leaves a snapshot":           func() { faults.snapAlways = true },
	} {
		t.Run(what, func(t *testing.T) {
			defer func() { faults = faultSwitches{} }()
			plant()
			for _, c := range deletedLives {
				if newLived(t).live(c.lives) != nil {
					return
				}
			}
			t.Error("nothing is noticed")
		})
	}
}

// TestPowerFailsAmongDeletedRecords: wherever the power fails in what a recovery does that reads of deleted records, in its
// close or in the one after it, the next one knows the same.
func TestPowerFailsAmongDeletedRecords(t *testing.T) {
	for stop := 1; ; stop++ {
		stopped := false
		for seed := range uint64(20) {
			x := newLived(t)
			x.ok(x.live([]deletedLife{
				{write: []int64{11, 0, 12, -1}, clean: true, known: []int64{11, 12}},
				{start: 2, write: []int64{-1}, known: []int64{12}},
			}))
			x.ok(x.log.Flush())
			x.o.RecoveryPoint = x.log.RecoveryPoint()
			x.fs.StopAt(stop)
			err := x.log.Close()
			if err == nil {
				x.o.Clean = true
				if x.log, _, err = Open(x.o); err == nil {
					if err = appendFirst(x.log, -1); err == nil {
						err = x.log.Close()
					}
				}
			}
			if stopped = x.fs.Stopped(); !stopped {
				x.ok(err)
			}
			x.fs.Crash(rand.New(rand.NewPCG(seed, uint64(stop))))
			x.open(false)
			if known := x.log.Producers(); len(known) != 1 || known[0].ProducerID != 12 || x.log.end < x.o.RecoveryPoint {
				t.Fatalf("stop %d, seed %d: the log ends at %d, %+v", stop, seed, x.log.end, known)
			}
		}
		if !stopped {
			return
		}
	}
}

// TestDamageAmongDeletedRecords: where the frames of deleted records lead nowhere, the log is opened all the same, with what
// a close has left.
func TestDamageAmongDeletedRecords(t *testing.T) {
	x := newLived(t)
	for id := range batch.ProducerID(2) {
		firstOfProducer(t, x.log, 11+id)
	}
	x.add(20)
	x.o.HighWatermark = 22
	x.closed()
	x.ok(x.log.SetLogStart(1))
	x.o.LogStart, x.o.RecoveryPoint = 1, x.log.RecoveryPoint()
	x.fs.Kill()
	name := "/d/t-0/00000000000000000000.log"
	b := x.fs.Bytes(name)
	b[8] = 0xff // the first batch's length
	x.fs.Put(name, b)
	x.open(false)
	if known := x.log.Producers(); len(known) != 2 || known[0].ProducerID != 7 || known[1].ProducerID != 12 {
		t.Errorf("%+v", known)
	}
}
