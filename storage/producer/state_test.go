package producer

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"millrace/storage/batch"
)

const pid = batch.ProducerID(7)

// data is a batch of n records of a producer.
func data(epoch batch.ProducerEpoch, seq, n int32) batch.Header {
	return batch.Header{ProducerID: pid, ProducerEpoch: epoch, BaseSequence: seq, LastOffsetDelta: n - 1, Count: n, MaxTimestamp: 1000}
}

func transactional(h batch.Header) batch.Header {
	h.Attributes |= 0x10
	return h
}

func marker(epoch batch.ProducerEpoch) batch.Header {
	return batch.Header{ProducerID: pid, ProducerEpoch: epoch, BaseSequence: -1, Count: 1, Attributes: 0x30}
}

// at puts a batch at an offset.
func at(h batch.Header, o batch.Offset) batch.Header {
	h.BaseOffset = o
	return h
}

type want int8

const (
	fine want = iota
	duplicate
	sequence
	fenced
	txnState
	coordinator
)

func is(v Verdict, err error) want {
	var s *SequenceError
	var e *EpochError
	var x *TxnStateError
	var c *CoordinatorFencedError
	switch {
	case errors.As(err, &s):
		return sequence
	case errors.As(err, &e):
		return fenced
	case errors.As(err, &x):
		return txnState
	case errors.As(err, &c):
		return coordinator
	case err != nil:
		panic(err)
	case v.Duplicate:
		return duplicate
	}
	return fine
}

// TestRules is the Idempotence part of the behaviour table, rule by rule.
func TestRules(t *testing.T) {
	txn := Rules{Verified: true}
	abort := &batch.Marker{Type: batch.Abort, CoordinatorEpoch: 3}
	for _, c := range []struct {
		name   string
		before []batch.Header // appended, each behind the one before
		h      batch.Header
		r      Rules
		want   want
	}{
		{"no state: any sequence", nil, data(0, 42, 1), Rules{}, fine},
		{"no state, transactions version 2: must start at zero", nil, transactional(data(0, 42, 1)), Rules{Verified: true, StrictStart: true}, sequence},
		{"no state, transactions version 2: zero", nil, transactional(data(0, 0, 1)), Rules{Verified: true, StrictStart: true}, fine},
		{"the next", []batch.Header{data(0, 0, 3)}, data(0, 3, 1), Rules{}, fine},
		{"a gap", []batch.Header{data(0, 0, 3)}, data(0, 4, 1), Rules{}, sequence},
		{"a gap, but from a coordinator", []batch.Header{data(0, 0, 3)}, data(0, 4, 1), Rules{Origin: Coordinator}, fine},
		{"the same again", []batch.Header{data(0, 0, 3)}, data(0, 0, 3), Rules{}, duplicate},
		{"a part of it", []batch.Header{data(0, 0, 3)}, data(0, 0, 2), Rules{}, sequence},
		{"an older one of five", []batch.Header{data(0, 0, 1), data(0, 1, 1), data(0, 2, 1), data(0, 3, 1), data(0, 4, 1)}, data(0, 0, 1), Rules{}, duplicate},
		{"the sixth last", []batch.Header{data(0, 0, 1), data(0, 1, 1), data(0, 2, 1), data(0, 3, 1), data(0, 4, 1), data(0, 5, 1)}, data(0, 0, 1), Rules{}, sequence},
		{"an epoch that is over", []batch.Header{data(2, 0, 1)}, data(1, 1, 1), Rules{}, fenced},
		{"an epoch that is over, though a sequence is known", []batch.Header{data(1, 0, 1), data(2, 0, 1)}, data(1, 0, 1), Rules{}, fenced},
		{"a new epoch from zero", []batch.Header{data(2, 0, 9)}, data(3, 0, 1), Rules{}, fine},
		{"a new epoch from elsewhere", []batch.Header{data(2, 0, 9)}, data(3, 9, 1), Rules{}, sequence},
		{"the sequence wraps", []batch.Header{data(0, math.MaxInt32, 1)}, data(0, 0, 1), Rules{}, fine},
		{"the sequence wraps within a batch", []batch.Header{data(0, math.MaxInt32-1, 4)}, data(0, 2, 1), Rules{}, fine},
		{"the wrapped batch again", []batch.Header{data(0, math.MaxInt32-1, 4)}, data(0, math.MaxInt32-1, 4), Rules{}, duplicate},
		{"the sequence wraps too far", []batch.Header{data(0, math.MaxInt32, 1)}, data(0, 1, 1), Rules{}, sequence},
		{"a transaction nobody vouched for", nil, transactional(data(0, 0, 1)), Rules{}, txnState},
		{"a transaction that goes on", []batch.Header{transactional(data(0, 0, 1))}, transactional(data(0, 1, 1)), Rules{}, fine},
		{"a transaction of another epoch", []batch.Header{transactional(data(0, 0, 1))}, transactional(data(1, 0, 1)), Rules{}, txnState},
		{"a duplicate needs no voucher", []batch.Header{transactional(data(0, 0, 1)), marker(0)}, transactional(data(0, 0, 1)), Rules{}, duplicate},
		{"no transaction while one is open", []batch.Header{transactional(data(0, 0, 1))}, data(0, 1, 1), Rules{}, txnState},
		{"after a marker of the same epoch the sequence goes on", []batch.Header{transactional(data(0, 0, 1)), marker(0)}, transactional(data(0, 1, 1)), txn, fine},
		{"after a marker of the next epoch it starts anew", []batch.Header{transactional(data(0, 0, 1)), marker(1)}, transactional(data(1, 0, 1)), txn, fine},
		{"after a marker of the next epoch, going on", []batch.Header{transactional(data(0, 0, 1)), marker(1)}, transactional(data(1, 1, 1)), txn, sequence},
		{"a marker for a producer never seen", nil, marker(3), Rules{Marker: abort}, fine},
		{"a marker of an epoch that is over", []batch.Header{data(2, 0, 1)}, marker(1), Rules{Marker: abort}, fenced},
		{"a marker of a coordinator that is over", []batch.Header{transactional(data(0, 0, 1)), marker(0)}, marker(0), Rules{Marker: &batch.Marker{CoordinatorEpoch: 1}}, coordinator},
		{"version 2: a marker must carry the next epoch", []batch.Header{transactional(data(0, 0, 1))}, marker(0), Rules{Marker: abort, StrictMarker: true}, fenced},
		{"version 2: a marker of the next epoch", []batch.Header{transactional(data(0, 0, 1))}, marker(1), Rules{Marker: abort, StrictMarker: true}, fine},
		{"version 2: a marker again", []batch.Header{transactional(data(0, 0, 1)), marker(1)}, marker(1), Rules{Marker: abort, StrictMarker: true}, fine},
		{"a follower takes what the leader took", []batch.Header{data(2, 0, 1)}, data(1, 5, 1), Rules{Origin: Replication}, fine},
	} {
		s := New()
		o := batch.Offset(0)
		for _, h := range c.before {
			h = at(h, o)
			var m *batch.Marker
			if h.Attributes.Control() {
				m = &batch.Marker{Type: batch.Commit, CoordinatorEpoch: 2}
			}
			s.Appended(h, m)
			o = h.NextOffset()
		}
		before := s.Entries()
		v, err := s.Check(at(c.h, o), c.r)
		if got := is(v, err); got != c.want {
			t.Errorf("%s: %d, want %d (%v)", c.name, got, c.want, err)
		}
		if !reflect.DeepEqual(before, s.Entries()) {
			t.Errorf("%s: Check changed the state", c.name)
		}
	}
}

