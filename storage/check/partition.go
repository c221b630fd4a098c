package check

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/epoch"
	"millrace/storage/producer"
)

// partition is the state of looking at one.
type partition struct {
	Partition
	fs disk.FS
	o  Options

	bases     []batch.Offset
	has       map[string]bool
	actual    map[string]string // the names that files have which a start gives others
	snapshots []batch.Offset
	orphans   []string // indexes without their segment
	epochs    epoch.Cache
	known     bool // epochs is what the file says

	producers *producer.State
	complete  bool // what came before the log's first batch is known to producers
	next      int  // snapshots compared so far
	// unlike are findings that hold only in a log that was never compacted: compaction takes batches away that others tell of.
	unlike []Finding
	holes  bool

	// What a start after a crash reads: the segments from first on. at is the one that is looked at.
	first, at int
	// over: an offset in it passes over the recovery point, which was the end of a batch once. Where something is bad behind
	// it, it may be that offset.
	over bool
	// refused: the start does not open the log, and cuts nothing.
	refused bool

	scratch batch.Scratch
}

// CheckPartition looks at a partition's directory. An error says that the disk does not let itself be read.
func CheckPartition(fsys disk.FS, dir string, o Options) (Partition, error) {
	p := &partition{Partition: Partition{Dir: dir}, fs: fsys, o: o, has: map[string]bool{}, actual: map[string]string{}, producers: producer.New()}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return p.Partition, fmt.Errorf("list %s: %w", dir, err)
	}
	if entries, err = p.files(entries); err != nil {
		return p.Partition, err
	}
	names, err := p.exchanged(entries)
	if err != nil {
		return p.Partition, err
	}
	for _, name := range names {
		base, suffix, ok := parseSegmentName(name)
		switch {
		case !ok && (name == partitionMetadata || name == epoch.FileName):
		case !ok && strings.HasSuffix(name, ".tmp"):
			p.Partition.add(p.path(name), -1, -1, true, "a file that was being replaced")
		case !ok:
			p.Partition.add(p.path(name), -1, -1, false, "is no file of a partition")
		case suffix == ".log":
			p.bases = append(p.bases, base)
		case suffix == ".snapshot":
			p.snapshots = append(p.snapshots, base)
		case suffix == ".index", suffix == ".timeindex", suffix == ".txnindex":
			if !slices.Contains(names, segmentName(base, ".log")) {
				p.orphans = append(p.orphans, name)
			}
		case strings.HasSuffix(suffix, deletedSuffix), strings.HasSuffix(suffix, cleanedSuffix), strings.HasSuffix(suffix, swapSuffix):
			// Left by a removal or a cleaning; a start finishes or removes them.
		case strings.HasSuffix(suffix, ".tmp"):
			p.Partition.add(p.path(name), -1, base, true, "a file that was being made")
		default:
			p.Partition.add(p.path(name), -1, base, false, "is no file of a segment")
		}
	}
	if err := p.all(); err != nil {
		return p.Partition, err
	}
	if !p.holes {
		for _, f := range p.unlike {
			p.Partition.add(f.File, f.Position, f.Offset, f.Mended, "%s", f.Reason)
		}
	}
	return p.Partition, nil
}

// files tells of what stands under the names of the partition's files and is none, and leaves it out. A start opens no log of
// which a file is a directory, or a segment a link to nothing.
func (p *partition) files(entries []disk.Entry) ([]disk.Entry, error) {
	var out []disk.Entry
	for _, e := range entries {
		if !ofPartition(e.Name) {
			out = append(out, e)
			continue
		}
		reason, err := notFile(p.fs, p.Dir+"/"+e.Name, e)
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", p.Dir+"/"+e.Name, err)
		}
		if reason == nil {
			out = append(out, e)
			continue
		}
		p.add(p.Dir+"/"+e.Name, -1, -1, false, "%v", reason)
		p.refused = true
	}
	return out, nil
}

// path is where a file lies whose name is, or will be after a start, the given one.
func (p *partition) path(name string) string {
	if actual, ok := p.actual[name]; ok {
		name = actual
	}
	return p.Dir + "/" + name
}

