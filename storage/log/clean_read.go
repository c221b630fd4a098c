package log

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"millrace/storage/batch"
	"millrace/storage/compact"
)

// each calls f for each whole batch of a segment from a position on, with its checksum compared.
func (c *cleaner) each(seg *segment, from int64, f func(h batch.Header, b []byte, m *batch.Marker) (bool, error)) error {
	file, err := seg.log.acquire()
	if err != nil {
		return err
	}
	defer seg.log.release()
	if len(c.buf) != c.o.Buffer {
		c.buf = make([]byte, c.o.Buffer) // it had to grow for a batch
	}
	s := scanner{f: file, pos: from, limit: seg.size, buf: c.buf}
	defer func() { c.buf = s.buf }()
	read := int64(0)
	for {
		h, err := s.header()
		if err == io.EOF {
			return nil
		}
		var b []byte
		if err == nil {
			b, err = s.body(h)
		}
		if err == nil && h.LastOffset() < seg.base {
			err = &CorruptError{Position: s.pos, Why: fmt.Sprintf("batch of offsets %d to %d", h.BaseOffset, h.LastOffset())}
		}
		if err == nil {
			if bad := batch.CheckCRC(b); bad != nil {
				err = &CorruptError{Position: s.pos, Why: "checksum", Err: bad}
			}
		}
		var m *batch.Marker
		if err == nil {
			m, err = s.marker(h)
		}
		more := false
		if err == nil {
			if more, err = f(h, b, m); err != nil && !isOurs(err) {
				err = &CorruptError{Position: s.pos, Why: "records", Err: err}
			}
		}
		if isCorrupt(err) {
			at := s.pos
			return &DamagedError{Damage{Segment: seg.log.where(), Position: at, Offset: max(h.BaseOffset, seg.base), Reason: err}}
		}
		if err != nil || !more {
			return err
		}
		if s.read > read {
			if err := c.throttle(int(s.read - read)); err != nil {
				return err
			}
			read = s.read
		}
		s.step(h)
	}
}

// isOurs says whether an error is one of the cleaning itself, and not of a batch.
func isOurs(err error) bool {
	return errors.As(err, new(*cleanError))
}

// cleanError is an error of the cleaning: of the disk, or that it is to end.
type cleanError struct{ err error }

func (e *cleanError) Error() string { return e.err.Error() }
func (e *cleanError) Unwrap() error { return e.err }

func ours(err error) error {
	if err == nil {
		return nil
	}
	return &cleanError{err}
}

// buildMap notes the newest record of each key that the dirty segments hold, as far as there is room for keys.
func (c *cleaner) buildMap() error {
	r, keys := c.o.Range, c.o.Keys
	keys.Clear()
	txns := compact.NewTransactions()
	for i, seg := range c.segs {
		next := r.Upper
		if i+1 < len(c.segs) {
			next = c.segs[i+1].base
		}
		if next <= r.From {
			continue
		}
		from := int64(0)
		if r.From > seg.base {
			at, ok, err := seg.find(r.From, seg.size)
			if err != nil {
				return err
			}
			if from = at.pos; !ok {
				from = seg.size
			}
		}
		aborted, err := c.aborted(i, r.From)
		if err != nil {
			return err
		}
		txns.Add(aborted)
		full := false
		err = c.each(seg, from, func(h batch.Header, b []byte, m *batch.Marker) (bool, error) {
			c.out.MapBytes += int64(len(b))
			c.out.MapRead += int64(h.Count)
			switch {
			case h.Attributes.Control():
				txns.Control(h, m)
			case txns.Data(h):
			default:
				err := batch.WalkKeys(b, c.o.Scratch, func(o batch.Offset, key batch.Key) bool {
					if !key.Null() && o >= r.From {
						full = !keys.Put(key, o)
					}
					return !full
				})
				if err != nil || full {
					return false, err
				}
			}
			keys.Reached(h.LastOffset())
			return true, nil
		})
		if err != nil {
			return err
		}
		if full {
			return nil
		}
		keys.Reached(next - 1) // also past a hole at its end
	}
	return nil
}

// aborted lists the aborted transactions with batches in a segment at or behind an offset.
func (c *cleaner) aborted(i int, from batch.Offset) ([]compact.Aborted, error) {
	upper := c.o.Range.Upper
	if i+1 < len(c.segs) {
		upper = c.segs[i+1].base
	}
	from = max(from, c.segs[i].base)
	var out []compact.Aborted
	// The marker may lie in any later segment below the last stable offset, which a cleaning never passes.
	for _, seg := range c.segs[i:] {
		entries, err := seg.txns.list()
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.last >= from && e.first < upper {
				out = append(out, compact.Aborted{ProducerID: e.producerID, First: e.first, Last: e.last, LastStable: e.lastStable})
			}
			if e.lastStable >= upper {
				return out, nil
			}
		}
	}
	// Beyond what is cleaned: a transaction may end in a segment that is not.
	v := c.l.View()
	for j := max(v.segmentAt(c.o.Range.Upper), 0); j < len(v.segs); j++ {
		if v.segs[j].base < c.o.Range.Upper {
			continue
		}
		entries, err := v.segs[j].txns.list()
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.first < upper {
				out = append(out, compact.Aborted{ProducerID: e.producerID, First: e.first, Last: e.last, LastStable: e.lastStable})
			}
			if e.lastStable >= upper {
				return out, nil
			}
		}
	}
	return out, nil
}

// follow has the batches of a segment pass, with the transactions that were aborted in it.
func (c *cleaner) follow(seg *segment, f func(batch.Header, []byte, *batch.Marker) (bool, error)) error {
	aborted, err := c.aborted(slices.Index(c.segs, seg), seg.base)
	if err != nil {
		return err
	}
	c.filter.Txns.Add(aborted)
	return c.each(seg, 0, f)
}
