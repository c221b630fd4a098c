package broker

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"millrace/storage"
	"millrace/storage/log"
)

// The lines that tell a broker's life: one when the data directories are open,
// one when it is ready, two about its stop. Nothing else is logged of a life
// without incident.

func (b *Broker) logOpened() {
	cluster := b.store.ClusterID()
	if cluster == "" {
		cluster = "none yet"
	}
	b.log.Info("opened the data directories", zap.Strings("directories", b.config.LogDirs()), zap.Stringer("state", b.store.State()), zap.String("cluster", cluster))
}

// logReady holds the words by which scripts, and libraries that start brokers
// for tests, know a Kafka that is ready.
func (b *Broker) logReady(begun time.Time) {
	b.tellAway()
	b.tellAhead()
	b.log.Info("Kafka Server started: Transitioning from RECOVERY to RUNNING",
		zap.Int32("node", b.nodeID), zap.String("cluster", b.applied().ClusterID()), zap.Strings("listeners", b.bootstrap()), zap.Duration("took", time.Since(begun).Round(time.Millisecond)))
}

// logStop tells that a broker stops that was ready, and gives what tells that it
// has stopped.
func (b *Broker) logStop(cause error) func() {
	if !b.serving {
		return func() {}
	}
	begun := time.Now()
	b.log.Info("stopping", zap.Error(brief(cause)))
	return func() {
		b.log.Info("stopped", zap.Strings("directories", b.config.LogDirs()), zap.Duration("took", time.Since(begun).Round(time.Millisecond)))
	}
}

// brief is why a broker stops, without what a failing disk has to say: that is
// in Run's error, which is told once.
func brief(cause error) error {
	for _, known := range []error{storage.ErrNoDirectory, ErrMetadataDirectory} {
		if errors.Is(cause, known) {
			return known
		}
	}
	return cause
}

// awayWith says whether a replica's log did not open because of its whole data
// directory: one that is not there, by its id, or one that was given up, zero.
func awayWith(err error) (directory [16]byte, ok bool) {
	var elsewhere *storage.ElsewhereError
	if errors.As(err, &elsewhere) {
		return elsewhere.Directory, true
	}
	return directory, errors.As(err, new(*log.OfflineError))
}

// tellAway tells of the replicas that the start has found to be offline with
// their directories: one line for a directory, however much lies in it.
func (b *Broker) tellAway() {
	img, away := b.applied(), map[[16]byte][]storage.Name{}
	b.replicas.mu.RLock()
	for k, err := range b.replicas.offline { // any order: names are sorted, and lines are a log's
		if dir, ok := awayWith(err); ok {
			away[dir] = append(away[dir], storage.Name{Topic: img.TopicByID(k.topic).Name, Partition: k.index})
		}
	}
	b.replicas.mu.RUnlock()
	for id, list := range away { // any order: lines of a log
		fields := []zap.Field{zap.Int("partitions", len(list)), zap.String("names", someNames(list))}
		if id == ([16]byte{}) {
			b.log.Error("partitions are offline: they lie, or may lie, in a data directory that was given up", fields...)
			continue
		}
		b.log.Error("partitions are offline, and not begun anew: their data directory is not there, or an empty one stands in its place",
			append(fields, zap.String("directory.id", storage.FormatID(id)), zap.Strings("directories", b.config.LogDirs()))...)
	}
}

// tellAhead tells, in one line, of the replicas that the start has found to be
// ahead of the metadata.
func (b *Broker) tellAhead() {
	b.replicas.mu.Lock()
	list := b.replicas.ahead
	b.replicas.ahead = nil
	b.replicas.mu.Unlock()
	if len(list) > 0 {
		b.log.Error("partitions were written to under a newer leader epoch than the metadata has: the metadata are an older copy, and what was changed since is not in them",
			zap.Int("partitions", len(list)), zap.String("names", someNames(list)))
	}
}

// someNames names the first of many partitions, those of internal topics last:
// where there are many of those, mostly nothing is in them.
func someNames(list []storage.Name) string {
	slices.SortFunc(list, func(x, y storage.Name) int {
		internal := func(n storage.Name) int {
			if strings.HasPrefix(n.Topic, "__") {
				return 1
			}
			return 0
		}
		return cmp.Or(internal(x)-internal(y), cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
	})
	const most = 5
	var names []string
	for _, n := range list[:min(len(list), most)] {
		names = append(names, fmt.Sprintf("%s-%d", n.Topic, n.Partition))
	}
	text := strings.Join(names, ", ")
	if len(list) > most {
		text += fmt.Sprintf(" and %d more", len(list)-most)
	}
	return text
}
