package compact

import "millrace/storage/batch"

// LastRecord is where a producer's state comes from: its last batch of data, or where none is known its last epoch, which
// a marker carries.
type LastRecord struct {
	Offset batch.Offset // -1: none
	Epoch  batch.ProducerEpoch
}

// Filter says what stays of a log's batches and records. They pass in their order.
type Filter struct {
	Keys  *Keys
	Txns  *Transactions
	Upper batch.Offset // where the cleaning ends
	// Last is of the producers that are still known; of each segment's cleaning anew.
	Last map[batch.ProducerID]LastRecord
	Now  int64 // ms
	// DeleteRetentionMs is delete.retention.ms: how long a tombstone or marker that could go is kept.
	DeleteRetentionMs int64
}

// Fate is what becomes of a batch.
type Fate struct {
	Drop        bool // it goes, whatever it holds
	DropRecords bool // its records go
	KeepEmpty   bool // it stays although no record of it does
	// Horizon asks for a delete horizon although no tombstone is in it: it holds a marker that nothing needs.
	Horizon bool
	// Aborted is a transaction to be listed in the index of the segment the batch goes to; nil: none.
	Aborted *Aborted
}

// Batch decides about a batch; m is its marker, nil if it holds none.
func (f *Filter) Batch(h batch.Header, m *batch.Marker) Fate {
	var fate Fate
	var done bool
	if h.Attributes.Control() {
		done, fate.Aborted = f.Txns.Control(h, m)
		fate.Horizon = done
		fate.DropRecords = done && h.Attributes.DeleteHorizon() && h.BaseTimestamp <= f.Now
	} else {
		done = f.Txns.Data(h)
		fate.DropRecords = done
	}
	fate.KeepEmpty = f.lastOfProducer(h) || h.NextOffset() == f.Upper
	fate.Drop = fate.DropRecords && !fate.KeepEmpty
	return fate
}

// lastOfProducer says whether the state of a producer that is still known is read from this batch.
func (f *Filter) lastOfProducer(h batch.Header) bool {
	if !h.HasProducer() {
		return false
	}
	last, known := f.Last[h.ProducerID]
	switch {
	case !known:
		return false
	case last.Offset >= 0:
		return h.LastOffset() == last.Offset
	}
	return h.Attributes.Control() && h.ProducerEpoch == last.Epoch
}

// Record says whether a record of a batch that is not a control batch, and of no aborted transaction, stays.
func (f *Filter) Record(h batch.Header, o batch.Offset, key batch.Key, hasValue bool) bool {
	if o > f.Keys.Latest() {
		return true
	}
	if key.Null() || o < f.Keys.Get(key) {
		return false
	}
	return hasValue || !h.Attributes.DeleteHorizon() || f.Now < h.BaseTimestamp
}

// Horizon is the delete horizon that a batch gets in this cleaning, in ms.
func (f *Filter) Horizon() int64 {
	if f.Now > maxTime-f.DeleteRetentionMs {
		return maxTime
	}
	return f.Now + f.DeleteRetentionMs
}

// maxTime is the latest time a batch can carry.
const maxTime = 1<<63 - 1
