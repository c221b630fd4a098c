package partition

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"millrace/broker/replica"
	"millrace/storage/batch"
	"millrace/storage/disktest"
	"millrace/storage/log"
)

func fetch(id int32, from, leaderEnd batch.Offset) replica.Fetch {
	return replica.Fetch{ID: id, BrokerEpoch: -1, Offset: from, LeaderEnd: leaderEnd}
}

// replicated is a leader of three replicas, two of which have to be in sync.
func replicated(t *testing.T) *Partition {
	t.Helper()
	c := defaults()
	c.MinInsyncReplicas = 2
	p := newPartition(t, Options{Config: c})
	if err := p.BecomeLeader(assign(self, 5, 1, []int32{1, 2, 3}, 1, 2, 3)); err != nil {
		t.Fatal(err)
	}
	return p
}

func decided(a *Acks) bool {
	select {
	case <-a.Done():
		return true
	default:
		return false
	}
}

func TestAwaitTheHighWatermark(t *testing.T) {
	p := replicated(t)
	one, two := appendTo(t, p, 3, -1), appendTo(t, p, 2, -1)
	a := NewAcks(3)
	for i, ap := range []Appended{two, one} { // not in order: a duplicate waits for the original's offset
		if done, err := p.Await(a, i, ap, -1); done || err != nil {
			t.Fatalf("append %d: %v, %v", i, done, err)
		}
	}
	if done, err := p.Await(a, 2, two, 1); !done || err != nil {
		t.Fatalf("acks=1 waits: %v, %v", done, err)
	}
	a.Seal()
	for i, f := range []replica.Fetch{fetch(2, 5, 5), fetch(3, 3, 5), fetch(3, 4, 5)} {
		if err := p.FollowerFetched(5, f); err != nil {
			t.Fatal(err)
		}
		if decided(a) {
			t.Fatalf("decided after fetch %d", i)
		}
	}
	if err := p.FollowerFetched(5, fetch(3, 5, 5)); err != nil {
		t.Fatal(err)
	}
	if !decided(a) || a.Err(0) != nil || a.Err(1) != nil || a.Err(2) != nil {
		t.Fatalf("%v %v %v", a.Err(0), a.Err(1), a.Err(2))
	}
	if done, err := p.Await(NewAcks(1), 0, one, -1); !done || err != nil {
		t.Errorf("a duplicate of what is committed waits: %v, %v", done, err)
	}
}

func TestSealedWithoutWaits(t *testing.T) {
	a := NewAcks(2)
	if decided(a) {
		t.Fatal("decided before Seal")
	}
	a.Seal()
	if !decided(a) {
		t.Fatal("nothing to wait for, and it waits")
	}
	a.Cancel()
}

func TestCancel(t *testing.T) {
	p := replicated(t)
	ap := appendTo(t, p, 1, -1)
	a := NewAcks(2)
	p.Await(a, 0, ap, -1)
	a.Seal()
	a.Cancel()
	a.Cancel()
	if !decided(a) || !errors.Is(a.Err(0), ErrTimedOut) || a.Err(1) != nil {
		t.Errorf("%v, %v", a.Err(0), a.Err(1))
	}
	if p.committed.any() {
		t.Error("the partition still knows the wait")
	}
	if err := p.FollowerFetched(5, fetch(2, 1, 1)); err != nil {
		t.Fatal(err)
	}
	if err := p.FollowerFetched(5, fetch(3, 1, 1)); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(a.Err(0), ErrTimedOut) {
		t.Error("decided twice")
	}
}

