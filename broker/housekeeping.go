package broker

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"millrace/storage"
)

// housekeep does what is due from time to time and belongs to no request:
// retention, forgetting of idle producers, and the checkpoints of the data
// directories.
func (b *Broker) housekeep(ctx context.Context) {
	retention := time.NewTimer(b.longMillis("log.initial.task.delay.ms"))
	defer retention.Stop()
	producers := time.NewTicker(millis(b.config.Int("producer.id.expiration.check.interval.ms")))
	defer producers.Stop()
	due := time.NewTicker(houseInterval)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-retention.C:
			b.retain()
			retention.Reset(b.longMillis("log.retention.check.interval.ms"))
		case <-producers.C:
			ms := b.producerExpiry()
			for _, p := range b.replicas.all() {
				p.ExpireProducers(ms)
			}
		case <-due.C:
			if err := b.store.Housekeep(b.now()); err != nil {
				b.refused.Error("housekeeping of the data directories failed", zap.Error(err))
			}
			b.telemetry.expire(b.now())
		}
	}
}

// expireFollowers has partitions look at the clock for lagging followers. It waits
// for no disk: a leader whose housekeeping does still drops them from the ISR.
func (b *Broker) expireFollowers(ctx context.Context) {
	every(ctx, expireInterval, func() {
		for _, p := range b.replicas.all() {
			p.Expire()
		}
	})
}

// flushDue makes logs durable where that is due. It waits for the disks, so that
// nothing else may wait for it: the checkpoints tell meanwhile how far it has come.
func (b *Broker) flushDue(ctx context.Context) {
	every(ctx, flushInterval, func() {
		if err := b.store.FlushDue(ctx, b.now()); err != nil {
			b.refused.Error("flushing of logs failed", zap.Error(err))
		}
	})
}

// longMillis is a config in milliseconds; more than a machine can wait is for ever.
func (b *Broker) longMillis(name string) time.Duration {
	return time.Duration(min(b.config.Long(name), int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// watchDirectories tells of data directories that were given up. Nothing else may hold it up, a disk that hangs least of
// all: a broker that is to give up answers until it has heard of it.
func (b *Broker) watchDirectories(ctx context.Context) {
	told := b.lostBefore
	b.tellOffline(told) // what the start has met since
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.lost:
			b.tellOffline(told)
		}
	}
}

// directoryLost is called when a data directory was given up.
func (b *Broker) directoryLost() {
	select {
	case b.lost <- struct{}{}:
	default:
	}
}

// tellOffline says of each data directory why it was given up, unless that was
// told already, and stops the broker when it cannot go on without: then Run's
// error tells why.
func (b *Broker) tellOffline(told map[string]bool) {
	if err := b.lostTooMuch(); err != nil {
		b.fail(err)
		return
	}
	for _, err := range b.store.Failures() {
		if !told[err.Error()] {
			told[err.Error()] = true
			b.log.Error("a data directory was given up: its partitions are not served until the next start", zap.Error(err))
		}
	}
}

// lostTooMuch says why a broker cannot go on: no data directory is left, or the one
// that holds the metadata was given up (KIP-858), as in Kafka. Nil: it can.
func (b *Broker) lostTooMuch() error {
	if len(b.store.DirectoryIDs()) == 0 {
		failures := b.store.Failures()
		why := make([]string, len(failures))
		for i, err := range failures {
			why[i] = err.Error()
		}
		return fmt.Errorf("%w: %s", storage.ErrNoDirectory, strings.Join(why, "; "))
	}
	metadata := b.config.MetadataLogDir()
	for _, d := range b.store.Directories() {
		if d.Failure != nil && filepath.Clean(d.Path) == filepath.Clean(metadata) {
			return fmt.Errorf("%w: %s: %w", ErrMetadataDirectory, d.Path, d.Failure)
		}
	}
	return nil
}

// houseInterval is how often it is looked at what is due in the data directories.
const houseInterval = time.Second

// expireInterval is how often partitions look at the clock for lagging
// followers.
const expireInterval = time.Second

// flushInterval is how long a segment that was rolled away waits, at most, until
// it is to be made durable.
const flushInterval = time.Second

// retain applies retention to what is served.
func (b *Broker) retain() {
	for _, p := range b.replicas.all() {
		if p.Log().OutOfUse() == nil {
			b.retainOne(p)
		}
	}
}

// producerExpiry is producer.id.expiration.ms, which may change at any time.
func (b *Broker) producerExpiry() int64 {
	const name = "producer.id.expiration.ms"
	if text, ok := b.setting(b.applied())(name); ok {
		if ms, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
			return ms
		}
	}
	return b.config.Long(name)
}

// every calls it at an interval until the context is done.
func every(ctx context.Context, interval time.Duration, call func()) {
	due := time.NewTicker(interval)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-due.C:
			call()
		}
	}
}
