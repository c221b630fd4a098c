package session

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"millrace/storage/batch"
)

func key(i int) Key { return Key{Topic: "t", Index: int32(i)} }

func parts(is ...int) []Partition {
	var ps []Partition
	for _, i := range is {
		ps = append(ps, Partition{Key: key(i), MaxBytes: 100})
	}
	return ps
}

func found(ps []Partition) []Result {
	var rs []Result
	for _, p := range ps {
		rs = append(rs, Result{Key: p.Key, HighWatermark: 10})
	}
	return rs
}

func open(t testing.TB, s *Shard, now int64, follower bool, is ...int) int32 {
	t.Helper()
	ps := parts(is...)
	return s.Open(OpenRequest{Now: now, Follower: follower, Partitions: ps, Results: found(ps), Chance: uint32(now)})
}

func indexes(ps []Partition) []int {
	var is []int
	for _, p := range ps {
		is = append(is, int(p.Index))
	}
	return is
}

func TestIdsLeadHome(t *testing.T) {
	for i, s := range New(DefaultSlots, nil) {
		for _, chance := range []uint32{0, 1, math.MaxUint32, span - 1, span, span - 2} {
			ps := parts(1)
			id := s.Open(OpenRequest{Partitions: ps, Results: found(ps), Chance: chance})
			if id <= 0 || Home(id) != i {
				t.Errorf("shard %d, chance %d: id %d is at home in %d", i, chance, id, Home(id))
			}
		}
		if n := s.Stats().Sessions; n != 6 {
			t.Errorf("shard %d: %d sessions, want 6: the same chance must not give the same id", i, n)
		}
	}
	for _, id := range []int32{-1, 0, math.MaxInt32, math.MinInt32} {
		if h := Home(id); h < 0 || h >= Shards {
			t.Errorf("session %d is at home in %d", id, h)
		}
	}
}

