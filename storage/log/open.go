package log

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/epoch"
	"millrace/storage/producer"
)

// defaultOwnFiles bounds the open files of a log that shares no Files with others.
const defaultOwnFiles = 16

// defaultProducerExpireMs is producer.id.expiration.ms.
const defaultProducerExpireMs = 24 * 3600 * 1000

// Open opens the log in a directory, which need not exist. After a clean close it reads of segments no more than where the newest
// one ends; where that does not lead to where the log was closed the first append begins another. Otherwise it reads those at and
// behind the recovery point, cuts what a crash left behind the last good batch, and makes indexes and producer state anew. A *DamagedError
// says that a log is beyond what may be mended without losing what was flushed.
func Open(o Options) (*Log, Report, error) {
	l := &Log{
		dir: o.Dir, topic: o.Topic, partition: o.Partition, topicID: o.TopicID,
		directory: o.Directory, files: o.Files, now: o.Now, lower: o.LowerRecoveryPoint, raise: o.RaiseRecoveryPoint, logger: o.Logger,
		epoch: batch.NoLeaderEpoch, cleaned: o.Cleaned, producers: producer.New(), expireMs: o.ProducerExpireMs, onFlush: o.Flushed,
	}
	if l.expireMs <= 0 {
		l.expireMs = defaultProducerExpireMs
	}
	if l.directory == nil {
		l.directory = &Directory{}
	}
	if l.files == nil {
		l.files = NewFiles(defaultOwnFiles, defaultOwnFiles)
	}
	if o.FS == nil {
		o.FS = disk.OS{}
	}
	l.fs = l.files.room(o.FS)
	if l.now == nil {
		l.now = time.Now
	}
	if l.logger == nil {
		l.logger = zap.NewNop()
	}
	l.removed = sync.NewCond(&l.deletedMu)
	l.SetConfig(o.Config)
	l.indexBytes = l.cfg.Load().IndexBytes
	var report Report
	if err := l.open(o, &report); err != nil {
		l.abandon()
		return nil, report, err
	}
	return l, report, nil
}

func (l *Log) open(o Options, report *Report) error {
	if err := l.directory.Offline(); err != nil {
		return err
	}
	list, err := l.list()
	if err != nil {
		return err
	}
	if err := l.openMetadata(o, list, report); err != nil {
		return err
	}
	if err := l.finishReplacements(&list); isCorrupt(err) {
		return &DamagedError{Damage{Segment: l.dir, Offset: batch.NoOffset, Reason: err}}
	} else if err != nil {
		return l.fail("finishing replaced segments", err)
	}
	found, err := l.openSegments(list)
	if err != nil {
		return err
	}
	if l.dirMade && (!o.Clean || len(l.segs) == 0) {
		// Made by a life that did not come to sync its names, perhaps.
		l.dirDirty.Store(true)
		l.madeDirty.Store(true)
		l.metaDirty.Store(true)
	}
	if len(l.segs) == 0 {
		l.end = max(o.LogStart, 0)
		l.start, l.hw = l.end, l.end
		if o.RecoveryPoint > l.end {
			report.Lost = o.RecoveryPoint - l.end
		}
		l.producers.Clear(l.end)
		l.finishOpen()
		return nil
	}
	epochsGood, err := l.openEpochs(o, list, report)
	if err != nil {
		return err
	}
	l.start = max(o.LogStart, l.segs[0].base)
	if o.Clean && epochsGood {
		err = l.openClean(o, found, report)
	} else {
		err = l.recover(o, found, epochsGood, report)
	}
	if err != nil {
		return err
	}
	if l.start > l.end {
		report.Behind = l.start - l.end
	}
	if l.start > l.end && o.Clean && l.end == o.RecoveryPoint {
		// The log ends where it was closed in order, and never began behind that: the log start is damaged.
		l.start = l.segs[0].base
	}
	if l.start > l.end {
		// Everything that is left lies below the log start: it was to be removed anyway, and an append may not fill the
		// gap as if it followed.
		if err := l.truncateFully(l.start); err != nil {
			return l.fail("start above the log end", err) // an opening is begun anew
		}
	}
	// As in Kafka, which knows after a start the producers of records that may still be read, and those that a
	// snapshot above the log start names: none where all records were deleted.
	if l.start == l.end && l.producers.Len() > 0 {
		l.producers.Clear(l.end)
		l.touched = true // a close is to leave a snapshot that says so
	}
	// Where a stop in order has left no snapshot, Kafka's start makes one. Here a stop leaves its own, alone, then.
	l.snapped = o.Clean && l.end > 0 && slices.Equal(l.snapshots, []batch.Offset{l.end})
	if err := l.dropSnapshots(func(s batch.Offset) bool { return s <= l.start && !(l.active.torn && s == l.end) }); err != nil {
		return l.fail("removing snapshots", err)
	}
	l.epochs = l.epochs.TruncateFromEnd(l.end).TruncateFromStart(l.start)
	l.touched = l.touched || !l.epochs.Equal(l.stored) // a close is to say so
	l.hw = min(max(o.HighWatermark, l.start), l.end)
	l.hwAt = l.placeOf(l.hw)
	l.producers.HighWatermark(l.hw)
	if err := l.dropSnapshots(func(s batch.Offset) bool {
		return (s > l.end && !faults.keepNewer) || (s < l.segs[len(l.segs)-1].base && !l.isBase(s) && int64(s) != l.point.Load())
	}); err != nil {
		return l.fail("removing snapshots", err)
	}
	if err := l.nameTopic(list, report); err != nil {
		return l.fail("writing partition.metadata", err)
	}
	l.finishOpen()
	return nil
}

