package log

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"slices"

	"millrace/storage/batch"
	"millrace/storage/check"
	"millrace/storage/producer"
)

// sound asks the checker what it thinks of the files; see world.sound.
func (w *cleanWorld) sound(clean bool) error {
	cut, err := w.torn(clean)
	if err == nil && cut != nil {
		return differ("the next start cuts %+v", *cut)
	}
	return err
}

// torn is sound where the next start may cut what was not flushed; see world.torn.
func (w *cleanWorld) torn(clean bool) (*check.Cut, error) {
	n, cut, err := sound(w.fs, clean, w.point, w.storedStart)
	w.counts["checked"] += n
	return cut, err
}

// check reads everything and compares it with the model.
func (w *cleanWorld) check(d draw) error {
	v := w.log.View()
	if v.LogStart() != w.start || v.LogEnd() != w.end || v.HighWatermark() != w.hw {
		return differ("log is %d, %d, %d, want %d, %d, %d", v.LogStart(), v.HighWatermark(), v.LogEnd(), w.start, w.hw, w.end)
	}
	for _, h := range w.held {
		p := make([]byte, h.s.Len())
		if n, err := h.s.ReadAt(p, 0); n != len(p) || (err != nil && err != io.EOF) || !bytes.Equal(p, h.bytes) {
			return differ("a held section changed: %v", err)
		}
	}
	there, batches, err := w.readAll(v, d)
	if err != nil {
		return err
	}
	if err := w.checkRecords(there); err != nil {
		return err
	}
	if err := w.checkCommitted(v, batches); err != nil {
		return err
	}
	for range 3 {
		if err := w.checkPlaces(v, d, there); err != nil {
			return err
		}
	}
	if !w.cuts {
		return w.checkProducers()
	}
	return nil
}

type readBatch struct {
	h       batch.Header
	marker  *batch.Marker
	records []batch.Record
}

func (w *cleanWorld) readAll(v *View, d draw) (map[batch.Offset]batch.Record, []readBatch, error) {
	there := map[batch.Offset]batch.Record{}
	var batches []readBatch
	last := batch.Offset(-1)
	for at := w.start; at < w.end; {
		s, err := v.Read(at, w.end, 1+d(1500, "max bytes"), true)
		if err != nil {
			return nil, nil, fmt.Errorf("read at %d: %w", at, err)
		}
		b, err := sectionBytes(s)
		if err != nil {
			return nil, nil, err
		}
		if len(b) == 0 {
			break
		}
		for len(b) >= batch.HeaderSize {
			h, err := batch.ParseHeader(b)
			if err != nil {
				return nil, nil, differ("at %d: %v", at, err)
			}
			if h.Size() > len(b) {
				break
			}
			if err := batch.CheckCRC(b[:h.Size()]); err != nil {
				return nil, nil, differ("at %d: %v", at, err)
			}
			if h.LastOffset() < at || h.BaseOffset <= last {
				return nil, nil, differ("batch %d to %d behind %d, read at %d", h.BaseOffset, h.LastOffset(), last, at)
			}
			_, records := parse(b[:h.Size()])
			x := readBatch{h: h, records: records}
			if h.Attributes.Control() {
				if m, ok, err := batch.ParseMarker(b[:h.Size()]); err == nil && ok {
					x.marker = &m
				}
			}
			batches = append(batches, x)
			for _, r := range records {
				if r.Offset <= last {
					return nil, nil, differ("record %d behind %d", r.Offset, last)
				}
				last = r.Offset
				there[r.Offset] = r
			}
			last, at = h.LastOffset(), h.NextOffset()
			b = b[h.Size():]
		}
	}
	return there, batches, nil
}

func (w *cleanWorld) checkRecords(there map[batch.Offset]batch.Record) error {
	left := map[batch.Offset]bool{}
	for o := range there {
		left[o] = true
	}
	data := map[int]bool{} // transactions with a record
	for _, b := range w.batches {
		for _, r := range b.records {
			o := r.r.Offset
			got, ok := there[o]
			delete(left, o)
			switch {
			case o < w.start:
				continue
			case ok && !reflect.DeepEqual(got, r.r):
				return differ("record %d is %+v, want %+v", o, got, r.r)
			case ok && r.must && o < w.log.CleanedTo():
				return differ("record %d (%s) is still there; cleaned to %d", o, r.r.Key, w.log.CleanedTo())
			case !ok && !b.marker && !r.may:
				return differ("record %d (%s) is gone", o, r.r.Key)
			}
			if ok && !b.marker {
				data[b.txn] = true
			}
		}
	}
	for o := range left {
		if o >= w.start {
			return differ("record %d was never appended", o)
		}
	}
	for _, b := range w.batches {
		if !b.marker || b.h.BaseOffset < w.start {
			continue
		}
		if _, ok := there[b.h.BaseOffset]; ok {
			continue
		}
		if b.txn < 0 {
			return differ("marker %d is gone", b.h.BaseOffset)
		}
		if t := w.txns[b.txn]; data[b.txn] || t.attempts < 2 || w.clock < t.markerMay {
			return differ("marker %d is gone after %d cleanings (records left: %v, it may go at %d, it is %d)", b.h.BaseOffset, t.attempts, data[b.txn], t.markerMay, w.clock)
		}
	}
	return nil
}

