package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/broker/machine"
	"millrace/controller/image"
	"millrace/wire/records"

	"github.com/twmb/franz-go/pkg/kerr"
)

// desk is a shard with a ledger on a log in memory.
type desk struct {
	t       *testing.T
	log     *memLog
	s       *Shard
	o       Options
	rings   atomic.Int32
	images  []machine.ImageChanged
	refused int
	lives   atomic.Int32
}

func newDesk(t *testing.T, l *memLog) *desk {
	d := &desk{t: t, log: l}
	d.o = Options{Log: l, Machine: func() machine.Machine {
		d.lives.Add(1)
		return &ledger{
			hard: map[string]string{}, open: map[int64]map[string]string{}, parked: map[string][]machine.Ticket{},
			asks: map[machine.SendID]machine.Ticket{}, rings: &d.rings, images: &d.images, refused: &d.refused,
		}
	}}
	return d
}

func (d *desk) open() *desk {
	d.s = NewShard(d.o)
	synctest.Wait()
	return d
}

// reopen is another leadership on the same log.
func (d *desk) reopen() {
	d.s.Stop()
	d.open()
}

func (d *desk) do(body any) (any, error) {
	return d.s.Do(context.Background(), machine.Request{Body: body})
}

func (d *desk) must(body any) any {
	d.t.Helper()
	got, err := d.do(body)
	if err != nil {
		d.t.Fatalf("%T: %v", body, err)
	}
	return got
}

func (d *desk) want(body, want any) {
	d.t.Helper()
	if got := d.must(body); got != want {
		d.t.Fatalf("%+v is answered %v, want %v", body, got, want)
	}
}

func (d *desk) wantErr(body any, want error) {
	d.t.Helper()
	got, err := d.do(body)
	if !errors.Is(err, want) {
		d.t.Fatalf("%+v is answered %v, %v, want error %v", body, got, err, want)
	}
}

// later runs a request and tells where it stands.
type later struct {
	body any
	err  error
	done bool
	at   time.Duration
}

func (d *desk) later(body any) *later {
	l := d.later0(body)
	synctest.Wait()
	return l
}

// later0 does not wait until the request has come to rest.
func (d *desk) later0(body any) *later {
	l := &later{}
	begin := time.Now()
	go func() {
		l.body, l.err = d.do(body)
		l.at = time.Since(begin)
		l.done = true
	}()
	return l
}

// pass lets time pass, and all that it sets going come to rest.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// inBubble runs a test in virtual time; the bubble itself fails on a goroutine
// that is left.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestPutAndGet(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDesk(t, &memLog{}).open()
		d.want(put{key: "a", value: "1"}, "ok")
		d.want(get{"a"}, "1")
		d.want(put{key: "a,b", value: "2"}, "ok")
		d.want(put{key: "a", value: ""}, "ok")
		d.reopen()
		d.want(get{"a"}, "")
		d.want(get{"b"}, "2")
		d.s.Stop()
		d.wantErr(get{"b"}, ErrNotCoordinator)
	})
}

func TestAnswersWaitForTheHighWatermark(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDesk(t, &memLog{}).open()
		defer func() { d.s.Stop() }()
		d.want(put{key: "old", value: "0"}, "ok")
		d.log.held = true
		first, second := d.later(put{key: "a", value: "1"}), d.later(put{key: "b", value: "2"})
		all := d.later(flush{})
		if first.done || second.done || all.done {
			t.Fatal("a write is answered before it is committed")
		}
		// A read of another key does not wait, nor does one that asks for none.
		d.want(get{"old"}, "0")
		d.want(peek{"a"}, "1")
		read := d.later(get{"a"})
		if read.done {
			t.Fatal("a read shows what is not committed")
		}
		d.log.commit(2)
		synctest.Wait()
		if !first.done || !read.done || read.body != "1" || second.done || all.done {
			t.Fatalf("after the first is committed: %+v %+v %+v %+v", first, read, second, all)
		}
		d.want(get{"a"}, "1")
		d.log.commit(-1)
		synctest.Wait()
		if !second.done || second.err != nil || !all.done {
			t.Fatalf("after all is committed: %+v %+v", second, all)
		}
	})
}

func TestPatienceEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDesk(t, &memLog{held: true}).open()
		defer func() { d.s.Stop() }()
		write := d.later(put{key: "a", value: "1"})
		pass(2 * time.Second)
		read := d.later(get{"a"})
		pass(10 * time.Second)
		if !errors.Is(write.err, ErrUnavailable) || write.at != 5*time.Second {
			t.Fatalf("the write: %+v", write)
		}
		if !errors.Is(read.err, ErrLoading) || read.at != time.Second {
			t.Fatalf("the read: %+v", read)
		}
		// What was answered late is not answered again.
		d.log.commit(-1)
		d.want(get{"a"}, "1")
		if n := len(d.s.run.waits.byEnd); n != 0 {
			t.Fatalf("%d waiters are left", n)
		}
	})
}

func TestManyImpatientReaders(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDesk(t, &memLog{held: true}).open()
		defer func() { d.s.Stop() }()
		d.later(put{key: "a", value: "1"})
		for range 10 {
			for range 100 {
				go d.do(get{"a"})
			}
			pass(2 * time.Second)
		}
		if n := len(d.s.run.waits.byEnd); n > 200 {
			t.Fatalf("%d waiters are kept though all were answered", n)
		}
	})
}

func TestRefusedAppend(t *testing.T) {
	codes := map[int16]int16{3: 15, 19: 15, 7: 15, 6: 16, 56: 16, 10: -1, 18: -1, 4: -1, 13: 14, 47: 47}
	for code, want := range codes {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				d := newDesk(t, &memLog{}).open()
				defer func() { d.s.Stop() }()
				d.want(put{key: "a", value: "1"}, "ok")
				waiting := d.later(next{"a"})
				d.log.fail = func([]byte) (error, bool) { return &Refused{Code: code, Err: errors.New("no")}, false }
				_, err := d.do(put{key: "a", value: "2", also: []string{"x"}})
				var ce *Error
				if !errors.As(err, &ce) || ce.Code != want || !errors.Is(err, kerr.ErrorForCode(want)) {
					t.Fatalf("error %v, want code %d", err, want)
				}
				synctest.Wait()
				if waiting.done || d.refused != 1 || d.lives.Load() != 1 {
					t.Fatalf("waiting %+v, refusals %d, lives %d", waiting, d.refused, d.lives.Load())
				}
				d.log.fail = nil
				d.want(get{"a"}, "1")
				d.want(put{key: "a", value: "3"}, "ok")
				synctest.Wait()
				if !waiting.done || waiting.body != "3" {
					t.Fatalf("whoever was parked: %+v", waiting)
				}
			})
		})
	}
}

func TestUnknownOutcome(t *testing.T) {
	for _, stored := range []bool{false, true} {
		t.Run(fmt.Sprintf("stored %v", stored), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				d := newDesk(t, &memLog{}).open()
				defer func() { d.s.Stop() }()
				d.want(put{key: "a", value: "1"}, "ok")
				waiting := d.later(next{"a"})
				d.log.held = true
				uncommitted := d.later(put{key: "b", value: "1"})
				d.log.fail = func([]byte) (error, bool) { return errors.New("the disk went away"), stored }
				d.wantErr(put{key: "a", value: "2"}, ErrNotCoordinator)
				d.log.fail = nil
				d.log.commit(-1)
				synctest.Wait()
				if !errors.Is(waiting.err, ErrNotCoordinator) || !errors.Is(uncommitted.err, ErrNotCoordinator) {
					t.Fatalf("parked %+v, uncommitted %+v", waiting, uncommitted)
				}
				want := "1"
				if stored {
					want = "2"
				}
				d.want(get{"a"}, want)
				d.want(get{"b"}, "1")
				if n := d.lives.Load(); n != 2 {
					t.Fatalf("%d lives", n)
				}
			})
		})
	}
}

