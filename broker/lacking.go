package broker

import (
	"context"
	"time"

	"go.uber.org/zap"

	"millrace/controller/image"
)

// lacking is the replicas whose log did not open for lack of a file descriptor:
// a lack that passes, as when connections end. They are offline like any other
// whose log did not open, but the publisher tries them again, after a pause that
// doubles while nothing has changed.
type lacking struct {
	keys map[replicaKey]bool // under replicas.mu
	// From here on the publisher's goroutine's own.
	told  bool          // the log says that there are some
	pause time.Duration // 0: there are none
	due   time.Time
}

const (
	firstPause = time.Second
	mostPause  = 30 * time.Second
)

// note tells the log of a lack, once until all logs are open, and has it be looked
// at again.
func (l *lacking) note(b *Broker, topic string, index int32, err error) {
	if !l.told {
		l.told = true
		b.log.Error("no file descriptor is left to open a partition's log: it is offline until there is one, as are others that are not told of", zap.String("topic", topic), zap.Int32("partition", index), zap.Error(err))
	}
	if l.pause == 0 {
		l.pause, l.due = firstPause, b.now().Add(firstPause)
	}
}

// openLacking opens the logs that lacked a descriptor, if it is time. It returns
// a context that ends when it will be time again: ctx itself where nothing is
// lacking.
func (r *replicas) openLacking(ctx context.Context) (until context.Context, stop context.CancelFunc) {
	l := &r.lacking
	if l.pause == 0 {
		return ctx, func() {}
	}
	if !r.b.now().Before(l.due) {
		l.pause = min(2*l.pause, mostPause)
		if r.tryLacking(r.b.applied()) {
			l.pause = firstPause
			r.b.coordinators.imageChanged(r.b.applied(), &image.Delta{})
		}
		l.due = r.b.now().Add(l.pause)
	}
	if len(r.lackingKeys()) == 0 {
		r.b.log.Info("no partition's log lacks a file descriptor any more")
		l.told, l.pause = false, 0
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, max(l.due.Sub(r.b.now()), time.Millisecond))
}

func (r *replicas) lackingKeys() []replicaKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]replicaKey, 0, len(r.lacking.keys))
	for k := range r.lacking.keys { // any order: all of them are wanted
		list = append(list, k)
	}
	return list
}

// tryLacking opens logs that lacked a descriptor until one lacks it still, and
// says whether it has opened any.
func (r *replicas) tryLacking(img *image.Image) (some bool) {
	for _, k := range r.lackingKeys() {
		t := img.TopicByID(k.topic) // it is there, and the partition here: what an image takes away is lacking no more
		p := t.Partition(k.index)
		part := r.open(img, t, p, r.b.topicConfig(img, t.Name))
		if part == nil {
			return some
		}
		some = true
		if err := r.b.take(img, part, p); err != nil {
			r.b.log.Error("a partition does not take its new role", zap.String("topic", t.Name), zap.Int32("partition", p.Index), zap.Error(err))
		}
	}
	return some
}
