package broker

import (
	"net/netip"
	"testing"

	"millrace/controller/image"
	"millrace/wire"
)

// What clients are told that reached a container's broker over its network, over
// its loopback, and from the machine that runs it.
func TestEndpointSeenFromOutside(t *testing.T) {
	b := &Broker{outside: Outside{Gateways: []netip.Addr{netip.MustParseAddr("172.17.0.1")}, Ports: map[string]int{"OTHER": 19093}}}
	node := &image.Broker{Endpoints: []image.Endpoint{{Name: "PLAINTEXT", Port: 9092}, {Name: "OTHER", Port: 9093}, {Name: "NAMED", Host: "kafka", Port: 9094}}}
	for _, c := range []struct {
		listener, remote, local string
		want                    endpoint
	}{
		{"PLAINTEXT", "172.17.0.1:40000", "172.17.0.2:9092", endpoint{"localhost", 9092}},
		{"PLAINTEXT", "[::ffff:172.17.0.1]:40000", "[::ffff:172.17.0.2]:9092", endpoint{"localhost", 9092}},
		{"OTHER", "172.17.0.1:40000", "172.17.0.2:9093", endpoint{"localhost", 19093}},
		{"OTHER", "172.17.0.3:40000", "172.17.0.2:9093", endpoint{"172.17.0.2", 9093}},
		{"PLAINTEXT", "172.17.0.3:40000", "172.17.0.2:9092", endpoint{"172.17.0.2", 9092}},
		{"PLAINTEXT", "127.0.0.1:40000", "127.0.0.1:9092", endpoint{"localhost", 9092}},
		{"NAMED", "172.17.0.1:40000", "172.17.0.2:9094", endpoint{"kafka", 9094}},
	} {
		conn := &wire.Conn{Listener: c.listener, Remote: netip.MustParseAddrPort(c.remote), Local: netip.MustParseAddrPort(c.local)}
		if got, ok := b.endpointFor(conn, node); !ok || got != c.want {
			t.Errorf("%s from %s at %s: %v, %v; want %v", c.listener, c.remote, c.local, got, ok, c.want)
		}
	}
	if _, ok := b.endpointFor(&wire.Conn{Listener: "ABSENT"}, node); ok {
		t.Error("an endpoint on a listener that is not there")
	}
}
