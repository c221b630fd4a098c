package broker

import (
	"net/netip"

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
// on loopback that is localhost.
func (b *Broker) endpointFor(conn *wire.Conn, node *image.Broker) (endpoint, bool) {
	for _, e := range node.Endpoints {
		if e.Name != conn.Listener {
			continue
		}
		if e.Host != "" {
			return endpoint{e.Host, int32(e.Port)}, true
		}
		return endpoint{reachedAs(conn.Local.Addr()), int32(e.Port)}, true
	}
	return endpoint{}, false
}

// reachedAs names the local end of a connection for its own client.
func reachedAs(local netip.Addr) string {
	if local = local.Unmap(); local.IsLoopback() {
		return "localhost"
	}
	return local.WithZone("").String()
}
