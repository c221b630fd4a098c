package log

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.uber.org/zap"

	"millrace/storage/batch"
)

// tellProgress is how often a long recovery is told of.
const tellProgress = 5 * time.Second

// recover opens a log that was not closed in order. The segments from the one that holds the recovery point on are read
// whole, each batch's checksum compared, indexes and producer state made anew, and the log cut at the first bad batch
// behind the recovery point, whatever follows it. A bad batch below the recovery point is reported and stays.
//
// The first of them is read from the recovery point on where the log was closed in order there: see middle.
func (l *Log) recover(o Options, found []segmentFiles, epochsGood bool, report *Report) error {
	report.Recovered = true
	l.touched = true
	point := max(o.RecoveryPoint, 0)
	if o.RecoveryPoint < 0 {
		// Where its checkpoint was lost: only what was flushed is ever cleaned, and a cleaning leaves holes.
		point = max(o.Cleaned, 0)
	}
	// A close's snapshot there is not to go on the way: were this recovery cut short, the next would make the indexes anew
	// and not know that something vouches for them, should the power bring it back.
	l.point.Store(int64(point))
	all := l.segs
	first := 0
	for i, seg := range all {
		// One that ends at the recovery point is not looked at: see Log.RecoveryPoint.
		if seg.base <= point {
			first = i
		}
	}
	below := first
	if !epochsGood {
		first = 0 // every batch has to say its epoch again
	}
	for i := range first {
		all[i].synced.Store(true)
		// What their indexes say is not looked at: they were durable before the recovery point passed them, and a reader
		// takes the segment's word where an entry leads nowhere.
		if !found[i].index || !found[i].time {
			if err := l.makeIndexes(all[i], report); err != nil {
				return l.damaged(err, all[i])
			}
		}
	}
	from := middle{offset: all[first].base}
	_, closed := slices.BinarySearch(l.snapshots, point)
	closed = closed && point > all[first].base
	var err error
	if closed && epochsGood && found[first].index && found[first].time {
		if from, err = l.middle(all[first], point, report); err != nil {
			return err
		}
	}
	if closed && epochsGood && from.pos == 0 && first == len(all)-1 {
		if torn, err := l.recoverTorn(point, report); torn || err != nil {
			return err
		}
	}
	// Snapshots behind where reading begins are made anew on the way: they may be of a time before a truncation, and what was
	// made durable of them is not known.
	if err := l.dropSnapshots(func(s batch.Offset) bool { return s > from.offset && !faults.keepNewer }); err != nil {
		return l.fail("removing snapshots", err)
	}
	// Where the log was said to start, and not where it does: Kafka asks its checkpoint, which has nothing of a log that
	// starts with a segment.
	above := max(o.LogStart, 0)
	at, forgotten, err := l.recoverProducers(all, first, &from, above, report)
	if err != nil {
		return err
	}
	if point > all[first].base && from.pos == 0 {
		// The indexes are made anew: nothing may say any more that they are durable, nor what an earlier life has removed
		// without a sync.
		if err := l.fs.SyncDir(l.dir); err != nil {
			return l.fail("removing snapshots", err)
		}
	}
	for i := range first {
		if err := l.replay(i, at, report); err != nil {
			return l.damaged(err, all[i])
		}
	}
	if from.whole && first == len(all)-1 {
		l.end, l.touched = from.offset, forgotten // a close is to say so
		l.active = active{size: all[first].size, maxTimestamp: batch.NoTimestamp, maxOffset: all[first].base}
		l.setFlushed(l.end)
		l.producers.Expire(l.now().UnixMilli(), l.expireMs)
		return nil
	}
	l.end = from.offset
	p := recovering{l: l, segments: len(all) - first, told: l.now(), done: -from.pos, total: -from.pos}
	for _, seg := range all[first:] {
		p.total += seg.size
	}
	for i := first; i < len(all); i++ {
		p.at(0)
		// l.segs is what is known to be good, so that everything an append does can be done here.
		l.segs = all[: i+1 : i+1]
		bad, hole, err := l.recoverSegment(all[i], from, point, report, &p)
		from = middle{}
		p.passed(all[i])
		if err != nil {
			return err
		}
		if bad != nil {
			if err := l.cut(all[i], all[i+1:], bad, report); err != nil {
				return l.fail("cutting the tail", err)
			}
			break
		}
		if i+1 == len(all) {
			break
		}
		if bad := l.joint(all[i+1], point, o.Holes); bad != nil {
			if hole != nil {
				hole.Reason = bad
				return &DamagedError{*hole}
			}
			if l.end < point {
				return &DamagedError{Damage{Segment: all[i+1].log.path, Offset: l.end, Reason: bad}}
			}
			if err := l.cut(all[i], all[i+1:], bad, report); err != nil {
				return l.fail("cutting the tail", err)
			}
			break
		}
		if err := l.closeActive(false); err != nil {
			return l.fail("recovery", err)
		}
		all[i].recent.Store(nil)
		if i+1 >= below && all[i+1].base <= above && !faults.keepDeleted {
			// Kafka begins anew with a segment that it reads, and a snapshot there is none: see recoverProducers.
			l.producers.Clear(all[i+1].base)
		}
		if err := l.writeSnapshot(all[i+1].base, false); err != nil {
			return l.fail("recovery", err)
		}
		if i < below && !faults.skipMadeAnew {
			// What was made anew below the recovery point is durable before anything lets the next recovery trust it.
			if err := l.syncSegment(all[i], true); err != nil {
				return l.fail("recovery", err)
			}
			all[i].synced.Store(true)
		}
	}
	// Most logs are not written to soon: none keeps its file open for that, or a
	// start would need as many descriptors as there are partitions.
	if err := l.closeActive(false); err != nil {
		return l.fail("recovery", err)
	}
	last := l.last()
	last.recent.Store(nil)
	l.active = active{size: last.size, maxTimestamp: batch.NoTimestamp, maxOffset: last.base}
	if l.end < point {
		report.Lost = point - l.end
		if l.lower != nil {
			if err := l.lower(l.end); err != nil {
				return l.fail("recovery point", err)
			}
		}
	}
	l.setFlushed(min(point, l.end))
	// What was read again is held against the clock as a snapshot is: how a log was closed makes no difference.
	l.producers.Expire(l.now().UnixMilli(), l.expireMs)
	return nil
}

