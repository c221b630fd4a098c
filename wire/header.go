package wire

import (
	"encoding/binary"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	keyProduce            = 0
	keyFetch              = 1
	keyControlledShutdown = 7
	keyApiVersions        = 18
)

// minHeader is the shortest request header: key, version and correlation id of
// ControlledShutdown v0. A frame shorter than this has no request in it.
const minHeader = 8

// firstFlexible holds, by api key, the first version with tagged fields
// (KIP-482), or -1. A key that is not in the table (a private one) is never
// flexible.
var firstFlexible = func() []int16 {
	t := make([]int16, kmsg.MaxKey+1)
	for key := range t {
		t[key] = -1
		req := kmsg.RequestForKey(int16(key))
		if req == nil {
			continue
		}
		for v := int16(0); v <= req.MaxVersion(); v++ {
			req.SetVersion(v)
			if req.IsFlexible() {
				t[key] = v
				break
			}
		}
	}
	return t
}()

func flexible(key, version int16) bool {
	if key < 0 || int(key) >= len(firstFlexible) {
		return false
	}
	from := firstFlexible[key]
	return from >= 0 && version >= from
}

// flexibleResponse tells whether a response header carries tagged fields (v1).
// That of ApiVersions never does: a client that asks for a version the broker
// does not know must be able to read the answer (KIP-511).
func flexibleResponse(key, version int16) bool {
	return key != keyApiVersions && flexible(key, version)
}

// header is a parsed request header.
type header struct {
	key, version  int16
	correlationID int32
	// clientID is a slice of the frame; nil means null.
	clientID []byte
	own      int8 // the header's own version
	// size is the number of bytes the header took.
	size int
}

var (
	errShortHeader = errors.New("the request header is cut short")
	errBadTags     = errors.New("the tagged fields of the request header are malformed")
)

// parseHeader parses the request header at the start of a frame: v0 for
// ControlledShutdown v0, v2 for flexible versions, else v1.
func parseHeader(frame []byte) (header, error) {
	if len(frame) < minHeader {
		return header{}, errShortHeader
	}
	h := header{
		key:           int16(binary.BigEndian.Uint16(frame)),
		version:       int16(binary.BigEndian.Uint16(frame[2:])),
		correlationID: int32(binary.BigEndian.Uint32(frame[4:])),
		size:          minHeader,
	}
	if h.key == keyControlledShutdown && h.version == 0 {
		return h, nil
	}
	h.own = 1
	rest := frame[minHeader:]
	if len(rest) < 2 {
		return h, errShortHeader
	}
	n := int(int16(binary.BigEndian.Uint16(rest)))
	rest = rest[2:]
	switch { // any negative length is null, as in Kafka
	case n > len(rest):
		return h, errShortHeader
	case n >= 0:
		h.clientID = rest[:n:n]
		rest = rest[n:]
	}
	if flexible(h.key, h.version) {
		h.own = 2
		var err error
		if rest, err = skipTags(rest); err != nil {
			return h, err
		}
	}
	h.size = len(frame) - len(rest)
	return h, nil
}

// skipTags skips a section of tagged fields, in any order, as Kafka's header
// parser does. Every field takes at least two bytes, so a count that lies runs
// out of input soon.
func skipTags(b []byte) ([]byte, error) {
	count, b, err := uvarint(b)
	if err != nil {
		return nil, err
	}
	for ; count > 0; count-- {
		var size uint32
		if _, b, err = uvarint(b); err != nil {
			return nil, err
		}
		if size, b, err = uvarint(b); err != nil {
			return nil, err
		}
		if uint64(size) > uint64(len(b)) {
			return nil, errBadTags
		}
		b = b[size:]
	}
	return b, nil
}

// uvarint reads an unsigned 32-bit varint of at most five bytes.
func uvarint(b []byte) (uint32, []byte, error) {
	var v uint64
	for i := range min(len(b), 5) {
		v |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			if v > 1<<32-1 {
				return 0, nil, errBadTags
			}
			return uint32(v), b[i+1:], nil
		}
	}
	return 0, nil, errBadTags
}

// responseHeaderMax is the longest that appendResponseHeader appends.
const responseHeaderMax = 4 + 4 + 1

// appendResponseHeader appends frame length and response header for a body of
// n bytes.
func appendResponseHeader(dst []byte, correlationID int32, tags bool, n int) []byte {
	size := 4 + n
	if tags {
		size++
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(size))
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if tags {
		dst = append(dst, 0)
	}
	return dst
}
