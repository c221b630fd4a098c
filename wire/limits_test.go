package wire

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestMaxConnectionsPerIP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, logs := observed()
		w := newWorld(t, ServerOptions{Handler: echo(), Logger: logger, Limits: Limits{
			MaxConnectionsPerIP: 2,
			PerIP:               map[netip.Addr]int{netip.MustParseAddr("10.9.9.1"): 3, netip.MustParseAddr("10.9.9.2"): 0},
		}})
		defer w.close()
		for from, limit := range map[string]int{"10.9.9.1": 3, "10.9.9.2": 0, "10.9.9.3": 2} {
			var open []*peer
			for range limit {
				p := w.dialTo(from, "broker:9092")
				p.other(1, "x")
				p.expect(1, "ok x")
				open = append(open, p)
			}
			w.dialTo(from, "broker:9092").ended()
			if limit > 0 {
				open[0].nc.Close()
				synctest.Wait()
				p := w.dialTo(from, "broker:9092")
				p.other(1, "x")
				p.expect(1, "ok x")
				open[0] = p
			}
			for _, p := range open {
				p.nc.Close()
			}
			synctest.Wait()
		}
		if n := w.server.Stats().RefusedPerIP; n != 3 || logs.Len() != 1 {
			t.Errorf("%d were refused and %d lines logged, want 3 and 1", n, logs.Len())
		}
	})
}

func TestMaxConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ServerOptions{Handler: echo(), Limits: Limits{MaxConnections: 2}})
		defer w.close()
		a, b := w.dial(), w.dial()
		for _, p := range []*peer{a, b} {
			p.other(1, "x")
			p.expect(1, "ok x")
		}
		c := w.dial()
		c.other(1, "x")
		c.silent(time.Minute)
		// Reserved listeners are not counted.
		d := w.dialTo("other", "broker:9093")
		d.other(1, "x")
		d.expect(1, "ok x")
		c.silent(time.Minute)
		a.nc.Close()
		c.expect(1, "ok x")
		e := w.dial()
		e.other(1, "x")
		e.silent(time.Minute)
		w.server.SetLimits(Limits{PerListener: map[string]int{"PLAINTEXT": 3}})
		e.expect(1, "ok x")
		f := w.dial()
		f.other(1, "x")
		f.silent(time.Minute)
		b.nc.Close()
		f.expect(1, "ok x")
		for _, p := range []*peer{c, d, e, f} {
			p.nc.Close()
		}
	})
}

// Of the sockets of a listener each may have taken a connection, and no more are served than
// may be; those that wait for a place go with their listener.
func TestMaxConnectionsOfSeveralSockets(t *testing.T) {
	for name, limits := range map[string]Limits{"all": {MaxConnections: 1}, "the listener's": {PerListener: map[string]int{"EXTRA": 1}}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, ServerOptions{Handler: echo(), Limits: limits})
			defer w.close()
			for _, addr := range []string{"broker:9094", "broker:9095"} {
				l, err := w.net.Listen(addr)
				if err != nil {
					t.Fatal(err)
				}
				w.served.Go(func() { w.server.Serve(context.Background(), "EXTRA", l) })
			}
			synctest.Wait()
			a := w.dialTo("one", "broker:9094")
			a.other(1, "x")
			a.expect(1, "ok x")
			b := w.dialTo("another", "broker:9095")
			b.other(1, "x")
			b.silent(time.Minute)
			if n := w.server.Stats().Connections["EXTRA"]; n != 1 {
				t.Errorf("%s: %d are served", name, n)
			}
			a.nc.Close()
			b.expect(1, "ok x")
			c := w.dialTo("one", "broker:9094")
			c.silent(time.Minute)
			w.server.End("EXTRA")
			c.ended()
			b.ended()
		})
	}
}

func TestCreationRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ServerOptions{Handler: echo(), Limits: Limits{MaxCreationRate: 2}})
		defer w.close()
		start := time.Now()
		var last *peer
		for range 25 {
			last = w.dial()
			defer last.nc.Close()
			last.other(1, "x")
		}
		last.expect(1, "ok x")
		// Twenty at once, then two a second; the token of the accept that is
		// waited for has been taken before.
		if d := time.Since(start); d < 2*time.Second || d > 3*time.Second {
			t.Errorf("25 connections at two a second took %v", d)
		}
	})
}

// A rate that admits nobody for years is not waited for once it is taken back.
func TestCreationRateChangesWhileItIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ServerOptions{Handler: echo(), Limits: Limits{MaxCreationRate: 1e-9}})
		defer w.close()
		start := time.Now()
		first := w.dial()
		defer first.nc.Close()
		first.other(1, "x")
		first.silent(time.Hour)
		w.server.SetLimits(Limits{MaxCreationRate: 5})
		first.expect(1, "ok x")
		w.server.SetLimits(Limits{MaxCreationRate: 1e-9})
		// One more may be admitted: the accept that was waiting.
		for range 2 {
			p := w.dial()
			defer p.nc.Close()
		}
		w.server.SetLimits(Limits{})
		last := w.dial()
		defer last.nc.Close()
		last.other(2, "y")
		last.expect(2, "ok y")
		if d := time.Since(start); d > time.Hour+time.Minute {
			t.Errorf("it took %v", d)
		}
	})
}
