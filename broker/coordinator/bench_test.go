package coordinator

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"millrace/broker/machine"
)

// BenchmarkPut is a write through the shard and back, from one asker and from
// many.
func BenchmarkPut(b *testing.B) {
	for _, askers := range []int{1, 64} {
		b.Run(fmt.Sprint(askers, " askers"), func(b *testing.B) {
			l := &memLog{}
			l.fail = func([]byte) (error, bool) { return nil, false } // keeps nothing: what is measured is the driver
			l.hw = 1 << 40
			var n atomic.Int64
			d := newDesk(&testing.T{}, l)
			d.s = NewShard(d.o)
			defer d.s.Stop()
			for !d.s.Loaded() {
			}
			b.SetParallelism(askers)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				key := fmt.Sprint("k", n.Add(1))
				for pb.Next() {
					if _, err := d.s.Do(context.Background(), machine.Request{Body: put{key: key, value: "v"}}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
