package brokertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A listener that is set on a running broker is open when the change is
// answered and clients are told of it, one that is taken away is closed with its
// connections, one that moves is both, and what was set holds after a restart
// (KIP-226).
func TestListenersChange(t *testing.T) {
	bubble(t, map[string]string{"advertised.listeners": "PLAINTEXT://broker:9092"}, func(t *testing.T, n *Node) {
		ctx := context.Background()
		reaches := func(address string) bool {
			c, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.Dialer(n.Net.Dial), kgo.RetryTimeout(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, err = kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, c)
			return err == nil
		}
		c := n.Client(kgo.AllowAutoTopicCreation())
		set := func(c *kgo.Client, pairs ...string) error {
			var list []kadm.AlterConfig
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i+1] == "" {
					list = append(list, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: pairs[i]})
				} else {
					list = append(list, kadm.AlterConfig{Name: pairs[i], Value: &pairs[i+1]})
				}
			}
			got, err := kadm.NewClient(c).AlterBrokerConfigs(ctx, list, n.Info.NodeID)
			if err != nil {
				return err
			}
			return got[0].Err
		}
		Produce(t, c, "events", "v", 1)
		const both = "PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT"
		for _, bad := range [][]string{
			{"listeners", "PLAINTEXT://broker:9092,EXTRA://broker:9095"},
			{"listeners", "EXTRA://broker:9095", "listener.security.protocol.map", both},
			{"listeners", "nonsense"},
			{"listener.security.protocol.map", "EXTRA:PLAINTEXT"},
		} {
			if err := set(c, bad...); !errors.Is(err, kerr.InvalidRequest) {
				t.Errorf("%q: %v", bad, err)
			}
		}
		if err := set(c, "listeners", "PLAINTEXT://broker:9092,EXTRA://broker:9095", "listener.security.protocol.map", both, "listener.name.extra.max.connections", "1"); err != nil {
			t.Fatal(err)
		}
		if !reaches("broker:9092") || !reaches("broker:9095") {
			t.Fatal("the new listener is not open")
		}
		// The limit that was set with it holds.
		held, err := n.Net.Dial(ctx, "tcp", "broker:9095")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if reaches("broker:9095") {
			t.Error("a second connection is served on the new listener")
		}
		// Moved: the old port is closed, the connections with it.
		if err := set(c, "listeners", "PLAINTEXT://broker:9092,EXTRA://broker:9096", "listener.name.extra.max.connections", ""); err != nil {
			t.Fatal(err)
		}
		if _, err := held.Read(make([]byte, 1)); err == nil {
			t.Error("a connection of the listener that moved lives on")
		}
		if reaches("broker:9095") || !reaches("broker:9096") {
			t.Error("the listener did not move")
		}
		// Clients are told of it, and nothing else has changed for them.
		time.Sleep(10 * time.Second)
		moved := n.Client(kgo.SeedBrokers("broker:9096"), kgo.ConsumeTopics("events"))
		Produce(t, moved, "events", "w", 1)
		if got := Consume(t, moved, 2); got[0].LeaderEpoch != got[1].LeaderEpoch {
			t.Errorf("leader epochs %d and %d: a new listener has ended a leadership", got[0].LeaderEpoch, got[1].LeaderEpoch)
		}
		if told := ask[*kmsg.DescribeClusterResponse](t, n, moved, kmsg.NewPtrDescribeClusterRequest()).Brokers; len(told) != 1 || told[0].Port != 9096 {
			t.Errorf("on the listener that moved clients are told %+v", told)
		}
		if told := ask[*kmsg.DescribeClusterResponse](t, n, c, kmsg.NewPtrDescribeClusterRequest()).Brokers; len(told) != 1 || told[0].Port != 9092 {
			t.Errorf("on the listener that stayed clients are told %+v", told)
		}
		moved.Close()
		n.Stop()
		n.Start()
		if !reaches("broker:9096") {
			t.Error("what was set is gone after a restart")
		}
		// A change that closes the listener it came by is answered.
		extra := n.Client(kgo.SeedBrokers("broker:9096"))
		if err := set(extra, "listeners", "", "listener.security.protocol.map", ""); err != nil {
			t.Fatal(err)
		}
		if reaches("broker:9096") || !reaches("broker:9092") {
			t.Error("the listener is not taken away")
		}
		Produce(t, c, "events", "v", 1)
	})
}

// What clients are told is what advertised.listeners says, else the listener.
func TestAdvertisedListeners(t *testing.T) {
	for props, want := range map[string]string{"": "broker:9092", "PLAINTEXT://elsewhere:7": "elsewhere:7"} {
		n := map[string]string{}
		if props != "" {
			n["advertised.listeners"] = props
		}
		bubble(t, n, func(t *testing.T, n *Node) {
			got, err := n.Client().SeedBrokers()[0].Request(context.Background(), kmsg.NewPtrDescribeClusterRequest())
			if err != nil {
				t.Fatal(err)
			}
			b := got.(*kmsg.DescribeClusterResponse).Brokers[0]
			if told := fmt.Sprintf("%s:%d", b.Host, b.Port); told != want {
				t.Errorf("advertised.listeners=%s: clients are told %s", props, told)
			}
		})
	}
}
