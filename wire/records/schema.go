package records

import (
	"encoding/binary"
	"fmt"
	"math"
)

// at is the version that a struct is encoded in.
type at struct {
	version  int16
	flexible bool
}

// kind is how one type of field is encoded, decoded, and compared with a
// default.
type kind[V any] struct {
	put  func(dst []byte, v V, a at) []byte
	get  func(r *reader, a at) V
	same func(a, b V) bool
}

func same[V comparable](a, b V) bool { return a == b }

var (
	int8s = kind[int8]{
		put:  func(dst []byte, v int8, _ at) []byte { return append(dst, byte(v)) },
		get:  func(r *reader, _ at) int8 { return int8(r.uint8()) },
		same: same[int8],
	}
	int16s = kind[int16]{
		put:  func(dst []byte, v int16, _ at) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) },
		get:  func(r *reader, _ at) int16 { return int16(r.uint16()) },
		same: same[int16],
	}
	uint16s = kind[uint16]{
		put:  func(dst []byte, v uint16, _ at) []byte { return binary.BigEndian.AppendUint16(dst, v) },
		get:  func(r *reader, _ at) uint16 { return r.uint16() },
		same: same[uint16],
	}
	int32s = kind[int32]{
		put:  func(dst []byte, v int32, _ at) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) },
		get:  func(r *reader, _ at) int32 { return int32(r.uint32()) },
		same: same[int32],
	}
	int64s = kind[int64]{
		put:  func(dst []byte, v int64, _ at) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) },
		get:  func(r *reader, _ at) int64 { return int64(r.uint64()) },
		same: same[int64],
	}
	float64s = kind[float64]{
		put: func(dst []byte, v float64, _ at) []byte {
			return binary.BigEndian.AppendUint64(dst, math.Float64bits(v))
		},
		get:  func(r *reader, _ at) float64 { return math.Float64frombits(r.uint64()) },
		same: same[float64],
	}
	bools = kind[bool]{
		put: func(dst []byte, v bool, _ at) []byte {
			if v {
				return append(dst, 1)
			}
			return append(dst, 0)
		},
		get:  func(r *reader, _ at) bool { return r.uint8() != 0 },
		same: same[bool],
	}
	uuids = kind[[16]byte]{
		put: func(dst []byte, v [16]byte, _ at) []byte { return append(dst, v[:]...) },
		get: func(r *reader, _ at) (v [16]byte) {
			copy(v[:], r.take(16))
			return v
		},
		same: same[[16]byte],
	}
	texts = kind[string]{
		put: func(dst []byte, v string, a at) []byte {
			return append(appendLength(dst, len(v), true, a.flexible), v...)
		},
		get: func(r *reader, a at) string {
			n := r.length(true, a.flexible)
			if n < 0 {
				r.fail(ErrNull)
			}
			return string(r.take(max(n, 0)))
		},
		same: same[string],
	}
	nullableTexts = kind[*string]{
		put: func(dst []byte, v *string, a at) []byte {
			if v == nil {
				return appendLength(dst, -1, true, a.flexible)
			}
			return texts.put(dst, *v, a)
		},
		get: func(r *reader, a at) *string {
			n := r.length(true, a.flexible)
			if n < 0 {
				return nil
			}
			s := string(r.take(n))
			if r.err != nil {
				return nil
			}
			return &s
		},
		same: func(a, b *string) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b },
	}
	blobs = kind[[]byte]{
		put: func(dst []byte, v []byte, a at) []byte {
			return append(appendLength(dst, len(v), false, a.flexible), v...)
		},
		get: func(r *reader, a at) []byte {
			n := r.length(false, a.flexible)
			if n < 0 {
				r.fail(ErrNull)
			}
			return append([]byte(nil), r.take(max(n, 0))...)
		},
		same: func(a, b []byte) bool { return string(a) == string(b) },
	}
)

// listOf is an array of k that cannot be null; nil and empty are the same.
func listOf[V any](k kind[V]) kind[[]V] {
	return kind[[]V]{
		put: func(dst []byte, v []V, a at) []byte {
			dst = appendLength(dst, len(v), false, a.flexible)
			for i := range v {
				dst = k.put(dst, v[i], a)
			}
			return dst
		},
		get: func(r *reader, a at) []V {
			n := r.length(false, a.flexible)
			if n < 0 {
				r.fail(ErrNull)
			}
			if n <= 0 {
				return nil
			}
			return elements(r, n, k, a)
		},
		same: func(a, b []V) bool { return len(a) == 0 && len(b) == 0 },
	}
}

// nullableListOf is an array of k in which nil is null.
func nullableListOf[V any](k kind[V]) kind[[]V] {
	list := listOf(k)
	return kind[[]V]{
		put: func(dst []byte, v []V, a at) []byte {
			if v == nil {
				return appendLength(dst, -1, false, a.flexible)
			}
			return list.put(dst, v, a)
		},
		get: func(r *reader, a at) []V {
			n := r.length(false, a.flexible)
			if n < 0 || r.err != nil {
				return nil
			}
			return elements(r, n, k, a)
		},
		same: func(a, b []V) bool { return a == nil && b == nil },
	}
}

// elements reads n elements. An element has at least one byte, so more than
// there are bytes is refused at once; within that the slice grows only as
// elements are really read.
func elements[V any](r *reader, n int, k kind[V], a at) []V {
	if n > len(r.b) {
		r.fail(ErrShort)
		return nil
	}
	list := make([]V, 0, min(n, 32))
	for range n {
		v := k.get(r, a)
		if r.err != nil {
			return nil
		}
		list = append(list, v)
	}
	return list
}