func TestSends(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var sent []string
		d := newDesk(t, &memLog{})
		d.o.Send = func(ctx context.Context, s machine.Send) (any, error) {
			mu.Lock()
			sent = append(sent, fmt.Sprint(s.To, s.Body))
			mu.Unlock()
			if s.To == "nobody" {
				return nil, errors.New("nobody there")
			}
			if s.To == "slow" {
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return fmt.Sprint(s.To, " says hi"), nil
		}
		d.open()
		d.want(ask{"bob"}, "bob says hi")
		d.want(ask{"nobody"}, "nobody there")
		d.log.held = true
		w := d.later(put{key: "a", value: "1", also: []string{"carol", "dave"}})
		if len(sent) != 2 {
			t.Fatalf("sent before it is committed: %v", sent)
		}
		d.log.commit(-1)
		synctest.Wait()
		slices.Sort(sent)
		if !w.done || !slices.Equal(sent, []string{"bobhello", "carol1", "dave1", "nobodyhello"}) {
			t.Fatalf("sent %v", sent)
		}
		// The answer to what an earlier life asked finds nobody; the ticket was
		// answered when that life ended.
		d.log.held = false
		old := d.later(ask{"slow"})
		d.log.fail = func([]byte) (error, bool) { return errors.New("unknown"), false }
		d.wantErr(put{key: "a", value: "2"}, ErrNotCoordinator)
		d.log.fail = nil
		synctest.Wait()
		if !errors.Is(old.err, ErrNotCoordinator) {
			t.Fatalf("the old life's asker: %+v", old)
		}
		young := d.later(ask{"bob"})
		pass(2 * time.Minute)
		if young.body != "bob says hi" {
			t.Fatalf("the new life's asker: %+v", young)
		}
		// A stop ends a send that is under way.
		d.later(ask{"slow"})
		begin := time.Now()
		d.s.Stop()
		if time.Since(begin) > time.Second {
			t.Fatal("the stop waits for a send")
		}
	})
}

func TestMarkers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDesk(t, &memLog{}).open()
		p := &machine.Producer{ID: 9, Epoch: 3}
		mark := func(commit bool) error {
			return d.s.Mark(context.Background(), machine.Marker{Producer: *p, CoordinatorEpoch: 5, Commit: commit})
		}
		d.want(put{key: "a", value: "1"}, "ok")
		d.want(put{key: "a", value: "2", producer: p}, "ok")
		d.want(get{"a"}, "1")
		d.reopen()
		d.want(get{"a"}, "1")
		d.log.held = true
		var err error
		done := false
		go func() { err, done = mark(true), true }()
		synctest.Wait()
		read := d.later(get{"a"})
		if done || read.done {
			t.Fatal("a marker counts before it is committed")
		}
		d.log.commit(-1)
		synctest.Wait()
		if !done || err != nil || read.body != "2" {
			t.Fatalf("marker %v, read %+v", err, read)
		}
		d.log.held = false
		d.want(put{key: "a", value: "3", producer: p}, "ok")
		if err := mark(false); err != nil {
			t.Fatal(err)
		}
		d.want(get{"a"}, "2")
		d.reopen()
		d.want(get{"a"}, "2")
		d.log.fail = func([]byte) (error, bool) { return &Refused{Code: 47, Err: errors.New("fenced")}, false }
		if err := mark(true); !errors.Is(err, kerr.InvalidProducerEpoch) {
			t.Fatalf("a fenced marker: %v", err)
		}
		d.log.fail = func([]byte) (error, bool) { return errors.New("who knows"), true }
		if err := mark(true); !errors.Is(err, ErrNotCoordinator) {
			t.Fatalf("a marker with an unknown outcome: %v", err)
		}
		d.log.fail = nil
		synctest.Wait()
		d.want(get{"a"}, "2")
		d.s.Stop()
	})
}

func TestDeadlines(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDesk(t, &memLog{}).open()
		defer func() { d.s.Stop() }()
		d.want(alarm{3 * time.Second}, "set")
		pass(2999 * time.Millisecond)
		synctest.Wait()
		if d.rings.Load() != 0 {
			t.Fatal("it rang early")
		}
		pass(time.Millisecond)
		synctest.Wait()
		if d.rings.Load() != 1 {
			t.Fatalf("%d rings", d.rings.Load())
		}
		d.want(alarm{time.Second}, "set")
		d.want(alarm{time.Hour + time.Minute}, "set")
		pass(time.Hour)
		if d.rings.Load() != 1 {
			t.Fatal("a deadline that was moved rang")
		}
		pass(2 * time.Minute)
		if d.rings.Load() != 2 {
			t.Fatalf("%d rings", d.rings.Load())
		}
	})
}

