package brokertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"millrace/storage"
)

func setForBroker(t *testing.T, adm *kadm.Client, key, value string) {
	t.Helper()
	got, err := adm.AlterBrokerConfigs(context.Background(), []kadm.AlterConfig{{Name: key, Value: &value}})
	if err != nil || len(got) != 1 || got[0].Err != nil {
		t.Fatalf("setting %s: %v, %v", key, got, err)
	}
}

// What the broker reads of its own configs it reads anew when they change.
func TestProducersExpireAsIsSetMeanwhile(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		p := n.Client(kgo.AllowAutoTopicCreation())
		defer p.Close()
		Produce(t, p, "events", "v", 1)
		id, _, err := p.ProducerID(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Minute)
		if err := produceSequence(n, p, "events", id, 1000); err != kerr.OutOfOrderSequenceNumber {
			t.Fatalf("a gap in the sequence of a producer that is known for a day: %v", err)
		}
		setForBroker(t, kadm.NewClient(p), "producer.id.expiration.ms", "3600000")
		time.Sleep(20 * time.Minute)
		if err := produceSequence(n, p, "events", id, 1000); err != nil {
			t.Errorf("the producer is still known: %v", err)
		}
	})
}

// A config that the broker does not know is stored, as Kafka does for its
// plugins, and shown without its value.
func TestUnknownBrokerConfigsAreShown(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *Node) {
		c := n.Client()
		defer c.Close()
		adm := kadm.NewClient(c)
		setForBroker(t, adm, "plugin.key", "secret")
		for _, ask := range [][]int32{nil, {n.Info.NodeID}} {
			got, err := adm.DescribeBrokerConfigs(context.Background(), ask...)
			if err != nil || len(got) != 1 || got[0].Err != nil {
				t.Fatalf("%v: %v, %v", ask, got, err)
			}
			found := false
			for _, cfg := range got[0].Configs {
				if cfg.Key == "plugin.key" {
					found = cfg.Sensitive && cfg.Value == nil
				}
			}
			if !found {
				t.Errorf("broker %v: plugin.key is not among its configs", ask)
			}
		}
	})
}

// A broker whose last data directory has failed gives up, as Kafka halts: others
// are to take over what it led. The reason is the error's, and not in the log too.
func TestABrokerWithoutADirectoryGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(t, nil)
		lines := n.Observe(zap.DebugLevel)
		defer n.End()
		n.Start()
		c := n.Client(kgo.AllowAutoTopicCreation(), kgo.RecordDeliveryTimeout(time.Second))
		Produce(t, c, "events", "v", 1)
		n.Disk.Refuse(func(op, _ string) error {
			if op == "write" {
				return errors.New("input/output error")
			}
			return nil
		})
		if err := c.ProduceSync(context.Background(), &kgo.Record{Topic: "events", Value: []byte("lost")}).FirstErr(); err == nil {
			t.Error("a record was acknowledged that could not be written")
		}
		select {
		case err := <-n.done:
			if n.cancel = nil; !errors.Is(err, storage.ErrNoDirectory) {
				t.Errorf("it gives up because of %v", err)
			} else if n := strings.Count(err.Error(), "input/output error"); n != 1 {
				t.Errorf("it says why %d times: %v", n, err)
			}
			for _, line := range lines.All() {
				if strings.Contains(fmt.Sprint(line.ContextMap()), "input/output error") {
					t.Errorf("why is logged as well: %q, %v", line.Message, line.ContextMap())
				}
			}
		case <-time.After(time.Minute):
			t.Error("it runs on without a directory")
		}
	})
}