// exchanged lists the names in the partition's directory as a start will find them: where a cleaning was ended while it
// exchanged segments, the finished replacement (.swap) stands in the place of those that it covers. One at or above an
// unfinished one (.cleaned) is dropped: its set is not complete.
func (p *partition) exchanged(entries []disk.Entry) ([]string, error) {
	unfinished := batch.Offset(-1)
	there := map[string]bool{}
	for _, e := range entries {
		p.has[e.Name], there[e.Name] = !e.Dir, true
		if o, _, ok := parseSegmentName(e.Name); ok && strings.HasSuffix(e.Name, cleanedSuffix) && !strings.HasSuffix(e.Name, cutSuffix) && (unfinished < 0 || o < unfinished) {
			unfinished = o
		}
	}
	for _, e := range entries {
		final, ok := strings.CutSuffix(e.Name, swapSuffix)
		base, suffix, named := parseSegmentName(final)
		if !ok || !named || unfinished >= 0 && base >= unfinished {
			continue
		}
		p.actual[final] = e.Name
		if suffix != ".log" {
			continue
		}
		end := base + 1
		err := walk(p.fs, p.Dir+"/"+e.Name, func(fr frame, _ error) error {
			end = max(end, fr.h.NextOffset())
			return nil
		})
		if b := (*broken)(nil); err != nil && !errors.As(err, &b) {
			return nil, err
		}
		for _, old := range entries {
			// Who removes a segment may take it before its indexes, as Apache Kafka does, or behind them.
			o, suffix, ok := parseSegmentName(old.Name)
			if ok && o >= base && o < end && slices.Contains([]string{".log", ".index", ".timeindex", ".txnindex"}, suffix) {
				delete(there, old.Name)
				p.has[old.Name] = false
			}
		}
	}
	for final, name := range p.actual {
		delete(there, name)
		there[final], p.has[final] = true, true
	}
	return slices.Sorted(maps.Keys(there)), nil
}

// remade says whether a start makes the snapshot at an offset anew, or drops it: it reads the segment with the recovery
// point, and what follows, from the start.
func (p *partition) remade(at batch.Offset) bool {
	if p.o.Clean {
		return false
	}
	first := p.bases[0]
	for _, base := range p.bases {
		if base < p.o.RecoveryPoint {
			first = base
		}
	}
	return at > first || p.behind(at)
}

// behind says whether an offset lies where a start after a crash mends.
func (p *partition) behind(o batch.Offset) bool { return !p.o.Clean && o >= p.o.RecoveryPoint }

// cuts says whether a start cuts what is bad at the log's end so far: after a crash, or where the newest segment goes on
// behind the offset at which the log was closed in order.
func (p *partition) cuts() bool {
	n, point := len(p.snapshots), p.o.RecoveryPoint
	goesOn := p.o.Clean && n > 0 && p.snapshots[n-1] == point && p.at == len(p.bases)-1 && p.End >= point
	return goesOn || p.behind(p.End) && p.at >= p.first
}

// bad adds the finding that nothing can be read at a position of segment i, as the start that comes upon it will take it. It
// may refuse: what no checksum covers may be what is wrong below the recovery point.
func (p *partition) bad(i int, pos int64, o batch.Offset, format string, args ...any) error {
	if p.refused = p.refused || p.over; p.cuts() && !p.refused {
		return p.addCut(i, pos, o, format, args...)
	}
	p.add(p.path(segmentName(p.bases[i], ".log")), pos, o, false, format, args...)
	p.holes = true // nothing more is known of producers
	return nil
}