func TestEndOfLeadershipEndsWaits(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(p *Partition)
		want error
	}{
		"another leader": {func(p *Partition) { p.BecomeFollower(assign(2, 6, 2, []int32{2, 3}, 1, 2, 3)) }, ErrNotLeader},
		"no leader":      {func(p *Partition) { p.BecomeFollower(assign(-1, 6, 2, []int32{1}, 1, 2, 3)) }, ErrNotLeader},
		"deleted":        {func(p *Partition) { p.Close() }, ErrGone},
	} {
		p := replicated(t)
		ap := appendTo(t, p, 1, -1)
		a := NewAcks(1)
		p.Await(a, 0, ap, -1)
		a.Seal()
		w := NewWaiter()
		p.Watch(&Watching{}, w, OnLogEnd)
		c.end(p)
		if !decided(a) || !errors.Is(a.Err(0), c.want) {
			t.Errorf("%s: %v", name, a.Err(0))
		}
		select {
		case <-w.C():
		default:
			t.Errorf("%s: the waiter sleeps on", name)
		}
		if done, err := p.Await(NewAcks(1), 0, ap, -1); !done || !errors.Is(err, c.want) {
			t.Errorf("%s: await afterwards: %v, %v", name, done, err)
		}
		b, h := records(1)
		if _, err := p.Append(b, h, AppendOptions{LeaderEpoch: AnyEpoch}); !errors.Is(err, c.want) {
			t.Errorf("%s: append afterwards: %v", name, err)
		}
	}
}

func TestMinInsyncReplicas(t *testing.T) {
	p := replicated(t)
	ap := appendTo(t, p, 1, -1)
	a := NewAcks(1)
	p.Await(a, 0, ap, -1)
	a.Seal()
	p.ISRCommitted(5, 2, []int32{1})
	if err := p.Ready(AnyEpoch, -1); !errors.Is(err, ErrNotEnoughReplicas) {
		t.Errorf("ready for acks=all with one in sync: %v", err)
	}
	if err := p.Ready(AnyEpoch, 1); err != nil {
		t.Errorf("acks=1 needs no ISR: %v", err)
	}
	b, h := records(1)
	if _, err := p.Append(b, h, AppendOptions{LeaderEpoch: AnyEpoch, Acks: -1}); !errors.Is(err, ErrNotEnoughReplicas) {
		t.Errorf("acks=all with one in sync: %v", err)
	}
	appendTo(t, p, 1, 1)
	if hw := p.State().HighWatermark; hw != 0 || decided(a) {
		t.Errorf("the high watermark is %d with one of two in sync", hw)
	}
	// One that has all there is may join: its fetch makes the proposal, the controller's answer lets the rest go on.
	if err := p.FollowerFetched(5, fetch(2, 2, 2)); err != nil {
		t.Fatal(err)
	}
	prop, ok := p.Proposal()
	if !ok || len(prop.ISR) != 2 || prop.PartitionEpoch != 2 {
		t.Fatalf("%+v, %v", prop, ok)
	}
	p.ISRCommitted(5, 3, []int32{1, 2})
	if hw := p.State().HighWatermark; hw != 2 || !decided(a) || a.Err(0) != nil {
		t.Errorf("high watermark %d, %v", hw, a.Err(0))
	}
	c := defaults()
	c.MinInsyncReplicas = 3
	p.SetConfig(c)
	if done, err := p.Await(NewAcks(1), 0, ap, -1); !done || !errors.Is(err, ErrNotEnoughReplicasAfterAppend) {
		t.Errorf("committed, but too few in sync now: %v, %v", done, err)
	}
	c.MinInsyncReplicas = 9 // counts as the number of replicas
	p.SetConfig(c)
	p.ISRCommitted(5, 4, []int32{1, 2, 3})
	if err := p.Ready(AnyEpoch, -1); err != nil {
		t.Error(err)
	}
}

func TestProposalIsTold(t *testing.T) {
	told := make(chan *Partition, 8)
	ck := &clock{t: time.Unix(1e9, 0)}
	c := defaults()
	c.MinInsyncReplicas = 2
	p := newPartition(t, Options{Config: c, Now: ck.now, Changed: func(p *Partition) {
		p.State() // it may look at the partition
		told <- p
	}})
	if err := p.BecomeLeader(assign(self, 5, 1, []int32{1, 2}, 1, 2)); err != nil {
		t.Fatal(err)
	}
	appendTo(t, p, 1, -1)
	if d := p.Expire(); !d.After(ck.t) {
		t.Errorf("look again at %v, now %v", d, ck.t)
	}
	ck.pass(31 * time.Second)
	p.Expire()
	if len(told) != 1 {
		t.Fatalf("told %d times", len(told))
	}
	prop, ok := p.Proposal()
	if !ok || len(prop.ISR) != 1 || prop.ISR[0].ID != 1 || prop.ISR[0].Epoch != 101 {
		t.Fatalf("%+v %v", prop, ok)
	}
	p.ProposalRefused(prop.PartitionEpoch)
	p.Expire()
	if len(told) != 1 {
		t.Error("told again at once")
	}
	ck.pass(2 * time.Second)
	p.Expire()
	if len(told) != 2 {
		t.Error("a refused proposal is never made again")
	}
}

