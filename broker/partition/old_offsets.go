package partition

import (
	"errors"
	"fmt"

	"millrace/storage/batch"
	"millrace/storage/log"
)

// ErrNegativeCount is a request for less than no offsets.
var ErrNegativeCount = errors.New("a negative number of offsets")

// OldRequest is one partition of a ListOffsets request of version 0.
type OldRequest struct {
	Timestamp int64
	Most      int32
	// Consumer sees no offset above the high watermark: replica id -1.
	Consumer bool
	// AnyReplica lets a follower answer: replica id -2, for debugging.
	AnyReplica bool
}

// OldOffsets lists offsets, highest first, as version 0 of ListOffsets does: the log end, then where segments start. For
// a consumer the high watermark stands for all that lie above it.
func (p *Partition) OldOffsets(q OldRequest) ([]batch.Offset, error) {
	r := p.role.Load()
	if !r.leader && !q.AnyReplica {
		return nil, ErrNotLeader
	}
	if q.Most < 0 {
		return nil, ErrNegativeCount
	}
	hw := batch.Offset(0)
	list, err := onLog(p, func(l *log.Log) ([]batch.Offset, error) {
		v := l.View()
		hw = v.HighWatermark()
		return v.OldOffsets(q.Timestamp, p.now().UnixMilli(), int(q.Most))
	})
	if err != nil {
		return nil, fmt.Errorf("list offsets of %v: %w", p, err)
	}
	if q.Consumer && len(list) > 0 && list[0] > hw {
		below := 0
		for below < len(list) && list[below] > hw {
			below++
		}
		list = append([]batch.Offset{hw}, list[below:]...)
	}
	return list, nil
}
