// Package torture kills a loaded broker at random moments, starts it again on the same directory, and checks that it kept
// its promises: nothing that was acknowledged is lost (records, topics, configs, committed offsets), nothing is stored
// twice by an idempotent producer, and the records of a key stay in order.
//
// This file is the checker: it holds what was asked and what was acknowledged, and judges what is found in the end. It
// does no input or output. The load and the killing are in the tests, behind the build tag `compat`.
package torture

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Payload is the value of a key's record with a sequence number. Everything about it can be computed again, so that a
// record read back tells by itself what it must be.
func Payload(key string, seq int) []byte {
	h := fnv.New32a()
	head := fmt.Sprintf("%s %d ", key, seq)
	h.Write([]byte(head))
	size := int(h.Sum32() % 300)
	return append([]byte(head), strings.Repeat("millrace ", size/9+1)[:size]...)
}

// Place is a partition of a topic.
type Place struct {
	Topic     string
	Partition int32
}

func (p Place) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Partition) }

// Stored is one record as it was read back.
type Stored struct {
	Offset int64
	Key    string
	Value  []byte
}

// Register is a value that one writer sets again and again. What may be found in it is the value acknowledged last, or
// one that was asked for after that and of which no answer came.
type Register[T comparable] struct {
	acked T
	has   bool
	open  []T
}

// Begin notes that a value is being asked for.
func (r *Register[T]) Begin(v T) { r.open = append(r.open, v) }

// Ack notes that a value was acknowledged. Whatever was asked before it has been decided by then.
func (r *Register[T]) Ack(v T) { r.acked, r.has, r.open = v, true, r.open[:0] }

// Refused notes that the value asked for last was refused: it was not set.
func (r *Register[T]) Refused() { r.open = r.open[:len(r.open)-1] }

// Check judges a value that was found; found is false if there was none.
func (r *Register[T]) Check(v T, found bool) error {
	if !found {
		if r.has {
			return fmt.Errorf("nothing is there, %v was acknowledged", r.acked)
		}
		return nil
	}
	if (r.has && v == r.acked) || slices.Contains(r.open, v) {
		return nil
	}
	if !r.has {
		return fmt.Errorf("%v is there, asked for was %v", v, r.open)
	}
	return fmt.Errorf("%v is there, acknowledged was %v, asked for after it %v", v, r.acked, r.open)
}

// Records is the history of one topic's records. Each key has one writer, which numbers its records from 0.
type Records struct {
	Topic string
	sent  map[string]int           // by key: how many were handed to the producer
	acked map[string]map[int]Found // by key and sequence number
	seen  map[Place]map[int64]string
}

// Found is where a record is.
type Found struct {
	Partition int32
	Offset    int64
}

// NewRecords returns the empty history of a topic.
func NewRecords(topic string) *Records {
	return &Records{Topic: topic, sent: make(map[string]int), acked: make(map[string]map[int]Found), seen: make(map[Place]map[int64]string)}
}

// Sent notes the key's next record and returns its sequence number.
func (r *Records) Sent(key string) int {
	seq := r.sent[key]
	r.sent[key]++
	return seq
}

// Acked notes that a record was acknowledged.
func (r *Records) Acked(key string, seq int, at Found) {
	m := r.acked[key]
	if m == nil {
		m = make(map[int]Found)
		r.acked[key] = m
	}
	m[seq] = at
}

// AckedCount is how many records were acknowledged.
func (r *Records) AckedCount() (n int) {
	for _, m := range r.acked {
		n += len(m)
	}
	return n
}

// Seen notes that a consumer was given a record: it may not change or vanish any more.
func (r *Records) Seen(partition int32, offset int64, key string, value []byte) error {
	p := Place{r.Topic, partition}
	m := r.seen[p]
	if m == nil {
		m = make(map[int64]string)
		r.seen[p] = m
	}
	seq, err := parse(key, value)
	if err != nil {
		return fmt.Errorf("%v offset %d: %w", p, offset, err)
	}
	text := name(key, seq)
	if before, ok := m[offset]; ok && before != text {
		return fmt.Errorf("%v offset %d was %s for a consumer and is %s later", p, offset, before, text)
	}
	m[offset] = text
	return nil
}

func name(key string, seq int) string { return fmt.Sprintf("record %d of key %s", seq, key) }

// parse reads the sequence number and checks that the value is the payload.
func parse(key string, value []byte) (seq int, err error) {
	fields := strings.SplitN(string(value), " ", 3)
	if len(fields) == 3 {
		if seq, err = strconv.Atoi(fields[1]); err == nil && string(value) == string(Payload(key, seq)) {
			return seq, nil
		}
	}
	return 0, fmt.Errorf("the value of key %q is not what was sent: %.80q", key, value)
}

// Check judges what is stored, given by partition in the order of the log. It returns at most half a dozen
// sentences of a kind: what consumers saw of a lost tail would hide that it was acknowledged.
func (r *Records) Check(stored map[int32][]Stored) (problems []string) {
	said := make(map[string]int) // by format
	add := func(format string, args ...any) {
		if said[format]++; said[format] <= 6 {
			problems = append(problems, r.Topic+": "+fmt.Sprintf(format, args...))
		}
	}
	for p := range r.seen {
		if _, ok := stored[p.Partition]; !ok {
			add("partition %d is empty, a consumer had read from it", p.Partition)
		}
	}
	found := make(map[string]map[int]Found)
	last := make(map[string]int)
	at := make(map[Found]string)
	for _, partition := range slices.Sorted(maps.Keys(stored)) {
		next := int64(0)
		for _, s := range stored[partition] {
			if s.Offset != next {
				add("partition %d: offset %d comes where %d was due", partition, s.Offset, next)
			}
			next = s.Offset + 1
			seq, err := parse(s.Key, s.Value)
			if err != nil {
				add("partition %d offset %d: %v", partition, s.Offset, err)
				continue
			}
			at[Found{partition, s.Offset}] = name(s.Key, seq)
			if seq >= r.sent[s.Key] {
				add("partition %d offset %d: %s was never sent", partition, s.Offset, name(s.Key, seq))
				continue
			}
			m := found[s.Key]
			if m == nil {
				m = make(map[int]Found)
				found[s.Key] = m
				last[s.Key] = -1
			}
			if before, twice := m[seq]; twice {
				add("%s is stored twice: partition %d offset %d and partition %d offset %d", name(s.Key, seq), before.Partition, before.Offset, partition, s.Offset)
				continue
			}
			m[seq] = Found{partition, s.Offset}
			if seq < last[s.Key] {
				add("partition %d offset %d: %s comes after record %d of it", partition, s.Offset, name(s.Key, seq), last[s.Key])
			}
			last[s.Key] = seq
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.acked)) {
		for _, seq := range slices.Sorted(maps.Keys(r.acked[key])) {
			acked := r.acked[key][seq]
			is, ok := found[key][seq]
			switch {
			case !ok:
				add("%s is lost: it was acknowledged at partition %d offset %d", name(key, seq), acked.Partition, acked.Offset)
			case is != acked:
				add("%s is at partition %d offset %d, it was acknowledged at partition %d offset %d", name(key, seq), is.Partition, is.Offset, acked.Partition, acked.Offset)
			}
		}
	}
	for _, partition := range slices.Sorted(maps.Keys(stored)) {
		seen := r.seen[Place{r.Topic, partition}]
		for _, offset := range slices.Sorted(maps.Keys(seen)) {
			if is := at[Found{partition, offset}]; is != seen[offset] {
				add("partition %d offset %d: a consumer was given %s, there is %q now", partition, offset, seen[offset], is)
			}
		}
	}
	return problems
}
