package log

import (
	"fmt"

	"millrace/storage/batch"
	"millrace/storage/disk"
	"millrace/storage/producer"
)

// gathered is batches that have been appended but for being written: the log's state has them, its file and its readers
// have not. It is empty whenever the caller's lock is free.
type gathered struct {
	batches [][]byte // they lie one after the other
	handle  *handle
	file    disk.File    // open since the first: that no descriptor is left is known before anything is noted
	at      int64        // where the first is to stand
	end     batch.Offset // where the log ended before it
	lost    error        // why some could not be written; nil: they could
}

// begin opens the file for the first batch, which is to stand there.
func (g *gathered) begin(h *handle, at int64, end batch.Offset) error {
	if g.file != nil {
		return nil
	}
	f, err := h.acquire()
	if err != nil {
		return err
	}
	g.handle, g.file, g.at, g.end = h, f, at, end
	return nil
}

// write writes the batches and forgets them.
func (g *gathered) write() error {
	var err error
	if len(g.batches) == 1 {
		_, err = g.file.WriteAt(g.batches[0], g.at)
	} else {
		_, err = g.file.WriteAllAt(g.batches, g.at)
	}
	g.handle.dirty.Store(true) // also what an error left half written
	g.handle.release()
	clear(g.batches)
	g.batches, g.handle, g.file = g.batches[:0], nil, nil
	return err
}

// Gather is AppendUnseen, but for the write: WriteGathered writes the batch together with those gathered before and after
// it. It is to follow while the caller's lock is held, and until then b is not to be changed. An error is this batch's
// alone.
func (l *Log) Gather(b []byte, h batch.Header, now int64, r producer.Rules) (Appended, error) {
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
	if err := l.follow(h, len(b), now); err != nil {
		return Appended{}, err
	}
	if err := l.knowAborted(marker); err != nil {
		return Appended{}, err
	}
	if err := l.gathered.begin(l.last().log, l.active.size, l.end); err != nil {
		return Appended{}, l.fail("append", err)
	}
	batch.Patch(b, h.BaseOffset, h.LeaderEpoch)
	l.gathered.batches = append(l.gathered.batches, b)
	l.note(h, marker, l.active.size)
	return Appended{Base: h.BaseOffset, Last: h.LastOffset(), MaxTimestamp: h.MaxTimestamp, LogStart: l.start}, nil
}

// follow is prepare for a batch behind those that were gathered; where it has to go to a new segment they are written
// first.
func (l *Log) follow(h batch.Header, size int, now int64) error {
	if len(l.gathered.batches) > 0 {
		full, err := l.mustRoll(h, size, now, 0, 0)
		if err != nil {
			return l.fail("append", err)
		}
		if !full {
			return nil
		}
		if !faults.passGathered {
			if err := l.writeGathered(); err != nil {
				return err
			}
		}
	}
	return l.prepare(h, size, now)
}

// WriteGathered writes what was gathered, at once, and what indexes are to know of it. An error says that none of what
// was gathered since the last call can be counted on; the directory is given up then, or this log is out of use.
func (l *Log) WriteGathered() error {
	err := l.writeGathered()
	l.gathered.lost = nil
	return err
}

// writeGathered is WriteGathered that remembers what was lost, for a roll between two batches.
func (l *Log) writeGathered() error {
	g := &l.gathered
	if len(g.batches) == 0 {
		return g.lost
	}
	if err := g.write(); err != nil {
		// What was noted of these batches is not so. Nobody has seen it, and nobody goes on from there.
		l.end, l.active.size = g.end, g.at
		g.lost = l.giveUp("append", err)
	} else if g.lost = l.spill(l.last()); g.lost == nil {
		l.unseen = true
	}
	return g.lost
}
