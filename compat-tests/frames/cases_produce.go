package frames

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"millrace/compat-tests/batch"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func produceCases() []Case {
	return []Case{
		{API: kmsg.Produce, Name: "good", Run: produceGood},
		{API: kmsg.Produce, Name: "acks", Run: produceAcks},
		{API: kmsg.Produce, Name: "unknown", Run: produceUnknown},
		{API: kmsg.Produce, Name: "shape", Run: produceShape},
		{API: kmsg.Produce, Name: "batch header", Run: produceHeader},
		{API: kmsg.Produce, Name: "records", From: 3, Run: produceRecords},
		{API: kmsg.Produce, Name: "codecs", From: 3, Run: produceCodecs},
		{API: kmsg.Produce, Name: "recompressed", Run: produceRecompressed},
		{API: kmsg.Produce, Name: "timestamps", From: 3, Run: produceTimestamps},
		{API: kmsg.Produce, Name: "timestamps recompressed", From: 3, Run: produceTimestampsRecompressed},
		{API: kmsg.Produce, Name: "levels", From: 3, Run: produceLevels},
		{API: kmsg.Produce, Name: "decompressed", From: 3, Run: produceDecompressed},
		{API: kmsg.Produce, Name: "append time", Run: produceAppendTime},
		{API: kmsg.Produce, Name: "compacted", From: 3, Run: produceCompacted},
		{API: kmsg.Produce, Name: "sizes", Run: produceSizes},
		{API: kmsg.Produce, Name: "idempotence", Run: produceIdempotent},
		{API: kmsg.Produce, Name: "transactional without an id", Run: produceTransactional},
		{API: kmsg.Produce, Name: "null records", Run: func(s *Side) {
			s.createTopic("a", 1)
			s.Patience = 2500 * time.Millisecond
			s.produce("null records", "a", nil)
		}},
	}
}

func produceGood(s *Side) {
	s.createTopic("a", 2)
	s.createTopic("b", 1)
	s.Ask("one", s.writing(s.Version, -1, part{"a", 0, plain("v").Bytes()}))
	s.Ask("acks 1", s.writing(s.Version, 1, part{"a", 0, plain("x", "y").Bytes()}))
	odd := plain("", "w")
	odd.Records = append(odd.Records, batch.Record{}, batch.Record{Key: []byte{}, Value: []byte{}}, batch.Record{Key: []byte("k"), At: 5},
		batch.Record{Value: []byte("h"), Headers: [][2][]byte{{[]byte("a"), []byte("b")}, {[]byte("a"), nil}, {{}, {}}}})
	s.produce("nulls, empties and headers", "a", odd.Bytes())
	s.Ask("several", s.writing(s.Version, -1, part{"a", 0, plain("1").Bytes()}, part{"a", 1, plain("2").Bytes()}, part{"b", 0, plain("3").Bytes()}))
	s.Ask("good and bad", s.writing(s.Version, -1, part{"a", 0, plain("4").Bytes()}, part{"a", 7, plain("5").Bytes()}, part{"no", 0, plain("6").Bytes()}))
	s.Ask("nothing", s.writing(s.Version, -1))
	empty := s.writing(s.Version, -1)
	t := kmsg.NewProduceRequestTopic()
	t.Topic = s.Topic("a")
	if s.Version >= 13 {
		t.TopicID = s.id("a")
	}
	empty.Topics = append(empty.Topics, t)
	s.Ask("a topic without partitions", empty)
	zero := s.writing(s.Version, -1, part{"a", 0, plain("z").Bytes()})
	zero.TimeoutMillis = 0
	s.Ask("no time", zero)
	zero.TimeoutMillis = -5
	s.Ask("negative time", zero)
	s.stored("a-0", "a", 0)
	s.stored("a-1", "a", 1)
	s.stored("b-0", "b", 0)
}

