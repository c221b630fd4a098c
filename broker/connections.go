package broker

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"millrace/controller/config"
	"millrace/controller/image"
	"millrace/wire"
)

// connectionLimits are the limits of connections that the configuration and an
// image's dynamic configs say: those of the broker, those of single addresses,
// and those of single listeners (KIP-402, KIP-612).
func (b *Broker) connectionLimits(ctx context.Context, img *image.Image) (wire.Limits, error) {
	var names []string
	for _, l := range b.listeners() {
		names = append(names, l.name)
	}
	return parseLimits(ctx, names, b.setting(img))
}

func parseLimits(ctx context.Context, listeners []string, set config.Lookup) (wire.Limits, error) {
	l := wire.Limits{PerListener: map[string]int{}, PerListenerRate: map[string]float64{}, PerIP: map[netip.Addr]int{}}
	const connections, perIP, creation = "max.connections", "max.connections.per.ip", "max.connection.creation.rate"
	for _, one := range []struct {
		name, key string
		to        func(int32)
	}{
		{connections, connections, func(n int32) { l.MaxConnections = limit(n) }},
		{perIP, perIP, func(n int32) { l.MaxConnectionsPerIP = limit(n) }},
		{creation, creation, func(n int32) { l.MaxCreationRate = rate(n) }},
	} {
		if err := number(set, one.name, one.key, one.to); err != nil {
			return l, err
		}
	}
	for _, listener := range listeners {
		prefix := "listener.name." + strings.ToLower(listener) + "."
		if err := number(set, prefix+connections, connections, func(n int32) { l.PerListener[listener] = limit(n) }); err != nil {
			return l, err
		}
		if err := number(set, prefix+creation, creation, func(n int32) { l.PerListenerRate[listener] = rate(n) }); err != nil {
			return l, err
		}
	}
	text, _ := set("max.connections.per.ip.overrides")
	overrides, err := config.ParseIPOverrides(text)
	if err != nil {
		return l, err
	}
	for _, o := range overrides {
		addresses, err := resolve(ctx, o.Host)
		if err != nil {
			return l, fmt.Errorf("max.connections.per.ip.overrides: %w", err)
		}
		for _, a := range addresses {
			l.PerIP[a] = int(o.Limit)
		}
	}
	return l, nil
}

// number gives to what is set for name, which takes the values of key.
func number(set config.Lookup, name, key string, to func(int32)) error {
	text, ok := set(name)
	if !ok {
		return nil
	}
	k, known := config.Find(config.BrokerScope, key)
	if !known {
		panic("broker: no config is named " + key)
	}
	if err := k.Check(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	to(int32(n))
	return nil
}

// limit puts a number of connections as package wire has it, for which 0 is no
// limit and a negative number nobody.
func limit(n int32) int {
	switch n {
	case 0:
		return -1
	case math.MaxInt32:
		return 0
	}
	return int(n)
}

// rate puts a creation rate as package wire has it. Kafka takes a rate of 0,
// which admits nobody once the burst is used up.
func rate(n int32) float64 {
	switch n {
	case 0:
		return 1e-9
	case math.MaxInt32:
		return 0
	}
	return float64(n)
}

// resolve gives the addresses that the host of an override stands for.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	return found, nil
}
