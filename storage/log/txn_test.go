package log

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disktest"
	"millrace/storage/producer"
)

// txnLog is a log with two transactional producers.
type txnLog struct {
	t    *testing.T
	fs   *disktest.FS
	log  *Log
	seq  map[batch.ProducerID]int32
	conf Config
}

func newTxnLog(t *testing.T) *txnLog {
	x := &txnLog{t: t, fs: disktest.New(), seq: map[batch.ProducerID]int32{}, conf: DefaultConfig()}
	x.open(false, 0)
	return x
}

func (x *txnLog) open(clean bool, point batch.Offset) {
	x.t.Helper()
	l, r, err := Open(Options{FS: x.fs, Dir: "/t-0", Topic: "t", Config: x.conf, Clean: clean, RecoveryPoint: point, HighWatermark: 1 << 40,
		Now: func() time.Time { return time.UnixMilli(5000) }})
	if err != nil {
		x.t.Fatal(err)
	}
	if len(r.Damage)+len(r.Dropped) != 0 || r.Cut != nil {
		x.t.Fatalf("%+v", r)
	}
	x.log = l
}

// data appends a record of a producer's transaction; it returns its offset.
func (x *txnLog) data(id batch.ProducerID) batch.Offset {
	x.t.Helper()
	u := batch.NewBuilder(batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: x.seq[id], Transactional: true})
	u.Add(4000, nil, []byte("x"))
	x.seq[id]++
	return x.add(u.Bytes(), producer.Rules{Verified: true})
}

func (x *txnLog) marker(id batch.ProducerID, kind batch.ControlType) batch.Offset {
	x.t.Helper()
	u := batch.NewBuilder(batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: -1, Transactional: true, Control: true})
	k, v := batch.Marker{Type: kind}.KeyAndValue()
	u.Add(4000, k, v)
	return x.add(u.Bytes(), producer.Rules{Origin: producer.Coordinator})
}

func (x *txnLog) add(b []byte, r producer.Rules) batch.Offset {
	x.t.Helper()
	h, err := batch.ParseHeader(b)
	if err != nil {
		x.t.Fatal(err)
	}
	a, err := x.log.AppendWith(b, h, 5000, r)
	if err != nil {
		x.t.Fatal(err)
	}
	return a.Base
}

func (x *txnLog) ok(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *txnLog) stable(want batch.Offset) {
	x.t.Helper()
	if got := x.log.View().LastStable(); got != want {
		x.t.Fatalf("last stable offset %d, want %d", got, want)
	}
}

func (x *txnLog) aborted(from, upper batch.Offset, want ...AbortedTxn) {
	x.t.Helper()
	got, err := x.log.View().Aborted(from, upper)
	if err != nil {
		x.t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		x.t.Fatalf("aborted from %d to %d: %v, want %v", from, upper, got, want)
	}
}

// scenario leaves 0:a 1:b 2:abort a | 3:a 4:commit b 5:b | 6:abort b 7:a, with a open from 3 on; segments at 0, 3, 6.
func (x *txnLog) scenario() {
	x.t.Helper()
	roll := func() {
		x.t.Helper()
		if err := x.log.Roll(); err != nil {
			x.t.Fatal(err)
		}
	}
	const a, b = 10, 20
	x.data(a)
	x.data(b)
	x.log.SetHighWatermark(2)
	x.stable(0)
	x.marker(a, batch.Abort)
	x.stable(0)
	x.log.SetHighWatermark(3)
	x.stable(1) // b
	roll()
	x.data(a)
	x.marker(b, batch.Commit)
	x.data(b)
	x.log.SetHighWatermark(4)
	x.stable(1) // b's marker is not replicated
	x.log.SetHighWatermark(6)
	x.stable(3) // a
	roll()
	x.marker(b, batch.Abort)
	x.data(a)
	x.log.SetHighWatermark(8)
	x.stable(3)
}

func (x *txnLog) check() {
	x.t.Helper()
	a, b := AbortedTxn{ProducerID: 10}, AbortedTxn{ProducerID: 20, FirstOffset: 5}
	x.stable(3)
	x.aborted(0, 3, a)
	x.aborted(0, 8, a, b)
	x.aborted(3, 8, b)
	x.aborted(2, 3, a)
	x.aborted(3, 5)
	x.aborted(7, 8)
	// A plain write of a producer with an open transaction is refused: the state is known.
	u := batch.NewBuilder(batch.BuilderOptions{Producer: true, ProducerID: 10, BaseSequence: x.seq[10]})
	u.Add(4000, nil, nil)
	h, _ := batch.ParseHeader(u.Bytes())
	var state *producer.TxnStateError
	if _, err := x.log.Append(u.Bytes(), h, 5000); !errors.As(err, &state) {
		x.t.Fatalf("plain write in a transaction: %v", err)
	}
	if !x.log.HasTransaction(10, 0) || x.log.HasTransaction(20, 0) {
		x.t.Fatal("the wrong producer has a transaction")
	}
}

