package broker

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/broker/coordinator"
	"millrace/broker/partition"
	"millrace/storage/batch"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// coordinatorLog is a partition of an internal topic as its coordinator's
// driver sees it, for one leadership of this broker.
type coordinatorLog struct {
	part  *partition.Partition
	epoch batch.LeaderEpoch
	seen  *observation
}

// Append is part of coordinator.Log. Only a failing disk leaves the outcome
// unknown; every other error comes before anything is written.
func (l *coordinatorLog) Append(b []byte) (base, last batch.Offset, err error) {
	h, err := batch.ParseHeader(b)
	if err != nil {
		return 0, 0, err
	}
	rules := producer.Rules{Origin: producer.Coordinator, Verified: true}
	if h.Attributes.Control() {
		m, ok, err := batch.ParseMarker(b)
		if err != nil {
			return 0, 0, err
		}
		if ok {
			rules.Marker = &m
		}
	}
	if most := l.part.Rules(0).MaxBytes; rules.Marker == nil && len(b) > most {
		err := fmt.Errorf("%d bytes of records in one batch of %v, which takes %d", len(b), l.part, most)
		return 0, 0, &coordinator.Refused{Code: kerr.MessageTooLarge.Code, Err: err}
	}
	ap, err := l.part.Append(b, h, partition.AppendOptions{LeaderEpoch: l.epoch, Acks: -1, Producer: rules})
	l.seen.appended(l.part.Topic(), int(h.Count), len(b), err)
	if err != nil {
		var offline *log.OfflineError
		if errors.As(err, &offline) {
			return 0, 0, err
		}
		return 0, 0, &coordinator.Refused{Code: codeOf(err), Err: err}
	}
	return ap.Base, ap.Last, nil
}

func (l *coordinatorLog) view() *log.View { return l.part.Log().View() }

// Start is part of coordinator.Log.
func (l *coordinatorLog) Start() batch.Offset { return l.view().LogStart() }

// End is part of coordinator.Log.
func (l *coordinatorLog) End() batch.Offset { return l.view().LogEnd() }

// HighWatermark is part of coordinator.Log.
func (l *coordinatorLog) HighWatermark() batch.Offset { return l.view().HighWatermark() }

// Read is part of coordinator.Log.
func (l *coordinatorLog) Read(from batch.Offset, maxBytes int) ([]byte, error) {
	return l.part.Records(from, maxBytes)
}

// Where is part of coordinator.Log.
func (l *coordinatorLog) Where(o batch.Offset) (file string, position int64) { return l.part.Where(o) }

// Watch is part of coordinator.Log.
func (l *coordinatorLog) Watch(wake func()) (stop func()) {
	place := &partition.Watching{}
	l.part.Watch(place, partition.NewCaller(wake), partition.OnHighWatermark)
	return func() { l.part.Unwatch(place) }
}
