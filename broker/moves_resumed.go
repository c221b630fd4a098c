package broker

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"millrace/broker/partition"
	"millrace/storage"
	"millrace/storage/log"
)

// A move that an earlier life began is gone on with by opening the log that it has
// left. After a kill that log is recovered, which takes as long as it is large. So
// the mover has it opened beside, one after another: images are applied meanwhile,
// and other moves go on. Who wants the partition to be elsewhere meanwhile is
// answered, and has it once the log is open.

// resumeMove has a move gone on with if an earlier life has left one.
func (b *Broker) resumeMove(part *partition.Partition) {
	if b.store.LeftOnItsWay(part.Topic(), part.Index()) {
		b.moves.add(&moving{part: part, resumes: true})
	}
}

// left is a move of an earlier life that is due to be gone on with; nil: there is
// none, or the log of one is being opened. Who is throttled does not wait with that.
func (s *moves) left(now time.Time) *moving {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opening {
		return nil
	}
	return s.resumed(func(m *moving) bool { return !m.after.After(now) })
}

// resumed finds, under mu, a move of an earlier life that is not taken up.
func (s *moves) resumed(which func(*moving) bool) *moving {
	for _, m := range s.list {
		if m.resumes && which(m) {
			return m
		}
	}
	return nil
}

// redirect has a partition whose log is being opened go somewhere else, or with ""
// nowhere, once it is open; on is where it goes as it is. It says whether a log is
// being opened. asking is held.
func (s *moves) redirect(part *partition.Partition, to, on string) (opening bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.resumed(func(m *moving) bool { return m.opening && m.part == part })
	if m == nil {
		return false
	}
	m.off, m.then = to != on, to
	return true
}

// redirected says where a partition goes once its log is open, if that is not where
// it went before.
func (s *moves) redirected(part *partition.Partition) (to string, off bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.resumed(func(m *moving) bool { return m.off && m.part == part }); m != nil {
		return m.then, true
	}
	return "", false
}

// resume opens, beside the mover, what an earlier life has left of a move.
func (b *Broker) resume(m *moving) {
	s, part := &b.moves, m.part
	n := storage.Name{Topic: part.Topic(), Partition: part.Index()}
	if !b.recoveries.begin(n) {
		// The partition was deleted, and what is being opened is the next of its name.
		s.of(m, func() { m.after = b.now().Add(moveRetry) })
		return
	}
	if !s.of(m, func() { m.opening, s.opening = true, true }) {
		b.recovered(n)
		return
	}
	b.background(func(context.Context) {
		var err error
		// One that is deleted from now on is so by recovered; of one that was before, nothing is to be opened.
		if m.future == nil && !part.Gone() {
			m.future, err = b.store.ResumeMove(part.Topic(), part.ID(), part.Index())
		}
		s.asking.Lock()
		if b.takeUpLeft(m, err) {
			s.of(m, func() { m.opening, m.after = false, b.now().Add(moveRetry) })
		} else {
			s.remove(m)
		}
		s.asking.Unlock()
		b.recovered(n)
		s.mu.Lock()
		s.opening = false
		s.mu.Unlock()
		s.nudge()
	})
}

// takeUpLeft goes on with a move whose log is open, or ends it; again says that no
// descriptor is left for it. asking is held.
func (b *Broker) takeUpLeft(m *moving, err error) (again bool) {
	part := m.part
	then, off := b.moves.redirected(part)
	switch {
	case part.Gone():
		return false
	case off:
		if err := b.store.CancelMove(part.Topic(), part.Index()); err != nil {
			b.log.Error("what was copied of a partition is left behind", zap.Stringer("partition", part), zap.Error(err))
		}
		if then == "" {
			return false
		}
		if err := b.beginMove(part, then); err != nil {
			b.log.Error("a partition does not begin to move", zap.Stringer("partition", part), zap.String("dir", then), zap.Error(err))
		}
		return false
	case err == nil && m.future == nil:
		return false
	case err == nil:
		err = b.takeUp(part, m.future)
	}
	switch {
	case err == nil || part.Gone():
		return false
	case errors.Is(err, log.ErrNoDescriptor):
		return true
	}
	b.log.Error("a partition that was on its way to another directory stays where it is", zap.Stringer("partition", part), zap.Error(errors.Join(err, b.store.CancelMove(part.Topic(), part.Index()))))
	return false
}
