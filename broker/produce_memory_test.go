package broker

import (
	"context"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/wire"
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
		reply := dispatcher{b}.Handle(context.Background(), r)
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) / rows; took > c.most || reply.Body.Len() < 10*rows {
			t.Errorf("%s: a row of %d bytes took %d, the answer %d", c.name, len(r.Body)/rows, took, reply.Body.Len()/rows)
		}
		reply.Body.Release()
	}
}
