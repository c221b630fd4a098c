package shell

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestAnAdvertisedAddressThatNobodyReachesIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		d := &dials{tell: func(s string) { said = append(said, s) }, after: 2 * time.Second}
		seed, node := kgo.BrokerMetadata{NodeID: -7, Host: "seed", Port: 1}, kgo.BrokerMetadata{NodeID: 1, Host: "inside", Port: 9092}
		fail := func(b kgo.BrokerMetadata) { d.OnBrokerConnect(b, 0, nil, errors.New("no such host")) }
		fail(seed)
		fail(node)
		time.Sleep(3 * time.Second)
		fail(seed)
		d.OnBrokerConnect(node, 0, nil, nil)
		fail(node)
		time.Sleep(time.Second)
		fail(node)
		if len(said) > 0 {
			t.Errorf("%q after a second since it was reached", said)
		}
		time.Sleep(time.Second)
		fail(node)
		fail(node)
		want := "waiting for broker 1 at inside:9092, which is the address that it advertises: no such host"
		if len(said) != 1 || said[0] != want {
			t.Errorf("%q, want %q once", said, want)
		}
	})
}
