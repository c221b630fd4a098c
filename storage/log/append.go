package log

import (
	"errors"
	"fmt"
	"io"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/producer"
)

// Append appends one batch as the leader: it checks the producer's sequence, sets base offset and leader epoch in b, and
// writes. b is a batch that batch.Validate accepted and h its header; now is the time in ms.
//
// A batch that is stored already is not an error: Appended says where it is.
func (l *Log) Append(b []byte, h batch.Header, now int64) (Appended, error) {
	return l.AppendWith(b, h, now, producer.Rules{})
}

// AppendWith is Append with what the caller knows of the producer's transaction. For a control batch the marker is read
// from the batch.
func (l *Log) AppendWith(b []byte, h batch.Header, now int64, r producer.Rules) (Appended, error) {
	out, err := l.AppendUnseen(b, h, now, r)
	l.Publish()
	return out, err
}

// AppendUnseen is AppendWith, but readers do not see the batch before Publish, which is to follow while the caller's lock
// is held: most appends move the high watermark too, and one new View does for both.
func (l *Log) AppendUnseen(b []byte, h batch.Header, now int64, r producer.Rules) (Appended, error) {
	if err := l.ready(); err != nil {
		return Appended{}, err
	}
	if len(b) != h.Size() {
		panic(fmt.Sprintf("batch of %d bytes has a header that says %d", len(b), h.Size()))
	}
	if len(b) > int(l.cfg.Load().SegmentBytes) {
		return Appended{}, &BatchTooLargeError{Size: len(b), Limit: int(l.cfg.Load().SegmentBytes)}
	}
	var marker *batch.Marker
	if h.Attributes.Control() {
		m, ok, err := batch.ParseMarker(b)
		if err != nil {
			return Appended{}, err
		}
		if ok {
			marker = &m
		}
	}
	if h.HasProducer() {
		r.Marker = marker
		v, err := l.producers.Check(h, r)
		if err != nil {
			return Appended{}, err
		}
		if v.Duplicate {
			return Appended{Base: v.Base, Last: v.Last, Duplicate: true, MaxTimestamp: v.MaxTimestamp, LogStart: l.start}, nil
		}
	}
	h.BaseOffset, h.LeaderEpoch = l.end, l.epoch
	if err := l.prepare(h, len(b), now); err != nil {
		return Appended{}, err
	}
	if err := l.knowAborted(marker); err != nil {
		return Appended{}, err
	}
	batch.Patch(b, h.BaseOffset, h.LeaderEpoch)
	pos := l.active.size
	if err := l.active.seg.log.write(b, pos); err != nil {
		return Appended{}, l.fail("append", err)
	}
	if err := l.written(h, marker, pos); err != nil {
		return Appended{}, err
	}
	l.unseen = true
	return Appended{Base: h.BaseOffset, Last: h.LastOffset(), MaxTimestamp: h.MaxTimestamp, LogStart: l.start}, nil
}

// AppendAsFollower appends batches that were copied from the leader, with the offsets and epochs they carry. Each one's
// checksum is compared first: if one is bad, nothing is written. A batch cut off at the end of b is left out.
func (l *Log) AppendAsFollower(b []byte) (Appended, error) {
	if err := l.ready(); err != nil {
		return Appended{}, err
	}
	batches, err := l.parseCopied(b)
	if err != nil {
		return Appended{}, err
	}
	if len(batches) == 0 {
		return Appended{Base: l.end, Last: l.end - 1, MaxTimestamp: batch.NoTimestamp, LogStart: l.start}, nil
	}
	out, err := l.appendCopied(b, batches)
	l.Publish()
	return out, err
}

