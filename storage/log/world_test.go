package log

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"time"

	"millrace/storage/batch"
	"millrace/storage/check"
	"millrace/storage/disktest"
	"millrace/storage/producer"
)

// world is a log on a test disk beside a naive model of it: a list of batches. Steps change both; check compares them.
// It stands in for the store as well: it keeps the checkpoints.
type world struct {
	fs        *disktest.FS
	directory *Directory
	log       *Log
	config    Config
	clock     time.Time

	batches []stored // every batch that may still be on disk, also below start
	start   batch.Offset
	hw      batch.Offset
	end     batch.Offset
	epoch   batch.LeaderEpoch
	// begun is every epoch with the offset it began at, whether or not it has data.
	begun map[batch.LeaderEpoch]batch.Offset
	// known is where the epochs of records begin to be known: below a log start that a crash made forget they are not.
	known batch.Offset

	// What the store's checkpoint holds; it is durable at once.
	point, storedStart batch.Offset

	sequences map[batch.ProducerID]int32
	counts    map[string]int
	lives     int // that a crash has ended

	under underway

	held []held
}

// held is a section a reader has not sent yet.
type held struct {
	s     Section
	bytes []byte
}

// underway is what a step was about to do when the power went.
type underway struct {
	appending  [][]byte     // batches that may be there
	truncating bool         // and the log may end as low as
	truncateTo batch.Offset // this
	fully      bool         // or be empty there
	retaining  bool         // the log start may lie as high as the high watermark
}

// stored is one batch as it must be read back.
type stored struct {
	base, last batch.Offset
	epoch      batch.LeaderEpoch
	bytes      []byte
	h          batch.Header
	records    []batch.Record
}

const worldDir = "/data/t-0"

func newWorld() *world {
	w := &world{
		fs: disktest.New(), directory: &Directory{}, clock: time.UnixMilli(1_000_000), begun: map[batch.LeaderEpoch]batch.Offset{},
		sequences: map[batch.ProducerID]int32{}, counts: map[string]int{},
		config: Config{
			SegmentBytes: 1500, SegmentMs: 5000, IndexBytes: 96, IndexIntervalBytes: 200, RetentionMs: -1, RetentionBytes: -1,
			FileDeleteDelayMs: 1000, Delete: true, FlushMessages: 1 << 60, FlushMs: 1 << 60,
		},
	}
	w.fs.Put("/data/meta.properties", nil)
	return w
}

func (w *world) options(clean bool) Options {
	return Options{
		FS: w.fs, Dir: worldDir, Topic: "t", TopicID: [16]byte{7}, Config: w.config, Now: func() time.Time { return w.clock },
		RecoveryPoint: w.point, LogStart: w.storedStart, HighWatermark: w.hw, Clean: clean,
		Directory: w.directory,
		LowerRecoveryPoint: func(o batch.Offset) error {
			w.point = min(w.point, o)
			return nil
		},
	}
}

// draw is where a world's choices come from: a seed, or rapid.
type draw func(n int, what string) int

func fromSeed(seed uint64) draw {
	r := rand.New(rand.NewPCG(seed, 99))
	return func(n int, _ string) int { return r.IntN(n) }
}

var errModel = errors.New("log and model differ")

func differ(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errModel, fmt.Sprintf(format, args...))
}

// steps are what can happen to a log, by weight.
var steps = []struct {
	weight int
	name   string
	do     func(*world, draw) error
}{
	{30, "append", (*world).append},
	{8, "append as producer", (*world).appendIdempotent},
	{6, "append as follower", (*world).appendCopied},
	{4, "send again", (*world).sendAgain},
	{6, "high watermark", (*world).highWatermark},
	{3, "new epoch", (*world).newEpoch},
	{3, "flush", (*world).flush},
	{2, "flush what was rolled", (*world).flushRolled},
	{3, "checkpoint", (*world).checkpoint},
	{3, "truncate", (*world).truncate},
	{1, "truncate fully", (*world).truncateFully},
	{2, "roll", (*world).roll},
	{2, "log start", (*world).logStart},
	{3, "retain", (*world).retain},
	{3, "time passes", (*world).timePasses},
	{2, "configure", (*world).configure},
	{2, "close and open", (*world).reopen},
	{5, "hold a section", (*world).hold},
}

// step does one thing.
func (w *world) step(d draw) error {
	name, do := pick(d)
	w.counts[name]++
	was := w.newest()
	if err := do(w, d); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if name != "truncate" && w.newest() > was {
		w.counts["rolls"]++
	}
	w.under = underway{}
	return nil
}

// pick chooses a step.
func pick(d draw) (name string, do func(*world, draw) error) {
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	n := d(total, "step")
	for _, s := range steps {
		if n -= s.weight; n < 0 {
			return s.name, s.do
		}
	}
	panic("unreachable")
}

// newest is the base of the active segment; -1: there is none.
func (w *world) newest() batch.Offset {
	if n := len(w.log.segs); n > 0 {
		return w.log.segs[n-1].base
	}
	return -1
}

// sum adds what happened to a world to what happened to others.
func (w *world) sum(to map[string]int) {
	for k, n := range w.counts {
		to[k] += n
	}
	outcomes(w.fs, to)
}

// outcomes adds what the crashes of a disk have done.
func outcomes(disk *disktest.FS, to map[string]int) {
	o := disk.Outcomes()
	to["crashes"] += o.Crashes
	to["crashes that lost writes"] += o.Lost
	to["crashes that tore writes"] += o.Torn
	to["crashes that reordered writes"] += o.Reordered
	to["crashes that lost names"] += o.Names
}

// begin opens a log that does not exist.
func (w *world) begin() error {
	if _, err := w.open(false); err != nil {
		return err
	}
	return w.resume()
}