func TestImages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDesk(t, &memLog{})
		d.o.Image = image.New()
		d.open()
		defer func() { d.s.Stop() }()
		if len(d.images) != 1 || d.images[0].Image != d.o.Image || d.images[0].Delta != nil {
			t.Fatalf("after the load: %+v", d.images)
		}
		next := func(was *image.Image, name string) (*image.Image, *image.Delta) {
			return was.Apply(was.Offset()+1, []records.Metadata{&records.TopicRecord{Name: name, TopicId: [16]byte{byte(name[0])}}})
		}
		a, da := next(d.o.Image, "a")
		d.s.ImageChanged(a, da)
		synctest.Wait()
		if len(d.images) != 2 || d.images[1].Image != a || !slices.Equal(d.images[1].Delta.Topics, []string{"a"}) {
			t.Fatalf("after a change: %+v", d.images)
		}
		// Two that come while the machine is busy are one.
		d.log.block = make(chan struct{})
		d.log.fail = func([]byte) (error, bool) {
			b, db := next(a, "b")
			c, dc := next(b, "c")
			d.s.ImageChanged(b, db)
			d.s.ImageChanged(c, dc)
			return nil, true
		}
		d.want(put{key: "x", value: "1"}, "ok")
		synctest.Wait()
		if len(d.images) != 3 || !slices.Equal(d.images[2].Delta.Topics, []string{"b", "c"}) {
			t.Fatalf("after two changes: %+v", d.images)
		}
		// A new life is told all.
		close(d.log.block)
		d.log.fail = func([]byte) (error, bool) { return errors.New("unknown"), false }
		d.wantErr(put{key: "x", value: "2"}, ErrNotCoordinator)
		d.log.fail = nil
		synctest.Wait()
		if len(d.images) != 4 || d.images[3].Image != d.images[2].Image || d.images[3].Delta != nil {
			t.Fatalf("after the reload: %+v", d.images)
		}
	})
}

func TestStopAnswersEverybody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDesk(t, &memLog{held: true}).open()
		all := []*later{d.later(put{key: "a", value: "1"}), d.later(get{"a"}), d.later(next{"a"}), d.later(next{"b"})}
		d.s.Stop()
		synctest.Wait()
		for i, l := range all {
			if !errors.Is(l.err, ErrNotCoordinator) {
				t.Errorf("%d: %+v", i, l)
			}
		}
		d.s.Stop() // twice is fine
	})
}

func TestGivingUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDesk(t, &memLog{}).open()
		defer func() { d.s.Stop() }()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := d.s.Do(ctx, machine.Request{Body: next{"a"}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		// The machine still answers the ticket; nobody is bothered.
		d.want(put{key: "a", value: "1"}, "ok")
		d.want(get{"a"}, "1")
	})
}

// TestSlippingIn: a request that came just before the machine was thrown away
// does not wait for the load.
func TestSlippingIn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDesk(t, &memLog{}).open()
		d.want(put{key: "a", value: "1"}, "ok")
		var slipped *later
		d.log.fail = func([]byte) (error, bool) {
			slipped = d.later0(get{"a"})
			time.Sleep(time.Millisecond) // it is at the door now
			d.log.read = []error{errors.New("cold"), errors.New("cold"), errors.New("cold")}
			return errors.New("unknown"), false
		}
		d.wantErr(put{key: "a", value: "2"}, ErrNotCoordinator)
		d.log.fail = nil
		pass(100 * time.Millisecond)
		if !slipped.done || !errors.Is(slipped.err, ErrLoading) && !errors.Is(slipped.err, ErrNotCoordinator) { // before the first read has failed, or after
			t.Fatalf("the one at the door: %+v", slipped)
		}
		pass(10 * time.Second)
		d.want(get{"a"}, "1")
		d.s.Stop()
	})
}
