package frames

import (
	"fmt"
	"math"
	"millrace/compat-tests/batch"
	"strings"
)

func produceTimestamps(s *Side) {
	s.createTopic("a", 1)
	s.createTopic("window", 1, "message.timestamp.before.max.ms", "10800000", "message.timestamp.after.max.ms", "60000")
	stamped := func(first int64, more ...int64) batch.Batch {
		b := plain("v")
		b.First = first
		for _, m := range more {
			r := batch.Valued("w")
			r.At = m
			b.Records = append(b.Records, r)
		}
		return b
	}
	for _, topic := range []string{"a", "window"} {
		ask := func(what string, b batch.Batch) { s.produce(topic+": "+what, topic, b.Bytes()) }
		ask("usual", stamped(then, 1, 2))
		ask("none", stamped(-1))
		ask("none and usual", stamped(-1, 0, then))
		ask("below none", stamped(-2))
		ask("smallest", stamped(math.MinInt64))
		ask("largest", stamped(math.MaxInt64))
		ask("1970", stamped(1))
		ask("in an hour and a half", stamped(then+3*3600e3+1800e3))
		ask("two of three", stamped(then, 5, 9*3600e3, 10*3600e3))
		ask("descending", stamped(then, -5, -10))
		wrong := stamped(then, 10)
		wrong.Most = batch.To(then)
		ask("largest too small in the header", wrong)
		wrong.Most = batch.To(then + 3600e3*50)
		ask("largest too large in the header", wrong)
		wrong.Most = batch.To(int64(-1))
		ask("no largest in the header", wrong)
		flagged := stamped(then, 3)
		flagged.Attributes = 1 << 3
		ask("flagged append time", flagged)
		flagged = stamped(-1)
		flagged.Attributes = 1 << 3
		ask("flagged append time without one", flagged)
		packed := stamped(then, 7, 3)
		packed.Codec = batch.Gzip
		ask("packed", packed)
		packed.Most = batch.To(then)
		ask("packed, largest wrong in the header", packed)
		packed.Attributes = 1 << 3
		ask("packed and flagged", packed)
	}
	s.stored("a", "a", 0)
	s.stored("window", "window", 0)
}

// produceTimestampsRecompressed: odd timestamps where every record is written anew.
func produceTimestampsRecompressed(s *Side) {
	s.createTopic("create", 1, "compression.type", "gzip", "message.timestamp.after.max.ms", "60000")
	s.createTopic("append", 1, "compression.type", "gzip", "message.timestamp.type", "LogAppendTime")
	s.createTopic("plain", 1, "compression.type", "uncompressed", "message.timestamp.after.max.ms", "60000")
	for _, topic := range []string{"create", "append", "plain"} {
		for _, codec := range []int8{batch.None, batch.Gzip, batch.LZ4} {
			ask := func(what string, first int64, more ...int64) {
				b := plain("v")
				b.First, b.Codec = first, codec
				for _, m := range more {
					r := batch.Valued("w")
					r.At = m
					b.Records = append(b.Records, r)
				}
				s.produce(fmt.Sprintf("%s: %s, codec %v", topic, what, codec), topic, b.Bytes())
				b.Attributes = 1 << 3
				s.produce(fmt.Sprintf("%s: %s flagged, codec %v", topic, what, codec), topic, b.Bytes())
			}
			ask("usual", then, 3, 1)
			ask("none", -1, 0)
			ask("none and usual", -1, then)
			ask("usual and none", then, -then-1)
			ask("below none", -2)
			ask("one below none", then, -then-7)
			ask("smallest", math.MinInt64)
			ask("too late", then+9*3600e3)
			odd := plain("v", "w")
			odd.Codec, odd.Records[0].At, odd.Records[1].At = codec, 5, 2
			odd.Records[1].Body = []byte{9, 4, 2, 2, 'k', 2, 'w', 0} // with attributes of its own
			s.produce(fmt.Sprintf("%s: odd records, codec %v", topic, codec), topic, odd.Bytes())
			large := plain("v", strings.Repeat("large ", 20_000), "w")
			large.Codec, large.Records[1].At, large.Records[0].At = codec, 3, 2
			large.Records[1].Headers = [][2][]byte{{[]byte("h"), []byte(strings.Repeat("x", 40_000))}}
			s.produce(fmt.Sprintf("%s: a large record, codec %v", topic, codec), topic, large.Bytes())
		}
	}
	for _, topic := range []string{"create", "append", "plain"} {
		s.stored(topic, topic, 0)
	}
}

func produceAppendTime(s *Side) {
	s.createTopic("a", 1, "message.timestamp.type", "LogAppendTime")
	s.createTopic("packed", 1, "message.timestamp.type", "LogAppendTime", "compression.type", "lz4")
	for _, topic := range []string{"a", "packed"} {
		ask := func(what string, b batch.Batch) { s.produce(topic+": "+what, topic, b.Bytes()) }
		ask("usual", plain("v", "w"))
		old := plain("v")
		old.First = 5
		ask("old", old)
		none := plain("v")
		none.First = -1
		ask("none", none)
		flagged := plain("v", "w")
		flagged.Attributes = 1 << 3
		ask("flagged", flagged)
		gz := plain("v", "w")
		gz.Codec = batch.Gzip
		ask("packed", gz)
		gz.Attributes = 1 << 3
		ask("packed and flagged", gz)
		ask("a producer's", plain("p").From(2000, 0, 0))
		ask("a producer's again", plain("p").From(2000, 0, 0))
	}
	s.stored("a", "a", 0)
	s.stored("packed", "packed", 0)
}
