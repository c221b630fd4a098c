// Package coordinator runs a machine on top of a partition of an internal
// topic: it loads the machine from the log, hands it requests one at a time,
// appends what it decides, and answers when that is committed.
//
// It is thin on purpose. What a group or a transaction is, it does not know;
// broker/machine says what driver and machine promise each other. It knows no
// replication either: the Log it is given does.
//
// What it promises:
//
//   - One goroutine per shard; it is the only one to call the machine and the
//     only one to append to the log.
//   - Append first, replay after. A refused append leaves the machine as it was,
//     and the request is answered with the reason.
//   - An answer that announces a write leaves when the high watermark has passed
//     it, or as ErrUnavailable when time is up. An answer that only reads waits
//     no longer than ReadTimeout for what its keys have uncommitted, and then is
//     ErrLoading; with nothing uncommitted it leaves at once.
//   - After an append whose outcome is unknown the machine is thrown away and
//     loaded anew. Every request that was parked then gets ErrNotCoordinator, and
//     so does every request when the shard stops.
//   - A log that does not load is told of once, with where in it and why, and is
//     tried again after pauses that double. Requests get ErrNotCoordinator
//     meanwhile, as in Kafka, which does not try again.
package coordinator

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"millrace/broker/machine"
	"millrace/controller/image"
	"millrace/storage/batch"

	"go.uber.org/zap"
)

// Options describe a shard. Log and Machine are needed; the rest has defaults.
type Options struct {
	Log Log
	// Machine makes an empty machine, once per load.
	Machine func() machine.Machine
	// Image is what the machine is told right after it is loaded; nil leaves it
	// to the first ImageChanged.
	Image *image.Image
	// Send asks whom a machine's Send names and waits for the answer. It runs in
	// a goroutine of its own, whose context ends with the shard. Nil answers every
	// send with an error.
	Send func(ctx context.Context, send machine.Send) (any, error)

	Logger *zap.Logger
	Now    func() time.Time

	WriteTimeout time.Duration // 5 s (offsets.commit.timeout.ms)
	ReadTimeout  time.Duration // 1 s
	// Backoff is the pause after a load that failed, 1 s; it doubles with each that
	// follows, up to BackoffMax, 1 min.
	Backoff, BackoffMax time.Duration
	// ToldElsewhere says of why a load failed that whoever is to know is told of it
	// already; nil: of nothing.
	ToldElsewhere func(error) bool
	// LoadBytes is how much of the log is read at once; 1 MiB. LoadLimit bounds
	// the memory that one record may take; 128 MiB. A longer one, which no
	// coordinator writes, is skipped.
	LoadBytes int
	LoadLimit int
	// Scratch waits for its turn and calls f with decompressors: many shards load
	// at once. Nil makes some for each batch.
	Scratch func(f func(*batch.Scratch))
	// Batches says how what is written is compressed; markers never are.
	Batches batch.BuilderOptions
}

func (o *Options) fill() {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 5 * time.Second
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = time.Second
	}
	if o.Backoff == 0 {
		o.Backoff = time.Second
	}
	if o.BackoffMax == 0 {
		o.BackoffMax = time.Minute
	}
	if o.LoadBytes == 0 {
		o.LoadBytes = 1 << 20
	}
	if o.LoadLimit == 0 {
		o.LoadLimit = 128 << 20
	}
	if o.Scratch == nil {
		o.Scratch = func(f func(*batch.Scratch)) { f(nil) }
	}
}

// Shard is one partition of an internal topic for one leadership of this
// broker. A broker that loses the partition stops the shard, and makes another
// when it leads again.
type Shard struct {
	o Options

	calls   chan *call
	answers chan answer
	wake    chan struct{} // high watermark or image moved; holds one
	quit    chan struct{} // closed by Stop
	done    chan struct{} // closed when the goroutine has ended
	stop    sync.Once
	loaded  atomic.Bool
	failure atomic.Pointer[LoadError] // nil: it has loaded, or it is not known yet
	first   chan struct{}             // closed when it has loaded for the first time, or could not
	known   sync.Once                 // closes first
	passed  skips                     // of the load; for the goroutine alone

	ctx    context.Context // of sends
	cancel context.CancelFunc
	sends  sync.WaitGroup

	mu    sync.Mutex // guards what ImageChanged leaves for the goroutine
	image *image.Image
	delta *image.Delta
	whole bool // the delta is not to be used: anything may have changed
	fresh bool // there is an image the machine has not seen

	run run
}