// nameTopic has the directory say whose it is where it does not: as long as it does not, it can be taken for that of another
// topic that gets the name.
func (l *Log) nameTopic(list listing, report *Report) error {
	if list.metadata || l.topicID == ([16]byte{}) {
		return nil
	}
	report.Rebuilt = append(report.Rebuilt, metadataFile)
	l.touched = true // a close is to sync it
	l.dirDirty.Store(true)
	return l.writeMetadata()
}

func (l *Log) finishOpen() {
	l.snapped = l.snapped || l.end > l.start
	if len(l.segs) == 0 {
		l.setFlushed(l.end)
	}
	l.flushedAt.Store(l.now().UnixMilli())
	l.lowerCleaned(l.end)
	l.publish()
}

// list reads the directory.
func (l *Log) list() (listing, error) {
	list := listing{cleaned: -1}
	entries, err := l.fs.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err != nil {
		return list, fmt.Errorf("list %s: %w", l.dir, err)
	}
	l.dirMade = true
	for _, e := range entries {
		if !e.Dir {
			list.add(e.Name)
		} else if isLogFile(e.Name) {
			return list, &NotFileError{Path: l.dir + "/" + e.Name}
		}
	}
	return list, nil
}

// openMetadata compares the topic id on disk with the one asked for.
func (l *Log) openMetadata(o Options, list listing, report *Report) error {
	if !list.metadata {
		return nil
	}
	id, err := ReadTopicID(l.fs, l.dir)
	if err != nil {
		if o.Clean || errors.Is(err, ErrNoDescriptor) {
			return err
		}
		// A crash can leave the file without its bytes; it is written before the first append and synced with it.
		report.Dropped = append(report.Dropped, metadataFile)
		if l.topicID != ([16]byte{}) {
			if err := l.writeMetadata(); err != nil {
				return l.fail("writing partition.metadata", err)
			}
		}
		return nil
	}
	if l.topicID == ([16]byte{}) {
		l.topicID = id
	}
	if l.topicID != id {
		return &TopicIDError{Stored: id, Asked: l.topicID}
	}
	return nil
}

// openSegments makes the segments of what the directory holds, and removes index files that belong to none. It returns
// which files each segment has.
func (l *Log) openSegments(list listing) ([]segmentFiles, error) {
	var found []segmentFiles
	for _, f := range list.bases {
		if f.snapshot {
			l.snapshots = append(l.snapshots, f.base)
		}
		if !f.log {
			if f.index || f.time {
				// Whatever ends a removal early leaves the segment and not its indexes.
				l.logger.Warn("segment is missing: its indexes are removed", l.field(), zap.Int64("offset", int64(f.base)))
				l.missing = f.base
			}
			for _, suffix := range f.indexes() {
				if err := l.removeIfThere(fileName(f.base, suffix)); err != nil {
					return nil, l.fail("removing an index without segment", err)
				}
			}
			continue
		}
		seg := l.newSegment(f.base, f.txns)
		info, err := seg.log.stat()
		if err != nil {
			return nil, err
		}
		if info.Dir { // a link to one
			return nil, &NotFileError{Path: seg.log.path}
		}
		if info.Size > maxSegment {
			return nil, fmt.Errorf("segment %d has %d bytes, more than an index can address", f.base, info.Size)
		}
		seg.size = info.Size
		l.segs = append(l.segs, seg)
		found = append(found, f)
	}
	return found, nil
}

