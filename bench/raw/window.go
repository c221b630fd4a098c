package raw

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Window is the part of a load that is measured: so long, after it has run for
// a while already. What happens before and after is done but not counted.
type Window struct {
	Ramp   time.Duration
	Length time.Duration
	CPU    func() (time.Duration, error) // of the server
}

// Result is what happened within a window.
type Result struct {
	Elapsed  time.Duration
	CPU      time.Duration // of the server
	Bytes    int64         // of whole record batches
	Requests int64
}

// Rate is in MB a second.
func (r Result) Rate() float64 { return float64(r.Bytes) / 1e6 / r.Elapsed.Seconds() }

// PerGB is server CPU seconds for each GB.
func (r Result) PerGB() float64 { return r.CPU.Seconds() / (float64(r.Bytes) / 1e9) }

// PerRequest is server CPU microseconds for each request.
func (r Result) PerRequest() float64 {
	return float64(r.CPU) / float64(time.Microsecond) / float64(r.Requests)
}

// Counter is what one worker has done, on cache lines of its own.
type Counter struct {
	bytes, requests atomic.Int64
	_               [112]byte
}

// Add counts a request, or a record, of so many bytes.
func (c *Counter) Add(bytes int) {
	c.bytes.Add(int64(bytes))
	c.requests.Add(1)
}

// Load is some workers that run until they are told to stop.
type Load struct {
	counters []Counter
	stop     atomic.Bool
	failed   chan struct{}
	once     sync.Once
}

// Stopped says that a worker is to return.
func (l *Load) Stopped() bool { return l.stop.Load() }

// ErrNothing is a window in which nothing was done.
var ErrNothing = errors.New("nothing was done while it was measured")

// Over runs work in so many goroutines and measures what they do in the window.
// A worker returns soon after stop is set; one that fails stops all.
func (w Window) Over(workers int, work func(i int, l *Load, c *Counter) error) (Result, error) {
	l := &Load{counters: make([]Counter, workers), failed: make(chan struct{})}
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			if errs[i] = work(i, l, &l.counters[i]); errs[i] != nil {
				l.stop.Store(true)
				l.once.Do(func() { close(l.failed) })
			}
		})
	}
	l.sleep(w.Ramp)
	begin, err1 := w.snapshot(l)
	l.sleep(w.Length)
	end, err2 := w.snapshot(l)
	l.stop.Store(true)
	wg.Wait()
	if err := errors.Join(append(errs, err1, err2)...); err != nil {
		return Result{}, err
	}
	r := Result{Elapsed: end.at.Sub(begin.at), CPU: end.cpu - begin.cpu, Bytes: end.bytes - begin.bytes, Requests: end.requests - begin.requests}
	if r.Requests == 0 || r.CPU <= 0 {
		return r, ErrNothing
	}
	return r, nil
}

func (l *Load) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.failed:
	}
}

type snapshot struct {
	at              time.Time
	cpu             time.Duration
	bytes, requests int64
}

func (w Window) snapshot(l *Load) (s snapshot, err error) {
	s.at = time.Now()
	if s.cpu, err = w.CPU(); err != nil {
		return s, fmt.Errorf("measure the server: %w", err)
	}
	for i := range l.counters {
		s.bytes += l.counters[i].bytes.Load()
		s.requests += l.counters[i].requests.Load()
	}
	return s, nil
}