// recoverProducers makes the producer state what it is where reading begins, in the segment first. It says up to which offset
// the log is in it, without what older segments have behind that, and whether a close's snapshot may say something else.
//
// It is what Kafka's start knows. That reads each segment, from the one with the recovery point on, from its first batch, with
// what the newest snapshot names that lies above the log start and not above the segment's base; without one, with those who
// wrote behind the log start and before the segment. So who wrote to a segment that is read stays known, also where the log
// start has passed all of it, until it expires; and who wrote to older ones only is forgotten once the log start has come to
// the segment.
//
// It is the log start of the checkpoint, which holds none that is the base of the first segment. So for a log that starts at a
// base either may be: it depends on whether the checkpoint was written again after older segments were removed, and with it
// what Kafka itself answers.
func (l *Log) recoverProducers(all []*segment, first int, from *middle, above batch.Offset, report *Report) (at batch.Offset, changed bool, err error) {
	base := all[first].base
	if from.pos > 0 && above > base && !faults.trustDeleted {
		// No snapshot says that. A close's, at the recovery point, is none where the log start has passed it, and the close may
		// not have known who wrote before every record was deleted: of those Kafka reads again. So the batches' frames are asked.
		l.producers.Clear(base)
		if err := l.tell(all[first], from.pos, base, report); err == nil {
			l.producers.SetEnd(from.offset)
			return from.offset, true, nil
		} else if !isCorrupt(err) {
			return 0, false, err
		}
		// Nothing else reads there: to know less of who wrote is better than not to open the log.
	}
	known := slices.ContainsFunc(l.snapshots, func(s batch.Offset) bool { return above < s && s <= base })
	if at, err = l.loadProducers(above, from.offset, all[0].base, report); err != nil {
		return 0, false, err
	}
	if at < from.offset && from.pos > 0 {
		// Its snapshot was not readable. An older close's knows what is read again now.
		*from = middle{offset: base}
		if err := l.dropSnapshots(func(s batch.Offset) bool { return s > from.offset }); err != nil {
			return 0, false, l.fail("removing snapshots", err)
		}
		if at, err = l.loadProducers(above, from.offset, all[0].base, report); err != nil {
			return 0, false, err
		}
	}
	return at, !known && l.producers.ForgetBelow(max(above, all[0].base)) > 0, nil
}

