package storage

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/storage/disk"
	"millrace/storage/log"
)

func TestDeletedTopic(t *testing.T) {
	h := newHouse(t)
	l := h.log("t", 1, 0)
	h.add(l, 10)
	h.ok(l.SetLogStart(8))
	h.ok(l.Flush())
	s, err := l.View().Read(8, 10, 1000, true)
	h.ok(err)
	h.ok(h.s.Checkpoint())
	h.ok(h.s.Delete("t", 0))
	h.ok(h.s.Delete("t", 0))
	if _, err := l.View().Read(8, 10, 1000, true); !errors.Is(err, log.ErrClosed) {
		t.Fatalf("read of a deleted log: %v", err)
	}
	if n, err := s.ReadAt(make([]byte, s.Len()), 0); n != s.Len() || err != nil {
		t.Fatalf("a section of a deleted log: %d %v", n, err)
	}
	s.Release()
	// What the checkpoints say of the old log must not touch a new one of its name.
	l = h.log("t", 2, 0)
	if v := l.View(); v.LogStart() != 0 || v.LogEnd() != 0 {
		t.Fatalf("a new log is %d to %d", v.LogStart(), v.LogEnd())
	}
	h.add(l, 3)
	h.fs.Kill()
	h.open()
	l = h.log("t", 2, 0)
	if v := l.View(); v.LogStart() != 0 || v.LogEnd() != 3 {
		t.Fatalf("after a crash the new log is %d to %d", v.LogStart(), v.LogEnd())
	}
	h.ok(h.s.Housekeep(h.clock))
	entries, err := h.fs.ReadDir("/data")
	h.ok(err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name, "-delete") {
			t.Errorf("%s is still there", e.Name)
		}
	}
}

func TestDeletionWaits(t *testing.T) {
	h := newHouse(t)
	h.add(h.log("t", 1, 0), 1)
	h.ok(h.s.Delete("t", 0))
	doomed := func() int {
		n := 0
		entries, err := h.fs.ReadDir("/data")
		h.ok(err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name, "t-0.") && strings.HasSuffix(e.Name, "-delete") {
				n++
			}
		}
		return n
	}
	h.ok(h.s.Housekeep(h.clock.Add(59 * time.Second)))
	if doomed() != 1 {
		t.Fatal("removed too early")
	}
	h.ok(h.s.Housekeep(h.clock.Add(60 * time.Second)))
	if doomed() != 0 {
		t.Fatal("not removed")
	}
}

func TestFilesOfAnotherTopic(t *testing.T) {
	h := newHouse(t)
	h.add(h.log("t", 1, 0), 5)
	h.ok(h.s.Close(true))
	h.open()
	l := h.log("t", 2, 0)
	h.end(l, 0)
	h.add(l, 1)
	if l.TopicID() != [16]byte{2} {
		t.Fatal(l.TopicID())
	}
	strays, err := h.fs.ReadDir("/data")
	h.ok(err)
	i := slices.IndexFunc(strays, func(e disk.Entry) bool { return strings.HasSuffix(e.Name, "-stray") })
	if i < 0 || !h.exists("/data/"+strays[i].Name+"/00000000000000000000.log") {
		t.Fatal("the other topic's files are gone")
	}
	h.ok(h.s.Close(true))
	h.open()
	h.end(h.log("t", 2, 0), 1)
}

func TestUnopenedLogs(t *testing.T) {
	h := newHouse(t)
	h.add(h.log("b", 2, 1), 1)
	h.add(h.log("a", 1, 0), 1)
	h.ok(h.s.Checkpoint())
	h.fs.Kill()
	h.open()
	want := []Found{{"a", 0, [16]byte{1}}, {"b", 1, [16]byte{2}}}
	if got := h.s.Unopened(); !slices.Equal(got, want) {
		t.Fatalf("%v", got)
	}
	h.log("a", 1, 0)
	// A log that nobody recovered must not be taken for one closed in order.
	h.ok(h.s.Close(true))
	if h.exists("/data/.kafka_cleanshutdown") {
		t.Fatal("a clean stop, although a log was never recovered")
	}
	h.open()
	h.log("a", 1, 0)
	h.ok(h.s.PutAside("b", 1))
	h.ok(h.s.PutAside("b", 1))
	if len(h.s.Unopened()) != 0 {
		t.Fatal(h.s.Unopened())
	}
	h.ok(h.s.Close(true))
	if !h.exists("/data/.kafka_cleanshutdown") {
		t.Fatal("no clean stop")
	}
	h.open()
	if got := h.s.Unopened(); len(got) != 1 || got[0].Topic != "a" {
		t.Fatalf("%v", got)
	}
}
