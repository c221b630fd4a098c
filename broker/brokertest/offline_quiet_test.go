package brokertest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// TestNothingIsDoneInADirectoryThatWasGivenUp: nor is it told again and again that nothing can be.
func TestNothingIsDoneInADirectoryThatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(t, map[string]string{"log.dirs": "/meta,/data", "metadata.log.dir": "/meta", "cordoned.log.dirs": "/meta", "log.cleaner.backoff.ms": "1000"})
		defer n.End()
		lines := n.Observe(zap.WarnLevel)
		n.Start()
		c := n.Client(kgo.RecordRetries(0), kgo.RecordDeliveryTimeout(5*time.Second), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		makeTopic(t, n, c, "compacted", 2, "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.01", "segment.ms", "1000")
		makeTopic(t, n, c, "both", 2, "cleanup.policy", "compact,delete", "retention.ms", "1000", "segment.ms", "1000")
		makeTopic(t, n, c, "deleted", 2, "retention.ms", "1000", "segment.ms", "1000")
		for _, topic := range []string{"compacted", "both", "deleted"} {
			for p := range int32(2) {
				if err := c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Partition: p, Key: []byte("k"), Value: []byte("v")}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
		}
		failing(n, "/data/")
		_ = c.ProduceSync(t.Context(), &kgo.Record{Topic: "deleted", Key: []byte("k"), Value: []byte("v")})
		time.Sleep(time.Second)
		lines.TakeAll()
		n.Disk.Trace()
		time.Sleep(time.Hour)
		if all := lines.TakeAll(); len(all) != 0 {
			t.Errorf("%d lines afterwards, the first of them %v", len(all), all[0])
		}
		for _, op := range n.Disk.Done() {
			if strings.Contains(op, "/data/") {
				t.Errorf("done there: %s", op)
				break
			}
		}
		n.Disk.Refuse(nil)
		n.Stop()
	})
}
