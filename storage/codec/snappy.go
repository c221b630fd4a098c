package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	out := s.block[:want]
	if !unsnap(out, b[n:]) {
		return errSnappyBlock
	}
	s.out = out
	return nil
}

// unsnap unpacks the elements of a raw block into dst, which they must fill exactly. It is stricter than decoders that
// also read the s2 format: a batch it passes has to be readable by every client.
func unsnap(dst, src []byte) bool {
	d, s := 0, 0
	for s < len(src) {
		tag := src[s]
		s++
		var length, offset int
		switch tag & 3 {
		case 0: // literal
			length = int(tag>>2) + 1
			if length > 60 {
				n := length - 60
				if len(src)-s < n {
					return false
				}
				u := uint32(0)
				for i := range n {
					u |= uint32(src[s+i]) << (8 * i)
				}
				if u >= 1<<31-1 {
					return false
				}
				length = int(u) + 1
				s += n
			}
			if length > len(src)-s || length > len(dst)-d {
				return false
			}
			copy(dst[d:], src[s:s+length])
			d += length
			s += length
			continue
		case 1:
			if len(src)-s < 1 {
				return false
			}
			length, offset = int(tag>>2&7)+4, int(tag>>5)<<8|int(src[s])
			s++
		case 2:
			if len(src)-s < 2 {
				return false
			}
			length, offset = int(tag>>2)+1, int(binary.LittleEndian.Uint16(src[s:]))
			s += 2
		case 3:
			if len(src)-s < 4 {
				return false
			}
			length, offset = int(tag>>2)+1, int(binary.LittleEndian.Uint32(src[s:]))
			s += 4
		}
		if offset <= 0 || offset > d || length > len(dst)-d {
			return false
		}
		if offset >= length {
			copy(dst[d:d+length], dst[d-offset:])
			d += length
			continue
		}
		// Source and destination overlap: the copy repeats what it has just written.
		for end := d + length; d < end; {
			d += copy(dst[d:end], dst[d-offset:d])
		}
	}
	return d == len(dst)
}
