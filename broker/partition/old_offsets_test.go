package partition

import (
	"errors"
	"slices"
	"testing"
	"time"

	"millrace/storage/batch"
)

func TestOldOffsets(t *testing.T) {
	p := replicated(t) // epoch 5, replicas 1, 2, 3
	for range 4 {
		appendTo(t, p, 1, 1)
	}
	p.FollowerFetched(5, fetch(2, 3, 4))
	p.FollowerFetched(5, fetch(3, 3, 4)) // the high watermark is 3, the log end 4
	hour := time.Now().Add(time.Hour).UnixMilli()
	for _, c := range []struct {
		name string
		q    OldRequest
		want []batch.Offset
		err  error
	}{
		{"a consumer sees no more than the high watermark", OldRequest{Timestamp: Latest, Most: 5, Consumer: true}, []batch.Offset{3, 0}, nil},
		{"it counts", OldRequest{Timestamp: Latest, Most: 1, Consumer: true}, []batch.Offset{3}, nil},
		{"a replica sees the log end", OldRequest{Timestamp: Latest, Most: 5}, []batch.Offset{4, 0}, nil},
		{"earliest", OldRequest{Timestamp: Earliest, Most: 5, Consumer: true}, []batch.Offset{0}, nil},
		{"by time", OldRequest{Timestamp: hour, Most: 5, Consumer: true}, []batch.Offset{3, 0}, nil},
		{"before it all", OldRequest{Timestamp: 1, Most: 5, Consumer: true}, nil, nil},
		{"none", OldRequest{Timestamp: Latest, Consumer: true}, nil, nil},
		{"fewer than none", OldRequest{Timestamp: Latest, Most: -1, Consumer: true}, nil, ErrNegativeCount},
	} {
		if got, err := p.OldOffsets(c.q); !errors.Is(err, c.err) || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v %v, want %v %v", c.name, got, err, c.want, c.err)
		}
	}
	p.BecomeFollower(assign(2, 6, 2, []int32{2, 3}, 1, 2, 3))
	if _, err := p.OldOffsets(OldRequest{Timestamp: Latest, Most: 5}); !errors.Is(err, ErrNotLeader) {
		t.Errorf("at a follower: %v", err)
	}
	if got, err := p.OldOffsets(OldRequest{Timestamp: Earliest, Most: 5, AnyReplica: true}); err != nil || !slices.Equal(got, []batch.Offset{0}) {
		t.Errorf("at a follower, for debugging: %v %v", got, err)
	}
}
