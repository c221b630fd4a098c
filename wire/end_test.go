package wire

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// extra has the server serve one more listener, EXTRA on "broker:9094", which may be ended.
func (w *world) extra() {
	w.t.Helper()
	l, err := w.net.Listen("broker:9094")
	if err != nil {
		w.t.Fatal(err)
	}
	w.served.Go(func() {
		if err := w.server.Serve(context.Background(), "EXTRA", l); err != nil && !errors.Is(err, net.ErrClosed) {
			w.t.Errorf("Serve EXTRA: %v", err)
		}
	})
	synctest.Wait()
}

// A Produce that waits for replicas does not keep the connection of an ended listener
// for as long as its own time-out: those that are answered within a second are, the
// others end with the connection, in order and without a reset, whether the reader
// waits for them or has requests behind them.
func TestEndGivesUpPendingProduces(t *testing.T) {
	for name, behind := range map[string]func(p *peer){
		"nothing behind it": func(*peer) {},
		"one that has to wait for it": func(p *peer) {
			p.other(9, "behind")
		},
		"more than may wait": func(p *peer) {
			for i := range int32(2 * maxPending) {
				p.produce(10+i, "wait for ever")
			}
		},
		"an answer that is ready": func(p *peer) {
			p.produce(10, "ready")
			p.produce(11, "wait for ever")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript()
				w := newWorld(t, ServerOptions{Handler: s})
				defer w.close()
				w.extra()
				other := w.dialTo("client", "broker:9093")
				defer other.nc.Close()
				other.produce(1, "wait elsewhere")
				p := w.dialTo("client", "broker:9094")
				p.produce(1, "wait a moment")
				p.produce(2, "wait for ever")
				behind(p)
				synctest.Wait()
				begun := time.Now()
				w.server.End("EXTRA")
				time.Sleep(drainTaking / 2)
				s.later("wait a moment").become(answer("late"))
				p.expect(1, "late")
				p.ended()
				if d := time.Since(begun); d < drainTaking || d > 2*drainTaking {
					t.Errorf("it ended after %v", d)
				}
				synctest.Wait()
				st := w.server.Stats()
				if n, there := st.Connections["EXTRA"]; there {
					t.Errorf("%d connections are left", n)
				}
				if st.RepliesInMemory != 0 {
					t.Errorf("%d bytes of replies are held", st.RepliesInMemory)
				}
				time.Sleep(time.Hour)
				s.later("wait elsewhere").become(answer("another listener's"))
				other.expect(1, "another listener's")
				s.later("wait for ever").become(answer("too late"))
			})
		})
	}
}

// What is being written when a Produce behind it is given up is written to its end,
// however long that takes.
func TestEndWritesWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		w := newWorld(t, ServerOptions{Handler: s})
		defer w.close()
		w.extra()
		p := w.dialTo("client", "broker:9094")
		p.produce(1, "wait a moment")
		p.produce(2, "wait for ever")
		synctest.Wait()
		w.server.End("EXTRA")
		big := strings.Repeat("x", 4<<20)
		s.later("wait a moment").become(answer(big))
		time.Sleep(5 * drainTaking)
		if n := w.server.Stats().Connections["EXTRA"]; n != 1 {
			t.Errorf("%d connections while a reply is written", n)
		}
		p.expect(1, big)
		p.ended()
		s.later("wait for ever").become(answer("too late"))
	})
}

// A server that drains waits for the Produces of a listener that was just ended for
// as long as for any other.
func TestDrainAfterEnd(t *testing.T) {
	for name, pause := range map[string]time.Duration{"at once": 0, "soon": drainTaking / 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript()
				w := newWorld(t, ServerOptions{Handler: s})
				defer w.close()
				w.extra()
				p := w.dialTo("client", "broker:9094")
				p.produce(1, "wait")
				synctest.Wait()
				w.server.End("EXTRA")
				time.Sleep(pause)
				drained := make(chan error, 1)
				go func() { drained <- w.server.Drain(context.Background()) }()
				time.Sleep(3 * drainTaking)
				s.later("wait").become(answer("at last"))
				p.expect(1, "at last")
				p.ended()
				if err := <-drained; err != nil {
					t.Errorf("Drain: %v", err)
				}
			})
		})
	}
}
