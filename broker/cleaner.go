package broker

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"millrace/broker/partition"
	"millrace/controller/config"
	"millrace/storage"
	"millrace/storage/log"
)

// cleanable is a partition as the cleaner of compacted logs asks for it.
type cleanable struct {
	*partition.Partition
	b *Broker
}

// Exclusive is partition.Exclusive in the cleaner's words.
func (c cleanable) Exclusive(f func() error) error {
	err := c.Partition.Exclusive(f)
	if errors.Is(err, partition.ErrGone) {
		return log.ErrClosed
	}
	return err
}

// Retain applies retention and says what went.
func (c cleanable) Retain() { c.b.retainOne(c.Partition) }

// startCleaner begins to clean compacted topics, unless log.cleaner.enable says not to.
func (b *Broker) startCleaner() {
	if !b.config.Bool("log.cleaner.enable") {
		b.log.Warn("compacted topics are kept whole: log.cleaner.enable is false")
		return
	}
	c := b.store.NewCleaner(func() []storage.Cleanable {
		var list []storage.Cleanable
		for _, p := range b.replicas.all() {
			// What is out of use is not changed any more.
			if l := p.Log(); l.Config().Compact && !l.CleaningPaused() && l.OutOfUse() == nil {
				list = append(list, cleanable{p, b})
			}
		}
		return list
	}, b.cleanerSettings(b.setting(b.applied())))
	b.cleaner.Store(c)
	// What was set since the settings were read.
	c.Configure(b.cleanerSettings(b.setting(b.applied())))
	b.background(c.Run)
}

// cleanerSettings reads the log.cleaner.* configs.
func (b *Broker) cleanerSettings(set config.Lookup) storage.CleanerSettings {
	whole := func(name string) int64 {
		if text, ok := set(name); ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
				return n
			}
		}
		k, _ := config.Find(config.BrokerScope, name)
		n, _ := strconv.ParseInt(k.Default, 10, 64)
		return n
	}
	real := func(name string) float64 {
		if text, ok := set(name); ok {
			if x, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil {
				return x
			}
		}
		k, _ := config.Find(config.BrokerScope, name)
		x, _ := strconv.ParseFloat(k.Default, 64)
		return x
	}
	return storage.CleanerSettings{
		Threads:        int(whole("log.cleaner.threads")),
		KeyBytes:       whole("log.cleaner.dedupe.buffer.size"),
		KeyLoad:        real("log.cleaner.io.buffer.load.factor"),
		BufferBytes:    int(whole("log.cleaner.io.buffer.size")),
		BytesPerSecond: real("log.cleaner.io.max.bytes.per.second"),
		Backoff:        time.Duration(min(whole("log.cleaner.backoff.ms"), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond,
	}
}

// configureCleaner takes over what changed in the log.cleaner.* configs.
func (b *Broker) configureCleaner(set config.Lookup) {
	if c := b.cleaner.Load(); c != nil {
		c.Configure(b.cleanerSettings(set))
	}
}

// retainOne applies retention to a partition and says what went. That a directory
// was given up on the way is told of the directory, once.
func (b *Broker) retainOne(p *partition.Partition) {
	gone, err := p.Retain()
	for _, why := range gone {
		b.log.Info("retention", zap.Stringer("partition", p), zap.String("removed", why))
	}
	if err != nil && p.Log().OutOfUse() == nil {
		b.log.Error("retention failed", zap.Stringer("partition", p), zap.Error(err))
	}
}