func produceAcks(s *Side) {
	s.createTopic("a", 1, "min.insync.replicas", "2")
	for _, acks := range []int16{2, -2, 100} {
		s.Ask(fmt.Sprintf("acks %d", acks), s.writing(s.Version, acks, part{"a", 0, plain("v").Bytes()}))
	}
	s.Ask("two in-sync replicas wanted, of one", s.writing(s.Version, -1, part{"a", 0, plain("v").Bytes()}))
	s.AskNothing("acks 0", s.writing(s.Version, 0, part{"a", 0, plain("w").Bytes()}))
	s.AskNothing("acks 0, unknown partition", s.writing(s.Version, 0, part{"a", 5, plain("w").Bytes()}))
	bad := plain("w")
	bad.Base = 3
	s.AskNothing("acks 0, bad batch", s.writing(s.Version, 0, part{"a", 0, bad.Bytes()}))
	s.AskNothing("acks 0, one of two bad", s.writing(s.Version, 0, part{"a", 0, plain("x").Bytes()}, part{"a", 5, plain("x").Bytes()}))
	s.AskNothing("acks 0, nothing", s.writing(s.Version, 0))
	s.stored("a", "a", 0)
}

func produceUnknown(s *Side) {
	s.createTopic("a", 1)
	b := plain("v").Bytes()
	s.produce("topic", "no", b)
	s.produce("malformed name", "a b", b)
	for _, p := range []int32{1, -1, math.MaxInt32, math.MinInt32} {
		s.Ask(fmt.Sprintf("partition %d", p), s.writing(s.Version, -1, part{"a", p, b}))
	}
	s.Ask("partition, bad batch", s.writing(s.Version, -1, part{"a", 9, []byte{1, 2}}))
	s.Ask("topic, bad batch", s.writing(s.Version, -1, part{"no", 0, []byte{1, 2}}))
	s.Ask("topic, bad acks", s.writing(s.Version, 9, part{"no", 0, b}))
	req := s.writing(s.Version, -1, part{"a", 0, b})
	req.Topics[0].Topic = "__consumer_offsets"
	if s.Version >= 13 {
		req.Topics[0].TopicID = s.idOf("__consumer_offsets")
	}
	s.Ask("internal topic", req)
	req.Acks = 5
	s.Ask("internal topic, bad acks", req)
	if s.Version >= 13 {
		req := s.writing(s.Version, -1, part{"a", 0, b})
		req.Topics[0].TopicID = [16]byte{}
		s.Ask("zero id", req)
		req.Topics[0].Topic = "" // not on the wire
		req.Topics[0].TopicID = stranger
		s.Ask("a stranger's id", req)
	}
}

