package compact

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"millrace/storage/batch"
)

func TestLook(t *testing.T) {
	segs := []Segment{{Base: 0, Size: 100, Largest: 10, First: 5}, {Base: 10, Size: 200, Largest: 20, First: 15}, {Base: 20, Size: 300, Largest: 30, First: 25}, {Base: 30, Size: 1000}}
	for _, x := range []struct {
		name string
		log  Log
		now  int64
		want Range
	}{
		{"nothing", Log{Cleaned: -1}, 0, Range{}},
		{"never cleaned", Log{End: 35, LastStable: 35, Cleaned: -1, Segments: segs, Lags: NoLags}, 0, Range{From: 0, Upper: 30, Dirty: 600}},
		{"cleaned in part", Log{End: 35, LastStable: 35, Cleaned: 10, Segments: segs, Lags: NoLags}, 0, Range{From: 10, Upper: 30, Clean: 100, Dirty: 500}},
		// As in Kafka, a segment that was cleaned in part counts on both sides.
		{"cleaned within a segment", Log{End: 35, LastStable: 35, Cleaned: 15, Segments: segs, Lags: NoLags}, 0, Range{From: 15, Upper: 30, Clean: 300, Dirty: 500}},
		{"cleaned whole", Log{End: 35, LastStable: 35, Cleaned: 30, Segments: segs, Lags: NoLags}, 0, Range{From: 30, Upper: 30, Clean: 600}},
		{"an open transaction", Log{End: 35, LastStable: 25, Cleaned: -1, Segments: segs, Lags: NoLags}, 0, Range{From: 0, Upper: 20, Dirty: 300}},
		{"an open transaction where cleaning would begin", Log{End: 35, LastStable: 15, Cleaned: 10, Segments: segs, Lags: NoLags}, 0, Range{From: 10, Upper: 10, Clean: 100}},
		{"the log start is behind the checkpoint", Log{Start: 12, End: 35, LastStable: 35, Cleaned: 3, Segments: segs, Lags: NoLags}, 0, Range{From: 12, Upper: 30, Clean: 300, Dirty: 500, Reset: true}},
		{"the log ends before the checkpoint", Log{End: 35, LastStable: 35, Cleaned: 99, Segments: segs, Lags: NoLags}, 0, Range{From: 0, Upper: 30, Dirty: 600, Reset: true}},
		{"too young", Log{End: 35, LastStable: 35, Cleaned: -1, Segments: segs, Lags: Lags{MinMs: 15, MaxMs: math.MaxInt64}}, 34, Range{From: 0, Upper: 10, Dirty: 100}},
		{"late", Log{End: 35, LastStable: 35, Cleaned: 10, Segments: segs, Lags: Lags{MaxMs: 7}}, 40, Range{From: 10, Upper: 30, Clean: 100, Dirty: 500, LateMs: 18}},
	} {
		if got := Look(x.log, x.now); got != x.want {
			t.Errorf("%s: %+v, want %+v", x.name, got, x.want)
		}
	}
	if n := Filthiest([]Candidate{{Range{Clean: 10, Dirty: 9}, 0.5}, {Range{Clean: 10, Dirty: 11}, 0.5}, {Range{Clean: 10, Dirty: 30}, 0.9}, {Range{Clean: 90, Dirty: 10, LateMs: 1}, 0.5}}); n != 1 {
		t.Errorf("the dirtiest is %d", n)
	}
	if n := Filthiest([]Candidate{{Range{Clean: 90, Dirty: 10, LateMs: 1}, 0.5}, {Range{LateMs: 1}, 0}}); n != 0 {
		t.Errorf("the late one is %d", n)
	}
}