func (f segmentFiles) indexes() []string {
	var out []string
	if f.index {
		out = append(out, suffixIndex)
	}
	if f.time {
		out = append(out, suffixTimeIndex)
	}
	if f.txns {
		out = append(out, suffixTxnIndex)
	}
	return out
}

// openEpochs reads the leader epochs; false if the file cannot be read and they have to come from the batches.
func (l *Log) openEpochs(o Options, list listing, report *Report) (bool, error) {
	if !list.epochs {
		lost, err := l.lostEpochs(o)
		if lost {
			l.logger.Warn("leader epochs are read from the segments", l.field(), zap.String("missing", epochFile))
		}
		return !lost, err
	}
	b, err := disk.ReadFile(l.fs, l.dir+"/"+epochFile, 64<<20)
	if err == nil {
		l.epochs, err = epoch.Decode(b)
	}
	if errors.Is(err, ErrNoDescriptor) {
		return false, err
	}
	if err != nil {
		l.logger.Warn("leader epochs are read from the segments", l.field(), errField(err))
		report.Dropped = append(report.Dropped, epochFile)
		return false, nil
	}
	l.stored = l.epochs
	return true, nil
}

// lostEpochs says whether the file of the leader epochs is not there although it was: a flush writes it before the recovery
// point passes a batch that has an epoch.
func (l *Log) lostEpochs(o Options) (bool, error) {
	for _, seg := range l.segs {
		if seg.size < batch.HeaderSize || (!o.Clean && seg.base >= o.RecoveryPoint) {
			continue
		}
		f, err := seg.log.acquire()
		if err != nil {
			return false, err
		}
		defer seg.log.release()
		s := scanner{f: f, limit: seg.size, buf: make([]byte, batch.HeaderSize)}
		h, err := s.header()
		if isCorrupt(err) || err == io.EOF {
			return false, nil // others say so
		}
		return err == nil && h.LeaderEpoch >= 0, err
	}
	return false, nil
}

// damaged makes a corrupt batch, found where none may be, a *DamagedError.
func (l *Log) damaged(err error, seg *segment) error {
	var c *CorruptError
	if errors.As(err, &c) {
		return &DamagedError{Damage{Segment: l.dir + "/" + fileName(seg.base, suffixLog), Position: c.Position, Offset: l.end, Reason: err}}
	}
	return err
}

// replay tells the producer state of the batches of segment i at or behind an offset.
func (l *Log) replay(i int, from batch.Offset, report *Report) error {
	seg := l.segs[i]
	if i+1 < len(l.segs) && l.segs[i+1].base <= from {
		return nil
	}
	return l.tell(seg, seg.size, from, report)
}

// tell tells the producer state of the batches of a segment that stand before a position and end at or behind an offset.
func (l *Log) tell(seg *segment, to int64, from batch.Offset, report *Report) error {
	return l.walk(seg, to, report, func(s *scanner, h batch.Header) error {
		if h.LastOffset() < from || !h.HasProducer() {
			return nil
		}
		m, err := s.marker(h)
		if err != nil {
			return err
		}
		l.producers.Appended(h, m)
		return nil
	})
}

// marker reads the marker of a control batch; nil for any other.
func (s *scanner) marker(h batch.Header) (*batch.Marker, error) {
	if !h.Attributes.Control() {
		return nil, nil
	}
	if h.Size() > wholeScan {
		return nil, &CorruptError{Position: s.pos, Why: fmt.Sprintf("control batch of %d bytes", h.Size())}
	}
	b, err := s.body(h)
	if err != nil {
		return nil, err
	}
	m, ok, err := batch.ParseMarker(b)
	if err != nil {
		return nil, &CorruptError{Position: s.pos, Why: "control record", Err: err}
	}
	if !ok {
		return nil, nil
	}
	return &m, nil
}

