package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"millrace/storage/disk"
	"millrace/storage/log"
)

// Close closes everything. With clean, logs are closed in order, the checkpoints written, and each directory in which
// all of that went well gets the mark that lets the next start read of segments no more than where they end. Nobody may use the logs any more.
func (s *Store) Close(clean bool) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	epoch := s.brokerEpoch
	s.mu.Unlock()
	s.awaitOpening()
	all := s.openLogs()
	var errs []error
	for _, d := range s.dirs {
		if !clean || d.health.Offline() != nil {
			for _, l := range all[d] {
				l.Abandon()
			}
			continue
		}
		if err := s.closeDir(d, all[d], epoch); err != nil {
			errs = append(errs, fmt.Errorf("close %s: %w", d.path, err))
		}
	}
	s.unlock(clean)
	return errors.Join(errs...)
}

func (s *Store) closeDir(d *directory, logs map[partitionKey]*log.Log, brokerEpoch int64) error {
	if brokerEpoch < 0 {
		brokerEpoch = d.mark // no broker has registered
	}
	errs := []error{sideBySide(logs, (*log.Log).Close)}
	keep := s.notOpen(d)
	for i := range checkpointFiles {
		errs = append(errs, s.writeCheckpoint(d, i, s.now(), keep, logs, true))
	}
	if err := joined(errs...); err != nil {
		return err
	}
	if n := s.unrecovered(d, logs); n > 0 {
		s.logger.Warn("no mark of a clean stop: not all logs were opened and recovered", zap.String("dir", d.path), zap.Int("logs", n))
		return nil
	}
	if err := disk.Replace(s.fs, d.path, cleanFile, encodeClean(brokerEpoch)); err != nil {
		return d.health.Fail("writing "+cleanFile, err)
	}
	return nil
}

// joined is errors.Join of what has not been said by one before: once a directory is given up, all that is done in it fails
// for the same reason.
func joined(errs ...error) error {
	said := map[string]bool{}
	return errors.Join(slices.DeleteFunc(slices.Clone(errs), func(err error) bool {
		if err == nil {
			return true
		}
		news := false
		for line := range strings.Lines(err.Error()) {
			line = strings.TrimSuffix(line, "\n")
			news = news || !said[line]
			said[line] = true
		}
		return !news
	})...)
}

// unrecovered counts the logs of a directory that the next start has to look at again: those that did not open, and after
// a start that was not clean those that nobody opened.
func (s *Store) unrecovered(d *directory, logs map[partitionKey]*log.Log) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for k, e := range s.logs {
		if e.dir == d && logs[k] == nil {
			n++
		}
	}
	if !d.clean {
		n += len(d.found) + len(d.futures)
	}
	return n
}

// unlock gives the directories back. After a clean stop the lock files go too, as Kafka's do.
func (s *Store) unlock(clean bool) {
	for _, d := range s.dirs {
		if d.lock == nil {
			continue
		}
		if clean && d.health.Offline() == nil {
			_ = s.fs.Remove(d.path + "/" + lockFile)
		}
		_ = d.lock.Close()
		d.lock = nil
	}
}
