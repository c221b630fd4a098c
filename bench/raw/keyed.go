package raw

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Keyed fills a partition with records that have keys, for a topic that is
// compacted.
type Keyed struct {
	Addr, Topic string
	Value       int  // bytes of a record's value
	Batch       int  // bytes of a batch, about
	Bytes       int  // in all, about
	Twice       bool // each key comes twice: once in each half
}

// Run produces all of it over one connection and checks that it is stored.
func (k Keyed) Run() error {
	c, err := dial(k.Addr, nil)
	if err != nil {
		return err
	}
	defer c.nc.Close()
	const key = 8
	records := max(k.Batch/(k.Value+key+16), 1)
	batches := max(k.Bytes/(records*(k.Value+key+8)), 2) &^ 1
	keys := batches * records
	if k.Twice {
		keys /= 2
	}
	now := time.Now().UnixMilli()
	answer := Producing{Partitions: 1}.answer()
	for i := range batches {
		var all []byte
		for j := range records {
			r := kmsg.Record{OffsetDelta: int32(j), Value: make([]byte, k.Value), Key: binary.BigEndian.AppendUint64(nil, uint64((i*records+j)%keys))}
			r.Length = int32(len(r.AppendTo(nil)) - 1)
			all = r.AppendTo(all)
		}
		b := kmsg.RecordBatch{
			PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(records - 1), FirstTimestamp: now, MaxTimestamp: now,
			ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(records), Records: all,
		}
		b.Length = int32(batchHeader + len(all) - leaderEpochAt)
		bytes := b.AppendTo(nil)
		Sum(bytes)
		if err := c.write(numbered(produce(k.Topic, 1, -1, bytes), int32(i))); err != nil {
			return fmt.Errorf("fill %s: %w", k.Topic, err)
		}
		body, err := c.read()
		if err == nil {
			err = answer(body, int32(i))
		}
		if err != nil {
			return fmt.Errorf("fill %s: %w", k.Topic, err)
		}
	}
	ends, err := ends(c, k.Topic, 1)
	if err == nil && ends[0] != int64(batches*records) {
		err = fmt.Errorf("%s ends at %d, not %d", k.Topic, ends[0], batches*records)
	}
	return err
}
