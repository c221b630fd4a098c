package oracle

import (
	"fmt"
	"math"
	"strings"
)

// draws of batches: what is said of one, and what it is.
func (g *gen) batch() (string, batch) {
	n := 1 + g.IntN(4)
	if g.chance(5) {
		n = 30
	}
	var values []string
	for range n {
		values = append(values, strings.Repeat(oneOf(g.Rand, "v", "w", "x"), oneOf(g.Rand, 0, 1, 5, 40, 150)))
	}
	b := newBatch(values...)
	what := fmt.Sprintf("%d records", n)
	if g.chance(35) {
		b.codec = int8(1 + g.IntN(4))
		what += []string{"", " in gzip", " in snappy", " in lz4", " in zstd"}[b.codec]
	}
	for i := range b.records {
		r := &b.records[i]
		if g.chance(12) {
			r.key = nil
		}
		if g.chance(8) {
			r.value = nil
		}
		if g.chance(15) {
			r.headers = [][2][]byte{{[]byte("h"), nil}, {[]byte("h"), []byte("x")}}
		}
	}
	if g.chance(30) {
		b.first = then + int64(g.IntN(5000)) - 2500
	}
	if !g.chance(45) {
		return what, b
	}
	odd, f := g.oddity()
	f(&b)
	return what + ", " + odd, b
}