func produceShape(s *Side) {
	s.createTopic("a", 2)
	good := plain("v").Bytes()
	with := func(f func(b []byte)) []byte {
		b := bytes.Clone(good)
		f(b)
		return b
	}
	for _, c := range []struct {
		what    string
		records []byte
	}{
		{"empty", []byte{}},
		{"three bytes", []byte{1, 2, 3}},
		{"twelve bytes", good[:12]},
		{"sixteen bytes", good[:16]},
		{"seventeen bytes", good[:17]},
		{"a header alone", good[:61]},
		{"one byte short", good[:len(good)-1]},
		{"two batches", append(bytes.Clone(good), good...)},
		{"a batch and half of one", append(bytes.Clone(good), good[:40]...)},
		{"a stray byte", append(bytes.Clone(good), 0)},
		{"zeros behind", append(bytes.Clone(good), make([]byte, 30)...)},
		{"length 0", with(func(b []byte) { binary.BigEndian.PutUint32(b[8:], 0) })},
		{"length 13", with(func(b []byte) { binary.BigEndian.PutUint32(b[8:], 13) })},
		{"length 14", with(func(b []byte) { binary.BigEndian.PutUint32(b[8:], 14) })},
		{"length 48", with(func(b []byte) { binary.BigEndian.PutUint32(b[8:], 48) })},
		{"length -1", with(func(b []byte) { binary.BigEndian.PutUint32(b[8:], math.MaxUint32) })},
		{"length of 2 GiB", with(func(b []byte) { binary.BigEndian.PutUint32(b[8:], math.MaxInt32) })},
		{"magic 0 in a batch", with(func(b []byte) { b[16] = 0 })},
		{"magic 1 in a batch", with(func(b []byte) { b[16] = 1 })},
		{"magic 3", with(func(b []byte) { b[16] = 3 })},
		{"magic 127", with(func(b []byte) { b[16] = 127 })},
		{"magic -1", with(func(b []byte) { b[16] = 0xff })},
		{"message set 0", batch.SetOf(batch.Message{Magic: 0, Value: []byte("old")})},
		{"message set 1", batch.SetOf(batch.Message{Magic: 1, Value: []byte("old")})},
		{"two message sets", append(batch.SetOf(batch.Message{Magic: 1, Value: []byte("old")}), batch.SetOf(batch.Message{Magic: 1, Value: []byte("old")})...)},
	} {
		s.produce(c.what, "a", c.records)
	}
	s.Ask("bad acks and a bad batch", s.writing(s.Version, 7, part{"a", 0, []byte{1}}))
	s.Ask("a partition twice", s.writing(s.Version, -1, part{"a", 0, plain("first").Bytes()}, part{"a", 0, plain("second").Bytes()}))
	apart := s.writing(s.Version, -1, part{"a", 0, plain("third").Bytes()}, part{"a", 1, plain("4").Bytes()})
	apart.Topics = append(apart.Topics, s.writing(s.Version, -1, part{"a", 0, plain("fourth").Bytes()}).Topics...)
	s.Ask("a topic twice", apart)
	s.stored("a", "a", 0)
	s.stored("a-1", "a", 1)

	s.createTopic("c", 2)
	s.Ask("a partition twice, the last bad", s.writing(s.Version, -1, part{"c", 0, plain("first").Bytes()}, part{"c", 0, []byte{1}}))
	s.stored("a partition twice, the last bad", "c", 0)
	s.createTopic("d", 2)
	s.Ask("a good one, and one with length 13", s.writing(s.Version, -1, part{"d", 0, plain("w").Bytes()}, part{"d", 1, with(func(b []byte) { binary.BigEndian.PutUint32(b[8:], 13) })}))
	s.AskNothing("with length 13 and acks 0", s.writing(s.Version, 0, part{"d", 1, with(func(b []byte) { binary.BigEndian.PutUint32(b[8:], 13) })}))
	s.Ask("a good one, and one with magic 3", s.writing(s.Version, -1, part{"d", 0, plain("w").Bytes()}, part{"d", 1, with(func(b []byte) { b[16] = 3 })}))
	s.Ask("a good one, and one with codec 5", s.writing(s.Version, -1, part{"d", 0, plain("w").Bytes()}, part{"d", 1, with(func(b []byte) { b[22] = 5; batch.Resum(b) })}))
	s.Ask("a good one, and one cut", s.writing(s.Version, -1, part{"d", 0, plain("w").Bytes()}, part{"d", 1, good[:30]}))
	s.Ask("a topic nobody has, and one with length 13", s.writing(s.Version, -1, part{"no", 0, plain("w").Bytes()}, part{"d", 1, with(func(b []byte) { binary.BigEndian.PutUint32(b[8:], 13) })}))
	s.stored("what was good beside what was not", "d", 0)
}