func (p *partition) all() error {
	if p.has[partitionMetadata] {
		if _, err := readTopicID(p.fs, p.Dir); err != nil {
			// Nothing was flushed where the first segment, or the log where there is none, begins at the recovery point: that
			// is where an empty log ended.
			first := max(p.o.LogStart, 0)
			if len(p.bases) > 0 {
				first = p.bases[0]
			}
			flushed := first < p.o.RecoveryPoint
			p.add(p.path(partitionMetadata), -1, -1, !p.o.Clean && !flushed, "%v", err)
		}
	}
	if !p.has[partitionMetadata] && len(p.bases) > 0 {
		p.add(p.path(partitionMetadata), -1, -1, true, "is not there")
	}
	if p.has[epoch.FileName] {
		b, err := disk.ReadFile(p.fs, p.path(epoch.FileName), maxText)
		if err == nil {
			p.epochs, err = epoch.Decode(b)
		}
		if p.known = err == nil; err != nil {
			p.add(p.path(epoch.FileName), -1, -1, false, "%v", err)
		}
	}
	for _, name := range p.orphans {
		// A removal takes the segment last: whatever ends it early, within the log no index is left alone.
		base, suffix, _ := parseSegmentName(name)
		within := len(p.bases) > 0 && p.bases[0] < base && !p.behind(base) && suffix != ".txnindex"
		p.add(p.path(name), -1, base, !within, "there is no segment of that offset")
	}
	if len(p.bases) == 0 {
		if p.o.RecoveryPoint > max(p.o.LogStart, 0) {
			dir, name := p.place()
			p.add(dir+"/"+recoveryPointFile, -1, p.o.RecoveryPoint, false, "says that %s was flushed to %d, it has no segment", name, p.o.RecoveryPoint)
		}
		return nil
	}
	if p.Segments = len(p.bases); !p.o.Clean && (p.known || !p.has[epoch.FileName]) {
		for i, base := range p.bases {
			if base <= max(p.o.RecoveryPoint, 0) {
				p.first = i
			}
		}
	}
	p.End, p.Start = p.bases[0], max(p.bases[0], p.o.LogStart)
	if err := p.loadProducers(); err != nil {
		return err
	}
	for i := range p.bases {
		whole, err := p.segment(i)
		if err != nil {
			return err
		}
		if !whole {
			break
		}
	}
	if err := p.reach(p.End); err != nil {
		return err
	}
	p.ends()
	return nil
}

// loadProducers begins with the snapshot at the first segment: what it says cannot be compared.
func (p *partition) loadProducers() error {
	first := p.bases[0]
	p.complete = first == 0
	for p.next < len(p.snapshots) && p.snapshots[p.next] <= first {
		entries, ok, err := p.snapshot(p.snapshots[p.next])
		if err != nil {
			return err
		}
		if ok && p.snapshots[p.next] == first {
			p.producers.Load(entries, first, 0, 1<<62)
			p.complete = true
		}
		p.next++
	}
	if !p.complete {
		p.producers.Clear(first)
	}
	return nil
}

// snapshot reads a snapshot file.
func (p *partition) snapshot(at batch.Offset) (entries []producer.Entry, ok bool, err error) {
	path := p.path(segmentName(at, ".snapshot"))
	b, err := disk.ReadFile(p.fs, path, maxText)
	if err != nil {
		return nil, false, err
	}
	entries, err = producer.DecodeSnapshot(b)
	if err != nil {
		p.add(path, -1, at, p.remade(at), "%v", err)
		return nil, false, nil
	}
	for _, e := range entries {
		if e.LastOffset >= at || e.TxnFirstOffset >= at {
			p.add(path, -1, at, p.remade(at), "producer %d: its last batch ends at %d, its transaction begins at %d", e.ProducerID, e.LastOffset, e.TxnFirstOffset)
			return nil, false, nil
		}
	}
	return entries, true, nil
}

// reach compares the snapshots at or below an offset with what the batches said so far.
func (p *partition) reach(o batch.Offset) error {
	for p.next < len(p.snapshots) && p.snapshots[p.next] <= o {
		at := p.snapshots[p.next]
		p.next++
		entries, ok, err := p.snapshot(at)
		if err != nil {
			return err
		}
		if !ok || !p.complete {
			continue
		}
		said := map[batch.ProducerID]producer.Entry{}
		for _, e := range p.producers.Entries() {
			said[e.ProducerID] = e
		}
		differ := func(format string, args ...any) {
			p.unlike = append(p.unlike, Finding{File: p.path(segmentName(at, ".snapshot")), Position: -1, Offset: at, Mended: p.remade(at), Reason: fmt.Sprintf(format, args...)})
		}
		for _, e := range entries {
			r, ok := said[e.ProducerID]
			delete(said, e.ProducerID)
			if r.TxnFirstOffset >= 0 && r.TxnFirstOffset < p.o.LogStart {
				r.TxnFirstOffset = e.TxnFirstOffset // a start forgets who wrote when every record was deleted
			}
			switch {
			case !ok:
				differ("producer %d has no batch in the log", e.ProducerID)
			case r.Epoch != e.Epoch || r.LastSequence != e.LastSequence || r.LastOffset != e.LastOffset || r.TxnFirstOffset != e.TxnFirstOffset:
				differ("producer %d: %+v, the log says %+v", e.ProducerID, e, r)
			}
		}
		for _, id := range sorted(said) {
			// Others may have been forgotten; and so may those of deleted records.
			if said[id].TxnFirstOffset >= 0 && said[id].LastOffset >= p.o.LogStart {
				differ("the open transaction of producer %d is missing", id)
			}
		}
	}
	return nil
}

