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

// oldSetCases are those of message sets, which Kafka 4 has dropped: what clients
// before 0.11 produce, and what they are given.
func oldSetCases() []Case {
	return []Case{
		{API: kmsg.Produce, Name: "old sets", Old: true, Run: produceOldSets},
		{API: kmsg.Produce, Name: "old sets refused", Old: true, Run: produceOldRefused},
		{API: kmsg.Produce, Name: "old sets recompressed", Old: true, Run: produceOldRecompressed},
		{API: kmsg.Produce, Name: "old sets timestamps", Old: true, Run: produceOldTimestamps},
		{API: kmsg.Produce, Name: "old sets compacted", Old: true, Run: produceOldCompacted},
		{API: kmsg.Produce, Name: "old sets sizes", Old: true, Run: produceOldSizes},
		{API: kmsg.Fetch, Name: "old sets", Old: true, Run: fetchOldSets},
		{API: kmsg.Fetch, Name: "old sets limits", Old: true, Run: fetchOldLimits},
		{API: kmsg.Fetch, Name: "old sets zstd", Old: true, Run: fetchOldZstd},
		{API: kmsg.Fetch, Name: "old sets as produced", Old: true, Run: fetchOldProduced},
		{API: kmsg.Fetch, Name: "old sets compacted", Old: true, Run: fetchOldCompacted},
		{API: kmsg.Fetch, Name: "old sets compacted codecs", Old: true, Run: fetchOldCompactedCodecs},
	}
}

func produceOldSets(s *Side) {
	s.Patience = 3 * time.Second
	for magic := range int8(2) {
		topic := fmt.Sprintf("m%d", magic)
		s.createTopic(topic, 2)
		ask := func(what string, set []byte) { s.produce(fmt.Sprintf("magic %d: %s", magic, what), topic, set) }
		ask("one", batch.SetOf(batch.Messages(magic, "v")...))
		ask("three", batch.SetOf(batch.Messages(magic, "v", "w", "")...))
		ask("nulls and empties", batch.SetOf(batch.Message{Magic: magic}, batch.Message{Magic: magic, Key: []byte{}}, batch.Message{Magic: magic, Value: []byte{}}))
		same := batch.Messages(magic, "v", "w")
		same[0].Offset, same[1].Offset = 77, -5
		ask("offsets of any kind", batch.SetOf(same...))
		for codec := batch.Gzip; codec <= batch.LZ4; codec++ {
			name := fmt.Sprintf("codec %d: ", codec)
			ask(name+"three", batch.Wrapped(magic, codec, batch.Messages(magic, "v", "w", "x")...).Bytes())
			w := batch.Wrapped(magic, codec, batch.Messages(magic, "v", "w", "x")...)
			w.Offset = 0
			ask(name+"outer offset 0", w.Bytes())
			w.Offset = 40
			ask(name+"outer offset 40", w.Bytes())
			w.Key = []byte("not looked at")
			ask(name+"a key outside", w.Bytes())
			odd := batch.Messages(magic, "v", "w", "x")
			odd[0].Offset, odd[1].Offset, odd[2].Offset = 100, 90, 101
			w = batch.Wrapped(magic, codec, odd...)
			w.Offset = 101
			ask(name+"absolute offsets", w.Bytes())
			w = batch.Wrapped(magic, codec, batch.Message{Magic: magic}, batch.Message{Magic: magic, Offset: 1, Key: []byte{}, Value: []byte{}})
			ask(name+"nulls and empties", w.Bytes())
			w = batch.Wrapped(magic, codec, batch.Messages(magic, strings.Repeat("long", 30_000), "w")...)
			ask(name+"a long one", w.Bytes())
			ask(name+"cut behind it", append(batch.Wrapped(magic, codec, batch.Messages(magic, "v", "w")...).Bytes(), 1, 2, 3))
		}
		gz := func(set []byte) []byte {
			return batch.Message{Magic: magic, Attributes: batch.Gzip, Value: batch.Pack(batch.Gzip, set)}.Bytes()
		}
		two := batch.SetOf(batch.Messages(magic, "v", "w")...)
		ask("a packed set that is cut", gz(append(bytes.Clone(two), two[:25]...)))
		ask("a packed set that ends early", gz(append(bytes.Clone(two), 1, 2, 3)))
		ask("bytes behind a value", batch.SetOf(batch.Message{Magic: magic, Key: []byte("k"), Value: []byte("v"), Behind: []byte{1, 2}}))
		ask("bytes behind a packed value", gz(batch.SetOf(batch.Message{Magic: magic, Key: []byte("k"), Value: []byte("v"), Behind: []byte{1, 2}})))
		ask("a set that is cut", append(bytes.Clone(two), two[:25]...))
		ask("nothing whole", two[:25])
		ask("nothing", []byte{})
		ask("attribute bits", batch.SetOf(batch.Message{Magic: magic, Attributes: 0x70, Value: []byte("v")}))
		ask("negative lengths", batch.SetOf(batch.Message{Magic: magic, Value: []byte("v"), Spoil: func(m []byte) { m[len(m)-9] = 0xf0 }}))
		s.Ask(fmt.Sprintf("magic %d: acks 1", magic), s.writing(s.Version, 1, part{topic, 1, two}))
		s.AskNothing(fmt.Sprintf("magic %d: acks 0", magic), s.writing(s.Version, 0, part{topic, 1, two}))
		s.Ask(fmt.Sprintf("magic %d: good, bad and nothing", magic), s.writing(s.Version, -1, part{topic, 0, two}, part{topic, 1, two[:9]}, part{"no", 0, two}))
		s.stored(topic, topic, 0)
		s.stored(topic+"-1", topic, 1)
	}
}

