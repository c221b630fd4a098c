package wire

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A layout is what the body of a request looks like in one version: enough to
// walk it before it is decoded, which tells what decoding would take and whether
// Kafka's own parser would refuse it. kmsg is more lenient than that parser, and
// makes room for as many array entries as a count says, if only as many bytes
// follow.
//
// Nobody wrote the layouts down: they are found by watching kmsg's encoder. What
// is encoded of a request in which every field is set, and of one in which one
// field differs, first differs where that field stands.
type layout struct {
	fields []fieldLayout
	tags   bool // a section of tagged fields follows
	least  int  // bytes that every value takes
}

type fieldKind uint8

const (
	fixed    fieldKind = iota // size bytes
	text                      // a string
	blob                      // bytes
	list                      // an array of element
	optional                  // a struct that may be null, behind a byte that says so
)

type fieldLayout struct {
	kind     fieldKind
	nullable bool
	size     int
	element  *layout
	memory   int // what an entry of a list takes when it is decoded
}

// maxLayoutVersion is above every version of every request.
const maxLayoutVersion = 32

var layouts [kmsg.MaxKey + 1][maxLayoutVersion]atomic.Pointer[layout]

// layoutOf returns the layout of a request, nil if kmsg does not know it.
func layoutOf(key, version int16) *layout {
	if key < 0 || int(key) >= len(layouts) || version < 0 || version >= maxLayoutVersion {
		return nil
	}
	at := &layouts[key][version]
	l := at.Load()
	if l == nil {
		l = findLayout(key, version)
		at.Store(l)
	}
	return l
}

func findLayout(key, version int16) *layout {
	req := kmsg.RequestForKey(key)
	if req == nil || version > req.MaxVersion() {
		return nil
	}
	req.SetVersion(version)
	v := reflect.ValueOf(req).Elem()
	setAll(v)
	o := encoderWatch{req: req, flexible: req.IsFlexible(), base: req.AppendTo(nil)}
	l, end, _ := o.structure(v, 0, true)
	if end != len(o.base) {
		panic(fmt.Sprintf("wire: of %s v%d, which takes %d bytes, only %d were accounted for", kmsg.NameForKey(key), version, len(o.base), end))
	}
	return l
}

