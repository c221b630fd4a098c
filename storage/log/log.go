// Package log is one partition's log on disk, in Kafka's own layout: segments with their indexes, the leader epochs, the
// producer snapshots. It appends, reads, rolls, truncates, retains and recovers.
//
// It is not the partition: it knows no replica, no leader and nobody who waits. It has no goroutine and takes no lock
// for its owner: methods that change the log (Append, Truncate, Retain ...) are called by one goroutine at a time, under
// the lock the partition has anyway. Everything a reader needs is in one immutable View, published through one atomic
// pointer; reading takes no lock. Flush may run beside appends, which is what makes group commit.
//
// It promises:
//   - What a Section gives never changes, not even by a truncation: the socket may still hold the pages.
//   - A write that failed, or a sync that failed, takes the whole data directory out of use; neither is tried again. What
//     is read and is not what was written concerns this log alone.
//   - After a crash the log is what was appended up to some offset not below FlushedOffset, followed by nothing.
//     Recovery cuts at the first bad batch behind the recovery point; damage below it is reported and left alone.
//   - A batch a producer sends twice is stored once, as far as storage/producer remembers.
//
// Files appear at the first append: a partition nobody wrote to costs no file and no descriptor.
package log

import (
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"millrace/storage/batch"
	"millrace/storage/epoch"
	"millrace/storage/producer"
)

const epochFile = epoch.FileName

// Log is one partition's log.
type Log struct {
	fs        *room
	dir       string
	topic     string
	partition int32
	topicID   [16]byte
	directory *Directory
	files     *Files
	now       func() time.Time
	onFlush   func(time.Duration) // nil: nobody is told
	lower     func(batch.Offset) error
	raise     func(batch.Offset, func() batch.Offset) error
	logger    *zap.Logger

	cfg atomic.Pointer[Config]
	// cutting is true while a truncation is under way: files may be shorter than the view says.
	cutting atomic.Bool
	// unusable is why nothing is written any more; nil: something may be.
	unusable atomic.Pointer[UnusableError]

	// From here on: the caller's lock.

	// segs is the segments by base; the last is the active one. Empty until the first append. The slice is published in
	// views and never changed in place.
	segs   []*segment
	active active
	// indexBytes is segment.index.bytes as it was at Open, until the first segment is written to: Kafka sizes the indexes
	// of the active segment when it opens the log, and takes a change for the next one only.
	indexBytes int32

	start, end batch.Offset
	hw         batch.Offset
	hwAt       place
	epochs     epoch.Cache
	epoch      batch.LeaderEpoch // what appended batches are marked with
	producers  *producer.State
	expireMs   int64
	snapshots  []batch.Offset // the snapshot files, by offset
	snapped    bool           // Kafka has had a snapshot of such a log: see snapshotDue
	cuts       int            // truncations so far

	// begunHalf: the files of a segment at halfBase, where the log ends, may be there although it could not be begun.
	begunHalf bool
	halfBase  batch.Offset

	gathered gathered // appended, and not written yet

	missing batch.Offset // the newest segment whose indexes alone were found; 0: none, or the first one's

	dirMade bool // the directory exists
	touched bool // something was written since Open
	unseen  bool // something was appended since the last view
	closed  bool
	putAt   string // where MarkDeleted has put the directory

	// From here on: no lock, or their own.

	view atomic.Pointer[View]

	flushing sync.Mutex   // one flush, truncation or close at a time; nests inside the caller's lock
	flushed  atomic.Int64 // every batch below is durable
	// point is where a recovery may begin: the batches below are durable, and where a segment begins there all of the
	// segments before it, their indexes too. It is raised, and a segment begun, under pointMu, with begun the bases of
	// segments that no flush has come to yet, the lowest first: the one sees the other.
	point     atomic.Int64
	pointMu   sync.Mutex
	begun     []batch.Offset
	flushedAt atomic.Int64 // when, in ms
	dirDirty  atomic.Bool  // names in the directory changed since it was synced
	madeDirty atomic.Bool  // the directory itself is new in its parent
	metaDirty atomic.Bool  // partition.metadata was not synced
	stored    epoch.Cache  // in the epoch file; under flushing

	cleaning  sync.Mutex  // held by a cleaning
	noClean   atomic.Bool // no cleaning goes on, and none begins
	cleanedMu sync.Mutex
	cleaned   batch.Offset  // the first offset that was not cleaned; -1: nothing was
	stop      chan struct{} // closed to end the cleaning that is under way; nil: there is none

	deletedMu sync.Mutex
	deleted   []deletedFile
	removing  string     // the one that is being removed; "": none
	removed   *sync.Cond // told when it was
}