func TestWaiters(t *testing.T) {
	p := replicated(t)
	consumer, follower, both, gone := NewWaiter(), NewWaiter(), NewWaiter(), NewWaiter()
	var at Watching
	p.Watch(&at, gone, OnLogEnd)
	p.Watch(&Watching{}, consumer, OnHighWatermark)
	p.Watch(&Watching{}, follower, OnLogEnd)
	p.Watch(&Watching{}, both, OnLogEnd|OnHighWatermark)
	p.Unwatch(&at)
	p.Unwatch(&at)
	woken := func(w *Waiter) bool {
		select {
		case <-w.C():
			return true
		default:
			return false
		}
	}
	appendTo(t, p, 1, 1)
	appendTo(t, p, 1, 1)
	if woken(consumer) || !woken(follower) || !woken(both) || woken(gone) {
		t.Error("an append wakes those who wait for the log end, and nobody else")
	}
	if woken(follower) {
		t.Error("two happenings came as two")
	}
	p.FollowerFetched(5, fetch(2, 2, 2))
	p.FollowerFetched(5, fetch(3, 2, 2))
	if !woken(consumer) || woken(follower) || !woken(both) {
		t.Error("the high watermark wakes those who wait for it, and nobody else")
	}
	p.Close()
	p.Watch(&at, gone, OnLogEnd)
	if !woken(gone) {
		t.Error("who comes too late sleeps for ever")
	}
	p.Unwatch(&at)
}

// TestWatchersGoAtOnce: what it takes to take one off is the same however many wait, in whatever order they go; and those
// that stay are woken, and nobody else.
func TestWatchersGoAtOnce(t *testing.T) {
	const many = 10_000
	rng := rand.New(rand.NewPCG(1, 2))
	for name, order := range map[string]func() []int{
		"first come, first go": func() []int {
			list := make([]int, many)
			for i := range list {
				list[i] = i
			}
			return list
		},
		"last come, first go": func() []int {
			list := make([]int, many)
			for i := range list {
				list[i] = many - 1 - i
			}
			return list
		},
		"in any order": func() []int { return rng.Perm(many) },
	} {
		p := replicated(t)
		places, woken, gone := make([]Watching, many), make([]int, many), make([]bool, many)
		for i := range places {
			p.Watch(&places[i], NewCaller(func() { woken[i]++ }), OnLogEnd)
		}
		for n, i := range order() {
			before := p.watchers.touched
			p.Unwatch(&places[i])
			if did := p.watchers.touched - before; did > 2 {
				t.Fatalf("%s: %d were touched to take number %d of %d off", name, did, i, many-n)
			}
			if gone[i] = true; n%(many/4) != many/8 {
				continue
			}
			clear(woken)
			p.wake(OnLogEnd)
			for j := range woken {
				if want := !gone[j]; (woken[j] == 1) != want || woken[j] > 1 {
					t.Fatalf("%s: number %d, which is gone: %v, was woken %d times", name, j, gone[j], woken[j])
				}
			}
		}
		if n := len(p.watchers.list); n != 0 {
			t.Errorf("%s: %d are left", name, n)
		}
		for _, x := range p.watchers.list[:cap(p.watchers.list)] {
			if x.w != nil || x.place != nil {
				t.Fatalf("%s: one that is taken off is held", name)
			}
		}
	}
}

