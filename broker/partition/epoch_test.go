package partition

import (
	"errors"
	"testing"

	"millrace/storage/batch"
)

// TestAwaitOfALostLeadership: an append is acknowledged only by the leadership it was made in. Between an append and its
// wait the leadership may be lost and won again, with other records at its offsets.
func TestAwaitOfALostLeadership(t *testing.T) {
	p := newPartition(t, Options{})
	p.BecomeLeader(assign(self, 5, 1, []int32{1}, 1, 2))
	old := appendTo(t, p, 1, 1)
	p.BecomeFollower(assign(2, 6, 2, []int32{2}, 1, 2))
	if err := p.Truncate(6, 0); err != nil {
		t.Fatal(err)
	}
	p.BecomeLeader(assign(self, 7, 3, []int32{1}, 1, 2))
	appendTo(t, p, 1, 1)
	for _, acks := range []int16{1, -1} {
		if done, err := p.Await(NewAcks(1), 0, old, acks); !done || !errors.Is(err, ErrNotLeader) {
			t.Errorf("acks=%d of a record that was cut away: %v, %v", acks, done, err)
		}
	}
}

// A leader that is elected again, in a newer epoch, has lost nothing.
func TestAwaitOverANewEpoch(t *testing.T) {
	p := newPartition(t, Options{})
	p.BecomeLeader(assign(self, 5, 1, []int32{1}, 1))
	ap := appendTo(t, p, 1, 1)
	p.BecomeLeader(assign(self, 6, 2, []int32{1}, 1))
	if done, err := p.Await(NewAcks(1), 0, ap, -1); !done || err != nil {
		t.Errorf("a record of the same leader's earlier epoch: %v, %v", done, err)
	}
}

// TestAvailableSeesWhatReadRefuses: a reader whose log has diverged is not to wait for data.
func TestAvailableSeesWhatReadRefuses(t *testing.T) {
	p := newPartition(t, Options{})
	p.BecomeLeader(assign(self, 2, 1, []int32{1}, 1, 2))
	appendTo(t, p, 3, 1)
	p.BecomeLeader(assign(self, 5, 2, []int32{1}, 1, 2))
	appendTo(t, p, 2, 1)
	q := consumer(5)
	q.Replica, q.MaxBytes = 2, 1000
	for last, wait := range map[batch.LeaderEpoch]bool{5: true, 2: false, 1: false} {
		q.LastFetchedEpoch = last
		if _, err := p.Available(q, batch.NoOffset); (err == nil) != wait {
			t.Errorf("at the log end after epoch %d: %v", last, err)
		}
	}
}

func TestWakeOfAFunction(t *testing.T) {
	p := replicated(t)
	n := 0
	w := NewCaller(func() { n++ })
	var at Watching
	p.Watch(&at, w, OnHighWatermark)
	appendTo(t, p, 1, 1)
	if n != 0 {
		t.Error("called before the high watermark moved")
	}
	p.FollowerFetched(5, fetch(2, 1, 1))
	p.FollowerFetched(5, fetch(3, 1, 1))
	if n != 1 {
		t.Errorf("called %d times for a high watermark that moved once", n)
	}
	p.Unwatch(&at)
	p.Close()
	if n != 1 {
		t.Error("called after Unwatch")
	}
}
