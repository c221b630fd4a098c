package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

// The zstd frame format as far as its headers go (RFC 8878).
const (
	zstdMagic         = 0xfd2fb528
	zstdSkippable     = 0x184d2a50
	zstdSkippableMask = 0xfffffff0
	zstdBlockMost     = 128 << 10
	zstdWindowLeast   = 1 << 10
	// zstdWindowMost is what the clients' library accepts unless told otherwise.
	zstdWindowMost = 128 << 20
	// zstdWindowKept is the largest window whose memory is kept for the next stream.
	zstdWindowKept = 8 << 20
)

var errZstd = errors.New("corrupt zstd stream")

// zstdReader reads the frames of a zstd stream.
//
// A frame's header asks for a window, and decoders make it before the first byte is out: 128 MiB on the word of six
// bytes. So each frame is first stepped through by its block headers, which bound what can come out of it, and its
// header is rewritten to a window no larger than that.
type zstdReader struct {
	src   []byte // frames not yet begun
	frame zstdFrame
	big   bool // the decoder holds a large window
	dec   *zstd.Decoder
	begun bool
}

func (z *zstdReader) reset(src []byte) error {
	if z.big {
		z.dec, z.big = nil, false
	}
	if z.dec == nil {
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdWindowMost), zstd.WithDecodeBuffersBelow(0))
		if err != nil {
			return fmt.Errorf("make zstd decoder: %w", err)
		}
		z.dec = dec
	}
	z.src, z.begun = src, false
	return nil
}

func (z *zstdReader) Read(p []byte) (int, error) {
	for {
		if !z.begun {
			more, err := z.next()
			if err != nil {
				return 0, err
			}
			if !more {
				return 0, io.EOF
			}
		}
		n, err := z.dec.Read(p)
		if err == io.EOF {
			z.begun, err = false, nil
		}
		if n > 0 || err != nil {
			if err == io.ErrUnexpectedEOF {
				err = errZstd // a frame that is cut is a broken stream
			}
			return n, err
		}
	}
}

// next begins the next frame; false where there is none.
func (z *zstdReader) next() (bool, error) {
	for len(z.src) >= 8 && binary.LittleEndian.Uint32(z.src)&zstdSkippableMask == zstdSkippable {
		n := uint64(binary.LittleEndian.Uint32(z.src[4:])) + 8
		if n > uint64(len(z.src)) {
			return false, fmt.Errorf("%w: skippable frame is cut", errZstd)
		}
		z.src = z.src[n:]
	}
	if len(z.src) == 0 {
		return false, nil
	}
	size, window, err := z.frame.set(z.src)
	if err != nil {
		return false, err
	}
	z.src = z.src[size:]
	z.big = z.big || window > zstdWindowKept
	if err := z.dec.Reset(&z.frame); err != nil {
		return false, fmt.Errorf("begin zstd frame: %w", err)
	}
	z.begun = true
	return true, nil
}

// zstdFrame reads one frame, with its header rewritten.
type zstdFrame struct {
	head [18]byte
	rest []byte // of head, then
	body []byte
}

func (f *zstdFrame) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		f.rest, f.body = f.body, nil
	}
	if len(f.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// set steps through the frame at the start of src, and says how long it is and what window it will get.
func (f *zstdFrame) set(src []byte) (size int, window uint64, err error) {
	if len(src) < 6 || binary.LittleEndian.Uint32(src) != zstdMagic {
		return 0, 0, fmt.Errorf("%w: unknown frame descriptor", errZstd)
	}
	fhd := src[4]
	single := fhd&0x20 != 0
	at := 5
	if !single {
		d := src[at]
		base := uint64(1) << (10 + d>>3)
		window = base + base/8*uint64(d&7)
		at++
	}
	at += [4]int{0, 1, 2, 4}[fhd&3] // dictionary id
	sizeOfSize := [4]int{0, 2, 4, 8}[fhd>>6]
	if single && sizeOfSize == 0 {
		sizeOfSize = 1
	}
	if len(src) < at+sizeOfSize {
		return 0, 0, fmt.Errorf("%w: frame header is cut", errZstd)
	}
	content, known := uint64(0), sizeOfSize > 0
	for i := range sizeOfSize {
		content |= uint64(src[at+i]) << (8 * i)
	}
	if sizeOfSize == 2 {
		content += 256
	}
	head := at + sizeOfSize
	size, most, err := zstdBlocks(src, head)
	if err != nil {
		return 0, 0, err
	}
	if fhd&4 != 0 {
		if size += 4; size > len(src) {
			return 0, 0, fmt.Errorf("%w: frame is cut before its checksum", errZstd)
		}
	}
	if known && content > most {
		return 0, 0, fmt.Errorf("%w: frame announces %d bytes and holds at most %d", errZstd, content, most)
	}
	if single {
		window = content
	}
	if window > zstdWindowMost {
		return 0, 0, fmt.Errorf("%w: window of %d bytes", errZstd, window)
	}
	copy(f.head[:], src[:head])
	if !single && window > max(most, zstdWindowLeast) {
		// A power of two not below what can come out; offsets reach no further back than that. A block may be as large
		// as the window, so that never gets below a block.
		log := max(bits.Len64(max(most, 1)-1), 17)
		if low := uint64(1) << log; low < window {
			window = low
			f.head[5] = byte(log-10) << 3
		}
	}
	f.rest, f.body = f.head[:head], src[head:size]
	return size, window, nil
}

// zstdBlocks steps over a frame's blocks from at on: where they end, and the most they can unpack to.
func zstdBlocks(src []byte, at int) (end int, most uint64, err error) {
	for {
		if len(src)-at < 3 {
			return 0, 0, fmt.Errorf("%w: truncated source", errZstd)
		}
		h := int(src[at]) | int(src[at+1])<<8 | int(src[at+2])<<16
		at += 3
		n := h >> 3
		switch h >> 1 & 3 {
		case 0: // raw
			most += uint64(n)
		case 1: // one byte, repeated
			most += uint64(n)
			n = 1
		case 2:
			most += zstdBlockMost
		default:
			return 0, 0, fmt.Errorf("%w: reserved block type", errZstd)
		}
		if n > len(src)-at {
			return 0, 0, fmt.Errorf("%w: truncated source", errZstd)
		}
		at += n
		if h&1 != 0 {
			return at, most, nil
		}
	}
}