func TestTransactions(t *testing.T) {
	x := newTxnLog(t)
	x.scenario()
	x.check()
	if err := x.log.Close(); err != nil {
		t.Fatal(err)
	}
	x.open(true, 8)
	x.check()
	// Without any snapshot the segments tell it all.
	x.log.Abandon()
	for _, s := range []batch.Offset{3, 6, 8} {
		if err := x.fs.Remove("/t-0/" + fileName(s, suffixSnapshot)); err != nil {
			t.Fatal(err)
		}
	}
	x.open(true, 8)
	x.check()
	x.log.Abandon()
	x.fs.Kill()
	for _, s := range []batch.Offset{0, 6} {
		if err := x.fs.Remove("/t-0/" + fileName(s, suffixTxnIndex)); err != nil {
			t.Fatal(err)
		}
	}
	x.open(false, 0)
	x.check()
}

func TestRecoveryOfTransactions(t *testing.T) {
	for _, point := range []batch.Offset{0, 2, 3, 4, 6, 7, 8} {
		x := newTxnLog(t)
		x.scenario()
		if err := x.log.Flush(); err != nil {
			t.Fatal(err)
		}
		x.fs.Crash(nil)
		x.open(false, point)
		x.check()
	}
}

func TestTruncationOpensTransactionsAgain(t *testing.T) {
	x := newTxnLog(t)
	x.scenario()
	if err := x.log.Truncate(6); err != nil {
		t.Fatal(err)
	}
	x.stable(3)
	x.aborted(0, 6, AbortedTxn{ProducerID: 10})
	if !x.log.HasTransaction(20, 0) {
		t.Fatal("the truncated marker still ends its transaction")
	}
	if err := x.log.Truncate(2); err != nil {
		t.Fatal(err)
	}
	x.stable(0)
	x.aborted(0, 2)
	x.seq[10], x.seq[20] = 1, 1
	x.marker(10, batch.Abort)
	x.marker(20, batch.Abort)
	x.log.SetHighWatermark(4)
	x.stable(4)
	x.aborted(0, 4, AbortedTxn{ProducerID: 10}, AbortedTxn{ProducerID: 20, FirstOffset: 1})
	if err := x.log.Close(); err != nil {
		t.Fatal(err)
	}
	x.open(true, 4)
	x.aborted(0, 4, AbortedTxn{ProducerID: 10}, AbortedTxn{ProducerID: 20, FirstOffset: 1})
}

func TestTxnIndexFile(t *testing.T) {
	var b []byte
	want := []abortedTxn{{1, 0, 5, 6}, {2, 3, 9, 7}}
	for _, e := range want {
		b = appendTxnEntry(b, e)
	}
	got, err := decodeTxnIndex(b, 0)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v %v", got, err)
	}
	for name, bad := range map[string][]byte{"cut": b[:40], "version": append([]byte{0, 1}, b[2:]...), "order": append(b[34:68:68], b[:34]...)} {
		if got, err := decodeTxnIndex(bad, 0); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, err := decodeTxnIndex(b, 6); err == nil {
		t.Error("an entry below the segment's base is accepted")
	}
}

// TestRetentionKeepsAbortedTransactions takes the power away at each operation of a retention: where the segment stays, it is
// still known what was aborted in it.
func TestRetentionKeepsAbortedTransactions(t *testing.T) {
	stayed := 0
	for at := 1; ; at++ {
		x := newTxnLog(t)
		x.data(10)
		x.marker(10, batch.Abort)
		x.ok(x.log.Roll())
		x.data(20)
		x.ok(x.log.Flush())
		x.log.SetHighWatermark(3)
		c := x.conf
		c.RetentionBytes = 0
		x.log.SetConfig(c)
		x.fs.StopAt(at)
		_, err := x.log.Retain(time.UnixMilli(5000))
		if err == nil {
			if stayed < 3 {
				t.Errorf("the segment stayed %d times", stayed)
			}
			return
		}
		x.log.Abandon()
		x.fs.Kill()
		l, _, err := Open(Options{FS: x.fs, Dir: "/t-0", Topic: "t", Config: x.conf, RecoveryPoint: 3, HighWatermark: 3})
		x.ok(err)
		if x.log = l; l.View().LogStart() == 0 {
			stayed++
			x.aborted(0, 2, AbortedTxn{ProducerID: 10})
		}
	}
}
