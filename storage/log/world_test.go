package log

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/disktest"
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
		fs: disktest.New(), directory: &Directory{}, clock: time.UnixMilli(100_000_000), begun: map[batch.LeaderEpoch]batch.Offset{},
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
	{8, "append together", (*world).appendTogether},
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

// farFuture is in the year 2099: some producer's clock is wrong.
const farFuture = 4_070_908_800_000

func (w *world) build(d draw, o batch.BuilderOptions) ([]byte, batch.Header) {
	b := batch.NewBuilder(o)
	for range 1 + d(4, "records") {
		ts := w.clock.UnixMilli() + int64(d(200, "timestamp")) - 100
		if d(300, "far") == 0 {
			ts = farFuture + int64(d(3, "timestamp"))
			w.counts["records of the far future"]++
		}
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

// truncatedForGood makes durable what a killed truncation has left: until something is flushed, batches that it has taken
// away could come back with a later crash, which is no fault, and worlds go on from one history.
func truncatedForGood(d *disktest.FS) {
	list, err := d.ReadDir(worldDir)
	if errors.Is(err, fs.ErrNotExist) {
		list, err = nil, d.SyncDir(filepath.Dir(worldDir))
	}
	for _, e := range list {
		var f disk.File
		if f, err = d.Open(worldDir+"/"+e.Name, disk.Write); err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err == nil {
			err = d.SyncDir(worldDir)
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		panic(err)
	}
}
