package producer

import (
	"cmp"
	"fmt"
	"slices"

	"millrace/storage/batch"
)

// window is how many batches of a producer are remembered: a client keeps at most five requests in flight.
const window = 5

// kept is one remembered batch.
type kept struct {
	firstSeq, lastSeq int32
	last              batch.Offset
	delta             int32 // last - first offset
	timestamp         int64
}

// entry is what is known of one producer.
type entry struct {
	epoch            batch.ProducerEpoch
	coordinatorEpoch int32
	n                int8 // batches in use; the oldest is kept[0]
	kept             [window]kept
	lastTimestamp    int64
	txnFirst         batch.Offset // -1 if no transaction is open
	// lowestSeq is the lowest sequence seen while the entry's first transactional append is verified; -1 if none is.
	lowestSeq   int32
	lowestEpoch batch.ProducerEpoch
}

func newEntry() *entry {
	return &entry{epoch: batch.NoProducerEpoch, coordinatorEpoch: -1, lastTimestamp: batch.NoTimestamp, txnFirst: batch.NoOffset, lowestSeq: batch.NoSequence}
}

func (e *entry) lastSeq() int32 {
	if e.n == 0 {
		return batch.NoSequence
	}
	return e.kept[e.n-1].lastSeq
}

func (e *entry) setEpoch(epoch batch.ProducerEpoch) {
	if e.epoch != epoch {
		e.epoch, e.n = epoch, 0
	}
}

func (e *entry) add(k kept) {
	if e.n == window {
		copy(e.kept[:], e.kept[1:])
		e.n--
	}
	e.kept[e.n] = k
	e.n++
}

// txn is a transaction that holds the last stable offset back: open, or ended by a marker that is not yet below the
// high watermark.
type txn struct {
	first    batch.Offset
	last     batch.Offset // the marker's; -1 while open
	producer batch.ProducerID
}

// State is what one partition remembers of its producers. The zero value is not ready; New makes one. It is not safe
// for concurrent use.
type State struct {
	producers map[batch.ProducerID]*entry
	// open and ended are sorted by first offset.
	open, ended []txn
	// end is the offset up to which the state was built: the one its snapshot file is named after.
	end batch.Offset
}

// New returns an empty state.
func New() *State { return &State{producers: map[batch.ProducerID]*entry{}} }

// SequenceError refuses a batch whose sequence does not follow (OUT_OF_ORDER_SEQUENCE_NUMBER).
type SequenceError struct {
	ProducerID batch.ProducerID
	Epoch      batch.ProducerEpoch // the batch's
	Sequence   int32               // the batch's first
	LastEpoch  batch.ProducerEpoch // the state's
	Last       int32               // the state's last sequence
	Why        string
}

func (e *SequenceError) Error() string {
	return fmt.Sprintf("out of order sequence number for producer %d: %s: %d (incoming sequence, epoch %d), %d (current end sequence, epoch %d)",
		e.ProducerID, e.Why, e.Sequence, e.Epoch, e.Last, e.LastEpoch)
}

// EpochError refuses a batch of an epoch that is over (INVALID_PRODUCER_EPOCH).
type EpochError struct {
	ProducerID batch.ProducerID
	Epoch      batch.ProducerEpoch
	Last       batch.ProducerEpoch
}

func (e *EpochError) Error() string {
	return fmt.Sprintf("epoch of producer %d is %d, which is smaller than the last seen epoch %d", e.ProducerID, e.Epoch, e.Last)
}

// TxnStateError refuses a batch that does not fit the producer's transaction (INVALID_TXN_STATE).
type TxnStateError struct {
	ProducerID batch.ProducerID
	Why        string
}

func (e *TxnStateError) Error() string { return fmt.Sprintf("producer %d: %s", e.ProducerID, e.Why) }

// CoordinatorFencedError refuses a marker of a coordinator that was replaced (TRANSACTION_COORDINATOR_FENCED).
type CoordinatorFencedError struct {
	ProducerID  batch.ProducerID
	Epoch, Last int32
}

func (e *CoordinatorFencedError) Error() string {
	return fmt.Sprintf("invalid coordinator epoch for producer %d: %d, which is smaller than the last seen epoch %d", e.ProducerID, e.Epoch, e.Last)
}

