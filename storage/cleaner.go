package storage

import (
	"context"
	"errors"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"millrace/storage/batch"
	"millrace/storage/compact"
	"millrace/storage/log"
)

// Cleanable is who changes a log, as the cleaner asks for it.
type Cleanable interface {
	Topic() string
	Index() int32
	Log() *log.Log
	// Exclusive runs a function under the lock under which the log is changed. It gives the function's error back, or
	// log.ErrClosed without calling it.
	Exclusive(func() error) error
	// Retain applies retention, as for a log that is not compacted.
	Retain()
}

// CleanerSettings are the log.cleaner.* configs. They may change at any time.
type CleanerSettings struct {
	Threads        int           // log.cleaner.threads
	KeyBytes       int64         // log.cleaner.dedupe.buffer.size, of all threads
	KeyLoad        float64       // log.cleaner.io.buffer.load.factor
	BufferBytes    int           // log.cleaner.io.buffer.size, of all threads
	BytesPerSecond float64       // log.cleaner.io.max.bytes.per.second
	Backoff        time.Duration // log.cleaner.backoff.ms
}

// CleanerStats is what the cleaner counts. Those of a thread's last cleaning are the largest, or the sums, over all
// threads.
type CleanerStats struct {
	Threads             int
	FullPercent         float64 // of the room for keys, in the last cleaning
	BytesRead, Written  int64   // of the last cleaning
	LongestSeconds      float64 // the last cleaning
	LateMs              int64   // max.compaction.lag.ms was over for so long when a log was last looked for
	DirtiestRatio       float64
	LastRun             time.Time
	Uncleanable         map[string]int // logs, by data directory
	UncleanableBytes    map[string]int64
	Cleanings, Overtook int64
}

// Cleaner cleans a store's compacted logs, each time the dirtiest one, with a few goroutines.
type Cleaner struct {
	s       *Store
	logs    func() []Cleanable
	io      *throttle
	changed chan struct{}
	set     atomic.Pointer[CleanerSettings]

	mu   sync.Mutex
	busy map[partitionKey]bool
	// bad are the logs that could not be cleaned, until the next start.
	bad   map[*log.Log]error
	last  map[int]ran // by thread
	stats CleanerStats
}

// ran is a thread's last cleaning.
type ran struct {
	out     log.Cleaned
	seconds float64
}

// NewCleaner makes a cleaner of the logs that a function lists. Run starts it.
func (s *Store) NewCleaner(logs func() []Cleanable, set CleanerSettings) *Cleaner {
	c := &Cleaner{
		s: s, logs: logs, io: newThrottle(set.BytesPerSecond), changed: make(chan struct{}, 1),
		busy: map[partitionKey]bool{}, bad: map[*log.Log]error{}, last: map[int]ran{},
	}
	c.stats.LastRun = s.now()
	c.set.Store(&set)
	return c
}

// Configure changes the settings. Another rate counts at once; for anything else that changed, cleanings that are under
// way are given up and begun again, as Kafka does.
func (c *Cleaner) Configure(set CleanerSettings) {
	old := *c.set.Swap(&set)
	c.io.setRate(set.BytesPerSecond)
	old.BytesPerSecond = set.BytesPerSecond
	if old == set {
		return
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Run cleans until ctx ends.
func (c *Cleaner) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-c.changed: // what it tells of is read now
		default:
		}
		set := *c.set.Load()
		with, cancel := context.WithCancel(ctx)
		var threads sync.WaitGroup
		for i := range set.Threads {
			threads.Go(func() { c.thread(with, i, set) })
		}
		select {
		case <-ctx.Done():
		case <-c.changed:
		}
		cancel()
		threads.Wait()
	}
}

