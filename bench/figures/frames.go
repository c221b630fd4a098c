package main

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceFrame is a Produce of one record of so many bytes, acks=all.
func produceFrame(size int) []byte {
	rec := kmsg.Record{Value: make([]byte, size)}
	rec.Length = int32(len(rec.AppendTo(nil)) - 1)
	for range 2 { // the length's own length counts
		rec.Length = int32(len(rec.AppendTo(nil)) - varint(rec.Length))
	}
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1, Records: rec.AppendTo(nil)}
	b.FirstTimestamp, b.MaxTimestamp = 1, 1
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 1000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = "figures"
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = raw
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return frame(req)
}

// varint is how many bytes a zig-zag varint takes.
func varint(n int32) int { return len(binary.AppendVarint(nil, int64(n))) }

// fetchFrame is a Fetch of so many bytes from the log start.
func fetchFrame(bytes int32) []byte {
	f := kmsg.NewPtrFetchRequest()
	f.Version, f.ReplicaID, f.MinBytes, f.MaxBytes, f.SessionEpoch = 11, -1, 1, 1<<30, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = "figures"
	p := kmsg.NewFetchRequestTopicPartition()
	p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.LogStartOffset, p.PartitionMaxBytes = -1, -1, -1, bytes
	t.Partitions = append(t.Partitions, p)
	f.Topics = append(f.Topics, t)
	return frame(f)
}