// joint compares where a segment begins with where the one before it ends. Segments are only begun at the log end, so a
// hole behind the recovery point is a tail that was lost while the next segment's name was not; had it stayed, nobody
// would fetch those offsets again. Below the recovery point a hole is what a cleaning left: only what was flushed is
// ever cleaned. holes says that they are a cleaning's wherever they lie.
func (l *Log) joint(next *segment, point batch.Offset, holes bool) *CorruptError {
	if next.base == l.end || (next.base > l.end && (holes || l.end < point || !fits(next.base, l.end) || faults.acceptHoles)) {
		return nil
	}
	return &CorruptError{Why: fmt.Sprintf("segment begins at offset %d, the one before it ends at %d", next.base, l.end)}
}

// middle is where in a segment a recovery begins.
type middle struct {
	offset batch.Offset
	pos    int64
	// whole: the segment ends there, and its indexes are what a close has left.
	whole bool
}

// middle says where in a segment the recovery point lies, if the log was once closed in order there: a producer snapshot at
// an offset at which no segment begins is written by a close only, after which all that is below it is durable, the indexes
// too. What these hold of later batches may be anything. Where that is not so, the segment has to be read from its start.
func (l *Log) middle(seg *segment, point batch.Offset, report *Report) (middle, error) {
	start := middle{offset: seg.base}
	at, err := l.findMiddle(seg, point, report)
	switch {
	case errors.Is(err, ErrNoDescriptor):
		return start, err // to be tried again: what a close has left is no worse for it
	case isCorrupt(err) || at.offset != point:
		return start, nil // a reading from the start says what is wrong
	case err != nil:
		return start, err
	}
	if _, err := seg.txns.list(); errors.Is(err, ErrNoDescriptor) {
		return start, err
	} else if err != nil {
		return start, nil
	}
	return at, nil
}

// findMiddle is middle for a log that was closed in order. It comes to another offset than the recovery point where that is
// not found.
func (l *Log) findMiddle(seg *segment, point batch.Offset, report *Report) (middle, error) {
	at := middle{offset: seg.base}
	below := func(e offsetEntry) bool { return e.position > 0 && seg.base+batch.Offset(e.relative) < point }
	n, err := seg.offsets.lowerBound(below)
	if err != nil {
		return at, err
	}
	last, ok, err := seg.offsets.floor(below)
	if err != nil {
		return at, err
	}
	times, good, err := seg.timesBelow(point)
	if err != nil || !good {
		return at, err
	}
	f, err := seg.log.acquire()
	if err != nil {
		return at, err
	}
	defer seg.log.release()
	s := scanner{f: f, limit: seg.size, buf: make([]byte, smallScan)}
	defer func() { report.Scanned += s.read }()
	if ok {
		s.pos = int64(last.position)
	}
	for at.offset < point {
		h, err := s.header()
		if err == io.EOF {
			return at, nil
		}
		if err != nil {
			return at, err
		}
		if ok && h.LastOffset() != seg.base+batch.Offset(last.relative) {
			return at, nil
		}
		ok = false
		at.offset = h.NextOffset()
		s.step(h)
	}
	at.pos = s.pos
	offsetsThere, err := seg.offsets.count()
	if err != nil {
		return at, err
	}
	timesThere, err := seg.times.count()
	at.whole = at.pos == seg.size && offsetsThere == n && timesThere == times
	return at, err
}

