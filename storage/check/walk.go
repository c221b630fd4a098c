package check

import (
	"fmt"
	"hash/crc32"
	"io"

	"millrace/storage/batch"
	"millrace/storage/disk"
)

// frame is one batch of a segment, as far as it can be read.
type frame struct {
	pos   int64
	h     batch.Header
	bytes []byte // nil for one too long to be held; its checksum was compared piece by piece
}

// broken says why no batch can be read at a place.
type broken struct {
	pos int64
	why string
}

func (e *broken) Error() string { return e.why }

// mostHeld bounds the batches that are held whole.
const mostHeld = 256 << 20

// walk calls f for each batch of a segment's file, with a wrong checksum as bad. It ends with a *broken where no batch can
// be read any more.
func walk(fsys disk.FS, path string, f func(fr frame, bad error) error) error {
	file, err := fsys.Open(path, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return err
	}
	buf := make([]byte, min(max(size, batch.HeaderSize), 1<<20))
	at, have := int64(0), 0
	fill := func(pos int64, n int) ([]byte, error) {
		if pos >= at && pos+int64(n) <= at+int64(have) {
			return buf[pos-at:][:n], nil
		}
		if n > len(buf) {
			buf = make([]byte, n)
		}
		got, err := file.ReadAt(buf[:min(int64(len(buf)), size-pos)], pos)
		if at, have = pos, got; got < n {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		return buf[:n], nil
	}
	for pos := int64(0); pos < size; {
		left := size - pos
		if left < batch.HeaderSize {
			return &broken{pos, fmt.Sprintf("%d bytes are left, too few for a batch", left)}
		}
		b, err := fill(pos, batch.HeaderSize)
		if err != nil {
			return err
		}
		h, err := batch.ParseHeader(b)
		switch {
		case err != nil:
			return &broken{pos, err.Error()}
		case int64(h.Size()) > left:
			return &broken{pos, fmt.Sprintf("a batch of %d bytes, %d are left", h.Size(), left)}
		case h.LastOffsetDelta < 0 || h.BaseOffset < 0:
			return &broken{pos, fmt.Sprintf("a batch of offsets %d to %d", h.BaseOffset, h.LastOffset())}
		}
		fr := frame{pos: pos, h: h}
		var bad error
		if h.Size() <= mostHeld {
			if fr.bytes, err = fill(pos, h.Size()); err != nil {
				return err
			}
			bad = batch.CheckCRC(fr.bytes)
		} else {
			sum := uint32(0)
			for p, end := pos+21, pos+int64(h.Size()); p < end; {
				piece, err := fill(p, int(min(1<<20, end-p)))
				if err != nil {
					return err
				}
				sum, p = crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), piece), p+int64(len(piece))
			}
			if sum != h.CRC {
				bad = &batch.CRCError{Stored: h.CRC, Computed: sum}
			}
		}
		if err := f(fr, bad); err != nil {
			return err
		}
		pos += int64(h.Size())
	}
	return nil
}

// checkRecords reads a batch's records and compares them with its header.
func checkRecords(fr frame, sc *batch.Scratch) (n int32, err error) {
	h := fr.h
	last := batch.Offset(-1)
	for r, err := range batch.Stamps(fr.bytes, sc) {
		if err != nil {
			return n, fmt.Errorf("record %d: %w", n, err)
		}
		n++
		if r.Offset <= last || r.Offset < h.BaseOffset || r.Offset > h.LastOffset() {
			return n, fmt.Errorf("record of offset %d in a batch of %d to %d", r.Offset, h.BaseOffset, h.LastOffset())
		}
		last = r.Offset
		if r.Timestamp > h.MaxTimestamp && !h.Attributes.LogAppendTime() { // then the batch's time is that of each record
			return n, fmt.Errorf("record %d has time %d, the batch's largest is %d", r.Offset, r.Timestamp, h.MaxTimestamp)
		}
	}
	if n != h.Count {
		return n, fmt.Errorf("%d records, the header says %d", n, h.Count)
	}
	return n, nil
}
