package log

import (
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"millrace/storage/batch"
	"millrace/storage/disk"
)

// CorruptError says that what stands at a position of a segment is no whole, readable batch.
type CorruptError struct {
	File     string // the segment's; "" where whoever asked knows it
	Position int64
	Why      string
	Err      error // may be nil
}

func (e *CorruptError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("no batch at position %d: %s: %v", e.Position, e.Why, e.Err)
	}
	return fmt.Sprintf("no batch at position %d: %s", e.Position, e.Why)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// scanner walks the batches of a segment's file. What it returns is valid until its next step.
type scanner struct {
	f     disk.File
	pos   int64 // of the next batch
	limit int64 // where the segment's bytes end
	buf   []byte
	at    int64 // position of buf[0]
	n     int   // bytes in buf
	read  int64 // bytes read from the file, for reports
}

// smallScan is enough for the headers between two index entries; wholeScan is for reading all of a segment.
const (
	smallScan = 8 << 10
	wholeScan = 256 << 10
)

var smallBuffers = sync.Pool{New: func() any { b := make([]byte, smallScan); return &b }}

// fill makes n bytes at pos available and returns them; n may not go past limit.
func (s *scanner) fill(pos int64, n int) ([]byte, error) {
	if pos >= s.at && pos+int64(n) <= s.at+int64(s.n) {
		return s.buf[pos-s.at:][:n], nil
	}
	// What is at hand already is not read again.
	held := s.held(pos)
	if n > len(s.buf) {
		s.buf = make([]byte, n)
	}
	have := copy(s.buf, held)
	want := int(min(int64(len(s.buf)), s.limit-pos))
	got, err := s.f.ReadAt(s.buf[have:want], pos+int64(have))
	s.at, s.n = pos, have+got
	s.read += int64(got)
	if s.n < n {
		if err == nil || err == io.EOF {
			// The file is shorter than it was said to be.
			return nil, &CorruptError{Position: pos, Why: "the segment ends", Err: io.ErrUnexpectedEOF}
		}
		return nil, fmt.Errorf("read segment: %w", err)
	}
	return s.buf[:n], nil
}

// held is the bytes at hand from a position on.
func (s *scanner) held(pos int64) []byte {
	if pos < s.at || pos >= s.at+int64(s.n) {
		return nil
	}
	return s.buf[pos-s.at : s.n]
}

// header reads the header of the next batch without stepping over it; io.EOF at the end. A *CorruptError says that no
// batch stands there; any other error is the disk's.
func (s *scanner) header() (batch.Header, error) {
	left := s.limit - s.pos
	if left == 0 {
		return batch.Header{}, io.EOF
	}
	if left < batch.HeaderSize {
		return batch.Header{}, &CorruptError{Position: s.pos, Why: fmt.Sprintf("%d bytes are left", left)}
	}
	b, err := s.fill(s.pos, batch.HeaderSize)
	if err != nil {
		return batch.Header{}, err
	}
	h, err := batch.ParseHeader(b)
	if err != nil {
		return batch.Header{}, &CorruptError{Position: s.pos, Why: "header", Err: err}
	}
	if int64(h.Size()) > left {
		return h, &CorruptError{Position: s.pos, Why: fmt.Sprintf("batch of %d bytes, %d are left", h.Size(), left)}
	}
	if h.LastOffsetDelta < 0 || h.BaseOffset < 0 {
		return h, &CorruptError{Position: s.pos, Why: fmt.Sprintf("offsets %d to %d", h.BaseOffset, h.LastOffset())}
	}
	return h, nil
}

// checksum compares the checksum of the batch whose header was just read. It reads a long batch piece by piece: the
// length may be what is wrong.
func (s *scanner) checksum(h batch.Header) error {
	if h.Size() <= len(s.buf) {
		b, err := s.body(h)
		if err != nil {
			return err
		}
		return batch.CheckCRC(b)
	}
	sum := uint32(0)
	for at, end := s.pos+atAttributes, s.pos+int64(h.Size()); at < end; {
		b := s.held(at)
		if len(b) == 0 {
			var err error
			if b, err = s.fill(at, int(min(int64(len(s.buf)), end-at))); err != nil {
				return err
			}
		}
		b = b[:min(int64(len(b)), end-at)]
		sum = crc32.Update(sum, castagnoli, b)
		at += int64(len(b))
	}
	if sum != h.CRC {
		return &batch.CRCError{Stored: h.CRC, Computed: sum}
	}
	return nil
}

// atAttributes is where a batch's checksum begins to count.
const atAttributes = 21

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// body reads the whole of the batch whose header was just read.
func (s *scanner) body(h batch.Header) ([]byte, error) { return s.fill(s.pos, h.Size()) }

// step goes past a batch.
func (s *scanner) step(h batch.Header) { s.pos += int64(h.Size()) }
