package log

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"millrace/storage/batch"
	"millrace/storage/compact"
	"millrace/storage/disktest"
	"millrace/storage/producer"
)

// cleanWorld is a compacted log on a test disk beside a naive model of it: a list of records, each with what cleanings
// may have done to it. It stands in for the store and its checkpoints as well, which are durable at once.
type cleanWorld struct {
	fs        *disktest.FS
	directory *Directory
	log       *Log
	config    Config
	clock     int64

	batches []washedBatch
	start   batch.Offset
	hw, end batch.Offset
	epoch   batch.LeaderEpoch

	point, storedStart, storedCleaned batch.Offset

	sequences map[batch.ProducerID]int32
	open      map[batch.ProducerID]int // the transaction a producer has open, by its number
	txns      []washedTxn

	cuts    bool // there are truncations, and moves of the log start
	noRaise bool // a fault: no recovery point is stored before a cleaning

	under  underway
	held   []held
	counts map[string]int
	// cleaning: one is under way, or was when the power went.
	cleaning bool
}

type washedTxn struct {
	first          batch.Offset
	ended, aborted bool
	marker         batch.Offset
	attempts       int
	markerMay      int64 // when its marker may go
}

type washedBatch struct {
	h       batch.Header
	txn     int // -1: none
	marker  bool
	records []washedRecord
}

type washedRecord struct {
	r batch.Record
	// may and must: a cleaning may have removed it, or has.
	may, must bool
	// horizon is the delete horizon that a cleaning may have given a tombstone, the lowest and the highest; 0: none.
	lowest, highest int64
	covered         bool // by a cleaning that came to its end
}

func newCleanWorld(d draw) *cleanWorld {
	w := &cleanWorld{
		fs: disktest.New(), directory: &Directory{}, clock: 1_000_000, storedCleaned: batch.NoOffset,
		sequences: map[batch.ProducerID]int32{}, open: map[batch.ProducerID]int{}, counts: map[string]int{},
		cuts: d(2, "cuts") == 0,
		config: Config{
			SegmentBytes: 600, SegmentMs: 1 << 60, IndexBytes: 96, IndexIntervalBytes: 100, RetentionMs: -1, RetentionBytes: -1,
			FileDeleteDelayMs: 1000, Compact: true, FlushMessages: 1 << 60, FlushMs: 1 << 60, DeleteRetentionMs: 2000, MaxCompactionMs: 1<<63 - 1,
		},
	}
	w.fs.Put("/data/meta.properties", nil)
	return w
}

func (w *cleanWorld) opening(clean bool) error {
	o := Options{
		FS: w.fs, Dir: worldDir, Topic: "t", TopicID: [16]byte{7}, Config: w.config, Now: func() time.Time { return time.UnixMilli(w.clock) },
		RecoveryPoint: w.point, LogStart: w.storedStart, HighWatermark: w.hw, Cleaned: w.storedCleaned, Clean: clean,
		Directory: w.directory, ProducerExpireMs: 1 << 60,
		LowerRecoveryPoint: func(o batch.Offset) error {
			w.point = min(w.point, o)
			if !faults.keepCleaned {
				w.storedCleaned = min(w.storedCleaned, o)
			}
			return nil
		},
		RaiseRecoveryPoint: func(o batch.Offset, _ func() batch.Offset) error {
			if !w.noRaise {
				w.point = max(w.point, o)
			}
			return nil
		},
	}
	l, r, err := Open(o)
	if err != nil {
		return err
	}
	if r.Lost != 0 || len(r.Damage) != 0 {
		return differ("opening reports %+v", r)
	}
	w.log = l
	w.epoch++
	return l.AssignEpoch(w.epoch)
}

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
		o.Codec = 1
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

func parse(b []byte) (batch.Header, []batch.Record) {
	h, err := batch.ParseHeader(b)
	if err != nil {
		panic(err)
	}
	var out []batch.Record
	for r, err := range batch.Records(bytes.Clone(b), 0) {
		if err != nil {
			panic(err)
		}
		out = append(out, r)
	}
	return h, out
}

