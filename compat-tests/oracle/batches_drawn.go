package oracle

import (
	"fmt"
	"math"
	"millrace/compat-tests/batch"
	"strings"
)

// draws of batches: what is said of one, and what it is.
func (g *gen) batch() (string, batch.Batch) {
	n := 1 + g.IntN(4)
	if g.chance(5) {
		n = 30
	}
	var values []string
	for range n {
		values = append(values, strings.Repeat(oneOf(g.Rand, "v", "w", "x"), oneOf(g.Rand, 0, 1, 5, 40, 150)))
	}
	b := batch.New(values...)
	what := fmt.Sprintf("%d records", n)
	if g.chance(35) {
		b.Codec = int8(1 + g.IntN(4))
		what += []string{"", " in gzip", " in snappy", " in lz4", " in zstd"}[b.Codec]
	}
	for i := range b.Records {
		r := &b.Records[i]
		if g.chance(12) {
			r.Key = nil
		}
		if g.chance(8) {
			r.Value = nil
		}
		if g.chance(15) {
			r.Headers = [][2][]byte{{[]byte("h"), nil}, {[]byte("h"), []byte("x")}}
		}
	}
	if g.chance(30) {
		b.First = then + int64(g.IntN(5000)) - 2500
	}
	if !g.chance(45) {
		return what, b
	}
	odd, f := g.oddity()
	f(&b)
	return what + ", " + odd, b
}

