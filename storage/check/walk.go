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

// reader reads the batches of a segment's file. What it returns is valid until it reads on.
type reader struct {
	path string
	file disk.File
	size int64
	buf  []byte
	at   int64 // position of buf[0]
	have int   // bytes in buf
}

func openReader(fsys disk.FS, path string) (*reader, error) {
	file, err := fsys.Open(path, 0)
	if err != nil {
		return nil, err
	}
	size, err := file.Size()
	if err != nil {
		file.Close()
		return nil, err
	}
	return &reader{path: path, file: file, size: size, buf: make([]byte, min(max(size, batch.HeaderSize), 1<<20))}, nil
}

func (r *reader) close() { r.file.Close() }

// fill makes n bytes at a position available and returns them.
func (r *reader) fill(pos int64, n int) ([]byte, error) {
	if pos >= r.at && pos+int64(n) <= r.at+int64(r.have) {
		return r.buf[pos-r.at:][:n], nil
	}
	if n > len(r.buf) {
		r.buf = make([]byte, n)
	}
	got, err := r.file.ReadAt(r.buf[:min(int64(len(r.buf)), r.size-pos)], pos)
	if r.at, r.have = pos, got; got < n {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read %s: %w", r.path, err)
	}
	return r.buf[:n], nil
}

// frame reads the batch at a position, with a wrong checksum as bad. The error is a *broken where none can be read.
func (r *reader) frame(pos int64) (fr frame, bad, err error) {
	left := r.size - pos
	if left < batch.HeaderSize {
		return frame{}, nil, &broken{pos, fmt.Sprintf("%d bytes are left, too few for a batch", left)}
	}
	b, err := r.fill(pos, batch.HeaderSize)
	if err != nil {
		return frame{}, nil, err
	}
	h, err := batch.ParseHeader(b)
	switch {
	case err != nil:
		return frame{}, nil, &broken{pos, err.Error()}
	case int64(h.Size()) > left:
		return frame{}, nil, &broken{pos, fmt.Sprintf("a batch of %d bytes, %d are left", h.Size(), left)}
	case h.LastOffsetDelta < 0 || h.BaseOffset < 0:
		return frame{}, nil, &broken{pos, fmt.Sprintf("a batch of offsets %d to %d", h.BaseOffset, h.LastOffset())}
	}
	fr = frame{pos: pos, h: h}
	if h.Size() <= mostHeld {
		if fr.bytes, err = r.fill(pos, h.Size()); err != nil {
			return frame{}, nil, err
		}
		return fr, batch.CheckCRC(fr.bytes), nil
	}
	sum := uint32(0)
	for p, end := pos+21, pos+int64(h.Size()); p < end; {
		piece, err := r.fill(p, int(min(1<<20, end-p)))
		if err != nil {
			return frame{}, nil, err
		}
		sum, p = crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), piece), p+int64(len(piece))
	}
	if sum != h.CRC {
		bad = &batch.CRCError{Stored: h.CRC, Computed: sum}
	}
	return fr, bad, nil
}

// walk calls f for each batch of a segment's file, with a wrong checksum as bad. It ends with a *broken where no batch can
// be read any more.
func walk(fsys disk.FS, path string, f func(fr frame, bad error) error) error {
	r, err := openReader(fsys, path)
	if err != nil {
		return err
	}
	defer r.close()
	for pos := int64(0); pos < r.size; {
		fr, bad, err := r.frame(pos)
		if err != nil {
			return err
		}
		if err := f(fr, bad); err != nil {
			return err
		}
		pos += int64(fr.h.Size())
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