func TestFailedFlushFailsWaits(t *testing.T) {
	fs := disktest.New()
	p := flushing(t, fs)
	broken := errors.New("broken")
	fs.Refuse(func(op, name string) error {
		if op == "sync" {
			return broken
		}
		return nil
	})
	ap := appendTo(t, p, 1, 1)
	a := NewAcks(1)
	_, err := p.Await(a, 0, ap, 1)
	a.Seal()
	<-a.Done()
	var off *log.OfflineError
	if err == nil {
		err = a.Err(0)
	}
	if !errors.As(err, &off) || !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	b, h := records(1)
	if _, err := p.Append(b, h, AppendOptions{LeaderEpoch: AnyEpoch}); !errors.As(err, &off) {
		t.Errorf("append to a disk that was given up: %v", err)
	}
}

// TestFlushWithoutDescriptors: a flush that lacks a descriptor is made when there is one, and who waits for it hears of that.
func TestFlushWithoutDescriptors(t *testing.T) {
	fs := disktest.New()
	p := flushing(t, fs)
	refused := 0
	fs.Refuse(func(op, name string) error {
		if op == "syncdir" && refused < 8 {
			refused++
			return syscall.EMFILE
		}
		return nil
	})
	ap := appendTo(t, p, 1, 1)
	a := NewAcks(1)
	early := false
	w := NewCaller(func() {
		select {
		case <-a.Done():
			early = true
		default:
		}
	})
	var at Watching
	p.Watch(&at, w, OnHighWatermark)
	_, err := p.Await(a, 0, ap, 1)
	a.Seal()
	<-a.Done()
	if err == nil {
		err = a.Err(0)
	}
	p.Unwatch(&at)
	if early {
		t.Error("the producer was told before a consumer could see its record")
	}
	if err != nil || refused < 8 {
		t.Errorf("after %d refusals: %v", refused, err)
	}
	if v := p.Log().View(); p.Log().FlushedOffset() != v.LogEnd() || v.HighWatermark() != v.LogEnd() {
		t.Errorf("flushed to %d, visible to %d of %d", p.Log().FlushedOffset(), v.HighWatermark(), v.LogEnd())
	}
}