// call is one request on its way through the shard. Either body or marker is
// set.
type call struct {
	req    machine.Request
	marker *machine.Marker
	out    chan result // holds one
}

type result struct {
	body any
	err  error
}

type answer struct {
	life uint64
	ev   machine.Answer
}

// NewShard starts a shard. It loads in the background; until that is done every
// request is answered ErrLoading.
func NewShard(o Options) *Shard {
	o.fill()
	s := &Shard{
		o:       o,
		calls:   make(chan *call),
		answers: make(chan answer),
		wake:    make(chan struct{}, 1),
		quit:    make(chan struct{}),
		done:    make(chan struct{}),
		first:   make(chan struct{}),
		image:   o.Image,
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	go s.main()
	return s
}

// Do puts a request before the machine and waits for its answer. The ticket is
// the shard's to give, and chance too unless the caller brought it. The error is
// an *Error, or that of ctx.
func (s *Shard) Do(ctx context.Context, req machine.Request) (any, error) {
	if req.Fresh == ([16]byte{}) {
		rand.Read(req.Fresh[:])
	}
	return s.do(ctx, &call{req: req, out: make(chan result, 1)})
}

// Mark appends the marker of a transaction and waits until it is committed.
func (s *Shard) Mark(ctx context.Context, m machine.Marker) error {
	_, err := s.do(ctx, &call{marker: &m, out: make(chan result, 1)})
	return err
}

func (s *Shard) do(ctx context.Context, c *call) (any, error) {
	if !s.loaded.Load() {
		select {
		case <-s.quit:
			return nil, ErrNotCoordinator
		default:
			return nil, s.refusal()
		}
	}
	select {
	case s.calls <- c:
	case <-s.done:
		return nil, ErrNotCoordinator
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case r := <-c.out:
		return r.body, r.err
	case <-ctx.Done():
		// The ticket stays with the machine: a join that nobody waits for times out
		// there, as with a client that vanished (its answer has a place to go).
		return nil, ctx.Err()
	}
}

// AwaitLoaded returns when the shard has loaded for the first time, or could
// not: a *LoadError. Other errors say that it was stopped before, or are that of
// ctx.
func (s *Shard) AwaitLoaded(ctx context.Context) error {
	select {
	case <-s.first:
		return s.Failure()
	case <-s.done:
		return ErrNotCoordinator
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Loaded says whether requests are served.
func (s *Shard) Loaded() bool { return s.loaded.Load() }

// Settled says whether the shard has loaded for the first time, or could not.
func (s *Shard) Settled() bool {
	select {
	case <-s.first:
		return true
	default:
		return false
	}
}

// Failure is a *LoadError while the log does not load; nil: it has loaded, or is
// being loaded for the first time.
func (s *Shard) Failure() error {
	if f := s.failure.Load(); f != nil {
		return f
	}
	return nil
}

// refusal is the answer while there is no machine.
func (s *Shard) refusal() *Error {
	if s.failure.Load() != nil {
		return ErrNotCoordinator
	}
	return ErrLoading
}

// ImageChanged tells the machine of a newer image, soon; images that come
// faster than the machine takes them are merged. It does not block.
func (s *Shard) ImageChanged(img *image.Image, delta *image.Delta) {
	s.mu.Lock()
	s.image = img
	if delta == nil {
		s.whole = true
	} else {
		s.delta = s.delta.Then(delta)
	}
	s.fresh = true
	s.mu.Unlock()
	s.poke()
}

// Stop ends the shard: everybody waiting gets ErrNotCoordinator. It returns when
// the goroutine and all sends have ended.
func (s *Shard) Stop() {
	s.stop.Do(func() {
		close(s.quit)
		s.cancel()
	})
	<-s.done
	s.sends.Wait()
}

func (s *Shard) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Shard) main() {
	defer close(s.done)
	defer s.cancel()
	unwatch := s.o.Log.Watch(s.poke)
	defer unwatch()
	for life := uint64(1); ; life++ {
		s.run = run{s: s, life: life, parked: map[machine.Ticket]*call{}, keys: map[string]batch.Offset{}, ticket: s.run.ticket}
		if !s.load() {
			return
		}
		s.loaded.Store(true)
		s.known.Do(func() { close(s.first) })
		again := s.run.loop()
		s.loaded.Store(false)
		s.run.abandon()
		if !again {
			return
		}
	}
}

// load fills a new machine from the log; it gives up only when the shard is
// stopped.
func (s *Shard) load() bool {
	for pause := s.o.Backoff; ; pause = min(2*pause, s.o.BackoffMax) {
		begin := time.Now()
		m := s.o.Machine()
		s.passed = skips{}
		at, ok, err := s.readAll(m)
		s.passed.tell(s.o.Logger)
		if !ok {
			return false
		}
		if err == nil {
			s.run.m = m
			s.run.end = at
			s.run.floor = at
			if s.failure.Swap(nil) != nil {
				s.o.Logger.Info("the coordinator has loaded after all", zap.Int64("end", int64(at)))
			}
			s.o.Logger.Debug("coordinator loaded", zap.Int64("end", int64(at)), zap.Duration("took", time.Since(begin)))
			return true
		}
		s.failed(&LoadError{Offset: at, Err: err})
		if !s.loading(time.After(pause)) {
			return false
		}
	}
}

// failed tells of a load that failed, unless the one before it did at the same
// place.
func (s *Shard) failed(now *LoadError) {
	before := s.failure.Swap(now)
	elsewhere := s.o.ToldElsewhere != nil && s.o.ToldElsewhere(now.Err)
	if !elsewhere && (before == nil || before.Offset != now.Offset) {
		file, position := s.o.Log.Where(now.Offset)
		s.o.Logger.Error("a coordinator's log does not load: its groups are not served, which is tried again from time to time",
			zap.Int64("offset", int64(now.Offset)), zap.String("file", file), zap.Int64("position", position), zap.Error(now.Err))
	}
	s.known.Do(func() { close(s.first) })
}

// loading answers whoever slipped in before it was known that the machine is
// gone, until a time comes. It is false when the shard stops.
func (s *Shard) loading(until <-chan time.Time) bool {
	for {
		select {
		case c := <-s.calls:
			c.out <- result{err: s.refusal()}
		case <-until:
			return true
		case <-s.quit:
			return false
		}
	}
}

func (s *Shard) readAll(m machine.Machine) (at batch.Offset, ok bool, err error) {
	at = s.o.Log.Start()
	end := s.o.Log.End()
	now := make(chan time.Time)
	close(now)
	for at < end {
		if !s.loading(now) {
			return at, false, nil
		}
		b, err := s.o.Log.Read(at, s.o.LoadBytes)
		if err != nil {
			return at, true, err
		}
		next, err := s.replay(m, b, at)
		if err != nil {
			return next, true, err
		}
		if next == at {
			// Nothing from here to the end: the cleaner took it.
			break
		}
		at = next
	}
	return max(at, end), true, nil
}

// skips are the records that a load had no use for: of a log that was taken
// over, or that somebody else has written to, there may be many.
type skips struct {
	records int
	offset  batch.Offset // of the first
	why     string       // of the first
}

func (k *skips) add(at batch.Offset, why string) {
	if k.records == 0 {
		k.offset, k.why = at, why
	}
	k.records++
}

// tell reports them in one line, if there are any.
func (k *skips) tell(l *zap.Logger) {
	if k.records > 0 {
		l.Warn("skipped records of the coordinator's log", zap.Int("records", k.records),
			zap.Int64("offset", int64(k.offset)), zap.String("why", k.why))
	}
}