// appendCopied writes batches of b and notes them. What was written before an error stays.
func (l *Log) appendCopied(b []byte, batches []copied) (Appended, error) {
	now := l.now().UnixMilli()
	out := Appended{Base: batches[0].h.BaseOffset, MaxTimestamp: batch.NoTimestamp, LogStart: l.start}
	for len(batches) > 0 {
		// As many as one write can take: up to where the segment has to be rolled.
		first := batches[0]
		if err := l.prepare(first.h, first.h.Size(), now); err != nil {
			return Appended{}, err
		}
		n, size := 1, first.h.Size()
		for ; n < len(batches); n++ {
			h := batches[n].h
			full, err := l.mustRoll(h, h.Size(), now, int64(size), n)
			if err != nil {
				return Appended{}, l.fail("append", err)
			}
			if full {
				break
			}
			size += h.Size()
		}
		for _, c := range batches[:n] {
			if err := l.knowAborted(c.marker); err != nil {
				return Appended{}, err
			}
		}
		pos := l.active.size
		if err := l.active.seg.log.write(b[first.at:first.at+size], pos); err != nil {
			return Appended{}, l.fail("append", err)
		}
		for _, c := range batches[:n] {
			if err := l.written(c.h, c.marker, pos); err != nil {
				return Appended{}, err
			}
			pos += int64(c.h.Size())
			out.Last, out.MaxTimestamp = c.h.LastOffset(), max(out.MaxTimestamp, c.h.MaxTimestamp)
		}
		l.unseen = true
		batches = batches[n:]
	}
	return out, nil
}

// knowAborted sees to it that an abort marker can be noted without a look at the disk.
func (l *Log) knowAborted(m *batch.Marker) error {
	if m == nil || m.Type != batch.Abort {
		return nil
	}
	if _, err := l.last().txns.list(); err != nil {
		return l.fail("transaction index", err)
	}
	return nil
}

// copied is one batch of what a follower fetched.
type copied struct {
	h      batch.Header
	marker *batch.Marker
	at     int
}

func (l *Log) parseCopied(b []byte) ([]copied, error) {
	var out []copied
	next := l.end
	for at := 0; at < len(b); {
		h, err := batch.ParseHeader(b[at:])
		if errors.Is(err, batch.ErrShort) || (err == nil && h.Size() > len(b)-at) {
			break
		}
		if err != nil {
			return nil, err
		}
		whole := b[at : at+h.Size()]
		if err := batch.CheckCRC(whole); err != nil {
			return nil, err
		}
		if len(whole) > int(l.cfg.Load().SegmentBytes) {
			return nil, &BatchTooLargeError{Size: len(whole), Limit: int(l.cfg.Load().SegmentBytes)}
		}
		if h.LastOffsetDelta < 0 {
			return nil, &CorruptError{Position: int64(at), Why: fmt.Sprintf("last offset delta %d", h.LastOffsetDelta)}
		}
		if h.BaseOffset < next {
			return nil, &UnexpectedOffsetError{First: h.BaseOffset, LogEnd: next}
		}
		c := copied{h: h, at: at}
		if h.Attributes.Control() {
			m, ok, err := batch.ParseMarker(whole)
			if err != nil {
				return nil, err
			}
			if ok {
				c.marker = &m
			}
		}
		out = append(out, c)
		next = h.NextOffset()
		at += h.Size()
	}
	return out, nil
}

// prepare makes the active segment one that a batch of size bytes can be appended to: it makes the files of a log that
// has none, opens those of a log just started, or rolls.
func (l *Log) prepare(h batch.Header, size int, now int64) error {
	l.touched = true
	if len(l.segs) == 0 {
		if err := l.materialise(l.end, now); err != nil {
			return l.fail("making the files", err)
		}
	}
	if !l.active.open {
		if err := l.openActive(now); err != nil {
			return l.fail("opening the active segment", err)
		}
	}
	full := l.begunHalf
	if !full {
		var err error
		if full, err = l.mustRoll(h, size, now, 0, 0); err != nil {
			return l.fail("append", err)
		}
	}
	if full {
		// The new segment begins where the old one ends, also before a gap: recovery takes a hole between two segments
		// for a tail that was lost. Only a gap that no segment can hold is left between them.
		base := l.end
		if !fits(h.LastOffset(), base) {
			base = h.BaseOffset
		}
		if err := l.roll(base, now); err != nil {
			return l.fail("roll", err)
		}
	}
	return nil
}

