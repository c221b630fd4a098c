package storage

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/storage/log"
)

// whole reads all of a log's bytes.
func whole(l *log.Log) (string, error) {
	v := l.View()
	s, err := v.Read(v.LogStart(), v.LogEnd(), 1<<20, true)
	if err != nil {
		return "", err
	}
	defer s.Release()
	b := make([]byte, s.Len())
	_, err = s.ReadAt(b, 0)
	return string(b), err
}

// copyTo fills a log from another.
func copyTo(to, from *log.Log) error {
	b, err := whole(from)
	if err == nil {
		_, err = to.AppendAsFollower([]byte(b))
	}
	if err == nil {
		to.SetHighWatermark(from.View().HighWatermark())
	}
	return err
}

// fill begins the move of partition 0 of topic t to /b, and copies there what it has.
func (h *house) fill() *log.Log {
	h.t.Helper()
	f, err := h.s.BeginMove("t", [16]byte{1}, 0, "/b")
	h.ok(err)
	h.ok(copyTo(f, h.log("t", 1, 0)))
	return f
}

// holders lists where files of a partition are, by the kind of their name.
func (h *house) holders(k partitionKey) (list []string) {
	for _, d := range h.dirs {
		entries, err := h.fs.ReadDir(d)
		h.ok(err)
		for _, e := range entries {
			name := partitionDir(k.topic, k.partition)
			switch {
			case e.Name == name:
				list = append(list, d)
			case strings.HasPrefix(e.Name, name+".") && strings.HasSuffix(e.Name, futureSuffix):
				list = append(list, d+" future")
			case strings.HasPrefix(e.Name, name+"."):
				list = append(list, d+" deleted")
			}
		}
	}
	return list
}

func TestMove(t *testing.T) {
	h := newHouse(t, "/a", "/b")
	l := h.log("t", 1, 0)
	h.add(l, 10)
	at, to := h.s.PlaceOf("t", 0)
	if at != "/a" || to != "" {
		t.Fatalf("at %q, on the way to %q", at, to)
	}
	for _, dir := range []string{"/a", "/c"} {
		if _, err := h.s.BeginMove("t", [16]byte{1}, 0, dir); err == nil {
			t.Fatalf("a move to %s begins", dir)
		}
	}
	f, err := h.s.BeginMove("t", [16]byte{1}, 0, "/b")
	h.ok(err)
	if _, to := h.s.PlaceOf("t", 0); to != "/b" || h.s.FutureOf("t", 0) != h.s.dirs[1].id {
		t.Fatalf("on the way to %q", to)
	}
	h.ok(copyTo(f, l))
	h.add(l, 2)
	use := h.s.Describe(func(Name) bool { return true })[1].Logs
	if len(use) != 1 || !use[0].Future || use[0].Lag != 2 || use[0].Size != f.Size() {
		t.Fatalf("described as %+v", use)
	}
	// A second thought, and a new beginning.
	h.ok(h.s.CancelMove("t", 0))
	h.ok(h.s.CancelMove("t", 0))
	if got := fmt.Sprint(h.holders(partitionKey{"t", 0})); got != "[/a /b deleted]" {
		t.Fatalf("called off: %s", got)
	}
	h.fill()
	want, err := whole(l)
	h.ok(err)
	moved, touched, err := h.s.FinishMove("t", [16]byte{1}, 0)
	h.ok(err)
	if got, err := whole(moved); err != nil || got != want || !touched {
		t.Fatalf("moved: %d bytes of %d, %v", len(got), len(want), err)
	}
	if v := moved.View(); v.HighWatermark() != 12 || moved.FlushedOffset() != 12 {
		t.Fatalf("high watermark %d, flushed %d", v.HighWatermark(), moved.FlushedOffset())
	}
	if _, _, err := h.s.FinishMove("t", [16]byte{1}, 0); !errors.Is(err, ErrMoveOver) {
		t.Fatal(err)
	}
	if at, to := h.s.PlaceOf("t", 0); at != "/b" || to != "" {
		t.Fatalf("at %q, on the way to %q", at, to)
	}
	h.add(moved, 1)
	h.clock = h.clock.Add(2 * 60e9)
	h.ok(h.s.Housekeep(h.clock))
	if got := fmt.Sprint(h.holders(partitionKey{"t", 0})); got != "[/b]" {
		t.Fatalf("later: %s", got)
	}
	h.ok(h.s.Close(true))
	h.open()
	h.end(h.log("t", 1, 0), 13)
}

