package log

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"millrace/storage/batch"
	"millrace/storage/codec"
	"millrace/storage/compact"
	"millrace/storage/producer"
)

var cleanSteps = []struct {
	weight int
	name   string
	cuts   bool
	do     func(*cleanWorld, draw) error
}{
	{20, "append", false, (*cleanWorld).append},
	{8, "append as producer", false, (*cleanWorld).appendIdempotent},
	{10, "append in a transaction", false, (*cleanWorld).appendTxn},
	{8, "end a transaction", false, (*cleanWorld).endTxn},
	{4, "append as follower", false, (*cleanWorld).appendCopied},
	{10, "high watermark", false, (*cleanWorld).highWatermark},
	{6, "roll", false, (*cleanWorld).roll},
	{3, "flush", false, (*cleanWorld).flush},
	{2, "flush what was rolled", false, (*cleanWorld).flushRolled},
	{3, "checkpoint", false, (*cleanWorld).checkpoint},
	{5, "time passes", false, (*cleanWorld).timePasses},
	{14, "clean", false, (*cleanWorld).clean},
	{2, "configure", false, (*cleanWorld).configure},
	{2, "close and open", false, (*cleanWorld).reopen},
	{3, "hold a section", false, (*cleanWorld).hold},
	{2, "truncate", true, (*cleanWorld).truncate},
	{1, "truncate fully", true, (*cleanWorld).truncateFully},
	{2, "log start", true, (*cleanWorld).logStart},
	{2, "retain", true, (*cleanWorld).retain},
}

func (w *cleanWorld) step(d draw) error {
	total := 0
	for _, s := range cleanSteps {
		if !s.cuts || w.cuts {
			total += s.weight
		}
	}
	n := d(total, "step")
	for _, s := range cleanSteps {
		if s.cuts && !w.cuts {
			continue
		}
		if n -= s.weight; n < 0 {
			w.counts[s.name]++
			if err := s.do(w, d); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			w.under = underway{}
			return nil
		}
	}
	panic("unreachable")
}

// build makes a batch of a few records of few keys, some of them tombstones and some without a key.
func (w *cleanWorld) build(d draw, o batch.BuilderOptions) []byte {
	if d(4, "codec") == 0 {
		o.Codec = codec.Snappy // the others are the codec room's; this one costs the worlds least
	}
	u := batch.NewBuilder(o)
	for range 1 + d(3, "records") {
		key, value := []byte{'k', byte('0' + d(6, "key"))}, fmt.Appendf(nil, "%d:%s", w.end, bytes.Repeat([]byte{'v'}, d(60, "size")))
		switch d(12, "kind") {
		case 0, 1:
			value = nil
		case 2:
			key = nil // before the topic was compacted
		}
		u.Add(w.clock+int64(d(100, "timestamp")), key, value)
	}
	return u.Bytes()
}

func (w *cleanWorld) put(b []byte, txn int) error {
	h, _ := batch.ParseHeader(b)
	w.under.appending = [][]byte{b}
	a, err := w.log.AppendWith(b, h, w.clock, producer.Rules{Verified: true, Origin: map[bool]producer.Origin{true: producer.Coordinator}[h.Attributes.Control()]})
	if err != nil {
		return err
	}
	if a.Base != w.end || a.Duplicate {
		return differ("appended at %d (duplicate %v), want %d", a.Base, a.Duplicate, w.end)
	}
	w.added(b, txn)
	return nil
}

func (w *cleanWorld) append(d draw) error { return w.put(w.build(d, batch.BuilderOptions{}), -1) }

func (w *cleanWorld) appendIdempotent(d draw) error {
	id := batch.ProducerID(1 + d(3, "producer"))
	return w.put(w.build(d, batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: w.sequences[id]}), -1)
}

func (w *cleanWorld) appendTxn(d draw) error {
	id := batch.ProducerID(10 + d(3, "producer"))
	n, ok := w.open[id]
	if !ok {
		n = len(w.txns)
		w.txns = append(w.txns, washedTxn{first: w.end})
		w.open[id] = n
	}
	err := w.put(w.build(d, batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: w.sequences[id], Transactional: true}), n)
	return err
}

func (w *cleanWorld) endTxn(d draw) error {
	id := batch.ProducerID(10 + d(3, "producer"))
	if _, ok := w.open[id]; !ok {
		return nil
	}
	return w.end1(id, batch.ControlType(d(2, "commit")))
}

