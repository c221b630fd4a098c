package log

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disktest"
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
	bare    bool // what is known of producers came from batches that were cleaned
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

// crashed opens the log after a crash and makes the model what is left.
func (w *cleanWorld) crashed(flushed batch.Offset) error {
	w.directory = &Directory{}
	w.held = nil
	if _, err := w.torn(false); err != nil {
		return err
	}
	if err := w.opening(false); err != nil {
		return err
	}
	if err := w.sound(false); err != nil {
		return fmt.Errorf("after the recovery: %w", err)
	}
	v := w.log.View()
	u := w.under
	w.under, w.cleaning = underway{}, false
	if u.truncating {
		truncatedForGood(w.fs)
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

func (w *cleanWorld) crash(kind uint64) {
	switch kind % 3 {
	case 0:
		w.fs.Kill() // the next crash is another one: what it has left is not durable
	case 1:
		w.fs.Crash(nil)
	default:
		w.fs.Crash(rand.New(rand.NewPCG(kind, 4)))
	}
}

// loseSnapshots takes the producers' snapshots away: what a cleaning has left of the batches is to say what they did.
func (w *cleanWorld) loseSnapshots() error {
	names, err := w.fs.ReadDir(worldDir)
	if err != nil {
		return nil // there is no log yet
	}
	for _, n := range names {
		if strings.HasSuffix(n.Name, suffixSnapshot) {
			if err := w.fs.Remove(worldDir + "/" + n.Name); err != nil {
				return err
			}
			w.counts["snapshots lost"]++
			w.bare = true
		}
	}
	return w.fs.SyncDir(worldDir)
}

// sum adds what happened to a world to what happened to others.
func (w *cleanWorld) sum(to map[string]int) {
	for k, n := range w.counts {
		to[k] += n
	}
	outcomes(w.fs, to)
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
			if w.counts["crash"]%2 == 0 {
				w.checkpointBeside()
			}
			w.log.Abandon()
			w.crash(kind + uint64(w.counts["crash"]))
			if !w.cuts && (kind+uint64(w.counts["crash"]))%5 == 0 {
				if err := w.loseSnapshots(); err != nil {
					return err
				}
			}
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
