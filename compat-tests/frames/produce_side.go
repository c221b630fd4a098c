package frames

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/batch"
	"millrace/compat-tests/frame"
	"millrace/compat-tests/normal"
)

// part is one partition of a Produce request.
type part struct {
	topic   string
	index   int32
	records []byte
}

// stranger is a topic id that nobody has.
var stranger = normal.Stranger

// id is the id of a topic of this run, asked once; stranger if there is none.
func (s *Side) id(topic string) [16]byte {
	if id, ok := s.ids[topic]; ok {
		return id
	}
	got := s.topicID(topic)
	if got == ([16]byte{}) {
		return stranger
	}
	if s.ids == nil {
		s.ids = map[string][16]byte{}
	}
	s.ids[topic] = got
	s.Check("the id of "+topic, normal.TopicID(got)) // it has a number from now on
	return got
}

// writing is a Produce request; parts of one topic that stand together share an
// entry.
func (s *Side) writing(version, acks int16, parts ...part) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, 3000
	last := ""
	for _, p := range parts {
		if len(req.Topics) == 0 || last != p.topic {
			t := kmsg.NewProduceRequestTopic()
			t.Topic, last = s.Topic(p.topic), p.topic
			if version >= 13 {
				t.TopicID = s.id(p.topic)
			}
			req.Topics = append(req.Topics, t)
		}
		t := &req.Topics[len(req.Topics)-1]
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = p.index, p.records
		t.Partitions = append(t.Partitions, rp)
	}
	return req
}

// produce asks for one batch in partition 0 of a topic.
func (s *Side) produce(what, topic string, records []byte) frame.Outcome {
	return s.Ask(what, s.writing(s.Version, -1, part{topic, 0, records}))
}

// write writes one batch to partition 0 of a topic, as a preparation that has
// to succeed.
func (s *Side) write(topic string, b batch.Batch) { s.writeTo(topic, 0, b) }

func (s *Side) writeTo(topic string, index int32, b batch.Batch) {
	o := s.Do(9, s.writing(9, -1, part{topic, index, b.Bytes()}))
	resp, ok := o.Response.(*kmsg.ProduceResponse)
	if !ok || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		s.Fail("writing to %s: %v", topic, o)
	}
}

// stored compares what a partition holds from its start: the bytes where the
// servers are to keep what came, and header and records of each batch.
func (s *Side) stored(what, topic string, index int32) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.ReplicaID = 0, 0, 50<<20, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = s.Topic(topic)
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.PartitionMaxBytes = index, 50<<20
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	o := s.Do(11, req)
	resp, ok := o.Response.(*kmsg.FetchResponse)
	if !ok || len(resp.Topics) != 1 {
		s.Fail("%s: reading it back: %v", what, o)
		return
	}
	got := resp.Topics[0].Partitions[0]
	s.Check(what+" stored", map[string]any{
		"error": got.ErrorCode, "high watermark": got.HighWatermark, "last stable": got.LastStableOffset, "log start": got.LogStartOffset,
		"batches": batches(got.RecordBatches),
	})
}

// batches reads a log's bytes into what is compared of them.
func batches(b []byte) []any {
	list := []any{}
	for len(b) > 0 {
		if len(b) < 61 {
			return append(list, fmt.Sprintf("cut: %x", b))
		}
		size := 12 + int(binary.BigEndian.Uint32(b[8:]))
		if size > len(b) {
			return append(list, fmt.Sprintf("cut in a batch at offset %d: %d of %d bytes", binary.BigEndian.Uint64(b), len(b), size))
		}
		one := b[:size]
		b = b[size:]
		attributes := binary.BigEndian.Uint16(one[21:])
		m := map[string]any{
			"base": binary.BigEndian.Uint64(one), "leader epoch": int32(binary.BigEndian.Uint32(one[12:])), "magic": one[16],
			"attributes": attributes, "last delta": int32(binary.BigEndian.Uint32(one[23:])),
			"first time": batch.Moment(one[27:]), "largest time": batch.Moment(one[35:]),
			"producer": int64(binary.BigEndian.Uint64(one[43:])), "epoch": int16(binary.BigEndian.Uint16(one[51:])),
			"sequence": int32(binary.BigEndian.Uint32(one[53:])), "count": int32(binary.BigEndian.Uint32(one[57:])),
		}
		codec := attributes & 7
		records := one[61:]
		if codec != 0 {
			d := kgo.DefaultDecompressor()
			if plain, err := d.Decompress(records, kgo.CompressionCodecType(codec)); err == nil {
				records = plain
			} else {
				m["bad"] = err.Error()
			}
		}
		m["records"] = fmt.Sprintf("%x", records)
		list = append(list, m)
	}
	return list
}
