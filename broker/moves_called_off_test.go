package broker

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap/zaptest"

	"millrace/broker/partition"
	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/storage/disktest"
)

// between is a broker with three data directories and a partition of a few
// records in the first of them.
func between(t *testing.T) (*Broker, *partition.Partition, *disktest.FS) {
	t.Helper()
	static, _, err := config.ParseStatic(map[string]string{"node.id": "1", "log.dirs": "/a,/b,/c"})
	if err != nil {
		t.Fatal(err)
	}
	disk := disktest.New()
	b := newBroker(Options{Config: static, FS: disk, Logger: zaptest.NewLogger(t)})
	if err := b.openStore(Options{Config: static, FS: disk}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.stop(errTestOver) })
	b.publisher.current.Store(image.New())
	see(b, registered(1, 10, b.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 1, 1, []int32{1}, 1))
	p := b.replicas.get(someTopic, 0)
	for range 3 {
		appendOne(t, p)
	}
	if at, _ := b.store.PlaceOf("t", 0); at != "/a" {
		t.Fatalf("it lies in %s", at)
	}
	b.directories.untold = map[replicaKey][16]byte{}
	return b, p, disk
}

// haveItIn has a partition lie in a directory, as a request does.
func haveItIn(t *testing.T, b *Broker, dir string) {
	t.Helper()
	b.moves.asking.Lock()
	defer b.moves.asking.Unlock()
	if code := b.haveIn(&call{b: b, image: b.applied()}, "t", 0, dir); code != 0 {
		t.Fatalf("to %s: error %d", dir, code)
	}
}

// onItsWay is the entry whose turn it is.
func onItsWay(t *testing.T, b *Broker) *moving {
	t.Helper()
	m, _ := b.moves.next(b.now().Add(time.Hour))
	if m == nil {
		t.Fatal("nobody is on the way")
	}
	return m
}

func (b *Broker) dirID(path string) [16]byte {
	for _, d := range b.store.Directories() {
		if d.Absolute == path {
			return d.ID
		}
	}
	panic("no directory " + path)
}

// slowController answers when it is let, and takes note of everything.
type slowController struct {
	b     *Broker
	heard chan *kmsg.AssignReplicasToDirsRequest
	let   chan error
}

func (c *slowController) Do(ctx context.Context, _ string, req kmsg.Request) (kmsg.Response, int64, error) {
	c.heard <- req.(*kmsg.AssignReplicasToDirsRequest)
	if err := <-c.let; err != nil {
		return nil, 0, err
	}
	return kmsg.NewPtrAssignReplicasToDirsResponse(), c.b.applied().Offset(), nil
}

// A move that is called off while the controller is told of it leaves the old
// directory on record, whichever the controller hears of first.
func TestACalledOffMoveIsToldOf(t *testing.T) {
	for name, outcome := range map[string]error{"answered": nil, "not answered": errors.New("no answer in time")} {
		t.Run(name, func(t *testing.T) {
			b, p, _ := between(t)
			c := &slowController{b: b, heard: make(chan *kmsg.AssignReplicasToDirsRequest, 1), let: make(chan error)}
			b.client = c
			b.brokerEpoch.Store(10)
			haveItIn(t, b, "/b")
			m := onItsWay(t, b)
			var wg sync.WaitGroup
			wg.Go(func() { b.moveOn(t.Context(), m, movePiece) })
			if req := <-c.heard; len(req.Directories) != 1 || req.Directories[0].ID != b.dirID("/b") {
				t.Fatalf("told: %+v", req)
			}
			haveItIn(t, b, "/a")
			key := replicaKey{someTopic, 0}
			if dir, ok := b.directories.some()[key]; !ok || dir != b.dirID("/a") {
				t.Errorf("when it is called off %x is to be told (%v)", dir, ok)
			}
			b.directories.told(key, b.dirID("/a")) // which is heard before the other
			c.let <- outcome
			wg.Wait()
			if dir, ok := b.directories.some()[key]; !ok || dir != b.dirID("/a") {
				t.Errorf("at last %x is to be told (%v)", dir, ok)
			}
			if at, to := b.store.PlaceOf("t", 0); at != "/a" || to != "" {
				t.Errorf("it lies in %q and is on its way to %q", at, to)
			}
			if p.Log().CleaningPaused() {
				t.Error("it is not cleaned any more")
			}
		})
	}
}

