package shell

import (
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// dials tells, once for each broker, that it has not been reached for a while at
// the address that the cluster gives for it: mostly a wrong advertised.listeners,
// of which the tool would otherwise wait in silence.
type dials struct {
	tell  func(string)
	after time.Duration // of failures without a connection between them

	mu     sync.Mutex
	failed map[int32]time.Time // the first failure since the last connection, by node id
	told   map[int32]bool
}

// OnBrokerConnect is kgo's hook. Addresses that the user has named, which have
// negative node ids, are await's.
func (d *dials) OnBrokerConnect(b kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if b.NodeID < 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		delete(d.failed, b.NodeID)
		return
	}
	since, again := d.failed[b.NodeID]
	if !again {
		if d.failed == nil {
			d.failed, d.told = map[int32]time.Time{}, map[int32]bool{}
		}
		since = time.Now()
		d.failed[b.NodeID] = since
	}
	if d.told[b.NodeID] || time.Since(since) < d.after {
		return
	}
	d.told[b.NodeID] = true
	d.tell(fmt.Sprintf("waiting for broker %d at %s, which is the address that it advertises: %s", b.NodeID, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), oneLine(err)))
}
