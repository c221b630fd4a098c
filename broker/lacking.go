package broker

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"millrace/broker/partition"
	"millrace/controller/image"
	"millrace/storage"
	"millrace/storage/log"
)

// lacking is the replicas whose log did not open for lack of a file descriptor:
// a lack that passes, as when connections end. They are offline like any other
// whose log did not open, but are tried again, after a pause that doubles while
// nothing has changed: one after another, and beside the publisher, which images do
// not wait for meanwhile. Those whose name a log has that is still being opened, and
// goes then, are among them.
type lacking struct {
	keys map[replicaKey]bool // under replicas.mu
	// From here on the publisher's goroutine's own.
	told    bool          // the log says that there are some
	pause   time.Duration // 0: there are none
	due     time.Time
	opening *opening // nil: nobody is at it
}

// opening is one log that is being opened beside the publisher.
type opening struct {
	key   replicaKey
	until context.Context // ends with it
	done  chan struct{}
	// Once it is done.
	err      error
	forsaken bool // the log was deleted
}

// errNameTaken is why a replica has no log whose name another one's still has.
var errNameTaken = errors.New("a log of that name is being recovered, to be deleted then")

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
	l.lookAgain(b)
}

// lookAgain has them looked at in a moment.
func (l *lacking) lookAgain(b *Broker) {
	if l.pause == 0 {
		l.pause, l.due = firstPause, b.now().Add(firstPause)
	}
}

// openLacking has the logs opened that lacked a descriptor, if it is time, and takes
// up those that are open. It returns a context that ends when it is to be called
// again: ctx itself where nothing is lacking.
func (r *replicas) openLacking(ctx context.Context) (until context.Context, stop context.CancelFunc) {
	l := &r.lacking
	if l.pause == 0 {
		return ctx, func() {}
	}
	if o := l.opening; o != nil {
		select {
		case <-o.done:
			l.opening = nil
			r.takeUp(o)
		default:
			return o.until, func() {}
		}
	}
	keys := r.lackingKeys()
	if len(keys) == 0 {
		if l.told {
			r.b.log.Info("no partition's log lacks a file descriptor any more")
		}
		l.told, l.pause = false, 0
		return ctx, func() {}
	}
	if r.b.now().Before(l.due) {
		return context.WithTimeout(ctx, max(l.due.Sub(r.b.now()), time.Millisecond))
	}
	free := slices.IndexFunc(keys, func(k replicaKey) bool {
		return !r.b.recoveries.under(storage.Name{Topic: r.b.applied().TopicByID(k.topic).Name, Partition: k.index})
	})
	if free >= 0 {
		l.opening = r.beside(ctx, keys[free])
	}
	if l.opening == nil {
		return context.WithTimeout(ctx, firstPause)
	}
	return l.opening.until, func() {}
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

// beside opens a log, so that the store has it ready; nil: the mover has just begun to open one of its name.
func (r *replicas) beside(ctx context.Context, k replicaKey) *opening {
	b := r.b
	img := b.applied()
	t := img.TopicByID(k.topic) // it is there, and the partition here: what an image takes away is lacking no more
	at, c := b.where(img, t.Partition(k.index)), partition.LogConfig(b.topicConfig(img, t.Name))
	o := &opening{key: k, done: make(chan struct{})}
	n := storage.Name{Topic: t.Name, Partition: k.index}
	if !b.recoveries.begin(n) {
		return nil
	}
	var end context.CancelFunc
	o.until, end = context.WithCancel(ctx)
	b.background(func(context.Context) {
		defer end()
		defer close(o.done)
		_, o.err = b.store.LogAt(at, t.Name, t.ID, k.index, c)
		o.forsaken = b.recovered(n)
	})
	return o
}

// takeUp makes the replica be here whose log was opened beside, or did not open.
func (r *replicas) takeUp(o *opening) {
	l := &r.lacking
	if !o.forsaken && errors.Is(o.err, log.ErrNoDescriptor) {
		l.pause = min(2*l.pause, mostPause)
		l.due = r.b.now().Add(l.pause)
		return
	}
	l.pause, l.due = firstPause, time.Time{} // the next one at once
	if o.forsaken || !r.lacks(o.key) {
		return // it was taken away meanwhile; if it is wanted again, it is another one
	}
	img := r.b.applied()
	t := img.TopicByID(o.key.topic)
	p := t.Partition(o.key.index)
	part := r.open(img, t, p, r.b.topicConfig(img, t.Name))
	if part == nil {
		return
	}
	if err := r.b.take(img, part, p); err != nil {
		r.b.log.Error("a partition does not take its new role", zap.String("topic", t.Name), zap.Int32("partition", p.Index), zap.Error(err))
	}
	r.b.coordinators.imageChanged(img, &image.Delta{})
}

func (r *replicas) lacks(k replicaKey) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.lacking.keys[k]
}
