package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/disktest"
	"millrace/storage/log"
)

// exchangeLife moves a flushed log and says what must be there afterwards, whatever cuts it short.
func exchangeLife(h *house) (want string, told bool, err error) {
	l, err := h.s.Log("t", [16]byte{1}, 0, log.DefaultConfig())
	if err != nil {
		return "", false, err
	}
	if want, err = whole(l); err != nil {
		return want, false, err
	}
	f, err := h.s.BeginMove("t", [16]byte{1}, 0, "/b")
	if err != nil {
		return want, false, err
	}
	// Batch by batch, so that there are several writes to lose.
	for rest := []byte(want); len(rest) > 0; {
		b, err := batch.ParseHeader(rest)
		if err != nil {
			return want, false, err
		}
		if _, err := f.AppendAsFollower(rest[:b.Size()]); err != nil {
			return want, false, err
		}
		rest = rest[b.Size():]
	}
	f.SetHighWatermark(l.View().HighWatermark())
	_, _, err = h.s.FinishMove("t", [16]byte{1}, 0)
	if err == nil {
		err = h.s.Checkpoint()
	}
	return want, true, err
}

// crashInExchange stops a move at one operation on the disk after the other and loses what was not synced; the start after
// it finds the whole log. It says how many operations there were, and what the crashes have done.
func crashInExchange(t *testing.T, seeds uint64) (n int, sum disktest.Outcomes, err error) {
	for n = 1; ; n++ {
		for seed := range seeds {
			h := newHouse(t, "/a", "/b")
			l := h.log("t", 1, 0)
			h.add(l, 10)
			h.ok(l.Flush())
			h.ok(h.s.Checkpoint())
			at := [16]byte(h.s.dirs[0].id)
			h.fs.StopAt(n)
			want, told, _ := exchangeLife(h)
			if !h.fs.Stopped() {
				return n, sum, nil
			}
			if told {
				at = h.s.dirs[1].id // the metadata hears of it before the exchange
			}
			h.fs.Crash(rand.New(rand.NewPCG(seed, uint64(n))))
			sum = sum.Plus(h.fs.Outcomes())
			s, err := h.try(1)
			if err != nil {
				return n, sum, fmt.Errorf("operation %d, seed %d: %w", n, seed, err)
			}
			h.s = s
			l, err = s.LogAt(Where{Directory: at}, "t", [16]byte{1}, 0, log.DefaultConfig())
			if err != nil {
				return n, sum, fmt.Errorf("operation %d, seed %d: %w", n, seed, err)
			}
			if got, err := whole(l); err != nil || got != want {
				return n, sum, fmt.Errorf("operation %d, seed %d: %d bytes of %d are there (%v): %v", n, seed, len(got), len(want), err, h.holders(partitionKey{"t", 0}))
			}
			if v := l.View(); v.LogEnd() != batch.Offset(10) {
				return n, sum, fmt.Errorf("operation %d, seed %d: ends at %d", n, seed, v.LogEnd())
			}
		}
	}
}

// exchangeSeeds is in how many ways the power goes at each operation of a move.
const exchangeSeeds = 4

func TestExchangeCrashesAtEveryOperation(t *testing.T) {
	seeds := *soak * exchangeSeeds
	n, o, err := crashInExchange(t, seeds)
	if err != nil {
		t.Fatal(err)
	}
	if n < 20 {
		t.Fatalf("a move takes %d operations only", n)
	}
	t.Logf("%+v", o)
	runs := int(seeds)
	for _, few := range o.Under(disktest.Outcomes{Crashes: 40 * runs, Lost: 25 * runs, Torn: 3 * runs, Reordered: runs, Names: 20 * runs}) {
		t.Error(few)
	}
}

func TestPlantedExchangeIsNoticed(t *testing.T) {
	faults.exchangeBackwards = true
	defer func() { faults.exchangeBackwards = false }()
	if _, _, err := crashInExchange(t, exchangeSeeds); err == nil {
		t.Fatal("an exchange in the wrong order is not noticed")
	}
}

// exchangeFails has the exchange fail, once it has begun, where the disk refuses something.
func (h *house) exchangeFails(refuse func(op, name string) error) {
	h.t.Helper()
	h.fs.Refuse(refuse)
	if _, touched, err := h.s.FinishMove("t", [16]byte{1}, 0); err == nil || !touched {
		h.t.Fatal(touched, err)
	}
	h.fs.Refuse(nil)
}

