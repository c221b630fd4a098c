package broker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/storage/batch"
	"millrace/storage/codec"
)

// TestProducesTogetherAreAsProducesApart sends the same random requests to two topics: to one of them many at once, to
// the other each after the answer to the one before. Answers and logs are the same.
func TestProducesTogetherAreAsProducesApart(t *testing.T) {
	for _, compression := range []string{"producer", "gzip"} {
		t.Run(compression, func(t *testing.T) { togetherAndApart(t, compression) })
	}
}

func togetherAndApart(t *testing.T, compression string) {
	const partitions = 4
	nc := serving(t)
	buf := make([]byte, 4<<20)
	create := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range []string{"together", "separate"} {
		ct := kmsg.NewCreateTopicsRequestTopic()
		ct.Topic, ct.NumPartitions, ct.ReplicationFactor = name, partitions, 1
		ct.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "compression.type", Value: kmsg.StringPtr(compression)}, {Name: "segment.bytes", Value: kmsg.StringPtr("1048576")}}
		create.Topics = append(create.Topics, ct)
	}
	exchange(t, nc, frameOf(create, 4), buf)

	rng := rand.New(rand.NewPCG(1, 8))
	sequences := map[[2]int64]int32{}
	seen := map[int16]int{}
	for round := range 60 {
		var requests []*kmsg.ProduceRequest
		for range 2 + rng.IntN(8) {
			requests = append(requests, randomProduce(rng, partitions, sequences))
		}
		var frames []byte
		for _, r := range requests {
			frames = append(frames, produceFrame(r, "together")...)
		}
		if _, err := nc.Write(frames); err != nil {
			t.Fatal(err)
		}
		var together, apart []string
		for range requests {
			together = append(together, produceAnswer(t, nc, buf, seen))
		}
		for _, r := range requests {
			if _, err := nc.Write(produceFrame(r, "separate")); err != nil {
				t.Fatal(err)
			}
			apart = append(apart, produceAnswer(t, nc, buf, map[int16]int{}))
		}
		for i := range requests {
			if together[i] != apart[i] {
				t.Fatalf("round %d, request %d of %d: together %s, apart %s", round, i+1, len(requests), together[i], apart[i])
			}
		}
	}
	for _, code := range []int16{0, 2, 3, 45} {
		if seen[code] < 20 {
			t.Errorf("error %d was seen %d times", code, seen[code])
		}
	}
	for p := range int32(partitions) {
		a, b := whole(t, nc, "together", p, buf), whole(t, nc, "separate", p, buf)
		if len(a) == 0 || !bytes.Equal(a, b) {
			t.Errorf("partition %d: the logs differ, %d bytes and %d", p, len(a), len(b))
		}
	}
}

// randomProduce names some partitions in any order. Its batches are plain or of a producer, which repeats itself at times, or
// leaves a gap; some are spoilt.
func randomProduce(rng *rand.Rand, partitions int, sequences map[[2]int64]int32) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Acks, r.TimeoutMillis = int16(1-2*rng.IntN(2)), 10_000
	pt := kmsg.NewProduceRequestTopic()
	order := []int{0, 1, 2, 3}
	if rng.IntN(2) == 0 {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for _, p := range order[:1+rng.IntN(partitions)] {
		pp := kmsg.NewProduceRequestTopicPartition()
		pp.Partition = int32(p)
		if rng.IntN(20) == 0 {
			pp.Partition = int32(partitions)
		}
		o := batch.BuilderOptions{Codec: codec.Kind(rng.IntN(3))}
		if rng.IntN(2) == 0 {
			key := [2]int64{int64(p), int64(100 + rng.IntN(2))}
			o.Producer, o.ProducerID, o.BaseSequence = true, batch.ProducerID(key[1]), sequences[key]
			switch rng.IntN(6) {
			case 0:
				o.BaseSequence += 3
			case 1:
				o.BaseSequence = max(0, o.BaseSequence-1)
			default:
				sequences[key]++
			}
		}
		u := batch.NewBuilder(o)
		u.Add(int64(rng.IntN(1000)), []byte("k"), bytes.Repeat([]byte{byte('a' + rng.IntN(26))}, rng.IntN(20_000)))
		pp.Records = u.Bytes()
		if rng.IntN(15) == 0 {
			pp.Records[len(pp.Records)-1] ^= 1
		}
		pt.Partitions = append(pt.Partitions, pp)
	}
	r.Topics = append(r.Topics, pt)
	return r
}

func produceFrame(r *kmsg.ProduceRequest, topic string) []byte {
	r.Topics[0].Topic = topic
	return frameOf(r, 9)
}

// produceAnswer reads an answer, as text.
func produceAnswer(t *testing.T, nc net.Conn, buf []byte, seen map[int16]int) string {
	t.Helper()
	if _, err := io.ReadFull(nc, buf[:4]); err != nil {
		t.Fatal(err)
	}
	n := int(binary.BigEndian.Uint32(buf))
	if _, err := io.ReadFull(nc, buf[:n]); err != nil {
		t.Fatal(err)
	}
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = 9
	if err := resp.ReadFrom(buf[5:n]); err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, p := range resp.Topics[0].Partitions {
		text += fmt.Sprintf("[%d: %d at %d]", p.Partition, p.ErrorCode, p.BaseOffset)
		seen[p.ErrorCode]++
	}
	return text
}

// whole is a partition's batches, but for what the clock writes there.
func whole(t *testing.T, nc net.Conn, topic string, partition int32, buf []byte) []byte {
	var out []byte
	for next := int64(0); ; {
		f := kmsg.NewPtrFetchRequest()
		f.ReplicaID, f.MinBytes, f.MaxBytes, f.SessionEpoch = -1, 0, 1<<20, -1
		ft := kmsg.NewFetchRequestTopic()
		ft.Topic = topic
		fp := kmsg.NewFetchRequestTopicPartition()
		fp.Partition, fp.FetchOffset, fp.PartitionMaxBytes = partition, next, 1<<20
		fp.CurrentLeaderEpoch, fp.LastFetchedEpoch, fp.LogStartOffset = -1, -1, -1
		ft.Partitions = append(ft.Partitions, fp)
		f.Topics = append(f.Topics, ft)
		resp := kmsg.NewPtrFetchResponse()
		resp.Version = 11
		if err := resp.ReadFrom(exchange(t, nc, frameOf(f, 11), buf)[4:]); err != nil {
			t.Fatal(err)
		}
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != 0 {
			t.Fatalf("fetch of %s-%d from %d: %d", topic, partition, next, p.ErrorCode)
		}
		if next >= p.HighWatermark {
			return out
		}
		for b := p.RecordBatches; len(b) > 0; {
			h, err := batch.ParseHeader(b)
			if err != nil || h.Size() > len(b) {
				break
			}
			out = append(out, b[:h.Size()]...)
			next, b = int64(h.NextOffset()), b[h.Size():]
		}
	}
}
