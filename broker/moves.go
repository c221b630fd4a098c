package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"millrace/broker/move"
	"millrace/broker/partition"
	"millrace/controller/image"
	"millrace/storage/log"
)

// moves drives replicas on their way to another data directory (KIP-113): one
// goroutine copies a piece of each in turn, as fast as
// replica.alter.log.dirs.io.max.bytes.per.second allows. One that has caught up
// is first told to the controller (KIP-858), so that a start whose old directory
// fails knows where the partition is, and then exchanged.
//
// A move begins, arrives and is called off under asking, by whoever does it: an entry
// that is not on the list any more is another move's, or nobody's, and nothing is done
// for it. Only the copying goes on beside, and what is asked of the controller.
type moves struct {
	asking sync.Mutex // before any partition's locks
	wake   chan struct{}

	mu      sync.Mutex
	list    []*moving // in turn
	opening bool      // the log of one that resumes

	quota move.Quota // the goroutine's own
}

// moving is one replica on its way.
type moving struct {
	part *partition.Partition
	dir  [16]byte // the directory it goes to
	// resumes: an earlier life began the move, and its log was not opened yet, or where future is not nil not taken up.
	resumes bool
	future  *log.Log // whose is who opens it
	lacked  bool     // the log was told of a lack; the goroutine's own
	// From here on under moves.mu.
	asked bool      // the controller may know dir
	told  bool      // it does
	after time.Time // not before
	// Of one that resumes: its log is being opened; it was called off meanwhile; and is to go there, or nowhere.
	opening, off bool
	then         string
}

const (
	// movePiece is how much of a replica is copied before the next one's turn.
	movePiece = 1 << 20
	// moveRetry is the pause after the controller did not take note, or no file could be opened.
	moveRetry = time.Second
	// moveRate is the config that throttles moves.
	moveRate = "replica.alter.log.dirs.io.max.bytes.per.second"
)

func (m *moving) key() replicaKey { return replicaKey{m.part.ID(), m.part.Index()} }

func (s *moves) add(m *moving) {
	s.mu.Lock()
	s.list = append(s.list, m)
	s.mu.Unlock()
	s.nudge()
}

// nudge has the mover look at the list.
func (s *moves) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// drop takes a replica off the list and says whether the controller may have been
// told of its new directory.
func (s *moves) drop(part *partition.Partition) (asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(m *moving) bool {
		asked = asked || m.part == part && m.asked
		return m.part == part
	})
	return asked
}

// remove takes one entry off the list and says whether it stood there.
func (s *moves) remove(m *moving) (stood bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.list, m)
	if i >= 0 {
		s.list = slices.Delete(s.list, i, i+1)
	}
	return i >= 0
}

// of changes an entry, if it stands on the list, and says whether it does.
func (s *moves) of(m *moving, change func()) (stands bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stands = slices.Contains(s.list, m)
	if stands {
		change()
	}
	return stands
}

// next is whose turn it is; nil and how long to wait for somebody's, or with no
// time nobody is on the way.
func (s *moves) next(now time.Time) (m *moving, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range s.list {
		if m.resumes && s.opening {
			continue // one after another
		}
		if d := m.after.Sub(now); d > 0 {
			if wait == 0 || d < wait {
				wait = d
			}
			continue
		}
		s.list = append(slices.Delete(s.list, i, i+1), m)
		return m, 0
	}
	return nil, wait
}

// moveReplicas copies until the broker stops.
func (b *Broker) moveReplicas(ctx context.Context) {
	for ctx.Err() == nil {
		if m := b.moves.left(b.now()); m != nil {
			b.resume(m)
			continue
		}
		m, wait := b.moves.next(b.now())
		if m != nil {
			b.moves.quota.Rate = b.moveRate()
			now := b.now().UnixMilli()
			if most := b.moves.quota.Take(now); most > 0 {
				b.moveOn(ctx, m, int(min(most, movePiece)))
				continue
			}
			wait = time.Duration(b.moves.quota.Wait(now)) * time.Millisecond
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
		case <-b.moves.wake:
		case <-timer:
		}
	}
}

// moveRate is how many bytes a second may be copied, which may change at any time.
func (b *Broker) moveRate() int64 {
	if text, ok := b.setting(b.applied())(moveRate); ok {
		if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
			return n
		}
	}
	return b.config.Long(moveRate)
}

// moveOn copies a piece of one replica, and ends its move where it has caught up.
func (b *Broker) moveOn(ctx context.Context, m *moving, most int) {
	if m.resumes {
		b.resume(m)
		return
	}
	done, err := m.part.Fill(most)
	b.moves.quota.Took(done.Bytes)
	if err == nil && done.Whole {
		told := false
		if b.moves.of(m, func() { told = m.told }) && !told {
			err, done.Whole = b.announce(ctx, m), false // records may have come when it returns
		} else {
			err = m.part.Settle()
		}
	}
	if err == nil && !done.Whole || err != nil && ctx.Err() != nil {
		return
	}
	b.moves.asking.Lock()
	defer b.moves.asking.Unlock()
	if !b.moves.of(m, func() {}) {
		return // it was called off, and what was met on the way may be another move's
	}
	if err == nil {
		err = b.arrive(m)
	}
	switch {
	case err == nil:
	case errors.Is(err, partition.ErrNoMove), errors.Is(err, partition.ErrGone):
		b.moves.drop(m.part)
	case errors.Is(err, log.ErrNoDescriptor):
		if !m.lacked {
			m.lacked = true
			b.log.Warn("a partition on its way to another directory waits for a file descriptor", zap.Stringer("partition", m.part), zap.Error(err))
		}
		b.moves.of(m, func() { m.after = b.now().Add(moveRetry) })
	default:
		b.log.Error("a partition does not come to its new directory: it stays where it is", zap.Stringer("partition", m.part), zap.Error(err))
		if err := b.cancelMove(m.part); err != nil {
			b.log.Error("what was copied of a partition is left behind", zap.Stringer("partition", m.part), zap.Error(err))
		}
	}
}