func produceOldRefused(s *Side) {
	s.Patience = 3 * time.Second
	for magic := range int8(2) {
		topic := fmt.Sprintf("m%d", magic)
		s.createTopic(topic, 1)
		ask := func(what string, set []byte) { s.produce(fmt.Sprintf("magic %d: %s", magic, what), topic, set) }
		good := batch.SetOf(batch.Messages(magic, "v")...)
		flip := func(m []byte) { m[len(m)-1] ^= 1 }
		gz := func(set []byte) batch.Message {
			return batch.Message{Magic: magic, Attributes: batch.Gzip, Value: batch.Pack(batch.Gzip, set)}
		}
		keyAt := 6
		if magic == 1 {
			keyAt = 14
		}
		length := func(at int, n uint32) func([]byte) {
			return func(m []byte) { binary.BigEndian.PutUint32(m[at:], n) }
		}
		one := batch.Message{Magic: magic, Key: []byte("k"), Value: []byte("v")}
		with := func(f func(*batch.Message)) batch.Message { o := one; f(&o); return o }
		corrupt := with(func(o *batch.Message) { o.Corrupt = flip })
		ask("checksum", corrupt.Bytes())
		ask("checksum of the second", append(bytes.Clone(good), corrupt.Bytes()...))
		w := batch.Wrapped(magic, batch.Gzip, one)
		w.Corrupt = flip
		ask("checksum outside", w.Bytes())
		ask("checksum inside", gz(corrupt.Bytes()).Bytes())
		ask("checksum of the second inside", gz(append(bytes.Clone(good), corrupt.Bytes()...)).Bytes())
		ask("the other magic behind", append(bytes.Clone(good), batch.SetOf(batch.Messages(1-magic, "v")...)...))
		ask("a batch behind", append(bytes.Clone(good), plain("v").Bytes()...))
		ask("a set behind a batch", append(plain("v").Bytes(), good...))
		ask("the other magic inside", gz(batch.SetOf(batch.Messages(1-magic, "v")...)).Bytes())
		first := plain("v")
		first.First = 1 // its checksum stands where a message has its attributes
		ask("a batch inside", gz(first.Bytes()).Bytes())
		ask("packed twice", gz(batch.Wrapped(magic, batch.Gzip, one).Bytes()).Bytes())
		ask("two packed", append(batch.Wrapped(magic, batch.Gzip, one).Bytes(), batch.Wrapped(magic, batch.Gzip, one).Bytes()...))
		ask("packed behind plain", append(bytes.Clone(good), batch.Wrapped(magic, batch.Gzip, one).Bytes()...))
		ask("plain behind packed", append(batch.Wrapped(magic, batch.Gzip, one).Bytes(), good...))
		ask("packed behind a bad one", append(corrupt.Bytes(), batch.Wrapped(magic, batch.Gzip, one).Bytes()...))
		ask("zstd", batch.Wrapped(magic, batch.Zstd, one).Bytes())
		for codec := int8(5); codec <= 7; codec++ {
			ask(fmt.Sprintf("codec %d", codec), with(func(o *batch.Message) { o.Attributes = codec }).Bytes())
			ask(fmt.Sprintf("codec %d inside", codec), gz(with(func(o *batch.Message) { o.Attributes = codec }).Bytes()).Bytes())
		}
		for codec := batch.Gzip; codec <= batch.LZ4; codec++ {
			name := fmt.Sprintf("codec %d: ", codec)
			ask(name+"not packed at all", with(func(o *batch.Message) { o.Attributes = codec }).Bytes())
			ask(name+"null", with(func(o *batch.Message) { o.Attributes, o.Value = codec, nil }).Bytes())
			ask(name+"no bytes", with(func(o *batch.Message) { o.Attributes, o.Value = codec, []byte{} }).Bytes())
			w := batch.Wrapped(magic, codec)
			ask(name+"nothing packed", w.Bytes())
			w = batch.Wrapped(magic, codec, batch.Messages(magic, strings.Repeat("x", 500), "w")...)
			w.Value = w.Value[:len(w.Value)/2]
			ask(name+"half", w.Bytes())
			w = batch.Wrapped(magic, codec, batch.Messages(magic, strings.Repeat("x", 500), "w")...)
			w.Value = w.Value[:len(w.Value)-2]
			ask(name+"nearly all", w.Bytes())
		}
		ask("lz4 with the right checksum", batch.Message{Magic: magic, Attributes: batch.LZ4, Value: batch.LZ4Frame(good, batch.RightSum)}.Bytes())
		ask("lz4 with the wrong checksum", batch.Message{Magic: magic, Attributes: batch.LZ4, Value: batch.LZ4Frame(good, batch.WrongSum)}.Bytes())
		ask("lz4 with any checksum", batch.Message{Magic: magic, Attributes: batch.LZ4, Value: batch.LZ4Frame(good, 0x55)}.Bytes())
		ask("a length of 13 inside", gz([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}).Bytes())
		ask("a negative length inside", gz([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 13, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}).Bytes())
		ask("half a message inside", gz(good[:20]).Bytes())
		offsets := batch.Wrapped(magic, batch.Gzip, batch.Messages(magic, "v", "w", "x")...)
		offsets.Offset = 1
		ask("an outer offset below the inner", offsets.Bytes())
		ask("a key beyond", with(func(o *batch.Message) { o.Spoil = length(keyAt, 900) }).Bytes())
		ask("a value beyond", with(func(o *batch.Message) { o.Spoil = length(keyAt+5, 900) }).Bytes())
		ask("a key beyond inside", gz(with(func(o *batch.Message) { o.Spoil = length(keyAt, 900) }).Bytes()).Bytes())
		ask("a value beyond inside", gz(with(func(o *batch.Message) { o.Spoil = length(keyAt+5, 900) }).Bytes()).Bytes())
		ask("a length of 13", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13, 1, 2, 3, 4, byte(magic), 6, 7, 8, 9, 10, 11, 12, 13})
		short := append(binary.BigEndian.AppendUint32(make([]byte, 8), 14), 0, 0, 0, 0, byte(magic), 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
		ask("as short as can be", batch.Message{Magic: 0}.Bytes())
		ask("as short as can be, without a checksum", short)
		s.produce("magic 3", topic, append(bytes.Clone(good[:16]), append([]byte{3}, good[17:]...)...))
		// What is no message is seen before acks are looked at, where there is a partition.
		called := bytes.Clone(good)
		called[16] = 2
		for _, x := range []struct {
			what string
			set  []byte
		}{
			{"called a batch", called}, {"called a batch, behind a message", append(bytes.Clone(good), called...)},
			{"no length behind a message", append(bytes.Clone(good), make([]byte, 20)...)}, {"a wrong checksum", corrupt.Bytes()},
		} {
			s.Ask(fmt.Sprintf("magic %d: acks 2: %s", magic, x.what), s.writing(s.Version, 2, part{topic, 0, x.set}))
			s.Ask(fmt.Sprintf("magic %d: acks 2: %s, no such partition", magic, x.what), s.writing(s.Version, 2, part{topic, 7, x.set}))
		}
		s.AskNothing(fmt.Sprintf("magic %d: acks 0", magic), s.writing(s.Version, 0, part{topic, 0, corrupt.Bytes()}))
		s.stored(topic, topic, 0)
	}
}