// active is what the writer knows of the active segment.
type active struct {
	open bool     // something was appended since Open, or is about to be
	seg  *segment // that is written to
	size int64
	// reserved: the file has room behind its length (preallocate).
	reserved bool
	// spoilt: what the files hold does not let more be appended, which then goes to a new segment.
	spoilt bool
	// torn: the file does not lead to the log end, at which the log was closed in order; nothing was appended since, and it is
	// not open. It is never appended to.
	torn bool
	// maxTimestamp is the largest so far and maxOffset the last offset of the batch that brought it; -1: none, or not
	// asked yet (open is false then).
	maxTimestamp int64
	maxOffset    batch.Offset
	// indexed is the newest timestamp in the time index; -1: none.
	indexed int64
	// first is the largest timestamp of the first batch, which segment.ms counts from.
	first      int64
	hasFirst   bool
	created    int64
	jitter     int64
	sinceIndex int

	offsetRoom, timeRoom int
}

// place is where an offset lies: the position at which its batch begins. pos -1: not looked up.
type place struct {
	seg *segment
	pos int64
}

// View returns the newest view.
func (l *Log) View() *View { return l.view.Load() }

// Config is the log's configuration. It may be called concurrently.
func (l *Log) Config() Config { return *l.cfg.Load() }

// SetConfig changes the configuration. What is already on disk stays as it is: sizes count from the next append or
// roll on.
func (l *Log) SetConfig(c Config) {
	if c == (Config{}) {
		c = DefaultConfig()
	}
	l.cfg.Store(&c)
}

// TopicID is the topic's id; zero if none is known.
func (l *Log) TopicID() [16]byte { return l.topicID }

// Dir is the partition's directory, which may not exist yet, or not any more. It may be called concurrently.
func (l *Log) Dir() string { return l.dir }

// Offline is nil, or why the data directory was given up.
func (l *Log) Offline() error { return l.directory.Offline() }

// OutOfUse is nil, or why nothing is written to the log until the next start: its data directory was given up, or it alone came
// to be unusable, each told of where that was met. It may be called concurrently.
func (l *Log) OutOfUse() error { return l.usable() }

// ready says whether the log can be changed.
func (l *Log) ready() error {
	if l.closed {
		return ErrClosed
	}
	return l.usable()
}

// usable says whether the log's files can be written to.
func (l *Log) usable() error {
	if e := l.unusable.Load(); e != nil {
		return e
	}
	return l.directory.Offline()
}

func (l *Log) fail(op string, err error) error {
	return l.directory.Fail(fmt.Sprintf("%s of %s", op, l.dir), err)
}

// giveUp is fail where something was done and not brought to its end. What the log's own files hold takes the log out of use,
// and not its directory.
func (l *Log) giveUp(op string, err error) error {
	if isContent(err) {
		if l.unusable.CompareAndSwap(nil, &UnusableError{Op: op, Err: err}) {
			l.logger.Error("log is out of use until the next start: it is read and not written to", l.field(), zap.String("since", op), errField(err))
		}
		return l.unusable.Load()
	}
	return l.directory.GiveUp(fmt.Sprintf("%s of %s", op, l.dir), err)
}

func (l *Log) last() *segment { return l.segs[len(l.segs)-1] }

// End is the offset of the next record, for the one who appends: readers may not see as far yet.
func (l *Log) End() batch.Offset { return l.end }

// Publish makes visible what was appended unseen.
func (l *Log) Publish() {
	if l.unseen {
		l.publish()
	}
}

// publish makes the log's state what readers see. An aborted transaction is in its index before the view whose last
// stable offset passes it, as the index is written first.
func (l *Log) publish() {
	v := &View{
		log: l, segs: l.segs, size: l.active.size,
		start: l.start, end: l.end, hw: l.hw, hwAt: l.hwAt, stable: l.hw, stableAt: l.hwAt,
		epochs:       l.epochs,
		maxTimestamp: batch.NoTimestamp,
	}
	if l.active.open {
		v.maxTimestamp, v.maxOffset = l.active.maxTimestamp, l.active.maxOffset
	}
	if u, ok := l.producers.FirstUnstable(); ok && u < v.stable {
		v.stable = max(u, l.start)
		v.stableAt = l.placeOf(v.stable)
	}
	l.unseen = false
	l.view.Store(v)
}

