//go:build compat

package oracle

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/batch"
)

// storeLies are faults of what logs keep, and of how they are looked into.
var storeLies = []struct {
	name, family, shows string
	old                 bool // in versions that Kafka 4 has dropped
	lie                 func() Lie
	from                uint64 // the first seed that is played: those before it show nothing
}{
	{"a look-up by time that is a record early", "storage", "look up in", false, func() Lie {
		return Lie{Answer: func(req kmsg.Request, resp kmsg.Response) {
			r, ok := resp.(*kmsg.ListOffsetsResponse)
			if !ok {
				return
			}
			for i, t := range r.Topics {
				for j := range t.Partitions {
					if p := &r.Topics[i].Partitions[j]; p.Offset > 0 && whenOf(req.(*kmsg.ListOffsetsRequest), t.Topic, p.Partition) > 0 {
						p.Offset--
					}
				}
			}
		}}
	}, 1},
	{"a record of an old key that comes back", "storage", "all of compacted/0.batches", false, comesBack, 1},
	{"retention that leaves a segment too many", "storage", "all of ", false, func() Lie {
		more := func(by int) func(int) int {
			return func(n int) int {
				if n < 0 {
					return n
				}
				return n + by
			}
		}
		// The least that a segment of a sequence has, and longer than any record is old.
		room, time := configured("retention.bytes", more(600)), configured("retention.ms", more(5*86400e3))
		return Lie{Request: func(req kmsg.Request) { room(req); time(req) }}
	}, 64},
	{"a config that has no effect", "storage", "then write", false, func() Lie {
		return Lie{Request: configured("max.message.bytes", func(int) int { return 1048588 })}
	}, 1},
	{"a key that is lost in a set of messages", "old records", "RecordBatches", true, func() Lie {
		return Lie{Answer: func(_ kmsg.Request, resp kmsg.Response) {
			if r, ok := resp.(*kmsg.FetchResponse); ok && r.Version < 4 {
				for i := range r.Topics {
					for j := range r.Topics[i].Partitions {
						p := &r.Topics[i].Partitions[j]
						p.RecordBatches = withoutKey(p.RecordBatches)
					}
				}
			}
		}}
	}, 1},
}

// configured changes a number that a topic's config is set to.
func configured(key string, to func(int) int) func(kmsg.Request) {
	return func(req kmsg.Request) {
		r, ok := req.(*kmsg.IncrementalAlterConfigsRequest)
		if !ok {
			return
		}
		for i := range r.Resources {
			for j := range r.Resources[i].Configs {
				c := &r.Resources[i].Configs[j]
				if c.Name != key || c.Value == nil {
					continue
				}
				if n, err := strconv.Atoi(*c.Value); err == nil {
					c.Value = kmsg.StringPtr(strconv.Itoa(to(n)))
				}
			}
		}
	}
}

// comesBack gives the first batch that was read of a partition again when cleaning
// has taken it away.
func comesBack() Lie {
	var mu sync.Mutex
	first := map[place][]byte{}
	return Lie{Answer: func(req kmsg.Request, resp kmsg.Response) {
		r, ok := resp.(*kmsg.FetchResponse)
		if !ok || r.Version < 5 || r.Version > 12 { // where log starts and names of topics are told
			return
		}
		mu.Lock()
		defer mu.Unlock()
		asked := map[place]int64{}
		for _, t := range req.(*kmsg.FetchRequest).Topics {
			for _, p := range t.Partitions {
				asked[place{t.Topic, p.Partition}] = p.FetchOffset
			}
		}
		for i, t := range r.Topics {
			for j := range t.Partitions {
				p := &r.Topics[i].Partitions[j]
				at := place{t.Topic, p.Partition}
				from, ok := asked[at]
				b := p.RecordBatches
				if !ok || len(b) < 61 || len(b) < sizeOf(b) || int64(binary.BigEndian.Uint64(b)) < from {
					continue
				}
				old := first[at]
				switch {
				case old != nil:
					if lies := int64(binary.BigEndian.Uint64(old)); lies >= max(from, p.LogStartOffset) && binary.BigEndian.Uint64(b) > uint64(lies) {
						p.RecordBatches = append(bytes.Clone(old), b...)
					}
				case !bytes.Contains(b[:sizeOf(b)], []byte("sweep")): // that one is seen to go
					first[at] = bytes.Clone(b[:sizeOf(b)])
				}
			}
		}
	}}
}

// sizeOf is how long a batch is.
func sizeOf(b []byte) int { return 12 + int(binary.BigEndian.Uint32(b[8:])) }

// withoutKey is a set whose first message, of magic 1 and not compressed, has no key.
func withoutKey(set []byte) []byte {
	const keyAt = 26
	if len(set) < keyAt+4 || set[16] != 1 || set[17]&7 != 0 || len(set) < sizeOf(set) {
		return set
	}
	n := int32(binary.BigEndian.Uint32(set[keyAt:]))
	if n < 0 {
		return set
	}
	out := binary.BigEndian.AppendUint32(bytes.Clone(set[:keyAt]), 1<<32-1)
	out = append(out, set[keyAt+4+int(n):]...)
	binary.BigEndian.PutUint32(out[8:], uint32(sizeOf(set)-12-int(n)))
	batch.ResumSet(out)
	return out
}
