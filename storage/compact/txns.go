package compact

import (
	"cmp"
	"maps"
	"slices"

	"millrace/storage/batch"
)

// Aborted is an aborted transaction, as a segment's index of them holds it.
type Aborted struct {
	ProducerID batch.ProducerID
	First      batch.Offset
	Last       batch.Offset // of its marker
	LastStable batch.Offset
}

// Transactions follows the transactions of a log while its batches pass in their order.
type Transactions struct {
	coming    []Aborted // by first offset
	aborted   map[batch.ProducerID]*begun
	committed map[batch.ProducerID]bool
}

// begun is an aborted transaction that has begun; seen says that a batch of it is left.
type begun struct {
	t    Aborted
	seen bool
}

// NewTransactions knows of none.
func NewTransactions() *Transactions {
	return &Transactions{aborted: map[batch.ProducerID]*begun{}, committed: map[batch.ProducerID]bool{}}
}

// Clone is what x knows, to go on from twice.
func (x *Transactions) Clone() *Transactions {
	out := &Transactions{coming: slices.Clone(x.coming), aborted: map[batch.ProducerID]*begun{}, committed: maps.Clone(x.committed)}
	for id, b := range x.aborted { // any order: a map is made of it
		c := *b
		out.aborted[id] = &c
	}
	return out
}

// Add tells of aborted transactions that have batches in what follows. One that reaches over several segments may be told
// again for each.
func (x *Transactions) Add(list []Aborted) {
	x.coming = append(x.coming, list...)
	slices.SortStableFunc(x.coming, func(a, b Aborted) int { return cmp.Compare(a.First, b.First) })
}

// begin takes up those that begin at or before the end of a batch. One whose marker lies before the batch is over: were it
// taken up, what its producer wrote since would be taken for a part of it.
func (x *Transactions) begin(h batch.Header) {
	for len(x.coming) > 0 && x.coming[0].First <= h.LastOffset() {
		t := x.coming[0]
		x.coming = x.coming[1:]
		if b := x.aborted[t.ProducerID]; t.Last >= h.BaseOffset && (b == nil || b.t.Last < h.BaseOffset) {
			x.aborted[t.ProducerID] = &begun{t: t}
		}
	}
}

// Data takes note of a batch that is not a control batch, and says whether its transaction was aborted.
func (x *Transactions) Data(h batch.Header) (aborted bool) {
	x.begin(h)
	if !h.Attributes.Transactional() {
		return false
	}
	if b := x.aborted[h.ProducerID]; b != nil && b.t.Last >= h.BaseOffset {
		b.seen = true
		return true
	}
	x.committed[h.ProducerID] = true
	return false
}

// Control takes note of a control batch; m is its marker, nil if it holds none. done says that no batch of the transaction
// it ends is left, so that nothing needs it; aborted is the transaction as the index has to list it on, nil where it need
// not.
func (x *Transactions) Control(h batch.Header, m *batch.Marker) (done bool, aborted *Aborted) {
	x.begin(h)
	switch {
	case m == nil:
		return h.Count == 0, nil // emptied by a cleaning before, or a record of another kind
	case m.Type == batch.Abort:
		b := x.aborted[h.ProducerID]
		delete(x.aborted, h.ProducerID)
		if b != nil && b.seen {
			return false, &b.t
		}
		return true, nil
	default:
		was := x.committed[h.ProducerID]
		delete(x.committed, h.ProducerID)
		return !was, nil
	}
}