func TestDuplicateNamesTheOriginal(t *testing.T) {
	s := New()
	s.Appended(at(data(0, 0, 3), 100), nil)
	s.Appended(at(data(0, 3, 2), 103), nil)
	v, err := s.Check(data(0, 0, 3), Rules{})
	if err != nil || v != (Verdict{Duplicate: true, Base: 100, Last: 102, MaxTimestamp: 1000}) {
		t.Errorf("%+v %v", v, err)
	}
}

// TestProducerWithoutEpoch is of a batch with a producer id and epoch -1, which Kafka takes.
func TestProducerWithoutEpoch(t *testing.T) {
	s := New()
	s.Appended(at(data(batch.NoProducerEpoch, 0, 3), 100), nil)
	if got := s.Entries(); len(got) != 1 || got[0].Epoch != batch.NoProducerEpoch || got[0].LastSequence != 2 {
		t.Errorf("%+v", got)
	}
}

func TestVerification(t *testing.T) {
	s := New()
	s.Verifying(pid, 0, 5)
	s.Verifying(pid, 0, 3)
	s.Verifying(pid, 0, 4)
	if got := is(s.Check(transactional(data(0, 4, 1)), Rules{Verified: true})); got != sequence {
		t.Errorf("a sequence above the lowest: %d", got)
	}
	if len(s.Entries()) != 0 {
		t.Error("a producer that has appended nothing is listed")
	}
	if got := is(s.Check(transactional(data(0, 3, 1)), Rules{Verified: true})); got != fine {
		t.Errorf("the lowest: %d", got)
	}
	s.Appended(transactional(data(0, 3, 1)), nil)
	if got := is(s.Check(transactional(data(0, 4, 1)), Rules{Verified: true})); got != fine {
		t.Errorf("the next, once the lowest is appended: %d", got)
	}
}