// announce tells the controller where a replica will lie. A move that is called off
// meanwhile is told of after that once more: the controller may have heard of the new
// directory last.
func (b *Broker) announce(ctx context.Context, m *moving) error {
	if !b.moves.of(m, func() { m.asked = true }) {
		return nil
	}
	refused, err := b.assignDirectories(ctx, map[replicaKey][16]byte{m.key(): m.dir})
	if !b.moves.of(m, func() {
		m.told = err == nil && len(refused) == 0
		if err != nil {
			m.after = b.now().Add(moveRetry)
		}
	}) {
		b.stays(m.part)
		return nil
	}
	if err != nil {
		b.refused.Warn("the controller does not record the directory of a replica that is moved; it is told again", zap.Error(err))
		return nil
	}
	if len(refused) > 0 {
		return fmt.Errorf("the controller does not take note of its directory: %w", refused[m.key()])
	}
	return nil
}

// stays has the controller told where a replica lies, which may have heard of
// another directory.
func (b *Broker) stays(part *partition.Partition) {
	if dir := b.store.DirectoryOf(part.Topic(), part.Index()); dir != [16]byte{} {
		b.directories.chosen(replicaKey{part.ID(), part.Index()}, dir)
	}
}

// arrive ends the move of a replica that has caught up and whose directory is told.
// asking is held.
func (b *Broker) arrive(m *moving) error {
	var broken error
	done, err := m.part.Exchange(func() (*log.Log, error) {
		l, touched, err := b.store.FinishMove(m.part.Topic(), m.part.ID(), m.part.Index())
		if l != nil && err != nil {
			b.log.Error("the checkpoints still tell of a partition that has moved", zap.Stringer("partition", m.part), zap.Error(err))
			err = nil
		}
		if touched {
			broken = err
		}
		return l, err
	})
	if broken != nil {
		b.moves.drop(m.part)
		b.replicas.fail(m.part, broken)
		b.stays(m.part)
		return nil
	}
	if err != nil || !done {
		return err
	}
	b.moves.drop(m.part)
	b.directories.chosen(m.key(), m.dir) // over what may have been told since
	b.log.Info("a partition has moved to another directory", zap.Stringer("partition", m.part), zap.String("dir", m.part.Log().Dir()))
	return nil
}

// beginMove begins to move a replica to a directory. asking is held.
func (b *Broker) beginMove(part *partition.Partition, dir string) error {
	l, err := b.store.BeginMove(part.Topic(), part.ID(), part.Index(), dir)
	if err != nil {
		return err
	}
	if err := b.takeUp(part, l); err != nil {
		return errors.Join(err, b.store.CancelMove(part.Topic(), part.Index()))
	}
	return nil
}

// takeUp has a log filled that is to take the place of a partition's.
func (b *Broker) takeUp(part *partition.Partition, l *log.Log) error {
	part.Log().PauseCleaning()
	if err := part.BeginMove(l); err != nil {
		part.Log().ResumeCleaning()
		return err
	}
	b.moves.add(&moving{part: part, dir: b.store.FutureOf(part.Topic(), part.Index())})
	return nil
}

// cancelMove gives up the move of a replica. asking is held.
func (b *Broker) cancelMove(part *partition.Partition) error {
	asked := b.moves.drop(part)
	part.EndMove()
	err := b.store.CancelMove(part.Topic(), part.Index())
	part.Log().ResumeCleaning()
	if asked {
		b.stays(part)
	}
	return err
}

// moveState is what a request to have a partition in a directory meets.
func (b *Broker) moveState(img *image.Image, topic string, index int32, dir string) (s move.State, part *partition.Partition) {
	s.NameTooLong = !b.store.MovableName(topic, index)
	for _, d := range b.store.Directories() {
		if d.Absolute == dir {
			s.Known, s.Offline, s.Cordoned = true, d.Failure != nil, d.Cordoned
		}
	}
	t := img.TopicByName(topic)
	if t == nil || t.Partition(index) == nil {
		return s, nil
	}
	s.Exists = true
	if part = b.replicas.get(t.ID, index); part == nil {
		s.Broken = b.replicas.broken(t.ID, index)
		return s, nil
	}
	s.Here, s.Broken = true, part.Log().Offline() != nil
	s.At, s.To = b.store.PlaceOf(topic, index)
	if to, off := b.moves.redirected(part); off {
		s.To = to
	}
	return s, part
}