// A move goes on after a stop where it was, and what is on its way is removed with its topic, or when it belongs to none.
func TestMoveOutlivesItsBroker(t *testing.T) {
	for _, clean := range []bool{true, false} {
		h := newHouse(t, "/a", "/b")
		l := h.log("t", 1, 0)
		h.add(l, 10)
		for _, topic := range []string{"u", "gone", "w"} {
			h.add(h.log(topic, 2, 0), 3)
		}
		begin := func(topic string, id byte) *log.Log {
			at, _ := h.s.PlaceOf(topic, 0)
			f, err := h.s.BeginMove(topic, [16]byte{id}, 0, map[string]string{"/a": "/b", "/b": "/a"}[at])
			h.ok(err)
			return f
		}
		h.ok(copyTo(begin("t", 1), l))
		begin("u", 2)
		for _, topic := range []string{"gone", "w"} {
			f := begin(topic, 2)
			h.ok(copyTo(f, h.log(topic, 2, 0)))
		}
		if clean {
			h.ok(h.s.Close(true))
		} else {
			h.fs.Kill()
		}
		h.open()
		l = h.log("t", 1, 0)
		f, err := h.s.ResumeMove("t", [16]byte{1}, 0)
		h.ok(err)
		h.end(f, 10)
		if f, err := h.s.ResumeMove("t", [16]byte{1}, 0); err != nil || f != nil {
			t.Fatal("a move is resumed twice", err)
		}
		h.log("u", 2, 0) // nothing had been copied: there were no files yet
		if f, err := h.s.ResumeMove("u", [16]byte{2}, 0); err != nil || f != nil {
			t.Fatal("a move without files is resumed", err)
		}
		h.ok(h.s.Delete("gone", 0))
		h.s.DropFutures(func(string, int32) bool { return true })
		h.s.DropFutures(func(string, int32) bool { return false })
		h.add(l, 1)
		b, err := l.View().Read(10, 11, 1<<20, true)
		h.ok(err)
		rest := make([]byte, b.Len())
		_, err = b.ReadAt(rest, 0)
		h.ok(err)
		b.Release()
		_, err = f.AppendAsFollower(rest)
		h.ok(err)
		moved, _, err := h.s.FinishMove("t", [16]byte{1}, 0)
		h.ok(err)
		h.end(moved, 11)
		h.clock = h.clock.Add(2 * 60e9)
		h.ok(h.s.Housekeep(h.clock))
		for topic, want := range map[string]int{"t": 1, "u": 1, "gone": 0, "w": 1} {
			if got := h.holders(partitionKey{topic, 0}); len(got) != want || strings.Contains(fmt.Sprint(got), "future") {
				t.Fatalf("clean %v: %s is at %v", clean, topic, got)
			}
		}
		if clean {
			h.ok(h.s.Close(true))
			if !h.exists("/a/.kafka_cleanshutdown") || !h.exists("/b/.kafka_cleanshutdown") {
				t.Fatal("no mark of a clean stop")
			}
		}
	}
}

// TestDamagedCopyTakesNoPlace: of what an earlier life has copied, damage that the start finds is not put in the place of a log
// that is whole: the copy begins anew.
func TestDamagedCopyTakesNoPlace(t *testing.T) {
	for what, damage := range map[string]func(b []byte) []byte{
		"the last batch is cut": func(b []byte) []byte { return b[:len(b)-9] },
		"a checksum is wrong":   func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
	} {
		h := newHouse(t, "/a", "/b")
		l := h.log("t", 1, 0)
		h.add(l, 10)
		want, err := whole(l)
		h.ok(err)
		f, err := h.s.BeginMove("t", [16]byte{1}, 0, "/b")
		h.ok(err)
		h.ok(copyTo(f, l))
		h.ok(f.Flush())
		h.ok(h.s.Checkpoint())
		dir, clean := f.Dir(), what == "the last batch is cut"
		if clean {
			h.ok(h.s.Close(true))
		} else {
			h.fs.Kill()
		}
		name := dir + "/00000000000000000000.log"
		h.fs.Put(name, damage(h.fs.Bytes(name)))
		h.open()
		l = h.log("t", 1, 0)
		f, err = h.s.ResumeMove("t", [16]byte{1}, 0)
		h.ok(err)
		if v := f.View(); v.LogStart() != 0 || v.LogEnd() != 0 {
			t.Errorf("%s: the copy holds %d to %d", what, v.LogStart(), v.LogEnd())
			continue
		}
		h.ok(copyTo(f, l))
		moved, _, err := h.s.FinishMove("t", [16]byte{1}, 0)
		h.ok(err)
		if got, err := whole(moved); err != nil || got != want {
			t.Errorf("%s: %d bytes of %d have moved: %v", what, len(got), len(want), err)
		}
	}
}