const newest = math.MaxInt16

// field is one row of a record's schema, bound to its place in the struct T.
type field[T any] struct {
	name     string
	min, max int16
	tag      int32 // -1: not tagged

	put       func(dst []byte, t *T, a at) []byte
	get       func(r *reader, t *T, a at)
	reset     func(t *T)
	isDefault func(t *T) bool
}

// f is a field of kind k at place, in every version, with an optional default.
func f[T, V any](name string, k kind[V], place func(*T) *V, def ...V) field[T] {
	var d V
	if len(def) > 0 {
		d = def[0]
	}
	return field[T]{
		name: name, max: newest, tag: -1,
		put:       func(dst []byte, t *T, a at) []byte { return k.put(dst, *place(t), a) },
		get:       func(r *reader, t *T, a at) { *place(t) = k.get(r, a) },
		reset:     func(t *T) { *place(t) = d },
		isDefault: func(t *T) bool { return k.same(*place(t), d) },
	}
}

func (x field[T]) since(version int16) field[T] { x.min = version; return x }
func (x field[T]) until(version int16) field[T] { x.max = version; return x }
func (x field[T]) tagged(tag int32) field[T]    { x.tag = tag; return x }

func (x *field[T]) in(version int16) bool { return x.min <= version && version <= x.max }

// fields is the schema of a struct: of a whole record, or of an array element.
type fields[T any] []field[T]

func (s fields[T]) setDefaults(t *T) {
	for i := range s {
		s[i].reset(t)
	}
}

func (s fields[T]) appendTo(dst []byte, t *T, a at) []byte {
	tags := uint32(0)
	for i := range s {
		x := &s[i]
		switch {
		case !x.in(a.version):
		case x.tag < 0:
			dst = x.put(dst, t, a)
		case !x.isDefault(t):
			tags++
		}
	}
	if !a.flexible {
		return dst
	}
	dst = appendUvarint(dst, tags)
	for tag := int32(0); tags > 0; tag++ {
		for i := range s {
			x := &s[i]
			if x.tag != tag || !x.in(a.version) || x.isDefault(t) {
				continue
			}
			tags--
			dst = appendUvarint(dst, uint32(tag))
			dst = appendSized(dst, func(dst []byte) []byte { return x.put(dst, t, a) })
		}
	}
	return dst
}

// appendSized appends what put appends, preceded by its length.
func appendSized(dst []byte, put func([]byte) []byte) []byte {
	start := len(dst)
	dst = put(dst)
	size := len(dst) - start
	width := sizeUvarint(uint32(size))
	for range width {
		dst = append(dst, 0)
	}
	copy(dst[start+width:], dst[start:start+size])
	appendUvarint(dst[start:start], uint32(size))
	return dst
}

func (s fields[T]) read(r *reader, t *T, a at) {
	s.setDefaults(t)
	for i := range s {
		x := &s[i]
		if x.tag >= 0 || !x.in(a.version) {
			continue
		}
		x.get(r, t, a)
		if r.err != nil {
			r.err = fmt.Errorf("field %s: %w", x.name, r.err)
			return
		}
	}
	if !a.flexible {
		return
	}
	r.tags(func(tag uint32, sub *reader) bool {
		for i := range s {
			x := &s[i]
			if x.tag < 0 || uint32(x.tag) != tag || !x.in(a.version) {
				continue
			}
			x.get(sub, t, a)
			if sub.err != nil {
				sub.err = fmt.Errorf("field %s: %w", x.name, sub.err)
			}
			return true
		}
		return false
	})
}

// structs is the kind of an array element with its own fields.
func structs[T any](s fields[T]) kind[T] {
	return kind[T]{
		put: func(dst []byte, v T, a at) []byte { return s.appendTo(dst, &v, a) },
		get: func(r *reader, a at) (v T) {
			s.read(r, &v, a)
			return v
		},
	}
}

// never is the first flexible version of a record that has none.
const never = newest

// schema is a row of the table: one record, or one key.
type schema[T any] struct {
	name     string
	id       int16
	lowest   int16
	highest  int16
	flexible int16 // the first flexible version
	fields   fields[T]
}

// row is a schema without its type, as the encoders and decoders use it.
type row interface {
	describe() description
	appendTo(dst []byte, message any, version int16) []byte
	decode(r *reader, version int16) any
	defaults() any
}

type description struct {
	name            string
	id              int16
	lowest, highest int16
}

func (s *schema[T]) describe() description {
	return description{name: s.name, id: s.id, lowest: s.lowest, highest: s.highest}
}

func (s *schema[T]) at(version int16) at {
	return at{version: version, flexible: version >= s.flexible}
}

func (s *schema[T]) appendTo(dst []byte, message any, version int16) []byte {
	if version < s.lowest || version > s.highest {
		panic(fmt.Sprintf("records: %s has no version %d (%d to %d)", s.name, version, s.lowest, s.highest))
	}
	return s.fields.appendTo(dst, message.(*T), s.at(version))
}

func (s *schema[T]) decode(r *reader, version int16) any {
	t := new(T)
	if version < s.lowest || version > s.highest {
		r.fail(fmt.Errorf("%s version %d: %w", s.name, version, ErrVersion))
		return t
	}
	s.fields.read(r, t, s.at(version))
	if r.err != nil {
		r.err = fmt.Errorf("%s version %d: %w", s.name, version, r.err)
	}
	return t
}

func (s *schema[T]) defaults() any { return s.new() }

func (s *schema[T]) new() *T {
	t := new(T)
	s.fields.setDefaults(t)
	return t
}
