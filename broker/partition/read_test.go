package partition

import (
	"errors"
	"sync"
	"testing"
	"time"

	"millrace/storage/batch"
	"millrace/storage/log"
)

// consumer is a read of a consumer that knows nothing.
func consumer(o batch.Offset) ReadRequest {
	return ReadRequest{Offset: o, MaxBytes: 1 << 20, Replica: -1, CurrentLeaderEpoch: AnyEpoch, LastFetchedEpoch: AnyEpoch}
}

func TestWhoMayReadWhat(t *testing.T) {
	p := replicated(t) // epoch 5, replicas 1, 2, 3
	for range 4 {
		appendTo(t, p, 1, 1)
	}
	p.FollowerFetched(5, fetch(2, 4, 4))
	p.FollowerFetched(5, fetch(3, 2, 4))
	with := func(q ReadRequest, f func(*ReadRequest)) ReadRequest { f(&q); return q }
	for _, c := range []struct {
		name    string
		q       ReadRequest
		want    error
		records bool
	}{
		{"below the high watermark", consumer(0), nil, true},
		{"at the high watermark", consumer(2), nil, false},
		{"between high watermark and log end", consumer(3), nil, false},
		{"at the log end", consumer(4), nil, false},
		{"beyond the log end", consumer(5), ErrOffsetOutOfRange, false},
		{"below the log start", consumer(-1), ErrOffsetOutOfRange, false},
		{"a follower up to the log end", with(consumer(2), func(q *ReadRequest) { q.Replica = 2 }), nil, true},
		{"a coordinator that loads", with(consumer(2), func(q *ReadRequest) { q.Isolation = ReadAll }), nil, true},
		{"a broker that is no replica", with(consumer(2), func(q *ReadRequest) { q.Replica = 9 }), ErrNotReplica, false},
		{"a broker that is no replica, beyond the log end", with(consumer(9), func(q *ReadRequest) { q.Replica = 9 }), ErrNotReplica, false},
		{"a broker that is no replica and knows the epoch", with(consumer(2), func(q *ReadRequest) { q.Replica, q.CurrentLeaderEpoch = 9, 5 }), ErrUnknownLeaderEpoch, false},
		{"the leader as its own follower", with(consumer(9), func(q *ReadRequest) { q.Replica = 1 }), ErrNotReplica, false},
		{"a leader epoch that is over", with(consumer(0), func(q *ReadRequest) { q.CurrentLeaderEpoch = 4 }), ErrFencedLeaderEpoch, false},
		{"a leader epoch to come", with(consumer(0), func(q *ReadRequest) { q.CurrentLeaderEpoch = 6 }), ErrUnknownLeaderEpoch, false},
		{"the epoch is looked at before the offset", with(consumer(9), func(q *ReadRequest) { q.CurrentLeaderEpoch = 6 }), ErrUnknownLeaderEpoch, false},
		{"a last epoch newer than any", with(consumer(2), func(q *ReadRequest) { q.LastFetchedEpoch = 6 }), ErrOffsetOutOfRange, false},
	} {
		r, err := p.Read(c.q)
		if !errors.Is(err, c.want) || (r.Records.Len() > 0) != c.records {
			t.Errorf("%s: %d bytes, %v", c.name, r.Records.Len(), err)
		}
		r.Records.Release()
		n, aerr := p.Available(c.q, batch.NoOffset)
		if c.q.LastFetchedEpoch == AnyEpoch && (!errors.Is(aerr, c.want) || (n > 0) != c.records) {
			t.Errorf("%s: available %d, %v", c.name, n, aerr)
		}
	}
	// A follower serves consumers of version 11 and later, and nobody else.
	p.BecomeFollower(assign(2, 6, 2, []int32{2, 3}, 1, 2, 3))
	if r, err := p.Read(consumer(0)); err != nil || r.Records.Len() == 0 {
		t.Errorf("a consumer at a follower: %d bytes, %v", r.Records.Len(), err)
	} else {
		r.Records.Release()
	}
	for name, q := range map[string]ReadRequest{
		"an old consumer": with(consumer(0), func(q *ReadRequest) { q.LeaderOnly = true }),
		"a follower":      with(consumer(0), func(q *ReadRequest) { q.Replica = 2 }),
	} {
		if _, err := p.Read(q); !errors.Is(err, ErrNotLeader) {
			t.Errorf("%s at a follower: %v", name, err)
		}
	}
}