// setAll gives every field a value that is no default.
func setAll(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(3)
	case reflect.Float64:
		v.SetFloat(3)
	case reflect.String:
		v.SetString("x")
	case reflect.Array:
		for i := range v.Len() {
			setAll(v.Index(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		setAll(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setAll(v.Elem())
	case reflect.Struct:
		if v.Type() != tagsType {
			for i := range v.NumField() {
				if !isVersion(v, i) {
					setAll(v.Field(i))
				}
			}
		}
	}
}

var tagsType = reflect.TypeFor[kmsg.Tags]()

// isVersion tells the field of a request that holds its version.
func isVersion(v reflect.Value, i int) bool {
	return i == 0 && v.Type().Field(0).Name == "Version" && reflect.PointerTo(v.Type()).Implements(requestType)
}

var requestType = reflect.TypeFor[kmsg.Request]()

// encoderWatch watches a request being encoded.
type encoderWatch struct {
	req      kmsg.Request
	flexible bool
	base     []byte
}

// differs encodes the request and tells where that first differs from the
// original, and by how many bytes it is longer; at is -1 if it does not differ.
func (o *encoderWatch) differs() (at, longer int) {
	b := o.req.AppendTo(nil)
	for i := range max(len(b), len(o.base)) {
		if i >= len(b) || i >= len(o.base) || b[i] != o.base[i] {
			return i, len(b) - len(o.base)
		}
	}
	return -1, 0
}

// structure finds the layout of a struct that stands at pos, and where it ends.
// present tells whether it is there in this version at all, and not as a tagged
// field, unless that is certain. Tagged fields are not laid out: an entry of a
// section of tags says how long it is.
func (o *encoderWatch) structure(v reflect.Value, pos int, certain bool) (l *layout, end int, present bool) {
	l, end = new(layout), pos
	for i := range v.NumField() {
		if v.Type().Field(i).Type == tagsType || certain && isVersion(v, i) {
			continue
		}
		f, next, ok := o.field(v.Field(i), end)
		if !ok {
			continue
		}
		present, end = true, next
		if n := len(l.fields); n > 0 && f.kind == fixed && l.fields[n-1].kind == fixed {
			l.fields[n-1].size += f.size
		} else {
			l.fields = append(l.fields, f)
		}
	}
	if o.flexible && (certain || present) {
		rest, err := skipTags(o.base[end:])
		if err != nil {
			panic("wire: where tagged fields were expected there are none")
		}
		l.tags, end = true, len(o.base)-len(rest)
	}
	for i := range l.fields {
		l.least += o.least(&l.fields[i])
	}
	if l.tags {
		l.least++
	}
	return l, end, present || certain
}

func (o *encoderWatch) least(f *fieldLayout) int {
	switch {
	case f.kind == fixed:
		return f.size
	case f.kind == optional && f.nullable:
		return 1
	case f.kind == optional:
		return f.element.least
	}
	return o.countSize(f.kind)
}

// countSize is how many bytes say the length of a short value.
func (o *encoderWatch) countSize(k fieldKind) int {
	switch {
	case o.flexible:
		return 1
	case k == text:
		return 2
	}
	return 4
}

// field finds the layout of a field that stands at pos if it is there.
func (o *encoderWatch) field(v reflect.Value, pos int) (f fieldLayout, end int, present bool) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(false)
		defer v.SetBool(true)
		return o.fixed(1, pos)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(^3)
		defer v.SetInt(3)
		return o.fixed(int(v.Type().Size()), pos)
	case reflect.Uint16, reflect.Uint32:
		v.SetUint(math.MaxUint16<<16>>(32-8*v.Type().Size()) ^ 3)
		defer v.SetUint(3)
		return o.fixed(int(v.Type().Size()), pos)
	case reflect.Float64:
		v.SetFloat(-3)
		defer v.SetFloat(3)
		return o.fixed(8, pos)
	case reflect.Array:
		v.Index(0).SetUint(4)
		defer v.Index(0).SetUint(3)
		return o.fixed(v.Len(), pos)
	case reflect.String:
		v.SetString("xy")
		defer v.SetString("x")
		return o.counted(fieldLayout{kind: text}, pos)
	case reflect.Slice:
		return o.slice(v, pos)
	case reflect.Pointer:
		if v.Elem().Kind() == reflect.String {
			f, end, present = o.field(v.Elem(), pos)
			if present {
				f.nullable = o.nullable(v, reflect.New(v.Type().Elem()))
			}
			return f, end, present
		}
		return o.pointer(v, pos)
	case reflect.Struct:
		l, end, present := o.structure(v, pos, false)
		return fieldLayout{kind: optional, element: l}, end, present
	}
	panic("wire: requests have no fields of type " + v.Type().String())
}

// fixed judges a field of n bytes, all of which, or the first, were changed.
func (o *encoderWatch) fixed(n, pos int) (fieldLayout, int, bool) {
	at, longer := o.differs()
	return fieldLayout{kind: fixed, size: n}, pos + n, at == pos && longer == 0
}

// counted judges a field whose length was changed from one to two.
func (o *encoderWatch) counted(f fieldLayout, pos int) (fieldLayout, int, bool) {
	n := o.countSize(f.kind)
	at, _ := o.differs()
	return f, pos + n + 1, at == pos+n-1
}

// nullable tells whether nil is encoded otherwise than an empty value.
func (o *encoderWatch) nullable(v, empty reflect.Value) bool {
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	defer v.Set(old)
	v.SetZero()
	none := string(o.req.AppendTo(nil))
	v.Set(empty)
	return string(o.req.AppendTo(nil)) != none
}

func (o *encoderWatch) slice(v reflect.Value, pos int) (f fieldLayout, end int, present bool) {
	f.kind = list
	if v.Type().Elem().Kind() == reflect.Uint8 {
		f.kind = blob
	}
	one := v.Slice(0, 1)
	v.Set(reflect.AppendSlice(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, 2), one), one))
	f, end, present = o.counted(f, pos)
	v.Set(one)
	if !present {
		return f, end, false
	}
	f.nullable = o.nullable(v, reflect.MakeSlice(v.Type(), 0, 0))
	if f.kind == blob {
		return f, end, true
	}
	f.memory = int(v.Type().Elem().Size())
	pos += o.countSize(list)
	if v.Type().Elem().Kind() == reflect.Struct {
		f.element, end, _ = o.structure(v.Index(0), pos, true)
		return f, end, true
	}
	element, end, there := o.field(v.Index(0), pos)
	if !there {
		panic("wire: an array without its entry")
	}
	f.element = &layout{fields: []fieldLayout{element}, least: o.least(&element)}
	return f, end, true
}