// oddity is something about a batch that need not be bad.
func (g *gen) oddity() (string, func(*batch)) {
	type odd struct {
		what string
		f    func(*batch)
	}
	delta, big := int64(g.IntN(9)-4), int64(g.IntN(1000))
	return func(o odd) (string, func(*batch)) { return o.what, o.f }(oneOf(g.Rand,
		odd{"base offset 1", func(b *batch) { b.base = 1 }},
		odd{"base offset -1", func(b *batch) { b.base = -1 }},
		odd{"leader epoch 77", func(b *batch) { b.leaderEpoch = 77 }},
		odd{"magic 0", func(b *batch) { b.magic = 0 }},
		odd{"magic 1", func(b *batch) { b.magic = 1 }},
		odd{"magic 3", func(b *batch) { b.magic = 3 }},
		odd{"a wrong checksum", func(b *batch) { b.spoil = func(x []byte) []byte { x[17] ^= 1; return x } }},
		odd{"a flipped bit", func(b *batch) { b.spoil = func(x []byte) []byte { x[len(x)-1] ^= 1; return x } }},
		odd{"cut by 3 bytes", func(b *batch) { b.spoil = func(x []byte) []byte { return x[:len(x)-3] } }},
		odd{"5 bytes of it", func(b *batch) { b.spoil = func(x []byte) []byte { return x[:5] } }},
		odd{"empty", func(b *batch) { b.spoil = func(x []byte) []byte { return x[:0] } }},
		odd{"stray bytes behind", func(b *batch) { b.spoil = func(x []byte) []byte { return append(x, 1, 2, 3) } }},
		odd{"twice", func(b *batch) { b.spoil = func(x []byte) []byte { return append(x, x...) } }},
		odd{"length too small", func(b *batch) { b.spoil = func(x []byte) []byte { x[11] -= 5; return x } }},
		odd{"count 0", func(b *batch) { b.count = to(int32(0)) }},
		odd{"count -1", func(b *batch) { b.count = to(int32(-1)) }},
		odd{"count one more", func(b *batch) { b.count = to(int32(len(b.records) + 1)) }},
		odd{"count and delta one more", func(b *batch) {
			b.count, b.lastDelta = to(int32(len(b.records)+1)), to(int32(len(b.records)))
		}},
		odd{"delta one more", func(b *batch) { b.lastDelta = to(int32(len(b.records))) }},
		odd{"offset deltas with a gap", func(b *batch) { b.records[len(b.records)-1].delta = to(int64(len(b.records) + 2)) }},
		odd{"offset deltas that go back", func(b *batch) { b.records[len(b.records)-1].delta = to(int64(-1)) }},
		odd{"no records", func(b *batch) { b.records = nil }},
		odd{"no records, delta 0", func(b *batch) { b.records, b.lastDelta = nil, to(int32(0)) }},
		odd{"control", func(b *batch) { b.attributes |= 1 << 5 }},
		odd{"transactional", func(b *batch) { b.attributes |= 1 << 4 }},
		odd{"flagged append time", func(b *batch) { b.attributes |= 1 << 3 }},
		odd{"flagged append time, no time", func(b *batch) { b.attributes |= 1 << 3; b.first = -1 }},
		odd{"unknown bits", func(b *batch) { b.attributes |= 1<<7 | 1<<12 }},
		odd{"delete horizon", func(b *batch) { b.attributes |= 1 << 6 }},
		odd{"codec 5", func(b *batch) { b.codec = 5 }},
		odd{"codec 7", func(b *batch) { b.codec = 7 }},
		odd{"claims gzip", func(b *batch) { b.codec = 0; b.attributes |= 1 }},
		odd{"claims zstd", func(b *batch) { b.codec = 0; b.attributes |= 4 }},
		odd{"no timestamps", func(b *batch) { b.first = -1; clearTimes(b) }},
		odd{"timestamps below none", func(b *batch) { b.first = -2; clearTimes(b) }},
		odd{"smallest timestamp", func(b *batch) { b.first = math.MinInt64; clearTimes(b) }},
		odd{"largest timestamp", func(b *batch) { b.first = math.MaxInt64; clearTimes(b) }},
		odd{"from 1970", func(b *batch) { b.first = 1 }},
		odd{"in five hours", func(b *batch) { b.first = then + 7*3600e3 }},
		odd{"last record in five hours", func(b *batch) { b.records[len(b.records)-1].at = 7 * 3600e3 }},
		odd{"descending", func(b *batch) {
			for i := range b.records {
				b.records[i].at = -int64(i) * 10
			}
		}},
		odd{"scattered", func(b *batch) {
			for i := range b.records {
				b.records[i].at = (int64(i)*big + delta) % 97
			}
		}},
		odd{"largest timestamp wrong in the header", func(b *batch) { b.most = to(b.first + delta) }},
		odd{"no largest timestamp in the header", func(b *batch) { b.most = to(int64(-1)) }},
		odd{"a producer without a sequence", func(b *batch) { b.producer, b.epoch, b.sequence = 1000, 0, -1 }},
		odd{"a producer without an epoch", func(b *batch) { b.producer, b.epoch, b.sequence = 1000, -1, 0 }},
		odd{"a byte behind the records", func(b *batch) { b.trailing = []byte{0} }},
		odd{"a record behind the last", func(b *batch) { b.trailing = []byte{12, 0, 0, 4, 1, 1, 0} }},
		odd{"attributes of a record", func(b *batch) { b.records[0].body = []byte{9, 0, 0, 1, 1, 0} }},
		odd{"key length -2", func(b *batch) { b.records[0].body = []byte{0, 0, 0, 3, 1, 0} }},
		odd{"key beyond the record", func(b *batch) { b.records[0].body = []byte{0, 0, 0, 40, 1, 0} }},
		odd{"value beyond the record", func(b *batch) { b.records[0].body = []byte{0, 0, 0, 1, 40, 0} }},
		odd{"header count -1", func(b *batch) { b.records[0].body = []byte{0, 0, 0, 1, 1, 1} }},
		odd{"header count too large", func(b *batch) { b.records[0].body = []byte{0, 0, 0, 1, 1, 100} }},
		odd{"a null header key", func(b *batch) { b.records[0].body = []byte{0, 0, 0, 1, 1, 2, 1, 0} }},
		odd{"a record too long for its fields", func(b *batch) { b.records[0].body = []byte{0, 0, 0, 1, 1, 0, 7, 7} }},
		odd{"a record of one byte", func(b *batch) { b.records[0].body = []byte{0} }},
		odd{"an endless varint", func(b *batch) {
			b.records[0].body = []byte{0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}
		}},
		odd{"a value of 1000 bytes", func(b *batch) { b.records[0].value = make([]byte, 1000) }},
		odd{"a packed value of 5000 bytes", func(b *batch) { b.codec = 1; b.records[0].value = make([]byte, 5000) }},
		odd{"a value beyond a segment", func(b *batch) { b.codec = 0; b.records[0].value = make([]byte, 1048570) }},
		odd{"broken at its start", func(b *batch) {
			b.spoil = func(x []byte) []byte {
				for i := 61; i < len(x) && i < 69; i++ {
					x[i] ^= 0x5a
				}
				return resum(x)
			}
		}},
	))
}

func clearTimes(b *batch) {
	for i := range b.records {
		b.records[i].at = 0
	}
}