// A new directory that fails in the exchange takes the partition offline; the next start has the old log again.
func TestExchangeFails(t *testing.T) {
	h := newHouse(t, "/a", "/b")
	l := h.log("t", 1, 0)
	h.add(l, 10)
	want, err := whole(l)
	h.ok(err)
	h.fill()
	h.exchangeFails(func(op, name string) error {
		if op == "rename" && strings.HasPrefix(name, "/b/") && strings.Contains(name, futureSuffix) {
			return errors.New("input/output error")
		}
		return nil
	})
	h.ok(h.s.Close(true))
	if h.exists("/a/.kafka_cleanshutdown") {
		t.Fatal("a log that was not closed in order is marked so")
	}
	h.fs.Refuse(nil)
	h.open()
	if got, err := whole(h.log("t", 1, 0)); err != nil || got != want {
		t.Fatalf("%d bytes of %d, %v", len(got), len(want), err)
	}
}

// An exchange that can neither be ended nor undone leaves one whole log that the next start finds, and the other one aside.
func TestExchangeFailsBothWays(t *testing.T) {
	h := newHouse(t, "/a", "/b")
	l := h.log("t", 1, 0)
	h.add(l, 10)
	h.ok(l.SetLogStart(4))
	want, err := whole(l)
	h.ok(err)
	f := h.fill()
	h.ok(f.SetLogStart(4))
	h.exchangeFails(func(op, name string) error {
		if op == "readdir" && name == "/b/t-0" || op == "rename" && name == "/b/t-0" {
			return errors.New("input/output error")
		}
		return nil
	})
	if h.s.DirectoryOf("t", 0) != h.s.dirs[1].id {
		t.Error("it is not said to be where it is")
	}
	h.ok(h.s.Close(true))
	if h.exists("/b/.kafka_cleanshutdown") {
		t.Error("a directory with a log that did not open is marked as closed in order")
	}
	h.open()
	h.clock = h.clock.Add(time.Hour)
	h.ok(h.s.Housekeep(h.clock))
	l = h.log("t", 1, 0)
	if got, err := whole(l); err != nil || got != want || l.View().LogStart() != 4 {
		t.Fatalf("%d bytes of %d, from %d, %v", len(got), len(want), l.View().LogStart(), err)
	}
	entries, err := h.fs.ReadDir("/a")
	h.ok(err)
	if !slices.ContainsFunc(entries, func(e disk.Entry) bool { return strings.HasSuffix(e.Name, straySuffix) }) {
		t.Errorf("the old log is gone: %v", entries)
	}
}

// What the checkpoints say of a log that did not come to take another one's place stays: it may be all there is at the next
// start.
func TestExchangeThatFailsKeepsTheLogStart(t *testing.T) {
	h := newHouse(t, "/a", "/b")
	l := h.log("t", 1, 0)
	h.add(l, 10)
	h.ok(l.SetLogStart(4))
	f := h.fill()
	h.ok(f.SetLogStart(4))
	at := h.s.dirs[1].id
	h.exchangeFails(func(op, name string) error {
		if op == "readdir" && name == "/b/t-0" || op == "rename" && strings.HasPrefix(name, "/a/t-0.") {
			return errors.New("input/output error")
		}
		return nil
	})
	h.clock = h.clock.Add(time.Hour)
	h.ok(h.s.Checkpoint())
	h.fs.Crash(nil)
	h.open()
	l, err := h.s.LogAt(Where{Directory: at}, "t", [16]byte{1}, 0, log.DefaultConfig())
	h.ok(err)
	if v := l.View(); v.LogStart() != 4 || v.LogEnd() != 10 {
		t.Errorf("from %d to %d", v.LogStart(), v.LogEnd())
	}
}

// What an exchange that failed has left goes with its topic.
func TestExchangeThatFailsIsDeleted(t *testing.T) {
	for name, stuck := range map[string]bool{"given back": false, "stuck": true} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, "/a", "/b")
			l := h.log("t", 1, 0)
			h.add(l, 10)
			h.fill()
			h.exchangeFails(func(op, name string) error {
				if op == "readdir" && name == "/b/t-0" {
					return syscall.EMFILE
				}
				if op == "rename" && name == "/b/t-0" && stuck {
					return syscall.EMFILE
				}
				return nil
			})
			h.ok(h.s.Delete("t", 0))
			h.clock = h.clock.Add(time.Hour)
			h.ok(h.s.Housekeep(h.clock))
			for _, d := range h.dirs {
				entries, err := h.fs.ReadDir(d)
				h.ok(err)
				for _, e := range entries {
					if strings.HasPrefix(e.Name, "t-0") && !strings.HasSuffix(e.Name, straySuffix) {
						t.Errorf("%s/%s is left", d, e.Name)
					}
				}
			}
			h.add(h.log("t", 2, 0), 1)
		})
	}
}