func (c *Cleaner) thread(ctx context.Context, id int, set CleanerSettings) {
	threads := int64(max(set.Threads, 1))
	keys := compact.NewKeys(min(set.KeyBytes/threads, math.MaxInt32), set.KeyLoad)
	for ctx.Err() == nil {
		cleaned := c.cleanOne(ctx, id, keys, max(set.BufferBytes/int(threads)/2, 1))
		keys.Clear()
		c.retain(ctx)
		if cleaned {
			continue
		}
		timer := time.NewTimer(set.Backoff)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// dirty is a log that is to be cleaned.
type dirty struct {
	Cleanable
	key partitionKey
	log *log.Log
	due compact.Range
}

// CleanOnce cleans the dirtiest log that is due, if there is one, and says whether it did. It is what the threads do in
// turn.
func (c *Cleaner) CleanOnce(ctx context.Context) bool {
	set := c.set.Load()
	return c.cleanOne(ctx, 0, compact.NewKeys(set.KeyBytes, set.KeyLoad), max(set.BufferBytes/2, 1))
}

func (c *Cleaner) cleanOne(ctx context.Context, id int, keys *compact.Keys, buffer int) bool {
	d, ok := c.grab()
	if !ok {
		return false
	}
	defer c.release(d.key)
	begun := time.Now()
	out, err := c.clean(ctx, d, keys, buffer)
	took := time.Since(begun)
	switch {
	case err == nil:
		c.s.logger.Info("log was cleaned", zap.String("log", d.log.Dir()), zap.Int64("from", int64(out.From)), zap.Int64("to", int64(out.To)), zap.Int64("bytes_read", out.BytesRead), zap.Int64("bytes_written", out.BytesWritten),
			zap.Int64("records_read", out.Read), zap.Int64("records_kept", out.Kept), zap.Int("segments", out.Segments), zap.Int("into", out.Into), zap.Duration("took", took))
		if out.Invalid > 0 {
			c.s.logger.Warn("records without a key were removed from a compacted log", zap.String("log", d.log.Dir()), zap.Int64("records", out.Invalid))
		}
		c.mu.Lock()
		c.last[id] = ran{out, took.Seconds()}
		c.stats.Cleanings++
		c.mu.Unlock()
		return true
	case errors.Is(err, log.ErrNoDescriptor):
		c.s.logger.Warn("log is to be cleaned later", zap.String("log", d.log.Dir()), zap.Error(err))
	case errors.Is(err, log.ErrOvertaken):
		c.mu.Lock()
		c.stats.Overtook++
		c.mu.Unlock()
	case errors.Is(err, log.ErrClosed), ctx.Err() != nil, d.log.OutOfUse() != nil:
		// It is no longer here, or we are to stop, or it was said elsewhere what is wrong.
	default:
		c.giveUp(d.log, err)
	}
	return false
}

// giveUp leaves a log as it is until the next start.
func (c *Cleaner) giveUp(l *log.Log, err error) {
	var damage *log.DamagedError
	if errors.As(err, &damage) {
		c.s.logger.Error("log is damaged below its recovery point: it is not cleaned any more", damageFields(l.Dir(), damage.Damage)...)
	} else {
		c.s.logger.Error("log cannot be cleaned", zap.String("log", l.Dir()), zap.Error(err))
	}
	c.mu.Lock()
	c.bad[l] = err
	c.mu.Unlock()
}

// grab takes the dirtiest log that is due.
func (c *Cleaner) grab() (dirty, bool) {
	now := c.s.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.LastRun, c.stats.DirtiestRatio, c.stats.LateMs = now, 0, 0
	here := map[*log.Log]bool{}
	var list []dirty
	var candidates []compact.Candidate
	for _, x := range c.logs() {
		l := x.Log()
		here[l] = true
		k := partitionKey{topic: x.Topic(), partition: x.Index()}
		v, cfg := l.View(), l.Config()
		if !cfg.Compact || c.busy[k] || c.bad[l] != nil || v.Closed() || !v.HasFiles() || l.OutOfUse() != nil {
			continue
		}
		r, err := l.Cleanable(now.UnixMilli())
		if errors.Is(err, log.ErrClosed) || errors.Is(err, log.ErrNoDescriptor) {
			continue
		}
		if err != nil {
			c.s.logger.Error("log cannot be cleaned", zap.String("log", l.Dir()), zap.Error(err))
			c.bad[l] = err
			continue
		}
		if r.Reset && !cfg.Delete {
			c.s.logger.Warn("where cleaning had come to is not within the log: it is cleaned from its start on", zap.String("log", l.Dir()), zap.Int64("start", int64(r.From)))
		}
		if r.Clean+r.Dirty == 0 {
			continue
		}
		c.stats.DirtiestRatio = max(c.stats.DirtiestRatio, r.Ratio())
		c.stats.LateMs = max(c.stats.LateMs, r.LateMs)
		list = append(list, dirty{x, k, l, r})
		candidates = append(candidates, compact.Candidate{Range: r, Least: cfg.MinCleanableRatio})
	}
	maps.DeleteFunc(c.bad, func(l *log.Log, _ error) bool { return !here[l] })
	best := compact.Filthiest(candidates)
	if best < 0 {
		return dirty{}, false
	}
	c.busy[list[best].key] = true
	return list[best], true
}

func (c *Cleaner) release(k partitionKey) {
	c.mu.Lock()
	delete(c.busy, k)
	c.mu.Unlock()
}

// clean cleans one log, and then stores how far.
func (c *Cleaner) clean(ctx context.Context, d dirty, keys *compact.Keys, buffer int) (log.Cleaned, error) {
	dir := c.s.directoryOf(d.key, d.log)
	if dir == nil {
		return log.Cleaned{}, log.ErrClosed
	}
	out, err := d.log.Clean(log.CleanOptions{
		Range: d.due, Now: c.s.now().UnixMilli(), Keys: keys, Buffer: buffer, Exclusive: d.Exclusive,
		Throttle: func(stop <-chan struct{}, n int) error { return c.io.wait(ctx, stop, n) },
	})
	if err != nil {
		return out, err
	}
	return out, c.s.storeCleaned(dir, d.key, d.log)
}

// retain applies retention to the compacted logs that nobody cleans at the moment, as Kafka's cleaner does: those whose
// policy also holds delete, and of the others what lies below the log start.
func (c *Cleaner) retain(ctx context.Context) {
	for _, x := range c.logs() {
		if ctx.Err() != nil {
			return
		}
		k := partitionKey{topic: x.Topic(), partition: x.Index()}
		c.mu.Lock()
		free := x.Log().Config().Compact && !c.busy[k] && c.bad[x.Log()] == nil
		if free {
			c.busy[k] = true
		}
		c.mu.Unlock()
		if free {
			x.Retain()
			c.release(k)
		}
	}
}

// Stats looks at what the cleaner counts.
func (c *Cleaner) Stats() CleanerStats {
	set := c.set.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.stats
	out.Threads = set.Threads
	for _, r := range c.last {
		out.FullPercent = max(out.FullPercent, 100*r.out.Full)
		out.BytesRead += r.out.BytesRead
		out.Written += r.out.BytesWritten
		out.LongestSeconds = max(out.LongestSeconds, r.seconds)
	}
	out.Uncleanable, out.UncleanableBytes = map[string]int{}, map[string]int64{}
	for _, d := range c.s.dirs {
		out.Uncleanable[d.path], out.UncleanableBytes[d.path] = 0, 0
	}
	now := c.s.now().UnixMilli()
	if len(c.bad) == 0 {
		return out
	}
	for d, logs := range c.s.openLogs() {
		for _, l := range logs {
			if c.bad[l] == nil {
				continue
			}
			out.Uncleanable[d.path]++
			if r, err := l.Cleanable(now); err == nil {
				out.UncleanableBytes[d.path] += r.Dirty
			}
		}
	}
	return out
}

// directoryOf is the directory of a log that is a partition's; nil if it is not any more.
func (s *Store) directoryOf(k partitionKey, l *log.Log) *directory {
	s.mu.Lock()
	e := s.logs[k]
	s.mu.Unlock()
	if e == nil {
		return nil
	}
	x := e.look()
	if x.log != l {
		return nil
	}
	return x.dir
}

// raise makes sure that the stored recovery point of a log is not below an offset, unless that is not flushed any more. A
// truncation says so first and then calls lower, so that whichever comes second here has its way.
func (s *Store) raise(d *directory, k partitionKey, to batch.Offset, flushed func() batch.Offset) error {
	if err := d.health.Offline(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if flushed() < to {
		return log.ErrOvertaken
	}
	o, ok := d.checkpoints[recoveryPoints][k]
	if ok && o >= to && !d.torn[recoveryPoints] || faults.keepPoint {
		return nil
	}
	next := maps.Clone(d.checkpoints[recoveryPoints])
	next[k] = max(o, to)
	return s.replace(d, recoveryPoints, next)
}

// storeCleaned stores the offset to which a log was cleaned.
func (s *Store) storeCleaned(d *directory, k partitionKey, l *log.Log) error {
	if err := d.health.Offline(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o := l.CleanedTo()
	if was, ok := d.checkpoints[cleanedOffsets][k]; o < 0 || (ok && was == o) || l.View().Closed() {
		return nil
	}
	next := maps.Clone(d.checkpoints[cleanedOffsets])
	next[k] = o
	return s.replace(d, cleanedOffsets, next)
}
