package frames

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
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
	}
}

func produceOldSets(s *Side) {
	s.Patience = 3 * time.Second
	for magic := range int8(2) {
		topic := fmt.Sprintf("m%d", magic)
		s.createTopic(topic, 2)
		ask := func(what string, set []byte) { s.produce(fmt.Sprintf("magic %d: %s", magic, what), topic, set) }
		ask("one", setOf(olds(magic, "v")...))
		ask("three", setOf(olds(magic, "v", "w", "")...))
		ask("nulls and empties", setOf(old{magic: magic}, old{magic: magic, key: []byte{}}, old{magic: magic, value: []byte{}}))
		same := olds(magic, "v", "w")
		same[0].offset, same[1].offset = 77, -5
		ask("offsets of any kind", setOf(same...))
		for codec := int8(inGzip); codec <= inLZ4; codec++ {
			name := fmt.Sprintf("codec %d: ", codec)
			ask(name+"three", wrapped(magic, codec, olds(magic, "v", "w", "x")...).bytes())
			w := wrapped(magic, codec, olds(magic, "v", "w", "x")...)
			w.offset = 0
			ask(name+"outer offset 0", w.bytes())
			w.offset = 40
			ask(name+"outer offset 40", w.bytes())
			w.key = []byte("not looked at")
			ask(name+"a key outside", w.bytes())
			odd := olds(magic, "v", "w", "x")
			odd[0].offset, odd[1].offset, odd[2].offset = 100, 90, 101
			w = wrapped(magic, codec, odd...)
			w.offset = 101
			ask(name+"absolute offsets", w.bytes())
			w = wrapped(magic, codec, old{magic: magic}, old{magic: magic, offset: 1, key: []byte{}, value: []byte{}})
			ask(name+"nulls and empties", w.bytes())
			w = wrapped(magic, codec, olds(magic, strings.Repeat("long", 30_000), "w")...)
			ask(name+"a long one", w.bytes())
			ask(name+"cut behind it", append(wrapped(magic, codec, olds(magic, "v", "w")...).bytes(), 1, 2, 3))
		}
		gz := func(set []byte) []byte {
			return old{magic: magic, attributes: inGzip, value: packed(kgo.GzipCompression(), set)}.bytes()
		}
		two := setOf(olds(magic, "v", "w")...)
		ask("a packed set that is cut", gz(append(bytes.Clone(two), two[:25]...)))
		ask("a packed set that ends early", gz(append(bytes.Clone(two), 1, 2, 3)))
		ask("bytes behind a value", setOf(old{magic: magic, key: []byte("k"), value: []byte("v"), behind: []byte{1, 2}}))
		ask("bytes behind a packed value", gz(setOf(old{magic: magic, key: []byte("k"), value: []byte("v"), behind: []byte{1, 2}})))
		ask("a set that is cut", append(bytes.Clone(two), two[:25]...))
		ask("nothing whole", two[:25])
		ask("nothing", []byte{})
		ask("attribute bits", setOf(old{magic: magic, attributes: 0x70, value: []byte("v")}))
		ask("negative lengths", setOf(old{magic: magic, value: []byte("v"), spoil: func(m []byte) { m[len(m)-9] = 0xf0 }}))
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
		good := setOf(olds(magic, "v")...)
		flip := func(m []byte) { m[len(m)-1] ^= 1 }
		gz := func(set []byte) old {
			return old{magic: magic, attributes: inGzip, value: packed(kgo.GzipCompression(), set)}
		}
		keyAt := 6
		if magic == 1 {
			keyAt = 14
		}
		length := func(at int, n uint32) func([]byte) {
			return func(m []byte) { binary.BigEndian.PutUint32(m[at:], n) }
		}
		one := old{magic: magic, key: []byte("k"), value: []byte("v")}
		with := func(f func(*old)) old { o := one; f(&o); return o }
		corrupt := with(func(o *old) { o.corrupt = flip })
		ask("checksum", corrupt.bytes())
		ask("checksum of the second", append(bytes.Clone(good), corrupt.bytes()...))
		w := wrapped(magic, inGzip, one)
		w.corrupt = flip
		ask("checksum outside", w.bytes())
		ask("checksum inside", gz(corrupt.bytes()).bytes())
		ask("checksum of the second inside", gz(append(bytes.Clone(good), corrupt.bytes()...)).bytes())
		ask("the other magic behind", append(bytes.Clone(good), setOf(olds(1-magic, "v")...)...))
		ask("a batch behind", append(bytes.Clone(good), plain("v").bytes()...))
		ask("a set behind a batch", append(plain("v").bytes(), good...))
		ask("the other magic inside", gz(setOf(olds(1-magic, "v")...)).bytes())
		batch := plain("v")
		batch.at = 1 // its checksum stands where a message has its attributes
		ask("a batch inside", gz(batch.bytes()).bytes())
		ask("packed twice", gz(wrapped(magic, inGzip, one).bytes()).bytes())
		ask("two packed", append(wrapped(magic, inGzip, one).bytes(), wrapped(magic, inGzip, one).bytes()...))
		ask("packed behind plain", append(bytes.Clone(good), wrapped(magic, inGzip, one).bytes()...))
		ask("plain behind packed", append(wrapped(magic, inGzip, one).bytes(), good...))
		ask("packed behind a bad one", append(corrupt.bytes(), wrapped(magic, inGzip, one).bytes()...))
		ask("zstd", wrapped(magic, inZstd, one).bytes())
		for codec := int8(5); codec <= 7; codec++ {
			ask(fmt.Sprintf("codec %d", codec), with(func(o *old) { o.attributes = codec }).bytes())
			ask(fmt.Sprintf("codec %d inside", codec), gz(with(func(o *old) { o.attributes = codec }).bytes()).bytes())
		}
		for codec := int8(inGzip); codec <= inLZ4; codec++ {
			name := fmt.Sprintf("codec %d: ", codec)
			ask(name+"not packed at all", with(func(o *old) { o.attributes = codec }).bytes())
			ask(name+"null", with(func(o *old) { o.attributes, o.value = codec, nil }).bytes())
			ask(name+"no bytes", with(func(o *old) { o.attributes, o.value = codec, []byte{} }).bytes())
			w := wrapped(magic, codec)
			ask(name+"nothing packed", w.bytes())
			w = wrapped(magic, codec, olds(magic, strings.Repeat("x", 500), "w")...)
			w.value = w.value[:len(w.value)/2]
			ask(name+"half", w.bytes())
			w = wrapped(magic, codec, olds(magic, strings.Repeat("x", 500), "w")...)
			w.value = w.value[:len(w.value)-2]
			ask(name+"nearly all", w.bytes())
		}
		ask("lz4 with the right checksum", old{magic: magic, attributes: inLZ4, value: lz4Frame(good, rightSum)}.bytes())
		ask("lz4 with the wrong checksum", old{magic: magic, attributes: inLZ4, value: lz4Frame(good, wrongSum)}.bytes())
		ask("lz4 with any checksum", old{magic: magic, attributes: inLZ4, value: lz4Frame(good, 0x55)}.bytes())
		ask("a length of 13 inside", gz([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}).bytes())
		ask("a negative length inside", gz([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 13, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}).bytes())
		ask("half a message inside", gz(good[:20]).bytes())
		offsets := wrapped(magic, inGzip, olds(magic, "v", "w", "x")...)
		offsets.offset = 1
		ask("an outer offset below the inner", offsets.bytes())
		ask("a key beyond", with(func(o *old) { o.spoil = length(keyAt, 900) }).bytes())
		ask("a value beyond", with(func(o *old) { o.spoil = length(keyAt+5, 900) }).bytes())
		ask("a key beyond inside", gz(with(func(o *old) { o.spoil = length(keyAt, 900) }).bytes()).bytes())
		ask("a value beyond inside", gz(with(func(o *old) { o.spoil = length(keyAt+5, 900) }).bytes()).bytes())
		ask("a length of 13", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13, 1, 2, 3, 4, byte(magic), 6, 7, 8, 9, 10, 11, 12, 13})
		short := append(binary.BigEndian.AppendUint32(make([]byte, 8), 14), 0, 0, 0, 0, byte(magic), 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
		ask("as short as can be", old{magic: 0}.bytes())
		ask("as short as can be, without a checksum", short)
		s.produce("magic 3", topic, append(bytes.Clone(good[:16]), append([]byte{3}, good[17:]...)...))
		s.AskNothing(fmt.Sprintf("magic %d: acks 0", magic), s.writing(s.Version, 0, part{topic, 0, corrupt.bytes()}))
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
			ask("plain", setOf(olds(magic, long, "x")...))
			ask("gzip", wrapped(magic, inGzip, olds(magic, long, "x")...).bytes())
			ask("snappy", wrapped(magic, inSnappy, olds(magic, long, "x")...).bytes())
			ask("lz4", wrapped(magic, inLZ4, olds(magic, long, "x")...).bytes())
			ask("bad", wrapped(magic, inGzip, old{magic: magic, corrupt: func(m []byte) { m[0]++ }}).bytes())
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
		stamped := func(times ...int64) []old {
			var out []old
			for i, at := range times {
				out = append(out, old{magic: 1, offset: int64(i), at: at, key: []byte("k"), value: []byte("v")})
			}
			return out
		}
		both := func(what string, times ...int64) {
			ask(what, setOf(stamped(times...)...))
			ask(what+", packed", wrapped(1, inGzip, stamped(times...)...).bytes())
		}
		ask("magic 0", setOf(olds(0, "v", "w")...))
		ask("magic 0, packed", wrapped(0, inGzip, olds(0, "v", "w")...).bytes())
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
		one[0].attributes = flagged
		ask("one flagged", setOf(one...))
		one[0].at = -1
		ask("one flagged without a time", setOf(one...))
		w := wrapped(1, inGzip, stamped(then, then+3)...)
		w.at = then + 1000
		ask("a time outside", w.bytes())
		w.attributes |= flagged
		ask("flagged outside", w.bytes())
		w.at = -1
		ask("flagged outside without a time", w.bytes())
		w = wrapped(1, inGzip, one...)
		ask("flagged inside", w.bytes())
		zero := olds(0, "v")
		zero[0].attributes = flagged
		ask("magic 0, flagged", setOf(zero...))
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
		keyless := old{magic: magic, value: []byte("v")}
		good := olds(magic, "v", "w")
		late := old{magic: magic, key: []byte("k"), at: then + 9*3600e3}
		ask("keys", setOf(good...))
		ask("tombstone and empty key", setOf(old{magic: magic, key: []byte("k")}, old{magic: magic, key: []byte{}}))
		ask("one without", setOf(good[0], keyless, good[1]))
		ask("one without, packed", wrapped(magic, inGzip, good[0], keyless, good[1]).bytes())
		ask("one without and one too late", setOf(keyless, late))
		ask("one too late and one without", setOf(late, keyless))
		ask("one without and one too late, packed", wrapped(magic, inGzip, keyless, late).bytes())
		bad := good[0]
		bad.corrupt = func(m []byte) { m[0]++ }
		ask("one without and one bad, packed", wrapped(magic, inGzip, keyless, bad).bytes())
		w := wrapped(magic, inGzip, good...)
		w.key = nil
		ask("no key outside", w.bytes())
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
			return old{magic: magic, value: make([]byte, n-len(old{magic: magic, value: []byte{}}.bytes()))}.bytes()
		}
		for _, n := range []int{120, 150, 170, 199, 200, 201} {
			ask(fmt.Sprintf("a message of %d", n), "small", sized(n))
			ask(fmt.Sprintf("two messages of %d", n/2), "small", append(sized(n/2), sized(n/2)...))
		}
		ask("small when packed", "small", wrapped(magic, inGzip, olds(magic, strings.Repeat("a", 5000))...).bytes())
		ask("large when unpacked", "unpacked", wrapped(magic, inGzip, olds(magic, strings.Repeat("a", 5000))...).bytes())
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
				s.Check(fmt.Sprintf("%s, messages of %s-%d", what, strings.TrimPrefix(resp.Topics[i].Topic, s.Prefix), p.Partition), sets(p.RecordBatches))
				p.RecordBatches = []byte{}
			}
		}
	})
}

