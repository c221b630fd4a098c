package normal

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Ids that servers make up are held against each other two by two: what stands at the
// same place of both answers is the same id to both, by one number, and has to be from
// then on. So a number does not depend on how many ids were told before, and an id that
// one server tells alone, in a difference that is meant, moves none.

// ids are what a Normaliser knows of the ids of one server.
type ids struct {
	names map[Kind]map[any]string
	// alone are those that the other server has not told yet.
	alone map[Kind]map[any]bool
	last  map[Kind]int // numbers that are given out, by either of the two
}

// id is one as it stands in an answer: by its name if it has one.
type id struct {
	kind  Kind
	value any
	of    *Normaliser
}

// TopicID is a topic's id as a part of what CompareValues takes.
func TopicID(value [16]byte) any { return id{"TopicID", value, nil} }

// MarshalJSON is part of json.Marshaler. All ids without a number are alike: they
// are while lists are sorted, so that the order does not depend on chance.
func (i id) MarshalJSON() ([]byte, error) {
	if i.of != nil {
		if name, ok := i.of.ids.names[i.kind][i.value]; ok {
			return json.Marshal(name)
		}
	}
	return json.Marshal("<" + string(i.kind) + ">")
}

// name gives an id its name, on one side.
func (x *ids) name(k Kind, value any, name string, alone bool) {
	if x.names[k] == nil {
		x.names[k], x.alone[k] = map[any]string{}, map[any]bool{}
	}
	x.names[k][value] = name
	delete(x.alone[k], value)
	if alone {
		x.alone[k][value] = true
	}
}

func (x *ids) forget(k Kind, value any) {
	delete(x.names[k], value)
	delete(x.alone[k], value)
}

// fresh is a name that neither of two has given out.
func fresh(a, b *Normaliser, k Kind) string {
	n := max(a.ids.last[k], b.ids.last[k]) + 1
	a.ids.last[k], b.ids.last[k] = n, n
	return fmt.Sprintf("<%s %d>", k, n)
}

// meet are two ids at the same place of both answers.
func meet(a, b *Normaliser, k Kind, x, y any) {
	p, known := a.ids.names[k][x]
	q, known2 := b.ids.names[k][y]
	switch alone, alone2 := !known || a.ids.alone[k][x], !known2 || b.ids.alone[k][y]; {
	case alone && alone2:
		if !known {
			if p = q; !known2 {
				p = fresh(a, b, k)
			}
		}
		a.ids.name(k, x, p, false)
		b.ids.name(k, y, p, false)
	case !known:
		a.ids.name(k, x, fresh(a, b, k), true)
	case !known2:
		b.ids.name(k, y, fresh(a, b, k), true)
	}
}

// number numbers the ids in two values that are compared: at the same place
// together, else alone.
func number(a, b *Normaliser, x, y any) {
	switch v := x.(type) {
	case map[string]any:
		if w, ok := y.(map[string]any); ok {
			for _, k := range keys(v, w) {
				number(a, b, v[k], w[k])
			}
			return
		}
		for _, k := range keys(v, nil) {
			number(a, b, v[k], nil)
		}
	case []any:
		w, ok := y.([]any)
		if ok && len(v) == len(w) {
			for i := range v {
				number(a, b, v[i], w[i])
			}
			return
		}
		for i := range v {
			number(a, b, v[i], nil)
		}
	case id:
		if w, ok := y.(id); ok && v.kind == w.kind {
			meet(a, b, v.kind, v.value, w.value)
			return
		}
		if _, known := a.ids.names[v.kind][v.value]; !known {
			a.ids.name(v.kind, v.value, fresh(a, b, v.kind), true)
		}
	}
	if y != nil {
		number(b, a, y, nil)
	}
}

// named is a numbered value with names in place of its ids.
func (n *Normaliser) named(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k := range x { // any order: each by itself
			x[k] = n.named(x[k])
		}
	case []any:
		for i := range x {
			x[i] = n.named(x[i])
		}
	case id:
		return n.ids.names[x.kind][x.value]
	}
	return v
}

// Compare lists where two servers' answers differ, one line a place.
func Compare(a, b *Normaliser, x, y kmsg.Response) []string {
	a.Now = time.Now()
	b.Now = a.Now
	return CompareValues(a, b, a.value(reflect.ValueOf(x), "", ""), b.value(reflect.ValueOf(y), "", ""))
}

// CompareValues does that for what is made of TopicID, Batches, texts, numbers, and
// maps and lists of such. Ids in x and y have their names then.
func CompareValues(a, b *Normaliser, x, y any) []string {
	number(a, b, x, y)
	return diff(a.named(x), b.named(y))
}

func keys(a, b map[string]any) []string {
	var list []string
	for k := range a {
		list = append(list, k)
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			list = append(list, k)
		}
	}
	sort.Strings(list)
	return list
}