// Log starts, and producers that batches do not tell of, move too.
func TestMoveKeepsWhatBatchesDoNotTell(t *testing.T) {
	h := newHouse(t, "/a", "/b")
	l := h.log("t", 1, 0)
	h.add(l, 4)
	h.ok(l.SetLogStart(4))
	h.ok(l.AssignEpoch(7))
	f, err := h.s.BeginMove("t", [16]byte{1}, 0, "/b")
	h.ok(err)
	h.ok(f.TruncateFully(4))
	moved, _, err := h.s.FinishMove("t", [16]byte{1}, 0)
	h.ok(err)
	if moved.LatestEpoch() != 7 {
		t.Fatalf("epoch %d", moved.LatestEpoch())
	}
	h.fs.Crash(nil)
	h.open()
	if v := h.log("t", 1, 0).View(); v.LogStart() != 4 || v.LogEnd() != 4 {
		t.Fatalf("from %d to %d", v.LogStart(), v.LogEnd())
	}
}

// What has not come yet comes into the directory that was asked for.
func TestPreferredDirectory(t *testing.T) {
	h := newHouse(t, "/a", "/b")
	h.s.Prefer("t", 1, "/b")
	h.s.Prefer("t", 2, "/a")
	h.s.Prefer("t", 2, "/b")
	h.s.Prefer("t", 3, "/nowhere")
	for p, want := range []string{"/a", "/b", "/b", "/a"} {
		h.log("t", 1, int32(p))
		if at, _ := h.s.PlaceOf("t", int32(p)); at != want {
			t.Errorf("partition %d is at %s, not %s", p, at, want)
		}
	}
	if len(h.s.preferred) != 0 {
		t.Errorf("%d are kept in mind for ever", len(h.s.preferred))
	}
}

func TestNamesOfFutures(t *testing.T) {
	s := &Store{}
	for _, c := range []struct {
		topic     string
		partition int32
		fits      bool
	}{{"t", 0, true}, {strings.Repeat("x", 213), 0, true}, {strings.Repeat("x", 213), 10, false}, {strings.Repeat("x", 214), 0, false}} {
		if s.MovableName(c.topic, c.partition) != c.fits {
			t.Errorf("%d letters and %d", len(c.topic), c.partition)
		}
		name := futureDir(c.topic, c.partition)
		if k, ok := parseFutureDir(name); !ok || k != (partitionKey{c.topic, c.partition}) {
			t.Errorf("%s is read as %v", name, k)
		}
	}
	for _, name := range []string{"t-0-future", "t-0.xyz-future", "t." + strings.Repeat("0", 32) + "-future", strings.Repeat("0", 32) + "-future", "t-0." + strings.Repeat("0", 32)} {
		if _, ok := parseFutureDir(name); ok {
			t.Errorf("%s is taken for a log on its way", name)
		}
	}
}