func produceOldRecompressed(s *Side) {
	long := strings.Repeat("compressible ", 100)
	for _, kind := range []string{"uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"} {
		s.createTopic(kind, 1, "compression.type", kind)
		for magic := range int8(2) {
			ask := func(what string, set []byte) {
				s.produce(fmt.Sprintf("%s, magic %d: %s", kind, magic, what), kind, set)
			}
			ask("plain", batch.SetOf(batch.Messages(magic, long, "x")...))
			ask("gzip", batch.Wrapped(magic, batch.Gzip, batch.Messages(magic, long, "x")...).Bytes())
			ask("snappy", batch.Wrapped(magic, batch.Snappy, batch.Messages(magic, long, "x")...).Bytes())
			ask("lz4", batch.Wrapped(magic, batch.LZ4, batch.Messages(magic, long, "x")...).Bytes())
			ask("bad", batch.Wrapped(magic, batch.Gzip, batch.Message{Magic: magic, Corrupt: func(m []byte) { m[0]++ }}).Bytes())
		}
		s.stored(kind, kind, 0)
	}
}

func produceOldTimestamps(s *Side) {
	before := []string{"message.timestamp.before.max.ms", "10800000", "message.timestamp.after.max.ms", "60000"}
	s.createTopic("window", 1, before...)
	s.createTopic("append", 1, "message.timestamp.type", "LogAppendTime")
	s.createTopic("append-gzip", 1, "message.timestamp.type", "LogAppendTime", "compression.type", "gzip")
	const flagged = 8
	for _, topic := range []string{"window", "append", "append-gzip"} {
		ask := func(what string, set []byte) { s.produce(topic+": "+what, topic, set) }
		stamped := func(times ...int64) []batch.Message {
			var out []batch.Message
			for i, at := range times {
				out = append(out, batch.Message{Magic: 1, Offset: int64(i), At: at, Key: []byte("k"), Value: []byte("v")})
			}
			return out
		}
		both := func(what string, times ...int64) {
			ask(what, batch.SetOf(stamped(times...)...))
			ask(what+", packed", batch.Wrapped(1, batch.Gzip, stamped(times...)...).Bytes())
		}
		ask("magic 0", batch.SetOf(batch.Messages(0, "v", "w")...))
		ask("magic 0, packed", batch.Wrapped(0, batch.Gzip, batch.Messages(0, "v", "w")...).Bytes())
		both("usual", then, then+1, then+2)
		both("none", -1)
		both("none and usual", -1, then)
		both("usual and none", then, -1)
		both("below none", -2)
		both("smallest", math.MinInt64)
		both("largest", math.MaxInt64)
		both("descending", then, then-5, then-10)
		both("too late", then+5*3600e3)
		both("too early", then-5*3600e3)
		both("one of three too late", then, then+5*3600e3, then)
		one := stamped(then, then+3)
		one[0].Attributes = flagged
		ask("one flagged", batch.SetOf(one...))
		one[0].At = -1
		ask("one flagged without a time", batch.SetOf(one...))
		w := batch.Wrapped(1, batch.Gzip, stamped(then, then+3)...)
		w.At = then + 1000
		ask("a time outside", w.Bytes())
		w.Attributes |= flagged
		ask("flagged outside", w.Bytes())
		w.At = -1
		ask("flagged outside without a time", w.Bytes())
		w = batch.Wrapped(1, batch.Gzip, one...)
		ask("flagged inside", w.Bytes())
		zero := batch.Messages(0, "v")
		zero[0].Attributes = flagged
		ask("magic 0, flagged", batch.SetOf(zero...))
		if topic == "window" {
			for _, t := range []int64{-3, then - 10, then - 5, then, then + 1, then + 2, then + 3, then + 1000, then + 1001} {
				s.AskIn(7, fmt.Sprintf("offset at %d", t-then), s.listing(listed{topic: topic, at: t}))
			}
		}
		s.stored(topic, topic, 0)
	}
}