// timesBelow is how many entries of the time index are of batches below an offset, and whether the newest of them can be
// one: of an entry that lies in two sectors a crash may have left half.
func (s *segment) timesBelow(o batch.Offset) (n int, good bool, err error) {
	n, err = s.times.lowerBound(func(e timeEntry) bool { return e != (timeEntry{}) && s.base+batch.Offset(e.relative) < o })
	if err != nil || n < 2 {
		return n, err == nil, err
	}
	r, err := s.times.read()
	if err != nil {
		return n, false, err
	}
	defer r.close()
	before, err := r.at(n - 2)
	if err != nil {
		return n, false, err
	}
	last, err := r.at(n - 1)
	return n, last.relative > before.relative && last.timestamp > before.timestamp, err
}

// recoverSegment reads a segment from a place on as if its batches were appended one by one, and leaves it the active one.
// It returns where and why that ended early, nil if it did not; and where its offsets pass over the recovery point, which
// was the end of a batch once. A cleaning leaves such a hole, in a segment that is whole. Where something is bad behind it,
// no checksum covers the offset that passed over: what may be damaged then lies below the point.
func (l *Log) recoverSegment(seg *segment, from middle, point batch.Offset, report *Report, p *recovering) (_ *CorruptError, hole *Damage, _ error) {
	f, err := seg.log.acquire()
	if err != nil {
		return nil, nil, err
	}
	defer seg.log.release()
	if err := l.startRecovery(seg, from); err != nil {
		return nil, nil, l.fail("recovery", err)
	}
	s := scanner{f: f, pos: from.pos, limit: seg.size, buf: make([]byte, int(max(min(seg.size-from.pos, wholeScan), batch.HeaderSize)))}
	defer func() { report.Scanned += s.read }()
	l.end = max(l.end, seg.base)
	for {
		h, m, err := l.recoverBatch(&s, seg)
		if err == io.EOF {
			return nil, hole, nil
		}
		var bad *CorruptError
		if err != nil && !errors.As(err, &bad) {
			return nil, nil, err
		}
		if bad != nil {
			damage := Damage{Segment: seg.log.path, Position: s.pos, Offset: l.end, Reason: bad}
			switch {
			case l.end >= point && hole != nil:
				hole.Reason = bad
				return nil, nil, &DamagedError{*hole}
			case l.end >= point:
				return bad, nil, nil
			case h.Magic == batch.Magic && h.NextOffset() <= point:
				// Its frame is whole and lies below the recovery point: what follows can be read, and a reader is told
				// by the checksum.
				report.Damage = append(report.Damage, damage)
				h.ProducerID, h.LeaderEpoch, h.MaxTimestamp = batch.NoProducerID, batch.NoLeaderEpoch, batch.NoTimestamp
			default:
				return nil, nil, &DamagedError{damage}
			}
		}
		if bad == nil && l.end < point && h.BaseOffset > point {
			hole = &Damage{Segment: seg.log.path, Position: s.pos, Offset: l.end}
		}
		if err := l.written(h, m, s.pos); err != nil {
			return nil, nil, err
		}
		s.step(h)
		p.at(s.pos)
	}
}

// recovering tells of a recovery that takes long.
type recovering struct {
	l           *Log
	segments    int
	over        int   // segments
	done, total int64 // bytes: of the segments that are over, and of all, without what is not checked
	asked       int64 // where in the segment the clock was looked at
	told        time.Time
}

// askedEach is how many bytes are checked between two looks at the clock.
const askedEach = 1 << 20

// at says that a segment is checked up to a position.
func (p *recovering) at(pos int64) {
	if pos > 0 && pos-p.asked < askedEach {
		return
	}
	p.asked = pos
	if now := p.l.now(); now.Sub(p.told) >= tellProgress {
		p.told = now
		p.l.logger.Info("log is being recovered", p.l.field(), zap.Int("segments_done", p.over), zap.Int("of", p.segments), zap.Int64("bytes_checked", max(p.done+pos, 0)), zap.Int64("of_bytes", p.total))
	}
}

