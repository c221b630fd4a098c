package storage

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"millrace/storage/batch"
	"millrace/storage/compact"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// compactedLog has in /a a compacted log of three closed segments, each with the same keys.
func compactedLog(t *testing.T) (*house, *log.Log) {
	h := newHouse(t, "/a", "/b")
	l, err := h.s.Log("t", [16]byte{1}, 0, compacted())
	h.ok(err)
	for round := range 4 {
		for key := range 3 {
			appendTo(t, l, batch.BuilderOptions{}, producer.Rules{}, 1, fmt.Append(nil, key), fmt.Append(nil, round))
		}
		if round < 3 {
			h.ok(l.Roll())
		}
	}
	l.SetHighWatermark(l.View().LogEnd())
	return h, l
}

// washNow cleans what of a log can be.
func washNow(l *log.Log, throttle func(<-chan struct{}, int) error) (log.Cleaned, error) {
	r, err := l.Cleanable(1_000_000)
	if err != nil {
		return log.Cleaned{}, err
	}
	return l.Clean(log.CleanOptions{Range: r, Now: 1_000_000, Keys: compact.NewKeys(1<<20, 0.9), Buffer: 100, Exclusive: func(f func() error) error { return f() }, Throttle: throttle})
}

// keysOf is the offsets a log holds.
func keysOf(t *testing.T, l *log.Log) string {
	t.Helper()
	v := l.View()
	var out []string
	for at := v.LogStart(); at < v.LogEnd(); {
		s, err := v.Read(at, v.LogEnd(), 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, s.Len())
		_, err = s.ReadAt(b, 0)
		s.Release()
		if err != nil {
			t.Fatal(err)
		}
		for len(b) > 0 {
			h, err := batch.ParseHeader(b)
			if err != nil {
				t.Fatal(err)
			}
			for r, err := range batch.Records(b[:h.Size()], 0) {
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, fmt.Sprintf("%d:%s", r.Offset, r.Key))
			}
			at, b = h.NextOffset(), b[h.Size():]
		}
	}
	return strings.Join(out, " ")
}

// TestMoveEndsACleaning: a move that begins while the log is cleaned ends the cleaning, at whichever of its steps it is, and
// leaves nothing of it; none begins while the move goes on. The log that took the place is cleaned from where the other had
// come to, and that outlives a crash.
func TestMoveEndsACleaning(t *testing.T) {
	for _, upTo := range []int{1, 2, 4, 7} { // how often the cleaning has read or written
		h, l := compactedLog(t)
		want := keysOf(t, l)
		begun, paused := make(chan struct{}), make(chan struct{})
		var once sync.Once
		n := 0
		var cleaned error
		var cleaning sync.WaitGroup
		cleaning.Go(func() {
			_, cleaned = washNow(l, func(stop <-chan struct{}, _ int) error {
				if n++; n < upTo {
					return nil
				}
				once.Do(func() { close(begun) })
				<-stop
				return errors.New("stopped")
			})
		})
		<-begun
		go func() { l.PauseCleaning(); close(paused) }()
		<-paused
		cleaning.Wait()
		if !errors.Is(cleaned, log.ErrClosed) || !l.CleaningPaused() {
			t.Fatalf("the cleaning ends with %v", cleaned)
		}
		entries, err := h.fs.ReadDir("/a/t-0")
		h.ok(err)
		for _, e := range entries {
			if strings.Contains(e.Name, ".cleaned") || strings.Contains(e.Name, ".swap") {
				t.Errorf("%s is left", e.Name)
			}
		}
		f, err := h.s.BeginMove("t", [16]byte{1}, 0, "/b")
		h.ok(err)
		if _, err := washNow(l, nil); !errors.Is(err, log.ErrClosed) {
			t.Fatalf("a log on its way is cleaned: %v", err)
		}
		if got := keysOf(t, l); got != want {
			t.Fatalf("the cleaning that was ended left %s of %s", got, want)
		}
		v := l.View()
		for at := v.LogStart(); at < v.LogEnd(); at = f.View().LogEnd() {
			s, err := v.Read(at, v.LogEnd(), 1<<20, true)
			h.ok(err)
			b := make([]byte, s.Len())
			_, err = s.ReadAt(b, 0)
			h.ok(err)
			s.Release()
			_, err = f.AppendAsFollower(b)
			h.ok(err)
			h.ok(f.Roll())
		}
		f.SetHighWatermark(v.HighWatermark())
		moved, _, err := h.s.FinishMove("t", [16]byte{1}, 0)
		h.ok(err)
		out, err := washNow(moved, nil)
		h.ok(err)
		if out.To != 9 && out.To != 12 {
			t.Fatalf("%+v", out)
		}
		if got := keysOf(t, moved); !strings.Contains(want, got) || len(got) >= len(want) {
			t.Fatalf("cleaned to %s", got)
		}
		h.ok(h.s.storeCleaned(h.s.dirs[1], partitionKey{"t", 0}, moved))
		want = keysOf(t, moved)
		h.fs.Crash(nil)
		h.open()
		l, err = h.s.Log("t", [16]byte{1}, 0, compacted())
		h.ok(err)
		if at, _ := h.s.PlaceOf("t", 0); at != "/b" || l.CleanedTo() != out.To || keysOf(t, l) != want {
			t.Fatalf("at %s, cleaned to %d: %s, want %s", at, l.CleanedTo(), keysOf(t, l), want)
		}
	}
}
