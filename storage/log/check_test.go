package log

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"millrace/storage/batch"
	"millrace/storage/epoch"
)

// checkOffsets compares what a view says without reading.
func (w *world) checkOffsets() error {
	v := w.log.View()
	if v.LogStart() != w.start || v.HighWatermark() != w.hw || v.LogEnd() != w.end || v.LastStable() != w.hw {
		return differ("log is %d, %d, %d, %d, want %d, %d, %d, %d", v.LogStart(), v.LastStable(), v.HighWatermark(), v.LogEnd(), w.start, w.hw, w.hw, w.end)
	}
	return w.checkEpochs(v)
}

// check compares everything.
func (w *world) check() error {
	if err := w.checkOffsets(); err != nil {
		return err
	}
	if err := w.checkAll(w.log.View()); err != nil {
		return err
	}
	return w.checkHeld()
}

// visible is the batches a reader may see.
func (w *world) visible() []stored {
	i := 0
	for i < len(w.batches) && w.batches[i].last < w.start {
		i++
	}
	return w.batches[i:]
}

func (w *world) checkAll(v *View) error {
	at := w.start
	want := w.visible()
	for at < w.end {
		s, err := v.Read(at, w.end, 1<<20, true)
		if err != nil {
			return fmt.Errorf("read at %d: %w", at, err)
		}
		if s.Len() == 0 {
			break
		}
		got, err := sectionBytes(s)
		if err != nil {
			return err
		}
		for len(got) > 0 {
			if len(want) == 0 {
				return differ("more is read at %d than was appended", at)
			}
			if len(got) < len(want[0].bytes) || !bytes.Equal(got[:len(want[0].bytes)], want[0].bytes) {
				return differ("batch %d is not read back at %d", want[0].base, at)
			}
			at = want[0].last + 1
			got, want = got[len(want[0].bytes):], want[1:]
		}
	}
	if len(want) > 0 {
		return differ("batch %d is missing; log ends at %d", want[0].base, w.end)
	}
	return nil
}

func sectionBytes(s Section) ([]byte, error) {
	defer s.Release()
	p := make([]byte, s.Len())
	n, err := s.ReadAt(p, 0)
	if n != len(p) || (err != nil && err != io.EOF) {
		return nil, fmt.Errorf("section of %d bytes gives %d: %w", len(p), n, err)
	}
	return p, nil
}

func (w *world) checkEpochs(v *View) error {
	var want []epoch.Entry
	for e, o := range w.begun {
		want = append(want, epoch.Entry{Epoch: e, Start: o})
	}
	slices.SortFunc(want, func(a, b epoch.Entry) int { return int(a.Epoch - b.Epoch) })
	c, ok := epoch.New(want)
	if !ok {
		panic(fmt.Sprintf("model's epochs are %v", want))
	}
	if c = c.TruncateFromStart(w.start); !c.Equal(v.Epochs()) {
		return differ("epochs are %v, want %v", v.Epochs(), c)
	}
	return nil
}

// checkReads asks for random stretches and times.
func (w *world) checkReads(d draw) error {
	v := w.log.View()
	for range 2 {
		if err := w.checkRead(v, d); err != nil {
			return err
		}
		if err := w.checkTime(v, d); err != nil {
			return err
		}
	}
	for _, o := range []batch.Offset{w.start - 1, w.end + 1} {
		if _, err := v.Read(o, w.end, 100, true); !errors.Is(err, ErrOffsetOutOfRange) {
			return differ("read at %d of %d to %d: %v", o, w.start, w.end, err)
		}
	}
	return nil
}

func (w *world) checkRead(v *View, d draw) error {
	span := int(w.end - w.start)
	if span == 0 {
		return nil
	}
	from := w.start + batch.Offset(d(span, "from"))
	// Bounds of readers are batch boundaries: high watermarks and log ends.
	upper := w.end
	if n := d(len(w.batches)+1, "upper"); n < len(w.batches) {
		upper = max(w.batches[n].base, w.start)
	}
	most := 1 + d(3000, "max bytes")
	minOne := d(2, "min one") == 0
	s, err := v.Read(from, upper, most, minOne)
	if err != nil {
		return fmt.Errorf("read %d to %d: %w", from, upper, err)
	}
	got, err := sectionBytes(s)
	if err != nil {
		return err
	}
	var want []byte
	first := 0
	for _, b := range w.visible() {
		if b.last >= from && b.last < upper {
			if first == 0 {
				first = len(b.bytes)
			}
			want = append(want, b.bytes...)
		}
	}
	if !bytes.HasPrefix(want, got) {
		return differ("read %d to %d gives bytes that are not there", from, upper)
	}
	limit := most
	switch {
	case minOne:
		limit = max(most, first)
	case most < first:
		limit = 0 // what would end within the first batch is nothing
	}
	if len(got) > limit || (len(got) == 0 && len(want) > 0 && limit > 0) || (minOne && len(got) < first) {
		return differ("read %d to %d gives %d bytes of %d, at most %d, first batch %d", from, upper, len(got), len(want), limit, first)
	}
	if size := v.Size(from, upper); from < upper && size != int64(len(want)) {
		return differ("size of %d to %d is %d, want %d", from, upper, size, len(want))
	}
	return nil
}

func (w *world) checkTime(v *View, d draw) error {
	ts := w.clock.UnixMilli() - int64(d(12000, "ago"))
	var want *batch.Record
	most := batch.Record{Timestamp: -1}
	within := batch.Offset(-1) // the end of the first segment that has such a record, also below the log start
	for _, s := range w.batches {
		for i, r := range s.records {
			if r.Timestamp >= ts && v.HasFiles() && s.base >= v.FirstSegment() {
				if within < 0 {
					within = endOfSegment(v, s.base)
				}
				if r.Offset >= w.start && r.Offset < within && want == nil {
					want = &s.records[i]
				}
			}
			// The look-up of the largest may name one below the log start, but none of a removed segment.
			if r.Timestamp > most.Timestamp && v.HasFiles() && s.base >= v.FirstSegment() {
				most = r
			}
		}
	}
	got, ok, err := v.OffsetForTime(ts, w.end)
	if err != nil {
		return err
	}
	if ok != (want != nil) || (ok && (got.Offset != want.Offset || got.Timestamp != want.Timestamp)) {
		return differ("time %d is at %+v (%v), want %+v", ts, got, ok, want)
	}
	got, ok, err = v.OffsetOfMaxTimestamp()
	if err != nil {
		return err
	}
	if ok != (most.Timestamp >= 0) || (ok && (got.Timestamp != most.Timestamp || got.Offset != most.Offset)) {
		return differ("largest timestamp %+v (%v), want %d at %d", got, ok, most.Timestamp, most.Offset)
	}
	return nil
}

// endOfSegment is where the segment ends that holds an offset.
func endOfSegment(v *View, o batch.Offset) batch.Offset {
	for _, seg := range v.segs {
		if seg.base > o {
			return seg.base
		}
	}
	return v.LogEnd()
}