func TestGroup(t *testing.T) {
	bases := func(groups [][]Segment) (out [][]batch.Offset) {
		for _, g := range groups {
			var list []batch.Offset
			for _, s := range g {
				list = append(list, s.Base)
			}
			out = append(out, list)
		}
		return out
	}
	l := Limits{Bytes: 100, Index: 50}
	for _, x := range []struct {
		name  string
		segs  []Segment
		upper batch.Offset
		want  [][]batch.Offset
	}{
		{"none", nil, 0, nil},
		{"by size", []Segment{{Base: 0, Size: 60}, {Base: 1, Size: 40}, {Base: 2, Size: 1}}, 3, [][]batch.Offset{{0, 1}, {2}}},
		{"one that is too large", []Segment{{Base: 0, Size: 600}, {Base: 1, Size: 4}}, 3, [][]batch.Offset{{0}, {1}}},
		{"by index", []Segment{{Base: 0, OffsetIndex: 40}, {Base: 1, OffsetIndex: 16}, {Base: 2, TimeIndex: 50}, {Base: 3, TimeIndex: 12}}, 4, [][]batch.Offset{{0}, {1, 2}, {3}}},
		{"by offsets", []Segment{{Base: 0, Size: 1}, {Base: 10, Size: 1}, {Base: math.MaxInt32, Size: 1}}, math.MaxInt32 + 2, [][]batch.Offset{{0, 10}, {math.MaxInt32}}},
		{"an empty one behind many offsets", []Segment{{Base: 0, Size: 1}, {Base: 1 << 40}}, 1<<40 + 1, [][]batch.Offset{{0, 1 << 40}}},
	} {
		if got := bases(Group(x.segs, l, x.upper)); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
}

// TestKeys compares the keys with a map, up to where there is no room.
func TestKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pages := rapid.IntRange(1, 6).Draw(t, "pages")
		load := rapid.SampledFrom([]float64{0.01, 0.3, 0.9, 1}).Draw(t, "load")
		k := NewKeys(int64(pages*pageSize), load)
		if k.Bytes() != 0 {
			t.Fatal("it takes memory before the first key")
		}
		want := map[string]batch.Offset{}
		full := false
		for i := range rapid.IntRange(0, 6000).Draw(t, "keys") {
			key := fmt.Sprint((i * 7919) % 4500)
			if !k.Put(batch.KeyOf([]byte(key)), batch.Offset(i)) {
				if _, known := want[key]; known {
					t.Fatal("there is no room for a key that is there")
				}
				full = true
				break
			}
			want[key] = batch.Offset(i)
		}
		if k.Len() != len(want) || k.Bytes() > int64(pages*pageSize) {
			t.Fatalf("%d keys of %d, %d bytes", k.Len(), len(want), k.Bytes())
		}
		if full && len(want) < k.fill {
			t.Fatalf("full with %d keys", len(want))
		}
		for key, o := range want {
			if got := k.Get(batch.KeyOf([]byte(key))); got != o {
				t.Fatalf("key %s is at %d, want %d", key, got, o)
			}
		}
		if k.Get(batch.KeyOf([]byte("nobody"))) != batch.NoOffset {
			t.Fatal("a key that was not put is there")
		}
		k.Clear()
		if k.Len() != 0 || k.Bytes() != 0 || k.Latest() != batch.NoOffset {
			t.Fatal("Clear leaves something")
		}
	})
}

// TestStaleTransaction: an entry of the index whose marker has gone does not make a later transaction an aborted one.
func TestStaleTransaction(t *testing.T) {
	x := NewTransactions()
	x.Add([]Aborted{{ProducerID: 1, First: 5, Last: 9}})
	h := batch.Header{BaseOffset: 20, ProducerID: 1, Attributes: 0x10}
	if x.Data(h) {
		t.Error("a batch behind the marker is taken for one of the transaction")
	}
	x = NewTransactions()
	x.Add([]Aborted{{ProducerID: 1, First: 5, Last: 9}, {ProducerID: 1, First: 5, Last: 9}})
	h.BaseOffset = 5
	if !x.Data(h) {
		t.Error("a batch of an aborted transaction is not")
	}
	if done, a := x.Control(batch.Header{BaseOffset: 9, ProducerID: 1, Count: 1, Attributes: 0x30}, &batch.Marker{Type: batch.Abort}); done || a == nil || a.First != 5 {
		t.Errorf("its marker: %v, %+v", done, a)
	}
	h.BaseOffset = 11
	if x.Data(h) {
		t.Error("a batch behind the marker is taken for one of the transaction")
	}
	if done, _ := x.Control(batch.Header{BaseOffset: 12, ProducerID: 1, Count: 1, Attributes: 0x30}, &batch.Marker{Type: batch.Commit}); done {
		t.Error("a commit marker may go although a batch is left")
	}
	if done, _ := x.Control(batch.Header{BaseOffset: 15, ProducerID: 1, Count: 1, Attributes: 0x30}, &batch.Marker{Type: batch.Commit}); !done {
		t.Error("a marker of nothing has to stay")
	}
}

func BenchmarkKeys(b *testing.B) {
	k := NewKeys(128<<20, 0.9)
	key := make([]byte, 16)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for j := range 8 {
			key[j] = byte(i >> (8 * j))
		}
		k.Put(batch.KeyOf(key), batch.Offset(i))
	}
}
