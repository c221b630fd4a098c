package coordinator

import (
	"millrace/broker/machine"
	"millrace/storage/batch"
)

// newBatch is a decision as Kafka's group coordinator writes one: uncompressed
// unless offsets.topic.compression.codec says otherwise, base sequence 0 whether or not a producer stands behind it.
func newBatch(nowMs int64, o batch.BuilderOptions, d machine.Decision) []byte {
	o.Producer, o.ProducerID, o.ProducerEpoch = true, batch.NoProducerID, batch.NoProducerEpoch
	if d.Producer != nil {
		o.ProducerID, o.ProducerEpoch = batch.ProducerID(d.Producer.ID), batch.ProducerEpoch(d.Producer.Epoch)
		o.Transactional = true
	}
	b := batch.NewBuilder(o)
	for _, r := range d.Records {
		b.Add(nowMs, r.Key, r.Value)
	}
	return b.Bytes()
}

// newMarker is the control batch that ends a transaction.
func newMarker(nowMs int64, m machine.Marker) []byte {
	b := batch.NewBuilder(batch.BuilderOptions{
		Producer:      true,
		ProducerID:    batch.ProducerID(m.Producer.ID),
		ProducerEpoch: batch.ProducerEpoch(m.Producer.Epoch),
		BaseSequence:  batch.NoSequence,
		Transactional: true,
		Control:       true,
	})
	end := batch.Marker{Type: batch.Abort, CoordinatorEpoch: m.CoordinatorEpoch}
	if m.Commit {
		end.Type = batch.Commit
	}
	key, value := end.KeyAndValue()
	b.Add(nowMs, key, value)
	return b.Bytes()
}