// Check says whether the batch may be appended, and changes nothing. A batch without a producer id is always accepted.
func (s *State) Check(h batch.Header, r Rules) (Verdict, error) {
	if !h.HasProducer() || r.Origin == Replication {
		return Verdict{}, nil
	}
	e := s.producers[h.ProducerID]
	if h.Attributes.Control() {
		return Verdict{}, checkMarker(e, h, r)
	}
	if r.Origin == Client && e != nil && e.epoch == h.ProducerEpoch {
		first, last := h.BaseSequence, h.LastSequence()
		for i := range e.n {
			if k := e.kept[i]; k.firstSeq == first && k.lastSeq == last {
				return Verdict{Duplicate: true, Base: k.last - batch.Offset(k.delta), Last: k.last, MaxTimestamp: k.timestamp}, nil
			}
		}
	}
	if h.Attributes.Transactional() && !r.Verified && !s.inTransaction(e, h.ProducerEpoch) {
		return Verdict{}, &TxnStateError{ProducerID: h.ProducerID, Why: "record was not part of an ongoing transaction"}
	}
	return Verdict{}, checkData(e, h, r)
}

func (s *State) inTransaction(e *entry, epoch batch.ProducerEpoch) bool {
	return e != nil && e.epoch == epoch && e.txnFirst >= 0
}

// HasTransaction says whether the producer has a transaction open here in that epoch, so that its next batch needs no
// verification.
func (s *State) HasTransaction(id batch.ProducerID, epoch batch.ProducerEpoch) bool {
	return s.inTransaction(s.producers[id], epoch)
}

func checkData(e *entry, h batch.Header, r Rules) error {
	if e == nil {
		if r.Origin == Client && r.StrictStart && h.BaseSequence != 0 {
			return &SequenceError{ProducerID: h.ProducerID, Epoch: h.ProducerEpoch, Sequence: h.BaseSequence, LastEpoch: batch.NoProducerEpoch, Last: batch.NoSequence, Why: "a producer without state must start at zero"}
		}
		return nil
	}
	if h.ProducerEpoch < e.epoch {
		return &EpochError{ProducerID: h.ProducerID, Epoch: h.ProducerEpoch, Last: e.epoch}
	}
	if r.Origin == Client {
		refuse := func(why string, last int32) error {
			return &SequenceError{ProducerID: h.ProducerID, Epoch: h.ProducerEpoch, Sequence: h.BaseSequence, LastEpoch: e.epoch, Last: last, Why: why}
		}
		switch {
		case e.lowestSeq >= 0 && e.lowestEpoch == h.ProducerEpoch && h.BaseSequence > e.lowestSeq:
			return refuse("an earlier batch is still being verified", e.lowestSeq)
		case e.epoch == batch.NoProducerEpoch:
			if r.StrictStart && h.BaseSequence != 0 {
				return refuse("a producer without state must start at zero", batch.NoSequence)
			}
		case h.ProducerEpoch != e.epoch:
			if h.BaseSequence != 0 {
				return refuse("a new epoch must start at zero", e.lastSeq())
			}
		default:
			if last := e.lastSeq(); h.BaseSequence != batch.AddSequence(last, 1) {
				return refuse("not the next one", last)
			}
		}
	}
	if e.txnFirst >= 0 && !h.Attributes.Transactional() {
		return &TxnStateError{ProducerID: h.ProducerID, Why: "expected transactional write: its transaction is open"}
	}
	return nil
}

func checkMarker(e *entry, h batch.Header, r Rules) error {
	if e == nil || r.Marker == nil {
		return nil
	}
	fenced := h.ProducerEpoch < e.epoch
	if r.StrictMarker && h.ProducerEpoch == e.epoch && e.txnFirst >= 0 {
		// A marker of transactions version 2 carries the next epoch; the present one can only be a marker that came
		// late and would end a transaction it does not belong to. With no transaction open it is a harmless retry.
		fenced = true
	}
	if fenced {
		return &EpochError{ProducerID: h.ProducerID, Epoch: h.ProducerEpoch, Last: e.epoch}
	}
	if r.Marker.CoordinatorEpoch < e.coordinatorEpoch {
		return &CoordinatorFencedError{ProducerID: h.ProducerID, Epoch: r.Marker.CoordinatorEpoch, Last: e.coordinatorEpoch}
	}
	return nil
}