func produceHeader(s *Side) {
	s.createTopic("a", 1)
	bad := func(what string, f func(b *batch.Batch)) {
		b := plain("v", "w")
		f(&b)
		s.produce(what, "a", b.Bytes())
	}
	s.write("a", plain("so that offsets do not begin at 0"))
	bad("base offset 1", func(b *batch.Batch) { b.Base = 1 })
	bad("base offset -1", func(b *batch.Batch) { b.Base = -1 })
	bad("leader epoch", func(b *batch.Batch) { b.LeaderEpoch = 77 })
	bad("checksum", func(b *batch.Batch) { b.Spoil = func(b []byte) []byte { b[17] ^= 1; return b } })
	bad("a flipped bit", func(b *batch.Batch) { b.Spoil = func(b []byte) []byte { b[len(b)-1] ^= 1; return b } })
	bad("count 0", func(b *batch.Batch) { b.Count = batch.To(int32(0)) })
	bad("count -1", func(b *batch.Batch) { b.Count = batch.To(int32(-1)) })
	bad("count 3", func(b *batch.Batch) { b.Count = batch.To(int32(3)) })
	bad("count 1", func(b *batch.Batch) { b.Count = batch.To(int32(1)) })
	bad("count 3 and delta 2", func(b *batch.Batch) { b.Count, b.LastDelta = batch.To(int32(3)), batch.To(int32(2)) })
	bad("count 1 and delta 0", func(b *batch.Batch) { b.Count, b.LastDelta = batch.To(int32(1)), batch.To(int32(0)) })
	bad("count of 2 thousand million", func(b *batch.Batch) {
		b.Count, b.LastDelta = batch.To(int32(math.MaxInt32)), batch.To(int32(math.MaxInt32-1))
	})
	bad("delta 5", func(b *batch.Batch) { b.LastDelta = batch.To(int32(5)) })
	bad("delta -1", func(b *batch.Batch) { b.LastDelta = batch.To(int32(-1)) })
	bad("delta -1 and count 0", func(b *batch.Batch) { b.Count, b.LastDelta = batch.To(int32(0)), batch.To(int32(-1)) })
	bad("no records", func(b *batch.Batch) { b.Records = nil })
	bad("no records, delta 0", func(b *batch.Batch) { b.Records, b.LastDelta = nil, batch.To(int32(0)) })
	bad("control", func(b *batch.Batch) { b.Attributes = 1 << 5 })
	bad("unknown bits", func(b *batch.Batch) { b.Attributes = 1<<7 | 1<<12 })
	bad("delete horizon bit", func(b *batch.Batch) { b.Attributes = 1 << 6 })
	for codec := int16(5); codec <= 7; codec++ {
		bad(fmt.Sprintf("codec %d", codec), func(b *batch.Batch) { b.Attributes = codec })
	}
	bad("producer without a sequence", func(b *batch.Batch) { *b = b.From(1000, 0, -1) })
	bad("producer without an epoch", func(b *batch.Batch) { *b = b.From(1001, -1, 0) })
	bad("a sequence without a producer", func(b *batch.Batch) {
		b.Spoil = func(x []byte) []byte {
			binary.BigEndian.PutUint32(x[53:], 5)
			return batch.Resum(x)
		}
	})
	bad("control and two records", func(b *batch.Batch) { b.Attributes = 1<<5 | 1<<4 })
	s.stored("a", "a", 0)
}