func (o *encoderWatch) pointer(v reflect.Value, pos int) (f fieldLayout, end int, present bool) {
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	v.SetZero()
	at, _ := o.differs()
	v.Set(old)
	if at != pos || o.base[pos] != 1 {
		return f, pos, false
	}
	f = fieldLayout{kind: optional, nullable: true, memory: int(v.Type().Elem().Size())}
	f.element, end, _ = o.structure(v.Elem(), pos+1, true)
	return f, end, true
}

var (
	errCutShort = errors.New("it is cut short")
	errNull     = errors.New("a field is null that must not be")
)

const (
	// stringMemory is what a decoded string takes beside its bytes; tagsMemory
	// what a map of tagged fields that nobody knows does, and tagMemory each of
	// them.
	stringMemory = 16
	tagsMemory   = 320
	tagMemory    = 96
)

// surveyor walks a body by its layout.
type surveyor struct {
	walker
	memory  int64
	numbers int64 // entries of lists of numbers
	plain   bool  // marks of no struct are made -1
	err     error
}

// survey walks the body of a request. memory is about what decoding it takes,
// also where that fails; err is why Kafka's parser would refuse it. Bytes left
// over are of no concern.
func survey(l *layout, flexible bool, body []byte) (memory int64, err error) {
	s := surveyor{walker: walker{b: body, flexible: flexible}}
	s.value(l)
	return s.memory, s.err
}

func (s *surveyor) fail(err error) {
	if s.err == nil {
		s.err = err
	}
	s.bad, s.b = true, nil
}

func (s *surveyor) value(l *layout) {
	for i := range l.fields {
		s.field(&l.fields[i])
		if s.bad {
			s.fail(errCutShort)
			return
		}
	}
	if l.tags {
		if n := s.tags(); n > 0 {
			s.memory += tagsMemory + tagMemory*int64(n)
		}
		if s.bad {
			s.fail(errBadTags)
		}
	}
}

func (s *surveyor) field(f *fieldLayout) {
	switch f.kind {
	case fixed:
		s.skip(f.size)
	case text:
		n := s.textLength()
		switch {
		case s.bad:
		case n < 0 && !f.nullable:
			s.fail(errNull)
		case n > math.MaxInt16:
			s.fail(errLongString)
		case n > len(s.b):
			s.fail(errCutShort)
		case n >= 0:
			s.memory += stringMemory + int64(n)
			s.skip(n)
		}
	case blob:
		n := s.length()
		if n < 0 && !f.nullable && !s.bad {
			s.fail(errNull)
		}
		s.skip(n)
	case list:
		s.list(f)
	case optional:
		if f.nullable {
			if len(s.b) == 0 {
				s.fail(errCutShort)
				return
			}
			null := int8(s.b[0]) < 0
			if null && s.plain {
				s.b[0] = 0xff
			}
			s.skip(1)
			if null {
				return
			}
			s.memory += int64(f.memory)
		}
		s.value(f.element)
	}
}

func (s *surveyor) list(f *fieldLayout) {
	n := s.length()
	if s.bad {
		return
	}
	if n < 0 {
		if !f.nullable {
			s.fail(errNull)
		}
		return
	}
	if n > len(s.b)/f.element.least {
		s.fail(errCutShort)
		return
	}
	s.memory += int64(n) * int64(f.memory)
	if e := f.element; len(e.fields) == 1 && e.fields[0].kind == fixed && !e.tags {
		s.numbers += int64(n)
		s.skip(n * e.least)
		return
	}
	for range n {
		s.value(f.element)
		if s.bad {
			return
		}
	}
}
