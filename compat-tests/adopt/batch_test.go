//go:build compat

package adopt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// codecs are Kafka's, by their numbers.
var codecs = []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}

// record is one of a rawBatch; nil is null.
type record struct {
	key, value []byte
	at         int64 // after the batch's first timestamp
	headers    []kgo.RecordHeader
}

// rawBatch is a record batch whose every byte is the test's own.
type rawBatch struct {
	codec      int
	attributes int16 // beside the codec
	base       int64
	first      int64 // timestamp
	producer   int64 // 0: none
	epoch      int16
	sequence   int32
	records    []record
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (b rawBatch) bytes() []byte {
	var records []byte
	most := int64(-1)
	for i, r := range b.records {
		most = max(most, b.first+r.at)
		body := binary.AppendVarint(binary.AppendVarint([]byte{0}, r.at), int64(i))
		body = appendVar(appendVar(body, r.key), r.value)
		body = binary.AppendVarint(body, int64(len(r.headers)))
		for _, h := range r.headers {
			body = appendVar(appendVar(body, []byte(h.Key)), h.Value)
		}
		records = append(binary.AppendVarint(records, int64(len(body))), body...)
	}
	if b.codec > 0 {
		c, err := kgo.DefaultCompressor(codecs[b.codec])
		if err != nil {
			panic(err)
		}
		packed, _ := c.Compress(new(bytes.Buffer), records)
		records = bytes.Clone(packed)
	}
	producer, epoch, sequence := int64(-1), int16(-1), int32(-1)
	if b.producer > 0 {
		producer, epoch, sequence = b.producer, b.epoch, b.sequence
	}
	out := binary.BigEndian.AppendUint64(nil, uint64(b.base))
	out = binary.BigEndian.AppendUint32(out, uint32(49+len(records)))
	out = append(out, 0, 0, 0, 0, 2, 0, 0, 0, 0)
	out = binary.BigEndian.AppendUint16(out, uint16(b.attributes)|uint16(b.codec))
	out = binary.BigEndian.AppendUint32(out, uint32(len(b.records)-1))
	for _, n := range []int64{b.first, most, producer} {
		out = binary.BigEndian.AppendUint64(out, uint64(n))
	}
	out = binary.BigEndian.AppendUint16(out, uint16(epoch))
	out = binary.BigEndian.AppendUint32(out, uint32(sequence))
	out = binary.BigEndian.AppendUint32(out, uint32(len(b.records)))
	out = append(out, records...)
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], castagnoli))
	return out
}

func appendVar(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

// conn speaks frames to a broker.
func conn(t *testing.T, addr string) *frame.Conn {
	t.Helper()
	c, err := frame.Dial(addr)
	ok(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// ask wants an answer.
func ask[R kmsg.Response](t *testing.T, c *frame.Conn, req kmsg.Request) R {
	t.Helper()
	o := c.Ask(req)
	r, is := o.Response.(R)
	if !is {
		t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), o)
	}
	return r
}

// produce sends a batch with acks=all and gives the partition's answer.
func produce(t *testing.T, c *frame.Conn, topic string, p int32, batch []byte) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 30000
	rt, rp := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	rt.Topic, rp.Partition, rp.Records = topic, p, batch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	r := ask[*kmsg.ProduceResponse](t, c, req)
	return r.Topics[0].Partitions[0]
}

// stored is the bytes of a partition as Fetch serves them, from an offset to another.
func stored(t *testing.T, c *frame.Conn, topic string, p int32, from, to int64) []byte {
	t.Helper()
	var out []byte
	for at := from; at < to; {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 12, 100, 1, 64<<20, -1
		rt, rp := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		rt.Topic, rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = topic, p, at, 64<<20
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		r := ask[*kmsg.FetchResponse](t, c, req)
		part := r.Topics[0].Partitions[0]
		if part.ErrorCode != 0 {
			t.Fatalf("fetch of %s-%d at %d: error %d", topic, p, at, part.ErrorCode)
		}
		was := at
		for b := part.RecordBatches; len(b) >= 61; {
			size := 12 + int(int32(binary.BigEndian.Uint32(b[8:])))
			if size > len(b) {
				break
			}
			last := int64(binary.BigEndian.Uint64(b)) + int64(int32(binary.BigEndian.Uint32(b[23:])))
			if last >= at {
				out, at = append(out, b[:size]...), last+1
			}
			b = b[size:]
		}
		if at == was {
			t.Fatalf("fetch of %s-%d at %d: no batch in %d bytes", topic, p, at, len(part.RecordBatches))
		}
	}
	return out
}

// firstUnlike tells of the first batch in which two partitions' bytes differ.
func firstUnlike(a, b []byte) string {
	for n := 0; ; n++ {
		if len(a) < 61 || len(b) < 61 {
			return fmt.Sprintf("batch %d: %d bytes and %d bytes are left", n, len(a), len(b))
		}
		x, y := 12+int(binary.BigEndian.Uint32(a[8:])), 12+int(binary.BigEndian.Uint32(b[8:]))
		if x != y || !bytes.Equal(a[:x], b[:y]) {
			return fmt.Sprintf("batch %d:\n%x\n%x", n, a[:min(x, 200)], b[:min(y, 200)])
		}
		a, b = a[x:], b[y:]
	}
}
