package frames

import (
	"reflect"
	"testing"
)

// TestSetsNotices: what differs in two message sets shows in what is compared of
// them, and what each server chooses for itself does not.
func TestSetsNotices(t *testing.T) {
	for magic := range int8(2) {
		plain := func() []old { return olds(magic, "v", "w") }
		good := sets(setOf(plain()...))
		change := func(f func(m []old)) []any {
			m := plain()
			f(m)
			return sets(setOf(m...))
		}
		for what, got := range map[string][]any{
			"an offset":       change(func(m []old) { m[1].offset++ }),
			"an attribute":    change(func(m []old) { m[1].attributes = 8 }),
			"a key":           change(func(m []old) { m[1].key = nil }),
			"an empty key":    change(func(m []old) { m[1].key = []byte{} }),
			"a value":         change(func(m []old) { m[0].value = []byte("x") }),
			"a checksum":      change(func(m []old) { m[0].corrupt = func(b []byte) { b[0]++ } }),
			"bytes behind":    change(func(m []old) { m[0].behind = []byte{1} }),
			"one less":        sets(setOf(plain()[:1]...)),
			"a cut":           sets(append(setOf(plain()...), setOf(plain()...)[:20]...)),
			"a filling":       sets(append(setOf(plain()...), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 61, 0, 0)),
			"the other magic": sets(setOf(olds(1-magic, "v", "w")...)),
			"packed":          sets(wrapped(magic, inGzip, plain()...).bytes()),
		} {
			if reflect.DeepEqual(good, got) {
				t.Errorf("magic %d: %s is not noticed", magic, what)
			}
		}
		if magic == 1 && reflect.DeepEqual(good, change(func(m []old) { m[0].at = then + 1 })) {
			t.Error("a time is not noticed")
		}
		for codec := int8(inGzip); codec <= inLZ4; codec++ {
			one := sets(wrapped(magic, codec, plain()...).bytes())
			other := plain()
			other[1].value = []byte("x")
			if reflect.DeepEqual(one, sets(wrapped(magic, codec, other...).bytes())) {
				t.Errorf("magic %d, codec %d: another value within is not noticed", magic, codec)
			}
			if cut := append(wrapped(magic, codec, plain()...).bytes(), wrapped(magic, codec, other...).bytes()...); !reflect.DeepEqual(one, sets(cut)) {
				t.Errorf("magic %d, codec %d: what follows a compressed message is looked at", magic, codec)
			}
		}
	}
}
