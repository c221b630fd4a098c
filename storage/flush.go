package storage

import (
	"context"
	"errors"
	"sync"
	"time"

	"millrace/storage/log"
)

// waiters is how many logs of a directory wait for the disk at a time: what several ask of it is done together.
const waiters = 8

// FlushDue makes durable what is due: of each log the segments that were rolled away, so that its recovery point can pass
// them, and all of those whose flush.messages or flush.ms is over. (Kafka has each roll schedule a flush up to where the
// new segment begins; here whoever calls this each second does. A flush that did not come about is due again.) The
// directories go side by side, and several logs of each. It takes as long as the disk does; when ctx ends no further log
// is begun with.
func (s *Store) FlushDue(ctx context.Context, now time.Time) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, logs := range s.openLogs() {
		all.Go(func() {
			err := sideBySide(logs, func(l *log.Log) error {
				if ctx.Err() != nil || l.OutOfUse() != nil {
					return nil
				}
				return flushDue(l, now)
			})
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	all.Wait()
	return joined(errs...)
}

// Settle keeps room for files that are to be opened until ctx ends: what was written to those that were not used for long
// is synced, and they are closed. Where nobody does it, who opens a file waits for that.
func (s *Store) Settle(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.files.Crowded():
			s.files.Settle()
		}
	}
}

// flushDue flushes of a log what is due.
func flushDue(l *log.Log, now time.Time) error {
	var err error
	switch {
	case l.FlushDue(now.UnixMilli()):
		err = l.Flush()
	case l.FlushRolledDue():
		err = l.FlushRolled()
	}
	if errors.Is(err, log.ErrClosed) {
		return nil // it was deleted meanwhile, or has taken another one's place
	}
	return err
}

// sideBySide calls f for each log, for at most waiters at a time, and returns what failed, said once.
func sideBySide(logs map[partitionKey]*log.Log, f func(*log.Log) error) error {
	var mu sync.Mutex
	var errs []error
	work := make(chan *log.Log)
	var wg sync.WaitGroup
	for range min(waiters, len(logs)) {
		wg.Go(func() {
			for l := range work {
				if err := f(l); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, l := range logs { // any order: each is its own
		work <- l
	}
	close(work)
	wg.Wait()
	return joined(errs...)
}
