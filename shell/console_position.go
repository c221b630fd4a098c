package shell

import (
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// positions knows how far console-consumer has come in each partition, to say where a batch is that cannot be read.
type positions struct {
	next     map[string]map[int32]int64
	start    int64 // of a single partition, as --offset says; -1: it says nothing
	earliest bool  // reading begins where the log does, if nothing else is known
}

func newPositions(c *toolCall) *positions {
	p := &positions{next: map[string]map[int32]int64{}, start: -1, earliest: c.has("from-beginning") || c.get("offset") == "earliest"}
	if n, err := strconv.ParseInt(c.get("offset"), 10, 64); err == nil {
		p.start = n
	}
	return p
}

func (p *positions) printed(r *kgo.Record) {
	if p.next[r.Topic] == nil {
		p.next[r.Topic] = map[int32]int64{}
	}
	p.next[r.Topic][r.Partition] = r.Offset + 1
}

// offset is where a partition is read next, as " at offset N"; nothing of one that is read from its end on and of which
// nothing has come.
func (p *positions) offset(k *client, fetched kgo.Fetches, topic string, partition int32) string {
	at, ok := p.next[topic][partition]
	if !ok {
		if at = p.start; at < 0 {
			if o, ok := k.CommittedOffsets()[topic][partition]; ok {
				at = o.Offset
			}
		}
		if at < 0 && p.earliest {
			fetched.EachPartition(func(f kgo.FetchTopicPartition) {
				if f.Topic == topic && f.Partition == partition {
					at = f.LogStartOffset
				}
			})
		}
	}
	if at < 0 {
		return ""
	}
	return fmt.Sprintf(" at offset %d", at)
}

// unreadable is why a batch could not be read: the client says it in words only, and shows checksums as signed numbers. It is
// false for any other error.
func unreadable(err error) (reason string, ok bool) {
	var stored, computed int32
	if n, _ := fmt.Sscanf(err.Error(), "encoded crc %x does not match calculated crc %x", &stored, &computed); n == 2 {
		return fmt.Sprintf("Record is corrupt (stored crc = %d, computed crc = %d)", uint32(stored), uint32(computed)), true
	}
	return "", false
}