// TestMoveWaitsForDescriptors: a move that cannot go on for lack of a descriptor, after a start or at its end, is left as
// it is and goes on when there is one.
func TestMoveWaitsForDescriptors(t *testing.T) {
	for after := range 9 {
		h := newHouse(t, "/a", "/b")
		h.add(h.log("t", 1, 0), 10)
		h.fill()
		h.fs.Kill()
		h.open()
		l := h.log("t", 1, 0)
		want, err := whole(l)
		h.ok(err)
		h.scarce(after)
		f, err := h.s.ResumeMove("t", [16]byte{1}, 0)
		if at, to := h.s.PlaceOf("t", 0); at != "/a" || to != "/b" {
			t.Errorf("after %d files it is at %q, and on its way to %q", after, at, to)
		}
		h.fs.Refuse(nil)
		if after == 0 && err == nil {
			t.Fatal("it needs no file")
		}
		if err != nil {
			if !errors.Is(err, log.ErrNoDescriptor) {
				t.Fatal(err)
			}
			f, err = h.s.ResumeMove("t", [16]byte{1}, 0)
		}
		if h.ok(err); f == nil {
			t.Fatalf("after %d files the move is forgotten", after)
		}
		h.end(f, 10)
		h.scarce(min(after, putBy-1))
		if _, touched, err := h.s.FinishMove("t", [16]byte{1}, 0); touched || !errors.Is(err, log.ErrNoDescriptor) {
			t.Fatalf("after %d files the exchange says %v, touched %v", after, err, touched)
		}
		h.fs.Refuse(nil)
		l, _, err = h.s.FinishMove("t", [16]byte{1}, 0)
		h.ok(err)
		if got, err := whole(l); err != nil || got != want {
			t.Fatalf("after %d files: %d bytes of %d, %v", after, len(got), len(want), err)
		}
	}
}

// TestFuturesInUseAreNotDropped: whoever asked for a partition's log goes on with its move, and that may be at this moment.
func TestFuturesInUseAreNotDropped(t *testing.T) {
	for name, while := range map[string]func(h *house, drop func()){
		"asked for": func(_ *house, drop func()) { drop() },
		"being opened": func(h *house, drop func()) {
			var once sync.Once
			h.fs.Hold(func(op, name string) {
				if op == "open" && strings.Contains(name, futureSuffix+"/") {
					once.Do(drop)
				}
			})
		},
		"waiting for a descriptor": func(h *house, drop func()) {
			h.scarce(0)
			if _, err := h.s.ResumeMove("t", [16]byte{1}, 0); !errors.Is(err, log.ErrNoDescriptor) {
				t.Fatal(err)
			}
			h.fs.Refuse(nil)
			drop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, "/a", "/b")
			h.add(h.log("t", 1, 0), 10)
			h.fill()
			h.fs.Kill()
			h.open()
			h.log("t", 1, 0)
			dropped := false
			while(h, func() {
				h.s.DropFutures(func(string, int32) bool { return false }) // nobody has applied what names it yet
				dropped = true
			})
			f, err := h.s.ResumeMove("t", [16]byte{1}, 0)
			h.fs.Hold(nil)
			if h.ok(err); f == nil || !dropped {
				t.Fatalf("the move is forgotten; dropped %v", dropped)
			}
			h.ok(h.s.Housekeep(h.clock.Add(time.Hour)))
			if got := fmt.Sprint(h.holders(partitionKey{"t", 0})); got != "[/a /b future]" {
				t.Fatalf("it is at %s", got)
			}
			moved, _, err := h.s.FinishMove("t", [16]byte{1}, 0)
			h.ok(err)
			h.end(moved, 10)
		})
	}
}

// TestMoveThatWaitsIsCancelled: what an earlier life has left of a move can be called off before it goes on.
func TestMoveThatWaitsIsCancelled(t *testing.T) {
	h := newHouse(t, "/a", "/b")
	h.add(h.log("t", 1, 0), 10)
	h.fill()
	h.fs.Kill()
	h.open()
	h.log("t", 1, 0)
	h.scarce(0)
	if _, err := h.s.ResumeMove("t", [16]byte{1}, 0); !errors.Is(err, log.ErrNoDescriptor) {
		t.Fatal(err)
	}
	h.fs.Refuse(nil)
	h.ok(h.s.CancelMove("t", 0))
	if f, err := h.s.ResumeMove("t", [16]byte{1}, 0); f != nil || err != nil {
		t.Error("it goes on", err)
	}
	h.ok(h.s.Housekeep(h.s.now()))
	if list := h.holders(partitionKey{"t", 0}); len(list) != 1 {
		t.Errorf("left: %v", list)
	}
}
