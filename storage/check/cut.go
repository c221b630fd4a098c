package check

import (
	"bytes"
	"errors"
	"fmt"

	"millrace/storage/batch"
)

// Cut is what a start takes away behind the recovery point: everything from the first bad batch on, whatever follows it.
// What a kill has torn has nothing behind it that can be read; where whole batches follow they are lost, and were perhaps
// acknowledged.
type Cut struct {
	Bytes int64
	// Batches and Records count what could be read of it: batches with the right checksum.
	Batches, Records int64
}

func (c Cut) String() string {
	if c.Batches == 0 {
		return fmt.Sprintf("mended by the next start, which cuts %s; nothing in there can be read", counted(c.Bytes, "byte"))
	}
	return fmt.Sprintf("the next start cuts %s, in which %s with %s can be read", counted(c.Bytes, "byte"), countedWith(c.Batches, "batch", "batches"), counted(c.Records, "record"))
}

func counted(n int64, what string) string { return countedWith(n, what, what+"s") }

func countedWith(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// addCut adds the finding that a start cuts the log at a position of segment i; -1: all of it goes. It mends it where
// nothing goes that can be read.
func (p *partition) addCut(i int, pos int64, o batch.Offset, format string, args ...any) error {
	var c Cut
	for k, from := i, max(pos, 0); k < len(p.bases); k, from = k+1, 0 {
		if err := p.countCut(&c, k, from); err != nil {
			return err
		}
	}
	p.found(Finding{File: p.path(segmentName(p.bases[i], ".log")), Position: pos, Offset: o, Reason: fmt.Sprintf(format, args...), Mended: c.Batches == 0, Cut: &c})
	return nil
}

// countCut counts what is cut of segment i from a position on.
func (p *partition) countCut(c *Cut, i int, pos int64) error {
	r, err := openReader(p.fs, p.path(segmentName(p.bases[i], ".log")))
	if err != nil {
		return err
	}
	defer r.close()
	c.Bytes += r.size - pos
	for pos < r.size {
		fr, bad, err := r.frame(pos)
		if b := (*broken)(nil); errors.As(err, &b) {
			// No frame leads on from here: what follows is looked for.
			if pos, err = r.next(pos+1, p.End, p.bases[i]+1<<31-1); err != nil {
				return err
			}
			continue
		} else if err != nil {
			return err
		}
		if bad == nil {
			c.Batches++
			c.Records += int64(fr.h.Count)
			pos += int64(fr.h.Size())
			continue
		}
		// Its length may be what is wrong.
		follows := pos + int64(fr.h.Size())
		if follows < r.size {
			if _, bad, err = r.frame(follows); err == nil && bad == nil {
				pos = follows
				continue
			} else if err != nil && !errors.As(err, new(*broken)) {
				return err
			}
		}
		if pos, err = r.next(pos+1, p.End, p.bases[i]+1<<31-1); err != nil {
			return err
		}
	}
	return nil
}

// next is where the next batch of offsets in a range begins that has the right checksum, at or behind a position; the
// file's end if there is none.
func (r *reader) next(pos int64, low, high batch.Offset) (int64, error) {
	const atMagic = 16
	for r.size-pos >= batch.HeaderSize {
		b, err := r.fill(pos, int(min(int64(len(r.buf)), r.size-pos)))
		if err != nil {
			return 0, err
		}
		i := 0
		for {
			n := bytes.IndexByte(b[i+atMagic:len(b)-batch.HeaderSize+atMagic+1], batch.Magic)
			if n < 0 {
				pos += int64(len(b) - batch.HeaderSize + 1)
				break
			}
			i += n
			h, err := batch.ParseHeader(b[i:])
			if err == nil && h.BaseOffset >= low && h.LastOffset() >= h.BaseOffset && h.LastOffset() <= high && h.Count >= 0 && int64(h.Count) <= int64(h.LastOffsetDelta)+1 && int64(h.Size()) <= r.size-pos-int64(i) {
				if _, bad, err := r.frame(pos + int64(i)); err != nil {
					return 0, err
				} else if bad == nil {
					return pos + int64(i), nil
				}
				pos += int64(i) + 1 // what was read here may be gone
				break
			}
			if i++; i+batch.HeaderSize > len(b) {
				pos += int64(i)
				break
			}
		}
	}
	return r.size, nil
}