func (w *cleanWorld) end1(id batch.ProducerID, kind batch.ControlType) error {
	n := w.open[id]
	w.txns[n].aborted = kind == batch.Abort
	u := batch.NewBuilder(batch.BuilderOptions{Producer: true, ProducerID: id, BaseSequence: -1, Transactional: true, Control: true})
	key, value := batch.Marker{Type: kind}.KeyAndValue()
	u.Add(w.clock, key, value)
	return w.put(u.Bytes(), n)
}

func (w *cleanWorld) appendCopied(d draw) error {
	var all []byte
	var parts [][]byte
	next := w.end
	for range 1 + d(3, "batches") {
		next += batch.Offset(d(3, "gap"))
		b := w.build(d, batch.BuilderOptions{})
		batch.Patch(b, next, w.epoch)
		h, _ := batch.ParseHeader(b)
		next = h.NextOffset()
		all, parts = append(all, b...), append(parts, b)
	}
	w.under.appending = parts
	if _, err := w.log.AppendAsFollower(all); err != nil {
		return err
	}
	for _, b := range parts {
		w.added(b, -1)
	}
	return nil
}

func (w *cleanWorld) highWatermark(d draw) error {
	o := w.end
	if d(4, "part") == 0 && w.end > w.hw {
		o = w.hw + batch.Offset(d(int(w.end-w.hw), "offset"))
	}
	w.log.SetHighWatermark(o)
	w.hw = max(o, w.start)
	return nil
}

func (w *cleanWorld) roll(draw) error  { return w.log.Roll() }
func (w *cleanWorld) flush(draw) error { return w.log.Flush() }

func (w *cleanWorld) flushRolled(draw) error { return w.log.FlushRolled() }

func (w *cleanWorld) checkpoint(draw) error {
	w.point, w.storedStart, w.storedCleaned = w.log.RecoveryPoint(), w.start, w.log.CleanedTo()
	if !w.log.View().HasFiles() {
		w.point = 0 // the store notes none of a log without files
	}
	return nil
}

// checkpointBeside is world.checkpointBeside.
func (w *cleanWorld) checkpointBeside() {
	if w.log.View().HasFiles() {
		w.point = max(w.point, w.log.RecoveryPoint())
	}
}

func (w *cleanWorld) timePasses(d draw) error {
	w.clock += int64(d(3000, "ms"))
	return w.log.RemoveDeleted(time.UnixMilli(w.clock))
}

func (w *cleanWorld) configure(d draw) error {
	w.config.SegmentBytes = int32(400 + d(1200, "segment.bytes"))
	w.config.IndexIntervalBytes = int32(d(300, "index.interval.bytes"))
	w.config.DeleteRetentionMs = int64(d(4000, "delete.retention.ms"))
	w.config.MinCompactionMs = int64(d(2, "lag") * d(2000, "min.compaction.lag.ms"))
	w.log.SetConfig(w.config)
	return nil
}

func (w *cleanWorld) reopen(draw) error {
	w.release()
	if err := w.log.Close(); err != nil {
		return err
	}
	w.point, w.storedStart, w.storedCleaned = w.log.RecoveryPoint(), w.start, w.log.CleanedTo()
	if err := w.sound(true); err != nil {
		return err
	}
	return w.opening(true)
}

func (w *cleanWorld) release() {
	for _, h := range w.held {
		h.s.Release()
	}
	w.held = nil
}

func (w *cleanWorld) hold(d draw) error {
	if w.end == w.start {
		return nil
	}
	return holdSection(&w.held, w.log.View(), w.start+batch.Offset(d(int(w.end-w.start), "from")), w.end, 1+d(2000, "max bytes"))
}

// clean cleans what can be, and notes in the model what that may do and what it must.
func (w *cleanWorld) clean(d draw) error {
	if d(3, "as it is") > 0 {
		for id := range 3 {
			if _, ok := w.open[batch.ProducerID(10+id)]; ok && d(5, "leave open") > 0 {
				if err := w.end1(batch.ProducerID(10+id), batch.ControlType(d(2, "commit"))); err != nil {
					return err
				}
			}
		}
		w.log.SetHighWatermark(w.end)
		w.hw = w.end
		if err := w.roll(d); err != nil {
			return err
		}
	}
	return w.cleanNow(d)
}

