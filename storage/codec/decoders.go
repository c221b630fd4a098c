package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// Decoders are decompressors kept for reuse. The zero value is ready. One stream is read at a time: Open ends the one
// before.
type Decoders struct {
	plain  bytes.Reader
	gzip   gzipReader
	snappy snappyReader
	lz4    lz4Reader
	zstd   zstdReader
}

// Open begins to unpack src, which must not change until the reader has been read to its end. An error of the reader
// other than io.EOF says that src is no good; io.ErrUnexpectedEOF is a stream that ends early where Kafka's own reader
// takes that for the end of the records rather than for a broken stream.
func (d *Decoders) Open(kind Kind, src []byte) (io.Reader, error) {
	switch kind {
	case None:
		d.plain.Reset(src)
		return &d.plain, nil
	case Gzip:
		return &d.gzip, d.gzip.reset(src)
	case Snappy:
		return &d.snappy, d.snappy.reset(src)
	case LZ4:
		return &d.lz4, d.lz4.reset(src, false)
	case Zstd:
		return &d.zstd, d.zstd.reset(src)
	}
	return nil, &UnknownKindError{Kind: kind}
}

// OpenLegacyLZ4 is Open for the lz4 of message format 0, whose frame headers carry a checksum taken of the wrong bytes.
func (d *Decoders) OpenLegacyLZ4(src []byte) (io.Reader, error) {
	return &d.lz4, d.lz4.reset(src, true)
}

// NewReader unpacks src with decompressors of its own.
func NewReader(kind Kind, src []byte) (io.Reader, error) {
	return new(Decoders).Open(kind, src)
}

// ErrTooLong says that more came out than the caller allows.
var ErrTooLong = errors.New("decompressed data is over its limit")

// Decompress appends what src unpacks to, at most limit bytes of it, to dst.
func Decompress(kind Kind, dst, src []byte, limit int) ([]byte, error) {
	r, err := NewReader(kind, src)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	for {
		if cap(dst)-len(dst) < 512 {
			grown := make([]byte, len(dst), 2*cap(dst)+4096)
			copy(grown, dst)
			dst = grown
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if len(dst)-start > limit {
			return dst[:start+limit], ErrTooLong
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, fmt.Errorf("decompress %v: %w", kind, err)
		}
	}
}

// gzipReader reads the members of a gzip stream. As in Java, bytes after a member that begin no other are ignored.
type gzipReader struct {
	src bytes.Reader
	z   gzip.Reader
	end bool
}

func (g *gzipReader) reset(src []byte) error {
	g.src.Reset(src)
	g.end = false
	if err := g.z.Reset(&g.src); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("open gzip stream: %w", err)
	}
	g.z.Multistream(false)
	return nil
}

func (g *gzipReader) Read(p []byte) (int, error) {
	for !g.end {
		n, err := g.z.Read(p)
		if err != io.EOF {
			return n, err
		}
		if g.src.Len() == 0 || g.z.Reset(&g.src) != nil {
			g.end = true
		} else {
			g.z.Multistream(false)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, io.EOF
}
