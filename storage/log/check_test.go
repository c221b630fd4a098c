package log

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"millrace/storage/batch"
	"millrace/storage/check"
	"millrace/storage/disktest"
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
	if d(6, "far") == 0 {
		ts = farFuture + int64(d(4, "ago")) - 1
	}
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

// piece is what a test knows of one segment before a retention, from its model or from the disk, not from the log.
type piece struct {
	base, end batch.Offset
	size      int64
	newest    int64 // the largest timestamp; -1: of no record
	active    bool
}

// byFile is the rule for a segment of which no record has a timestamp: when its file was written decides, which is not
// known here.
const byFile = "too old by its file"

// why says by which rule of retention the oldest segment of a log of total bytes is to go; "": by none.
func (p piece) why(c Config, total int64, start, hw batch.Offset, now int64) (rule string) {
	switch {
	case hw < p.end || p.active && p.size == 0:
		return ""
	case !p.active && p.end <= start:
		return "below the log start"
	case c.Delete && c.RetentionBytes >= 0 && total-p.size >= c.RetentionBytes:
		return "too much"
	case !c.Delete || c.RetentionMs < 0:
		return ""
	case p.newest < 0:
		return byFile
	case now-p.newest > c.RetentionMs:
		return "too old"
	}
	return ""
}

// retained judges a retention by the rules: that each segment it has removed had to go, and that the first one it has left
// had not. It says how many went by which rule.
func retained(before []piece, after *View, said int, c Config, start, hw batch.Offset, now int64) (map[string]int, error) {
	total, gone := int64(0), map[string]int{}
	for _, p := range before {
		total += p.size
	}
	n := 0
	for _, p := range before {
		rule, went := p.why(c, total, start, hw, now), p.base < after.FirstSegment()
		if went && rule == "" || !went && rule != "" && rule != byFile {
			return nil, differ("segment %d to %d of %d bytes, newest %d at %d, was removed: %v; the rule is %q, of a log of %d bytes from %d, committed to %d, retention.ms %d and retention.bytes %d",
				p.base, p.end, p.size, p.newest, now, went, rule, total, start, hw, c.RetentionMs, c.RetentionBytes)
		}
		if !went {
			break
		}
		n++
		gone[rule]++
		total -= p.size
	}
	if n != said {
		return nil, differ("%d segments were removed, %d were told of", n, said)
	}
	return gone, nil
}

// pieces is the segments of a view as the model's batches make them.
func (w *world) pieces(v *View) []piece {
	var out []piece
	for i, seg := range v.segs {
		p := piece{base: seg.base, end: w.end, newest: -1, active: i+1 == len(v.segs)}
		if !p.active {
			p.end = v.segs[i+1].base
		}
		for _, s := range w.batches {
			if s.base >= p.base && s.base < p.end {
				p.size += int64(len(s.bytes))
				p.newest = max(p.newest, s.h.MaxTimestamp)
			}
		}
		out = append(out, p)
	}
	return out
}

// sound asks the checker what it thinks of the files: when the log was closed in order, nothing is to be wrong; after a
// crash, and after the recovery from it, nothing that a start does not mend.
func (w *world) sound(clean bool) error {
	n, cut, err := sound(w.fs, clean, w.point, w.storedStart)
	w.counts["checked"] += n
	if err == nil && cut != nil {
		return differ("the next start cuts %+v", *cut)
	}
	return err
}

// torn is sound after a crash and before the recovery, which may cut what was not flushed. It returns what the checker says
// that it will cut; nil: nothing.
func (w *world) torn() (*check.Cut, error) {
	n, cut, err := sound(w.fs, false, w.point, w.storedStart)
	w.counts["checked"] += n
	return cut, err
}