// Verifying notes that a first transactional append with this sequence is being verified with the coordinator: until it
// is appended, a higher sequence of the same epoch is refused, so that requests which overtake each other cannot begin
// the transaction out of order.
func (s *State) Verifying(id batch.ProducerID, epoch batch.ProducerEpoch, sequence int32) {
	e := s.producers[id]
	if e == nil {
		e = newEntry()
		s.producers[id] = e
	}
	if e.lowestSeq < 0 || e.lowestEpoch < epoch || (e.lowestEpoch == epoch && sequence < e.lowestSeq) {
		e.lowestSeq, e.lowestEpoch = sequence, epoch
	}
}

// Appended takes note of a batch that is in the log. It cannot refuse: what the log holds is true. For a control batch m
// is its marker; ok says that it ended a transaction which wrote here.
func (s *State) Appended(h batch.Header, m *batch.Marker) (done Completed, ok bool) {
	if next := h.NextOffset(); next > s.end {
		s.end = next
	}
	if !h.HasProducer() {
		return Completed{}, false
	}
	if h.Attributes.Control() {
		if m == nil {
			return Completed{}, false
		}
		return s.marker(h, *m)
	}
	e := s.producers[h.ProducerID]
	if e == nil {
		e = newEntry()
		s.producers[h.ProducerID] = e
	}
	e.lowestSeq = batch.NoSequence
	e.setEpoch(h.ProducerEpoch)
	e.add(kept{firstSeq: h.BaseSequence, lastSeq: h.LastSequence(), last: h.LastOffset(), delta: h.LastOffsetDelta, timestamp: h.MaxTimestamp})
	e.lastTimestamp = h.MaxTimestamp
	if h.Attributes.Transactional() && e.txnFirst < 0 {
		e.txnFirst = h.BaseOffset
		s.open = insert(s.open, txn{first: h.BaseOffset, last: batch.NoOffset, producer: h.ProducerID})
	}
	return Completed{}, false
}

func (s *State) marker(h batch.Header, m batch.Marker) (done Completed, ok bool) {
	e := s.producers[h.ProducerID]
	if e == nil {
		e = newEntry()
		s.producers[h.ProducerID] = e
	}
	if e.txnFirst >= 0 {
		done, ok = Completed{ProducerID: h.ProducerID, FirstOffset: e.txnFirst, LastOffset: h.BaseOffset, Aborted: m.Type == batch.Abort}, true
		s.open = slices.DeleteFunc(s.open, func(t txn) bool { return t.producer == h.ProducerID })
		s.ended = insert(s.ended, txn{first: e.txnFirst, last: h.BaseOffset, producer: h.ProducerID})
		done.LastStable = h.BaseOffset + 1
		if len(s.open) > 0 {
			done.LastStable = s.open[0].first
		}
	}
	e.lowestSeq = batch.NoSequence
	e.setEpoch(h.ProducerEpoch)
	e.coordinatorEpoch = m.CoordinatorEpoch
	e.lastTimestamp = m.Timestamp
	e.txnFirst = batch.NoOffset
	return done, ok
}

func insert(ts []txn, t txn) []txn {
	i, _ := slices.BinarySearchFunc(ts, t.first, func(x txn, first batch.Offset) int { return cmp.Compare(x.first, first) })
	return slices.Insert(ts, i, t)
}

// FirstUnstable is the first offset of the oldest transaction that is open, or ended by a marker not yet below the high
// watermark; false if there is none. The last stable offset is the lower of it and the high watermark.
func (s *State) FirstUnstable() (batch.Offset, bool) {
	switch {
	case len(s.open) == 0 && len(s.ended) == 0:
		return batch.NoOffset, false
	case len(s.open) == 0:
		return s.ended[0].first, true
	case len(s.ended) == 0:
		return s.open[0].first, true
	}
	return min(s.open[0].first, s.ended[0].first), true
}

