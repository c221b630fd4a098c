package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/broker/machine"
	"millrace/storage/batch"
)

// TestChaos lets writers and readers work on a shard while appends are refused
// or get lost on the way, the high watermark lags, and the leadership is lost
// with all that was not committed. What was acknowledged, or was read, must stay.
func TestChaos(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := newChaos(seed, noFault)
				c.run(t)
				if c.err != nil {
					t.Fatal(c.err)
				}
				if c.acked < 300 || c.failovers < 8 || c.reads < 300 || c.refusals < 5 || c.unknown < 5 {
					t.Fatalf("too little happened: %d acknowledged, %d failovers, %d reads, %d refused, %d unknown", c.acked, c.failovers, c.reads, c.refusals, c.unknown)
				}
			})
		})
	}
}

// TestChaosCatchesFaults plants faults; each must be found by some seed.
func TestChaosCatchesFaults(t *testing.T) {
	for _, f := range []fault{lostAppend, earlyWatermark, dirtyRead, replayRefused, forgetfulLoad} {
		t.Run(string(f), func(t *testing.T) {
			for seed := range uint64(20) {
				var err error
				inBubble(t, func(t *testing.T) {
					c := newChaos(seed, f)
					c.run(t)
					err = c.err
				})
				if err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Fatal("nobody noticed")
		})
	}
}

type fault string

const (
	noFault        fault = ""
	lostAppend     fault = "an append is lost though it succeeded"
	earlyWatermark fault = "the high watermark is ahead of what survives"
	dirtyRead      fault = "reads do not wait"
	replayRefused  fault = "a refused record is replayed"
	forgetfulLoad  fault = "a load leaves out a batch"
)

type chaos struct {
	rng   *rand.Rand
	fault fault
	log   *memLog

	mu        sync.Mutex
	shard     *Shard
	known     map[string]int // by key: the greatest value acknowledged or read
	tried     map[string]int
	err       error
	acked     int
	reads     int
	refusals  int
	unknown   int
	failovers int
}

func newChaos(seed uint64, f fault) *chaos {
	c := &chaos{rng: rand.New(rand.NewPCG(seed, 1)), fault: f, known: map[string]int{}, tried: map[string]int{}}
	c.log = &memLog{held: true}
	luck := rand.New(rand.NewPCG(seed, 2)) // the log's own, under its lock
	c.log.fail = func([]byte) (error, bool) {
		switch luck.IntN(40) {
		case 0:
			c.refusals++
			return &Refused{Code: 19, Err: errors.New("too few replicas")}, false
		case 1:
			c.unknown++
			return errors.New("unknown"), luck.IntN(2) == 0
		case 2:
			if f == lostAppend {
				return nil, false
			}
		}
		return nil, true
	}
	return c
}

func (c *chaos) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// faulty wraps the machine for the faults that lie there.
type faulty struct {
	machine.Machine
	f    fault
	d    machine.Decision
	seen int
}

func (m *faulty) Handle(now time.Time, ev machine.Event) machine.Decision {
	if _, ok := ev.(machine.Refused); ok && m.f == replayRefused {
		for _, r := range m.d.Records {
			m.Machine.Replay(r)
		}
	}
	m.d = m.Machine.Handle(now, ev)
	return m.d
}

func (m *faulty) Replay(r machine.Record) string {
	m.seen++
	if m.f == forgetfulLoad && m.seen%50 == 49 {
		return ""
	}
	return m.Machine.Replay(r)
}

func (c *chaos) open() {
	images, refused := []machine.ImageChanged{}, 0
	s := NewShard(Options{Log: c.log, Machine: func() machine.Machine {
		l := &ledger{hard: map[string]string{}, open: map[int64]map[string]string{}, parked: map[string][]machine.Ticket{},
			asks: map[machine.SendID]machine.Ticket{}, images: &images, refused: &refused}
		return &faulty{Machine: l, f: c.fault}
	}})
	c.mu.Lock()
	c.shard = s
	c.mu.Unlock()
}

func (c *chaos) current() *Shard {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shard
}

func (c *chaos) run(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c.open()
	var wg sync.WaitGroup
	for i := range 6 {
		key := fmt.Sprint("k", i)
		pause := time.Duration(1+c.rng.IntN(10)) * time.Millisecond
		wg.Go(func() { c.write(ctx, key, pause) })
		wg.Go(func() { c.read(ctx, key, pause) })
	}
	for range 400 {
		time.Sleep(time.Duration(c.rng.IntN(20)) * time.Millisecond)
		synctest.Wait()
		switch n := c.rng.IntN(20); {
		case n == 0:
			c.failover()
		case n < 12:
			c.advance()
		}
		c.mu.Lock()
		failed := c.err != nil
		c.mu.Unlock()
		if failed {
			break
		}
	}
	cancel()
	c.current().Stop()
	wg.Wait()
}

// advance moves the high watermark a little, or all the way.
func (c *chaos) advance() {
	hw, end := c.log.HighWatermark(), c.log.End()
	if end > hw {
		c.log.commit(hw + 1 + batch.Offset(c.rng.Int64N(int64(end-hw))))
	}
}

// failover loses what is not committed, and begins anew.
func (c *chaos) failover() {
	c.failovers++
	c.current().Stop()
	c.log.mu.Lock()
	keep := c.log.hw
	if c.fault == earlyWatermark && keep > 0 {
		keep--
		c.log.hw = keep
	}
	for len(c.log.batches) > 0 {
		last := c.log.batches[len(c.log.batches)-1]
		h, _ := batch.ParseHeader(last)
		if h.BaseOffset < keep {
			break
		}
		c.log.batches = c.log.batches[:len(c.log.batches)-1]
		c.log.end = h.BaseOffset
	}
	c.log.mu.Unlock()
	c.open()
}

func (c *chaos) write(ctx context.Context, key string, pause time.Duration) {
	for n := 1; ; n++ {
		time.Sleep(pause)
		c.mu.Lock()
		c.tried[key] = n
		c.mu.Unlock()
		_, err := c.current().Do(ctx, machine.Request{Body: put{key: key, value: strconv.Itoa(n)}})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			c.mu.Lock()
			c.known[key] = max(c.known[key], n)
			c.acked++
			c.mu.Unlock()
		}
	}
}

func (c *chaos) read(ctx context.Context, key string, pause time.Duration) {
	var body any = get{key}
	if c.fault == dirtyRead {
		body = peek{key}
	}
	for {
		time.Sleep(pause)
		c.mu.Lock()
		least := c.known[key]
		c.mu.Unlock()
		got, err := c.current().Do(ctx, machine.Request{Body: body})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			continue
		}
		n, _ := strconv.Atoi(strings.TrimSpace(got.(string)))
		c.mu.Lock()
		c.reads++
		if n < least || n > c.tried[key] {
			c.fail("%s reads %d; %d was known before, %d was tried", key, n, least, c.tried[key])
		}
		c.known[key] = max(c.known[key], n)
		c.mu.Unlock()
	}
}
