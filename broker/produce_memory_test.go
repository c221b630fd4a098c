package broker

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/storage/batch"
	"millrace/storage/codec"
	"millrace/wire"
	"millrace/wire/records"
)

// A Produce of batches that are none, or for partitions that are not there, makes no
// room for their appends: what is allocated for a row, garbage included, is the row
// decoded and answered, what finds rows given twice, and the answer's bytes as they
// grow.
func TestProduceOfNothingMakesNoRoom(t *testing.T) {
	if raceAllocations > 0 {
		t.Skip("the race detector allocates by itself")
	}
	const rows = 50_000
	b, _ := standing(t)
	see(b, registered(1, 10, b.incarnation), topicOf("t", someTopic), partitionOf(someTopic, 1, 1, 1, []int32{1}, 1))
	for _, c := range []struct {
		name    string
		records []byte
		most    uint64
	}{{"null", nil, 760}, {"short", make([]byte, 14), 950}, {"zeroes", make([]byte, 70), 950}} {
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.Version = 1, 9
		req.Topics = append(req.Topics, kmsg.ProduceRequestTopic{Topic: "t", Partitions: make([]kmsg.ProduceRequestTopicPartition, rows)})
		for i := range req.Topics[0].Partitions {
			p := &req.Topics[0].Partitions[i]
			p.Partition, p.Records = int32(i), c.records
		}
		r := &wire.Request{Version: 9, Body: req.AppendTo(nil), Conn: &wire.Conn{}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		replies := make([]wire.Reply, 1)
		dispatcher{b}.HandleTogether(context.Background(), []*wire.Request{r}, replies)
		reply := replies[0]
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) / rows; took > c.most || reply.Body.Len() < 10*rows {
			t.Errorf("%s: a row of %d bytes took %d, the answer %d", c.name, len(r.Body)/rows, took, reply.Body.Len()/rows)
		}
		reply.Body.Release()
	}
}

// Packed batches of very many records, each of them refused: of one every bad record is told, as Kafka does, and of
// many that come in one request, or in requests that come together, no more than of one, but for the first few.
func TestRefusedRecordsAreToldOfOnce(t *testing.T) {
	if raceAllocations > 0 {
		t.Skip("the race detector allocates by itself")
	}
	const partitions = 50
	b, _ := standing(t)
	image := []records.Metadata{registered(1, 10, b.incarnation), topicOf("t", someTopic)}
	for i := range int32(partitions) {
		p := partitionOf(someTopic, 1, 1, 1, []int32{1}, 1).(*records.PartitionRecord)
		p.PartitionId = i
		image = append(image, p)
	}
	see(b, image...)
	u := batch.NewBuilder(batch.BuilderOptions{Codec: codec.Zstd})
	for range batch.MostListed {
		u.Add(time.Now().UnixMilli()+365*24*3600_000, nil, nil)
	}
	if n := len(u.Bytes()); n > batch.MostListed {
		t.Fatalf("a batch of %d bytes is no small one", n)
	}
	ask := func(version int16, from, to int32) *wire.Request {
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.Version = 1, version
		req.Topics = append(req.Topics, kmsg.ProduceRequestTopic{Topic: "t"})
		for i := from; i < to; i++ {
			p := kmsg.NewProduceRequestTopicPartition()
			p.Partition, p.Records = i, u.Bytes()
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
		}
		return &wire.Request{Version: version, Body: req.AppendTo(nil), Conn: &wire.Conn{}}
	}
	apart := func(version int16) (rs []*wire.Request) {
		for i := range int32(partitions) {
			rs = append(rs, ask(version, i, i+1))
		}
		return rs
	}
	const first, few = batch.MostListed, batch.FewestListed
	for _, c := range []struct {
		name     string
		requests []*wire.Request
		listed   int
	}{
		{"one", []*wire.Request{ask(9, 0, 1)}, first},
		{"all in one request", []*wire.Request{ask(9, 0, partitions)}, first + (partitions-1)*few},
		{"all together", apart(9), first + (partitions-1)*few},
		{"in a version that tells of none", []*wire.Request{ask(7, 0, partitions)}, 0},
	} {
		replies := make([]wire.Reply, len(c.requests))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		dispatcher{b}.HandleTogether(context.Background(), c.requests, replies)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
			t.Errorf("%s: took %d bytes", c.name, took)
		}
		listed := 0
		for i, reply := range replies {
			resp := kmsg.NewPtrProduceResponse()
			resp.Version = c.requests[i].Version
			body, err := reply.Body.Bytes()
			if err == nil {
				err = resp.ReadFrom(body)
			}
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			for _, p := range resp.Topics[0].Partitions {
				if p.ErrorCode != kerr.InvalidTimestamp.Code || (resp.Version >= 8) != (p.ErrorMessage != nil) {
					t.Errorf("%s, partition %d: error %d, message %v", c.name, p.Partition, p.ErrorCode, p.ErrorMessage)
				}
				listed += len(p.ErrorRecords)
			}
			reply.Body.Release()
		}
		if listed != c.listed {
			t.Errorf("%s: %d records are told of, want %d", c.name, listed, c.listed)
		}
	}
}
