package replica

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"millrace/broker/faulttest"
	"millrace/storage/batch"
)

var start = time.Unix(1_700_000_000, 0)

func live(ids ...int32) []Broker {
	var bs []Broker
	for _, id := range ids {
		bs = append(bs, Broker{ID: id, Epoch: int64(id) * 10, Live: true})
	}
	return bs
}

func lead(end, hw batch.Offset, minISR int, isr []int32, replicas ...int32) (*Leader, Decision) {
	return NewLeader(Options{Self: 1, LeaderEpoch: 5, PartitionEpoch: 7, Brokers: live(replicas...), ISR: isr, MinISR: minISR, LogEnd: end, Counted: end, HighWatermark: hw}, start)
}

func fetched(t *testing.T, l *Leader, id int32, from, leaderEnd batch.Offset, now time.Time) Decision {
	t.Helper()
	d, err := l.Fetched(Fetch{ID: id, BrokerEpoch: int64(id) * 10, Offset: from, LeaderEnd: leaderEnd}, now)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAlone(t *testing.T) {
	l, d := lead(10, 4, 1, []int32{1}, 1)
	if !d.Moved || d.HighWatermark != 10 {
		t.Fatalf("a lone leader begins with %+v", d)
	}
	if d = l.Appended(12, 12, start); d.HighWatermark != 12 || !d.Moved {
		t.Errorf("%+v", d)
	}
	if d = l.Appended(15, 12, start); d.HighWatermark != 12 || d.Moved {
		t.Errorf("what is not flushed was counted: %+v", d)
	}
	if d = l.Appended(15, 15, start); d.HighWatermark != 15 {
		t.Errorf("%+v", d)
	}
}

func TestMinISRAboveReplicas(t *testing.T) {
	l, d := lead(10, 0, 3, []int32{1}, 1)
	if d.HighWatermark != 10 || !l.EnoughISR() {
		t.Errorf("min.insync.replicas 3 on one replica must count as 1: %+v", d)
	}
}

func TestHighWatermarkWaitsForTheISR(t *testing.T) {
	l, d := lead(10, 4, 2, []int32{1, 2, 3}, 1, 2, 3)
	if d.Moved {
		t.Fatalf("moved before anybody fetched: %+v", d)
	}
	if d = fetched(t, l, 2, 10, 10, start); d.Moved {
		t.Errorf("moved past replica 3: %+v", d)
	}
	if d = fetched(t, l, 3, 7, 10, start); d.HighWatermark != 7 || !d.Moved {
		t.Errorf("%+v", d)
	}
	if d = fetched(t, l, 3, 5, 10, start); d.HighWatermark != 7 || d.Moved {
		t.Errorf("went back: %+v", d)
	}
}

func TestShrinkAndStandStill(t *testing.T) {
	l, _ := lead(10, 10, 2, []int32{1, 2}, 1, 2)
	now := start.Add(29 * time.Second)
	l.Appended(20, 20, now)
	if d := l.Expire(now); d.Propose {
		t.Fatalf("proposed before the lag was over")
	}
	if dl := l.Deadline(now); !dl.After(start.Add(30*time.Second)) || dl.After(start.Add(31*time.Second)) {
		t.Errorf("deadline %v", dl.Sub(start))
	}
	now = start.Add(31 * time.Second)
	if d := l.Expire(now); !d.Propose {
		t.Fatal("a lagging follower stays in the ISR")
	}
	p, ok := l.Proposal()
	if !ok || len(p.ISR) != 1 || p.ISR[0] != (Member{ID: 1, Epoch: 10}) || p.PartitionEpoch != 7 || p.LeaderEpoch != 5 {
		t.Fatalf("%+v", p)
	}
	if d := l.Expire(now); d.Propose || d.Moved {
		t.Errorf("a proposal is no decision of the controller: %+v", d)
	}
	d := l.Updated(Update{PartitionEpoch: 8, ISR: []int32{1}}, now)
	if d.Moved || d.HighWatermark != 10 || l.EnoughISR() {
		t.Errorf("the high watermark moved with one of two in sync: %+v", d)
	}
	// The follower comes back: it may join once it has everything.
	if d = fetched(t, l, 2, 15, 20, now); d.Propose {
		t.Error("joins before it has caught up")
	}
	if d = fetched(t, l, 2, 20, 20, now); !d.Propose || d.Moved {
		t.Errorf("%+v", d)
	}
	if !l.EnoughAfter() {
		t.Error("a member about to join does not count")
	}
	if d = l.Updated(Update{PartitionEpoch: 9, ISR: []int32{1, 2}}, now); !d.Moved || d.HighWatermark != 20 {
		t.Errorf("%+v", d)
	}
}

func TestRefusedProposalIsTriedAgain(t *testing.T) {
	l, _ := lead(10, 10, 1, []int32{1}, 1, 2)
	if d := fetched(t, l, 2, 10, 10, start); !d.Propose {
		t.Fatal("no proposal")
	}
	if d := l.Refused(6, start); d.Propose {
		t.Error("the refusal of another proposal counted")
	}
	if d := l.Refused(7, start); d.Propose {
		t.Error("proposed again at once")
	}
	if d := l.Expire(start.Add(2 * time.Second)); !d.Propose {
		t.Error("never proposed again")
	}
}

func TestWhoMayJoin(t *testing.T) {
	fenced := live(1, 2)
	fenced[1].Live = false
	for _, c := range []struct {
		name    string
		brokers []Broker
		epoch   int64
		offset  batch.Offset
		want    bool
	}{
		{"one that has everything", live(1, 2), 20, 10, true},
		{"one that sends no epoch", live(1, 2), -1, 10, true},
		{"one of another life", live(1, 2), 21, 10, false},
		{"a fenced one", fenced, 20, 10, false},
		{"one at the high watermark, below the start of the epoch", live(1, 2), 20, 4, false},
	} {
		l, _ := NewLeader(Options{Self: 1, Brokers: c.brokers, ISR: []int32{1}, MinISR: 2, LogEnd: 10, Counted: 10, HighWatermark: 4}, start)
		d, err := l.Fetched(Fetch{ID: 2, BrokerEpoch: c.epoch, Offset: c.offset, LeaderEnd: 10}, start)
		if err != nil || d.Propose != c.want {
			t.Errorf("%s: propose is %v, %v", c.name, d.Propose, err)
		}
	}
}

func TestStrangers(t *testing.T) {
	l, _ := lead(10, 10, 1, []int32{1, 2}, 1, 2)
	var not *NotReplicaError
	if _, err := l.Fetched(Fetch{ID: 9}, start); !errors.As(err, &not) {
		t.Errorf("%v", err)
	}
	fetched(t, l, 2, 10, 10, start)
	var stale *StaleBrokerError
	if _, err := l.Fetched(Fetch{ID: 2, BrokerEpoch: 19, Offset: 10, LeaderEnd: 10}, start); !errors.As(err, &stale) {
		t.Errorf("%v", err)
	}
}

func TestLowWatermark(t *testing.T) {
	l, _ := lead(10, 10, 1, []int32{1, 2, 3}, 1, 2, 3)
	l.SetLogStart(6)
	if low := l.LowWatermark(); low != -1 {
		t.Errorf("%d before anybody fetched", low)
	}
	for id, s := range map[int32]batch.Offset{2: 4, 3: 7} {
		if _, err := l.Fetched(Fetch{ID: id, BrokerEpoch: -1, Offset: 10, LogStart: s, LeaderEnd: 10}, start); err != nil {
			t.Fatal(err)
		}
	}
	if low := l.LowWatermark(); low != 4 {
		t.Errorf("%d, want 4", low)
	}
}

// TestInvariants lets a leader, followers with real log ends and a controller act at random. What no leader may ever do
// is checked after each step: pass an in-sync replica, go back, move while too few are in sync.
func TestInvariants(t *testing.T) {
	if n := invariants(t); !testing.Short() && (n.proposals < 50 || n.moves < 50 || n.shrinks < 5) {
		t.Errorf("an idle world: %+v", n)
	}
}

type happened struct{ proposals, moves, shrinks int }

func invariants(t rapid.TB) (n0 happened) {
	rapid.Check(t, func(t *rapid.T) {
		n := int32(rapid.IntRange(1, 5).Draw(t, "replicas"))
		minISR := rapid.IntRange(1, 3).Draw(t, "min")
		now := start
		logs := map[int32]batch.Offset{} // true log ends; the leader's is logs[1]
		sent := map[int32]batch.Offset{} // what each follower has fetched and not yet reported
		var isr []int32
		brokers := []Broker{}
		logs[1] = batch.Offset(rapid.IntRange(0, 5).Draw(t, "end"))
		hw := logs[1]
		for id := int32(1); id <= n; id++ {
			brokers = append(brokers, Broker{ID: id, Epoch: 1, Live: true})
			if id > 1 {
				// A follower's log holds nothing that the leader's does not.
				logs[id] = batch.Offset(rapid.IntRange(0, int(logs[1])).Draw(t, "end"))
			}
			if id == 1 || rapid.Bool().Draw(t, "in") {
				isr = append(isr, id)
				hw = min(hw, logs[id]) // what was committed is in every member's log
			}
		}
		l, d := NewLeader(Options{Self: 1, PartitionEpoch: 1, Brokers: brokers, ISR: isr, MinISR: minISR, LogEnd: logs[1], Counted: logs[1], HighWatermark: hw, LagMax: 10 * time.Second}, now)
		pepoch := int32(1)
		last := hw
		check := func(d Decision) {
			if d.HighWatermark < last {
				t.Fatalf("the high watermark went from %d back to %d", last, d.HighWatermark)
			}
			if d.Moved != (d.HighWatermark > last) {
				t.Fatalf("moved is %v from %d to %d", d.Moved, last, d.HighWatermark)
			}
			if d.Moved {
				n0.moves++
				need := min(minISR, int(n))
				if len(isr) < need {
					t.Fatalf("moved to %d with %d of %d in sync", d.HighWatermark, len(isr), need)
				}
				for _, id := range isr {
					if logs[id] < d.HighWatermark {
						t.Fatalf("moved to %d past replica %d, which ends at %d", d.HighWatermark, id, logs[id])
					}
				}
			}
			last = d.HighWatermark
			if d.Propose {
				n0.proposals++
			}
			if p, ok := l.Proposal(); ok {
				for _, m := range p.ISR {
					if logs[m.ID] < last && !slices.Contains(isr, m.ID) {
						t.Fatalf("proposes %d, which ends at %d, with the high watermark at %d", m.ID, logs[m.ID], last)
					}
				}
			}
		}
		check(d)
		for range rapid.IntRange(40, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				logs[1] += batch.Offset(rapid.IntRange(1, 3).Draw(t, "records"))
				check(l.Appended(logs[1], logs[1], now))
			case 1, 2: // a follower reports what it has, and takes more
				if n == 1 {
					continue
				}
				id := int32(rapid.IntRange(2, int(n)).Draw(t, "follower"))
				if s, ok := sent[id]; ok {
					logs[id] = s
				}
				d, err := l.Fetched(Fetch{ID: id, BrokerEpoch: 1, Offset: logs[id], LeaderEnd: logs[1]}, now)
				if err != nil {
					t.Fatal(err)
				}
				check(d)
				sent[id] = logs[id] + batch.Offset(rapid.IntRange(0, int(logs[1]-logs[id])).Draw(t, "copied"))
			case 3:
				now = now.Add(time.Duration(rapid.IntRange(0, 8).Draw(t, "seconds")) * time.Second)
				check(l.Expire(now))
			case 4: // the controller answers
				p, ok := l.Proposal()
				if !ok {
					continue
				}
				if rapid.IntRange(0, 3).Draw(t, "refuse") == 0 {
					check(l.Refused(p.PartitionEpoch, now))
					continue
				}
				if len(p.ISR) < len(isr) {
					n0.shrinks++
				}
				isr = isr[:0:0]
				for _, m := range p.ISR {
					isr = append(isr, m.ID)
				}
				pepoch++
				check(l.Updated(Update{PartitionEpoch: pepoch, ISR: isr}, now))
			case 5: // the controller fences a broker, or lets it back
				i := rapid.IntRange(0, int(n)-1).Draw(t, "broker")
				if brokers[i].ID == 1 {
					continue
				}
				brokers[i].Live = !brokers[i].Live
				if !brokers[i].Live {
					isr = slices.DeleteFunc(slices.Clone(isr), func(id int32) bool { return id == brokers[i].ID })
				}
				pepoch++
				check(l.Updated(Update{PartitionEpoch: pepoch, ISR: isr, Brokers: brokers}, now))
			}
			if !slices.Equal(l.ISR(), isr) {
				t.Fatalf("ISR is %v, want %v", l.ISR(), isr)
			}
		}
	})
	return n0
}

