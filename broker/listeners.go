package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/controller/config"
	"millrace/wire"
)

// listener is one of Kafka's listeners, bound. A name stands for one port,
// which without configuration is open on both loopback addresses.
type listener struct {
	name       string
	kind       listenerKind
	protocol   string
	host       string // as configured: what clients are told, unless advertised says otherwise
	port       int
	sockets    []net.Listener
	advertised *config.Listener
}

// kindOf says of which kind a listener is, by its name.
func (b *Broker) kindOf(name string) listenerKind {
	for i := range b.listeners {
		if b.listeners[i].name == name {
			return b.listeners[i].kind
		}
	}
	return onBroker
}

// bind opens every configured address. Addresses that share a listener's name
// (127.0.0.1 and ::1 where nothing is configured) get one port, also where the
// configured port is 0.
func (b *Broker) bind(ctx context.Context, listen func(context.Context, string) (net.Listener, error)) error {
	_, configured := b.config.Set("listeners")
	for _, l := range b.config.Listeners() {
		into := -1
		for i := range b.listeners {
			if b.listeners[i].name == l.Name {
				into = i
			}
		}
		if into < 0 {
			kind := onBroker
			if l.Controller {
				kind = onController
			}
			b.listeners = append(b.listeners, listener{name: l.Name, kind: kind, protocol: l.Protocol, host: l.Host, port: l.Port})
			into = len(b.listeners) - 1
			if !configured {
				b.listeners[into].host = ""
			}
		}
		on := &b.listeners[into]
		socket, err := listen(ctx, net.JoinHostPort(l.Host, strconv.Itoa(on.port)))
		if err != nil {
			if len(on.sockets) > 0 && !configured && !errors.Is(err, syscall.EADDRINUSE) {
				continue // a host without ::1
			}
			return bindError(l, on.port, err)
		}
		on.sockets = append(on.sockets, socket)
		if on.port == 0 {
			on.port = portOf(socket.Addr())
		}
	}
	for _, a := range b.config.Advertised() {
		for i := range b.listeners {
			if b.listeners[i].name == a.Name {
				b.listeners[i].advertised = &a
			}
		}
	}
	return nil
}

func bindError(l config.Listener, port int, err error) error {
	at := net.JoinHostPort(l.Host, strconv.Itoa(port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listener %s: %s: %w", l.Name, at, ErrAddressInUse)
	}
	return fmt.Errorf("listener %s: binding %s: %w", l.Name, at, err)
}

func portOf(a net.Addr) int {
	if ap, err := netip.ParseAddrPort(a.String()); err == nil {
		return int(ap.Port())
	}
	return 0
}

// registered is what this broker's registration says of a listener: the
// advertised address, or an empty host for the one the client has reached.
func (l *listener) registered() kmsg.BrokerRegistrationRequestListener {
	out := kmsg.NewBrokerRegistrationRequestListener()
	out.Name, out.Host, out.Port = l.name, l.told(), uint16(l.port)
	if l.advertised != nil {
		out.Host = l.advertised.Host
		if l.advertised.Port != 0 {
			out.Port = uint16(l.advertised.Port)
		}
	}
	return out
}

// told is the host clients hear of: empty where none was configured, or where
// it is a wildcard that no client can connect to.
func (l *listener) told() string {
	if ip, err := netip.ParseAddr(l.host); err == nil && ip.IsUnspecified() {
		return ""
	}
	return l.host
}

// bootstrap lists the addresses a client on this machine can begin with.
func (b *Broker) bootstrap() []string {
	var list []string
	for i := range b.listeners {
		l := &b.listeners[i]
		if l.kind != onBroker {
			continue
		}
		host := l.told()
		if host == "" {
			host = "localhost"
		}
		list = append(list, net.JoinHostPort(host, strconv.Itoa(l.port)))
	}
	return list
}

// controllerEndpoint is how the client behind a connection reaches this node's
// controller listener.
func (b *Broker) controllerEndpoint(conn *wire.Conn) (endpoint, bool) {
	for i := range b.listeners {
		l := &b.listeners[i]
		if l.name != conn.Listener {
			continue
		}
		if host := l.told(); host != "" {
			return endpoint{host, int32(l.port)}, true
		}
		return b.reached(conn, int32(l.port)), true
	}
	return endpoint{}, false
}

func listenTCP(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", address)
}

// isOwnAddress says whether a configured controller address is this node's.
func (b *Broker) isOwnAddress(a config.Address) bool {
	for i := range b.listeners {
		l := &b.listeners[i]
		if l.kind == onController && l.port == a.Port {
			return true
		}
	}
	return false
}
