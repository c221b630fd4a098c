package brokertest

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// oneRecord is a batch of one record, built with another project's encoder.
func oneRecord(producer int64, sequence int32) []byte {
	rec := kmsg.Record{Value: []byte("v")}
	rec.Length = int32(len(rec.AppendTo(nil)) - 1)
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, ProducerID: producer, FirstSequence: sequence, NumRecords: 1, Records: rec.AppendTo(nil),
	}
	// A producer is forgotten when its last record is old, as one without a time is.
	b.FirstTimestamp = time.Now().UnixMilli()
	b.MaxTimestamp = b.FirstTimestamp
	if producer < 0 {
		b.ProducerEpoch, b.FirstSequence = -1, -1
	}
	raw := b.AppendTo(nil)
	b.Length = int32(len(raw) - 12)
	raw = b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}