func sorted(m map[batch.ProducerID]producer.Entry) []batch.ProducerID {
	ids := make([]batch.ProducerID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// segment looks at a segment and its indexes. whole is false if the log ends in it although it goes on.
func (p *partition) segment(i int) (whole bool, err error) {
	base := p.bases[i]
	path := p.path(segmentName(base, ".log"))
	if i > 0 {
		point := p.o.RecoveryPoint
		switch joint := "begins at offset %d, the segment before it ends at %d"; {
		case base == p.End:
		case p.o.Clean || i <= p.first:
			// A start does not look at how they fit.
			if base < p.End {
				p.add(path, -1, base, false, joint, base, p.End)
			} else {
				p.holes = true
			}
			if !p.o.Clean {
				p.End = base
			}
		case base > p.End && (p.End < point || base-p.End > 1<<31-1):
			p.holes = true
		default:
			return false, p.bad(i, -1, base, joint, base, p.End)
		}
		p.End = max(p.End, base)
	}
	p.at, p.over = i, false
	x, err := p.openIndexes(i)
	if err != nil {
		return false, err
	}
	err = walk(p.fs, path, func(fr frame, bad error) error { return p.batch(x, fr, bad) })
	var b *broken
	if err != nil && !errors.As(err, &b) {
		return false, err
	}
	if b != nil {
		if err := p.bad(i, b.pos, p.End, "%s", b.why); err != nil {
			return false, err
		}
	}
	p.Bytes += x.size
	x.finish(b != nil)
	return b == nil || i < p.first, nil // a start goes on behind what it does not read
}

func (p *partition) batch(x *indexes, fr frame, bad error) error {
	h, path := fr.h, p.path(segmentName(x.base, ".log"))
	if bad == nil && h.Attributes.Control() && fr.bytes != nil {
		if _, _, err := batch.ParseMarker(fr.bytes); err != nil {
			bad = fmt.Errorf("control record: %w", err) // a start takes it for a wrong checksum
		}
	}
	switch {
	case h.BaseOffset < p.End:
		return &broken{fr.pos, fmt.Sprintf("a batch of offsets %d to %d behind offset %d", h.BaseOffset, h.LastOffset(), p.End-1)}
	case h.LastOffset()-x.base > 1<<31-1:
		return &broken{fr.pos, fmt.Sprintf("offset %d is too far from the segment's %d", h.LastOffset(), x.base)}
	case bad != nil && p.cuts():
		return &broken{fr.pos, bad.Error()}
	}
	if point := p.o.RecoveryPoint; !p.o.Clean && p.at >= p.first && p.End < point {
		p.over = p.over || bad == nil && h.BaseOffset > point
		p.refused = p.refused || bad != nil && h.NextOffset() > point
	}
	if h.BaseOffset > p.End {
		p.holes = true
	}
	if err := p.reach(h.BaseOffset); err != nil {
		return err
	}
	p.Batches++
	x.size = fr.pos + int64(h.Size())
	x.batch(fr)
	p.End = h.NextOffset()
	if bad != nil {
		p.add(path, fr.pos, h.BaseOffset, false, "%v", bad)
		p.holes = true
		return nil
	}
	if fr.bytes != nil && !p.o.Shallow {
		n, err := checkRecords(fr, &p.scratch)
		if err != nil {
			p.add(path, fr.pos, h.BaseOffset, false, "%v", err) // a start looks at the checksum only
		}
		p.Records += int64(n)
	} else {
		p.Records += int64(h.Count)
	}
	if int64(h.Count) != int64(h.LastOffsetDelta)+1 {
		p.holes = true
	}
	if !p.has[epoch.FileName] && h.LeaderEpoch >= 0 && !p.behind(h.BaseOffset) {
		p.has[epoch.FileName] = true // once is enough
		p.add(p.path(epoch.FileName), -1, h.BaseOffset, true, "is not there, and the batch is of epoch %d", h.LeaderEpoch)
	}
	for _, o := range []batch.Offset{h.BaseOffset, h.LastOffset()} {
		if e := p.epochs.At(o); p.known && e != h.LeaderEpoch && o >= p.Start && !p.behind(o) {
			// That of a log start which a crash made forget may be unknown.
			p.add(p.path(epoch.FileName), -1, o, e == batch.NoLeaderEpoch, "the batch is of epoch %d, the file says %d", h.LeaderEpoch, e)
			break
		}
	}
	return p.producer(x, fr)
}

// producer takes note of a batch's producer, and of the transaction that it may have ended.
func (p *partition) producer(x *indexes, fr frame) error {
	if !fr.h.HasProducer() {
		return nil
	}
	var m *batch.Marker
	if fr.h.Attributes.Control() && fr.bytes != nil {
		if marker, ok, err := batch.ParseMarker(fr.bytes); err == nil && ok {
			m = &marker
		}
	}
	done, ok := p.producers.Appended(fr.h, m)
	if m != nil && m.Type == batch.Abort {
		x.marker(fr.h, done, ok && p.complete)
	}
	return nil
}

// place is the data directory and the name of the partition's directory in it.
func (p *partition) place() (dir, name string) {
	dir = p.Dir[:max(strings.LastIndexByte(p.Dir, '/'), 0)]
	return dir, strings.TrimPrefix(p.Dir[len(dir):], "/")
}

// ends compares what lies behind the last batch, and the checkpoints.
func (p *partition) ends() {
	for _, at := range p.snapshots[p.next:] {
		p.add(p.path(segmentName(at, ".snapshot")), -1, at, !p.o.Clean, "is of offset %d, the log ends at %d", at, p.End)
	}
	dir, name := p.place()
	switch point := p.o.RecoveryPoint; {
	case point > p.End:
		p.add(dir+"/"+recoveryPointFile, -1, point, false, "says that %s was flushed to %d, it ends at %d", name, point, p.End)
	case point >= 0 && p.o.Clean && point < p.End:
		p.add(dir+"/"+recoveryPointFile, -1, point, false, "says that %s, which was closed in order, was flushed to %d; it ends at %d", name, point, p.End)
	}
	if p.o.HighWatermark > p.End {
		p.add(dir+"/"+highWatermarkFile, -1, p.o.HighWatermark, !p.o.Clean, "says %d of %s, it ends at %d", p.o.HighWatermark, name, p.End)
	}
	if p.o.Cleaned > p.End {
		// It is lowered to the log's end; what was cleaned is cleaned once more.
		p.add(dir+"/"+cleanerFile, -1, p.o.Cleaned, true, "says that %s was cleaned to %d, it ends at %d", name, p.o.Cleaned, p.End)
	}
	if p.o.LogStart > p.End {
		p.add(dir+"/"+logStartFile, -1, p.o.LogStart, !p.o.Clean, "says that %s begins at %d, it ends at %d", name, p.o.LogStart, p.End)
	}
	if entries := p.epochs.Entries(); p.o.Clean && len(entries) > 0 {
		if first := entries[0].Start; first < p.Start {
			p.add(p.path(epoch.FileName), -1, first, false, "begins at %d, the log at %d", first, p.Start)
		} else if first > p.Start && p.o.LogStart > p.bases[0] {
			p.add(dir+"/"+logStartFile, -1, p.o.LogStart, true, "says that %s begins at %d, its leader epochs do at %d", name, p.Start, first)
		}
		if last := entries[len(entries)-1].Start; last > p.End {
			p.add(p.path(epoch.FileName), -1, last, false, "an epoch begins at %d, the log ends at %d", last, p.End)
		}
	}
}