// mustRoll says whether a batch has to go to a new segment, if pending bytes in n batches will have been appended before
// it.
func (l *Log) mustRoll(h batch.Header, size int, now int64, pending int64, n int) (bool, error) {
	a := &l.active
	seg := l.last()
	have := a.size + pending
	if have > int64(l.cfg.Load().SegmentBytes)-int64(size) || have+int64(size) > maxSegment || !fits(h.LastOffset(), seg.base) {
		return true, nil
	}
	if have == 0 {
		return false, nil
	}
	if !a.hasFirst && a.size > 0 {
		first, err := l.firstTimestamp(seg)
		if err != nil {
			return false, err
		}
		a.first, a.hasFirst = first, true
	}
	waited := now - a.created
	if a.hasFirst && a.first >= 0 {
		waited = h.MaxTimestamp - a.first
	}
	if waited > l.cfg.Load().rollMs()-a.jitter {
		return true, nil
	}
	offsets, err := seg.offsets.count()
	if err != nil {
		return false, err
	}
	times, err := seg.times.count()
	if err != nil {
		return false, err
	}
	// The time index keeps one place for the entry that closing the segment adds.
	return offsets+n >= a.offsetRoom || times+n >= a.timeRoom-1, nil
}

func (l *Log) firstTimestamp(seg *segment) (int64, error) {
	f, err := seg.log.acquire()
	if err != nil {
		return 0, err
	}
	defer seg.log.release()
	s := scanner{f: f, limit: l.active.size, buf: make([]byte, batch.HeaderSize)}
	h, err := s.header()
	if err == io.EOF {
		return batch.NoTimestamp, nil
	}
	if err != nil {
		return 0, fmt.Errorf("first batch of segment %d: %w", seg.base, err)
	}
	return h.MaxTimestamp, nil
}

// written takes note of a batch that stands at pos in the active segment. What it notes beside the batch is in memory
// first, and nothing vouches for it before it is in its file: where no descriptor is left for that it goes there later.
func (l *Log) written(h batch.Header, m *batch.Marker, pos int64) error {
	seg := l.last()
	l.active.index(seg, h, pos, l.cfg.Load().IndexIntervalBytes)
	seg.note(h.BaseOffset, h.LastOffsetDelta, pos)
	l.end = h.NextOffset()
	if last, ok := l.epochs.Latest(); h.LeaderEpoch >= 0 && (!ok || h.LeaderEpoch > last) {
		l.epochs = l.epochs.Assign(h.LeaderEpoch, h.BaseOffset)
	}
	if h.HasProducer() {
		if done, ok := l.producers.Appended(h, m); ok && done.Aborted {
			seg.txns.add(done)
			l.dirDirty.Store(true) // its first entry makes the file
		}
	}
	if err := seg.spill(); err != nil && !errors.Is(err, ErrNoDescriptor) {
		return l.fail("index", err)
	}
	return nil
}

// spill writes to the files of the indexes what has gathered for them.
func (s *segment) spill() error {
	if err := s.offsets.spill(); err != nil {
		return err
	}
	if err := s.times.spill(); err != nil {
		return err
	}
	return s.txns.save()
}

// index takes note of a batch at pos in what a and the segment's indexes say. An entry names the batch before which more
// than index.interval.bytes were appended since the last entry.
func (a *active) index(seg *segment, h batch.Header, pos int64, interval int32) {
	if pos == 0 {
		a.first, a.hasFirst = h.MaxTimestamp, true
	}
	if h.MaxTimestamp > a.maxTimestamp {
		a.maxTimestamp, a.maxOffset = h.MaxTimestamp, h.LastOffset()
	}
	if a.sinceIndex > int(interval) {
		seg.offsets.add(offsetEntry{relative: int32(h.LastOffset() - seg.base), position: int32(pos)})
		a.indexTime(seg)
		a.sinceIndex = 0
	}
	a.sinceIndex += h.Size()
	a.size = pos + int64(h.Size())
}

// indexTime adds the largest timestamp so far to the time index if it grew since the last entry.
func (a *active) indexTime(seg *segment) {
	if a.maxTimestamp <= a.indexed {
		return
	}
	a.indexed = a.maxTimestamp
	seg.times.add(timeEntry{timestamp: a.maxTimestamp, relative: int32(a.maxOffset - seg.base)})
}

// materialise makes the directory and the first segment.
func (l *Log) materialise(base batch.Offset, now int64) error {
	if !l.dirMade {
		if err := l.fs.MkdirAll(l.dir); err != nil {
			return err
		}
		l.dirMade = true
		l.madeDirty.Store(true)
	}
	if l.topicID != ([16]byte{}) {
		if err := l.writeMetadata(); err != nil {
			return err
		}
	}
	return l.begin(base, now)
}