func produceRecords(s *Side) {
	s.createTopic("a", 2)
	for i, packed := range []int8{batch.None, batch.Gzip, batch.Zstd} {
		name := "plain: "
		if packed != (batch.None) {
			name = fmt.Sprintf("packed %d: ", i)
		}
		// What Kafka takes and Millrace does not has a partition of its own, so
		// that offsets stay alike.
		index, isPacked := int32(0), packed != batch.None
		bad := func(what string, f func(b *batch.Batch)) {
			b := plain("v", "w")
			f(&b)
			b.Codec = packed
			s.Ask(name+what, s.writing(s.Version, -1, part{"a", index, b.Bytes()}))
			index = 0
		}
		bad("good", func(*batch.Batch) {})
		if !isPacked {
			index = 1
		}
		bad("deltas swapped", func(b *batch.Batch) { b.Records[0].Delta, b.Records[1].Delta = batch.To(int64(1)), batch.To(int64(0)) })
		if !isPacked {
			index = 1
		}
		bad("deltas with a gap", func(b *batch.Batch) { b.Records[1].Delta = batch.To(int64(4)) })
		if !isPacked {
			index = 1
		}
		bad("a negative delta", func(b *batch.Batch) { b.Records[0].Delta = batch.To(int64(-1)) })
		bad("a byte behind", func(b *batch.Batch) { b.Trailing = []byte{0} })
		bad("a record behind", func(b *batch.Batch) { b.Trailing = []byte{12, 0, 0, 4, 1, 1, 0} })
		if isPacked {
			index = 1
		}
		bad("length too small", func(b *batch.Batch) { b.Records[1].Length = batch.To(int64(3)) })
		if isPacked {
			index = 1
		}
		bad("length too large", func(b *batch.Batch) { b.Records[1].Length = batch.To(int64(300)) })
		bad("length -1", func(b *batch.Batch) { b.Records[1].Length = batch.To(int64(-1)) })
		if isPacked {
			index = 1
		}
		bad("length 0", func(b *batch.Batch) { b.Records[1].Length = batch.To(int64(0)) })
		bad("length huge", func(b *batch.Batch) { b.Records[1].Length = batch.To(int64(math.MaxInt32)) })
		bad("length beyond 32 bits", func(b *batch.Batch) { b.Records[1].Length = batch.To(int64(1) << 40) })
		body := func(fields ...byte) func(*batch.Batch) { return func(b *batch.Batch) { b.Records[1].Body = fields } }
		// attributes, time delta 0, offset delta 1, key, value, headers
		bad("record attributes", body(9, 0, 2, 1, 1, 0))
		bad("key length -2", body(0, 0, 2, 3, 1, 0))
		bad("key beyond the record", body(0, 0, 2, 40, 1, 0))
		bad("value length -2", body(0, 0, 2, 1, 3, 0))
		bad("value beyond the record", body(0, 0, 2, 1, 40, 0))
		bad("header count -1", body(0, 0, 2, 1, 1, 1))
		bad("header count too large", body(0, 0, 2, 1, 1, 100))
		bad("header count huge", body(0, 0, 2, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f))
		bad("a null header key", body(0, 0, 2, 1, 1, 2, 1, 0))
		bad("header value beyond", body(0, 0, 2, 1, 1, 2, 2, 'k', 40))
		bad("header value length -2", body(0, 0, 2, 1, 1, 2, 2, 'k', 3))
		bad("no headers field", body(0, 0, 2, 1, 1))
		bad("bytes left in the record", body(0, 0, 2, 1, 1, 0, 7, 7))
		bad("only attributes", body(0))
		bad("an endless varint", body(0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff))
	}
	s.stored("a", "a", 0)
}

func produceCodecs(s *Side) {
	s.createTopic("a", 1)
	long := plain(strings.Repeat("compressible ", 300), "x", strings.Repeat("y", 2000))
	for _, c := range []struct {
		name  string
		codec int8
	}{
		{"gzip", batch.Gzip}, {"snappy", batch.Snappy}, {"lz4", batch.LZ4}, {"zstd", batch.Zstd},
	} {
		b := long
		b.Codec = c.codec
		s.produce(c.name, "a", b.Bytes())
		broken := b
		broken.Spoil = func(x []byte) []byte {
			for i := range 8 {
				x[61+i] ^= 0x5a
			}
			return batch.Resum(x)
		}
		s.produce(c.name+" broken at its start", "a", broken.Bytes())
		broken.Spoil = func(x []byte) []byte {
			x = x[:len(x)-len(x[61:])/2]
			binary.BigEndian.PutUint32(x[8:], uint32(len(x)-12))
			return batch.Resum(x)
		}
		s.produce(c.name+" cut", "a", broken.Bytes())
		broken.Spoil = func(x []byte) []byte {
			x = append(x, 1, 2, 3, 4, 5, 6, 7, 8)
			binary.BigEndian.PutUint32(x[8:], uint32(len(x)-12))
			return batch.Resum(x)
		}
		s.produce(c.name+" with bytes behind", "a", broken.Bytes())
		broken.Spoil, broken.Packed = nil, []byte{}
		s.produce(c.name+" of nothing", "a", broken.Bytes())
		short := b
		short.Count, short.LastDelta = batch.To(int32(2)), batch.To(int32(1))
		s.produce(c.name+" with a record too many", "a", short.Bytes())
		more := b
		more.Count, more.LastDelta = batch.To(int32(4)), batch.To(int32(3))
		s.produce(c.name+" with a record too few", "a", more.Bytes())
	}
	s.stored("a", "a", 0)
}

