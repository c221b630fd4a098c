package wire

import "encoding/binary"

// produceEntrySize is about what one decoded topic or partition of a Produce
// takes.
const produceEntrySize = 64

// amplifies tells whether decoding a Produce would take much more than its
// length. A real one is mostly records, of which the decoder keeps slices; but
// 100 MiB can also announce fifty million nameless topics. The walk mirrors what
// a decoder allocates, also for a frame that turns out to be malformed.
func amplifies(frame []byte) bool {
	h, err := parseHeader(frame)
	if err != nil {
		return false
	}
	return produceEntries(frame[h.size:], h.version)*produceEntrySize > 2*len(frame)+4<<10
}

// produceEntries counts the topics and partitions that a decoder of a Produce
// body makes room for.
func produceEntries(body []byte, version int16) int {
	w := walker{b: body, flexible: flexible(keyProduce, version)}
	if version >= 3 {
		w.string()
	}
	w.skip(2 + 4)
	topics := w.length()
	if w.bad || topics*2 > len(w.b) {
		return 0
	}
	total := max(topics, 0)
	for range topics {
		if version >= 13 {
			w.skip(16)
		} else {
			w.string()
		}
		partitions := w.length()
		if w.bad || partitions*6 > len(w.b) {
			break
		}
		total += max(partitions, 0)
		for range partitions {
			w.skip(4)
			w.skip(w.length())
			w.tags()
		}
		w.tags()
		if w.bad {
			break
		}
	}
	return total
}

// walker steps over the fields of a body. Once it has run out of input it stays
// bad and yields zeros.
type walker struct {
	b        []byte
	flexible bool
	bad      bool
}

// skip steps over n bytes; a negative n is a null.
func (w *walker) skip(n int) {
	switch {
	case n <= 0:
	case n > len(w.b):
		w.bad, w.b = true, nil
	default:
		w.b = w.b[n:]
	}
}

// length reads the length of an array or of bytes; negative for null.
func (w *walker) length() int {
	if w.flexible {
		v, rest, err := uvarint(w.b)
		if err != nil {
			w.bad, w.b = true, nil
			return 0
		}
		w.b = rest
		return int(v) - 1
	}
	if len(w.b) < 4 {
		w.bad, w.b = true, nil
		return 0
	}
	n := int(int32(binary.BigEndian.Uint32(w.b)))
	w.b = w.b[4:]
	return n
}

func (w *walker) string() {
	if w.flexible {
		w.skip(w.length())
		return
	}
	if len(w.b) < 2 {
		w.bad, w.b = true, nil
		return
	}
	n := int(int16(binary.BigEndian.Uint16(w.b)))
	w.b = w.b[2:]
	w.skip(n)
}

func (w *walker) tags() {
	if !w.flexible || w.bad {
		return
	}
	rest, err := skipTags(w.b)
	if err != nil {
		w.bad, w.b = true, nil
		return
	}
	w.b = rest
}
