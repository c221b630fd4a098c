package adopt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"millrace/storage"
	"millrace/storage/batch"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// transactionsTopic is where Kafka's transaction coordinator writes what it decides.
const transactionsTopic = "__transaction_state"

// Outcome is what became of an open transaction in a partition.
type Outcome int

const (
	LeftOpen Outcome = iota
	Aborted
	// Committed and AbortedAsDecided are of transactions whose end their coordinator had written down, so that their
	// producers may know of it, before Kafka stopped; markers in all their partitions were to follow.
	Committed
	AbortedAsDecided
)

func (o Outcome) String() string {
	return [...]string{"left open", "aborted", "committed, as its coordinator had decided", "aborted, as its coordinator had decided"}[o]
}

// Transaction is one that was open.
type Transaction struct {
	Topic      string
	Partition  int32
	ProducerID batch.ProducerID
	First      batch.Offset
	Outcome    Outcome
}

// decision is that a producer's transaction ends one way.
type decision struct {
	epoch  batch.ProducerEpoch
	commit bool
}

// The states of a transaction in the coordinator's records that say that its end is decided and its markers are not all
// written.
const (
	prepareCommit = 2
	prepareAbort  = 3
)

// decisions are those that a coordinator has written down and not yet carried out, by the producers' ids.
type decisions map[batch.ProducerID]decision

// note takes a record of the coordinator's: the last one of a transactional id counts. A key is of version 0; a value begins, in
// all versions, with the version, the producer's id and epoch, the transaction's time-out and its state.
func (d decisions) note(r batch.Record, of map[string]batch.ProducerID) {
	if len(r.Key) < 2 || binary.BigEndian.Uint16(r.Key) != 0 {
		return
	}
	if id, ok := of[string(r.Key)]; ok {
		delete(d, id)
		delete(of, string(r.Key))
	}
	if len(r.Value) < 17 || binary.BigEndian.Uint16(r.Value) > 1 {
		return
	}
	id := batch.ProducerID(binary.BigEndian.Uint64(r.Value[2:]))
	if state := r.Value[16]; state == prepareCommit || state == prepareAbort {
		d[id], of[string(r.Key)] = decision{epoch: batch.ProducerEpoch(binary.BigEndian.Uint16(r.Value[10:])), commit: state == prepareCommit}, id
	}
}

// decided reads what coordinators have decided.
func (a *adoption) decided(s *storage.Store) (decisions, error) {
	d, of := decisions{}, map[string]batch.ProducerID{}
	for _, p := range a.logs {
		if p.dir < 0 || p.topic.Name != transactionsTopic {
			continue
		}
		l, err := s.Log(p.topic.Name, p.topic.ID, p.p.Index, log.DefaultConfig())
		if err != nil {
			return nil, err
		}
		if err := eachRecord(l, func(r batch.Record) { d.note(r, of) }, func(batch.Offset) {}); err != nil {
			return nil, fmt.Errorf("read %s: %w", p.name(), err)
		}
	}
	return d, nil
}

// end ends, or leaves open, the transactions that are open in a partition.
func (a *adoption) end(l *log.Log, p *partition, decided decisions) error {
	for _, e := range l.Producers() {
		if e.TxnFirstOffset < 0 {
			continue
		}
		outcome, epoch, marker := LeftOpen, e.Epoch, batch.Abort
		switch d, ok := decided[e.ProducerID]; {
		case ok && d.epoch >= e.Epoch:
			outcome, epoch = AbortedAsDecided, d.epoch
			if d.commit {
				outcome, marker = Committed, batch.Commit
			}
		case a.o.Abort:
			outcome = Aborted
		}
		if outcome != LeftOpen {
			if err := a.mark(l, p.p.LeaderEpoch, e, epoch, marker); err != nil {
				return fmt.Errorf("end a transaction of %s: %w", p.name(), err)
			}
		}
		a.report.Open = append(a.report.Open, Transaction{Topic: p.topic.Name, Partition: p.p.Index, ProducerID: e.ProducerID, First: e.TxnFirstOffset, Outcome: outcome})
	}
	return nil
}

// mark ends a producer's transaction in one partition.
func (a *adoption) mark(l *log.Log, leader int32, e producer.Entry, epoch batch.ProducerEpoch, how batch.ControlType) error {
	if err := l.AssignEpoch(max(batch.LeaderEpoch(leader), l.LatestEpoch())); err != nil {
		return err
	}
	now := a.o.Now().UnixMilli()
	k, v := batch.Marker{Type: how, CoordinatorEpoch: max(e.CoordinatorEpoch, 0)}.KeyAndValue()
	u := batch.NewBuilder(batch.BuilderOptions{Producer: true, ProducerID: e.ProducerID, ProducerEpoch: epoch, BaseSequence: -1, Transactional: true, Control: true})
	u.Add(now, k, v)
	h, err := batch.ParseHeader(u.Bytes())
	if err != nil {
		return err
	}
	_, err = l.AppendWith(u.Bytes(), h, now, producer.Rules{Origin: producer.Coordinator})
	return err
}

// maxRecord is the longest record that is looked at: a coordinator loads none that is longer.
const maxRecord = 128 << 20

// eachRecord goes through the records of a log that are no control records, in their order. Of those that are too long to be
// read it gives the offset.
func eachRecord(l *log.Log, do func(batch.Record), long func(batch.Offset)) error {
	v := l.View()
	for at, end := v.LogStart(), v.LogEnd(); at < end; {
		s, err := v.Read(at, end, 1<<20, true)
		if err != nil {
			return err
		}
		b := make([]byte, s.Len())
		_, err = s.ReadAt(b, 0)
		s.Release()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		was := at
		for len(b) >= batch.HeaderSize {
			h, err := batch.ParseHeader(b)
			if err != nil {
				return err
			}
			if h.Size() > len(b) {
				break
			}
			one := b[:h.Size()]
			at, b = h.NextOffset(), b[h.Size():]
			if h.Attributes.Control() {
				continue
			}
			for r, err := range batch.Records(one, maxRecord) {
				if errors.As(err, new(*batch.LongError)) {
					long(r.Offset)
					continue
				}
				if err != nil {
					return err
				}
				do(r)
			}
		}
		if at == was {
			return fmt.Errorf("no whole batch at offset %d of %d", at, end)
		}
	}
	return nil
}

// unread are topics of coordinators that are not built.
var unread = []string{"__share_group_state", transactionsTopic}
