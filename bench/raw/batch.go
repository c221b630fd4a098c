// Package raw is the driver that finds a server's limit: frames encoded before
// the clock starts, sent and read with as little work as can be, so that the
// client leaves the processor to the server. What it produced it can show to be
// stored, and it checks what it is given.
package raw

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Batch is a record batch, uncompressed, of an unnamed producer.
type Batch struct {
	Bytes   []byte
	Records int
	Values  int // bytes of the records' values
}

// Size is how many bytes it has.
func (b Batch) Size() int { return len(b.Bytes) }

// Whole is how many bytes the batches have that fit into so many: one at least.
func (b Batch) Whole(bytes int) int { return max(bytes/b.Size(), 1) * b.Size() }

// offsets and sizes within a batch
const (
	batchHeader     = 61
	lengthAt        = 8
	leaderEpochAt   = 12
	magicAt         = 16
	crcAt           = 17
	attributesAt    = 21
	lastOffsetDelta = 23
)

// NewBatch makes a batch of records with values of so many bytes that come as
// near to so many bytes altogether as can be without passing them: one record
// at least. The values do not compress.
func NewBatch(value, bytes int, now time.Time) Batch {
	seed := uint64(value)*2654435761 + 1
	var records []byte
	n := 0
	for {
		r := kmsg.Record{OffsetDelta: int32(n), Value: make([]byte, value)}
		for i := range r.Value {
			seed = seed*6364136223846793005 + 1442695040888963407
			r.Value[i] = byte(seed >> 56)
		}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // behind a length of 0, which takes a byte
		encoded := r.AppendTo(nil)
		if n > 0 && batchHeader+len(records)+len(encoded) > bytes {
			break
		}
		records = append(records, encoded...)
		n++
	}
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(n - 1), FirstTimestamp: now.UnixMilli(), MaxTimestamp: now.UnixMilli(),
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(n), Records: records,
	}
	b.Length = int32(batchHeader + len(records) - leaderEpochAt)
	raw := b.AppendTo(nil)
	Sum(raw)
	return Batch{Bytes: raw, Records: n, Values: n * value}
}

// Sum sets a batch's CRC.
func Sum(raw []byte) {
	binary.BigEndian.PutUint32(raw[crcAt:], crc32.Checksum(raw[attributesAt:], castagnoli))
}

// produce is a Produce of the same batch to every partition, without the
// length before it.
func produce(topic string, partitions int, acks int16, batch []byte) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = produceVersion, acks, 30000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	for i := range partitions {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), batch
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return encode(req)
}

const (
	produceVersion = 9
	fetchVersion   = 11
	correlationAt  = 4 + 2 + 2
)

// encode is a request's frame, its length included.
func encode(req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, req, 0)
}
