package proxy

import (
	"bytes"
	"errors"
	"fmt"
)

// Fault is what the proxy does to one record on its way to the client.
type Fault int

// The faults. All but Drop leave every offset in its place; Drop leaves a hole, as compaction does.
const (
	Honest  Fault = iota // nothing
	Drop                 // one record is missing
	Repeat               // one record's content comes again in place of the next one's
	Reorder              // two records of one key change places
	Alter                // one byte of a value is another
)

// Faults are all but Honest.
var Faults = []Fault{Drop, Repeat, Reorder, Alter}

func (f Fault) String() string {
	return [...]string{"honest", "drop", "repeat", "reorder", "alter"}[f]
}

// plant changes a batch, if there is a record in it that the fault fits, and says what it did.
func (f Fault) plant(b *batch) (what string, done bool) {
	recs := b.records
	at := func(i int) string { return fmt.Sprintf("offset %d", baseOffset(b.header)+recs[i].offsetDelta) }
	switch f {
	case Drop:
		// Not the last one: a batch ends at the offset that its header announces.
		if len(recs) < 3 {
			return "", false
		}
		i := len(recs) / 2
		what = "dropped " + at(i)
		b.records = append(recs[:i:i], recs[i+1:]...)
		return what, true
	case Repeat:
		for i := len(recs) / 2; i+1 < len(recs); i++ {
			if same(recs[i], recs[i+1]) {
				continue
			}
			recs[i+1] = moved(recs[i], recs[i+1])
			return fmt.Sprintf("repeated %s in place of the next", at(i)), true
		}
	case Reorder:
		for i := range recs {
			for j := i + 1; j < len(recs); j++ {
				if recs[i].key == nil || !bytes.Equal(recs[i].key, recs[j].key) || bytes.Equal(recs[i].value, recs[j].value) {
					continue
				}
				recs[i], recs[j] = moved(recs[j], recs[i]), moved(recs[i], recs[j])
				return fmt.Sprintf("exchanged %s and %s", at(i), at(j)), true
			}
		}
	case Alter:
		for i := len(recs) / 2; i < len(recs); i++ {
			if len(recs[i].value) == 0 {
				continue
			}
			value := bytes.Clone(recs[i].value)
			value[len(value)/2] ^= 1
			recs[i].value = value
			return "altered " + at(i), true
		}
	}
	return "", false
}

// moved is what's content at where's offset.
func moved(what, where record) record {
	what.offsetDelta = where.offsetDelta
	return what
}

func same(a, b record) bool {
	return bytes.Equal(a.key, b.key) && bytes.Equal(a.value, b.value) && a.timestampDelta == b.timestampDelta && bytes.Equal(a.headers, b.headers)
}

// place is where a fault was planted. The batch there is spoiled each time it is fetched: a client may fetch it again
// after a rebalance.
type place struct {
	topic     string
	partition int32
	base      int64
}

// spoil plants the fault in the batches of one fetched partition, if it belongs there, and returns what to send instead.
func (p *Proxy) spoil(topic string, partition int32, batches []byte) ([]byte, error) {
	var out []byte
	for rest := batches; len(rest) > 0; {
		one, after, err := splitBatch(rest)
		if errors.Is(err, errCut) {
			return append(out, rest...), nil
		}
		if err != nil {
			return nil, err
		}
		rest = after
		here := place{topic, partition, baseOffset(one)}
		p.mu.Lock()
		chosen := p.chosen
		p.seen++
		early := p.seen <= skipBatches
		p.mu.Unlock()
		if (chosen == nil && !early) || (chosen != nil && *chosen == here) {
			b, err := parseBatch(one)
			if err != nil {
				return nil, err
			}
			if what, done := p.fault.plant(b); done {
				p.mu.Lock()
				if p.chosen == nil || *p.chosen == here {
					p.chosen = &here
					p.did = fmt.Sprintf("%s-%d: %s", topic, partition, what)
					one = b.bytes()
				}
				p.mu.Unlock()
			}
		}
		out = append(out, one...)
	}
	return out, nil
}

// skipBatches is how many batches pass before a fault is planted.
const skipBatches = 3
