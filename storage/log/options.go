package log

import (
	"math"
	"time"

	"go.uber.org/zap"

	"millrace/storage/batch"
	"millrace/storage/disk"
)

// Config is what topic configs say of one log. The zero value means DefaultConfig.
type Config struct {
	SegmentBytes       int32 // segment.bytes
	SegmentMs          int64 // segment.ms
	SegmentJitterMs    int64 // segment.jitter.ms
	Preallocate        bool  // preallocate: a segment's file is given room for SegmentBytes when it becomes the active one
	IndexBytes         int32 // segment.index.bytes
	IndexIntervalBytes int32 // index.interval.bytes
	RetentionMs        int64 // retention.ms; -1 is for ever
	RetentionBytes     int64 // retention.bytes; -1 is without limit
	FileDeleteDelayMs  int64 // file.delete.delay.ms
	Delete             bool  // cleanup.policy holds "delete"
	Compact            bool  // cleanup.policy holds "compact"
	FlushMessages      int64 // flush.messages
	FlushMs            int64 // flush.ms

	DeleteRetentionMs int64   // delete.retention.ms
	MinCompactionMs   int64   // min.compaction.lag.ms
	MaxCompactionMs   int64   // max.compaction.lag.ms
	MinCleanableRatio float64 // min.cleanable.dirty.ratio
}

// rollMs is how old a segment may become: what is to be compacted within max.compaction.lag.ms must not stay in the
// active segment for longer (KIP-354).
func (c *Config) rollMs() int64 {
	if c.Compact && c.MaxCompactionMs > 0 {
		return min(c.SegmentMs, c.MaxCompactionMs)
	}
	return c.SegmentMs
}

// DefaultConfig is Kafka's defaults.
func DefaultConfig() Config {
	return Config{
		SegmentBytes:       1 << 30,
		SegmentMs:          7 * 24 * 3600 * 1000,
		IndexBytes:         10 << 20,
		IndexIntervalBytes: 4096,
		RetentionMs:        7 * 24 * 3600 * 1000,
		RetentionBytes:     -1,
		FileDeleteDelayMs:  60000,
		Delete:             true,
		FlushMessages:      math.MaxInt64,
		FlushMs:            math.MaxInt64,
		DeleteRetentionMs:  24 * 3600 * 1000,
		MaxCompactionMs:    math.MaxInt64,
		MinCleanableRatio:  0.5,
	}
}

// Options is what Open needs.
type Options struct {
	FS        disk.FS // nil: the operating system's
	Dir       string  // the partition's own directory; made at the first append
	Topic     string
	Partition int32
	TopicID   [16]byte // zero: not known; no partition.metadata is written then
	Config    Config
	Now       func() time.Time // nil: time.Now

	// What the checkpoints of the data directory say; -1 (or 0) where they say nothing.
	RecoveryPoint batch.Offset // everything below it was flushed
	LogStart      batch.Offset
	HighWatermark batch.Offset
	Cleaned       batch.Offset // the first offset that was not cleaned

	// Clean says that the log was closed in order and that nothing wrote to it since: then no segment is read.
	Clean bool

	// Directory is shared by the logs of one data directory; nil: the log has its own.
	Directory *Directory
	// Files bounds the open descriptors of segments that are only read; nil: the log has its own.
	Files *Files
	// LowerRecoveryPoint stores a recovery point before a truncation cuts below the one in the checkpoint. Without it,
	// records appended after the truncation and lost again would be taken for damage. Nil: nothing is stored.
	LowerRecoveryPoint func(batch.Offset) error
	// RaiseRecoveryPoint stores a recovery point of at least an offset, before a cleaning leaves holes below it: behind
	// the recovery point a hole is taken for a lost tail. Where flushed, asked under the lock under which recovery points
	// are stored, is below it, a truncation came by: then nothing is stored, and the answer is ErrOvertaken. Nil: nothing
	// is stored.
	RaiseRecoveryPoint func(to batch.Offset, flushed func() batch.Offset) error

	// Holes says that a broker wrote the log which cleans also what it did not note as flushed, as Apache Kafka does: a hole
	// between segments is a cleaning's then, wherever it lies.
	Holes bool

	// ProducerExpireMs is producer.id.expiration.ms; 0: a day.
	ProducerExpireMs int64
	// Flushed is told how long each Flush took; nil: nobody is.
	Flushed func(time.Duration)

	Logger *zap.Logger // nil: silent
}

// Appended is what an append did.
type Appended struct {
	Base, Last batch.Offset // of the original, for a duplicate
	// Duplicate says that the producer sent a batch again that is stored already; nothing was written.
	Duplicate bool
	// MaxTimestamp is the largest timestamp of the batch, for a duplicate that of the original.
	MaxTimestamp int64
	// LogStart is the log start after the append.
	LogStart batch.Offset
}

// FoundOffset is a record's place.
type FoundOffset struct {
	Offset      batch.Offset
	Timestamp   int64
	LeaderEpoch batch.LeaderEpoch // -1: none is stored
}

// AbortedTxn is an aborted transaction as a fetch response lists it.
type AbortedTxn struct {
	ProducerID  batch.ProducerID
	FirstOffset batch.Offset
}

// Report is what Open found that somebody should know of.
type Report struct {
	// Recovered says that segments had to be read because the log was not closed in order.
	Recovered bool
	// Scanned is how many bytes of segments were read.
	Scanned int64
	// Cut is the tail that was removed, nil if none was.
	Cut *Cut
	// Damage is what is wrong below the recovery point. It is left as it is.
	Damage []Damage
	// Lost is how many offsets are missing although they were flushed: the log ends below its recovery point.
	Lost batch.Offset
	// Behind is how many offsets the stored log start lies behind the log end. A log that was closed in order where it ends
	// begins with its first segment then; of any other nothing is left.
	Behind batch.Offset
	// Rebuilt lists the index files that were missing or wrong and were made anew.
	Rebuilt []string
	// Dropped lists unreadable files that hold only what the segments hold too: snapshots, epochs.
	Dropped []string
}

// Cut is the tail that recovery removed.
type Cut struct {
	Offset   batch.Offset // the log end it left
	Segment  string
	Position int64 // in that segment
	Bytes    int64 // removed, over all segments
	Batches  int   // of them still readable
	Reason   error
}

// Damage is a place below the recovery point where a segment's bytes are not what was written.
type Damage struct {
	Segment  string
	Position int64
	Offset   batch.Offset
	Reason   error
}