func TestUnstable(t *testing.T) {
	s := New()
	put := func(id batch.ProducerID, h batch.Header, o batch.Offset, m *batch.Marker) (Completed, bool) {
		h.ProducerID = id
		return s.Appended(at(h, o), m)
	}
	first := func(want batch.Offset) {
		t.Helper()
		if o, ok := s.FirstUnstable(); o != want || ok != (want >= 0) {
			t.Errorf("first unstable offset is %d, %v, want %d", o, ok, want)
		}
	}
	abort, commit := &batch.Marker{Type: batch.Abort}, &batch.Marker{Type: batch.Commit}
	first(-1)
	put(1, transactional(data(0, 0, 2)), 10, nil)
	put(2, transactional(data(0, 0, 1)), 12, nil)
	first(10)
	if done, ok := put(1, marker(0), 13, abort); !ok || done != (Completed{ProducerID: 1, FirstOffset: 10, LastOffset: 13, Aborted: true, LastStable: 12}) {
		t.Errorf("%+v %v", done, ok)
	}
	first(10) // ended, but not replicated
	s.HighWatermark(13)
	first(10)
	s.HighWatermark(14)
	first(12)
	if done, ok := put(2, marker(0), 14, commit); !ok || done != (Completed{ProducerID: 2, FirstOffset: 12, LastOffset: 14, LastStable: 15}) {
		t.Errorf("%+v %v", done, ok)
	}
	if _, ok := put(2, marker(0), 15, commit); ok {
		t.Error("a marker without a transaction ended one")
	}
	s.HighWatermark(15)
	first(-1)
}

func TestExpiry(t *testing.T) {
	s := New()
	s.Appended(data(0, 0, 1), nil)
	h := transactional(data(0, 0, 1))
	h.ProducerID = 8
	s.Appended(h, nil)
	if n := s.Expire(1000+499, 500); n != 0 {
		t.Errorf("%d expired too early", n)
	}
	if n := s.Expire(1000+500, 500); n != 1 || s.Len() != 1 {
		t.Errorf("%d expired, %d left; the open transaction has to stay", n, s.Len())
	}
}

// TestModel compares the state with one that keeps every batch of every producer, and with the state that replaying the
// log, or a snapshot and the log behind it, gives.
func TestModel(t *testing.T) {
	type kept struct {
		h batch.Header
	}
	accepted, duplicates, refused := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := New()
		type appended struct {
			h batch.Header
			m *batch.Marker
		}
		var log []appended
		all := map[batch.ProducerID][]kept{} // of the newest epoch
		epochs := map[batch.ProducerID]batch.ProducerEpoch{}
		end := batch.Offset(rapid.IntRange(0, 3).Draw(t, "start"))
		begin := end
		for range rapid.IntRange(1, 40).Draw(t, "batches") {
			id := batch.ProducerID(rapid.IntRange(1, 3).Draw(t, "producer"))
			epoch, known := epochs[id]
			h := batch.Header{ProducerID: id, ProducerEpoch: epoch + batch.ProducerEpoch(rapid.IntRange(-1, 1).Draw(t, "epoch")), MaxTimestamp: int64(end)}
			if rapid.IntRange(0, 2).Draw(t, "same") > 0 {
				h.ProducerEpoch = epoch
			}
			h.ProducerEpoch = max(h.ProducerEpoch, 0)
			list := all[id]
			n := int32(rapid.IntRange(1, 3).Draw(t, "records"))
			h.Count, h.LastOffsetDelta = n, n-1
			switch choice := rapid.IntRange(0, 3).Draw(t, "sequence"); {
			case choice == 0 && len(list) > 0: // one of those before
				old := list[rapid.IntRange(0, len(list)-1).Draw(t, "old")].h
				h.BaseSequence, h.Count, h.LastOffsetDelta = old.BaseSequence, old.Count, old.LastOffsetDelta
			case choice == 1:
				h.BaseSequence = int32(rapid.IntRange(0, 6).Draw(t, "any"))
			case len(list) > 0:
				h.BaseSequence = batch.AddSequence(list[len(list)-1].h.LastSequence(), 1)
			default:
				h.BaseSequence = rapid.SampledFrom([]int32{0, math.MaxInt32, math.MaxInt32 - 1}).Draw(t, "first")
			}
			expect := fine
			var original batch.Header
			switch {
			case !known:
			case h.ProducerEpoch < epoch:
				expect = fenced
			case h.ProducerEpoch > epoch:
				if h.BaseSequence != 0 {
					expect = sequence
				}
			default:
				if list[len(list)-1].h.LastSequence() == math.MaxInt32 && h.BaseSequence == 0 || h.BaseSequence == list[len(list)-1].h.LastSequence()+1 {
					break
				}
				expect = sequence
				for _, k := range list[max(0, len(list)-5):] {
					if k.h.BaseSequence == h.BaseSequence && k.h.Count == h.Count {
						expect, original = duplicate, k.h
					}
				}
			}
			h.BaseOffset = end
			v, err := s.Check(h, Rules{})
			if got := is(v, err); got != expect {
				t.Fatalf("%+v: %d, want %d (%v)", h, got, expect, err)
			}
			switch expect {
			case duplicate:
				duplicates++
				if v.Base != original.BaseOffset || v.Last != original.LastOffset() || v.MaxTimestamp != original.MaxTimestamp {
					t.Fatalf("duplicate of %+v is told as %+v", original, v)
				}
			case fine:
				accepted++
				s.Appended(h, nil)
				log = append(log, appended{h, nil})
				if known && h.ProducerEpoch != epoch {
					list = nil
				}
				all[id], epochs[id], end = append(list, kept{h}), h.ProducerEpoch, h.NextOffset()
			default:
				refused++
			}
		}
		replayed := New()
		replayed.Clear(begin)
		for _, x := range log {
			replayed.Appended(x.h, x.m)
		}
		if !reflect.DeepEqual(replayed.Entries(), s.Entries()) {
			t.Fatalf("replay gives\n%+v, want\n%+v", replayed.Entries(), s.Entries())
		}
		cut := rapid.IntRange(0, len(log)).Draw(t, "cut")
		part := New()
		for _, x := range log[:cut] {
			part.Appended(x.h, x.m)
		}
		entries, err := DecodeSnapshot(EncodeSnapshot(part.Snapshot()))
		if err != nil {
			t.Fatal(err)
		}
		loaded := New()
		loaded.Load(entries, part.End(), 0, math.MaxInt64)
		for _, x := range log[cut:] {
			loaded.Appended(x.h, x.m)
		}
		if !slices.Equal(loaded.Entries(), s.Entries()) || (len(log) > 0 && loaded.End() != s.End()) {
			t.Fatalf("snapshot and tail give\n%+v, want\n%+v", loaded.Entries(), s.Entries())
		}
		// The last batch of each producer is a duplicate after a restart too.
		for id, list := range all {
			h := list[len(list)-1].h
			if v, err := loaded.Check(h, Rules{}); err != nil || !v.Duplicate || v.Base != h.BaseOffset {
				t.Fatalf("producer %d sends its last batch again: %+v, %v", id, v, err)
			}
		}
	})
	if !testing.Short() && (accepted < 100 || duplicates < 20 || refused < 50) {
		t.Errorf("an idle world: %d accepted, %d duplicates, %d refused", accepted, duplicates, refused)
	}
}