func produceOldCompacted(s *Side) {
	s.createTopic("a", 1, "cleanup.policy", "compact", "message.timestamp.after.max.ms", "3600000")
	for magic := range int8(2) {
		ask := func(what string, set []byte) { s.produce(fmt.Sprintf("magic %d: %s", magic, what), "a", set) }
		keyless := batch.Message{Magic: magic, Value: []byte("v")}
		good := batch.Messages(magic, "v", "w")
		late := batch.Message{Magic: magic, Key: []byte("k"), At: then + 9*3600e3}
		ask("keys", batch.SetOf(good...))
		ask("tombstone and empty key", batch.SetOf(batch.Message{Magic: magic, Key: []byte("k")}, batch.Message{Magic: magic, Key: []byte{}}))
		ask("one without", batch.SetOf(good[0], keyless, good[1]))
		ask("one without, packed", batch.Wrapped(magic, batch.Gzip, good[0], keyless, good[1]).Bytes())
		ask("one without and one too late", batch.SetOf(keyless, late))
		ask("one too late and one without", batch.SetOf(late, keyless))
		ask("one without and one too late, packed", batch.Wrapped(magic, batch.Gzip, keyless, late).Bytes())
		bad := good[0]
		bad.Corrupt = func(m []byte) { m[0]++ }
		ask("one without and one bad, packed", batch.Wrapped(magic, batch.Gzip, keyless, bad).Bytes())
		w := batch.Wrapped(magic, batch.Gzip, good...)
		w.Key = nil
		ask("no key outside", w.Bytes())
	}
	s.stored("a", "a", 0)
}

