package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"millrace/broker/machine"
)

func TestLoading(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := &memLog{}
		d := newDesk(t, l).open()
		for i := range 100 {
			d.want(put{key: fmt.Sprint("k", i), value: strings.Repeat("x", i)}, "ok")
		}
		d.s.Stop()
		l.most = 300 // one or two batches, and a piece of the next
		l.block = make(chan struct{})
		l.read = []error{errors.New("cold disk"), nil, errors.New("again")}
		l.read = slices.DeleteFunc(l.read, func(e error) bool { return e == nil })
		d.s = NewShard(d.o)
		synctest.Wait()
		d.wantErr(get{"k7"}, ErrLoading)
		close(l.block)
		pass(1500 * time.Millisecond)
		d.wantErr(get{"k7"}, ErrNotCoordinator) // as Kafka says where a load has failed
		pass(2 * time.Second)
		for i := range 100 {
			d.want(get{fmt.Sprint("k", i)}, strings.Repeat("x", i))
		}
		d.s.Stop()
		// Stopped while it loads.
		l.block = make(chan struct{})
		s := NewShard(d.o)
		synctest.Wait()
		go func() { time.Sleep(time.Second); close(l.block) }()
		s.Stop()
		if _, err := s.Do(context.Background(), machine.Request{Body: get{"a"}}); !errors.Is(err, ErrNotCoordinator) {
			t.Fatalf("after the stop: %v", err)
		}
		// Stopped while it waits to load again.
		l.block = nil
		l.read = []error{errors.New("cold disk")}
		s = NewShard(d.o)
		synctest.Wait()
		s.Stop()
	})
}

// TestLoadedAboveTheHighWatermark: what the log held above the high watermark
// when it was loaded may be any key's.
func TestLoadedAboveTheHighWatermark(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDesk(t, &memLog{}).open()
		d.want(put{key: "a", value: "1"}, "ok")
		d.log.held = true
		d.later(put{key: "a", value: "2"})
		d.reopen()
		defer func() { d.s.Stop() }()
		read := d.later(get{"z"})
		if read.done {
			t.Fatal("a read after the load does not wait")
		}
		d.log.commit(-1)
		synctest.Wait()
		if !read.done || read.err != nil {
			t.Fatalf("after the commit: %+v", read)
		}
		d.want(get{"a"}, "2")
	})
}

func TestCompactedLog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDesk(t, &memLog{}).open()
		for i := range 10 {
			d.want(put{key: "a", value: fmt.Sprint(i)}, "ok")
		}
		d.s.Stop()
		l := d.log
		l.batches = l.batches[7:9] // the cleaner took what came before, and the last
		l.start = 3
		d.open()
		defer func() { d.s.Stop() }()
		d.want(get{"a"}, "8")
		d.want(put{key: "b", value: "x"}, "ok")
		if l.end != 11 {
			t.Fatalf("the log ends at %d", l.end)
		}
	})
}

// TestDamagedBatch: a log that does not load is told of once, with the place, is not read over and over again, and loads
// once it is mended. Nobody waits for it.
func TestDamagedBatch(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := newDesk(t, &memLog{}).open()
		d.want(put{key: "a", value: "1"}, "ok")
		d.want(put{key: "b", value: "2"}, "ok")
		d.want(put{key: "c", value: "3"}, "ok")
		d.s.Stop()
		core, logs := observer.New(zap.InfoLevel)
		d.o.Logger = zap.New(core)
		d.lives.Store(0)
		d.log.flip(1)
		d.open()
		defer func() { d.s.Stop() }()
		var why *LoadError
		if err := d.s.AwaitLoaded(t.Context()); !errors.As(err, &why) || why.Offset != 1 || !d.s.Settled() {
			t.Fatalf("whoever waits is told %v", err)
		}
		pass(time.Hour)
		d.wantErr(get{"a"}, ErrNotCoordinator)
		all := logs.TakeAll()
		if len(all) != 1 || all[0].Level != zap.ErrorLevel {
			t.Fatalf("logged: %v", all)
		}
		told := all[0].ContextMap()
		if told["offset"] != int64(1) || told["file"] != "memory" || told["position"] != int64(len(d.log.batches[0])) || !strings.Contains(fmt.Sprint(told["error"]), "offset 1") {
			t.Fatalf("told: %v", told)
		}
		if n := d.lives.Load(); n < 60 || n > 70 {
			t.Fatalf("read %d times in an hour", n)
		}
		// Another place is told of again.
		d.log.flip(1)
		d.log.flip(2)
		pass(time.Hour)
		if all := logs.TakeAll(); len(all) != 1 || all[0].ContextMap()["offset"] != int64(2) {
			t.Fatalf("logged of another place: %v", all)
		}
		d.log.flip(2)
		pass(time.Minute)
		d.want(get{"a"}, "1")
		if all := logs.TakeAll(); len(all) != 1 || all[0].Level != zap.InfoLevel || d.s.Failure() != nil {
			t.Fatalf("logged once it is mended: %v", all)
		}
	})
}

func TestUnknownRecordsAreSkipped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		d := newDesk(t, &memLog{})
		d.o.Logger = zap.New(core)
		d.open()
		d.want(put{key: "?,a", value: "1"}, "ok")
		d.reopen()
		d.want(get{"a"}, "1")
		d.s.Stop()
		if n := logs.FilterMessageSnippet("skipped").Len(); n != 2 {
			t.Fatalf("%d warnings, want one live and one at the load", n)
		}
	})
}