func produceRecompressed(s *Side) {
	long := plain(strings.Repeat("compressible ", 100), "x")
	long.Records[1].Headers = [][2][]byte{{[]byte("h"), nil}}
	for _, kind := range []string{"uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"} {
		s.createTopic(kind, 1, "compression.type", kind)
		b := long
		s.produce(kind+" from plain", kind, b.Bytes())
		b.Codec = batch.Gzip
		s.produce(kind+" from gzip", kind, b.Bytes())
		b.Attributes = 1<<9 | 1<<3
		s.produce(kind+" with odd attributes", kind, b.Bytes())
		b.Attributes = 0
		b.Records = append(b.Records, batch.Record{Body: []byte{0, 0, 4, 1, 1, 40}})
		s.produce(kind+" from a bad batch", kind, b.Bytes())
		s.produce(kind+" of a producer", kind, plain("1", "2").From(500, 0, 0).Bytes())
		s.produce(kind+" of a producer again", kind, plain("1", "2").From(500, 0, 0).Bytes())
		s.stored(kind, kind, 0)
	}
}

// produceLevels: what a topic stores with a level of its own unpacks to the same.
func produceLevels(s *Side) {
	long := plain(strings.Repeat("compressible ", 3000), "x")
	for _, c := range [][3]string{{"gzip", "compression.gzip.level", "9"}, {"gzip", "compression.gzip.level", "1"}, {"lz4", "compression.lz4.level", "17"}, {"lz4", "compression.lz4.level", "1"},
		{"zstd", "compression.zstd.level", "19"}, {"zstd", "compression.zstd.level", "-5"}} {
		topic := c[0] + c[2]
		s.createTopic(topic, 1, "compression.type", c[0], c[1], c[2])
		b := long
		s.produce(topic+" from plain", topic, b.Bytes())
		b.Codec = batch.Snappy
		s.produce(topic+" from snappy", topic, b.Bytes())
		s.stored(topic, topic, 0)
	}
}

func produceDecompressed(s *Side) {
	for _, kind := range []string{"producer", "gzip", "uncompressed"} {
		s.createTopic(kind, 1, "max.decompressed.message.bytes", "1000", "compression.type", kind)
		for _, codec := range []int8{batch.None, batch.Gzip, batch.Snappy, batch.Zstd} {
			if s.Version < 7 && codec == batch.Zstd {
				continue
			}
			for _, n := range []int{500, 990, 991, 992, 993, 1000, 5000} {
				b := plain("v", strings.Repeat("x", n))
				b.Codec = codec
				s.produce(fmt.Sprintf("%s: a value of %d, codec %v", kind, n, codec), kind, b.Bytes())
			}
		}
		s.stored(kind, kind, 0)
	}
}

func produceCompacted(s *Side) {
	s.createTopic("a", 1, "cleanup.policy", "compact")
	s.createTopic("both", 1, "cleanup.policy", "compact,delete")
	for _, topic := range []string{"a", "both"} {
		ask := func(what string, b batch.Batch) { s.produce(topic+": "+what, topic, b.Bytes()) }
		ask("with keys", plain("v", "w"))
		b := plain("v", "w", "x")
		b.Records[0].Key, b.Records[2].Key = nil, nil
		ask("without", b)
		b.Codec = batch.Snappy
		ask("without, packed", b)
		b.Codec = batch.None
		b.Records[1].At = 1000 * 3600e3
		ask("without, and one too late", b)
		empty := plain("v")
		empty.Records[0].Key = []byte{}
		ask("empty key", empty)
		tomb := plain("v")
		tomb.Records[0].Value = nil
		ask("tombstone", tomb)
	}
	s.stored("a", "a", 0)
}