// begin makes a new segment and makes it the active one. Before it there may be none. Where no descriptor is left for its
// indexes its file stays, and nothing may be appended before it is the active one: after a crash it would be taken for where
// the log ends.
func (l *Log) begin(base batch.Offset, now int64) error {
	if l.begunHalf && l.halfBase != base {
		if err := l.dropHalf(); err != nil {
			return err
		}
	}
	seg := l.newSegment(base, false)
	f, err := l.fs.Open(seg.log.path, disk.Write|disk.Create|disk.Truncated)
	if err != nil {
		return err
	}
	l.begunHalf, l.halfBase = true, base
	seg.log.created(f)
	if err := l.startActive(seg, 0, 0, 0, now); err != nil {
		seg.retire()
		l.dirDirty.Store(true)
		l.begunHalf = !faults.passHalf
		return err
	}
	l.begunHalf = false
	l.segs = append(l.segs[:len(l.segs):len(l.segs)], seg)
	l.dirDirty.Store(true)
	return nil
}

// dropHalf removes, durably, what is there of a segment that was not begun.
func (l *Log) dropHalf() error {
	if !l.begunHalf {
		return nil
	}
	for _, suffix := range []string{suffixTimeIndex, suffixIndex, suffixLog} {
		if err := l.removeIfThere(fileName(l.halfBase, suffix)); err != nil {
			return err
		}
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	l.begunHalf = false
	l.beginsNot(l.halfBase)
	return nil
}

// startActive makes a segment the one that is written to, with so many bytes and index entries. Every file is open before
// anything is changed: nothing is where no descriptor is left.
func (l *Log) startActive(seg *segment, size int64, offsets, times int, now int64) error {
	c := l.cfg.Load()
	room := c.IndexBytes
	if l.indexBytes > 0 {
		room = l.indexBytes
	}
	next := active{
		open: true, seg: seg, size: size, maxTimestamp: batch.NoTimestamp, maxOffset: seg.base, indexed: batch.NoTimestamp,
		created: now, jitter: l.jitter(seg.base),
		offsetRoom: seg.offsets.roomFor(room), timeRoom: seg.times.roomFor(room),
	}
	offsetFile, err := seg.offsets.create(offsets)
	if err != nil {
		return err
	}
	defer offsetFile.Close()
	timeFile, err := seg.times.create(times)
	if err != nil {
		return err
	}
	defer timeFile.Close()
	if c.Preallocate {
		f, err := seg.log.acquire()
		if err != nil {
			return err
		}
		err = f.Reserve(int64(c.SegmentBytes))
		seg.log.release()
		if err != nil {
			return err
		}
		next.reserved = true
	}
	if err := seg.offsets.begin(offsetFile, offsets, next.offsetRoom); err != nil {
		return err
	}
	if err := seg.times.begin(timeFile, times, next.timeRoom); err != nil {
		return err
	}
	seg.synced.Store(false) // it may have been closed before, for a segment that was not begun
	seg.log.hold()
	l.active, l.indexBytes = next, 0
	return nil
}

// openActive opens the active segment of a log that was not written to since Open. One behind which a segment was begun in
// part stays closed: a recovery may begin with that, and not look at the indexes before it.
func (l *Log) openActive(now int64) error {
	if l.begunHalf {
		return nil
	}
	seg := l.last()
	offsets, times, newest, err := l.checkIndexes(seg, l.active.size)
	if isMissing(err) || errors.As(err, new(*IndexError)) {
		l.logger.Warn("index is rebuilt", l.field(), errField(err))
		return l.rebuild(seg, l.active.size, now)
	}
	if err != nil {
		return err
	}
	if err := l.startActive(seg, l.active.size, offsets, times, now); err != nil {
		return err
	}
	if newest.timestamp >= 0 {
		l.active.maxTimestamp, l.active.maxOffset, l.active.indexed = newest.timestamp, seg.base+batch.Offset(newest.relative), newest.timestamp
	}
	return nil
}

// checkIndexes looks at the ends of a segment's indexes, which is where what a crash left would show.
func (l *Log) checkIndexes(seg *segment, size int64) (offsets, times int, newest timeEntry, err error) {
	newest.timestamp = batch.NoTimestamp
	if offsets, err = seg.offsets.count(); err != nil {
		return 0, 0, newest, err
	}
	if times, err = seg.times.count(); err != nil {
		return 0, 0, newest, err
	}
	if e, ok, err := seg.offsets.last(); err != nil {
		return 0, 0, newest, err
	} else if ok && (e.relative < 0 || e.position <= 0 || int64(e.position) >= size) {
		return 0, 0, newest, &IndexError{File: seg.offsets.path, Why: fmt.Sprintf("last entry points to position %d of %d", e.position, size)}
	}
	if e, ok, err := seg.times.last(); err != nil {
		return 0, 0, newest, err
	} else if ok {
		if e.relative < 0 || e.timestamp < 0 || (seg.base+batch.Offset(e.relative) >= l.end && seg == l.last()) {
			return 0, 0, newest, &IndexError{File: seg.times.path, Why: fmt.Sprintf("last entry is time %d at relative offset %d", e.timestamp, e.relative)}
		}
		newest = e
	}
	return offsets, times, newest, nil
}

// closeActive ends the writing to the active segment: its indexes get their last entry and are cut to their size. Where no
// descriptor is left it stays the active one.
func (l *Log) closeActive(sync bool) error {
	a := &l.active
	if !a.open {
		return nil
	}
	seg := a.seg
	offsetFile, err := seg.offsets.open()
	if err != nil {
		return err
	}
	defer offsetFile.Close()
	timeFile, err := seg.times.open()
	if err != nil {
		return err
	}
	defer timeFile.Close()
	var reserved disk.File
	if a.reserved {
		if reserved, err = seg.log.acquire(); err != nil {
			return err
		}
		defer seg.log.release()
	}
	a.indexTime(seg)
	if err := seg.offsets.finish(offsetFile, sync); err != nil {
		return err
	}
	if err := seg.times.finish(timeFile, sync); err != nil {
		return err
	}
	if reserved != nil {
		if err := reserved.Truncate(a.size); err != nil { // its bytes stay; what was reserved behind them goes
			return err
		}
	}
	seg.size = a.size
	seg.largest.Store(a.maxTimestamp)
	a.open = false
	seg.log.unhold()
	return nil
}

// Roll closes the active segment and begins a new one, unless the active one is empty.
func (l *Log) Roll() error {
	if err := l.ready(); err != nil {
		return err
	}
	if len(l.segs) == 0 || l.active.size == 0 {
		return nil
	}
	now := l.now().UnixMilli()
	l.touched = true
	if !l.active.open {
		if err := l.openActive(now); err != nil {
			return l.fail("opening the active segment", err)
		}
	}
	if err := l.roll(l.end, now); err != nil {
		return l.fail("roll", err)
	}
	l.publish()
	return nil
}

// roll begins a segment at base. The old one is not synced here, under the partition's lock: the next Flush does it. But
// where it is flushed up to its end, its indexes are.
func (l *Log) roll(base batch.Offset, now int64) error {
	if l.active.size == 0 && l.last().base == base {
		return nil
	}
	// A recovery that begins with the new segment does not look at the old one.
	sync := l.beginsAt(base) && !faults.pointPasses
	err := l.exchangeActive(base, now, sync)
	if err != nil && !l.begunHalf {
		// A snapshot where no segment begins says that the log was closed there.
		if drop := l.dropSnapshots(func(o batch.Offset) bool { return o == base && !l.isBase(o) }); drop != nil {
			return drop
		}
		l.beginsNot(base)
	}
	return err
}

// exchangeActive closes the active segment and begins one at base. Where no descriptor is left the old one is opened again
// at the next append.
func (l *Log) exchangeActive(base batch.Offset, now int64, sync bool) error {
	seg := l.last()
	if err := l.closeActive(sync); err != nil {
		return err
	}
	seg.recent.Store(nil)
	if sync {
		if err := l.syncTxns(seg); err != nil {
			return err
		}
		seg.synced.Store(true)
	}
	if err := l.writeSnapshot(base, sync); err != nil {
		return err
	}
	if err := l.begin(base, now); err != nil {
		return err
	}
	l.last().snapshotSynced.Store(sync)
	return nil
}
