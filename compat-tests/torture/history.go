// Package torture kills a loaded broker at random moments, starts it again on the same directory, and checks that it kept
// its promises: nothing that was acknowledged is lost (records, topics, configs, committed offsets), nothing is stored
// twice by an idempotent producer, and the records of a key stay in order. Of a compacted topic a record may be gone only
// once a later one of its key is there; what was deleted stays deleted, and nothing else goes with it. Meanwhile partitions
// move between two data directories, and what each life leaves there is sound to `millrace log verify`.
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
	Topic     string
	Compacted bool
	sent      map[string]int           // by key: how many were handed to the producer
	acked     map[string]map[int]Found // by key and sequence number
	seen      map[Place]map[int64]numbered
	deleted   map[int32]*Register[int64] // by partition: below which offset
}

// numbered is a record by its key and sequence number.
type numbered struct {
	key string
	seq int
}

func (n numbered) String() string { return fmt.Sprintf("record %d of key %s", n.seq, n.key) }

// Found is where a record is.
type Found struct {
	Partition int32
	Offset    int64
}

// NewRecords returns the empty history of a topic.
func NewRecords(topic string) *Records {
	return &Records{Topic: topic, sent: make(map[string]int), acked: make(map[string]map[int]Found), seen: make(map[Place]map[int64]numbered), deleted: make(map[int32]*Register[int64])}
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

// Deleted is below which offset a partition's records were asked to be deleted, and were: nowhere at first.
func (r *Records) Deleted(partition int32) *Register[int64] {
	if r.deleted[partition] == nil {
		r.deleted[partition] = new(Register[int64])
		r.deleted[partition].Ack(0)
	}
	return r.deleted[partition]
}

// Seen notes that a consumer was given a record: it may not change any more, and not vanish but as acknowledged ones may.
func (r *Records) Seen(partition int32, offset int64, key string, value []byte) error {
	p := Place{r.Topic, partition}
	seq, err := parse(key, value)
	if err != nil {
		return fmt.Errorf("%v offset %d: %w", p, offset, err)
	}
	m := r.seen[p]
	if m == nil {
		m = make(map[int64]numbered)
		r.seen[p] = m
	}
	is := numbered{key, seq}
	if before, ok := m[offset]; ok && before != is {
		return fmt.Errorf("%v offset %d was %v for a consumer and is %v later", p, offset, before, is)
	}
	m[offset] = is
	return nil
}

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

// Kept is what is stored of a partition: where it starts, and its records in the order of the log.
type Kept struct {
	Start   int64
	Records []Stored
}

// Check judges what is stored, by partition. It returns at most half a dozen sentences of a kind: what consumers saw of a
// lost tail would hide that it was acknowledged.
func (r *Records) Check(stored map[int32]Kept) (problems []string) {
	said := make(map[string]int) // by format
	add := func(format string, args ...any) {
		if said[format]++; said[format] <= 6 {
			problems = append(problems, r.Topic+": "+fmt.Sprintf(format, args...))
		}
	}
	for p, seen := range r.seen { // any order: each is another sentence
		if k := stored[p.Partition]; len(k.Records) == 0 && slices.Max(slices.Collect(maps.Keys(seen))) >= k.Start {
			add("partition %d is empty, a consumer had read from it", p.Partition)
		}
	}
	found := make(map[string]map[int]Found)
	last := make(map[string]int)
	at := make(map[Found]numbered)
	for _, partition := range slices.Sorted(maps.Keys(stored)) {
		kept := stored[partition]
		if err := r.Deleted(partition).Check(kept.Start, true); err != nil {
			add("the start of partition %d: %v", partition, err)
		}
		next := kept.Start
		for _, s := range kept.Records {
			if s.Offset < next || s.Offset > next && !r.Compacted {
				add("partition %d: offset %d comes where %d was due", partition, s.Offset, next)
			}
			next = s.Offset + 1
			seq, err := parse(s.Key, s.Value)
			if err != nil {
				add("partition %d offset %d: %v", partition, s.Offset, err)
				continue
			}
			is := numbered{s.Key, seq}
			at[Found{partition, s.Offset}] = is
			if seq >= r.sent[s.Key] {
				add("partition %d offset %d: %v was never sent", partition, s.Offset, is)
				continue
			}
			m := found[s.Key]
			if m == nil {
				m = make(map[int]Found)
				found[s.Key] = m
				last[s.Key] = -1
			}
			if before, twice := m[seq]; twice {
				add("%v is stored twice: partition %d offset %d and partition %d offset %d", is, before.Partition, before.Offset, partition, s.Offset)
				continue
			}
			m[seq] = Found{partition, s.Offset}
			if seq < last[s.Key] {
				add("partition %d offset %d: %v comes after record %d of it", partition, s.Offset, is, last[s.Key])
			}
			last[s.Key] = seq
		}
	}
	// mayBeGone says whether a record may have been taken away.
	mayBeGone := func(is numbered, was Found) bool {
		newest, ok := last[is.key]
		return was.Offset < stored[was.Partition].Start || r.Compacted && ok && newest > is.seq
	}
	for _, key := range slices.Sorted(maps.Keys(r.acked)) {
		for _, seq := range slices.Sorted(maps.Keys(r.acked[key])) {
			acked, n := r.acked[key][seq], numbered{key, seq}
			is, ok := found[key][seq]
			switch {
			case !ok && mayBeGone(n, acked):
			case !ok:
				add("%v is lost: it was acknowledged at partition %d offset %d", n, acked.Partition, acked.Offset)
			case is != acked:
				add("%v is at partition %d offset %d, it was acknowledged at partition %d offset %d", n, is.Partition, is.Offset, acked.Partition, acked.Offset)
			}
		}
	}
	for _, partition := range slices.Sorted(maps.Keys(stored)) {
		seen := r.seen[Place{r.Topic, partition}]
		for _, offset := range slices.Sorted(maps.Keys(seen)) {
			place := Found{partition, offset}
			if is, ok := at[place]; (ok || !mayBeGone(seen[offset], place)) && is != seen[offset] {
				add("partition %d offset %d: a consumer was given %v, there is %v now", partition, offset, seen[offset], is)
			}
		}
	}
	return problems
}
