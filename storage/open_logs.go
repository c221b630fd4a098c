package storage

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"millrace/storage/log"
)

// Wanted is one log that is to be opened: what LogAt is asked for.
type Wanted struct {
	Where
	Topic     string
	ID        [16]byte
	Partition int32
	// Config is asked for where the log is opened, by any goroutine.
	Config func() log.Config
}

// tellProgress is how often a long opening of logs is told of.
const tellProgress = 5 * time.Second

// OpenLogs opens logs that lie on disk, all directories at the same time and perDirectory logs of each, so that LogAt has
// them ready. Of a directory for which that takes long it is told every few seconds how far it has come. It returns when all are open; what did not open LogAt says. Those that are not on disk are left to LogAt,
// which chooses their directories in the order in which it is asked.
func (s *Store) OpenLogs(list []Wanted, perDirectory int) {
	byDir := map[*directory][]Wanted{}
	s.mu.Lock()
	total := 0
	for _, w := range list {
		for _, d := range s.dirs {
			if d.found[partitionKey{topic: w.Topic, partition: w.Partition}] {
				byDir[d] = append(byDir[d], w)
				total++
				break
			}
		}
	}
	s.mu.Unlock()
	if total < 2 {
		return
	}
	begun := s.now()
	var all []*progress
	clean := true
	var wg sync.WaitGroup
	for d, wanted := range byDir {
		clean = clean && d.clean
		p := &progress{s: s, dir: d.path, total: len(wanted), told: begun}
		all = append(all, p)
		work := make(chan Wanted)
		for range min(max(perDirectory, 1), len(wanted)) {
			wg.Go(func() {
				for w := range work {
					_, err := s.LogAt(w.Where, w.Topic, w.ID, w.Partition, w.Config())
					p.opened(err)
				}
			})
		}
		wg.Go(func() {
			defer close(work)
			for _, w := range wanted {
				work <- w
			}
		})
	}
	wg.Wait()
	failed := 0
	for _, p := range all {
		failed += p.failed
	}
	tell := s.logger.Debug
	if !clean {
		tell = s.logger.Info
	}
	tell("logs are open", zap.Int("logs", total), zap.Int("failed", failed), zap.Int64("bytes_read", s.scanned.Load()), zap.Duration("took", s.now().Sub(begun)))
}

// progress tells of an opening of a directory's logs that takes long.
type progress struct {
	s     *Store
	dir   string
	total int

	mu           sync.Mutex
	done, failed int
	told         time.Time
}

func (p *progress) opened(err error) {
	now := p.s.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if err != nil {
		p.failed++
	}
	if now.Sub(p.told) < tellProgress {
		return
	}
	p.told = now
	p.s.logger.Info("logs are being opened", zap.String("dir", p.dir), zap.Int("done", p.done), zap.Int("of", p.total), zap.Int64("bytes_read", p.s.scanned.Load()))
}