// walk calls f for each batch header of a segment up to a position.
func (l *Log) walk(seg *segment, to int64, report *Report, f func(*scanner, batch.Header) error) error {
	file, err := seg.log.acquire()
	if err != nil {
		return err
	}
	defer seg.log.release()
	s := scanner{f: file, limit: to, buf: make([]byte, smallScan)}
	defer func() { report.Scanned += s.read }()
	for {
		h, err := s.header()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return seg.in(err)
		}
		if err := f(&s, h); err != nil {
			return err
		}
		s.step(h)
	}
}

// makeIndexes makes the offset and time index of a segment anew from its batches. Until they are whole and durable they
// have names that a start removes: no later one looks at what the index of an older segment says.
func (l *Log) makeIndexes(seg *segment, report *Report) error {
	saved := l.active
	defer func() { l.active = saved }()
	paths := []*string{&seg.offsets.path, &seg.times.path}
	for _, path := range paths {
		*path += suffixTmp
	}
	err := l.rebuild(seg, seg.size, l.now().UnixMilli(), false)
	if err == nil {
		if err = l.closeActive(true); err != nil {
			err = l.fail("making indexes", err)
		}
	}
	for _, path := range paths {
		from := *path
		*path = from[:len(from)-len(suffixTmp)]
		if err == nil {
			if err = l.fs.Rename(from, *path); err != nil {
				err = l.fail("making indexes", err)
			}
		}
	}
	if err != nil {
		return err
	}
	l.dirDirty.Store(true)
	report.Rebuilt = append(report.Rebuilt, fileName(seg.base, suffixIndex), fileName(seg.base, suffixTimeIndex))
	return nil
}

// dropIndexes removes the indexes of a segment that could not be made: half of one would be taken for the whole.
func (l *Log) dropIndexes(seg *segment) error {
	l.active.open = false
	seg.offsets.forget()
	seg.times.forget()
	for _, suffix := range []string{suffixIndex, suffixTimeIndex} {
		if err := l.removeIfThere(fileName(seg.base, suffix)); err != nil {
			return err
		}
	}
	l.dirDirty.Store(true)
	return nil
}

// rebuild makes a segment the one that is written to, with indexes made anew from its batches' headers. Where that fails
// what is known of the active segment is what was: above all, where it ends. Where partly is true it does not fail where the
// batches cannot be followed to the end: the indexes go as far, and nothing is appended to that segment any more.
func (l *Log) rebuild(seg *segment, size, now int64, partly bool) error {
	saved, room := l.active, l.indexBytes
	err := l.reindex(seg, size, now)
	if partly && l.active.open && isCorrupt(err) {
		l.active.size = size
		l.spoil(err)
		return nil
	}
	if err == nil {
		return nil
	}
	l.active, l.indexBytes = saved, room
	seg.log.unhold()
	if l.directory.Offline() != nil {
		return err
	}
	if drop := l.dropIndexes(seg); drop != nil {
		return l.fail("making indexes", drop)
	}
	return err
}

func (l *Log) reindex(seg *segment, size, now int64) error {
	// A snapshot that a close has left would say to a recovery that the indexes are durable.
	left := len(l.snapshots)
	if err := l.dropSnapshots(func(o batch.Offset) bool { return o > seg.base && !l.isBase(o) }); err != nil {
		return l.fail("making indexes", err)
	}
	if len(l.snapshots) < left {
		if err := l.fs.SyncDir(l.dir); err != nil {
			return l.fail("making indexes", err)
		}
	}
	f, err := seg.log.acquire()
	if err != nil {
		return err
	}
	defer seg.log.release()
	if err := l.startActive(seg, 0, 0, 0, now); err != nil {
		return l.fail("making indexes", err)
	}
	s := scanner{f: f, limit: size, buf: make([]byte, smallScan)}
	for {
		h, err := s.header()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return seg.in(err)
		}
		if !fits(h.LastOffset(), seg.base) {
			return &CorruptError{Position: s.pos, Why: fmt.Sprintf("offset %d in a segment that begins at %d", h.LastOffset(), seg.base)}
		}
		l.active.index(seg, h, s.pos, l.cfg.Load().IndexIntervalBytes)
		if err := seg.spill(); err != nil {
			return l.fail("making indexes", err)
		}
		s.step(h)
	}
}

func (l *Log) field() zap.Field { return zap.String("log", l.dir) }

func errField(err error) zap.Field { return zap.Error(err) }