func (w *world) open(clean bool) (Report, error) {
	l, r, err := Open(w.options(clean))
	if err != nil {
		return r, err
	}
	w.log = l
	return r, nil
}

func (w *world) build(d draw, o batch.BuilderOptions) ([]byte, batch.Header) {
	b := batch.NewBuilder(o)
	for range 1 + d(4, "records") {
		ts := w.clock.UnixMilli() + int64(d(200, "timestamp")) - 100
		b.Add(ts, []byte("key"), bytes.Repeat([]byte{byte('a' + d(26, "letter"))}, d(120, "size")))
	}
	p := b.Bytes()
	h, err := batch.ParseHeader(p)
	if err != nil {
		panic(err)
	}
	return p, h
}

// arrived notes those of some batches that are there although their append has failed.
func (w *world) arrived(appending [][]byte, end batch.Offset) {
	for _, b := range appending {
		h, _ := batch.ParseHeader(b)
		if h.LeaderEpoch == w.epoch && h.BaseOffset >= w.end && h.LastOffset() < end {
			w.added(b, h.BaseOffset)
		}
	}
}

// added notes a batch that was appended.
func (w *world) added(b []byte, base batch.Offset) {
	h, err := batch.ParseHeader(b)
	if err != nil {
		panic(err)
	}
	if h.BaseOffset != base || h.LeaderEpoch != w.epoch {
		panic(fmt.Sprintf("batch was marked %d in epoch %d, want %d in %d", h.BaseOffset, h.LeaderEpoch, base, w.epoch))
	}
	b = slices.Clone(b)
	_, records := parse(b)
	w.batches = append(w.batches, stored{base: base, last: h.LastOffset(), epoch: h.LeaderEpoch, bytes: b, h: h, records: records})
	w.end = h.NextOffset()
	if _, ok := w.begun[w.epoch]; !ok {
		w.begun[w.epoch] = base
	}
}

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

// sendAgain sends the newest batch of a producer once more, and one that leaves a gap.
func (w *world) sendAgain(d draw) error {
	id := batch.ProducerID(1 + d(3, "producer"))
	for _, s := range slices.Backward(w.batches) {
		if s.h.ProducerID != id {
			continue
		}
		if v := w.log.View(); !v.HasFiles() || s.base < v.FirstSegment() {
			return nil // whether it is still known depends on which snapshots a crash left
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
	switch d(3, "by") {
	case 0:
		c.RetentionBytes = int64(d(6000, "retention.bytes"))
	case 1:
		c.RetentionMs = int64(d(20000, "retention.ms"))
	}
	w.log.SetConfig(c)
	defer w.log.SetConfig(w.config)
	before := w.log.View()
	w.under.retaining = true
	reasons, err := w.log.Retain(w.clock)
	if err != nil {
		return err
	}
	v := w.log.View()
	if len(reasons) == 0 {
		if v.LogStart() != w.start {
			return differ("log start moved from %d to %d although nothing was removed", w.start, v.LogStart())
		}
		return nil
	}
	if err := w.mayGo(before, len(reasons), c); err != nil {
		return err
	}
	if v.LogStart() > w.hw {
		return differ("retention moved the log start to %d, above the high watermark %d", v.LogStart(), w.hw)
	}
	w.start = max(w.start, v.FirstSegment())
	return nil
}

// mayGo judges a removal by the model's batches.
func (w *world) mayGo(v *View, n int, c Config) error {
	var total int64
	sizes := make([]int64, len(v.segs))
	newest := make([]int64, len(v.segs))
	for i := range v.segs {
		newest[i] = -1
		for _, s := range w.batches {
			if s.base >= v.segs[i].base && (i+1 == len(v.segs) || s.base < v.segs[i+1].base) {
				sizes[i] += int64(len(s.bytes))
				newest[i] = max(newest[i], s.h.MaxTimestamp)
			}
		}
		total += sizes[i]
	}
	for i := range n {
		end := w.end
		if i+1 < len(v.segs) {
			end = v.segs[i+1].base
		}
		old := c.RetentionMs >= 0 && (newest[i] < 0 || w.clock.UnixMilli()-newest[i] > c.RetentionMs)
		big := c.RetentionBytes >= 0 && total-sizes[i] >= c.RetentionBytes
		if !(old || big || end <= w.start) {
			return differ("segment %d was removed: %d bytes, newest %d", v.segs[i].base, sizes[i], newest[i])
		}
		total -= sizes[i]
	}
	return nil
}

func (w *world) timePasses(d draw) error {
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
	if r.Scanned != 0 || r.Recovered || r.Cut != nil || r.Lost != 0 || len(r.Damage)+len(r.Rebuilt)+len(r.Dropped) != 0 {
		return differ("opening after a clean close: %+v", r)
	}
	return w.resume()
}

// sound asks the checker what it thinks of the files: when the log was closed in order, nothing is to be wrong; after a
// crash, and after the recovery from it, nothing that a start does not mend.
func (w *world) sound(clean bool) error {
	n, err := sound(w.fs, clean, w.point, w.storedStart)
	w.counts["checked"] += n
	return err
}

func sound(disk *disktest.FS, clean bool, point, start batch.Offset) (batches int, err error) {
	p, err := check.CheckPartition(disk, worldDir, check.Options{Clean: clean, RecoveryPoint: point, LogStart: start, HighWatermark: -1})
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, f := range p.Findings {
		if !f.Mended {
			return 0, differ("closed in order %v, flushed to %d: %v", clean, point, f)
		}
	}
	return int(p.Batches), nil
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
	if err := w.sound(false); err != nil {
		return err
	}
	r, err := w.open(false)
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