func TestSnapshotKeepsTransactions(t *testing.T) {
	s := New()
	s.Appended(at(transactional(data(4, 0, 2)), 20), nil)
	loaded := New()
	loaded.Load(s.Snapshot(), s.End(), math.MaxInt64, 1)
	if o, ok := loaded.FirstUnstable(); !ok || o != 20 {
		t.Errorf("first unstable offset is %d, %v", o, ok)
	}
	if !loaded.HasTransaction(pid, 4) {
		t.Error("the transaction is lost")
	}
	if done, ok := loaded.Appended(at(marker(5), 22), &batch.Marker{Type: batch.Abort}); !ok || done.FirstOffset != 20 {
		t.Errorf("%+v %v", done, ok)
	}
	e := loaded.Entries()[0]
	if e.Epoch != 5 || e.LastSequence != -1 || e.LastOffset != -1 || e.TxnFirstOffset != -1 {
		t.Errorf("after a marker: %+v", e)
	}
}

func TestEmptySnapshotIsTenBytes(t *testing.T) {
	b := EncodeSnapshot(nil)
	if len(b) != 10 {
		t.Errorf("%d bytes", len(b))
	}
	for i := range b {
		bad := slices.Clone(b)
		bad[i] ^= 1
		if _, err := DecodeSnapshot(bad); !errors.Is(err, ErrSnapshot) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
}

func FuzzDecodeSnapshot(f *testing.F) {
	s := New()
	s.Appended(at(transactional(data(4, 0, 2)), 20), nil)
	f.Add(EncodeSnapshot(s.Snapshot()))
	f.Add(EncodeSnapshot(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := DecodeSnapshot(b)
		if err != nil {
			return
		}
		if again := EncodeSnapshot(entries); !slices.Equal(again, b) {
			t.Fatalf("%x comes back as %x", b, again)
		}
		New().Load(entries, 0, 0, 1)
	})
}

func BenchmarkCheckAndAppended(b *testing.B) {
	s := New()
	seq, o := int32(0), batch.Offset(0)
	b.ReportAllocs()
	for b.Loop() {
		h := at(data(0, seq, 10), o)
		if _, err := s.Check(h, Rules{}); err != nil {
			b.Fatal(err)
		}
		s.Appended(h, nil)
		seq, o = batch.AddSequence(seq, 10), o+10
	}
}
