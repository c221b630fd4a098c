package log

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"millrace/storage/batch"
	"millrace/storage/producer"
)

func (w *world) append(d draw) error {
	b, h := w.build(d, batch.BuilderOptions{})
	w.under.appending = [][]byte{b}
	a, err := w.log.Append(b, h, w.clock.UnixMilli())
	if err != nil {
		return err
	}
	if a.Base != w.end || a.Duplicate {
		return differ("appended at %d (duplicate %v), want %d", a.Base, a.Duplicate, w.end)
	}
	w.added(b, a.Base)
	return nil
}

func (w *world) appendIdempotent(d draw) error {
	id := batch.ProducerID(1 + d(3, "producer"))
	seq := w.sequences[id]
	b, h := w.build(d, batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: seq})
	w.under.appending = [][]byte{b}
	a, err := w.log.Append(b, h, w.clock.UnixMilli())
	if err != nil {
		return err
	}
	if a.Base != w.end || a.Duplicate {
		return differ("appended at %d (duplicate %v), want %d", a.Base, a.Duplicate, w.end)
	}
	w.added(b, a.Base)
	w.sequences[id] = batch.AddSequence(h.LastSequence(), 1)
	return nil
}

// appendTogether appends several batches with one write, as far as it goes: some with a producer, these twice.
func (w *world) appendTogether(d draw) error {
	id := batch.ProducerID(1 + d(3, "producer"))
	seq, end, now := w.sequences[id], w.end, w.clock.UnixMilli()
	var gathered [][]byte
	var refused error
	for range 2 + d(4, "batches") {
		o := batch.BuilderOptions{}
		if d(2, "idempotent") == 0 {
			o = batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: seq}
		}
		b, h := w.build(d, o)
		w.under.appending = append(w.under.appending, b)
		a, err := w.log.Gather(b, h, now, producer.Rules{})
		if err != nil {
			refused = err
			continue
		}
		if a.Base != end || a.Duplicate {
			return differ("gathered at %d (duplicate %v), want %d", a.Base, a.Duplicate, end)
		}
		gathered = append(gathered, b)
		end = a.Last + 1
		if !o.Producer {
			continue
		}
		seq = batch.AddSequence(h.LastSequence(), 1)
		again := slices.Clone(b)
		batch.Patch(again, 0, -1)
		if twice, err := w.log.Gather(again, h, now, producer.Rules{}); err != nil || !twice.Duplicate || twice.Base != a.Base {
			return differ("gathered twice: %+v, %v; want it at %d", twice, err, a.Base)
		}
	}
	seen := w.log.View().LogEnd()
	if err := w.log.WriteGathered(); err != nil {
		return err
	}
	w.log.Publish()
	for _, b := range gathered {
		h, _ := batch.ParseHeader(b)
		w.added(b, h.BaseOffset)
		if seen > h.BaseOffset && w.newest() <= h.BaseOffset {
			return differ("readers see %d, and %d is not written", seen, h.BaseOffset)
		}
	}
	w.sequences[id] = seq
	return refused
}

// sendAgain sends the newest batch of a producer once more, and one that leaves a gap.
func (w *world) sendAgain(d draw) error {
	id := batch.ProducerID(1 + d(3, "producer"))
	for _, s := range slices.Backward(w.batches) {
		if s.h.ProducerID != id {
			continue
		}
		if v := w.log.View(); !v.HasFiles() || s.base < max(v.FirstSegment(), v.LogStart()) {
			return nil // whether it is still known depends on which snapshots a crash left, and on starts
		}
		b := slices.Clone(s.bytes)
		batch.Patch(b, 0, -1)
		h, _ := batch.ParseHeader(b)
		a, err := w.log.Append(b, h, w.clock.UnixMilli())
		if err != nil {
			return err
		}
		if !a.Duplicate || a.Base != s.base || a.Last != s.last {
			return differ("batch sent again: %+v, want it at %d", a, s.base)
		}
		gap, h := w.build(d, batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: w.sequences[id] + 3})
		var refused *producer.SequenceError
		if _, err := w.log.Append(gap, h, w.clock.UnixMilli()); !errors.As(err, &refused) {
			return differ("batch behind a gap: %v", err)
		}
		return nil
	}
	return nil
}

