package log

import (
	"io"

	"millrace/storage/batch"
	"millrace/storage/codec"
)

// OffsetForTime finds the first record whose timestamp is at or behind ts, among those below upper. false: there is
// none. It may be called concurrently.
//
// As in Kafka only the first segment that has, or had, such a record is looked at: where all of those lie below the log
// start, none is found, although later segments may have some. A segment in which no record has a timestamp, or that the
// cleaner has emptied, counts as one of when its file was last written.
func (l *Log) OffsetForTime(ts int64, upper batch.Offset) (FoundOffset, bool, error) {
	return l.View().OffsetForTime(ts, upper)
}

// OffsetOfMaxTimestamp finds the first record with the largest timestamp of the log, which is -1 where no record has one.
// false: the log is empty, or cleaning has left the first batch with that timestamp without records. It may be called
// concurrently.
func (l *Log) OffsetOfMaxTimestamp() (FoundOffset, bool, error) {
	return l.View().OffsetOfMaxTimestamp()
}

type foundMaybe struct {
	f  FoundOffset
	ok bool
}

// OffsetForTime is Log.OffsetForTime of this view.
func (v *View) OffsetForTime(ts int64, upper batch.Offset) (FoundOffset, bool, error) {
	m, err := again(v, func(v *View) (foundMaybe, error) {
		for i := range v.segs {
			largest, err := v.largest(i)
			if err == nil && largest < 0 && i < len(v.segs)-1 {
				largest, err = v.segs[i].newest()
			}
			if err != nil {
				return foundMaybe{}, err
			}
			if largest < ts {
				continue
			}
			f, ok, err := v.searchTime(i, ts)
			return foundMaybe{f, ok && f.Offset < upper}, err
		}
		return foundMaybe{}, nil
	})
	if err != nil || !m.ok {
		return FoundOffset{}, false, err
	}
	return m.f, true, nil
}

// largest is the largest timestamp of a segment.
func (v *View) largest(i int) (int64, error) {
	if i == len(v.segs)-1 {
		if v.maxTimestamp >= 0 {
			return v.maxTimestamp, nil
		}
		if v.size == 0 {
			return batch.NoTimestamp, nil
		}
		// Not written to since the start: closing it left its largest timestamp in the time index.
		return v.segs[i].maxIndexed(v.size)
	}
	return v.segs[i].maxTimestamp()
}

// searchTime looks in one segment for the first record at or behind both ts and the log start.
func (v *View) searchTime(i int, ts int64) (FoundOffset, bool, error) {
	at, ok, err := v.beforeTime(i, ts)
	if err != nil || !ok {
		return FoundOffset{}, false, err
	}
	return v.scanTime(i, at, func(h batch.Header) bool { return h.MaxTimestamp >= ts }, ts, false)
}

// beforeTime is a position in a segment before which every record is older than ts, or below the log start.
func (v *View) beforeTime(i int, ts int64) (int64, bool, error) {
	seg := v.segs[i]
	// Every record up to the last time entry below ts is older; the offset index knows where those end.
	e, ok, err := seg.times.floor(func(e timeEntry) bool { return e.timestamp < ts })
	if err != nil && !isCorrupt(err) && !isMissing(err) {
		return 0, false, err
	}
	from := v.start
	if err == nil && ok && e.relative >= 0 {
		from = max(from, seg.base+batch.Offset(e.relative))
	}
	at, ok, err := seg.find(from, v.sizeOf(i))
	return at.pos, ok && err == nil, err
}

// scanTime walks a segment's batches from a position and returns the first record, in a batch that want accepts, whose
// timestamp is at or behind ts. once looks at the first such batch only.
func (v *View) scanTime(i int, pos int64, want func(batch.Header) bool, ts int64, once bool) (FoundOffset, bool, error) {
	seg := v.segs[i]
	f, err := seg.log.acquire()
	if err != nil {
		return FoundOffset{}, false, err
	}
	defer seg.log.release()
	buf := smallBuffers.Get().(*[]byte)
	defer smallBuffers.Put(buf)
	sc := scanner{f: f, pos: pos, limit: v.sizeOf(i), buf: *buf}
	for {
		h, err := sc.header()
		if err == io.EOF {
			return FoundOffset{}, false, nil
		}
		if err != nil {
			return FoundOffset{}, false, seg.in(err)
		}
		if want(h) {
			b, err := sc.body(h)
			if err != nil {
				return FoundOffset{}, false, seg.in(err)
			}
			f, ok, err := v.scanBatch(h, b, ts)
			if err != nil || ok || once {
				return f, ok, err
			}
		}
		sc.step(h)
	}
}

// scanBatch returns the first record of a batch whose timestamp is at or behind ts.
func (v *View) scanBatch(h batch.Header, b []byte, ts int64) (f FoundOffset, ok bool, err error) {
	scan := func(sc *batch.Scratch) {
		for r, bad := range batch.Stamps(b, sc) {
			if bad != nil {
				err = bad
				return
			}
			if r.Timestamp >= ts && r.Offset >= v.start {
				f, ok = FoundOffset{Offset: r.Offset, Timestamp: r.Timestamp, LeaderEpoch: h.LeaderEpoch}, true
				return
			}
		}
	}
	if h.Attributes.Codec() == codec.None {
		scan(nil)
	} else {
		WithScratch(scan)
	}
	return f, ok, err
}

// OffsetOfMaxTimestamp is Log.OffsetOfMaxTimestamp of this view.
func (v *View) OffsetOfMaxTimestamp() (FoundOffset, bool, error) {
	m, err := again(v, func(v *View) (foundMaybe, error) {
		best, most := -1, int64(batch.NoTimestamp)
		for i := range v.segs {
			if v.sizeOf(i) == 0 {
				continue
			}
			largest, err := v.largest(i)
			if err != nil {
				return foundMaybe{}, err
			}
			if best < 0 || largest > most {
				best, most = i, largest
			}
		}
		if best < 0 {
			return foundMaybe{}, nil
		}
		// Unlike every other look-up this one may name a record below the log start, as Kafka's does.
		whole := *v
		whole.start = 0
		at, ok, err := whole.beforeTime(best, most)
		if err != nil || !ok {
			return foundMaybe{}, err
		}
		// The first batch that says so is asked: where cleaning has left it without records there is none, as in Kafka.
		f, ok, err := whole.scanTime(best, at, func(h batch.Header) bool { return h.MaxTimestamp == most }, most, true)
		return foundMaybe{f, ok}, err
	})
	if err != nil || !m.ok {
		return FoundOffset{}, false, err
	}
	return m.f, true, nil
}
