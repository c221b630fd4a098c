package applications

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// describe names a record in an error.
func describe(r *kgo.Record) string {
	return fmt.Sprintf("partition %d offset %d time %d key %.40q value %.40q with %d headers", r.Partition, r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value, len(r.Headers))
}

// same compares what a copy of a record must keep: null and empty are different.
func same(a, b *kgo.Record) bool {
	equal := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
	if !equal(a.Key, b.Key) || !equal(a.Value, b.Value) || !a.Timestamp.Equal(b.Timestamp) || len(a.Headers) != len(b.Headers) {
		return false
	}
	for i, h := range a.Headers {
		if h.Key != b.Headers[i].Key || !equal(h.Value, b.Headers[i].Value) {
			return false
		}
	}
	return true
}

// sameRecords wants the records of each partition to be the same, each once, in the same order.
func sameRecords(want, got []*kgo.Record) error {
	byPartition := func(records []*kgo.Record) map[int32][]*kgo.Record {
		m := make(map[int32][]*kgo.Record)
		for _, r := range records {
			m[r.Partition] = append(m[r.Partition], r)
		}
		return m
	}
	wanted, gotten := byPartition(want), byPartition(got)
	for p, w := range wanted {
		g := gotten[p]
		for i := range min(len(w), len(g)) {
			if !same(w[i], g[i]) {
				return fmt.Errorf("partition %d: record %d is %s, wanted %s", p, i, describe(g[i]), describe(w[i]))
			}
		}
		switch {
		case len(g) < len(w):
			return fmt.Errorf("partition %d: %d of %d records came, the first that is missing is %s", p, len(g), len(w), describe(w[len(g)]))
		case len(g) > len(w):
			return fmt.Errorf("partition %d: %d records came for %d, the first too many is %s", p, len(g), len(w), describe(g[len(w)]))
		}
	}
	for p, g := range gotten {
		if len(wanted[p]) == 0 {
			return fmt.Errorf("partition %d has %d records, wanted none", p, len(g))
		}
	}
	return nil
}

// sameLines wants the same lines in the same order.
func sameLines(want, got []string) error {
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			return fmt.Errorf("line %d is %q, wanted %q", i+1, got[i], want[i])
		}
	}
	if len(want) != len(got) {
		return fmt.Errorf("%d lines came for %d", len(got), len(want))
	}
	return nil
}

// sameCounts reads a stream of updates, a key and its count so far each, and wants the last count of each key to be the
// one that is due. Counts only ever grow, as nothing is taken back from them: an update that comes twice is an error, one
// that a later update replaces may be missing.
func sameCounts(want map[string]int, updates []*kgo.Record) error {
	last := make(map[string]int)
	for _, u := range updates {
		key := string(u.Key)
		n, err := strconv.Atoi(string(u.Value))
		if err != nil {
			return fmt.Errorf("the count of %s is no number: %w", key, err)
		}
		if n <= last[key] {
			return fmt.Errorf("the count of %s went from %d to %d", key, last[key], n)
		}
		last[key] = n
	}
	for key, n := range want {
		if last[key] != n {
			return fmt.Errorf("the count of %s is %d, wanted %d", key, last[key], n)
		}
	}
	if len(last) != len(want) {
		return fmt.Errorf("%d keys were counted, wanted %d", len(last), len(want))
	}
	return nil
}

// atLeastOnce wants each of the records in its partition, in their order and unchanged, where stretches that were read
// already may come again: what a program does that was killed between its output and its commit.
func atLeastOnce(want, got []*kgo.Record) error {
	wanted := make(map[int32][]*kgo.Record)
	for _, r := range want {
		wanted[r.Partition] = append(wanted[r.Partition], r)
	}
	position := func(p int32, r *kgo.Record, from, to int) int {
		for i := from; i < to; i++ {
			if same(wanted[p][i], r) {
				return i
			}
		}
		return -1
	}
	next, reached := make(map[int32]int), make(map[int32]int)
	for _, r := range got {
		p := r.Partition
		at := next[p]
		if at >= len(wanted[p]) || !same(wanted[p][at], r) {
			// Not the next one: then a stretch begins again, somewhere before what was reached.
			if at = position(p, r, 0, reached[p]); at < 0 {
				return fmt.Errorf("%s is neither the next record nor one that came before (%d of %d came)", describe(r), reached[p], len(wanted[p]))
			}
		}
		next[p] = at + 1
		reached[p] = max(reached[p], at+1)
	}
	for p, w := range wanted {
		if reached[p] < len(w) {
			return fmt.Errorf("partition %d: %d of %d records came, the first that is missing is %s", p, reached[p], len(w), describe(w[reached[p]]))
		}
		if next[p] < len(w) {
			return fmt.Errorf("partition %d ends inside a stretch that came again, at %s", p, describe(w[next[p]]))
		}
	}
	return nil
}
