//go:build compat

package adopt

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// described is a topic as Kafka's metadata records have it.
type described struct {
	name    string
	id      [16]byte
	configs map[string]string
	epochs  []int32    // the leader epoch of each partition
	at      [][16]byte // the data directory of each partition
}

// The ids of Kafka's metadata records.
const (
	topicRecord       = 2
	partitionRecord   = 3
	configRecord      = 4
	producerIDsRecord = 15
)

// compact is a string or array length as flexible versions have it.
func compact(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n+1)) }

func compactString(b []byte, s string) []byte { return append(compact(b, len(s)), s...) }

func int32s(b []byte, list ...int32) []byte {
	b = compact(b, len(list))
	for _, n := range list {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// records are what makes Kafka know a topic whose partitions lie in directories of a node, which leads them in the epoch
// behind the one in which they were written.
func (d described) records(node int32) [][]byte {
	frame := func(kind, version byte) []byte { return []byte{1, kind, version} }
	out := [][]byte{append(append(compactString(frame(topicRecord, 0), d.name), d.id[:]...), 0)}
	for p, epoch := range d.epochs {
		b := binary.BigEndian.AppendUint32(frame(partitionRecord, 1), uint32(p))
		b = append(b, d.id[:]...)
		b = int32s(int32s(int32s(int32s(b, node), node)), []int32{}...)
		for _, n := range []int32{node, epoch + 1, 0} { // leader, leader epoch, partition epoch
			b = binary.BigEndian.AppendUint32(b, uint32(n))
		}
		out = append(out, append(append(compact(b, 1), d.at[p][:]...), 0))
	}
	for _, k := range sortedKeys(d.configs) {
		b := compactString(compactString(append(frame(configRecord, 0), 2), d.name), k)
		out = append(out, append(compactString(b, d.configs[k]), 0))
	}
	return out
}

// producerIDs says that a node has been given the ids below next.
func producerIDs(node int32, next int64) []byte {
	b := binary.BigEndian.AppendUint32([]byte{1, producerIDsRecord, 0}, uint32(node))
	b = binary.BigEndian.AppendUint64(b, uint64(0))
	return append(binary.BigEndian.AppendUint64(b, uint64(next)), 0)
}

// addRecords puts records into the checkpoint with which kafka-storage formats a directory, before its last batch, which
// is the footer. Kafka's first leader copies what stands there into its log.
func addRecords(t *testing.T, metadata string, values [][]byte) {
	t.Helper()
	name := filepath.Join(metadata, fmt.Sprintf("%020d-%010d.checkpoint", 0, 0))
	b, err := os.ReadFile(name)
	ok(t, err)
	footer := 0
	for at := 0; at < len(b); at += 12 + int(binary.BigEndian.Uint32(b[at+8:])) {
		footer = at
	}
	if footer == 0 {
		t.Fatalf("%s has one batch", name)
	}
	base := binary.BigEndian.Uint64(b[footer:])
	more := rawBatch{base: int64(base), first: 1_700_000_000_000}
	for _, v := range values {
		more.records = append(more.records, record{value: v})
	}
	binary.BigEndian.PutUint64(b[footer:], base+uint64(len(values)))
	out := append(append(append([]byte{}, b[:footer]...), more.bytes()...), b[footer:]...)
	ok(t, os.Remove(name))
	ok(t, os.WriteFile(name, out, 0o400))
}
