package log

import (
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"millrace/storage/batch"
)

// tellProgress is how often a long recovery is told of.
const tellProgress = 10 * time.Second

// recover opens a log that was not closed in order. The segments from the one that holds the recovery point on are read
// whole, each batch's checksum compared, indexes and producer state made anew, and the log cut at the first bad batch
// behind the recovery point, whatever follows it. A bad batch below the recovery point is reported and stays.
func (l *Log) recover(o Options, found []segmentFiles, epochsGood bool, report *Report) error {
	report.Recovered = true
	l.touched = true
	point := max(o.RecoveryPoint, 0)
	all := l.segs
	first := 0
	for i, seg := range all {
		// One that ends exactly at the recovery point is read too: its indexes are only known to be durable when the
		// recovery point lies in a later one.
		if seg.base < point {
			first = i
		}
	}
	if !epochsGood {
		first = 0 // every batch has to say its epoch again
	}
	for i := range first {
		all[i].synced.Store(true)
		// What their indexes say is not looked at: they were durable before the recovery point passed them, and a reader
		// takes the segment's word where an entry leads nowhere.
		if all[i].size > 0 && (!found[i].index || !found[i].time) {
			if err := l.makeIndexes(all[i], report); err != nil {
				return l.damaged(err, all[i])
			}
		}
	}
	// Snapshots behind the first segment that is read are made anew on the way: they may be of a time before a
	// truncation, and what was made durable of them is not known.
	if err := l.dropSnapshots(func(s batch.Offset) bool { return s > all[first].base && !faults.keepNewer }); err != nil {
		return l.fail("removing snapshots", err)
	}
	at, err := l.loadProducers(all[first].base, all[0].base, report)
	if err != nil {
		return err
	}
	for i := range first {
		if err := l.replay(i, at, report); err != nil {
			return l.damaged(err, all[i])
		}
	}
	l.end = all[first].base
	told := l.now()
	for i := first; i < len(all); i++ {
		if now := l.now(); now.Sub(told) >= tellProgress {
			told = now
			l.logger.Info("log is being recovered", l.field(), zap.Int("segments done", i-first), zap.Int("of", len(all)-first), zap.Int64("bytes read", report.Scanned))
		}
		// l.segs is what is known to be good, so that everything an append does can be done here.
		l.segs = all[: i+1 : i+1]
		bad, err := l.recoverSegment(all[i], point, report)
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
		if err := l.writeSnapshot(all[i+1].base, false); err != nil {
			return l.fail("recovery", err)
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
	l.flushed.Store(int64(min(point, l.end)))
	return nil
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

// recoverSegment reads a whole segment as if its batches were appended one by one, and leaves it the active one. It
// returns where and why that ended early, nil if it did not.
func (l *Log) recoverSegment(seg *segment, point batch.Offset, report *Report) (*CorruptError, error) {
	f, err := seg.log.hold()
	if err != nil {
		return nil, err
	}
	offsets, times := 0, 0
	if faults.keepIndexes {
		offsets, _ = seg.offsets.count()
		times, _ = seg.times.count()
	}
	if err := l.startActive(seg, f, 0, offsets, times, l.now().UnixMilli()); err != nil {
		return nil, l.fail("recovery", err)
	}
	if err := seg.txns.reset(); err != nil {
		return nil, l.fail("recovery", err)
	}
	s := scanner{f: f, limit: seg.size, buf: make([]byte, int(max(min(seg.size, wholeScan), batch.HeaderSize)))}
	defer func() { report.Scanned += s.read }()
	l.end = max(l.end, seg.base)
	for {
		h, m, err := l.recoverBatch(&s, seg)
		if err == io.EOF {
			return nil, nil
		}
		var bad *CorruptError
		if err != nil && !errors.As(err, &bad) {
			return nil, err
		}
		if bad != nil {
			damage := Damage{Segment: seg.log.path, Position: s.pos, Offset: l.end, Reason: bad}
			switch {
			case l.end >= point:
				return bad, nil
			case h.Magic == batch.Magic && h.NextOffset() <= point:
				// Its frame is whole and lies below the recovery point: what follows can be read, and a reader is told
				// by the checksum.
				report.Damage = append(report.Damage, damage)
				h.ProducerID, h.LeaderEpoch, h.MaxTimestamp = batch.NoProducerID, batch.NoLeaderEpoch, batch.NoTimestamp
			default:
				return nil, &DamagedError{damage}
			}
		}
		if err := l.written(h, m, s.pos); err != nil {
			return nil, err
		}
		s.step(h)
	}
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
	count(scanner{f: l.active.file, pos: l.active.size, limit: seg.size, buf: make([]byte, smallScan)})
	for i := len(behind) - 1; i >= 0; i-- {
		f, err := behind[i].log.acquire()
		if err != nil {
			return err
		}
		count(scanner{f: f, limit: behind[i].size, buf: make([]byte, smallScan)})
		behind[i].log.release()
		// The newest goes first: a crash in between leaves a log without a hole.
		if err := l.removeSegment(behind[i]); err != nil {
			return err
		}
	}
	if err := l.active.file.Truncate(l.active.size); err != nil {
		return err
	}
	if err := l.active.file.Sync(); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	seg.size = l.active.size
	report.Cut = &c
	l.logger.Warn("log was cut at the first bad batch", l.field(), zap.Int64("offset", int64(c.Offset)), zap.String("segment", c.Segment),
		zap.Int64("position", c.Position), zap.Int64("bytes", c.Bytes), zap.Int("readable batches", c.Batches), zap.Error(bad))
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