// oddity is something about a batch that need not be bad.
func (g *gen) oddity() (string, func(*batch.Batch)) {
	type odd struct {
		what string
		f    func(*batch.Batch)
	}
	delta, big := int64(g.IntN(9)-4), int64(g.IntN(1000))
	return func(o odd) (string, func(*batch.Batch)) { return o.what, o.f }(oneOf(g.Rand,
		odd{"base offset 1", func(b *batch.Batch) { b.Base = 1 }},
		odd{"base offset -1", func(b *batch.Batch) { b.Base = -1 }},
		odd{"leader epoch 77", func(b *batch.Batch) { b.LeaderEpoch = 77 }},
		odd{"magic 0", func(b *batch.Batch) { b.Magic = 0 }},
		odd{"magic 1", func(b *batch.Batch) { b.Magic = 1 }},
		odd{"magic 3", func(b *batch.Batch) { b.Magic = 3 }},
		odd{"a wrong checksum", func(b *batch.Batch) { b.Spoil = func(x []byte) []byte { x[17] ^= 1; return x } }},
		odd{"a flipped bit", func(b *batch.Batch) { b.Spoil = func(x []byte) []byte { x[len(x)-1] ^= 1; return x } }},
		odd{"cut by 3 bytes", func(b *batch.Batch) { b.Spoil = func(x []byte) []byte { return x[:len(x)-3] } }},
		odd{"5 bytes of it", func(b *batch.Batch) { b.Spoil = func(x []byte) []byte { return x[:5] } }},
		odd{"empty", func(b *batch.Batch) { b.Spoil = func(x []byte) []byte { return x[:0] } }},
		odd{"stray bytes behind", func(b *batch.Batch) { b.Spoil = func(x []byte) []byte { return append(x, 1, 2, 3) } }},
		odd{"twice", func(b *batch.Batch) { b.Spoil = func(x []byte) []byte { return append(x, x...) } }},
		odd{"length too small", func(b *batch.Batch) { b.Spoil = func(x []byte) []byte { x[11] -= 5; return x } }},
		odd{"count 0", func(b *batch.Batch) { b.Count = batch.To(int32(0)) }},
		odd{"count -1", func(b *batch.Batch) { b.Count = batch.To(int32(-1)) }},
		odd{"count one more", func(b *batch.Batch) { b.Count = batch.To(int32(len(b.Records) + 1)) }},
		odd{"count and delta one more", func(b *batch.Batch) {
			b.Count, b.LastDelta = batch.To(int32(len(b.Records)+1)), batch.To(int32(len(b.Records)))
		}},
		odd{"delta one more", func(b *batch.Batch) { b.LastDelta = batch.To(int32(len(b.Records))) }},
		odd{"offset deltas with a gap", func(b *batch.Batch) { b.Records[len(b.Records)-1].Delta = batch.To(int64(len(b.Records) + 2)) }},
		odd{"offset deltas that go back", func(b *batch.Batch) { b.Records[len(b.Records)-1].Delta = batch.To(int64(-1)) }},
		odd{"no records", func(b *batch.Batch) { b.Records = nil }},
		odd{"no records, delta 0", func(b *batch.Batch) { b.Records, b.LastDelta = nil, batch.To(int32(0)) }},
		odd{"control", func(b *batch.Batch) { b.Attributes |= 1 << 5 }},
		odd{"transactional", func(b *batch.Batch) { b.Attributes |= 1 << 4 }},
		odd{"flagged append time", func(b *batch.Batch) { b.Attributes |= 1 << 3 }},
		odd{"flagged append time, no time", func(b *batch.Batch) { b.Attributes |= 1 << 3; b.First = -1 }},
		odd{"unknown bits", func(b *batch.Batch) { b.Attributes |= 1<<7 | 1<<12 }},
		odd{"delete horizon", func(b *batch.Batch) { b.Attributes |= 1 << 6 }},
		odd{"codec 5", func(b *batch.Batch) { b.Codec = 5 }},
		odd{"codec 7", func(b *batch.Batch) { b.Codec = 7 }},
		odd{"claims gzip", func(b *batch.Batch) { b.Codec = 0; b.Attributes |= 1 }},
		odd{"claims zstd", func(b *batch.Batch) { b.Codec = 0; b.Attributes |= 4 }},
		odd{"no timestamps", func(b *batch.Batch) { b.First = -1; clearTimes(b) }},
		odd{"timestamps below none", func(b *batch.Batch) { b.First = -2; clearTimes(b) }},
		odd{"smallest timestamp", func(b *batch.Batch) { b.First = math.MinInt64; clearTimes(b) }},
		odd{"largest timestamp", func(b *batch.Batch) { b.First = math.MaxInt64; clearTimes(b) }},
		odd{"from 1970", func(b *batch.Batch) { b.First = 1 }},
		odd{"in five hours", func(b *batch.Batch) { b.First = then + 7*3600e3 }},
		odd{"last record in five hours", func(b *batch.Batch) { b.Records[len(b.Records)-1].At = 7 * 3600e3 }},
		odd{"descending", func(b *batch.Batch) {
			for i := range b.Records {
				b.Records[i].At = -int64(i) * 10
			}
		}},
		odd{"scattered", func(b *batch.Batch) {
			for i := range b.Records {
				b.Records[i].At = (int64(i)*big + delta) % 97
			}
		}},
		odd{"largest timestamp wrong in the header", func(b *batch.Batch) { b.Most = batch.To(b.First + delta) }},
		odd{"no largest timestamp in the header", func(b *batch.Batch) { b.Most = batch.To(int64(-1)) }},
		odd{"a producer without a sequence", func(b *batch.Batch) { b.Producer, b.Epoch, b.Sequence = 1000, 0, -1 }},
		odd{"a producer without an epoch", func(b *batch.Batch) { b.Producer, b.Epoch, b.Sequence = 1000, -1, 0 }},
		odd{"a byte behind the records", func(b *batch.Batch) { b.Trailing = []byte{0} }},
		odd{"a record behind the last", func(b *batch.Batch) { b.Trailing = []byte{12, 0, 0, 4, 1, 1, 0} }},
		odd{"attributes of a record", func(b *batch.Batch) { b.Records[0].Body = []byte{9, 0, 0, 1, 1, 0} }},
		odd{"key length -2", func(b *batch.Batch) { b.Records[0].Body = []byte{0, 0, 0, 3, 1, 0} }},
		odd{"key beyond the record", func(b *batch.Batch) { b.Records[0].Body = []byte{0, 0, 0, 40, 1, 0} }},
		odd{"value beyond the record", func(b *batch.Batch) { b.Records[0].Body = []byte{0, 0, 0, 1, 40, 0} }},
		odd{"header count -1", func(b *batch.Batch) { b.Records[0].Body = []byte{0, 0, 0, 1, 1, 1} }},
		odd{"header count too large", func(b *batch.Batch) { b.Records[0].Body = []byte{0, 0, 0, 1, 1, 100} }},
		odd{"a null header key", func(b *batch.Batch) { b.Records[0].Body = []byte{0, 0, 0, 1, 1, 2, 1, 0} }},
		odd{"a record too long for its fields", func(b *batch.Batch) { b.Records[0].Body = []byte{0, 0, 0, 1, 1, 0, 7, 7} }},
		odd{"a record of one byte", func(b *batch.Batch) { b.Records[0].Body = []byte{0} }},
		odd{"an endless varint", func(b *batch.Batch) {
			b.Records[0].Body = []byte{0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}
		}},
		odd{"a value of 1000 bytes", func(b *batch.Batch) { b.Records[0].Value = make([]byte, 1000) }},
		odd{"a packed value of 5000 bytes", func(b *batch.Batch) { b.Codec = 1; b.Records[0].Value = make([]byte, 5000) }},
		odd{"a value beyond a segment", func(b *batch.Batch) { b.Codec = 0; b.Records[0].Value = make([]byte, 1048570) }},
		odd{"broken at its start", func(b *batch.Batch) {
			b.Spoil = func(x []byte) []byte {
				for i := 61; i < len(x) && i < 69; i++ {
					x[i] ^= 0x5a
				}
				return batch.Resum(x)
			}
		}},
	))
}

func clearTimes(b *batch.Batch) {
	for i := range b.Records {
		b.Records[i].At = 0
	}
}