func produceSizes(s *Side) {
	s.createTopic("small", 1, "max.message.bytes", "200")
	size := func(n int) batch.Batch {
		b := plain("")
		for missing := n; missing > 0; missing = n - len(b.Bytes()) {
			// Longer values have longer lengths: come close from below.
			b.Records[0].Value = append(b.Records[0].Value, make([]byte, max(1, missing-70))...)
		}
		return b
	}
	s.produce("at the limit", "small", size(200).Bytes())
	s.produce("above the limit", "small", size(201).Bytes())
	packed := plain(strings.Repeat("a", 5000))
	packed.Codec = batch.Gzip
	s.produce("small when packed", "small", packed.Bytes())
	s.createTopic("unpacked", 1, "max.message.bytes", "200", "compression.type", "uncompressed")
	s.produce("large when unpacked", "unpacked", packed.Bytes())
	s.createTopic("segment", 1, "max.message.bytes", "3000000", "segment.bytes", "1048576")
	s.produce("above the segment", "segment", size(1048577).Bytes())
	s.produce("at the segment", "segment", size(1048576).Bytes())
	both := size(201)
	both.Base = 5
	s.produce("too large and at a wrong offset", "small", both.Bytes())
	both = size(201)
	both.Spoil = func(b []byte) []byte { b[17]++; return b }
	s.produce("too large and corrupt", "small", both.Bytes())
	s.createTopic("zero", 1, "max.message.bytes", "0")
	s.produce("nothing fits", "zero", plain("v").Bytes())
	s.stored("small", "small", 0)
}

func produceIdempotent(s *Side) {
	s.createTopic("a", 1)
	s.createTopic("b", 1)
	const id = 3000
	n := 0
	send := func(what string, b batch.Batch) {
		n++
		s.produce(fmt.Sprintf("%d %s", n, what), "a", b.Bytes())
	}
	send("first", plain("0", "1").From(id, 0, 0))
	send("the same again", plain("0", "1").From(id, 0, 0))
	send("part of it", plain("0").From(id, 0, 0))
	send("the other part", plain("1").From(id, 0, 1))
	send("next", plain("2").From(id, 0, 2))
	send("a gap", plain("9").From(id, 0, 9))
	send("an epoch too old", plain("3").From(id, -1, 3))
	send("overlapping", plain("2", "3").From(id, 0, 2))
	for i := range 5 {
		send("more", plain("m").From(id, 0, int32(3+i)))
	}
	send("the fifth last again", plain("m").From(id, 0, 3))
	send("one that is forgotten again", plain("2").From(id, 0, 2))
	send("the first again", plain("0", "1").From(id, 0, 0))
	send("new epoch, not at 0", plain("e").From(id, 1, 8))
	send("new epoch", plain("e").From(id, 1, 0))
	send("the old epoch", plain("e").From(id, 0, 8))
	send("new epoch again", plain("e").From(id, 1, 0))
	send("new epoch next", plain("e").From(id, 1, 1))
	send("two epochs on", plain("e").From(id, 9, 0))
	send("unknown producer, any sequence", plain("u").From(id+1, 5, 77))
	send("its next", plain("u").From(id+1, 5, 78))
	send("its duplicate", plain("u").From(id+1, 5, 77))
	send("at the end of the sequence", plain("w", "w").From(id+2, 0, math.MaxInt32-1))
	send("wraps to 0", plain("w").From(id+2, 0, 0))
	send("wraps inside", plain("w", "w", "w").From(id+3, 0, math.MaxInt32))
	send("after wrapping inside", plain("w").From(id+3, 0, 2))
	send("wrapped again", plain("w", "w", "w").From(id+3, 0, math.MaxInt32))
	s.Ask("acks 1 and a duplicate", s.writing(s.Version, 1, part{"a", 0, plain("w").From(id+3, 0, 2).Bytes()}))
	s.Ask("two partitions, one out of order", s.writing(s.Version, -1,
		part{"a", 0, plain("x").From(id+3, 0, 9).Bytes()}, part{"b", 0, plain("x").From(id+3, 0, 0).Bytes()}))
	none := plain("n").From(id+4, 0, 0)
	none.First = -1
	send("without a timestamp", none)
	send("without a timestamp again", none)
	s.stored("a", "a", 0)
	s.stored("b", "b", 0)
}

func produceTransactional(s *Side) {
	s.createTopic("a", 1)
	b := plain("v").From(4000, 0, 0)
	b.Attributes = 1 << 4
	s.Ask("one", s.writing(s.Version, -1, part{"a", 0, b.Bytes()}))
	s.Ask("one of two", s.writing(s.Version, -1, part{"a", 0, b.Bytes()}, part{"no", 0, plain("v").Bytes()}))
	s.AskNothing("acks 0", s.writing(s.Version, 0, part{"a", 0, b.Bytes()}))
}
