package frames

import (
	"encoding/binary"
	"fmt"
	"millrace/compat-tests/batch"
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cases of compacted topics: both servers clean the same log, and what is left
// is compared batch by batch.
func compactionCases() []Case {
	return []Case{
		{API: kmsg.Fetch, Name: "compacted", From: 11, To: 11, Run: compacted},
		{API: kmsg.Fetch, Name: "compacted codecs", From: 11, To: 11, Run: compactedCodecs},
		{API: kmsg.Fetch, Name: "compacted and deleted", From: 11, To: 11, Run: compactedAndDeleted},
	}
}

// of is a record as a compacted topic has it; without a value it is a
// tombstone.
func of(key string, value ...string) batch.Record {
	r := batch.Record{Key: []byte(key)}
	for _, v := range value {
		r.Value = []byte(v)
	}
	return r
}

func batchOf(records ...batch.Record) batch.Batch { return batch.Of(records...) }

// segmentBytes lets segments be as small as tests want them; before Kafka 4.0 did so
// what everybody sets, segment.bytes.
const segmentBytes = "internal.segment.bytes"

// washable makes a topic whose batches are segments of their own, and which is
// not cleaned before clean says so.
func (s *Side) washable(name string, configs ...string) {
	all := append([]string{"cleanup.policy", "delete", "retention.ms", "-1", segmentBytes, "90", "min.cleanable.dirty.ratio", "0"}, configs...)
	if !s.knows(segmentBytes) {
		for i := 0; i < len(all); i += 2 {
			if all[i] == segmentBytes {
				all[i] = "segment.bytes"
			}
		}
	}
	s.createTopic(name, 1, all...)
}

// knows says whether a server has a config of topics, which may be 100.
func (s *Side) knows(key string) bool {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.ValidateOnly, req.TimeoutMillis = true, 10000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = s.Topic("is-not-made"), 1, 1
	c := kmsg.NewCreateTopicsRequestTopicConfig()
	c.Name, c.Value = key, kmsg.StringPtr("100")
	t.Configs = append(t.Configs, c)
	req.Topics = append(req.Topics, t)
	resp, ok := s.Do(5, req).Response.(*kmsg.CreateTopicsResponse)
	return ok && len(resp.Topics) == 1 && resp.Topics[0].ErrorCode == 0
}

// clean lets a topic be cleaned, waits until it was, and compares what is left.
func (s *Side) clean(what, topic string, from int64) {
	before := s.whole(topic, from)
	s.alterTopic(topic, "cleanup.policy", "compact")
	now, since := before, time.Now()
	for range 200 {
		if got := s.whole(topic, from); !reflect.DeepEqual(got, now) {
			now, since = got, time.Now()
		}
		if !reflect.DeepEqual(now, before) && time.Since(since) > 2500*time.Millisecond {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.alterTopic(topic, "cleanup.policy", "delete")
	s.Check(what, map[string]any{"cleaned": !reflect.DeepEqual(now, before), "left": now})
}

// whole is all that a log holds from an offset on, segment by segment, as an answer has
// of one only.
func (s *Side) whole(topic string, from int64) []any {
	all := []any{}
	for {
		part := s.remains(topic, from)
		if len(part) == 0 {
			return all
		}
		all = append(all, part...)
		last := part[len(part)-1].(map[string]any)
		from = last["base"].(int64) + int64(last["last delta"].(int32)) + 1
	}
}

// remains is what a log holds from an offset on, batch by batch. Times that cleaning sets are
// those of the server's clock.
func (s *Side) remains(topic string, from int64) []any {
	o := s.Do(11, s.reading(11, read{topic: topic, offset: from}))
	resp, ok := o.Response.(*kmsg.FetchResponse)
	if !ok || len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		s.Fail("reading %s from %d: %v", topic, from, o)
		return nil
	}
	list := []any{}
	for b := resp.Topics[0].Partitions[0].RecordBatches; len(b) >= 61; {
		size := 12 + int(binary.BigEndian.Uint32(b[8:]))
		if size > len(b) {
			break
		}
		var rb kmsg.RecordBatch
		if err := rb.ReadFrom(b[:size]); err != nil {
			s.Fail("reading %s: %v", topic, err)
			return nil
		}
		b = b[size:]
		m := map[string]any{
			"base": rb.FirstOffset, "last delta": rb.LastOffsetDelta, "attributes": rb.Attributes, "largest time": rb.MaxTimestamp,
			"producer": rb.ProducerID, "epoch": rb.ProducerEpoch, "sequence": rb.FirstSequence, "count": rb.NumRecords, "leader epoch": rb.PartitionLeaderEpoch,
		}
		if rb.Attributes&0x40 == 0 {
			m["first time"] = rb.FirstTimestamp
		}
		records := rb.Records
		if codec := rb.Attributes & 7; codec != 0 {
			plain, err := kgo.DefaultDecompressor().Decompress(records, kgo.CompressionCodecType(codec))
			if err != nil {
				s.Fail("reading %s: %v", topic, err)
				return nil
			}
			records = plain
		}
		var all []string
		for len(records) > 0 {
			length, n := binary.Varint(records)
			if n <= 0 || int(length) > len(records)-n {
				all = append(all, "no record")
				break
			}
			var r kmsg.Record
			if err := r.ReadFrom(records[:n+int(length)]); err != nil {
				all = append(all, err.Error())
				break
			}
			records = records[n+int(length):]
			at := rb.FirstTimestamp + r.TimestampDelta64
			text := fmt.Sprintf("%d %d %s", rb.FirstOffset+int64(r.OffsetDelta), at, r.Key)
			if r.Value != nil {
				text += "=" + string(r.Value)
			}
			all = append(all, text)
		}
		m["records"] = all
		list = append(list, m)
	}
	return list
}

func compacted(s *Side) {
	s.washable("a", "delete.retention.ms", "1")
	s.write("a", batchOf(of("a", "1"), of("b", "1"), of("c", "1")))
	s.write("a", batchOf(of("a", "2")))
	s.write("a", batchOf(of("b"), of("d", "1")))
	id := func(id int64, seq int32, records ...batch.Record) batch.Batch {
		return batchOf(records...).From(id, 0, seq)
	}
	s.write("a", id(900001, 0, of("e", "1"), of("f", "1")))
	s.write("a", id(900001, 2, of("e", "2"), of("f", "2")))
	s.write("a", id(900002, 0, of("g"), of("e")))
	s.write("a", batchOf(of("f", "3"), of("d", "2")))
	s.write("a", batchOf(of("", "an empty key"), of("a", "")))
	s.write("a", batchOf(of("z", "not cleaned")))
	s.clean("first", "a", 0)
	for _, at := range []int64{0, 1, 3, 6, 8, 12} {
		s.Check(fmt.Sprintf("from %d", at), s.remains("a", at))
	}
	s.write("a", batchOf(of("a", "3")))
	s.write("a", id(900001, 4, of("h", "1")))
	s.write("a", batchOf(of("z", "not cleaned")))
	s.clean("second", "a", 0)
	s.Check("later", s.remains("a", 0))
}

func compactedCodecs(s *Side) {
	for name, kind := range map[string]int8{"gzip": batch.Gzip, "snappy": batch.Snappy, "lz4": batch.LZ4, "zstd": batch.Zstd} {
		s.washable(name, "delete.retention.ms", "86400000", segmentBytes, "170")
		for i := range 3 {
			b := batchOf(of("a", fmt.Sprint(i)), of("b", fmt.Sprint(i)), of(fmt.Sprint("k", i), "v"), of("t"))
			b.Codec = kind
			s.write(name, b)
		}
		s.write(name, batchOf(of("z", "not cleaned")))
	}
	for _, name := range []string{"gzip", "snappy", "lz4", "zstd"} {
		s.clean(name, name, 0)
	}
}

// compactedAndDeleted moves the log start into a segment before it is cleaned.
func compactedAndDeleted(s *Side) {
	s.washable("a")
	for i := range 4 {
		s.write("a", batchOf(of("a", fmt.Sprint(i)), of(fmt.Sprint("k", i), "v"), of("b", fmt.Sprint(i))))
	}
	s.write("a", batchOf(of("z", "not cleaned")))
	s.Do(2, s.deleting(below{"a", 0, 4}))
	s.clean("cleaned", "a", 4)
	for _, at := range []int64{4, 5, 6, 9} {
		s.Check(fmt.Sprintf("from %d", at), s.remains("a", at))
	}
}
