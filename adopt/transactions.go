package adopt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

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

// decision is that a producer's transaction ends one way in some partitions.
type decision struct {
	epoch  batch.ProducerEpoch
	commit bool
	topics []kmsg.TxnMetadataValueTopic
}

// in says whether the transaction was known to reach into a partition. One that it did not reach, where the same producer has
// something open (KIP-664), is not its coordinator's concern.
func (d decision) in(p *partition) bool {
	return slices.ContainsFunc(d.topics, func(t kmsg.TxnMetadataValueTopic) bool {
		return t.Topic == p.topic.Name && slices.Contains(t.Partitions, p.p.Index)
	})
}

// decisions are those that a coordinator has written down and not yet carried out, by the producers' ids.
type decisions map[batch.ProducerID]decision

// note takes a record of the coordinator's: the last one of a transactional id counts. A key is of version 0, a value of 0 or 1.
// The state in which an end is decided and not all markers are written is one of two.
func (d decisions) note(r batch.Record, of map[string]batch.ProducerID) {
	if len(r.Key) < 2 || binary.BigEndian.Uint16(r.Key) != 0 {
		return
	}
	if id, ok := of[string(r.Key)]; ok {
		delete(d, id)
		delete(of, string(r.Key))
	}
	if len(r.Value) < 2 || binary.BigEndian.Uint16(r.Value) > 1 {
		return
	}
	var v kmsg.TxnMetadataValue
	if v.ReadFrom(r.Value) != nil {
		return // what is not understood decides nothing
	}
	if v.State == kmsg.TransactionStatePrepareCommit || v.State == kmsg.TransactionStatePrepareAbort {
		id := batch.ProducerID(v.ProducerID)
		d[id], of[string(r.Key)] = decision{batch.ProducerEpoch(v.ProducerEpoch), v.State == kmsg.TransactionStatePrepareCommit, v.Topics}, id
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
			// As with committed offsets: what is behind it is not known, and said to be so.
			a.left("transactions whose end was decided: %s cannot be read: %v", p.name(), err)
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
		case ok && d.epoch >= e.Epoch && d.in(p):
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
