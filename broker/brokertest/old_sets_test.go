package brokertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// TestOldClients: clients that know message sets write and read in each codec
// what clients of today read and write.
func TestOldClients(t *testing.T) {
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression()}
	for _, v := range []struct {
		name     string
		max      *kversion.Versions
		lz4Wrong bool
	}{{"0.8", kversion.V0_8_2(), true}, {"0.9", kversion.V0_9_0(), true}, {"0.10.0", kversion.V0_10_0(), false}, {"0.10.2", kversion.V0_10_2(), false}} {
		t.Run(v.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, n *Node) {
				makeTopic(t, n, n.Client(), "t", 1)
				want := 0
				write := func(max *kversion.Versions, codec kgo.CompressionCodec) {
					p := n.Client(kgo.MaxVersions(max), kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(time.Millisecond))
					defer p.Close()
					var rs []*kgo.Record
					for range 100 {
						rs = append(rs, &kgo.Record{Topic: "t", Key: []byte("k"), Value: fmt.Appendf(nil, "v%d", want)})
						want++
					}
					if err := p.ProduceSync(context.Background(), rs...).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
				for i, codec := range codecs {
					if i == 3 && v.lz4Wrong {
						continue // kgo looks for the right checksum in lz4 of magic 0; clients of that time wanted the wrong one
					}
					write(v.max, codec)
					write(kversion.Stable(), codec)
				}
				for _, max := range []*kversion.Versions{v.max, kversion.Stable()} {
					c := n.Client(kgo.MaxVersions(max), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(0)}}), kgo.FetchMaxPartitionBytes(2000))
					for i, r := range Consume(t, c, want) {
						if r.Offset != int64(i) || string(r.Value) != fmt.Sprintf("v%d", i) || string(r.Key) != "k" {
							t.Fatalf("record %d has offset %d and value %q", i, r.Offset, r.Value)
						}
					}
					c.Close()
				}
			})
		})
	}
}