func (w *cleanWorld) cleanNow(d draw) error {
	r, err := w.log.Cleanable(w.clock)
	if err != nil {
		return err
	}
	v := w.log.View()
	if r.Upper > v.LastStable() && r.Upper > r.From {
		return differ("up to %d could be cleaned, the last stable offset is %d", r.Upper, v.LastStable())
	}
	if len(v.segs) > 0 && r.Upper > v.segs[len(v.segs)-1].base && r.Upper > r.From {
		return differ("up to %d could be cleaned, the active segment begins at %d", r.Upper, v.segs[len(v.segs)-1].base)
	}
	if !r.Due(0) {
		return nil
	}
	w.counts["cleaning"]++
	room := int64(1 << 20)
	load := 0.9
	if d(4, "little room") == 0 {
		room, load = 1, 0.0025 // two keys
	}
	there, _, err := w.readAll(v, d)
	if err != nil {
		return err
	}
	w.mark(r.Upper, there, false)
	w.cleaning = true
	out, err := w.log.Clean(CleanOptions{
		Range: r, Now: w.clock, Keys: compact.NewKeys(room, load), Buffer: 70 + d(400, "buffer"), Exclusive: func(f func() error) error { return f() },
	})
	if err != nil {
		if load < 0.1 && !errors.As(err, new(*OfflineError)) && !errors.Is(err, ErrClosed) {
			w.cleaning = false
			w.counts["no room"]++
			return nil // a batch has more keys than that
		}
		return err
	}
	w.cleaning = false
	if out.To < r.From || out.To > r.Upper || (load > 0.1 && out.To != r.Upper) {
		return differ("cleaned to %d of %d to %d", out.To, r.From, r.Upper)
	}
	if out.To < r.Upper {
		w.counts["cleaned in part"]++
	}
	w.mark(out.To, there, true)
	if w.log.CleanedTo() != out.To {
		return differ("cleaned to %d, it says %d", out.To, w.log.CleanedTo())
	}
	w.storedCleaned = out.To
	w.counts["swaps"] += out.Into
	if err := w.sound(false); err != nil {
		return fmt.Errorf("after a cleaning: %w", err)
	}
	return nil
}

func (w *cleanWorld) truncate(d draw) error {
	if w.end == w.start {
		return nil
	}
	to := w.start + batch.Offset(d(int(w.end-w.start), "to"))
	v := w.log.View()
	w.under.truncating, w.under.truncateTo = true, v.segs[max(v.segmentAt(to), 0)].base
	if err := w.log.Truncate(to); err != nil {
		return err
	}
	got := w.log.View().LogEnd()
	if got > to {
		return differ("cut at %d, it ends at %d", to, got)
	}
	w.cutTo(got)
	w.epoch++
	return w.log.AssignEpoch(w.epoch)
}

func (w *cleanWorld) truncateFully(d draw) error {
	to := w.end + batch.Offset(d(20, "ahead"))
	w.under.truncating, w.under.fully, w.under.truncateTo = true, true, to
	if err := w.log.TruncateFully(to); err != nil {
		return err
	}
	w.batches, w.start, w.hw, w.storedStart, w.end = nil, to, to, to, to
	w.point = min(w.point, to)
	w.resume()
	w.epoch++
	return w.log.AssignEpoch(w.epoch)
}

func (w *cleanWorld) logStart(d draw) error {
	if w.hw <= w.start {
		return nil
	}
	o := w.start + batch.Offset(d(int(w.hw-w.start)+1, "start"))
	if err := w.log.SetLogStart(o); err != nil {
		return err
	}
	w.start = max(w.start, o)
	w.storedStart = w.start // as DeleteRecords has it stored before it answers
	return nil
}

func (w *cleanWorld) retain(d draw) error {
	c := w.config
	if d(2, "delete too") == 0 {
		c.Delete, c.RetentionBytes = true, int64(d(4000, "retention.bytes"))
	}
	w.log.SetConfig(c)
	defer w.log.SetConfig(w.config)
	before := w.pieces(w.log.View())
	w.under.retaining = true
	reasons, err := w.log.Retain(time.UnixMilli(w.clock))
	if err != nil {
		return err
	}
	v := w.log.View()
	gone, err := retained(before, v, len(reasons), c, w.start, w.hw, w.clock)
	if err != nil {
		return err
	}
	for rule, n := range gone {
		w.counts["segments removed: "+rule] += n
	}
	w.start = max(w.start, v.LogStart())
	return nil
}

// pieces is the segments of a view as their files are: what a cleaning has left of the records is not the model's to say
// to the byte.
func (w *cleanWorld) pieces(v *View) []piece {
	var out []piece
	for i, seg := range v.segs {
		p := piece{base: seg.base, end: w.end, newest: -1, active: i+1 == len(v.segs), size: int64(len(w.fs.Bytes(worldDir + "/" + fileName(seg.base, suffixLog))))}
		if !p.active {
			p.end = v.segs[i+1].base
		}
		out = append(out, p)
	}
	return out
}
