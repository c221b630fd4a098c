package log

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/compact"
)

// TestCleanBesideOthers appends, reads, cleans, truncates and moves the log start at the same time. A record says which
// key it has and the how many-th of it it is: a reader never sees an older one of a key behind a newer one, and after a
// last cleaning the newest of each key is there and alone.
//
// With the policy compact,delete retention takes old segments away, too, beside a cleaning that may be at them. What is left
// of a key is then its newest record, unless that went with its segment.
func TestCleanBesideOthers(t *testing.T) {
	for name, deletes := range map[string]bool{"compact": false, "compact,delete": true} {
		t.Run(name, func(t *testing.T) { cleanBesideOthers(t, deletes) })
	}
}

func cleanBesideOthers(t *testing.T, deletes bool) {
	x := newLaundry(t, Config{SegmentBytes: 700, DeleteRetentionMs: 1, Delete: deletes})
	l := x.log
	var mu sync.Mutex // the partition's
	exclusive := func(f func() error) error { mu.Lock(); defer mu.Unlock(); return f() }
	const keys, appends = 7, 1500
	newest := [keys]batch.Offset{} // of each key
	var done atomic.Bool
	var wg sync.WaitGroup
	put := func(i int) error {
		k := i % keys
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(int64(1_000_000+i), []byte{byte('a' + k)}, fmt.Append(nil, i))
		if i%11 == 0 {
			u.Add(int64(1_000_000+i), []byte("tombstone"), nil)
		}
		b := u.Bytes()
		h, _ := batch.ParseHeader(b)
		return exclusive(func() error {
			a, err := l.Append(b, h, int64(1_000_000+i))
			l.SetHighWatermark(l.View().LogEnd())
			newest[k] = a.Base
			return err
		})
	}
	failed := make(chan error, 16)
	fail := func(err error) {
		done.Store(true)
		select {
		case failed <- err:
		default:
		}
	}
	var looks, cleanings, overtaken atomic.Int64
	var cleaning atomic.Bool // one reads or writes
	removed, beside := 0, 0
	// retain applies retention: by size, and now and then to all there is, so that it finds something whatever was cleaned.
	// It waits for a cleaning to be under way, unless there is nothing to clean.
	retain := func(all bool) error {
		for from := looks.Load(); !cleaning.Load() && !done.Load() && looks.Load() < from+2; {
			time.Sleep(50 * time.Microsecond)
		}
		return exclusive(func() error {
			if cleaning.Load() {
				beside++
			}
			c := l.Config()
			if c.RetentionBytes = 1000; all {
				c.RetentionBytes = 0
			}
			l.SetConfig(c)
			reasons, err := l.Retain(time.UnixMilli(2_000_000))
			removed += len(reasons)
			return err
		})
	}
	clean := func() error {
		if err := l.Flush(); err != nil {
			return err
		}
		r, err := l.Cleanable(2_000_000)
		if err != nil || !r.Due(0) {
			looks.Add(1)
			return err
		}
		_, err = l.Clean(CleanOptions{
			Range: r, Now: 2_000_000, Keys: compact.NewKeys(1<<20, 0.9), Buffer: 300, Exclusive: exclusive,
			Throttle: func(<-chan struct{}, int) error {
				if deletes && !cleaning.Swap(true) {
					time.Sleep(100 * time.Microsecond) // for what waits for it
				}
				return nil
			},
		})
		cleaning.Store(false)
		cleanings.Add(1)
		if errors.Is(err, ErrOvertaken) {
			overtaken.Add(1)
			return nil
		}
		return err
	}
	read := func() error {
		v := l.View()
		seen := map[string]int{}
		for at := v.LogStart(); at < v.HighWatermark(); {
			s, err := v.Read(at, v.HighWatermark(), 600, true)
			if errors.Is(err, ErrOffsetOutOfRange) {
				return nil // the log start, or a truncation, came by
			}
			if err != nil {
				return fmt.Errorf("read at %d: %w", at, err)
			}
			b, err := sectionBytes(s)
			if err != nil {
				return err
			}
			if len(b) == 0 {
				return nil
			}
			before := at
			for len(b) >= batch.HeaderSize {
				h, err := batch.ParseHeader(b)
				if err != nil || h.Size() > len(b) {
					break
				}
				if err := batch.CheckCRC(b[:h.Size()]); err != nil {
					return err
				}
				for r, err := range batch.Records(b[:h.Size()], 0) {
					if err != nil {
						return err
					}
					var n int
					if r.Value != nil {
						fmt.Sscan(string(r.Value), &n)
						if k := string(r.Key); n < seen[k] {
							return fmt.Errorf("record %d of key %s behind %d", n, k, seen[k])
						}
						seen[string(r.Key)] = n
					}
				}
				at = h.NextOffset()
				b = b[h.Size():]
			}
			if at == before {
				return fmt.Errorf("nothing whole at %d", at)
			}
		}
		if _, _, err := v.OffsetForTime(1_000_700, v.HighWatermark()); err != nil {
			return fmt.Errorf("look-up by time: %w", err)
		}
		return nil
	}
	for _, f := range []func() error{clean, read, read} {
		wg.Go(func() {
			for !done.Load() {
				if err := f(); err != nil {
					fail(err)
				}
			}
		})
	}
	for i := range appends {
		if done.Load() {
			break
		}
		if err := put(i + 1); err != nil {
			fail(err)
		}
		if deletes && i%40 == 20 {
			if err := retain(i%200 == 100); err != nil {
				fail(err)
			}
		}
		if i%200 == 150 {
			if err := exclusive(func() error { return l.SetLogStart(l.View().LogStart() + 5) }); err != nil {
				fail(err)
			}
		}
		if i%400 == 399 {
			// What is cut off is appended again, so that the newest of each key stays the last.
			if err := exclusive(func() error {
				if v := l.View(); v.LogEnd() > v.LogStart() {
					return l.Truncate(v.LogEnd() - 1)
				}
				return nil
			}); err != nil {
				fail(err)
			}
			for j := i - keys + 1; j <= i; j++ {
				if err := put(j + 1); err != nil {
					fail(err)
				}
			}
		}
	}
	done.Store(true)
	wg.Wait()
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
	x.roll()
	put(appends + 1)
	if err := clean(); err != nil {
		t.Fatal(err)
	}
	there := map[string]int{}
	v := l.View()
	for at := v.LogStart(); at < l.CleanedTo(); {
		s, err := v.Read(at, v.LogEnd(), 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		b, err := sectionBytes(s)
		if err != nil {
			t.Fatal(err)
		}
		for len(b) > 0 {
			h, _ := batch.ParseHeader(b)
			for r, err := range batch.Records(b[:h.Size()], 0) {
				if err != nil {
					t.Fatal(err)
				}
				if r.Offset < l.CleanedTo() && r.Value != nil {
					there[string(r.Key)]++
				}
			}
			at, b = h.NextOffset(), b[h.Size():]
		}
	}
	for k, o := range newest {
		key, want := string(rune('a'+k)), 1
		if o < v.LogStart() || o >= l.CleanedTo() {
			want = there[key] // it went with its segment, or is not to be cleaned yet
		}
		if want > 1 || there[key] != want {
			t.Errorf("key %s, of which the newest record is %d, is there %d times", key, o, there[key])
		}
		delete(there, key)
	}
	if len(there) > 0 {
		t.Errorf("others are there, too: %v", there)
	}
	t.Logf("%d cleanings, %d of them overtaken; %d segments removed, %d times beside a cleaning", cleanings.Load(), overtaken.Load(), removed, beside)
	if cleanings.Load() == 0 || deletes && (removed < 20 || beside < 5) {
		t.Errorf("%d cleanings, %d segments removed, %d times beside a cleaning: too little happened", cleanings.Load(), removed, beside)
	}
}
