package partition

import (
	"errors"
	"fmt"

	"millrace/storage/batch"
	"millrace/storage/log"
)

// A move to another data directory (KIP-113) fills a second log, the future one, from the partition's while that is
// written and read, and puts it in its place once it holds the same. Filling takes no lock that appends or readers want;
// the exchange is made under the partition's lock, which is then held for the disk, once in a move. Readers that the
// exchange overtakes read the new log.

// ErrNoMove says that the partition is on its way nowhere.
var ErrNoMove = errors.New("the partition is not on its way to another directory")

// onLog runs a read on the log, and once more on another one that has taken its place meanwhile.
func onLog[T any](p *Partition, read func(*log.Log) (T, error)) (T, error) {
	for {
		l := p.Log()
		x, err := read(l)
		if err == nil || !errors.Is(err, log.ErrClosed) || !p.replaced(l) {
			return x, err
		}
	}
}

// replaced says whether another log has taken this one's place, after an exchange that is under way.
func (p *Partition) replaced(l *log.Log) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Log() != l
}

// Records reads whole batches from an offset on, for those who read all there is: at least one, where there is one.
func (p *Partition) Records(from batch.Offset, maxBytes int) ([]byte, error) {
	read := func(l *log.Log) ([]byte, error) { return batchesFrom(l.View(), from, maxBytes) }
	b, err := onLog(p, read)
	for n := 0; log.AwaitDescriptor(err, n); n++ {
		b, err = onLog(p, read)
	}
	return b, err
}

func batchesFrom(v *log.View, from batch.Offset, maxBytes int) ([]byte, error) {
	s, err := v.Read(from, v.LogEnd(), maxBytes, true)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	b := make([]byte, s.Len())
	n, err := s.ReadAt(b, 0)
	if n < len(b) {
		return nil, err
	}
	whole := 0
	for whole < len(b) {
		h, err := batch.ParseHeader(b[whole:])
		if err != nil || h.Size() > len(b)-whole {
			break
		}
		whole += h.Size()
	}
	return b[:whole], nil
}

// BeginMove begins to fill a log in another directory: an empty one, or what an earlier life has left of it. The cleaning
// of the partition's log is paused.
func (p *Partition) BeginMove(f *log.Log) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moving.Lock()
	defer p.moving.Unlock()
	switch {
	case p.role.Load().gone:
		return ErrGone
	case p.future != nil:
		return fmt.Errorf("%v is on its way to %s", p, p.future.Dir())
	}
	err := error(nil)
	if v := f.View(); f.IsCopyOf(p.Log()) || v.LogStart() == v.LogEnd() {
		err = p.align(f)
	} else {
		err = p.beginFuture(f, p.Log().View()) // what was copied may have been cleaned away since
	}
	if err != nil {
		return fmt.Errorf("begin to move %v: %w", p, err) // it may be tried again: f is no copy before it is one
	}
	f.CopyOf(p.Log())
	f.SetConfig(p.Log().Config())
	p.future, p.askew = f, false
	return nil
}

// align cuts off what a future log holds and the log does not, and has it begin where the log does. Both locks are held.
func (p *Partition) align(f *log.Log) error {
	l := p.Log().View()
	for {
		v := f.View()
		end := v.LogEnd()
		// A log start that was not stored may have gone back.
		if v.LogStart() == end || end < l.LogStart() || v.LogStart() > l.LogStart() {
			break
		}
		e := v.LatestEpoch()
		known, to := l.EndOffsetForEpoch(e)
		if known == batch.NoLeaderEpoch || to == batch.NoOffset {
			to = l.LogStart()
		} else if known < e {
			_, own := v.EndOffsetForEpoch(known)
			to = min(to, own)
		}
		if to = min(to, l.LogEnd()); to >= end {
			return nil
		}
		if to <= max(v.LogStart(), l.LogStart()) {
			break
		}
		if err := f.Truncate(to); err != nil {
			return err
		}
	}
	if v := f.View(); v.LogStart() == v.LogEnd() && v.LogStart() == l.LogStart() && v.LogStart() == 0 {
		return nil
	}
	return p.beginFuture(f, l)
}

// beginFuture empties a future log and has it begin where the log does, knowing the producers whose records lie below
// that. Both locks are held.
func (p *Partition) beginFuture(f *log.Log, l *log.View) error {
	start := l.LogStart()
	if start < l.LogEnd() {
		// Batches are copied whole, also one that the log start has cut into.
		b, err := batchesFrom(l, start, 1)
		if err != nil {
			return err
		}
		h, err := batch.ParseHeader(b)
		if err != nil {
			return err
		}
		start = min(start, h.BaseOffset)
	}
	if err := f.TruncateFully(start); err != nil {
		return err
	}
	entries := p.Log().Producers()
	below := entries[:0]
	for _, e := range entries {
		if e.LastOffset < start {
			below = append(below, e)
		}
	}
	f.Seed(below)
	return nil
}