func TestErrorsLeaveTheSessionAsItIs(t *testing.T) {
	s := New(80, nil)[0]
	id := open(t, s, 1, false, 1, 2)
	for _, c := range []struct {
		name string
		r    ContinueRequest
		want error
	}{
		{"another id", ContinueRequest{ID: id + 1, Epoch: 1}, ErrUnknown},
		{"an epoch ahead", ContinueRequest{ID: id, Epoch: 2}, ErrEpoch},
		{"by topic id", ContinueRequest{ID: id, Epoch: 1, TopicIDs: true}, ErrTopicIDs},
		{"an epoch ahead, by topic id", ContinueRequest{ID: id, Epoch: 2, TopicIDs: true}, ErrEpoch},
	} {
		if _, _, err := s.Continue(c.r); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	ps, ok, err := s.Continue(ContinueRequest{ID: id, Epoch: 1})
	if err != nil || !ok || !slices.Equal(indexes(ps), []int{1, 2}) {
		t.Fatalf("the session went with an error: %v %v %v", ps, ok, err)
	}
	if _, _, err := s.Continue(ContinueRequest{ID: id, Epoch: 1}); err != ErrEpoch {
		t.Errorf("the same epoch again: %v", err)
	}
}

func TestEpochWraps(t *testing.T) {
	s := New(80, nil)[0]
	id := open(t, s, 1, false, 1)
	s.sessions[id].epoch = math.MaxInt32
	if _, _, err := s.Continue(ContinueRequest{ID: id, Epoch: math.MaxInt32}); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(id, math.MaxInt32, found(parts(1))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Continue(ContinueRequest{ID: id, Epoch: 1}); err != nil {
		t.Errorf("after the largest epoch comes 1: %v", err)
	}
}

func TestForgettingTheLastClosesTheSession(t *testing.T) {
	s := New(80, nil)[0]
	id := open(t, s, 1, false, 1, 2)
	ps, ok, err := s.Continue(ContinueRequest{ID: id, Epoch: 1, Forgotten: []Key{key(1), key(7)}})
	if err != nil || !ok || !slices.Equal(indexes(ps), []int{2}) {
		t.Fatalf("%v %v %v", ps, ok, err)
	}
	if ps, ok, err = s.Continue(ContinueRequest{ID: id, Epoch: 2, Forgotten: []Key{key(2)}}); err != nil || ok || len(ps) != 0 {
		t.Fatalf("%v %v %v", ps, ok, err)
	}
	if _, _, err = s.Continue(ContinueRequest{ID: id, Epoch: 3}); err != ErrUnknown {
		t.Errorf("the session is still there: %v", err)
	}
	empty := open(t, s, 1, false)
	if empty == None {
		t.Fatal("a session without partitions does not open")
	}
	if ps, ok, err = s.Continue(ContinueRequest{ID: empty, Epoch: 1, Partitions: parts(4)}); err != nil || !ok || len(ps) != 1 {
		t.Errorf("%v %v %v", ps, ok, err)
	}
}

// TestWhatIsSent walks one partition through everything that makes an answer carry it.
func TestWhatIsSent(t *testing.T) {
	s := New(80, nil)[0]
	id := open(t, s, 1, false, 1) // sent with high watermark 10, log start 0
	epoch := int32(0)
	for _, c := range []struct {
		name string
		r    Result
		send bool
	}{
		{"nothing new", Result{HighWatermark: 10}, false},
		{"records", Result{HighWatermark: 10, Bytes: 1}, true},
		{"a higher high watermark", Result{HighWatermark: 11}, true},
		{"nothing new again", Result{HighWatermark: 11}, false},
		{"log start moved", Result{HighWatermark: 11, LogStart: 3}, true},
		{"a preferred replica", Result{HighWatermark: 11, LogStart: 3, Preferred: true}, true},
		{"a preferred replica again", Result{HighWatermark: 11, LogStart: 3, Preferred: true}, true},
		{"a diverging epoch", Result{HighWatermark: 11, LogStart: 3, Diverging: true}, true},
		{"an error", Result{HighWatermark: -1, LogStart: -1, Error: true}, true},
		{"the error goes on", Result{HighWatermark: -1, LogStart: -1, Error: true}, true},
		{"the error is over", Result{HighWatermark: 11, LogStart: -1}, true},
		{"and nothing new", Result{HighWatermark: 11, LogStart: -1}, false},
	} {
		epoch++
		if _, _, err := s.Continue(ContinueRequest{ID: id, Epoch: epoch}); err != nil {
			t.Fatal(err)
		}
		r := []Result{c.r}
		r[0].Key = key(1)
		if err := s.Finish(id, epoch, r); err != nil {
			t.Fatal(err)
		}
		if r[0].Send != c.send {
			t.Errorf("%s: send is %v, want %v", c.name, r[0].Send, c.send)
		}
	}
}

func TestEviction(t *testing.T) {
	const old = evictAfter + 1
	for _, c := range []struct {
		name     string
		follower bool // who is there
		size     int
		at, used int64 // opened and last used
		byF      bool  // who comes
		bySize   int
		now      int64
		want     bool
	}{
		{"a consumer finds a young consumer", false, 1, 0, 0, false, 9, 10, false},
		{"a follower finds a young consumer", false, 9, 0, 0, true, 1, 10, true},
		{"a follower finds a young follower", true, 1, 0, 0, true, 9, 10, false},
		{"a consumer finds an old smaller consumer", false, 1, 0, old, false, 2, old, true},
		{"a consumer finds an old consumer of its size", false, 2, 0, old, false, 2, old, false},
		{"a consumer finds an old follower", true, 1, 0, old, false, 9, old, false},
		{"a follower finds an old smaller follower", true, 1, 0, old, true, 2, old, true},
		{"anybody finds an idle one", true, 9, 0, 0, false, 1, old, true},
		{"not idle for long enough", true, 9, 0, 0, false, 1, evictAfter, false},
	} {
		s := New(Shards, nil)[0]
		var is []int
		for i := range c.size {
			is = append(is, i)
		}
		id := open(t, s, c.at, c.follower, is...)
		if c.used > c.at {
			if _, _, err := s.Continue(ContinueRequest{Now: c.used, ID: id, Epoch: 1}); err != nil {
				t.Fatal(err)
			}
		}
		is = is[:0]
		for i := range c.bySize {
			is = append(is, i)
		}
		got := open(t, s, c.now, c.byF, is...)
		if (got != None) != c.want {
			t.Errorf("%s: session %d", c.name, got)
		}
		if st := s.Stats(); st.Sessions != 1 || (st.Evicted == 1) != c.want {
			t.Errorf("%s: %+v", c.name, st)
		}
	}
}

func count(from, n int) []int {
	is := make([]int, n)
	for i := range is {
		is[i] = from + i
	}
	return is
}

// The partitions of all sessions are bounded: idle ones make room, others do not,
// and a session that grows beyond the bound is closed, with what was asked last.
func TestPartitionsAreBounded(t *testing.T) {
	const most, old = MostPartitions / Shards, evictAfter + 1
	var gone []int32
	s := New(DefaultSlots, func(id int32) { gone = append(gone, id) })[0]
	if open(t, s, 1, true, count(0, most+1)...) != None {
		t.Error("a session of more partitions than there may be")
	}
	half, rest := open(t, s, 1, false, count(0, most/2)...), open(t, s, 2, false, count(0, most/2-1)...)
	if half == None || rest == None {
		t.Fatal("no session within the bound")
	}
	if open(t, s, 3, false, 1, 2) != None || open(t, s, evictAfter, false, 1, 2) != None {
		t.Error("a session beyond the bound")
	}
	last := open(t, s, 3, false, 1)
	if st := s.Stats(); last == None || st.Partitions != most || st.Evicted != 0 {
		t.Fatalf("%+v", st)
	}
	if ps, ok, err := s.Continue(ContinueRequest{Now: evictAfter, ID: last, Epoch: 1, Partitions: parts(1), Forgotten: []Key{key(9)}}); err != nil || !ok || len(ps) != 1 {
		t.Fatalf("one that does not grow: %v %v %v", ps, ok, err)
	}
	ps, ok, err := s.Continue(ContinueRequest{Now: evictAfter, ID: last, Epoch: 2, Partitions: parts(2, 2)})
	if err != nil || ok || !slices.Equal(indexes(ps), []int{2}) || !slices.Equal(gone, []int32{last}) {
		t.Fatalf("one that grows: %v %v %v, gone %v", ps, ok, err, gone)
	}
	if _, _, err := s.Continue(ContinueRequest{Now: evictAfter, ID: last, Epoch: 3}); err != ErrUnknown {
		t.Errorf("it is still there: %v", err)
	}
	if _, _, err := s.Continue(ContinueRequest{Now: old, ID: half, Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	next := open(t, s, old+2, false, 1, 2)
	if next == None || !slices.Equal(gone, []int32{last, rest}) {
		t.Errorf("session %d beside an idle one, gone %v", next, gone)
	}
	if ps, ok, err := s.Continue(ContinueRequest{Now: 2 * old, ID: next, Epoch: 1, Partitions: parts(count(0, most)...)}); err != nil || !ok || len(ps) != most {
		t.Errorf("one that grows beside an idle one: %d partitions, %v %v", len(ps), ok, err)
	}
	if st := s.Stats(); st != (Stats{Sessions: 1, Partitions: most, Evicted: 2}) {
		t.Errorf("%+v", st)
	}
}

// Consumers' sessions do not keep a follower's out, or small: those of the least worth make room, and no more of them than
// have to. Followers' sessions do not make room for each other, nor for a consumer's.
func TestFollowersComeBeforeConsumersWithinTheBound(t *testing.T) {
	const most = MostPartitions / Shards
	var gone []int32
	s := New(DefaultSlots, func(id int32) { gone = append(gone, id) })[0]
	went := func(when string, want ...int32) {
		t.Helper()
		if !slices.Equal(gone, want) {
			t.Errorf("%s: gone are %v, want %v", when, gone, want)
		}
		if s.parts > most {
			t.Errorf("%s: %d partitions", when, s.parts)
		}
		gone = nil
	}
	large := open(t, s, 1, false, count(0, most-10)...)
	six := open(t, s, 2, false, count(0, 6)...)
	one := open(t, s, 3, false, 1)
	three := open(t, s, 4, false, count(0, 3)...)
	follower := open(t, s, 10, true, 1, 2)
	if follower == None {
		t.Fatal("a follower finds no room beside consumers")
	}
	went("a follower of two", one, three)
	if _, ok, err := s.Continue(ContinueRequest{Now: 11, ID: follower, Epoch: 1, Partitions: parts(count(3, 9)...)}); !ok || err != nil {
		t.Fatalf("a follower's session that grows beside consumers: %v %v", ok, err)
	}
	went("a follower that grows", six, large)
	rest := open(t, s, 12, false, count(0, most-11)...)
	if rest == None || s.parts != most {
		t.Fatalf("%d partitions", s.parts)
	}
	if open(t, s, 13, true, count(0, most-10)...) != None {
		t.Error("a follower's session beyond the bound")
	}
	went("a follower for whom the consumers' room is not enough")
	if open(t, s, 14, true, count(0, most-11)...) == None {
		t.Error("a follower finds no room beside a consumer")
	}
	went("a follower for whom it is", rest)
	if open(t, s, 15, true, 1) != None || open(t, s, evictAfter, false, 1) != None {
		t.Error("a session beside followers' that take all there is")
	}
	went("who comes then")
	if open(t, s, 12+evictAfter, false, count(0, 11)...) == None {
		t.Error("no room where a follower was idle")
	}
	went("an idle follower", follower)
	if st := s.Stats(); st.Evicted != 6 {
		t.Errorf("%+v", st)
	}
}

func TestUnique(t *testing.T) {
	ps := parts(1, 2, 1, 3, 2)
	ps[2].MaxBytes, ps[4].MaxBytes = 7, 8
	got := Unique(ps)
	if !slices.Equal(indexes(got), []int{1, 2, 3}) || got[0].MaxBytes != 7 || got[1].MaxBytes != 8 {
		t.Errorf("%+v", got)
	}
}

// TestModel runs a session beside a plain list.
func TestModel(t *testing.T) {
	type entry struct {
		Partition
		hw, start batch.Offset
	}
	rapid.Check(t, func(t *rapid.T) {
		s := New(80, nil)[3]
		var model []entry
		at := func(k Key) int { return slices.IndexFunc(model, func(e entry) bool { return e.Key == k }) }
		draw := func(name string) []Partition {
			var ps []Partition
			for range rapid.IntRange(0, 4).Draw(t, name) {
				ps = append(ps, Partition{Key: key(rapid.IntRange(0, 6).Draw(t, "index")), FetchOffset: batch.Offset(rapid.IntRange(0, 9).Draw(t, "offset"))})
			}
			return ps
		}
		result := func(k Key) Result {
			r := Result{Key: k, HighWatermark: batch.Offset(rapid.IntRange(0, 2).Draw(t, "hw")), Bytes: rapid.IntRange(0, 1).Draw(t, "bytes")}
			r.Error = rapid.IntRange(0, 4).Draw(t, "error") == 0
			return r
		}
		ps := Unique(draw("full"))
		var rs []Result
		for _, p := range ps {
			r := result(p.Key)
			rs = append(rs, r)
			e := entry{p, r.HighWatermark, r.LogStart}
			if r.Error {
				e.hw = -1
			}
			model = append(model, e)
		}
		id := s.Open(OpenRequest{Partitions: ps, Results: rs, Chance: rapid.Uint32().Draw(t, "chance")})
		for epoch := int32(1); epoch < 12; epoch++ {
			req := ContinueRequest{ID: id, Epoch: epoch, Partitions: draw("changed")}
			for range rapid.IntRange(0, 2).Draw(t, "forgotten") {
				req.Forgotten = append(req.Forgotten, key(rapid.IntRange(0, 6).Draw(t, "index")))
			}
			for _, p := range req.Partitions {
				if i := at(p.Key); i >= 0 {
					model[i].Partition = p
				} else {
					model = append(model, entry{p, -1, -1})
				}
			}
			for _, k := range req.Forgotten {
				model = slices.DeleteFunc(model, func(e entry) bool { return e.Key == k })
			}
			got, ok, err := s.Continue(req)
			if err != nil {
				t.Fatal(err)
			}
			if ok != (len(model) > 0) {
				t.Fatalf("open is %v with %d partitions", ok, len(model))
			}
			if !ok {
				if s.Stats() != (Stats{}) {
					t.Fatalf("left behind: %+v", s.Stats())
				}
				return
			}
			if len(got) != len(model) || s.Stats().Partitions != len(model) {
				t.Fatalf("%d partitions, want %d", len(got), len(model))
			}
			var results []Result
			var want []bool
			var moved []entry
			for i := range model {
				if got[i] != model[i].Partition {
					t.Fatalf("partition %d is %+v, want %+v", i, got[i], model[i].Partition)
				}
				r := result(got[i].Key)
				results = append(results, r)
				want = append(want, r.Bytes > 0 || r.Error || r.HighWatermark != model[i].hw || r.LogStart != model[i].start)
				model[i].hw, model[i].start = r.HighWatermark, r.LogStart
				if r.Error {
					model[i].hw = -1
				}
			}
			if err := s.Finish(id, epoch, results); err != nil {
				t.Fatal(err)
			}
			for i, r := range results {
				if r.Send != want[i] {
					t.Fatalf("partition %d: send is %v", i, r.Send)
				}
				if r.Bytes > 0 {
					j := at(r.Key)
					moved = append(moved, model[j])
					model = slices.Delete(model, j, j+1)
				}
			}
			model = append(model, moved...)
		}
	})
}

func BenchmarkIncremental(b *testing.B) {
	s := New(80, nil)[0]
	var is []int
	for i := range 100 {
		is = append(is, i)
	}
	id := open(b, s, 1, false, is...)
	epoch := int32(1)
	rs := found(parts(is...))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := s.Continue(ContinueRequest{ID: id, Epoch: epoch}); err != nil {
			b.Fatal(err)
		}
		if err := s.Finish(id, epoch, rs); err != nil {
			b.Fatal(err)
		}
		epoch = next(epoch)
	}
}

// TestNamesAreKept: the first name that a topic id stood for stays with the
// session, through answers without one and through changes of what is asked.
func TestNamesAreKept(t *testing.T) {
	s := New(DefaultSlots, nil)[0]
	p := Partition{Key: Key{ID: [16]byte{1}}, MaxBytes: 100}
	late := Partition{Key: Key{ID: [16]byte{2}}, MaxBytes: 100}
	id := s.Open(OpenRequest{TopicIDs: true, Partitions: []Partition{p, late}, Results: []Result{{Key: p.Key, Name: "first"}, {Key: late.Key, Error: true}}})
	epoch := int32(0)
	next := func(changed []Partition, names ...string) []string {
		t.Helper()
		epoch++
		ps, open, err := s.Continue(ContinueRequest{ID: id, Epoch: epoch, TopicIDs: true, Partitions: changed})
		if err != nil || !open || len(ps) != 2 {
			t.Fatalf("epoch %d: %v %v %v", epoch, ps, open, err)
		}
		var rs []Result
		for i, p := range ps {
			rs = append(rs, Result{Key: p.Key, Name: names[i]})
		}
		if err := s.Finish(id, epoch, rs); err != nil {
			t.Fatal(err)
		}
		return []string{ps[0].Name, ps[1].Name}
	}
	for _, c := range []struct {
		changed []Partition
		names   []string
		want    []string
	}{
		{nil, []string{"", ""}, []string{"first", ""}},
		{[]Partition{p}, []string{"", "late"}, []string{"first", ""}},
		{nil, []string{"other", "other"}, []string{"first", "late"}},
		{[]Partition{late}, []string{"", ""}, []string{"first", "late"}},
	} {
		if got := next(c.changed, c.names...); !slices.Equal(got, c.want) {
			t.Errorf("epoch %d: %q, want %q", epoch, got, c.want)
		}
	}
}