// HighWatermark takes note of the high watermark: transactions whose marker lies below it hold nothing back any more.
func (s *State) HighWatermark(hw batch.Offset) {
	if len(s.ended) > 0 {
		s.ended = slices.DeleteFunc(s.ended, func(t txn) bool { return t.last < hw })
	}
}

// LogStart takes note that the log now starts at start. Producers stay known: only expiry forgets them.
func (s *State) LogStart(start batch.Offset) {
	s.HighWatermark(start)
	if s.end < start {
		s.end = start
	}
}

// Expire forgets producers that have appended nothing for ms and have no transaction open, and returns how many.
func (s *State) Expire(now, ms int64) int {
	n := 0
	// any order: each is looked at by itself.
	for id, e := range s.producers {
		if e.expired(now, ms) {
			delete(s.producers, id)
			n++
		}
	}
	return n
}

// ForgetBelow forgets producers whose last batch lies below an offset and that have no transaction open, and returns how
// many.
func (s *State) ForgetBelow(offset batch.Offset) int {
	n := 0
	// any order: each is looked at by itself.
	for id, e := range s.producers {
		if e.txnFirst < 0 && (e.n == 0 || e.kept[e.n-1].last < offset) {
			delete(s.producers, id)
			n++
		}
	}
	return n
}

func (e *entry) expired(now, ms int64) bool { return e.txnFirst < 0 && now-e.lastTimestamp >= ms }

// Clear forgets everything; the state is then that of a log which starts, empty, at end.
func (s *State) Clear(end batch.Offset) {
	clear(s.producers)
	s.open, s.ended, s.end = nil, nil, end
}

// End is the offset up to which the state was built.
func (s *State) End() batch.Offset { return s.end }

// SetEnd moves the offset up to which the state was built, past batches that name no producer.
func (s *State) SetEnd(end batch.Offset) { s.end = end }

// Len is the number of producers known.
func (s *State) Len() int { return len(s.producers) }

// Entries are the producers, sorted by id.
func (s *State) Entries() []Entry {
	out := make([]Entry, 0, len(s.producers))
	// any order: they are sorted below.
	for id, e := range s.producers {
		if e.epoch == batch.NoProducerEpoch && e.n == 0 {
			continue // only its first append's verification is known
		}
		x := Entry{ProducerID: id, Epoch: e.epoch, LastSequence: batch.NoSequence, LastOffset: batch.NoOffset, Timestamp: e.lastTimestamp, CoordinatorEpoch: e.coordinatorEpoch, TxnFirstOffset: e.txnFirst}
		if e.n > 0 {
			k := e.kept[e.n-1]
			x.LastSequence, x.LastOffset, x.OffsetDelta = k.lastSeq, k.last, k.delta
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	return out
}

// Snapshot is what a snapshot file at End holds.
func (s *State) Snapshot() []Entry { return s.Entries() }

// Load replaces the state by a snapshot taken at end, leaving out producers that have expired by now.
func (s *State) Load(entries []Entry, end batch.Offset, now, expireMs int64) {
	s.Clear(end)
	for _, x := range entries {
		e := newEntry()
		e.epoch, e.coordinatorEpoch, e.lastTimestamp, e.txnFirst = x.Epoch, x.CoordinatorEpoch, x.Timestamp, x.TxnFirstOffset
		if e.expired(now, expireMs) {
			continue
		}
		if x.LastOffset >= 0 {
			e.add(kept{firstSeq: subSequence(x.LastSequence, x.OffsetDelta), lastSeq: x.LastSequence, last: x.LastOffset, delta: x.OffsetDelta, timestamp: x.Timestamp})
		}
		s.producers[x.ProducerID] = e
		if x.TxnFirstOffset >= 0 {
			s.open = insert(s.open, txn{first: x.TxnFirstOffset, last: batch.NoOffset, producer: x.ProducerID})
		}
	}
}

// subSequence is the inverse of batch.AddSequence.
func subSequence(sequence, n int32) int32 {
	if sequence < n {
		return 1<<31 - 1 - (n - sequence) + 1
	}
	return sequence - n
}