func TestDivergence(t *testing.T) {
	p := newPartition(t, Options{})
	p.BecomeLeader(assign(self, 2, 1, []int32{1}, 1, 2))
	appendTo(t, p, 3, 1) // 0 to 2 in epoch 2
	p.BecomeLeader(assign(self, 5, 2, []int32{1}, 1, 2))
	appendTo(t, p, 2, 1) // 3 and 4 in epoch 5
	for _, c := range []struct {
		from batch.Offset
		last batch.LeaderEpoch
		want EpochEnd
		none bool
	}{
		{3, 2, EpochEnd{}, true},
		{5, 5, EpochEnd{}, true},
		{4, 2, EpochEnd{2, 3}, false},
		{7, 5, EpochEnd{5, 5}, false},
		{3, 4, EpochEnd{2, 3}, false},
	} {
		q := consumer(c.from)
		q.Replica, q.LastFetchedEpoch = 2, c.last
		r, err := p.Read(q)
		if err != nil {
			t.Errorf("%d after epoch %d: %v", c.from, c.last, err)
			continue
		}
		r.Records.Release()
		if c.none != (r.Diverging == nil) || (!c.none && *r.Diverging != c.want) {
			t.Errorf("%d after epoch %d: %+v, want %+v", c.from, c.last, r.Diverging, c.want)
		}
	}
	for asked, want := range map[batch.LeaderEpoch]EpochEnd{2: {2, 3}, 4: {2, 3}, 5: {5, 5}, 6: {-1, -1}, -1: {-1, -1}} {
		if got, err := p.EndOffsetForEpoch(AnyEpoch, asked); err != nil || got != want {
			t.Errorf("epoch %d ends at %+v, %v, want %+v", asked, got, err, want)
		}
	}
	if _, err := p.EndOffsetForEpoch(4, 2); !errors.Is(err, ErrFencedLeaderEpoch) {
		t.Error(err)
	}
}

func TestListOffset(t *testing.T) {
	ck := &clock{t: time.UnixMilli(5000)}
	p := newPartition(t, Options{Now: ck.now, Config: defaults()})
	p.BecomeLeader(assign(self, 3, 1, []int32{1, 2}, 1, 2))
	none := log.FoundOffset{Offset: -1, Timestamp: -1, LeaderEpoch: -1}
	ask := func(name string, ts int64, isolation Isolation, want log.FoundOffset, werr error) {
		t.Helper()
		got, err := p.ListOffset(ListRequest{Timestamp: ts, Isolation: isolation, CurrentLeaderEpoch: AnyEpoch})
		if got != want || !errors.Is(err, werr) {
			t.Errorf("%s: %+v, %v, want %+v, %v", name, got, err, want, werr)
		}
	}
	ask("latest of an empty log", Latest, ReadUncommitted, log.FoundOffset{Offset: 0, Timestamp: -1, LeaderEpoch: 3}, nil)
	ask("earliest of an empty log", Earliest, ReadUncommitted, log.FoundOffset{Offset: 0, Timestamp: -1, LeaderEpoch: 3}, nil)
	ask("largest of an empty log", MaxTimestamp, ReadUncommitted, none, nil)
	for _, ts := range []int64{1000, 3000, 2000} {
		u := batch.NewBuilder(batch.BuilderOptions{})
		u.Add(ts, []byte("k"), nil)
		b := u.Bytes()
		h, _ := batch.ParseHeader(b)
		if _, err := p.Append(b, h, AppendOptions{LeaderEpoch: AnyEpoch}); err != nil {
			t.Fatal(err)
		}
	}
	p.FollowerFetched(3, fetch(2, 2, 3))
	ask("latest", Latest, ReadUncommitted, log.FoundOffset{Offset: 2, Timestamp: -1, LeaderEpoch: 3}, nil)
	ask("latest for a replica", Latest, ReadAll, log.FoundOffset{Offset: 3, Timestamp: -1, LeaderEpoch: 3}, nil)
	ask("latest, read_committed", Latest, ReadCommitted, log.FoundOffset{Offset: 2, Timestamp: -1, LeaderEpoch: 3}, nil)
	ask("earliest", Earliest, ReadUncommitted, log.FoundOffset{Offset: 0, Timestamp: -1, LeaderEpoch: 3}, nil)
	ask("earliest local", EarliestLocal, ReadUncommitted, log.FoundOffset{Offset: 0, Timestamp: -1, LeaderEpoch: 3}, nil)
	ask("tiered", LastTiered, ReadUncommitted, none, nil)
	ask("pending", EarliestPending, ReadUncommitted, none, nil)
	ask("largest", MaxTimestamp, ReadUncommitted, log.FoundOffset{Offset: 1, Timestamp: 3000, LeaderEpoch: 3}, nil)
	ask("a time", 500, ReadUncommitted, log.FoundOffset{Offset: 0, Timestamp: 1000, LeaderEpoch: 3}, nil)
	ask("a time between", 1500, ReadUncommitted, log.FoundOffset{Offset: 1, Timestamp: 3000, LeaderEpoch: 3}, nil)
	ask("a time after all", 3001, ReadUncommitted, none, nil)
	// After an election the high watermark may lag behind the start of the epoch.
	p.BecomeLeader(assign(self, 4, 2, []int32{1, 2}, 1, 2))
	ask("latest while lagging", Latest, ReadUncommitted, none, ErrOffsetNotAvailable)
	ask("latest for a replica while lagging", Latest, ReadAll, log.FoundOffset{Offset: 3, Timestamp: -1, LeaderEpoch: 4}, nil)
	ask("a time below the high watermark while lagging", 1500, ReadUncommitted, log.FoundOffset{Offset: 1, Timestamp: 3000, LeaderEpoch: 3}, nil)
	ask("earliest while lagging", Earliest, ReadUncommitted, log.FoundOffset{Offset: 0, Timestamp: -1, LeaderEpoch: 3}, nil)
	p.BecomeFollower(assign(2, 5, 3, []int32{1, 2}, 1, 2))
	ask("at a follower", Latest, ReadUncommitted, none, ErrNotLeader)
	if got, err := p.ListOffset(ListRequest{Timestamp: Latest, CurrentLeaderEpoch: AnyEpoch, AnyReplica: true}); err != nil || got.Offset != 2 {
		t.Errorf("for debugging at a follower: %+v, %v", got, err)
	}
}

