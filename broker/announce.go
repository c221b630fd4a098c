package broker

import (
	"time"

	"go.uber.org/zap"

	"millrace/storage"
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
	for id, n := range b.replicas.elsewhere() { // any order: lines of a log
		b.log.Warn("a data directory is not there, or an empty one stands in its place: what lies in it is offline, and is not begun anew",
			zap.String("directory.id", storage.FormatID(id)), zap.Int("partitions", n), zap.Strings("directories", b.config.LogDirs()))
	}
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
	b.log.Info("stopping", zap.Error(cause))
	return func() {
		b.log.Info("stopped", zap.Strings("directories", b.config.LogDirs()), zap.Duration("took", time.Since(begun).Round(time.Millisecond)))
	}
}
