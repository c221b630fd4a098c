package partition

import (
	"math"

	"millrace/controller/config"
	"millrace/storage/batch"
	"millrace/storage/log"
)

// settings are the topic's configs as the partition uses them, immutable once published.
type settings struct {
	minISR  int
	flushMs int64
	rules   batch.Rules // but for the time
}

// SetConfig takes over a topic's configs.
func (p *Partition) SetConfig(c *config.TopicConfig) {
	now := p.now()
	p.mu.Lock()
	defer p.unlockAndTell()
	p.setConfig(c)
	if f := p.future.Load(); f != nil {
		f.SetConfig(p.Log().Config())
	}
	if p.leader != nil {
		p.apply(p.leader.SetMinISR(p.settings.Load().minISR, now))
	}
	p.disarmFlush()
	if !p.role.Load().gone && !p.flushed() {
		if p.flushDue(now) {
			p.startFlush()
		}
		p.armFlush()
	}
}

func (p *Partition) setConfig(c *config.TopicConfig) {
	s := &settings{minISR: 1, flushMs: math.MaxInt64, rules: batch.Rules{
		Topic: p.topic, Partition: p.index,
		BeforeMax: math.MaxInt64, AfterMax: 3600000, MaxBytes: 1048588,
	}}
	if c != nil {
		kind, recompress := batch.Compression(c.CompressionType)
		level := int32(batch.DefaultLevel)
		switch c.CompressionType {
		case "gzip":
			level = c.CompressionGzipLevel
		case "lz4":
			level = c.CompressionLz4Level
		case "zstd":
			level = c.CompressionZstdLevel
		}
		s.minISR, s.flushMs = int(c.MinInsyncReplicas), c.FlushMs
		s.rules = batch.Rules{
			Topic: p.topic, Partition: p.index,
			BeforeMax: c.MessageTimestampBeforeMaxMs, AfterMax: c.MessageTimestampAfterMaxMs,
			MaxBytes: int(c.MaxMessageBytes), SegmentBytes: int(c.SegmentBytes), MaxRecordBytes: int(c.MaxDecompressedMessageBytes),
			Compacted: c.CleanupCompact, Recompress: recompress, Codec: kind, Level: int(level),
		}
		if s.rules.MaxBytes == 0 {
			s.rules.MaxBytes = 1 // to the rules 0 is no limit, to the topic it is nothing at all
		}
		if c.MessageTimestampType == config.LogAppendTime {
			s.rules.Timestamps = batch.LogAppendTime
		}
		p.Log().SetConfig(LogConfig(c))
	}
	p.settings.Store(s)
}

// LogConfig is what a topic's configs say of its logs.
func LogConfig(c *config.TopicConfig) log.Config {
	return log.Config{
		SegmentBytes: c.SegmentBytes, SegmentMs: c.SegmentMs, SegmentJitterMs: c.SegmentJitterMs, Preallocate: c.Preallocate,
		IndexBytes: c.SegmentIndexBytes, IndexIntervalBytes: c.IndexIntervalBytes,
		RetentionMs: c.RetentionMs, RetentionBytes: c.RetentionBytes, FileDeleteDelayMs: c.FileDeleteDelayMs,
		Delete: c.CleanupDelete, Compact: c.CleanupCompact, FlushMessages: c.FlushMessages, FlushMs: c.FlushMs,
		DeleteRetentionMs: c.DeleteRetentionMs, MinCompactionMs: c.MinCompactionLagMs, MaxCompactionMs: c.MaxCompactionLagMs, MinCleanableRatio: c.MinCleanableDirtyRatio,
	}
}

// Rules are what the topic's configs ask of a batch that is checked now, in ms. It takes no lock.
func (p *Partition) Rules(now int64) batch.Rules {
	r := p.settings.Load().rules
	r.Now = now
	return r
}