func TestDeleteRecords(t *testing.T) {
	p := newPartition(t, Options{})
	p.BecomeLeader(assign(self, 3, 1, []int32{1, 2}, 1, 2))
	for range 3 {
		appendTo(t, p, 2, 1)
	}
	if err := p.FollowerFetched(3, fetch(2, 5, 6)); err != nil {
		t.Fatal(err)
	}
	w := NewWaiter()
	p.Watch(&Watching{}, w, OnLowWatermark)
	for _, c := range []struct {
		o, want batch.Offset
		err     error
	}{{6, 0, ErrOffsetOutOfRange}, {-2, 0, ErrOffsetOutOfRange}, {3, 3, nil}, {2, 3, nil}, {-1, 5, nil}} {
		_, err := p.DeleteRecords(c.o)
		if got := p.Log().View().LogStart(); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("delete below %d: log start %d, %v", c.o, got, err)
		}
	}
	if low, err := p.LowWatermark(); low != 0 || err != nil {
		t.Errorf("low watermark %d, %v", low, err)
	}
	f := fetch(2, 6, 6)
	f.LogStart = 5
	p.FollowerFetched(3, f)
	if low, err := p.LowWatermark(); low != 5 || err != nil {
		t.Errorf("low watermark %d, %v", low, err)
	}
	select {
	case <-w.C():
	default:
		t.Error("nobody was woken")
	}
	if _, err := p.Read(consumer(4)); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Errorf("a deleted record: %v", err)
	}
}

// TestFollowing: what a leader sent counts only in its epoch, and only where the log still ends where it did.
func TestFollowing(t *testing.T) {
	p := newPartition(t, Options{})
	b, h := records(3)
	batch.Patch(b, 0, 4)
	copied := func(epoch batch.LeaderEpoch, from, hw batch.Offset) error {
		return p.Replicate(Copied{LeaderEpoch: epoch, From: from, Records: b, HighWatermark: hw})
	}
	p.BecomeFollower(assign(2, 4, 1, []int32{1, 2}, 1, 2))
	if err := copied(3, 0, 0); !errors.Is(err, ErrFencedLeaderEpoch) {
		t.Errorf("from a leader that is none any more: %v", err)
	}
	if err := copied(5, 0, 0); !errors.Is(err, ErrUnknownLeaderEpoch) {
		t.Errorf("from a leader not known yet: %v", err)
	}
	if err := copied(4, 1, 0); err == nil {
		t.Error("took records for another place")
	}
	w := NewWaiter()
	p.Watch(&Watching{}, w, OnHighWatermark)
	if err := copied(4, 0, 99); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.C():
	default:
		t.Error("consumers of a follower sleep on")
	}
	if s := p.State(); s.LogEnd != h.NextOffset() || s.HighWatermark != 3 {
		t.Errorf("%+v", s)
	}
	if pos := p.Position(); pos.Offset != 3 || pos.LastEpoch != 4 || pos.LeaderID != 2 {
		t.Errorf("%+v", pos)
	}
	bad, _ := records(1)
	batch.Patch(bad, 3, 4)
	bad[len(bad)-1] ^= 1
	if err := p.Replicate(Copied{LeaderEpoch: 4, From: 3, Records: bad}); err == nil || p.State().LogEnd != 3 {
		t.Errorf("took a batch with a wrong checksum: %v", err)
	}
	if err := p.Truncate(3, 1); !errors.Is(err, ErrFencedLeaderEpoch) {
		t.Error(err)
	}
	if err := p.TruncateFully(4, 10); err != nil || p.State().LogEnd != 10 || p.State().LogStart != 10 {
		t.Errorf("%+v, %v", p.State(), err)
	}
	p.BecomeLeader(assign(self, 6, 2, []int32{1}, 1, 2))
	if err := copied(6, 10, 0); !errors.Is(err, ErrFencedLeaderEpoch) {
		t.Errorf("replicate at the leader: %v", err)
	}
	// News that is not new does nothing.
	p.BecomeFollower(assign(2, 5, 3, []int32{2}, 1, 2))
	p.BecomeLeader(assign(self, 6, 1, []int32{1, 2}, 1, 2))
	if s := p.State(); !s.Leader || s.LeaderEpoch != 6 || s.PartitionEpoch != 2 || len(s.ISR) != 1 {
		t.Errorf("%+v", s)
	}
}

