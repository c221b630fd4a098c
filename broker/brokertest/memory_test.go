package brokertest

import (
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a partition weighs in a broker, everything that the broker keeps of it together: its place in the image, its replica,
// its log. What a broker without partitions weighs is not counted, nor is what its disk and its raft log hold, which are files
// elsewhere.
func TestPartitionsWeighLittle(t *testing.T) {
	const n, topics, mostEmpty, mostUsed = 2000, 2, 3700, 4900
	bubble(t, nil, func(t *testing.T, node *Node) {
		weight := func() int64 {
			running := heap()
			node.Stop()
			stopped := heap()
			node.Start()
			return running - stopped
		}
		bare := weight()
		c := node.Client()
		var ids [topics][16]byte
		for i := range ids {
			ids[i] = makeTopic(t, node, c, string(rune('a'+i)), n/topics)
		}
		c.Close()
		if each := (weight() - bare) / n; each > mostEmpty {
			t.Errorf("a partition that is empty weighs %d bytes", each)
		} else {
			t.Logf("%d bytes for each that is empty", each)
		}
		c = node.Client()
		for i, id := range ids {
			req := kmsg.NewPtrProduceRequest()
			req.Acks, req.TimeoutMillis = 1, 1000
			rt := kmsg.NewProduceRequestTopic()
			rt.Topic, rt.TopicID = string(rune('a'+i)), id
			for p := range int32(n / topics) {
				rp := kmsg.NewProduceRequestTopicPartition()
				rp.Partition, rp.Records = p, oneRecord(-1, -1)
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
			for _, p := range ask[*kmsg.ProduceResponse](t, node, c, req).Topics[0].Partitions {
				if p.ErrorCode != 0 {
					t.Fatal(kerr.ErrorForCode(p.ErrorCode))
				}
			}
		}
		c.Close()
		node.Stop() // which writes files; in its next life nothing is
		node.Start()
		if each := (weight() - bare) / n; each > mostUsed {
			t.Errorf("a partition that was written to weighs %d bytes", each)
		} else {
			t.Logf("%d bytes for each that was written to", each)
		}
	})
}

// heap is what is in use, goroutines' stacks included.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