// checkCommitted reads as a read_committed consumer does, and wants all batches of transactions that were committed and
// none of others. That goes for those without records, too: a recovery reads there what their producers did.
func (w *cleanWorld) checkCommitted(v *View, batches []readBatch) error {
	list, err := v.Aborted(w.start, v.LastStable())
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
	aborted := map[batch.ProducerID]bool{}
	bad := map[batch.Offset]bool{} // by the last offset of a batch, which stays although its records go
	for _, b := range w.batches {
		bad[b.h.LastOffset()] = w.isAborted(b)
	}
	for _, b := range batches {
		if b.h.LastOffset() >= v.LastStable() {
			break
		}
		for len(list) > 0 && list[0].FirstOffset <= b.h.LastOffset() {
			aborted[list[0].ProducerID] = true
			list = list[1:]
		}
		if b.marker != nil {
			delete(aborted, b.h.ProducerID)
			continue
		}
		hidden := b.h.Attributes.Transactional() && aborted[b.h.ProducerID]
		if last := b.h.LastOffset(); !b.h.Attributes.Control() && hidden != bad[last] {
			return differ("the batch that ends at %d (aborted: %v), with %d records, is hidden from a read_committed consumer: %v", last, bad[last], len(b.records), hidden)
		}
	}
	return nil
}

// checkPlaces looks up an offset and a time.
func (w *cleanWorld) checkPlaces(v *View, d draw, there map[batch.Offset]batch.Record) error {
	if w.end == w.start {
		return nil
	}
	ts := w.clock - int64(d(8000, "ago"))
	// Only the first segment is looked at that has a newer record, or had one: a batch that lost its records keeps its
	// largest timestamp, what lies below the log start counts, and a segment without any has its file's.
	first, end := batch.Offset(-1), w.end
	for i := range v.segs {
		largest, err := v.largest(i)
		if err != nil {
			return err
		}
		end := endOfSegment(v, v.segs[i].base)
		for o, r := range there {
			if o >= v.segs[i].base && o < end && r.Timestamp > largest {
				return differ("record %d has time %d, and its segment at most %d", o, r.Timestamp, largest)
			}
		}
		if largest < 0 && i < len(v.segs)-1 {
			if largest, err = v.segs[i].newest(); err != nil {
				return err
			}
		}
		if largest >= ts && first < 0 {
			first = v.segs[i].base
		}
	}
	if first >= 0 {
		end = endOfSegment(v, first)
	}
	want := batch.Offset(-1)
	for o, r := range there {
		if first >= 0 && o >= max(w.start, first) && o < end && r.Timestamp >= ts && (want < 0 || o < want) {
			want = o
		}
	}
	f, ok, err := v.OffsetForTime(ts, w.end)
	if err != nil {
		return err
	}
	if (want >= 0) != ok || (ok && f.Offset != want) {
		return differ("first record at or behind time %d is %d (%v), want %d", ts, f.Offset, ok, want)
	}
	return nil
}

// checkProducers compares what is known of producers with what all batches say, removed ones too.
func (w *cleanWorld) checkProducers() error {
	s := producer.New()
	for _, b := range w.batches {
		var m *batch.Marker
		if b.marker {
			m = &batch.Marker{Type: batch.Commit, Timestamp: b.records[0].r.Timestamp}
		}
		s.Appended(b.h, m)
	}
	want, got := s.Entries(), w.log.Producers()
	// The times that markers leave are those of batches that may be gone; and so may the markers be.
	for _, list := range [][]producer.Entry{want, got} {
		for i := range list {
			list[i].Timestamp = 0
			if w.bare {
				list[i].CoordinatorEpoch = 0
			}
		}
	}
	if !slices.Equal(got, want) {
		return differ("producers are\n%+v, want\n%+v", got, want)
	}
	return nil
}
