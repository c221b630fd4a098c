package log

import (
	"errors"
	"testing"
	"time"

	"millrace/storage/batch"
)

// abortedBelow is a log whose first segment holds an aborted transaction and whose second a record without one. It was
// closed and opened again, so that nothing is known yet of who aborted what.
func abortedBelow(t *testing.T) *txnLog {
	x := newTxnLog(t)
	x.conf.RetentionMs = 1
	x.log.SetConfig(x.conf)
	x.data(10)
	end := x.marker(10, batch.Abort) + 1
	x.ok(x.log.Roll())
	x.data(20)
	x.marker(20, batch.Commit)
	x.log.SetHighWatermark(4)
	x.stable(4)
	x.ok(x.log.Close())
	x.open(true, 4)
	if end != 2 {
		t.Fatalf("the aborted transaction ends at %d", end)
	}
	return x
}

// overtakers take a log's first segment out of a reader's hands.
var overtakers = map[string]func(*txnLog) error{
	"retention": func(x *txnLog) error {
		gone, err := x.log.Retain(time.UnixMilli(1 << 40))
		if err == nil && len(gone) == 0 {
			err = errors.New("retention removes nothing")
		}
		return err
	},
	"an exchange, or a deletion": func(x *txnLog) error { return x.log.MarkDeleted("/t-0.put-aside") },
	"a truncation":               func(x *txnLog) error { return x.log.TruncateFully(0) },
}

// Who reads on in a view whose segments were taken away meanwhile is never told that nothing was aborted.
func TestAbortedTransactionsOfRemovedSegments(t *testing.T) {
	for name, overtake := range overtakers {
		t.Run(name, func(t *testing.T) {
			x := abortedBelow(t)
			v := x.log.View()
			s, err := v.Read(0, v.LastStable(), 1<<20, true)
			x.ok(err)
			defer s.Release()
			if s.Len() == 0 {
				t.Fatal("nothing is read")
			}
			x.ok(overtake(x))
			list, err := v.Aborted(0, v.LastStable())
			if err == nil && (len(list) != 1 || list[0] != AbortedTxn{ProducerID: 10, FirstOffset: 0}) {
				t.Errorf("with the records of an aborted transaction it is told %v", list)
			}
		})
		t.Run(name+", after it was read", func(t *testing.T) {
			x := abortedBelow(t)
			v := x.log.View()
			_, err := v.Aborted(0, v.LastStable())
			x.ok(err)
			x.ok(overtake(x))
			list, err := v.Aborted(0, v.LastStable())
			if err != nil || len(list) != 1 || (list[0] != AbortedTxn{ProducerID: 10, FirstOffset: 0}) {
				t.Errorf("%v, %v", list, err)
			}
		})
		t.Run(name+", read at once", func(t *testing.T) {
			x := abortedBelow(t)
			v := x.log.View()
			x.ok(overtake(x))
			s, list, err := v.ReadCommitted(0, v.LastStable(), 1<<20, true)
			if err == nil && s.Len() > 0 && len(list) == 0 {
				t.Errorf("%d bytes, and nothing is aborted", s.Len())
			}
			s.Release()
		})
	}
}

// Records and what was aborted among them are of one view, also where old segments are removed between the two.
func TestReadCommittedIsOfOneView(t *testing.T) {
	x := abortedBelow(t)
	v := x.log.View()
	done := false
	x.fs.Refuse(func(op, name string) error {
		if op == "open" && name == "/t-0/"+fileName(0, suffixTxnIndex) && !done {
			done = true
			return errOvertake
		}
		return nil
	})
	_, _, err := v.ReadCommitted(0, v.LastStable(), 1<<20, true)
	if !done || !errors.Is(err, errOvertake) {
		t.Fatalf("its index is not read: %v", err)
	}
	if pins := v.segs[0].log.pins.Load(); pins > 0 {
		t.Errorf("the section that came to nothing is held %d times", pins)
	}
	s, list, err := v.ReadCommitted(0, v.LastStable(), 1<<20, true)
	x.ok(err)
	if s.Len() == 0 || len(list) != 1 || (list[0] != AbortedTxn{ProducerID: 10, FirstOffset: 0}) {
		t.Errorf("%d bytes, aborted %v", s.Len(), list)
	}
	s.Release()
}

var errOvertake = errors.New("the disk does not read")