// realign aligns, under the partition's lock, a future log with a log that was truncated. Where it cannot be, for lack of
// a descriptor for one, it is before anything is copied to it again: the log is cut all the same.
func (p *Partition) realign() {
	p.moving.Lock()
	defer p.moving.Unlock()
	if p.future != nil {
		p.askew = true
		_ = p.straighten()
	}
}

// straighten aligns a future log that is askew. Both locks are held.
func (p *Partition) straighten() error {
	if !p.askew {
		return nil
	}
	if err := p.align(p.future); err != nil {
		return fmt.Errorf("truncate what %v is moved to: %w", p, err)
	}
	p.askew = false
	return nil
}

// endMove gives up, under the partition's lock, what is being filled; its log is the caller's to remove.
func (p *Partition) endMove() {
	p.moving.Lock()
	p.future = nil
	p.moving.Unlock()
}

// EndMove gives up the move. That there is none is no error.
func (p *Partition) EndMove() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endMove()
}

// Filled is what one step of a move did.
type Filled struct {
	Bytes int  // copied
	Whole bool // the future log held all that the log did
}

// Fill copies up to so many bytes to the future log, at least one batch.
func (p *Partition) Fill(maxBytes int) (Filled, error) {
	p.moving.Lock()
	if f := p.future; f != nil && (p.askew || f.View().LogEnd() < p.Log().View().LogStart()) {
		p.moving.Unlock()
		if err := p.restart(); err != nil {
			return Filled{}, err
		}
		p.moving.Lock()
	}
	defer p.moving.Unlock()
	return p.fill(maxBytes)
}

// restart aligns a future log that is askew, or begins it anew: retention, or a deletion, has overtaken it.
func (p *Partition) restart() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moving.Lock()
	defer p.moving.Unlock()
	if p.future == nil {
		return ErrNoMove
	}
	if p.askew {
		return p.straighten()
	}
	if err := p.beginFuture(p.future, p.Log().View()); err != nil {
		return fmt.Errorf("move %v: %w", p, err)
	}
	return nil
}

// fill is Fill under moving.
func (p *Partition) fill(maxBytes int) (Filled, error) {
	f := p.future
	if f == nil {
		return Filled{}, ErrNoMove
	}
	v := p.Log().View()
	done := Filled{}
	if p.askew {
		return done, nil // the log was cut again
	} else if from := f.View().LogEnd(); from < v.LogStart() {
		return done, nil // overtaken again
	} else if from < v.LogEnd() {
		b, err := batchesFrom(v, from, maxBytes)
		if err != nil && from < p.Log().View().LogStart() {
			return done, nil // overtaken while it was read
		}
		if err != nil {
			return done, fmt.Errorf("move %v: %w", p, err)
		}
		if _, err := f.AppendAsFollower(b); err != nil {
			return done, fmt.Errorf("move %v: %w", p, err)
		}
		done.Bytes = len(b)
	}
	end := f.View().LogEnd()
	f.SetHighWatermark(min(v.HighWatermark(), end))
	if start := min(v.LogStart(), f.View().HighWatermark()); start > f.View().LogStart() {
		if err := f.SetLogStart(start); err != nil {
			return done, fmt.Errorf("move %v: %w", p, err)
		}
	}
	done.Whole = end == v.LogEnd()
	return done, nil
}

// exchangeMost is how many bytes are copied under the partition's lock.
const exchangeMost = 1 << 20

// Exchange puts the future log in the place of the log. swap does so on the disk and gives the log that stands there
// then; nil is not an answer. done is false where too much has come meanwhile: it is to be filled further.
func (p *Partition) Exchange(swap func() (*log.Log, error)) (done bool, err error) {
	p.mu.Lock()
	defer p.unlockAndTell()
	if p.role.Load().gone {
		return false, ErrGone
	}
	p.moving.Lock()
	defer p.moving.Unlock()
	if p.future == nil {
		return false, ErrNoMove
	}
	if err := p.straighten(); err != nil {
		return false, err
	}
	for copied := 0; ; {
		if p.future.View().LogEnd() < p.Log().View().LogStart() {
			return false, nil
		}
		step, err := p.fill(exchangeMost)
		if err != nil {
			return false, err
		}
		if step.Whole {
			break
		}
		if copied += step.Bytes; copied >= exchangeMost || step.Bytes == 0 {
			return false, nil
		}
	}
	l, err := swap()
	if err != nil {
		return false, fmt.Errorf("exchange the log of %v: %w", p, err)
	}
	p.log.Store(l)
	p.future = nil
	p.wakeAll()
	return true, nil
}
