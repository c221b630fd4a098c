package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
)

// The xerial framing of snappy: a 16 byte header, then blocks of int32 length and raw snappy.
const (
	xerialHeader    = "\x82SNAPPY\x00"
	xerialSize      = 16
	xerialVersion   = 1
	xerialBlockSize = 32 << 10
)

// A raw snappy block spends at least three bytes on each 64 it makes.
const snappyMaxRatio = 22

var (
	errSnappyEmpty = errors.New("cannot decompress empty snappy stream")
	errSnappyBlock = errors.New("corrupt snappy block")
)

type snappyReader struct {
	src   []byte // blocks not yet unpacked
	raw   bool   // src is one raw block
	block []byte // room of the last block
	out   []byte // what of the last block is not yet read
}

func (s *snappyReader) reset(src []byte) error {
	if cap(s.block) > 1<<20 {
		s.block = nil // a raw block can be as large as its batch; framed ones are not
	}
	s.src, s.raw, s.out = src, false, nil
	if len(src) == 0 {
		return errSnappyEmpty
	}
	if len(src) < xerialSize || string(src[:len(xerialHeader)]) != xerialHeader {
		s.raw = true
		return nil
	}
	return s.header()
}

// header steps over a stream header at src.
func (s *snappyReader) header() error {
	if v := int32(binary.BigEndian.Uint32(s.src[12:])); v < 0 {
		return fmt.Errorf("snappy stream is compatible with version %d", v)
	}
	if v := int32(binary.BigEndian.Uint32(s.src[8:])); v < xerialVersion {
		return fmt.Errorf("snappy stream of version %d, want %d or later", v, xerialVersion)
	}
	s.src = s.src[xerialSize:]
	return nil
}

func (s *snappyReader) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// next unpacks the next block.
func (s *snappyReader) next() error {
	if s.raw {
		if s.src == nil {
			return io.EOF
		}
		b := s.src
		s.src = nil
		return s.unpack(b)
	}
	// Less than a length is the end, as in snappy-java.
	for len(s.src) >= xerialSize && string(s.src[:len(xerialHeader)]) == xerialHeader {
		if err := s.header(); err != nil { // streams may be concatenated
			return err
		}
	}
	if len(s.src) < 4 {
		return io.EOF
	}
	n := int32(binary.BigEndian.Uint32(s.src))
	if n < 0 || int(n) > len(s.src)-4 {
		return fmt.Errorf("%w: %d bytes announced, %d left", errSnappyBlock, n, len(s.src)-4)
	}
	b := s.src[4 : 4+n]
	s.src = s.src[4+n:]
	return s.unpack(b)
}

func (s *snappyReader) unpack(b []byte) error {
	want, n := binary.Uvarint(b)
	if n <= 0 || n > 5 || want > uint64(snappyMaxRatio*len(b)) {
		return errSnappyBlock
	}
	if uint64(cap(s.block)) < want {
		s.block = make([]byte, max(want, xerialBlockSize))
	}
	if !plainSnappy(b[n:], int(want)) {
		return errSnappyBlock
	}
	out, err := snappy.Decode(s.block[:want], b)
	if err != nil {
		return fmt.Errorf("%w: %w", errSnappyBlock, err)
	}
	s.out = out
	return nil
}

// plainSnappy says that a block's elements are all of the kinds that snappy has and make n bytes. The library's decoder
// also takes the repeats of s2, a superset of snappy that Kafka's clients cannot read: a batch that holds them must not
// pass. Its assembly and this look beforehand are twice as fast as a decoder in plain Go.
func plainSnappy(src []byte, n int) bool {
	made := 0
	for s := 0; s < len(src); {
		tag := src[s]
		switch tag & 3 {
		case 0: // literal
			length := int(tag>>2) + 1
			s++
			if length > 60 {
				k := length - 60
				if len(src)-s < k {
					return false
				}
				u := uint32(0)
				for i := range k {
					u |= uint32(src[s+i]) << (8 * i)
				}
				if u >= 1<<31-1 {
					return false
				}
				length = int(u) + 1
				s += k
			}
			s += length
			made += length
		case 1:
			if s+1 >= len(src) || (tag>>5 == 0 && src[s+1] == 0) {
				return false // offset 0 is s2's repeat
			}
			made += int(tag>>2&7) + 4
			s += 2
		case 2:
			made += int(tag>>2) + 1
			s += 3
		case 3:
			made += int(tag>>2) + 1
			s += 5
		}
		if s > len(src) || made > n {
			return false
		}
	}
	return made == n
}
