package partition

import (
	"errors"
	"fmt"

	"millrace/storage/batch"
	"millrace/storage/log"
	"millrace/storage/producer"
)

// A move to another data directory (KIP-113) fills a second log, the future one, from the partition's while that is
// written and read, and puts it in its place once it holds the same. What is done to the future log meanwhile is done under
// moving alone, and not under the partition's lock: its disk may hang, and who appends, truncates or changes configs waits
// for it no more than a reader does. The exchange is made under both, which are then held for the disks, once in a move.
// Readers that the exchange overtakes read the new log.
//
// moving is taken before the partition's lock. Under that one a future log is only given up, or said to be askew: that it
// may hold what was cut off from the log.

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

// source is the log that is copied, at one moment.
type source struct {
	view      *log.View
	producers []producer.Entry
}

// copied looks at the log; the partition's lock is held.
func (p *Partition) copied() source { return source{p.Log().View(), p.Log().Producers()} }

// overtaken says whether the log was cut, or begins further on, since it was looked at.
func (p *Partition) overtaken(from source) bool {
	return p.askew.Load() || p.Log().View().LogStart() > from.view.LogStart()
}

// BeginMove begins to fill a log in another directory: an empty one, or what an earlier life has left of it. The cleaning
// of the partition's log is paused.
func (p *Partition) BeginMove(f *log.Log) error {
	p.moving.Lock()
	defer p.moving.Unlock()
	for {
		p.mu.Lock()
		gone, other := p.role.Load().gone, p.future.Load()
		p.askew.Store(false)
		from := p.copied()
		p.mu.Unlock()
		switch {
		case gone:
			return ErrGone
		case other != nil:
			return fmt.Errorf("%v is on its way to %s", p, other.Dir())
		}
		err := error(nil)
		if v := f.View(); f.IsCopyOf(p.Log()) || v.LogStart() == v.LogEnd() {
			err = align(f, from)
		} else {
			err = beginFuture(f, from) // what was copied may have been cleaned away since
		}
		if err == nil {
			break
		}
		if !p.overtaken(from) {
			return fmt.Errorf("begin to move %v: %w", p, err) // it may be tried again: f is no copy before it is one
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.role.Load().gone {
		return ErrGone
	}
	f.CopyOf(p.Log())
	f.SetConfig(p.Log().Config())
	p.future.Store(f)
	return nil
}

// align cuts off what a future log holds and the log does not, and has it begin where the log does.
func align(f *log.Log, from source) error {
	l := from.view
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
	return beginFuture(f, from)
}

// beginFuture empties a future log and has it begin where the log does, knowing the producers whose records lie below
// that.
func beginFuture(f *log.Log, from source) error {
	l := from.view
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
	var below []producer.Entry
	for _, e := range from.producers {
		if e.LastOffset < start {
			below = append(below, e)
		}
	}
	f.Seed(below)
	return nil
}

// endMove gives up, under the partition's lock, what is being filled. It may be written to until nobody holds moving.
func (p *Partition) endMove() { p.future.Store(nil) }

// awaitFilling returns when what was given up is not written to any more; the partition's lock is not held.
func (p *Partition) awaitFilling() {
	p.moving.Lock()
	defer p.moving.Unlock() // to wait is all that is wanted
}

// EndMove gives up the move; the future log is the caller's to remove. That there is none is no error.
func (p *Partition) EndMove() {
	p.mu.Lock()
	p.endMove()
	p.mu.Unlock()
	p.awaitFilling()
}

// Filled is what one step of a move did.
type Filled struct {
	Bytes int  // copied
	Whole bool // the future log held all that the log did
}

// Fill copies up to so many bytes to the future log, at least one batch.
func (p *Partition) Fill(maxBytes int) (Filled, error) {
	p.moving.Lock()
	defer p.moving.Unlock()
	f := p.future.Load()
	if f == nil {
		return Filled{}, ErrNoMove
	}
	if p.askew.Load() || f.View().LogEnd() < p.Log().View().LogStart() {
		if err := p.restart(f); err != nil {
			return Filled{}, err
		}
	}
	return p.fill(f, maxBytes)
}

// restart aligns a future log that is askew, or begins it anew: retention, or a deletion, has overtaken it. moving is held.
func (p *Partition) restart(f *log.Log) error {
	p.mu.Lock()
	askew := p.askew.Swap(false)
	from := p.copied()
	p.mu.Unlock()
	err := error(nil)
	if askew {
		err = align(f, from)
	} else {
		err = beginFuture(f, from)
	}
	if err == nil {
		return nil
	}
	over := p.overtaken(from)
	if askew {
		p.askew.Store(true)
	}
	if over {
		return nil // another step begins with what there is then
	}
	return fmt.Errorf("align what %v is moved to: %w", p, err)
}

// fill is Fill of a future log that was in order a moment ago. moving is held.
func (p *Partition) fill(f *log.Log, maxBytes int) (Filled, error) {
	v := p.Log().View()
	done := Filled{}
	if p.askew.Load() {
		return done, nil // the log was cut again
	} else if from := f.View().LogEnd(); from < v.LogStart() {
		return done, nil // overtaken again
	} else if from < v.LogEnd() {
		b, err := batchesFrom(v, from, maxBytes)
		if newest := p.Log().View(); err != nil && (from < newest.LogStart() || from > newest.LogEnd() || p.askew.Load()) {
			return done, nil // overtaken while it was read
		}
		if err != nil {
			return done, fmt.Errorf("move %v: %w", p, err)
		}
		if p.askew.Load() {
			return done, nil // what was read may follow a cut that the future log has not seen
		}
		if _, err := f.AppendAsFollower(b); err != nil {
			return done, fmt.Errorf("move %v: %w", p, placed(v, err))
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

// placed says of a batch that was corrupt when it was copied in which file of its log it stands, and where.
func placed(v *log.View, err error) error {
	var bad *log.CopiedError
	if !errors.As(err, &bad) {
		return err
	}
	segment, position, unknown := v.Where(bad.Offset)
	if unknown != nil {
		return err
	}
	return fmt.Errorf("%s at position %d: %w", segment, position, err)
}

// Settle makes durable what was copied, so that an exchange, which waits for that with the partition's lock held, has
// little to wait for.
func (p *Partition) Settle() error {
	p.moving.Lock()
	defer p.moving.Unlock()
	f := p.future.Load()
	if f == nil {
		return ErrNoMove
	}
	if err := f.Flush(); err != nil {
		return fmt.Errorf("move %v: %w", p, err)
	}
	return nil
}

// exchangeMost is how many bytes are copied under the partition's lock.
const exchangeMost = 1 << 20

// Exchange puts the future log in the place of the log. swap does so on the disk and gives the log that stands there
// then; nil is not an answer. done is false where too much has come meanwhile, or the log was cut: it is to be filled
// further.
func (p *Partition) Exchange(swap func() (*log.Log, error)) (done bool, err error) {
	p.moving.Lock()
	defer p.moving.Unlock()
	p.mu.Lock()
	defer p.unlockAndTell()
	if p.role.Load().gone {
		return false, ErrGone
	}
	f := p.future.Load()
	if f == nil {
		return false, ErrNoMove
	}
	for copied := 0; ; {
		if p.askew.Load() || f.View().LogEnd() < p.Log().View().LogStart() {
			return false, nil
		}
		step, err := p.fill(f, exchangeMost)
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
	p.future.Store(nil)
	p.wakeAll()
	return true, nil
}