// cutAsSaid compares what a recovery has cut with what the checker said before. The log counts the readable batches as far as
// frames lead, the checker looks for others too.
func cutAsSaid(said *check.Cut, r Report) error {
	switch {
	case (said == nil) != (r.Cut == nil):
		return differ("the checker said %+v, the recovery has cut %+v", said, r.Cut)
	case said != nil && (said.Bytes != r.Cut.Bytes || said.Batches < int64(r.Cut.Batches)):
		return differ("the checker said %+v, the recovery has cut %+v", *said, *r.Cut)
	}
	return nil
}

func sound(disk *disktest.FS, clean bool, point, start batch.Offset) (batches int, cut *check.Cut, err error) {
	p, err := check.CheckPartition(disk, worldDir, check.Options{Clean: clean, RecoveryPoint: point, LogStart: start, HighWatermark: -1})
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	for _, f := range p.Findings {
		if f.Cut != nil {
			cut = f.Cut
		} else if !f.Mended {
			return 0, nil, differ("closed in order %v, flushed to %d: %v", clean, point, f)
		}
	}
	return int(p.Batches), cut, nil
}

// checkHeld compares what held sections give with what they gave.
func (w *world) checkHeld() error {
	for _, h := range w.held {
		p := make([]byte, h.s.Len())
		if n, err := h.s.ReadAt(p, 0); n != len(p) || (err != nil && err != io.EOF) {
			return differ("held section of %d bytes gives %d: %v", len(p), n, err)
		}
		if !bytes.Equal(p, h.bytes) {
			return differ("bytes of a held section changed")
		}
	}
	return nil
}

// crashed opens the log after a crash and makes the model what is left, which must be a prefix of it not shorter than
// flushed.
func (w *world) crashed(flushed batch.Offset) error {
	w.directory = &Directory{}
	w.held = nil // their files died with the process
	said, err := w.torn()
	if err != nil {
		return err
	}
	r, err := w.open(false)
	if err == nil {
		err = cutAsSaid(said, r)
	}
	if err != nil {
		return err
	}
	if err := w.sound(false); err != nil {
		return fmt.Errorf("after the recovery: %w", err)
	}
	v := w.log.View()
	if r.Lost != 0 || len(r.Damage) != 0 {
		return differ("recovery reports %+v", r)
	}
	u := w.under
	w.under = underway{}
	if u.truncating {
		truncatedForGood(w.fs)
		flushed = min(flushed, u.truncateTo)
		if u.fully {
			flushed = 0
			if at := v.LogEnd(); v.LogStart() == at && (at == u.truncateTo || !v.HasFiles()) {
				w.cutTo(0, at)
				w.start, w.hw, w.storedStart = at, at, at
				clear(w.begun)
				return w.resume()
			}
		}
	}
	if u.retaining {
		w.start = max(w.start, min(v.LogStart(), w.hw))
	}
	w.arrived(u.appending, v.LogEnd())
	if v.LogEnd() < flushed {
		return differ("log ends at %d although it was flushed to %d", v.LogEnd(), flushed)
	}
	if v.LogEnd() > w.end {
		return differ("log ends at %d, it was appended to %d", v.LogEnd(), w.end)
	}
	if v.LogStart() > max(w.start, w.storedStart) {
		return differ("log starts at %d, it was at %d", v.LogStart(), w.start)
	}
	keep, end := len(w.batches), w.end
	if v.LogEnd() < w.end {
		keep, end = 0, v.LogEnd()
		for keep < len(w.batches) && w.batches[keep].last < end {
			keep++
		}
	}
	w.known = max(w.known, w.start)
	w.cutTo(keep, end)
	w.start, w.hw = v.LogStart(), v.HighWatermark()
	// An epoch that began in a gap before its first batch is found again at the batch; what lies below a log start that
	// was forgotten may have none.
	for _, s := range w.visible() {
		if got := v.EpochAt(s.last); got != s.epoch && s.last >= w.known {
			return differ("epoch of batch %d is %d, want %d", s.base, got, s.epoch)
		}
	}
	clear(w.begun)
	for _, e := range v.Epochs().Entries() {
		w.begun[e.Epoch] = e.Start
	}
	return w.resume()
}
