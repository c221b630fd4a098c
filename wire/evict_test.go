package wire

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Peers that announce large requests and do not send them hold the budget for a
// few seconds at most when somebody waits for it; peers that do send, slowly,
// keep it; and while nobody waits nobody is cut off.
func TestSlowSendersGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		logger, logs := observed()
		w := newWorld(t, ServerOptions{Budget: 4 * size, Handler: echo(), Logger: logger})
		defer w.close()
		half := frame(keyProduce, 3, 1, strings.Repeat("x", size-100))
		var hostile []*peer
		for range 3 {
			p := w.dial()
			defer p.nc.Close()
			p.send(half[:1000])
			hostile = append(hostile, p)
		}
		slow := w.dial() // 40 KiB a second
		defer slow.nc.Close()
		wrote := make(chan struct{})
		go func() {
			defer close(wrote)
			for rest := half; len(rest) > 0; time.Sleep(time.Second) {
				n := min(len(rest), 40<<10)
				slow.nc.Write(rest[:n])
				rest = rest[n:]
			}
		}()
		time.Sleep(time.Minute / 10)
		if n := w.server.Stats().BudgetInUse; n < 4*(size-100) || logs.Len() != 0 {
			t.Fatalf("%d bytes of budget are held, logged %v", n, logs.All())
		}
		begun := time.Now()
		p := w.dial()
		defer p.nc.Close()
		go p.nc.Write(frame(keyProduce, 3, 7, strings.Repeat("y", size)))
		if id, _, err := p.recv(); err != nil || id != 7 {
			t.Fatalf("answer %d, error %v", id, err)
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("served after %v", took)
		}
		for _, p := range hostile {
			p.ended()
		}
		if id, _, err := slow.recv(); err != nil || id != 1 {
			t.Errorf("the slow one: answer %d, error %v", id, err)
		}
		if logs.Len() != 1 {
			t.Errorf("logged %v", logs.All())
		}
		<-wrote
		synctest.Wait()
		if n := w.server.Stats().BudgetInUse; n != 0 {
			t.Errorf("%d bytes of budget are held at the end", n)
		}
	})
}

// One that drips a byte a second is no sender either.
func TestDrippingSenderGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ServerOptions{Budget: 1 << 20, Handler: echo()})
		defer w.close()
		p := w.dial()
		defer p.nc.Close()
		big := frame(keyProduce, 3, 1, strings.Repeat("x", 1<<20-100))
		p.send(big[:100])
		dripped := make(chan struct{})
		go func() {
			defer close(dripped)
			for i := range 1000 {
				if _, err := p.nc.Write(big[100+i : 101+i]); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		q := w.dial()
		defer q.nc.Close()
		begun := time.Now()
		go q.nc.Write(frame(keyProduce, 3, 2, strings.Repeat("y", 100<<10)))
		if id, _, err := q.recv(); err != nil || id != 2 || time.Since(begun) > 7*time.Second {
			t.Errorf("answer %d after %v, error %v", id, time.Since(begun), err)
		}
		<-dripped
	})
}

// Replies that are not read are given up, the largest first, when they fill the
// memory; who reads gets everything.
func TestUnreadRepliesAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, limit = 1 << 20, 16 << 20
		logger, logs := observed()
		w := newWorld(t, ServerOptions{Budget: limit, Logger: logger, Handler: fake{handle: func(_ context.Context, r *Request) Reply {
			return answer(strings.Repeat("r", size))
		}}})
		defer w.close()
		var most int64
		for range 100 {
			p := w.dial()
			defer p.nc.Close()
			p.other(1, "x")
			synctest.Wait()
			most = max(most, w.server.Stats().RepliesInMemory)
			time.Sleep(100 * time.Millisecond)
		}
		if most > limit+2*size || most < limit/2 {
			t.Errorf("replies filled %d bytes, the limit is %d", most, limit)
		}
		q := w.dial()
		defer q.nc.Close()
		q.other(5, "x")
		if id, body, err := q.recv(); err != nil || id != 5 || len(body) != size {
			t.Errorf("one that reads: %d, %d bytes, error %v", id, len(body), err)
		}
		if n := len(logs.FilterMessageSnippet("not read").All()); n == 0 || n > 11 {
			t.Errorf("%d lines", n)
		}
		w.server.Close()
		if n := w.server.Stats().RepliesInMemory; n != 0 {
			t.Errorf("%d bytes of replies are counted at the end", n)
		}
	})
}
