package wire

import "encoding/binary"

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

// textLength reads the length of a string.
func (w *walker) textLength() int {
	if w.flexible {
		return w.length()
	}
	if len(w.b) < 2 {
		w.bad, w.b = true, nil
		return 0
	}
	n := int(int16(binary.BigEndian.Uint16(w.b)))
	w.b = w.b[2:]
	return n
}

// tags steps over a section of tagged fields and tells how many there are.
func (w *walker) tags() int {
	if len(w.b) > 0 && w.b[0] == 0 {
		w.b = w.b[1:]
		return 0
	}
	count, _, err := uvarint(w.b)
	if err == nil {
		w.b, err = skipTags(w.b)
	}
	if err != nil {
		w.bad, w.b = true, nil
		return 0
	}
	return int(count)
}