// TestEverybodyAtOnce is for the race detector: appends, reads, waits, followers, ISR changes and configs together.
func TestEverybodyAtOnce(t *testing.T) {
	p := replicated(t)
	stop := make(chan struct{})
	var wg, writers sync.WaitGroup
	for range 3 {
		writers.Go(func() {
			for range 200 {
				b, h := records(2)
				ap, err := p.Append(b, h, AppendOptions{LeaderEpoch: AnyEpoch, Acks: -1})
				if errors.Is(err, ErrNotEnoughReplicas) {
					time.Sleep(time.Millisecond)
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				a := NewAcks(1)
				p.Await(a, 0, ap, -1)
				a.Seal()
				select {
				case <-a.Done():
				case <-time.After(10 * time.Second):
					a.Cancel()
				}
				if err := a.Err(0); err != nil && !errors.Is(err, ErrNotEnoughReplicasAfterAppend) {
					t.Error(err)
				}
			}
		})
	}
	for _, id := range []int32{2, 3} {
		wg.Go(func() {
			from := batch.Offset(0)
			w := NewWaiter()
			var at Watching
			p.Watch(&at, w, OnLogEnd)
			defer p.Unwatch(&at)
			for {
				q := ReadRequest{Offset: from, MaxBytes: 1000, MinOne: true, Replica: id, CurrentLeaderEpoch: 5, LastFetchedEpoch: AnyEpoch}
				r, err := p.Read(q)
				if err != nil {
					t.Error(err)
					return
				}
				if err := p.FollowerFetched(5, fetch(id, from, r.LogEnd)); err != nil {
					t.Error(err)
					return
				}
				if r.Records.Len() > 0 {
					b := make([]byte, r.Records.Len())
					r.Records.ReadAt(b, 0)
					for len(b) >= batch.HeaderSize {
						h, err := batch.ParseHeader(b)
						if err != nil || h.Size() > len(b) {
							break
						}
						from, b = h.NextOffset(), b[h.Size():]
					}
					r.Records.Release()
					continue
				}
				select {
				case <-w.C():
				case <-stop:
					return
				}
			}
		})
	}
	wg.Go(func() {
		last := batch.Offset(0)
		for {
			select {
			case <-stop:
				return
			default:
			}
			r, err := p.Read(ReadRequest{Offset: last, MaxBytes: 500, Replica: -1, CurrentLeaderEpoch: AnyEpoch, LastFetchedEpoch: AnyEpoch})
			if err != nil {
				t.Error(err)
				return
			}
			if r.HighWatermark < last {
				t.Errorf("the high watermark went from %d to %d", last, r.HighWatermark)
			}
			last = r.HighWatermark
			r.Records.Release()
			p.State()
			time.Sleep(100 * time.Microsecond)
		}
	})
	wg.Go(func() {
		isrs := [][]int32{{1, 2, 3}, {1, 2}, {1, 2, 3}, {1, 3}, {1}}
		pepoch := int32(2)
		for i := 0; ; i++ {
			select {
			case <-stop:
				p.ISRCommitted(5, pepoch, []int32{1, 2, 3})
				return
			case <-time.After(time.Millisecond):
			}
			p.ISRCommitted(5, pepoch, isrs[i%len(isrs)])
			pepoch++
			c := defaults()
			c.MinInsyncReplicas = 2
			p.SetConfig(c)
			p.Expire()
			p.ExpireProducers(1000)
			if _, err := p.Retain(); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Wait()
	close(stop)
	wg.Wait()
}

// TestWaitsModel adds, decides and takes off waits beside a plain list.
func TestWaitsModel(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var w waits
		var model []wait
		end, most := batch.Offset(0), 0
		for step := range 2000 {
			switch n := rng.IntN(10); {
			case n < 5: // an append, or a duplicate of an earlier one
				x := wait{last: end, acks: NewAcks(1)}
				if rng.IntN(4) == 0 {
					x.last = max(0, end-batch.Offset(rng.IntN(5)))
				} else {
					end++
				}
				w.add(x)
				at := 0
				for at < len(model) && model[at].last <= x.last {
					at++
				}
				model = slices.Insert(model, at, x)
			case n < 6 && len(model) > 0:
				reached := model[0].last + batch.Offset(rng.IntN(3))
				w.reach(reached)
				model = slices.DeleteFunc(model, func(x wait) bool { return x.last < reached })
			case n < 9 && len(model) > 0:
				x := model[min(len(model)-1, rng.IntN(1+rng.IntN(len(model))))]
				w.forget(x.acks, x.last)
				model = slices.DeleteFunc(model, func(y wait) bool { return y.acks == x.acks })
			case rng.IntN(100) == 0:
				w.fail(ErrGone)
				model = nil
			}
			most = max(most, len(model))
			if w.any() != (len(model) > 0) || w.len() != len(model) || !slices.Equal(w.list[w.off:], model) {
				t.Fatalf("seed %d, step %d: %d waits, want %d", seed, step, w.len(), len(model))
			}
			for i, x := range w.list[:cap(w.list)] {
				if (i < w.off || i >= len(w.list)) && x.acks != nil {
					t.Fatalf("seed %d, step %d: one that is taken off is held", seed, step)
				}
			}
		}
		if most < 20 {
			t.Errorf("seed %d: at most %d waits", seed, most)
		}
	}
}

// TestReadyWhileLeadershipsBeginAndEnd: of a leadership that has enough replicas in sync nobody hears that there are too
// few, neither as it begins nor as it ends.
func TestReadyWhileLeadershipsBeginAndEnd(t *testing.T) {
	p := newPartition(t, Options{Config: defaults()})
	var stop atomic.Bool
	var asked sync.WaitGroup
	for range 2 {
		asked.Go(func() {
			for !stop.Load() {
				if err := p.Ready(AnyEpoch, -1); err != nil && !errors.Is(err, ErrNotLeader) {
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	for epoch := int32(1); epoch < 1000; epoch += 2 {
		if err := p.BecomeLeader(assign(self, batch.LeaderEpoch(epoch), epoch, []int32{1}, 1)); err != nil {
			t.Fatal(err)
		}
		if err := p.BecomeFollower(assign(2, batch.LeaderEpoch(epoch+1), epoch+1, []int32{2}, 1, 2)); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	asked.Wait()
}
