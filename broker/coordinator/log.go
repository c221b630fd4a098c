package coordinator

import (
	"errors"
	"fmt"

	"millrace/broker/machine"
	"millrace/storage/batch"
	"millrace/storage/codec"
)

// Log is the partition of the internal topic that a shard owns, for one
// leadership of this broker. The shard is the only one that appends to it.
type Log interface {
	// Append writes one batch at the end of the log, as the leader, and gives
	// the offsets it got. The bytes may be changed in place. It does not wait for
	// followers. A *Refused error says that nothing was written; after any other
	// the outcome is unknown.
	Append(b []byte) (base, last batch.Offset, err error)
	// Start and End are the log start and the log end.
	Start() batch.Offset
	End() batch.Offset
	// HighWatermark is the offset below which all is committed.
	HighWatermark() batch.Offset
	// Read gives whole batches, at least one, beginning with the one that holds
	// from or the first one after it; about maxBytes of them. It is only asked
	// for offsets between Start and End. A cut batch at the end does no harm. The
	// bytes are the caller's.
	Read(from batch.Offset, maxBytes int) ([]byte, error)
	// Where is the file, and the position in it, of what Read gives first for an
	// offset, whole or not; "" and -1 where that cannot be told.
	Where(o batch.Offset) (file string, position int64)
	// Watch has wake called, from any goroutine and under any lock, whenever the
	// high watermark moves. wake does not block. stop ends it.
	Watch(wake func()) (stop func())
}

// replay feeds whole batches to the machine and gives the offset after the last
// one that the machine has taken.
func (s *Shard) replay(m machine.Machine, b []byte, from batch.Offset) (next batch.Offset, err error) {
	next = from
	for len(b) > 0 {
		h, err := batch.ParseHeader(b)
		if errors.Is(err, batch.ErrShort) {
			return next, nil // a cut batch: read again from here
		}
		if err != nil {
			return next, fmt.Errorf("reading the batch at or after offset %d: %w", next, err)
		}
		if h.Size() > len(b) {
			return next, nil
		}
		one := b[:h.Size()]
		b = b[h.Size():]
		if h.NextOffset() <= next {
			continue
		}
		if err := batch.CheckCRC(one); err != nil {
			return next, fmt.Errorf("reading the batch at offset %d: %w", h.BaseOffset, err)
		}
		if h.Attributes.Control() {
			if err := replayControl(m, h, one); err != nil {
				return next, fmt.Errorf("reading the control batch at offset %d: %w", h.BaseOffset, err)
			}
			next = h.NextOffset()
			continue
		}
		if h.Attributes.Codec() == codec.None {
			err = s.replayRecords(m, h, one, from, nil)
		} else {
			s.o.Scratch(func(sc *batch.Scratch) { err = s.replayRecords(m, h, one, from, sc) })
		}
		if err != nil {
			return next, fmt.Errorf("reading the records at offset %d: %w", h.BaseOffset, err)
		}
		next = h.NextOffset()
	}
	return next, nil
}

// replayRecords feeds the records of a batch to the machine. Whoever may write
// to the topic can leave a record there that unpacks to more than there is
// memory for: it is of no use to the machine, and no reason not to load.
func (s *Shard) replayRecords(m machine.Machine, h batch.Header, one []byte, from batch.Offset, sc *batch.Scratch) error {
	var producer *machine.Producer
	if h.Attributes.Transactional() {
		producer = &machine.Producer{ID: int64(h.ProducerID), Epoch: int16(h.ProducerEpoch)}
	}
	for rec, err := range batch.RecordsWith(one, s.o.LoadLimit, sc) {
		long := (*batch.LongError)(nil)
		if err != nil && !errors.As(err, &long) {
			return err
		}
		if rec.Offset < from {
			continue
		}
		if long != nil {
			s.passed.add(rec.Offset, long.Error())
			continue
		}
		r := machine.Record{Key: rec.Key, Value: rec.Value, Producer: producer}
		if why := m.Replay(r); why != "" {
			s.passed.add(rec.Offset, why)
		}
	}
	return nil
}

func replayControl(m machine.Machine, h batch.Header, one []byte) error {
	mk, ok, err := batch.ParseMarker(one)
	if err != nil || !ok {
		return err
	}
	m.ReplayMarker(machine.Marker{
		Producer:         machine.Producer{ID: int64(h.ProducerID), Epoch: int16(h.ProducerEpoch)},
		CoordinatorEpoch: mk.CoordinatorEpoch,
		Commit:           mk.Type == batch.Commit,
	})
	return nil
}