func (s *Side) give(what string, parts ...read) { s.given(what, s.reading(s.Version, parts...)) }

// oldTopic writes batches of every form into a topic.
func (s *Side) oldTopic(name string, kind kgo.CompressionCodec, configs ...string) {
	s.createTopic(name, 1, configs...)
	odd := plain("v", "")
	odd.records = append(odd.records, rec{}, rec{key: []byte{}, value: []byte{}, at: 7}, rec{value: []byte("h"), headers: [][2][]byte{{[]byte("a"), []byte("b")}, {[]byte("a"), nil}}})
	odd.codec = kind
	s.write(name, odd)
	none := plain("w", strings.Repeat("compressible ", 300))
	none.at, none.codec = -1, kind
	s.write(name, none)
	one := plain("x")
	one.codec = kind
	s.write(name, one)
}

var oldCodecs = map[string]kgo.CompressionCodec{"none": {}, "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression()}

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
		s.writeTo(name, 0, plain("y").from(7000, 0, 0))
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
			b.records = append(b.records, rec{value: []byte{byte(i), byte(j)}})
		}
		sizes = append(sizes, len(b.bytes()))
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
	z.codec = kgo.ZstdCompression()
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
			m := olds(magic, "v", "w", strings.Repeat("x", 400))
			set := setOf(m...)
			if codec > 0 {
				set = wrapped(magic, codec, m...).bytes()
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
