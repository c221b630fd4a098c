// Package producer keeps what one partition must remember of its producers: epoch and sequence of the latest batches,
// so that a retry is stored once, and the transactions that are open or not yet replicated, which bound what
// read_committed consumers may see.
//
// It is pure: the log asks Check before an append and tells Appended after it; reading a log from the start through
// Appended gives the same state, so recovery and live running are one path. It does no input or output: a snapshot is a
// slice of entries, and its file's bytes come from EncodeSnapshot.
//
// It promises that a sequence number is accepted once per producer epoch, as far as its window of five batches and
// Kafka's rules of expiry reach.
package producer

import (
	"millrace/storage/batch"
)

// Origin says who appends.
type Origin int8

// The origins.
const (
	Client      Origin = iota // sequences, epochs and duplicates are checked
	Coordinator               // epochs are checked
	Replication               // everything was checked by the leader
)

// Rules say how Check looks at a batch.
type Rules struct {
	Origin Origin
	// Marker is the control record of a control batch; nil where the batch is none.
	Marker *batch.Marker
	// Verified says that the transaction coordinator has vouched for the batch's transaction, or that nobody asks it
	// to. A transactional batch that begins a transaction here is refused without it.
	Verified bool
	// StrictStart refuses a producer without state whose first sequence is not zero (transactions of version 2,
	// KIP-890).
	StrictStart bool
	// StrictMarker refuses a marker whose epoch is not above the stored one while a transaction is open (KIP-890).
	StrictMarker bool
}

// Verdict is what Check says of a batch that is not refused.
type Verdict struct {
	// Duplicate says that the batch is stored already, as Base to Last.
	Duplicate    bool
	Base, Last   batch.Offset
	MaxTimestamp int64
}

// Completed is a transaction that a marker ended.
type Completed struct {
	ProducerID  batch.ProducerID
	FirstOffset batch.Offset
	LastOffset  batch.Offset // the marker's
	Aborted     bool
	// LastStable is the last stable offset the partition would have if the marker were replicated: what the
	// transaction index stores.
	LastStable batch.Offset
}

// Entry is one producer, as DescribeProducers and the snapshot file show it. An entry of a snapshot holds the last batch
// only.
type Entry struct {
	ProducerID       batch.ProducerID
	Epoch            batch.ProducerEpoch
	LastSequence     int32
	LastOffset       batch.Offset
	OffsetDelta      int32 // LastOffset - first offset of the last batch
	Timestamp        int64
	CoordinatorEpoch int32
	TxnFirstOffset   batch.Offset // -1 if no transaction is open
}