func produceOldSizes(s *Side) {
	s.createTopic("small", 1, "max.message.bytes", "200")
	s.createTopic("segment", 1, "max.message.bytes", "3000000", "segment.bytes", "1048576")
	s.createTopic("unpacked", 1, "max.message.bytes", "200", "compression.type", "uncompressed")
	for magic := range int8(2) {
		ask := func(what, topic string, set []byte) { s.produce(fmt.Sprintf("magic %d: %s", magic, what), topic, set) }
		sized := func(n int) []byte {
			return batch.Message{Magic: magic, Value: make([]byte, n-len(batch.Message{Magic: magic, Value: []byte{}}.Bytes()))}.Bytes()
		}
		for _, n := range []int{120, 150, 170, 199, 200, 201} {
			ask(fmt.Sprintf("a message of %d", n), "small", sized(n))
			ask(fmt.Sprintf("two messages of %d", n/2), "small", append(sized(n/2), sized(n/2)...))
		}
		ask("small when packed", "small", batch.Wrapped(magic, batch.Gzip, batch.Messages(magic, strings.Repeat("a", 5000))...).Bytes())
		ask("large when unpacked", "unpacked", batch.Wrapped(magic, batch.Gzip, batch.Messages(magic, strings.Repeat("a", 5000))...).Bytes())
		corrupt := sized(300)
		corrupt[13]++
		ask("too large and corrupt", "small", corrupt)
		ask("above the segment", "segment", sized(1048577))
		ask("messages above the segment", "segment", append(sized(600_000), sized(600_000)...))
	}
	s.stored("small", "small", 0)
}

