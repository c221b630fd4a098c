package broker

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zaptest"

	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/storage/disktest"
)

// onDirs is a broker's life on a disk with data directories.
func onDirs(t *testing.T, disk *disktest.FS, dirs string) *Broker {
	t.Helper()
	static, _, err := config.ParseStatic(map[string]string{"node.id": "1", "log.dirs": dirs})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Config: static, FS: disk, Logger: zaptest.NewLogger(t)}
	b := newBroker(o)
	if err := b.openStore(o); err != nil {
		t.Fatal(err)
	}
	b.publisher.current.Store(image.New())
	return b
}

// resuming says whether a move of an earlier life is still to be gone on with.
func (s *moves) resuming(k replicaKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.list, func(m *moving) bool { return m.resumes && m.key() == k })
}

// A move that an earlier life began, and that lacks a file descriptor to begin
// with, while it is filled, and at its end, waits for one and arrives.
func TestMovesWaitForDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := disktest.New()
		b := onDirs(t, disk, "/a,/b")
		see(b, registered(1, 10, b.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 1, 1, []int32{1}, 1))
		p := b.replicas.get(someTopic, 0)
		appendOne(t, p)
		from, to := "/a", "/b"
		if at, _ := b.store.PlaceOf("t", 0); at == to {
			from, to = to, from
		}
		if err := b.beginMove(p, to); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Fill(1); err != nil {
			t.Fatal(err)
		}
		disk.Kill()
		b.stop(errTestOver)

		b = onDirs(t, disk, "/a,/b")
		refuse := func() {
			disk.Refuse(func(op, name string) error {
				switch op {
				case "open", "create", "readdir", "syncdir":
					if strings.HasPrefix(name, to) {
						return &os.PathError{Op: op, Path: name, Err: syscall.EMFILE}
					}
				}
				return nil
			})
		}
		refuse()
		see(b, registered(1, 20, b.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 2, 2, []int32{1}, 1))
		p = b.replicas.get(someTopic, 0)
		b.replicas.putAsideStrays()
		if !b.moves.resuming(replicaKey{someTopic, 0}) {
			t.Fatal("the move is not gone on with")
		}
		move := func(times int) {
			for range times {
				if m, _ := b.moves.next(b.now()); m != nil {
					m.told = true // there is no controller
					b.moveOn(t.Context(), m, movePiece)
				}
				time.Sleep(moveRetry)
			}
		}
		waits := func() {
			t.Helper()
			if at, on := b.store.PlaceOf("t", 0); at != from || on != to {
				t.Fatalf("it is at %q, and on its way to %q", at, on)
			}
		}
		move(5)
		waits()
		disk.Refuse(nil)
		move(1) // opens it
		if b.moves.resuming(replicaKey{someTopic, 0}) {
			t.Fatal("it does not go on with descriptors")
		}
		appendOne(t, p)
		refuse()
		move(5) // cannot fill it
		waits()
		disk.Refuse(nil)
		if done, err := p.Fill(movePiece); err != nil || !done.Whole {
			t.Fatal(done, err)
		}
		refuse()
		move(5) // cannot exchange it
		waits()
		disk.Refuse(nil)
		move(5)
		if at, on := b.store.PlaceOf("t", 0); at != to || on != "" || p.Log().View().LogEnd() != 2 {
			t.Errorf("it is at %q, and on its way to %q, with %d records", at, on, p.Log().View().LogEnd())
		}
		b.stop(errTestOver)
	})
}
