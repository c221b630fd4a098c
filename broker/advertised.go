package broker

import (
	"net/netip"
	"slices"

	"millrace/controller/image"
	"millrace/wire"
)

// endpoint is where a client is told to find a broker.
type endpoint struct {
	host string
	port int32
}

// endpointFor is the one place that says how a broker is reached by the client
// behind a connection; Metadata, FindCoordinator, DescribeCluster and the node
// endpoints of other answers all ask it. The boolean is false where the broker
// has no endpoint on that client's listener (LISTENER_NOT_FOUND, KIP-103).
//
// Kafka answers with advertised.listeners, else with what listeners names, and
// with the machine's own name where that is a wildcard: an address that a
// container's or a laptop's client often cannot reach. Here a listener without
// a configured address is told as the address the client has already reached;
// on loopback that is localhost, and so it is for the machine around a container
// (Outside).
func (b *Broker) endpointFor(conn *wire.Conn, node *image.Broker) (endpoint, bool) {
	for _, e := range node.Endpoints {
		if e.Name != conn.Listener {
			continue
		}
		if e.Host != "" {
			return endpoint{e.Host, int32(e.Port)}, true
		}
		return b.reached(conn, e.Name, int32(e.Port)), true
	}
	return endpoint{}, false
}

// Outside is how a broker in a container is seen by the machine that runs the
// container: its clients connect to localhost, come in from the container's
// gateway, and use a port that only the container's engine knows.
type Outside struct {
	Gateways []netip.Addr   // whose connections are that machine's; none: not in a container
	Ports    map[string]int // by listener, where another port is published than the listener's own
}

// reached is a listener of the address that a client's connection has already come
// to.
func (b *Broker) reached(conn *wire.Conn, listener string, port int32) endpoint {
	if slices.Contains(b.outside.Gateways, conn.Remote.Addr().Unmap().WithZone("")) {
		if published, ok := b.outside.Ports[listener]; ok {
			port = int32(published)
		}
		return endpoint{"localhost", port}
	}
	return endpoint{reachedAs(conn.Local.Addr()), port}
}

// reachedAs names the local end of a connection for its own client.
func reachedAs(local netip.Addr) string {
	if local = local.Unmap(); local.IsLoopback() {
		return "localhost"
	}
	return local.WithZone("").String()
}
