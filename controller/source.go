package controller

import (
	"context"
	"sync"

	"millrace/controller/image"
)

// Update is a step in what a broker sees of the cluster.
type Update struct {
	Image *image.Image
	Delta *image.Delta // all that changed since this subscriber's previous Update
}

// Source is one subscriber's view of the committed images. One goroutine uses it.
type Source interface {
	// Next blocks until there is an image beyond the offset after, and gives the
	// latest. Images in between are skipped; their deltas are not. Asked with
	// another offset than that of the image it gave last, it starts afresh: the
	// Delta then names everything.
	Next(ctx context.Context, after int64) (Update, error)
}

// publisher hands committed images to subscribers. Each keeps its own merged
// delta: it is as large as what changed, however long nobody asked.
type publisher struct {
	mu     sync.Mutex
	image  *image.Image
	subs   []*subscriber
	closed bool
}

func newPublisher(first *image.Image) *publisher { return &publisher{image: first} }

type subscriber struct {
	p    *publisher
	wake chan struct{} // holds one token

	// Guarded by the publisher's lock.
	given   int64          // offset of the image given last; -1 before any
	pending []*image.Delta // since then, oldest first
}

// foldAt is how many deltas a subscriber that does not ask keeps apart. Merging
// costs as much as all that is pending, so it is not done for each one.
const foldAt = 64

// fold merges what is pending.
func (s *subscriber) fold() *image.Delta {
	var all *image.Delta
	for _, d := range s.pending {
		all = all.Then(d)
	}
	s.pending = nil
	return all
}

// subscribe gives a new subscriber.
func (p *publisher) subscribe() Source {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &subscriber{p: p, wake: make(chan struct{}, 1), given: -1}
	p.subs = append(p.subs, s)
	return s
}

// publish makes an image the latest.
func (p *publisher) publish(next *image.Image, delta *image.Delta) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.image = next
	for _, s := range p.subs {
		if s.given >= 0 {
			if s.pending = append(s.pending, delta); len(s.pending) == foldAt {
				s.pending = []*image.Delta{s.fold()}
			}
		}
		s.signal()
	}
}

// latest is the newest committed image.
func (p *publisher) latest() *image.Image {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.image
}

// close ends every Next, now and later, with ErrStopped.
func (p *publisher) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, s := range p.subs {
		s.signal()
	}
}

func (s *subscriber) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Next is part of Source.
func (s *subscriber) Next(ctx context.Context, after int64) (Update, error) {
	for {
		if u, ok, err := s.take(after); ok || err != nil {
			return u, err
		}
		select {
		case <-ctx.Done():
			return Update{}, ctx.Err()
		case <-s.wake:
		}
	}
}

func (s *subscriber) take(after int64) (Update, bool, error) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.p.closed {
		return Update{}, false, ErrStopped
	}
	now := s.p.image
	if now.Offset() <= after {
		return Update{}, false, nil
	}
	delta := s.fold()
	if s.given < 0 || s.given != after {
		delta = image.Diff(image.New(), now)
	}
	if delta == nil {
		delta = &image.Delta{}
	}
	s.given = now.Offset()
	return Update{Image: now, Delta: delta}, true, nil
}