func (w *world) appendCopied(d draw) error {
	var all []byte
	var parts [][]byte
	next := w.end
	for range 1 + d(4, "batches") {
		next += batch.Offset(d(3, "gap"))
		b, h := w.build(d, batch.BuilderOptions{})
		batch.Patch(b, next, w.epoch)
		next += batch.Offset(h.LastOffsetDelta) + 1
		all, parts = append(all, b...), append(parts, b)
	}
	cut := d(40, "cut tail")
	all = append(all, parts[0][:cut]...)
	w.under.appending = parts
	a, err := w.log.AppendAsFollower(all)
	if err != nil {
		return err
	}
	first, _ := batch.ParseHeader(parts[0])
	if a.Base != first.BaseOffset || a.Last != next-1 {
		return differ("copied %d to %d, want %d to %d", a.Base, a.Last, first.BaseOffset, next-1)
	}
	for _, b := range parts {
		h, _ := batch.ParseHeader(b)
		w.added(b, h.BaseOffset)
	}
	return nil
}

func (w *world) highWatermark(d draw) error {
	if w.end == w.hw {
		return nil
	}
	o := w.end
	if d(2, "part") == 0 {
		o = w.hw + batch.Offset(d(int(w.end-w.hw), "offset"))
	}
	w.log.SetHighWatermark(o)
	w.hw = max(o, w.start)
	return nil
}

func (w *world) newEpoch(d draw) error {
	w.epoch += batch.LeaderEpoch(1 + d(2, "step"))
	// An epoch without data gives way to one that begins at the same offset.
	for e, o := range w.begun {
		if o >= w.end {
			delete(w.begun, e)
		}
	}
	w.begun[w.epoch] = w.end
	return w.log.AssignEpoch(w.epoch)
}

func (w *world) flush(draw) error {
	if err := w.log.Flush(); err != nil {
		return err
	}
	if w.log.FlushedOffset() != w.end {
		return differ("flushed offset %d, want %d", w.log.FlushedOffset(), w.end)
	}
	return nil
}

func (w *world) flushRolled(draw) error {
	if err := w.log.FlushRolled(); err != nil {
		return err
	}
	if base := w.newest(); (len(w.log.segs) > 1 && w.log.RecoveryPoint() < base) || w.log.FlushRolledDue() {
		return differ("the recovery point is %d, the active segment begins at %d", w.log.RecoveryPoint(), base)
	}
	return nil
}

func (w *world) checkpoint(draw) error {
	w.point = w.log.RecoveryPoint()
	w.storedStart = w.start
	return nil
}

// checkpointBeside is what the store does at any moment, also while the log is at work: what the log says of its recovery
// point is stored, and relied on from then on.
func (w *world) checkpointBeside() {
	if w.log.View().HasFiles() {
		w.point = max(w.point, w.log.RecoveryPoint())
	}
}

func (w *world) truncate(d draw) error {
	span := w.end - w.start
	if span == 0 {
		return nil
	}
	return w.truncateTo(w.start + batch.Offset(d(int(span), "to")))
}

func (w *world) truncateTo(to batch.Offset) error {
	// A batch that holds the offset goes whole, and the log ends with the last that stays: in its segment, or where the
	// segment the offset falls into begins.
	keep := 0
	for keep < len(w.batches) && w.batches[keep].last < to {
		keep++
	}
	v := w.log.View()
	first := v.segmentAt(to)
	w.under.truncating, w.under.truncateTo = true, v.segs[first].base
	if err := w.log.Truncate(to); err != nil {
		return err
	}
	end := v.segs[first].base
	if keep > 0 {
		end = max(end, w.batches[keep-1].last+1)
	}
	w.cutTo(keep, end)
	return w.resume()
}

// cutTo makes the model end at an offset, with the first keep batches.
func (w *world) cutTo(keep int, end batch.Offset) {
	w.batches = w.batches[:keep]
	w.end = end
	w.hw = min(w.hw, end)
	w.start = min(w.start, end)
	w.known = min(w.known, end)
	w.storedStart = min(w.storedStart, end)
	for e, o := range w.begun {
		if o >= end {
			delete(w.begun, e)
		}
	}
	w.sequences = map[batch.ProducerID]int32{}
	for _, s := range w.batches {
		if s.h.HasProducer() {
			w.sequences[s.h.ProducerID] = batch.AddSequence(s.h.LastSequence(), 1)
		}
	}
}

func (w *world) truncateFully(d draw) error {
	to := w.end + batch.Offset(d(50, "ahead"))
	if d(2, "back") == 0 {
		to = w.start
	}
	w.under.truncating, w.under.fully, w.under.truncateTo = true, true, to
	if err := w.log.TruncateFully(to); err != nil {
		return err
	}
	w.cutTo(0, to)
	w.start, w.hw, w.storedStart = to, to, to
	w.point = min(w.point, to)
	clear(w.begun)
	return w.resume()
}

