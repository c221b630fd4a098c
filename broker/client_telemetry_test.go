package broker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"millrace/broker/telemetry"
)

// watchedContext counts who waits for its end, as package context lets a context do.
type watchedContext struct {
	context.Context
	done    chan struct{}
	waiting []func()
}

func (c *watchedContext) Done() <-chan struct{} { return c.done }
func (c *watchedContext) Err() error            { return context.Canceled }

func (c *watchedContext) AfterFunc(f func()) func() bool {
	c.waiting = append(c.waiting, f)
	return func() bool { return false }
}

// A connection's end is waited for once, however many instances are heard of on
// it, and however often one of them moves between two.
func TestTelemetryWatchesConnectionsOnce(t *testing.T) { synctest.Test(t, telemetryWatchesOnce) }

func telemetryWatchesOnce(t *testing.T) {
	d := clientTelemetry{machine: telemetry.New(1000), watched: map[uint64]bool{}}
	a, b := &watchedContext{Context: t.Context(), done: make(chan struct{})}, &watchedContext{Context: t.Context(), done: make(chan struct{})}
	hear := func(ctx context.Context, connection uint64, id telemetry.ID) {
		d.machine.Get(time.UnixMilli(0), telemetry.Client{Connection: connection}, id, telemetry.ID{})
		d.watch(ctx, connection)
	}
	for i := range 1000 {
		hear(a, 1, telemetry.ID{0: 1, 14: byte(i >> 8), 15: byte(i)})
		hear(b, 2, telemetry.ID{0: 1})
		hear(a, 1, telemetry.ID{0: 1})
	}
	if len(a.waiting) != 1 || len(b.waiting) != 1 {
		t.Fatalf("%d and %d wait for the end of a connection", len(a.waiting), len(b.waiting))
	}
	a.waiting[0]()
	b.waiting[0]()
	synctest.Wait()
	if n := d.machine.Instances(); n != 999 || len(d.watched) != 0 {
		t.Errorf("%d instances and %d connections are left; all but the last that was made are to stay until they expire", n, len(d.watched))
	}
}
