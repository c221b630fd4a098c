package normal

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Nearly all answers are equal, and to see that nothing has to be built: alike
// walks two answers side by side by the same kinds as a Normaliser does. Where
// it says no it may be mistaken, and the normalised answers are compared; where
// it says yes they are equal.

// field is what alike knows of a struct's field.
type field struct {
	index     int
	kind      Kind
	name      string
	keyed     string // see keyed
	unordered bool
	list      string // owner and name, as foreign wants it
	codes     bool   // it is an error code, or holds some
	isCode    bool
}

var plans sync.Map // of []field, by reflect.Type

// planOf are the exported fields of a struct.
func planOf(t reflect.Type) []field {
	if p, ok := plans.Load(t); ok {
		return p.([]field)
	}
	list := []field{}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Name == "Version" {
			continue
		}
		_, unordered := Unordered[t.Name()+"."+f.Name]
		isCode := f.Type.Kind() == reflect.Int16 && strings.HasSuffix(f.Name, "ErrorCode")
		list = append(list, field{
			index: i, kind: kindOf(kinds, t.Name(), f.Name), name: f.Name, keyed: keyed[t.Name()+"."+f.Name], unordered: unordered,
			list: t.Name() + "." + f.Name, isCode: isCode, codes: isCode || holdsCodes(f.Type),
		})
	}
	plans.Store(t, list)
	return list
}

var named sync.Map // of []int, by reflect.Type

// namesOf are the fields of a struct that hold names.
func namesOf(t reflect.Type) []int {
	if list, ok := named.Load(t); ok {
		return list.([]int)
	}
	list := []int{}
	for _, n := range names {
		if f, ok := t.FieldByName(n); ok && len(f.Index) == 1 {
			list = append(list, f.Index[0])
		}
	}
	named.Store(t, list)
	return list
}

func holdsCodes(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return t.Elem().Kind() == reflect.Struct && holdsCodes(t.Elem())
	case reflect.Struct:
		return t != reflect.TypeFor[kmsg.Tags]() && slices.ContainsFunc(planOf(t), func(f field) bool { return f.codes })
	}
	return false
}

// Codes gathers the error codes that an answer holds, at any depth.
func Codes(v reflect.Value, seen func(int16)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			Codes(v.Elem(), seen)
		}
	case reflect.Struct:
		for _, f := range planOf(v.Type()) {
			switch {
			case f.isCode:
				seen(int16(v.Field(f.index).Int()))
			case f.codes:
				Codes(v.Field(f.index), seen)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			Codes(v.Index(i), seen)
		}
	}
}

// pair are two normalisers, and the ids that were first seen on the way.
type pair struct {
	of    [2]*Normaliser
	fresh []freshID
}

type freshID struct {
	kind  Kind
	value [2]any
}

// Alike says that two answers are equal but for what two servers may differ in,
// and numbers the ids in them. If it is not sure nothing is numbered.
func Alike(a, b *Normaliser, x, y kmsg.Response) bool {
	v, w := reflect.ValueOf(x), reflect.ValueOf(y)
	if v.Type() != w.Type() {
		return false
	}
	p := pair{of: [2]*Normaliser{a, b}}
	a.Now = time.Now()
	b.Now = a.Now
	if p.structs(v.Elem(), w.Elem()) {
		return true
	}
	for _, f := range p.fresh {
		for i, n := range p.of {
			n.ids.forget(f.kind, f.value[i])
		}
	}
	return false
}

func (p *pair) structs(a, b reflect.Value) bool {
	for _, f := range planOf(a.Type()) {
		if !p.values(a.Field(f.index), b.Field(f.index), &f) {
			return false
		}
	}
	return true
}

func (p *pair) values(a, b reflect.Value, f *field) bool {
	switch f.kind {
	case ID:
		k := Kind(f.name)
		if f.name == "LeaderID" {
			k = "MemberID"
		}
		return p.ids(k, a, b)
	case Epoch, Term:
		return p.ids(f.kind, a, b)
	case MetadataOffset, Disk:
		return (a.Int() >= 0) == (b.Int() >= 0)
	case Address:
		return a.IsZero() == b.IsZero()
	case Moment:
		return p.of[0].moment(a.Int()) == p.of[1].moment(b.Int())
	case Throttle, Elsewhere:
		return true
	case Words:
		return sentence(a) == sentence(b)
	case Batches:
		return a.IsNil() == b.IsNil() && p.batches(a.Bytes(), b.Bytes())
	}
	return p.plain(a, b, f)
}