func (w *world) roll(draw) error { return w.log.Roll() }

func (w *world) logStart(d draw) error {
	if w.hw == w.start {
		return nil
	}
	o := w.start + batch.Offset(d(int(w.hw-w.start)+1, "start"))
	if err := w.log.SetLogStart(o); err != nil {
		return err
	}
	w.start = max(w.start, o)
	return nil
}

func (w *world) retain(d draw) error {
	c := w.config
	switch d(4, "by") {
	case 0:
		c.RetentionBytes = int64(d(6000, "retention.bytes"))
	case 1:
		c.RetentionMs = int64(d(5000, "retention.ms"))
	case 2:
		c.RetentionBytes, c.RetentionMs, c.Delete = 0, 0, d(4, "delete") > 0
	}
	w.log.SetConfig(c)
	defer w.log.SetConfig(w.config)
	before := w.pieces(w.log.View())
	w.under.retaining = true
	reasons, err := w.log.Retain(w.clock)
	if err != nil {
		return err
	}
	v := w.log.View()
	gone, err := retained(before, v, len(reasons), c, w.start, w.hw, w.clock.UnixMilli())
	if err != nil {
		return err
	}
	for rule, n := range gone {
		w.counts["segments removed: "+rule] += n
	}
	if len(gone) == 0 {
		if v.LogStart() != w.start {
			return differ("log start moved from %d to %d although nothing was removed", w.start, v.LogStart())
		}
		return nil
	}
	if v.LogStart() > w.hw {
		return differ("retention moved the log start to %d, above the high watermark %d", v.LogStart(), w.hw)
	}
	w.start = max(w.start, v.FirstSegment())
	return nil
}

func (w *world) timePasses(d draw) error {
	if d(8, "set back") == 0 {
		w.clock = w.clock.Add(-time.Duration(d(20_000, "ms")) * time.Millisecond)
		w.counts["clock set back"]++
		return nil
	}
	w.clock = w.clock.Add(time.Duration(d(4000, "ms")) * time.Millisecond)
	return nil
}

func (w *world) configure(d draw) error {
	w.config.SegmentBytes = int32(700 + d(2500, "segment.bytes"))
	w.config.IndexIntervalBytes = int32(d(600, "index.interval.bytes"))
	w.config.IndexBytes = int32(24 + d(150, "segment.index.bytes"))
	w.log.SetConfig(w.config)
	return nil
}

func (w *world) reopen(draw) error {
	// A broker stops its log after the last reply; a later life may cut what an earlier one gave.
	for _, h := range w.held {
		h.s.Release()
	}
	w.held = nil
	if err := w.log.Close(); err != nil {
		return err
	}
	if got := w.log.View(); !got.Closed() {
		return differ("view of a closed log is open")
	}
	return w.reopenClean()
}

// reopenClean opens a log that was closed in order.
func (w *world) reopenClean() error {
	w.point, w.storedStart = w.log.RecoveryPoint(), w.start
	if err := w.sound(true); err != nil {
		return err
	}
	r, err := w.open(true)
	if err != nil {
		return err
	}
	if r.Scanned > 2*smallScan || r.Recovered || r.Cut != nil || r.Lost != 0 || len(r.Damage)+len(r.Rebuilt)+len(r.Dropped) != 0 {
		return differ("opening after a clean close: %+v", r)
	}
	return w.resume()
}

// resume begins a new epoch after a start or a truncation: none is used again behind what was lost in it.
func (w *world) resume() error {
	for e, o := range w.begun {
		if o >= w.end {
			delete(w.begun, e)
		}
	}
	w.epoch++
	w.begun[w.epoch] = w.end
	return w.log.AssignEpoch(w.epoch)
}

// hold keeps a section of somewhere.
func (w *world) hold(d draw) error {
	if w.end == w.start {
		return nil
	}
	return holdSection(&w.held, w.log.View(), w.start+batch.Offset(d(int(w.end-w.start), "from")), w.end, 1+d(2000, "max bytes"))
}

// holdSection reads a section and keeps it with others; the oldest is given back when there are several.
func holdSection(list *[]held, v *View, from, to batch.Offset, most int) error {
	s, err := v.Read(from, to, most, true)
	if err != nil {
		return err
	}
	p := make([]byte, s.Len())
	if n, err := s.ReadAt(p, 0); n != len(p) || (err != nil && err != io.EOF) {
		return fmt.Errorf("read section: %w", err)
	}
	*list = append(*list, held{s: s, bytes: p})
	if len(*list) > 3 {
		(*list)[0].s.Release()
		*list = (*list)[1:]
	}
	return nil
}
