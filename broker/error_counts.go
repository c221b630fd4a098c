package broker

import (
	"reflect"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// codes is where the error codes of one type of answer are: its own field, and
// the fields of structs and slices below it that hold some.
type codes struct {
	own   int // index of ErrorCode; -1: none
	below []below
}

type below struct {
	field int
	slice bool
	codes *codes
}

var (
	codesMu sync.RWMutex
	codesOf = map[reflect.Type]*codes{}
)

// errorCodes tells each error code in a decoded answer.
func errorCodes(resp kmsg.Response, tell func(code int16)) {
	v := reflect.ValueOf(resp).Elem()
	codesMu.RLock()
	c, ok := codesOf[v.Type()]
	codesMu.RUnlock()
	if !ok {
		c = findCodes(v.Type())
		codesMu.Lock()
		codesOf[v.Type()] = c
		codesMu.Unlock()
	}
	c.walk(v, tell)
}

// findCodes looks a type over; nil: it holds none.
func findCodes(t reflect.Type) *codes {
	c := &codes{own: -1}
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case f.Name == "ErrorCode" && f.Type.Kind() == reflect.Int16:
			c.own = i
		case f.Type.Kind() == reflect.Struct && f.IsExported():
			if sub := findCodes(f.Type); sub != nil {
				c.below = append(c.below, below{i, false, sub})
			}
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			if sub := findCodes(f.Type.Elem()); sub != nil {
				c.below = append(c.below, below{i, true, sub})
			}
		}
	}
	if c.own < 0 && len(c.below) == 0 {
		return nil
	}
	return c
}

func (c *codes) walk(v reflect.Value, tell func(int16)) {
	if c == nil {
		return
	}
	if c.own >= 0 {
		tell(int16(v.Field(c.own).Int()))
	}
	for _, b := range c.below {
		f := v.Field(b.field)
		if !b.slice {
			b.codes.walk(f, tell)
			continue
		}
		for i := range f.Len() {
			b.codes.walk(f.Index(i), tell)
		}
	}
}