// given asks for records and compares the messages in place of the bytes.
func (s *Side) given(what string, req *kmsg.FetchRequest) {
	s.AskFor(what, req, func(r kmsg.Response) {
		resp := r.(*kmsg.FetchResponse)
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				p := &resp.Topics[i].Partitions[j]
				if p.RecordBatches == nil {
					continue // null is not empty
				}
				s.Check(fmt.Sprintf("%s, messages of %s-%d", what, strings.TrimPrefix(resp.Topics[i].Topic, s.Prefix), p.Partition), batch.Sets(p.RecordBatches))
				p.RecordBatches = []byte{}
			}
		}
	})
}

func (s *Side) give(what string, parts ...read) { s.given(what, s.reading(s.Version, parts...)) }

// oldTopic writes batches of every form into a topic.
func (s *Side) oldTopic(name string, kind int8, configs ...string) {
	s.createTopic(name, 1, configs...)
	odd := plain("v", "")
	odd.Records = append(odd.Records, batch.Record{}, batch.Record{Key: []byte{}, Value: []byte{}, At: 7}, batch.Record{Value: []byte("h"), Headers: [][2][]byte{{[]byte("a"), []byte("b")}, {[]byte("a"), nil}}})
	odd.Codec = kind
	s.write(name, odd)
	none := plain("w", strings.Repeat("compressible ", 300))
	none.First, none.Codec = -1, kind
	s.write(name, none)
	one := plain("x")
	one.Codec = kind
	s.write(name, one)
}

var oldCodecs = map[string]int8{"none": batch.None, "gzip": batch.Gzip, "snappy": batch.Snappy, "lz4": batch.LZ4}

func fetchOldSets(s *Side) {
	for _, name := range []string{"none", "gzip", "snappy", "lz4"} {
		s.oldTopic(name, oldCodecs[name])
		s.oldTopic(name+"-append", oldCodecs[name], "message.timestamp.type", "LogAppendTime")
		for o := range int64(9) {
			s.give(fmt.Sprintf("%s from %d", name, o), read{topic: name, offset: o})
		}
		s.give(name+" beyond", read{topic: name, offset: 9})
		s.give(name+" of append time", read{topic: name + "-append"})
		s.give(name+" of append time from 2", read{topic: name + "-append", offset: 2})
		s.writeTo(name, 0, plain("y").From(7000, 0, 0))
		s.give(name+" of a producer", read{topic: name, offset: 8})
		s.createTopic("topic-"+name, 1, "compression.type", map[string]string{"none": "uncompressed"}[name]+strings.TrimPrefix(name, "none"))
		s.write("topic-"+name, plain(strings.Repeat("compressible ", 100), "x"))
		s.give("recompressed "+name, read{topic: "topic-" + name})
		s.Do(1, s.deleting(below{name, 0, 3}))
		s.give(name+" below the log start", read{topic: name, offset: 2})
		s.give(name+" from the log start", read{topic: name, offset: 3})
	}
	s.give("several", read{topic: "none", offset: 3}, read{topic: "gzip", offset: 3}, read{topic: "no"}, read{topic: "lz4-append"}, read{topic: "none", index: 5})
}

