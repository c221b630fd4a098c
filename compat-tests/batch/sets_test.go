package batch

import (
	"reflect"
	"testing"
)

// TestSetsNotices: what differs in two message sets shows in what is compared of
// them, and what each server chooses for itself does not.
func TestSetsNotices(t *testing.T) {
	for magic := range int8(2) {
		plain := func() []Message { return Messages(magic, "v", "w") }
		good := Sets(SetOf(plain()...))
		change := func(f func(m []Message)) []any {
			m := plain()
			f(m)
			return Sets(SetOf(m...))
		}
		for what, got := range map[string][]any{
			"an offset":       change(func(m []Message) { m[1].Offset++ }),
			"an attribute":    change(func(m []Message) { m[1].Attributes = 8 }),
			"a key":           change(func(m []Message) { m[1].Key = nil }),
			"an empty key":    change(func(m []Message) { m[1].Key = []byte{} }),
			"a value":         change(func(m []Message) { m[0].Value = []byte("x") }),
			"a checksum":      change(func(m []Message) { m[0].Corrupt = func(b []byte) { b[0]++ } }),
			"bytes behind":    change(func(m []Message) { m[0].Behind = []byte{1} }),
			"one less":        Sets(SetOf(plain()[:1]...)),
			"a cut":           Sets(append(SetOf(plain()...), SetOf(plain()...)[:20]...)),
			"a filling":       Sets(append(SetOf(plain()...), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 61, 0, 0)),
			"the other magic": Sets(SetOf(Messages(1-magic, "v", "w")...)),
			"packed":          Sets(Wrapped(magic, Gzip, plain()...).Bytes()),
		} {
			if reflect.DeepEqual(good, got) {
				t.Errorf("magic %d: %s is not noticed", magic, what)
			}
		}
		if magic == 1 && reflect.DeepEqual(good, change(func(m []Message) { m[0].At = Then + 1 })) {
			t.Error("a time is not noticed")
		}
		for codec := Gzip; codec <= LZ4; codec++ {
			one := Sets(Wrapped(magic, codec, plain()...).Bytes())
			other := plain()
			other[1].Value = []byte("x")
			if reflect.DeepEqual(one, Sets(Wrapped(magic, codec, other...).Bytes())) {
				t.Errorf("magic %d, codec %d: another value within is not noticed", magic, codec)
			}
			if cut := append(Wrapped(magic, codec, plain()...).Bytes(), Wrapped(magic, codec, other...).Bytes()...); !reflect.DeepEqual(one, Sets(cut)) {
				t.Errorf("magic %d, codec %d: what follows a compressed message is looked at", magic, codec)
			}
		}
	}
}
