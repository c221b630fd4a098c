package epoch

import (
	"testing"

	"pgregory.net/rapid"

	"millrace/storage/batch"
)

func cache(t testing.TB, pairs ...int64) Cache {
	t.Helper()
	var entries []Entry
	for i := 0; i < len(pairs); i += 2 {
		entries = append(entries, Entry{Epoch: batch.LeaderEpoch(pairs[i]), Start: batch.Offset(pairs[i+1])})
	}
	c, ok := New(entries)
	if !ok {
		t.Fatalf("entries %v do not increase", entries)
	}
	return c
}

func TestAssign(t *testing.T) {
	for _, c := range []struct {
		name         string
		before, want []int64
		epoch, start int64
	}{
		{"first", nil, []int64{3, 10}, 3, 10},
		{"next", []int64{3, 10}, []int64{3, 10, 5, 20}, 5, 20},
		{"again", []int64{3, 10}, []int64{3, 10}, 3, 15},
		{"same start replaces the older", []int64{3, 10}, []int64{4, 10}, 4, 10},
		{"replaces what starts behind", []int64{1, 0, 3, 10, 4, 20}, []int64{1, 0, 5, 10}, 5, 10},
		{"older epoch drops newer ones", []int64{1, 0, 3, 10, 7, 20}, []int64{1, 0, 2, 30}, 2, 30},
	} {
		got := cache(t, c.before...).Assign(batch.LeaderEpoch(c.epoch), batch.Offset(c.start))
		if !got.Equal(cache(t, c.want...)) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestTruncate(t *testing.T) {
	c := cache(t, 1, 0, 3, 10, 4, 20)
	for end, want := range map[batch.Offset]Cache{0: {}, 1: cache(t, 1, 0), 10: cache(t, 1, 0), 11: cache(t, 1, 0, 3, 10), 20: cache(t, 1, 0, 3, 10), 21: c} {
		if got := c.TruncateFromEnd(end); !got.Equal(want) {
			t.Errorf("end %d: %v", end, got)
		}
	}
	for start, want := range map[batch.Offset]Cache{0: c, 5: cache(t, 1, 5, 3, 10, 4, 20), 10: cache(t, 3, 10, 4, 20), 15: cache(t, 3, 15, 4, 20), 20: cache(t, 4, 20), 99: cache(t, 4, 99)} {
		if got := c.TruncateFromStart(start); !got.Equal(want) {
			t.Errorf("start %d: %v", start, got)
		}
	}
}

func TestEndOffset(t *testing.T) {
	c := cache(t, 2, 5, 4, 10, 7, 20)
	for asked, want := range map[batch.LeaderEpoch]Entry{
		-1: {-1, -1}, 0: {0, 5}, 1: {1, 5}, 2: {2, 10}, 3: {2, 10}, 4: {4, 20}, 6: {4, 20}, 7: {7, 30}, 8: {-1, -1},
	} {
		e, o := c.EndOffset(asked, 30)
		if (Entry{e, o}) != want {
			t.Errorf("epoch %d: %d, %d, want %v", asked, e, o, want)
		}
	}
	if e, o := c.EndOffset(-5, 30); e != -5 || o != c.entries[0].Start {
		t.Errorf("a negative epoch that is not -1 ends at %d, %d", e, o)
	}
	if e, o := (Cache{}).EndOffset(0, 30); e != -1 || o != -1 {
		t.Errorf("empty: %d, %d", e, o)
	}
	for o, want := range map[batch.Offset]batch.LeaderEpoch{0: -1, 5: 2, 9: 2, 10: 4, 25: 7} {
		if got := c.At(o); got != want {
			t.Errorf("at %d: %d, want %d", o, got, want)
		}
	}
}

// TestAgainstModel compares a cache with the epoch of each offset written down one by one.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Cache
		var epochs []batch.LeaderEpoch // by offset
		start, epoch := 0, batch.LeaderEpoch(0)
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				if rapid.Bool().Draw(t, "new epoch") || len(epochs) == start {
					epoch += batch.LeaderEpoch(rapid.IntRange(1, 3).Draw(t, "step"))
				}
				c = c.Assign(epoch, batch.Offset(len(epochs)))
				for range rapid.IntRange(1, 4).Draw(t, "records") {
					epochs = append(epochs, epoch)
				}
			},
			"truncate": func(t *rapid.T) {
				to := rapid.IntRange(start, len(epochs)).Draw(t, "to")
				epochs = epochs[:to]
				c = c.TruncateFromEnd(batch.Offset(to))
				epoch++ // an epoch is not used again behind a truncation
			},
			"start": func(t *rapid.T) {
				if len(epochs) == start {
					t.Skip("empty")
				}
				start = rapid.IntRange(start, len(epochs)-1).Draw(t, "start")
				c = c.TruncateFromStart(batch.Offset(start))
			},
			"": func(t *rapid.T) {
				for o := start; o < len(epochs); o++ {
					if got := c.At(batch.Offset(o)); got != epochs[o] {
						t.Fatalf("epoch at %d is %d, want %d; %v", o, got, epochs[o], c)
					}
				}
				for asked := batch.LeaderEpoch(0); asked <= epoch+1; asked++ {
					e, o := c.EndOffset(asked, batch.Offset(len(epochs)))
					if e < 0 {
						if len(epochs) > start && asked <= epochs[len(epochs)-1] {
							t.Fatalf("epoch %d is unknown; %v", asked, c)
						}
						continue
					}
					// Every record below the end is of the asked epoch or an older one, every other of a newer one.
					for i := start; i < len(epochs); i++ {
						if (batch.Offset(i) < o) != (epochs[i] <= asked) {
							t.Fatalf("epoch %d ends at %d, record %d is of %d; %v", asked, o, i, epochs[i], c)
						}
					}
				}
				d, err := Decode(c.Encode())
				if err != nil || !d.Equal(c) {
					t.Fatalf("file: %v, %v, want %v", d, err, c)
				}
			},
		})
	})
}

func TestFile(t *testing.T) {
	if got := string(cache(t, 0, 0, 12, 345).Encode()); got != "0\n2\n0 0\n12 345\n" {
		t.Errorf("%q", got)
	}
	for _, bad := range []string{"1\n0\n", "0\n", "0\n-1\n", "0\n2\n0 0\n", "0\n1\n0 0\n1 1\n", "0\n1\n0\n", "0\n2\n1 0\n0 5\n", "0\n2\n0 5\n1 5\n", "0\n1\n-1 0\n", "0\n1\n0 -1\n", "0\n1\nx 0\n", "0\n1\n0 99999999999999999999\n"} {
		if c, err := Decode([]byte(bad)); err == nil {
			t.Errorf("%q: %v", bad, c)
		}
	}
	if c, err := Decode(nil); err != nil || c.Len() != 0 {
		t.Errorf("empty file: %v, %v", c, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("0\n2\n0 0\n12 345\n"))
	f.Add([]byte("0\n2147483647\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Decode(b)
		if err != nil {
			return
		}
		d, err := Decode(c.Encode())
		if err != nil || !d.Equal(c) {
			t.Fatalf("%q decodes as %v, again as %v, %v", b, c, d, err)
		}
	})
}
