package applications

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sample is a few records of two partitions, with what is easily lost: null and empty keys, values and headers.
func sample() []*kgo.Record {
	var records []*kgo.Record
	for i := range 40 {
		r := &kgo.Record{Partition: int32(i % 2), Offset: int64(i / 2), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)),
			Key: fmt.Appendf(nil, "key-%d", i), Value: fmt.Appendf(nil, "value-%d", i)}
		switch i % 5 {
		case 1:
			r.Key = nil
		case 2:
			r.Value = nil
		case 3:
			r.Value = []byte{}
		case 4:
			r.Headers = []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}}
		}
		records = append(records, r)
	}
	return records
}

// faults spoil a copy of the records; each must be caught.
var faults = map[string]func([]*kgo.Record) []*kgo.Record{
	"dropped first":  func(r []*kgo.Record) []*kgo.Record { return r[1:] },
	"dropped last":   func(r []*kgo.Record) []*kgo.Record { return r[:len(r)-1] },
	"dropped inside": func(r []*kgo.Record) []*kgo.Record { return slices.Delete(r, 10, 11) },
	"repeated":       func(r []*kgo.Record) []*kgo.Record { return slices.Insert(r, 11, r[10]) },
	"swapped":        func(r []*kgo.Record) []*kgo.Record { r[10], r[12] = r[12], r[10]; return r },
	"changed value":  change(func(r *kgo.Record) { r.Value = []byte("other") }),
	"changed key":    change(func(r *kgo.Record) { r.Key = []byte("other") }),
	"changed time":   change(func(r *kgo.Record) { r.Timestamp = r.Timestamp.Add(time.Millisecond) }),
	"moved":          change(func(r *kgo.Record) { r.Partition ^= 1 }),
	"null to empty":  func(r []*kgo.Record) []*kgo.Record { c := *r[2]; c.Value = []byte{}; r[2] = &c; return r },
	"empty to null":  func(r []*kgo.Record) []*kgo.Record { c := *r[3]; c.Value = nil; r[3] = &c; return r },
	"changed header": func(r []*kgo.Record) []*kgo.Record {
		c := *r[4]
		c.Headers = []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte{}}}
		r[4] = &c
		return r
	},
}

func change(f func(*kgo.Record)) func([]*kgo.Record) []*kgo.Record {
	return func(r []*kgo.Record) []*kgo.Record {
		c := *r[10]
		f(&c)
		r[10] = &c
		return r
	}
}

// mustCatch spoils what a program has really put out, in the three ways that matter, and wants the comparison to notice.
func mustCatch[T any](t *testing.T, got []T, changed func(T) T, check func([]T) error) {
	t.Helper()
	at := len(got) / 2
	for name, spoiled := range map[string][]T{
		"dropped":  slices.Delete(slices.Clone(got), at, at+1),
		"changed":  slices.Replace(slices.Clone(got), at, at+1, changed(got[at])),
		"repeated": slices.Insert(slices.Clone(got), at, got[at]),
	} {
		if check(spoiled) == nil {
			t.Errorf("%d of %d was %s, and that was not caught", at, len(got), name)
		}
	}
}

// otherValue is a record with another value.
func otherValue(r *kgo.Record) *kgo.Record {
	c := *r
	c.Value = append(slices.Clone(r.Value), '!')
	return &c
}

func TestSameRecords(t *testing.T) {
	if err := sameRecords(sample(), sample()); err != nil {
		t.Error(err)
	}
	mustCatch(t, sample(), otherValue, func(got []*kgo.Record) error { return sameRecords(sample(), got) })
	for name, spoil := range faults {
		if sameRecords(sample(), spoil(sample())) == nil {
			t.Errorf("%s: not caught", name)
		}
	}
}

func TestAtLeastOnce(t *testing.T) {
	if err := atLeastOnce(sample(), sample()); err != nil {
		t.Error(err)
	}
	// Records 10 to 19 are done again after 19, as after a kill.
	again := slices.Insert(sample(), 20, sample()[10:20]...)
	if err := atLeastOnce(sample(), again); err != nil {
		t.Error(err)
	}
	for name, spoil := range faults {
		if name == "repeated" {
			continue // that is allowed
		}
		if atLeastOnce(sample(), spoil(sample())) == nil {
			t.Errorf("%s: not caught", name)
		}
	}
	if atLeastOnce(sample(), append(sample(), sample()[10:20]...)) == nil {
		t.Error("an end inside a stretch that came again: not caught")
	}
}

func TestSameLines(t *testing.T) {
	lines := []string{"a", "b", "b", "c"}
	if err := sameLines(lines, lines); err != nil {
		t.Error(err)
	}
	for name, got := range map[string][]string{
		"dropped": {"a", "b", "c"}, "dropped last": {"a", "b", "b"}, "changed": {"a", "b", "x", "c"}, "repeated": {"a", "b", "b", "b", "c"}, "swapped": {"b", "a", "b", "c"},
		"repeated last": {"a", "b", "b", "c", "c"}, "nothing": nil,
	} {
		if sameLines(lines, got) == nil {
			t.Errorf("%s: not caught", name)
		}
	}
}

func TestSameCounts(t *testing.T) {
	update := func(key string, n int) *kgo.Record {
		return &kgo.Record{Key: []byte(key), Value: fmt.Append(nil, n)}
	}
	want := map[string]int{"a": 3, "b": 1}
	if err := sameCounts(want, []*kgo.Record{update("a", 1), update("b", 1), update("a", 3)}); err != nil {
		t.Error(err)
	}
	for name, got := range map[string][]*kgo.Record{
		"one input dropped":  {update("a", 1), update("b", 1), update("a", 2)},
		"one input repeated": {update("a", 1), update("b", 1), update("a", 4)},
		"last dropped":       {update("a", 1), update("b", 1)},
		"update repeated":    {update("a", 1), update("b", 1), update("a", 3), update("a", 3)},
		"key dropped":        {update("a", 3)},
		"key changed":        {update("a", 3), update("c", 1)},
		"key added":          {update("a", 3), update("b", 1), update("c", 1)},
		"no number":          {update("a", 3), {Key: []byte("b"), Value: []byte("x")}},
	} {
		if sameCounts(want, got) == nil {
			t.Errorf("%s: not caught", name)
		}
	}
}
