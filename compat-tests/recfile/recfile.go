// Package recfile reads and writes the record files by which the driver of the compatibility suite and the clients' agents
// exchange records: what an agent is to send, and what it read. PROTOCOL.md has the layout.
//
// It is not a Kafka format and knows nothing of batches or compression. It promises that a file written by Writer is read
// back by Reader byte for byte, and that a damaged file is an error and never a large allocation.
package recfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxField bounds one key, value or header: far above anything the suite sends, far below what could hurt.
const maxField = 64 << 20

// maxHeaders bounds the headers of one record.
const maxHeaders = 1 << 20

// Header is one header of a record. A nil Value is Kafka's null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record of a file. A nil Key or Value is null; an empty one is not nil.
type Record struct {
	Partition int32 // -1 in an input file: the client's own partitioner chooses
	Offset    int64 // only in output files
	Timestamp int64 // -1 in an input file: the client's own
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Append appends the record as it stands in an input file, or with the offset as in an output file.
func Append(dst []byte, r *Record, withOffset bool) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.Partition))
	if withOffset {
		dst = binary.BigEndian.AppendUint64(dst, uint64(r.Offset))
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Timestamp))
	return AppendContent(dst, r)
}

// AppendContent appends what of a record is the same in both kinds of file: key, value and headers.
func AppendContent(dst []byte, r *Record) []byte {
	dst = appendBytes(dst, r.Key)
	dst = appendBytes(dst, r.Value)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(r.Headers)))
	for _, h := range r.Headers {
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendBytes(dst, h.Value)
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.BigEndian.AppendUint32(dst, 0xffffffff)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(b)))
	return append(dst, b...)
}

// Writer writes records to a stream.
type Writer struct {
	w          *bufio.Writer
	withOffset bool
	buf        []byte
}

// NewWriter returns a writer of output records if withOffset is set, else of input records.
func NewWriter(w io.Writer, withOffset bool) *Writer {
	return &Writer{w: bufio.NewWriterSize(w, 1<<18), withOffset: withOffset}
}

// Write appends one record.
func (w *Writer) Write(r *Record) error {
	w.buf = Append(w.buf[:0], r, w.withOffset)
	_, err := w.w.Write(w.buf)
	return err
}

// Flush hands everything written to the underlying stream.
func (w *Writer) Flush() error { return w.w.Flush() }

// Reader reads records from a stream.
type Reader struct {
	r          *bufio.Reader
	withOffset bool
	n          int64
	fixed      [20]byte
}

// NewReader returns a reader of output records if withOffset is set, else of input records.
func NewReader(r io.Reader, withOffset bool) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 1<<18), withOffset: withOffset}
}

// Read returns the next record, whose bytes belong to the caller; io.EOF after the last one.
func (r *Reader) Read() (Record, error) {
	rec, err := r.read()
	if err != nil && err != io.EOF {
		return Record{}, fmt.Errorf("record %d of the file: %w", r.n, err)
	}
	r.n++
	return rec, err
}

func (r *Reader) read() (rec Record, err error) {
	size := 12
	if r.withOffset {
		size = 20
	}
	if _, err := io.ReadFull(r.r, r.fixed[:size]); err != nil {
		return rec, err // io.EOF only when not one byte was left
	}
	f := r.fixed[:size]
	rec.Partition = int32(binary.BigEndian.Uint32(f))
	f = f[4:]
	if r.withOffset {
		rec.Offset = int64(binary.BigEndian.Uint64(f))
		f = f[8:]
	}
	rec.Timestamp = int64(binary.BigEndian.Uint64(f))
	if rec.Key, err = r.bytes(); err != nil {
		return rec, fmt.Errorf("key: %w", inside(err))
	}
	if rec.Value, err = r.bytes(); err != nil {
		return rec, fmt.Errorf("value: %w", inside(err))
	}
	n, err := r.int32()
	if err != nil {
		return rec, fmt.Errorf("header count: %w", inside(err))
	}
	if n < 0 || n > maxHeaders {
		return rec, fmt.Errorf("header count %d", n)
	}
	for i := range n {
		key, err := r.bytes()
		if err != nil {
			return rec, fmt.Errorf("header %d: %w", i, inside(err))
		}
		if key == nil {
			return rec, fmt.Errorf("header %d has a null key", i)
		}
		value, err := r.bytes()
		if err != nil {
			return rec, fmt.Errorf("header %d: %w", i, inside(err))
		}
		rec.Headers = append(rec.Headers, Header{Key: string(key), Value: value})
	}
	return rec, nil
}

// inside turns the end of the file into an error: here a record has begun and is not over.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *Reader) int32() (int32, error) {
	if _, err := io.ReadFull(r.r, r.fixed[:4]); err != nil {
		return 0, err
	}
	return int32(binary.BigEndian.Uint32(r.fixed[:4])), nil
}

func (r *Reader) bytes() ([]byte, error) {
	n, err := r.int32()
	if err != nil {
		return nil, err
	}
	switch {
	case n == -1:
		return nil, nil
	case n < 0 || n > maxField:
		return nil, fmt.Errorf("length %d", n)
	case n <= 1<<16:
		b := make([]byte, n)
		_, err := io.ReadFull(r.r, b)
		return b, err
	}
	var buf bytes.Buffer // grows with the bytes that are there, not with the announced length
	if m, err := io.CopyN(&buf, r.r, int64(n)); err != nil {
		return nil, fmt.Errorf("%d of %d bytes: %w", m, n, err)
	}
	return buf.Bytes(), nil
}

// Span is where one record lies in a file held in memory.
type Span struct {
	Partition int32
	Timestamp int64
	Offset    int64
	Key       []byte // nil for a null key
	Content   []byte // key, value and headers as AppendContent writes them
}

// Next splits the first record off data without copying it. It is what comparing millions of records needs.
func Next(data []byte, withOffset bool) (s Span, rest []byte, err error) {
	size := 12
	if withOffset {
		size = 20
	}
	if len(data) < size {
		return s, nil, io.ErrUnexpectedEOF
	}
	s.Partition = int32(binary.BigEndian.Uint32(data))
	f := data[4:]
	if withOffset {
		s.Offset = int64(binary.BigEndian.Uint64(f))
		f = f[8:]
	}
	s.Timestamp = int64(binary.BigEndian.Uint64(f))
	content := data[size:]
	at := 0
	field := func() ([]byte, bool) {
		if len(content)-at < 4 {
			return nil, false
		}
		n := int32(binary.BigEndian.Uint32(content[at:]))
		at += 4
		if n == -1 {
			return nil, true
		}
		if n < 0 || len(content)-at < int(n) {
			return nil, false
		}
		b := content[at : at+int(n) : at+int(n)]
		at += int(n)
		return b, true
	}
	var ok bool
	if s.Key, ok = field(); !ok {
		return s, nil, io.ErrUnexpectedEOF
	}
	if _, ok = field(); !ok {
		return s, nil, io.ErrUnexpectedEOF
	}
	if len(content)-at < 4 {
		return s, nil, io.ErrUnexpectedEOF
	}
	n := int32(binary.BigEndian.Uint32(content[at:]))
	at += 4
	if n < 0 {
		return s, nil, fmt.Errorf("header count %d", n)
	}
	for range n {
		for range 2 {
			if _, ok = field(); !ok {
				return s, nil, io.ErrUnexpectedEOF
			}
		}
	}
	s.Content = content[:at]
	return s, content[at:], nil
}
