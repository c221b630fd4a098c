package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/pierrec/lz4/v4"
)

// The lz4 frame format as far as Kafka's clients use it: independent blocks of 64 KiB to 4 MiB.
const (
	lz4Magic          = 0x184d2204
	lz4Version        = 1 << 6
	lz4VersionMask    = 3 << 6
	lz4Independent    = 1 << 5
	lz4BlockChecksum  = 1 << 4
	lz4ContentSize    = 1 << 3
	lz4ContentSum     = 1 << 2
	lz4FlagReserved   = 1<<1 | 1<<0 // the second is the dictionary id's, which Kafka takes for reserved too
	lz4RawBlock       = 1 << 31
	lz4Block64K       = 4
	lz4BlockMost      = 7
	lz4WriteBlockSize = 64 << 10
	// One byte of a block makes at most 255.
	lz4MaxRatio = 255
)

var (
	errLZ4Short  = errors.New("lz4 stream ended prematurely")
	errLZ4Frame  = errors.New("lz4 stream is not a frame that is supported")
	errLZ4Header = errors.New("lz4 stream frame descriptor corrupted")
	errLZ4Block  = errors.New("lz4 block checksum mismatch, data corrupted")
)

// lz4Reader reads one frame. As in Kafka, what follows its end mark is ignored and the checksum of the whole content is
// not looked at.
type lz4Reader struct {
	src      []byte
	flags    byte
	maxBlock int
	block    []byte // room of the last block
	out      []byte // what of the last block is not yet read
	end      bool
}

func (l *lz4Reader) reset(src []byte, anyHeaderSum bool) error {
	if cap(l.block) > 1<<20 {
		l.block = nil
	}
	l.out, l.end = nil, false
	if len(src) < 6 {
		return errLZ4Short
	}
	if binary.LittleEndian.Uint32(src) != lz4Magic {
		return errLZ4Frame
	}
	l.flags = src[4]
	if l.flags&lz4FlagReserved != 0 || l.flags&lz4VersionMask != lz4Version || l.flags&lz4Independent == 0 {
		return fmt.Errorf("%w: flags %#x", errLZ4Frame, l.flags)
	}
	bd := src[5]
	size := int(bd >> 4 & 7)
	if bd&0x8f != 0 || size < lz4Block64K || size > lz4BlockMost {
		return fmt.Errorf("%w: block descriptor %#x", errLZ4Frame, bd)
	}
	l.maxBlock = 1 << (2*size + 8)
	head := 6
	if l.flags&lz4ContentSize != 0 {
		head += 8
	}
	if len(src) < head+1 {
		return errLZ4Short
	}
	if !anyHeaderSum && src[head] != byte(xxh32(src[4:head])>>8) {
		return errLZ4Header
	}
	l.src = src[head+1:]
	return nil
}

func (l *lz4Reader) Read(p []byte) (int, error) {
	for len(l.out) == 0 {
		if l.end {
			return 0, io.EOF
		}
		if err := l.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.out)
	l.out = l.out[n:]
	return n, nil
}

// next unpacks the next block.
func (l *lz4Reader) next() error {
	if len(l.src) < 4 {
		return errLZ4Short
	}
	size := binary.LittleEndian.Uint32(l.src)
	raw := size&lz4RawBlock != 0
	n := int(size &^ lz4RawBlock)
	l.src = l.src[4:]
	if n == 0 {
		l.end = true
		if l.flags&lz4ContentSum != 0 && len(l.src) < 4 {
			return errLZ4Short
		}
		return nil
	}
	if n > l.maxBlock {
		return fmt.Errorf("lz4 block size %d exceeded max: %d", n, l.maxBlock)
	}
	if n > len(l.src) {
		return errLZ4Short
	}
	b := l.src[:n]
	l.src = l.src[n:]
	if l.flags&lz4BlockChecksum != 0 {
		if len(l.src) < 4 {
			return errLZ4Short
		}
		if binary.LittleEndian.Uint32(l.src) != xxh32(b) {
			return errLZ4Block
		}
		l.src = l.src[4:]
	}
	if raw {
		l.out = b
		return nil
	}
	// What the header allows is not what the block can hold.
	room := min(l.maxBlock, lz4MaxRatio*n+64)
	if cap(l.block) < room {
		l.block = make([]byte, max(room, min(l.maxBlock, lz4WriteBlockSize)))
	}
	m, err := lz4.UncompressBlock(b, l.block[:min(cap(l.block), l.maxBlock)])
	if err != nil {
		return fmt.Errorf("decompress lz4 block: %w", err)
	}
	l.out = l.block[:m]
	return nil
}

// xxh32 is the 32 bit xxHash with seed 0, which lz4 frames use for every checksum.
func xxh32(b []byte) uint32 {
	const (
		p1 = 2654435761
		p2 = 2246822519
		p3 = 3266489917
		p4 = 668265263
		p5 = 374761393
	)
	n := uint32(len(b))
	h := uint32(p5)
	if len(b) >= 16 {
		round := func(v uint32, b []byte) uint32 {
			return bits.RotateLeft32(v+binary.LittleEndian.Uint32(b)*p2, 13) * p1
		}
		v1, v2, v3, v4 := uint32(p1), uint32(p2), uint32(0), uint32(0)
		v1 += p2
		v4 -= p1
		for ; len(b) >= 16; b = b[16:] {
			v1, v2, v3, v4 = round(v1, b), round(v2, b[4:]), round(v3, b[8:]), round(v4, b[12:])
		}
		h = bits.RotateLeft32(v1, 1) + bits.RotateLeft32(v2, 7) + bits.RotateLeft32(v3, 12) + bits.RotateLeft32(v4, 18)
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*p3, 17) * p4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*p5, 11) * p1
	}
	h ^= h >> 15
	h *= p2
	h ^= h >> 13
	h *= p3
	return h ^ h>>16
}

// SpoilLZ4Header gives a frame the header checksum that message format 0 has: it was taken of the magic number too. Clients
// of that time refuse the right one.
func SpoilLZ4Header(frame []byte) {
	head := 6
	if frame[4]&lz4ContentSize != 0 {
		head += 8
	}
	frame[head] = byte(xxh32(frame[:head]) >> 8)
}