// passed says that a segment is over.
func (p *recovering) passed(seg *segment) {
	p.over++
	p.done += seg.size
	p.asked = 0
}

// startRecovery makes a segment the active one, with what its indexes hold of batches before a place.
func (l *Log) startRecovery(seg *segment, from middle) error {
	if from.pos > 0 {
		return l.resume(seg, from.pos, from.offset)
	}
	offsets, times := 0, 0
	if faults.keepIndexes {
		offsets, _ = seg.offsets.count()
		times, _ = seg.times.count()
	}
	if err := l.startActive(seg, 0, offsets, times, l.now().UnixMilli()); err != nil {
		return err
	}
	return seg.txns.reset()
}

// recoverBatch reads the next batch and checks it. A *CorruptError with a header says that the batch's frame can be
// trusted although its contents cannot.
func (l *Log) recoverBatch(s *scanner, seg *segment) (batch.Header, *batch.Marker, error) {
	h, err := s.header()
	if err != nil {
		return batch.Header{}, nil, err
	}
	if h.BaseOffset < l.end || !fits(h.LastOffset(), seg.base) {
		return batch.Header{}, nil, &CorruptError{Position: s.pos, Why: fmt.Sprintf("batch of offsets %d to %d, expected %d", h.BaseOffset, h.LastOffset(), l.end)}
	}
	var wrong *batch.CRCError
	if err := s.checksum(h); errors.As(err, &wrong) && !faults.trustCRC {
		return h, nil, &CorruptError{Position: s.pos, Why: "checksum", Err: err}
	} else if err != nil && wrong == nil {
		return batch.Header{}, nil, err
	}
	m, err := s.marker(h)
	return h, m, err
}

// cut removes everything from a bad batch on. It is synced before anything is appended: a tail that came back behind
// new batches would look like their continuation.
func (l *Log) cut(seg *segment, behind []*segment, bad *CorruptError, report *Report) error {
	c := Cut{Offset: l.end, Segment: seg.log.path, Position: l.active.size, Reason: bad}
	count := func(f scanner) {
		c.Bytes += f.limit - f.pos
		c.Batches += readable(f)
	}
	f, err := seg.log.acquire()
	if err != nil {
		return err
	}
	defer seg.log.release()
	count(scanner{f: f, pos: l.active.size, limit: seg.size, buf: make([]byte, smallScan)})
	for i := len(behind) - 1; i >= 0; i-- {
		g, err := behind[i].log.acquire()
		if err != nil {
			return err
		}
		count(scanner{f: g, limit: behind[i].size, buf: make([]byte, smallScan)})
		behind[i].log.release()
		// The newest goes first: a crash in between leaves a log without a hole.
		if err := l.removeSegment(behind[i]); err != nil {
			return err
		}
	}
	if err := f.Truncate(l.active.size); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	seg.size = l.active.size
	report.Cut = &c
	l.logger.Warn("log was cut at the first bad batch", l.field(), zap.Int64("offset", int64(c.Offset)), zap.String("segment", c.Segment),
		zap.Int64("position", c.Position), zap.Int64("bytes", c.Bytes), zap.Int("readable_batches", c.Batches), zap.Error(bad))
	return nil
}

// removeSegment removes a segment's files at once.
func (l *Log) removeSegment(seg *segment) error {
	for _, suffix := range []string{suffixSnapshot, suffixTxnIndex, suffixTimeIndex, suffixIndex, suffixLog} {
		if suffix == suffixSnapshot {
			if err := l.dropSnapshots(func(o batch.Offset) bool { return o == seg.base }); err != nil {
				return err
			}
			continue
		}
		if err := l.removeIfThere(fileName(seg.base, suffix)); err != nil {
			return err
		}
	}
	seg.retire()
	l.dirDirty.Store(true)
	return nil
}

// readable counts the good batches from a bad one on, as far as the frames lead.
func readable(s scanner) int {
	n := 0
	for {
		h, err := s.header()
		if err != nil {
			return n
		}
		if s.checksum(h) == nil {
			n++
		}
		s.step(h)
	}
}
