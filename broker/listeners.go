package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"millrace/controller/config"
	"millrace/controller/image"
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
	from       []config.Listener // what it was made from
	sockets    []socket
	advertised *config.Listener
}

// socket is one bound address; ctx ends when it is no longer to be served.
type socket struct {
	net.Listener
	ctx context.Context
	end context.CancelFunc
}

// listeners are the bound ones. Read only: a change replaces the list.
func (b *Broker) listeners() []listener {
	if l := b.bound.Load(); l != nil {
		return *l
	}
	return nil
}

// kindOf says of which kind a listener is, by its name.
func (b *Broker) kindOf(name string) listenerKind {
	for _, l := range b.listeners() {
		if l.name == name {
			return l.kind
		}
	}
	return onBroker
}

// bind opens every configured address.
func (b *Broker) bind(ctx context.Context) error {
	var list []listener
	for _, group := range byName(b.config.Listeners()) {
		l, err := b.bindListener(ctx, b.config, group)
		if l != nil {
			list = append(list, *l)
		}
		b.bound.Store(&list) // with an error too: what is open has to be closed
		if err != nil {
			return err
		}
	}
	return nil
}

// byName groups addresses by their listener's name, in order.
func byName(list []config.Listener) [][]config.Listener {
	var groups [][]config.Listener
next:
	for _, l := range list {
		for i := range groups {
			if groups[i][0].Name == l.Name {
				groups[i] = append(groups[i], l)
				continue next
			}
		}
		groups = append(groups, []config.Listener{l})
	}
	return groups
}

// bindListener opens the addresses of one listener. Those that share its name
// (127.0.0.1 and ::1 where nothing is configured) get one port, also where the
// configured port is 0. With an error the listener holds what was opened.
func (b *Broker) bindListener(ctx context.Context, c *config.Static, addresses []config.Listener) (*listener, error) {
	_, configured := c.Set("listeners")
	first := addresses[0]
	on := &listener{name: first.Name, kind: onBroker, protocol: first.Protocol, port: first.Port, from: addresses}
	if first.Controller {
		on.kind = onController
	}
	if configured {
		on.host = first.Host
	}
	for _, a := range c.Advertised() {
		if a.Name == on.name {
			on.advertised = &a
		}
	}
	for _, a := range bothLoopbacks(addresses) {
		opened, err := b.listen(ctx, net.JoinHostPort(a.Host, strconv.Itoa(on.port)))
		if err != nil {
			if len(on.sockets) > 0 && a.Host == "::1" && (!configured || first.Host == "localhost") && !errors.Is(err, syscall.EADDRINUSE) {
				continue // a host without ::1
			}
			return on, bindError(a, on.port, err)
		}
		s := socket{Listener: opened}
		s.ctx, s.end = context.WithCancel(context.Background())
		on.sockets = append(on.sockets, s)
		if on.port == 0 {
			on.port = portOf(opened.Addr())
		}
	}
	return on, nil
}

// applyListeners brings what is bound in line with the dynamic configs of this
// broker, as KIP-226 has it: listeners that are no longer wanted, or wanted
// elsewhere, are closed with their connections, then the new ones are opened. The
// broker registers anew with them (heartbeats), so that clients are told of them.
// Only the publisher, and the start before it, call it.
func (b *Broker) applyListeners(ctx context.Context, img *image.Image) {
	wanted, err := b.config.WithListeners(dynamic(img, image.BrokerResource, itoa(b.nodeID)))
	if err != nil {
		b.log.Warn("listeners stay as they were", zap.Error(err))
		return
	}
	groups := byName(wanted.Listeners())
	var list, gone []listener
	for _, l := range b.listeners() {
		if slices.ContainsFunc(groups, func(g []config.Listener) bool { return slices.Equal(g, l.from) }) {
			list = append(list, l)
		} else {
			gone = append(gone, l)
		}
	}
	groups = slices.DeleteFunc(groups, func(g []config.Listener) bool {
		return slices.ContainsFunc(list, func(l listener) bool { return slices.Equal(g, l.from) })
	})
	if len(gone)+len(groups) == 0 {
		return
	}
	// The list is replaced at the end: requests of a listener that moves go on being
	// judged by its kind.
	for _, l := range gone {
		for _, s := range l.sockets {
			s.end()
			s.Close()
		}
		if b.server != nil {
			b.server.End(l.name)
		}
		b.log.Info("listener closed", zap.String("listener", l.name), zap.Int("port", l.port))
	}
	grown := slices.Clone(list)
	for _, g := range groups {
		l, err := b.bindListener(ctx, wanted, g)
		if err != nil {
			b.log.Error("a listener does not open", zap.Error(err))
			for _, s := range l.sockets {
				s.Close()
			}
			continue
		}
		grown = append(grown, *l)
		b.log.Info("listener opened", zap.String("listener", l.name), zap.Int("port", l.port))
	}
	// With the lock: serve would otherwise find the new ones and serve them, too.
	b.opening.Lock()
	defer b.opening.Unlock()
	b.bound.Store(&grown)
	select {
	case b.relisted <- struct{}{}:
	default:
	}
	for i := len(list); i < len(grown) && b.open; i++ {
		b.serveListener(&grown[i])
	}
}

// checkListeners judges a change of this broker's own listeners, as the broker
// has to: a controller does not know another node's static configuration.
func (b *Broker) checkListeners(img *image.Image, after config.Lookup) (int16, string) {
	own := dynamic(img, image.BrokerResource, itoa(b.nodeID))
	if err := b.config.CheckListeners(own, after); err != nil {
		return kerr.InvalidRequest.Code, err.Error()
	}
	if err := b.checkCordoned(after); err != nil {
		return kerr.InvalidRequest.Code, err.Error()
	}
	return 0, ""
}

// bothLoopbacks puts 127.0.0.1 and ::1 in place of localhost: clients that are
// told that name may try either first, and some try no other.
func bothLoopbacks(list []config.Listener) []config.Listener {
	var out []config.Listener
	for _, l := range list {
		if l.Host != "localhost" {
			out = append(out, l)
			continue
		}
		four, six := l, l
		four.Host, six.Host = "127.0.0.1", "::1"
		out = append(out, four, six)
	}
	return out
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
	for _, l := range b.listeners() {
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
	for _, l := range b.listeners() {
		if l.name != conn.Listener {
			continue
		}
		return b.listenerEndpoint(l, conn), true
	}
	return endpoint{}, false
}

// listenerEndpoint is how the client behind a connection reaches a listener of
// this node: as it is advertised, as it is configured, or as it was reached.
func (b *Broker) listenerEndpoint(l listener, conn *wire.Conn) endpoint {
	if l.advertised != nil {
		port := l.advertised.Port
		if port == 0 {
			port = l.port
		}
		return endpoint{l.advertised.Host, int32(port)}
	}
	if host := l.told(); host != "" {
		return endpoint{host, int32(l.port)}
	}
	return b.reached(conn, l.name, int32(l.port))
}

func listenTCP(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", address)
}

// isOwnAddress says whether a configured controller address is this node's.
func (b *Broker) isOwnAddress(a config.Address) bool {
	for _, l := range b.listeners() {
		if l.kind == onController && l.port == a.Port {
			return true
		}
	}
	return false
}
