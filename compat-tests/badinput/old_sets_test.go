//go:build compat && linux

package badinput

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/compat-tests/frame"
)

// oldMessage is a message of magic 1 as clients before 0.11 send it.
func oldMessage(attributes byte, value []byte) []byte {
	b := make([]byte, 12, 12+22+len(value))
	b = append(b, 0, 0, 0, 0, 1, attributes)
	b = binary.BigEndian.AppendUint64(b, uint64(time.Now().UnixMilli()))
	b = binary.BigEndian.AppendUint32(b, 1<<32-1)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	b = append(b, value...)
	sumOld(b)
	return b
}

// sumOld sets the length and the checksum of a message.
func sumOld(b []byte) {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:]))
}

// oldBomb packs one message whose value is n zeros, without holding it, or many
// messages without a value.
func oldBomb(t *testing.T, n, messages int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	if n > 0 {
		head := oldMessage(0, nil)
		sum := crc32.NewIEEE()
		binary.BigEndian.PutUint32(head[8:], uint32(len(head)-12+n))
		binary.BigEndian.PutUint32(head[len(head)-4:], uint32(n))
		sum.Write(head[16:])
		for left := n; left > 0; left -= len(zeros) {
			sum.Write(zeros[:min(left, len(zeros))])
		}
		binary.BigEndian.PutUint32(head[12:], sum.Sum32())
		w.Write(head)
		for left := n; left > 0; left -= len(zeros) {
			w.Write(zeros[:min(left, len(zeros))])
		}
	}
	one := oldMessage(0, nil)
	for range messages {
		w.Write(one)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return oldMessage(1, out.Bytes())
}

// oldFetch asks for a partition's records from an offset, as message sets.
func oldFetch(version int16, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.ReplicaID, req.MaxBytes = version, -1, 50*mib
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.FetchOffset, rp.PartitionMaxBytes = offset, 10*mib
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// TestOldSets: message sets that unpack to much, and stored batches that would
// become large ones; spoilt sets.
func TestOldSets(t *testing.T) {
	t.Parallel()
	v := withBudget(t)
	c, err := frame.Dial(v.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Patience = time.Minute
	add := func(what string, set []byte, want int16) int64 {
		resp, ok := c.Ask(produce(2, topic, set)).Response.(*kmsg.ProduceResponse)
		if !ok {
			t.Fatalf("%s: no answer", what)
		}
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != want {
			t.Errorf("%s: error %d, want %d", what, p.ErrorCode, want)
		}
		return p.BaseOffset
	}
	give := func(what string, version int16, offset int64, want int16) int {
		resp, ok := c.Ask(oldFetch(version, offset)).Response.(*kmsg.FetchResponse)
		if !ok {
			t.Fatalf("%s: no answer", what)
		}
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != want {
			t.Errorf("%s: error %d, want %d", what, p.ErrorCode, want)
		}
		return len(p.RecordBatches)
	}

	large := add("one large message", oldBomb(t, 500*mib, 0), 0)
	many := add("many messages", oldBomb(t, 0, 400_000), 0)
	after := add("a plain one", oldMessage(0, []byte("v")), 0)
	v.check(t, budget+allowance)
	for version := range int16(4) {
		give("one large record", version, large, messageTooLarge)
		give("many records", version, many, 0)
		if n := give("a plain one", version, after, 0); n < 35 {
			t.Errorf("%d bytes for a record behind the large ones", n)
		}
	}
	v.check(t, budget+allowance)

	// Readers that ask for what becomes large, and never read.
	for range 100 {
		nc, err := net.Dial("tcp", v.Bootstrap)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := nc.Write(c.Encode(oldFetch(1, many))); err != nil {
			t.Fatal(err)
		}
	}
	give("beside those who do not read", 1, after, 0)
	v.check(t, budget+allowance)

	r := rand.New(rand.NewPCG(4, 4))
	good := [][]byte{oldMessage(0, []byte("some value")), oldBomb(t, 10, 0), oldBomb(t, 0, 5), append(oldMessage(0, []byte("a")), oldMessage(0, nil)...)}
	for i := range 1000 {
		b := bytes.Clone(good[i%len(good)])
		switch r.IntN(3) {
		case 0: // the checksum hides nothing
			b[16+r.IntN(len(b)-16)] ^= byte(1 + r.IntN(255))
			binary.BigEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:]))
		case 1:
			b[r.IntN(len(b))] ^= byte(1 + r.IntN(255))
		default:
			for i := range b[:r.IntN(len(b))] {
				b[i] = byte(r.Uint32())
			}
		}
		if _, err := code(c.Ask(produce(int16(r.IntN(3)), topic, b))); err != nil {
			t.Fatalf("a spoilt set %x: %v", b, err)
		}
	}
	v.check(t, budget+allowance)
	v.ends(t)
}