// plain compares what is no kind.
func (p *pair) plain(a, b reflect.Value, f *field) bool {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return p.plain(a.Elem(), b.Elem(), f)
	case reflect.Struct:
		if tags, ok := a.Interface().(kmsg.Tags); ok {
			other := b.Interface().(kmsg.Tags)
			return tags.Len() == other.Len()
		}
		return p.structs(a, b)
	case reflect.Slice:
		if a.Type().Elem().Kind() == reflect.Uint8 {
			return a.IsNil() == b.IsNil() && bytes.Equal(a.Bytes(), b.Bytes())
		}
		return p.lists(a, b, f)
	case reflect.Array:
		return p.ids("TopicID", a, b)
	case reflect.String:
		return a.String() == b.String()
	case reflect.Bool:
		return a.Bool() == b.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return a.Int() == b.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return a.Uint() == b.Uint()
	}
	return false
}

func (p *pair) lists(a, b reflect.Value, f *field) bool {
	x, y := p.own(0, a, f), p.own(1, b, f)
	if len(x) != len(y) {
		return false
	}
	// A list of others' alone is none.
	if none := func(v reflect.Value) bool { return v.IsNil() || v.Len() > 0 }; len(x) == 0 && f.keyed == "" && none(a) != none(b) {
		return false
	}
	if (f.keyed != "" || f.unordered) && len(x) > 1 && !(byName(x, f.keyed) && byName(y, f.keyed)) {
		return false
	}
	element := field{name: f.name + "[]"}
	for i := range x {
		if !p.plain(x[i], y[i], &element) {
			return false
		}
	}
	return true
}

// own are the elements of a list that are not another sequence's.
func (p *pair) own(i int, v reflect.Value, f *field) []reflect.Value {
	list := make([]reflect.Value, 0, v.Len())
	for j := range v.Len() {
		if e := v.Index(j); !p.of[i].foreign(e, f.list) {
			list = append(list, e)
		}
	}
	return list
}

// byName sorts elements by a name that tells them apart; false if there is none.
func byName(list []reflect.Value, name string) bool {
	if len(list) == 0 || list[0].Kind() != reflect.Struct {
		return len(list) < 2
	}
	candidates := append(slices.Clone(names), "Partition")
	if name != "" {
		candidates = []string{name}
	}
	at := slices.IndexFunc(candidates, func(n string) bool { _, ok := list[0].Type().FieldByName(n); return ok })
	if at < 0 {
		return false
	}
	f, _ := list[0].Type().FieldByName(candidates[at])
	of := func(v reflect.Value) (string, int64) {
		v = v.Field(f.Index[0])
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		switch {
		case v.Kind() == reflect.String:
			return v.String(), 0
		case v.CanInt():
			return "", v.Int()
		}
		return "", 0
	}
	told := true
	slices.SortFunc(list, func(v, w reflect.Value) int {
		a, i := of(v)
		b, j := of(w)
		c := cmp.Or(strings.Compare(a, b), cmp.Compare(i, j))
		told = told && c != 0
		return c
	})
	return told
}

// ids are two ids that have to be the same one, told by two servers.
func (p *pair) ids(k Kind, a, b reflect.Value) bool {
	if a.Kind() == reflect.Pointer {
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		a, b = a.Elem(), b.Elem()
	}
	var value [2]any
	for i, v := range []reflect.Value{a, b} {
		if !v.CanInt() {
			value[i] = v.Interface()
			continue
		}
		value[i] = v.Int()
	}
	x, y := noID(k, a), noID(k, b)
	if x || y {
		return x && y && (!a.CanInt() || a.Int() == b.Int())
	}
	names, known := [2]string{}, [2]bool{}
	for i, n := range p.of {
		names[i], known[i] = n.ids.names[k][value[i]]
	}
	if known[0] || known[1] {
		return names[0] == names[1]
	}
	name := fresh(p.of[0], p.of[1], k)
	for i, n := range p.of {
		n.ids.name(k, value[i], name, false)
	}
	p.fresh = append(p.fresh, freshID{k, value})
	return true
}

// batches compares what is equal byte for byte, and the ids in it.
func (p *pair) batches(a, b []byte) bool {
	if !bytes.Equal(a, b) {
		return false
	}
	for len(a) > 0 {
		if len(a) < 61 || a[16] != 2 {
			return false
		}
		size := 12 + int(binary.BigEndian.Uint32(a[8:]))
		if size > len(a) {
			return false
		}
		epoch, producer := reflect.ValueOf(int32(binary.BigEndian.Uint32(a[12:]))), reflect.ValueOf(int64(binary.BigEndian.Uint64(a[43:])))
		if !p.ids(Epoch, epoch, epoch) || !p.ids("ProducerID", producer, producer) {
			return false
		}
		a = a[size:]
	}
	return true
}