// One that was called off after the controller did not answer is told of, too: it
// may have heard.
func TestAMoveWithoutAnAnswerIsToldOf(t *testing.T) {
	b, _, _ := between(t)
	c := &slowController{b: b, heard: make(chan *kmsg.AssignReplicasToDirsRequest, 1), let: make(chan error, 1)}
	b.client = c
	haveItIn(t, b, "/b")
	m := onItsWay(t, b)
	c.let <- errors.New("no answer in time")
	b.moveOn(t.Context(), m, movePiece)
	if m.told || m.after.IsZero() {
		t.Fatal("it counts as told, or is told again at once")
	}
	haveItIn(t, b, "/a")
	if dir, ok := b.directories.some()[replicaKey{someTopic, 0}]; !ok || dir != b.dirID("/a") {
		t.Errorf("%x is to be told (%v)", dir, ok)
	}
}

// What the mover has in hand when a request calls its move off and begins another
// leaves that alone, whether it cannot be filled or has arrived.
func TestAStaleMoveLeavesTheNextAlone(t *testing.T) {
	for name, fails := range map[string]bool{"it cannot be filled": true, "it has arrived": false} {
		t.Run(name, func(t *testing.T) {
			b, p, disk := between(t)
			haveItIn(t, b, "/b")
			stale := onItsWay(t, b)
			stale.told, stale.asked = true, true // there is no controller
			haveItIn(t, b, "/c")
			m := onItsWay(t, b)
			if m == stale {
				t.Fatal("the first one is still on the list")
			}
			if fails {
				disk.Refuse(func(op, name string) error {
					if op == "read" && strings.HasPrefix(name, "/a/t-0/") {
						return &os.PathError{Op: op, Path: name, Err: os.ErrPermission}
					}
					return nil
				})
			}
			b.moveOn(t.Context(), stale, movePiece)
			disk.Refuse(nil)
			if at, to := b.store.PlaceOf("t", 0); at != "/a" || to != "/c" {
				t.Fatalf("it lies in %q and is on its way to %q", at, to)
			}
			if !p.Log().CleaningPaused() {
				t.Error("it is cleaned while it moves")
			}
			m.told, m.asked = true, true
			for range 3 {
				b.moveOn(t.Context(), m, movePiece)
			}
			if at, to := b.store.PlaceOf("t", 0); at != "/c" || to != "" || p.Log().View().LogEnd() != 3 {
				t.Errorf("it lies in %q and is on its way to %q, with %d records", at, to, p.Log().View().LogEnd())
			}
			if dir := b.directories.some()[replicaKey{someTopic, 0}]; dir != b.dirID("/c") {
				t.Errorf("%x is told", dir)
			}
		})
	}
}

// What was copied is made durable while the partition is written to, and not first
// in the exchange.
func TestWhatWasCopiedIsSyncedBesideAppends(t *testing.T) {
	b, p, disk := between(t)
	haveItIn(t, b, "/b")
	m := onItsWay(t, b)
	m.told, m.asked = true, true
	syncs, beside := 0, false
	disk.Hold(func(op, name string) {
		if op != "sync" || !strings.HasPrefix(name, "/b/t-0.") || !strings.HasSuffix(name, ".log") {
			return
		}
		if syncs++; syncs > 1 {
			return
		}
		free := make(chan struct{})
		go func() {
			defer close(free)
			p.State() // waits as an append does
		}()
		select {
		case <-free:
			beside = true
		case <-time.After(5 * time.Second):
		}
	})
	for range 3 {
		b.moveOn(t.Context(), m, movePiece)
	}
	disk.Hold(nil)
	if at, _ := b.store.PlaceOf("t", 0); at != "/b" || syncs == 0 || !beside {
		t.Errorf("it lies in %q; %d syncs, the first beside appends: %v", at, syncs, beside)
	}
}