// fetchOldLimits asks with every limit: a set that is cut or filled is so to the
// byte where nothing is compressed.
func fetchOldLimits(s *Side) {
	s.Patience = time.Second
	for _, name := range []string{"none", "gzip", "lz4"} {
		s.oldTopic(name, oldCodecs[name])
	}
	s.createTopic("many", 1)
	var sizes []int
	for i := range 40 {
		b := plain()
		for j := range 20 {
			b.Records = append(b.Records, batch.Record{Value: []byte{byte(i), byte(j)}})
		}
		sizes = append(sizes, len(b.Bytes()))
		s.write("many", b)
	}
	for _, max := range []int32{none, 1, 11, 12, 50, 100, 150, 200, 260, 300, 400, 1000, int32(sizes[0]) - 1, int32(sizes[0]), int32(sizes[0]) + 1, 5 * int32(sizes[0]), math.MaxInt32} {
		for _, from := range []int64{0, 4, 7} {
			s.fetch(fmt.Sprintf("plain, max %d, from %d", max, from), read{topic: "none", max: max, offset: from})
			s.fetch(fmt.Sprintf("many, max %d, from %d", max, from), read{topic: "many", max: max, offset: from})
			s.fetch(fmt.Sprintf("both, max %d, from %d", max, from), read{topic: "many", max: max, offset: from}, read{topic: "none", max: max, offset: from})
		}
	}
	for _, most := range []int32{0, 1, 100, 500, 3000} {
		req := s.reading(s.Version, read{topic: "many"}, read{topic: "none"})
		req.MaxBytes = most
		s.Ask(fmt.Sprintf("at most %d", most), req)
	}
	s.give("packed, max 1", read{topic: "gzip", max: 1}, read{topic: "lz4", max: 1})
	s.give("packed, max 0", read{topic: "lz4", max: none}, read{topic: "gzip", max: none})
}

func fetchOldZstd(s *Side) {
	s.Patience = time.Second
	z := plain("v", "w")
	z.Codec = batch.Zstd
	s.createTopic("a", 1)
	s.write("a", z)
	s.write("a", plain("x"))
	s.createTopic("b", 1)
	s.write("b", plain("x", "y"))
	s.write("b", z)
	s.write("b", plain("z"))
	for o := range int64(4) {
		s.fetch(fmt.Sprintf("first, from %d", o), read{topic: "a", offset: o})
	}
	for o := range int64(6) {
		s.fetch(fmt.Sprintf("second, from %d", o), read{topic: "b", offset: o})
	}
	s.createTopic("topic", 1, "compression.type", "zstd")
	s.fetch("a topic of it, empty", read{topic: "topic"})
	s.fetch("a topic of it, out of range", read{topic: "topic", offset: 4})
	s.write("topic", plain("x"))
	s.fetch("a topic of it", read{topic: "topic"}, read{topic: "b"})
	s.fetch("a topic of it, no such partition", read{topic: "topic", index: 3})
	s.createTopic("before", 1)
	s.write("before", plain("x"))
	s.alterTopic("before", "compression.type", "zstd")
	s.fetch("a topic that was plain", read{topic: "before"})
}

// alterTopic sets a topic's config.
func (s *Side) alterTopic(name, key, value string) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, s.Topic(name)
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = key, &value
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	s.Do(1, req)
	pause(300)
}

// fetchOldProduced gives what old clients wrote to old clients.
func fetchOldProduced(s *Side) {
	s.createTopic("a", 1)
	for magic := range int8(2) {
		for codec := range int8(4) {
			m := batch.Messages(magic, "v", "w", strings.Repeat("x", 400))
			set := batch.SetOf(m...)
			if codec > 0 {
				set = batch.Wrapped(magic, codec, m...).Bytes()
			}
			req := s.writing(2, -1, part{"a", 0, set})
			o := s.Do(2, req)
			if resp, ok := o.Response.(*kmsg.ProduceResponse); !ok || resp.Topics[0].Partitions[0].ErrorCode != 0 {
				s.Fail("writing: %v", o)
			}
		}
	}
	for o := int64(0); o <= 24; o += 2 {
		s.give(fmt.Sprintf("from %d", o), read{topic: "a", offset: o})
	}
}
