package log

import (
	"slices"

	"millrace/storage/batch"
)

// The times that OldOffsets takes beside those of the clock.
const (
	oldLatest   int64 = -1
	oldEarliest int64 = -2
)

// OldOffsets lists offsets as ListOffsets version 0 does, highest first and at most so many: the log end as of now, then
// the starts of segments by when their files were last written. A time of -1 begins at the log end, -2 at the log start,
// any other at the newest that is no younger than it.
//
// The file's own time decides, not that of its records: it is what brokers had before records had timestamps. A log
// without files has an empty segment made this moment.
func (v *View) OldOffsets(ts, now int64, most int) ([]batch.Offset, error) {
	return again(v, func(v *View) ([]batch.Offset, error) {
		type point struct {
			offset batch.Offset
			at     int64 // ms
		}
		var points []point
		for _, seg := range v.segs {
			info, err := seg.log.stat()
			if err != nil {
				return nil, err
			}
			points = append(points, point{max(seg.base, v.start), info.Modified.UnixMilli()})
		}
		switch {
		case len(points) == 0:
			points = append(points, point{v.start, now})
		case v.size > 0:
			points = append(points, point{v.end, now})
		}
		from := len(points) - 1
		switch ts {
		case oldLatest:
		case oldEarliest:
			from = 0
		default:
			for from >= 0 && points[from].at > ts {
				from--
			}
		}
		out := []batch.Offset{}
		for i := from; i >= 0 && len(out) < most; i-- {
			out = append(out, points[i].offset)
		}
		slices.SortFunc(out, func(a, b batch.Offset) int { return int(b - a) })
		return out, nil
	})
}