// TestExchangeWithoutDescriptors: a new log that does not open in its place, for whatever reason, leaves it to the old one.
func TestExchangeWithoutDescriptors(t *testing.T) {
	h := newHouse(t, "/a", "/b")
	l := h.log("t", 1, 0)
	h.add(l, 10)
	want, err := whole(l)
	h.ok(err)
	h.fill()
	h.exchangeFails(func(op, name string) error {
		if op == "readdir" && name == "/b/t-0" {
			return syscall.EMFILE
		}
		return nil
	})
	h.ok(h.s.Close(true))
	h.open()
	if got, err := whole(h.log("t", 1, 0)); err != nil || got != want {
		t.Fatalf("%d bytes of %d, %v", len(got), len(want), err)
	}
}

// TestExchangeInsists: a lack of descriptors that passes stops no exchange half way. Before that the log that was filled may
// be given up, and the partition goes on with what it has.
func TestExchangeInsists(t *testing.T) {
	again, givenUp := 0, 0
	for at := 0; ; at++ {
		h := newHouse(t, "/a", "/b")
		l := h.log("t", 1, 0)
		h.add(l, 10)
		want, err := whole(l)
		h.ok(err)
		h.fill()
		asked, refused := 0, 0
		h.fs.Refuse(func(op, name string) error {
			switch op {
			case "open", "create", "readdir", "syncdir":
				if asked++; asked > at && refused < 3 {
					refused++
					return syscall.EMFILE
				}
			}
			return nil
		})
		l, touched, err := h.s.FinishMove("t", [16]byte{1}, 0)
		h.fs.Refuse(nil)
		switch {
		case err == nil:
		case touched:
			t.Fatalf("after %d files: %v", at, err)
		case errors.Is(err, log.ErrNoDescriptor):
			again++
			l, _, err = h.s.FinishMove("t", [16]byte{1}, 0)
			if err != nil {
				t.Fatalf("after %d files, once more: %v", at, err)
			}
		default:
			givenUp++
			h.ok(h.s.CancelMove("t", 0))
			l = h.log("t", 1, 0)
		}
		if got, err := whole(l); err != nil || got != want {
			t.Fatalf("after %d files: %d bytes of %d, %v", at, len(got), len(want), err)
		}
		h.add(l, 1)
		h.ok(h.s.Close(true))
		h.open()
		h.end(h.log("t", 1, 0), 11)
		if refused == 0 {
			if at < 20 || again == 0 || givenUp == 0 {
				t.Errorf("an exchange takes %d files; %d times it was begun again, %d times given up", at, again, givenUp)
			}
			return
		}
	}
}

// TestExchangeOfWhatIsOutOfUse: what a log that is out of use holds nobody knows before the next start. It is read until then, and
// no copy takes its place, which would be one of another log.
func TestExchangeOfWhatIsOutOfUse(t *testing.T) {
	h := newHouse(t, "/a", "/b")
	c := log.DefaultConfig()
	c.IndexIntervalBytes = 1
	l, err := h.s.Log("t", [16]byte{1}, 0, c)
	h.ok(err)
	h.add(l, 10)
	want, err := whole(l)
	h.ok(err)
	f, err := h.s.BeginMove("t", [16]byte{1}, 0, "/b")
	h.ok(err)
	h.ok(copyTo(f, l))
	const index = "/a/t-0/00000000000000000000.index"
	h.ok(h.fs.Remove(index))
	h.ok(h.fs.MkdirAll(index))
	for n := 0; l.OutOfUse() == nil; n++ {
		if n == 10_000 {
			t.Fatal("every batch is appended")
		}
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(1, nil, nil)
		b := u.Bytes()
		parsed, err := batch.ParseHeader(b)
		h.ok(err)
		if _, err := l.Append(b, parsed, 1); err == nil {
			want += string(b)
			_, err = f.AppendAsFollower(b)
			h.ok(err)
		}
	}
	if _, touched, err := h.s.FinishMove("t", [16]byte{1}, 0); touched || !errors.As(err, new(*log.UnusableError)) {
		t.Errorf("the exchange, the log touched %v: %v", touched, err)
	}
	if got, err := whole(h.log("t", 1, 0)); err != nil || got != want {
		t.Errorf("%d bytes of %d are read: %v", len(got), len(want), err)
	}
}