func TestRules(t *testing.T) {
	c := defaults()
	c.CleanupCompact, c.CompressionType, c.CompressionZstdLevel, c.MaxMessageBytes = true, "zstd", 7, 77
	p := newPartition(t, Options{Config: c})
	r := p.Rules(99)
	if !r.Compacted || !r.Recompress || r.Codec != 4 || r.Level != 7 || r.MaxBytes != 77 || r.Now != 99 || r.AfterMax != 3600000 || r.Topic != "t" {
		t.Errorf("%+v", r)
	}
	p.SetConfig(defaults())
	if r = p.Rules(1); r.Recompress || r.Compacted || r.MaxBytes != 1048588 {
		t.Errorf("%+v", r)
	}
}

func TestCheck(t *testing.T) {
	c := defaults()
	c.CompressionType = "zstd"
	p := newPartition(t, Options{Config: c})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 20 {
				b, h := records(50)
				got, err := p.Check(b, h, time.Now().UnixMilli(), 0)
				if err != nil || got.Header.Attributes.Codec() != 4 {
					t.Errorf("%+v, %v", got.Header, err)
				}
			}
		})
	}
	wg.Wait()
	if n := log.ScratchesInUse(); n != 0 {
		t.Errorf("%d slots are still taken", n)
	}
	p.SetConfig(defaults())
	b, h := records(50)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := p.Check(b, h, time.Now().UnixMilli(), 0); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for an uncompressed batch, want none", n)
	}
}

// TestAllocations holds the two walks to what they may cost.
func TestAllocations(t *testing.T) {
	p := newPartition(t, Options{Config: defaults()})
	p.BecomeLeader(assign(self, 3, 1, []int32{1}, 1))
	b, h := records(10)
	if n := testing.AllocsPerRun(200, func() {
		if _, err := p.Append(b, h, AppendOptions{LeaderEpoch: AnyEpoch, Acks: -1}); err != nil {
			t.Fatal(err)
		}
	}); n > 3 {
		t.Errorf("%v allocations an append, want at most 3", n)
	}
	q := consumer(100)
	q.MaxBytes = 1000
	if n := testing.AllocsPerRun(200, func() {
		r, err := p.Read(q)
		if err != nil || r.Records.Len() == 0 {
			t.Fatal(err)
		}
		r.Records.Release()
	}); n > 2 {
		t.Errorf("%v allocations a read, want at most 2", n)
	}
	end := consumer(p.State().LogEnd - 10)
	end.MaxBytes = 1000
	for name, look := range map[string]func(){
		"available": func() { p.Available(end, 0) },
		"rules":     func() { p.Rules(1) },
		"ready":     func() { p.Ready(AnyEpoch, -1) },
		"position":  func() { p.Position() },
	} {
		if n := testing.AllocsPerRun(200, look); n > 0 {
			t.Errorf("%v allocations for %s, want none", n, name)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	p := newPartition(b, Options{})
	p.BecomeLeader(assign(self, 3, 1, []int32{1}, 1))
	rec, h := records(10)
	b.ReportAllocs()
	b.SetBytes(int64(len(rec)))
	for b.Loop() {
		if _, err := p.Append(rec, h, AppendOptions{LeaderEpoch: AnyEpoch, Acks: -1}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	p := newPartition(b, Options{})
	p.BecomeLeader(assign(self, 3, 1, []int32{1}, 1))
	for range 10000 {
		rec, h := records(10)
		if _, err := p.Append(rec, h, AppendOptions{LeaderEpoch: AnyEpoch}); err != nil {
			b.Fatal(err)
		}
	}
	for name, at := range map[string]batch.Offset{"middle": 50000, "end": 99990} {
		b.Run(name, func(b *testing.B) {
			q := consumer(at)
			q.MaxBytes = 64 << 10
			b.ReportAllocs()
			for b.Loop() {
				r, err := p.Read(q)
				if err != nil {
					b.Fatal(err)
				}
				r.Records.Release()
			}
		})
	}
}