// placeOf is where an offset lies if that is known without reading the disk.
func (l *Log) placeOf(o batch.Offset) place {
	if len(l.segs) == 0 {
		return place{pos: -1}
	}
	seg := l.last()
	if o == l.end {
		return place{seg: seg, pos: l.active.size}
	}
	if o >= seg.base {
		if at, ok := seg.findRecent(o, l.active.size); ok {
			return place{seg: seg, pos: at.pos}
		}
	}
	return place{pos: -1}
}

// SetHighWatermark publishes a new high watermark, kept between log start and log end. It never reads the disk.
func (l *Log) SetHighWatermark(o batch.Offset) {
	o = min(max(o, l.start), l.end)
	if o == l.hw && (l.hwAt.pos >= 0 || o != l.end) {
		return
	}
	l.hw, l.hwAt = o, l.placeOf(o)
	l.producers.HighWatermark(o)
	l.publish()
}

// AssignEpoch says that this broker leads the partition in an epoch from the log end on; appended batches are marked with
// it. The file that stores epochs follows at the next flush: until then the batches themselves tell recovery.
func (l *Log) AssignEpoch(e batch.LeaderEpoch) error {
	if err := l.ready(); err != nil {
		return err
	}
	l.epoch = e
	if next := l.epochs.Assign(e, l.end); !next.Equal(l.epochs) {
		l.epochs = next
		l.publish()
	}
	return nil
}

// LatestEpoch is the newest leader epoch in the log; -1 if it has none.
func (l *Log) LatestEpoch() batch.LeaderEpoch { return l.View().LatestEpoch() }

// EndOffsetForEpoch is View.EndOffsetForEpoch of the newest view.
func (l *Log) EndOffsetForEpoch(e batch.LeaderEpoch) (batch.LeaderEpoch, batch.Offset) {
	return l.View().EndOffsetForEpoch(e)
}

// SetLogStart moves the log start up to an offset, which may not lie above the high watermark. Segments that lie below
// it go at the next Retain. An offset at or below the present log start changes nothing.
func (l *Log) SetLogStart(o batch.Offset) error {
	if err := l.ready(); err != nil {
		return err
	}
	if o <= l.start {
		return nil
	}
	if o > l.hw {
		return fmt.Errorf("log start %d is above the high watermark %d: %w", o, l.hw, ErrOffsetOutOfRange)
	}
	l.touched = true // the epochs' file is to say so
	l.setStart(o)
	l.publish()
	return nil
}

func (l *Log) setStart(o batch.Offset) {
	l.start = o
	l.epochs = l.epochs.TruncateFromStart(o)
	l.producers.LogStart(o)
	if l.hw < o {
		l.hw, l.hwAt = o, l.placeOf(o)
	}
}

// ExpireProducers forgets producers that appended nothing for ms and have no open transaction, and says how many.
func (l *Log) ExpireProducers(now, ms int64) int { return l.producers.Expire(now, ms) }

// Producers is what is known of the log's producers, by id.
func (l *Log) Producers() []producer.Entry { return l.producers.Entries() }

// HasTransaction says whether the producer has a transaction open in this log in that epoch.
func (l *Log) HasTransaction(id batch.ProducerID, e batch.ProducerEpoch) bool {
	return l.producers.HasTransaction(id, e)
}

// Verifying notes that the first batch of a transaction is being verified; see producer.State.Verifying.
func (l *Log) Verifying(id batch.ProducerID, e batch.ProducerEpoch, sequence int32) {
	l.producers.Verifying(id, e, sequence)
}

// Size is how many bytes the segments hold. It may be called concurrently.
func (l *Log) Size() int64 { return l.View().Bytes() }

// jitter spreads the rolls of partitions that were written to alike: it is different for each segment and the same each
// time it is asked.
func (l *Log) jitter(base batch.Offset) int64 {
	most := min(l.cfg.Load().SegmentJitterMs, l.cfg.Load().SegmentMs)
	if most <= 0 {
		return 0
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s-%d/%d", l.topic, l.partition, base)
	return int64(h.Sum64()>>1) % most
}

// NumProducers is how many producers are remembered.
func (l *Log) NumProducers() int { return l.producers.Len() }