// added notes a batch that is in the log.
func (w *cleanWorld) added(b []byte, txn int) {
	h, records := parse(b)
	x := washedBatch{h: h, txn: txn, marker: h.Attributes.Control()}
	for _, r := range records {
		x.records = append(x.records, washedRecord{r: r})
	}
	w.batches = append(w.batches, x)
	w.end = h.NextOffset()
	if h.HasProducer() && !x.marker {
		w.sequences[h.ProducerID] = batch.AddSequence(h.LastSequence(), 1)
	}
	if txn >= 0 && x.marker {
		w.txns[txn].ended, w.txns[txn].marker = true, h.BaseOffset
		delete(w.open, h.ProducerID)
	}
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

func (w *cleanWorld) checkpoint(draw) error {
	w.point, w.storedStart, w.storedCleaned = w.log.RecoveryPoint(), w.start, w.log.CleanedTo()
	return nil
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
	return nil
}

// mark notes what a cleaning up to an offset may do, before it, and what it has done, after it. there is what the log held
// before: what was removed already makes nothing superfluous, should a truncation take the reason away.
func (w *cleanWorld) mark(to batch.Offset, there map[batch.Offset]batch.Record, done bool) {
	newest := map[string]batch.Offset{}
	for _, b := range w.batches {
		if b.marker || w.isAborted(b) {
			continue
		}
		for _, r := range b.records {
			if _, ok := there[r.r.Offset]; ok && r.r.Offset < to && r.r.Key != nil {
				newest[string(r.r.Key)] = r.r.Offset
			}
		}
	}
	for i := range w.batches {
		b := &w.batches[i]
		if b.marker {
			continue
		}
		for j := range b.records {
			r := &b.records[j]
			if r.r.Offset >= to {
				// Its batch may be in the segment that was cleaned in part: a tombstone can get its horizon.
				if r.r.Value == nil && !done {
					w.horizon(r)
				}
				continue
			}
			gone := w.isAborted(*b) || r.r.Key == nil || r.r.Offset < newest[string(r.r.Key)]
			switch {
			case done:
				r.must = r.must || gone || (r.r.Value == nil && r.covered && r.highest > 0 && r.highest <= w.clock)
				r.covered = true
			default:
				r.may = r.may || gone || (r.r.Value == nil && r.lowest > 0 && r.lowest <= w.clock)
				if r.r.Value == nil {
					w.horizon(r)
				}
			}
		}
	}
	if done {
		return
	}
	for i := range w.txns {
		t := &w.txns[i]
		if !t.ended || t.marker >= to {
			continue
		}
		t.attempts++
		if at := w.clock + w.config.DeleteRetentionMs; t.markerMay == 0 || at < t.markerMay {
			t.markerMay = at
		}
	}
}

func (w *cleanWorld) horizon(r *washedRecord) {
	at := w.clock + w.config.DeleteRetentionMs
	if r.lowest == 0 || at < r.lowest {
		r.lowest = at
	}
	r.highest = max(r.highest, at)
}

func (w *cleanWorld) isAborted(b washedBatch) bool {
	return b.txn >= 0 && w.txns[b.txn].ended && w.txns[b.txn].aborted
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

// cutTo makes the model end at an offset.
func (w *cleanWorld) cutTo(end batch.Offset) {
	keep := 0
	for keep < len(w.batches) && w.batches[keep].h.LastOffset() < end {
		keep++
	}
	w.batches = w.batches[:keep]
	w.end = end
	w.hw, w.start, w.storedStart = min(w.hw, end), min(w.start, end), min(w.storedStart, end)
	w.resume()
}

// resume makes of the model's producers what the log says of them: what a truncation, or a crash, leaves of those whose
// last batches are gone is not the model's to say.
func (w *cleanWorld) resume() {
	clear(w.sequences)
	clear(w.open)
	for i := range w.txns {
		t := &w.txns[i]
		if t.ended && t.marker >= w.end {
			t.ended, t.aborted = false, false
		}
	}
	for _, e := range w.log.Producers() {
		w.sequences[e.ProducerID] = batch.AddSequence(e.LastSequence, 1)
		if e.LastSequence < 0 {
			w.sequences[e.ProducerID] = 0
		}
		if e.TxnFirstOffset >= 0 {
			for i, t := range w.txns {
				if t.first == e.TxnFirstOffset && !t.ended {
					w.open[e.ProducerID] = i
				}
			}
			if _, ok := w.open[e.ProducerID]; !ok {
				// Its first batches are gone; the model goes on with the one that holds what is left.
				w.open[e.ProducerID] = w.reopened(e.ProducerID)
			}
		}
	}
}

func (w *cleanWorld) reopened(id batch.ProducerID) int {
	for i := len(w.batches) - 1; i >= 0; i-- {
		if b := w.batches[i]; b.h.ProducerID == id && b.txn >= 0 && !b.marker && !w.txns[b.txn].ended {
			return b.txn
		}
	}
	w.txns = append(w.txns, washedTxn{first: w.end})
	return len(w.txns) - 1
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
	w.under.retaining = true
	if _, err := w.log.Retain(time.UnixMilli(w.clock)); err != nil {
		return err
	}
	w.start = max(w.start, w.log.View().LogStart())
	return nil
}

// crashed opens the log after a crash and makes the model what is left.
func (w *cleanWorld) crashed(flushed batch.Offset) error {
	w.directory = &Directory{}
	w.held = nil
	if err := w.opening(false); err != nil {
		return err
	}
	v := w.log.View()
	u := w.under
	w.under, w.cleaning = underway{}, false
	if u.truncating {
		flushed = min(flushed, u.truncateTo)
		if u.fully {
			flushed = 0
			if at := v.LogEnd(); v.LogStart() == at && (at == u.truncateTo || !v.HasFiles()) {
				w.batches, w.start, w.hw, w.storedStart, w.end = nil, at, at, at, at
				w.resume()
				return nil
			}
		}
	}
	for _, b := range u.appending {
		h, _ := batch.ParseHeader(b)
		if h.BaseOffset >= w.end && h.LeaderEpoch == w.epoch-1 && h.LastOffset() < v.LogEnd() {
			txn := -1
			if h.Attributes.Transactional() {
				txn = w.open[h.ProducerID]
			}
			w.added(b, txn)
		}
	}
	if v.LogEnd() < flushed || v.LogEnd() > w.end {
		return differ("log ends at %d; it was flushed to %d and appended to %d", v.LogEnd(), flushed, w.end)
	}
	if u.retaining {
		w.start = max(w.start, min(v.LogStart(), w.hw))
	}
	if v.LogStart() > max(w.start, w.storedStart) {
		return differ("log starts at %d, it was at %d", v.LogStart(), w.start)
	}
	w.start, w.hw = v.LogStart(), v.HighWatermark()
	w.cutTo(v.LogEnd())
	w.start, w.hw = v.LogStart(), v.HighWatermark()
	return nil
}

// present reads everything and compares it with the model.
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
			if m, ok, err := batch.ParseMarker(b[:h.Size()]); h.Attributes.Control() && err == nil && ok {
				x.marker = &m
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

// checkCommitted reads as a read_committed consumer does, and wants all records of transactions that were committed and
// none of others.
func (w *cleanWorld) checkCommitted(v *View, batches []readBatch) error {
	list, err := v.Aborted(w.start, v.LastStable())
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
	aborted := map[batch.ProducerID]bool{}
	bad := map[batch.Offset]bool{}
	for _, b := range w.batches {
		for _, r := range b.records {
			bad[r.r.Offset] = w.isAborted(b)
		}
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
		for _, r := range b.records {
			if !b.h.Attributes.Control() && hidden != bad[r.Offset] {
				return differ("record %d (aborted: %v) is hidden from a read_committed consumer: %v", r.Offset, bad[r.Offset], hidden)
			}
		}
	}
	return nil
}

// checkPlaces looks up an offset and a time.
func (w *cleanWorld) checkPlaces(v *View, d draw, there map[batch.Offset]batch.Record) error {
	if w.end == w.start {
		return nil
	}
	offsets := make([]batch.Offset, 0, len(there))
	for o := range there {
		if o >= w.start {
			offsets = append(offsets, o)
		}
	}
	slices.Sort(offsets)
	ts := w.clock - int64(d(8000, "ago"))
	want := batch.Offset(-1)
	for _, o := range offsets {
		if there[o].Timestamp >= ts {
			want = o
			break
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
	// The times that markers leave are those of batches that may be gone.
	for i := range want {
		want[i].Timestamp = 0
	}
	for i := range got {
		got[i].Timestamp = 0
	}
	if !slices.Equal(got, want) {
		return differ("producers are\n%+v, want\n%+v", got, want)
	}
	return nil
}

func (w *cleanWorld) crash(kind uint64) {
	switch kind % 3 {
	case 0:
		w.fs.Kill()
	case 1:
		w.fs.Crash(nil)
	default:
		w.fs.Crash(rand.New(rand.NewPCG(kind, 4)))
	}
}

// live does steps, with a crash now and then, at any operation of the disk, and checks after each.
func (w *cleanWorld) live(d draw, steps int, kind uint64) error {
	for range steps {
		stop := 0
		if d(8, "crash") == 0 {
			stop = 1 + d(50, "operation")
			w.fs.StopAt(stop)
		}
		flushed := w.log.FlushedOffset()
		err := w.step(d)
		if stop > 0 {
			if w.fs.Stopped() {
				if err != nil && !errors.Is(err, disktest.ErrStopped) {
					return err
				}
				if w.cleaning {
					w.counts["crash while cleaning"]++
				}
			} else if err != nil {
				return err
			}
			if now := w.log.FlushedOffset(); err == nil || w.under.truncating {
				flushed = now // that of a truncation is lowered before anything is cut
			} else {
				flushed = max(flushed, now)
			}
			w.counts["crash"]++
			w.log.Abandon()
			w.crash(kind + uint64(w.counts["crash"]))
			if err := w.crashed(flushed); err != nil {
				return fmt.Errorf("after a crash: %w", err)
			}
		} else if err != nil {
			return err
		}
		if err := w.check(d); err != nil {
			return err
		}
	}
	return nil
}
