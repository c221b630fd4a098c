package codec

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Kafka's default levels, and what stands for them.
const (
	DefaultLevel = 0
	gzipDefault  = -1
	lz4Default   = 9
	zstdDefault  = 3
)

// zstdWriteWindow suits batches, which are seldom larger.
const zstdWriteWindow = 1 << 20

// Encoders are compressors kept for reuse. The zero value is ready. One stream is written at a time: Open ends the one
// before, whether it was closed or not.
type Encoders struct {
	plain     plainWriter
	gzip      *gzip.Writer
	gzipLevel int
	zstd      *zstd.Encoder
	zstdLevel int
	snappy    blockWriter
	lz4       blockWriter
	lz4Fast   *lz4.Compressor // large, and made when first used
	lz4High   *lz4.CompressorHC
}

// Open begins a stream into dst; Close of what it returns ends the stream and leaves dst open. level is the topic's
// compression.gzip.level and its kin; DefaultLevel is Kafka's default.
func (e *Encoders) Open(kind Kind, level int, dst io.Writer) (io.WriteCloser, error) {
	switch kind {
	case None:
		e.plain.w = dst
		return &e.plain, nil
	case Gzip:
		if level == DefaultLevel {
			level = gzipDefault
		}
		if e.gzip == nil || e.gzipLevel != level {
			w, err := gzip.NewWriterLevel(dst, level)
			if err != nil {
				return nil, fmt.Errorf("make gzip writer: %w", err)
			}
			e.gzip, e.gzipLevel = w, level
		} else {
			e.gzip.Reset(dst)
		}
		return e.gzip, nil
	case Snappy:
		header := make([]byte, xerialSize)
		copy(header, xerialHeader)
		binary.BigEndian.PutUint32(header[8:], xerialVersion)
		binary.BigEndian.PutUint32(header[12:], xerialVersion)
		e.snappy.open(dst, header, xerialBlockSize, packSnappy, nil)
		return &e.snappy, nil
	case LZ4:
		header := []byte{0x04, 0x22, 0x4d, 0x18, lz4Version | lz4Independent, lz4Block64K << 4, 0}
		header[6] = byte(xxh32(header[4:6]) >> 8)
		pack := e.packLZ4Fast
		if level != DefaultLevel && level != lz4Default {
			// The library's levels are powers of two of search depth from 512 on.
			if e.lz4High == nil {
				e.lz4High = new(lz4.CompressorHC)
			}
			e.lz4High.Level = lz4.CompressionLevel(1 << (8 + min(max(level, 1), 9)))
			pack = e.packLZ4High
		}
		e.lz4.open(dst, header, lz4WriteBlockSize, pack, make([]byte, 4))
		return &e.lz4, nil
	case Zstd:
		if level == DefaultLevel {
			level = zstdDefault
		}
		if e.zstd == nil || e.zstdLevel != level {
			w, err := zstd.NewWriter(dst, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
				zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)), zstd.WithWindowSize(zstdWriteWindow), zstd.WithEncoderCRC(false))
			if err != nil {
				return nil, fmt.Errorf("make zstd writer: %w", err)
			}
			e.zstd, e.zstdLevel = w, level
		} else {
			e.zstd.Reset(dst)
		}
		return e.zstd, nil
	}
	return nil, &UnknownKindError{Kind: kind}
}

// Compress appends src, packed, to dst.
func Compress(kind Kind, dst, src []byte, level int) ([]byte, error) {
	out := tail{b: dst}
	w, err := new(Encoders).Open(kind, level, &out)
	if err != nil {
		return dst, err
	}
	if _, err := w.Write(src); err != nil {
		return dst, fmt.Errorf("compress %v: %w", kind, err)
	}
	if err := w.Close(); err != nil {
		return dst, fmt.Errorf("compress %v: %w", kind, err)
	}
	return out.b, nil
}

type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	return len(p), nil
}

type plainWriter struct{ w io.Writer }

func (p *plainWriter) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p *plainWriter) Close() error                { return nil }

// blockWriter cuts a stream into blocks of one size, each packed by itself.
type blockWriter struct {
	w      io.Writer
	header []byte // written before the first byte
	foot   []byte // written at Close
	size   int
	in     []byte
	out    []byte
	pack   func(dst, block []byte) ([]byte, error) // appends length and packed block
}

func (b *blockWriter) open(w io.Writer, header []byte, size int, pack func(dst, block []byte) ([]byte, error), foot []byte) {
	b.w, b.header, b.foot, b.size, b.pack = w, header, foot, size, pack
	if cap(b.in) < size {
		b.in = make([]byte, 0, size)
	}
	b.in = b.in[:0]
}

func (b *blockWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		m := min(len(p), b.size-len(b.in))
		b.in = append(b.in, p[:m]...)
		p = p[m:]
		if len(b.in) == b.size {
			if err := b.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (b *blockWriter) flush() error {
	b.out = append(b.out[:0], b.header...)
	b.header = nil
	if len(b.in) > 0 {
		out, err := b.pack(b.out, b.in)
		if err != nil {
			return err
		}
		b.out, b.in = out, b.in[:0]
	}
	_, err := b.w.Write(b.out)
	return err
}

func (b *blockWriter) Close() error {
	if err := b.flush(); err != nil {
		return err
	}
	if len(b.foot) == 0 {
		return nil
	}
	_, err := b.w.Write(b.foot)
	return err
}

func packSnappy(dst, block []byte) ([]byte, error) {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	need := snappy.MaxEncodedLen(len(block))
	dst = slices.Grow(dst, need)
	out := snappy.Encode(dst[len(dst):len(dst)+need], block)
	binary.BigEndian.PutUint32(dst[at:], uint32(len(out)))
	return dst[:len(dst)+len(out)], nil
}

func (e *Encoders) packLZ4Fast(dst, block []byte) ([]byte, error) {
	if e.lz4Fast == nil {
		e.lz4Fast = new(lz4.Compressor)
	}
	return packLZ4(dst, block, e.lz4Fast.CompressBlock)
}

func (e *Encoders) packLZ4High(dst, block []byte) ([]byte, error) {
	return packLZ4(dst, block, e.lz4High.CompressBlock)
}

func packLZ4(dst, block []byte, pack func(block, room []byte) (int, error)) ([]byte, error) {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	need := lz4.CompressBlockBound(len(block))
	dst = slices.Grow(dst, need)
	n, err := pack(block, dst[len(dst):len(dst)+need])
	if err != nil {
		return nil, fmt.Errorf("compress lz4 block: %w", err)
	}
	if n == 0 || n >= len(block) {
		binary.LittleEndian.PutUint32(dst[at:], uint32(len(block))|lz4RawBlock)
		return append(dst, block...), nil
	}
	binary.LittleEndian.PutUint32(dst[at:], uint32(n))
	return dst[:len(dst)+n], nil
}