func BenchmarkFetched(b *testing.B) {
	l, _ := lead(10, 10, 2, []int32{1, 2, 3}, 1, 2, 3)
	b.ReportAllocs()
	end := batch.Offset(10)
	for b.Loop() {
		end++
		l.Appended(end, end, start)
		if _, err := l.Fetched(Fetch{ID: 2, BrokerEpoch: 20, Offset: end, LeaderEnd: end}, start); err != nil {
			b.Fatal(err)
		}
		if _, err := l.Fetched(Fetch{ID: 3, BrokerEpoch: 30, Offset: end, LeaderEnd: end}, start); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAProposedMemberHoldsTheHighWatermark: the controller may have committed it already.
func TestAProposedMemberHoldsTheHighWatermark(t *testing.T) {
	l, _ := lead(10, 10, 1, []int32{1}, 1, 2)
	if d := fetched(t, l, 2, 10, 10, start); !d.Propose {
		t.Fatal("no proposal")
	}
	now := start.Add(time.Hour)
	if d := l.Appended(20, 20, now); d.Moved {
		t.Fatalf("passed a member about to join: %+v", d)
	}
	if d := l.Updated(Update{PartitionEpoch: 8, ISR: []int32{1, 2}}, now); d.Moved || d.HighWatermark != 10 {
		t.Errorf("%+v", d)
	}
}

// TestAMemberThatLeftNeedsTheEpoch: a member of the old ISR counts as caught up for a while; when the controller has
// taken it out, it may come back only with everything the leader began with.
func TestAMemberThatLeftNeedsTheEpoch(t *testing.T) {
	l, _ := NewLeader(Options{Self: 1, PartitionEpoch: 1, Brokers: live(1, 2), ISR: []int32{1, 2}, MinISR: 2, LogEnd: 10, Counted: 10, HighWatermark: 4}, start)
	l.Updated(Update{PartitionEpoch: 2, ISR: []int32{1}}, start)
	if d := fetched(t, l, 2, 7, 10, start); d.Propose {
		t.Error("joins with 7 of the 10 records that may be committed")
	}
	if d := fetched(t, l, 2, 10, 10, start); !d.Propose {
		t.Error("does not join with all of them")
	}
}

// TestPlantedFaults: the invariants are worth something only if a broken machine breaks them.
func TestPlantedFaults(t *testing.T) {
	defer func() { faults = faultSwitches{} }()
	for name, f := range map[string]faultSwitches{
		"passFollowers": {passFollowers: true},
		"ignoreMin":     {ignoreMin: true},
		"joinBehind":    {joinBehind: true},
		"goBack":        {goBack: true},
		"passJoining":   {passJoining: true},
	} {
		faults = f
		if !faulttest.Noticed(t, "3000", "0", func(t rapid.TB) { invariants(t) }) {
			t.Errorf("nobody notices %s", name)
		}
	}
}
