package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"millrace/broker"
	"millrace/controller/config"
)

// Variables of the container image. They are no Kafka configs: they describe
// what is around the broker.
const (
	inContainer   = "MILLRACE_CONTAINER"      // set, to anything but 0 and false: the broker runs in a container
	publishedPort = "MILLRACE_PUBLISHED_PORT" // PORT, or LISTENER:PORT,...: where the host has the listeners
	defaultsFile  = "MILLRACE_DEFAULTS"       // a properties file that is read below everything else
)

// outside describes the machine around the container that the broker runs in,
// and nothing where it runs in none.
func (p *program) outside(static *config.Static, logger *zap.Logger) (broker.Outside, error) {
	var o broker.Outside
	if !truth(p.variable(inContainer)) {
		return o, nil
	}
	var err error
	if o.Ports, err = published(p.variable(publishedPort), static); err != nil {
		return o, usageError{fmt.Errorf("%s=%s: %w", publishedPort, p.variable(publishedPort), err)}
	}
	o.Gateways = gateways("/proc/net/route", "/proc/net/ipv6_route")
	if len(static.Advertised()) > 0 {
		return o, nil // clients are told what is configured
	}
	for _, l := range static.Listeners() {
		if l.Controller {
			continue
		}
		port, set := o.Ports[l.Name]
		if !set {
			port = l.Port
		}
		line := fmt.Sprintf("clients on the machine that runs this container reach listener %s at localhost:%d", l.Name, port)
		if !set {
			line += "; if it is published as another port, set " + publishedPort
		}
		logger.Info(line, zap.String("listener", l.Name), zap.Int("port", port))
	}
	return o, nil
}

func truth(v string) bool { return v != "" && v != "0" && v != "false" }

// published reads MILLRACE_PUBLISHED_PORT.
func published(value string, static *config.Static) (map[string]int, error) {
	if value == "" {
		return nil, nil
	}
	var names []string
	for _, l := range static.Listeners() {
		if !l.Controller {
			names = append(names, l.Name)
		}
	}
	ports := map[string]int{}
	for _, entry := range strings.Split(value, ",") {
		name, number, named := strings.Cut(strings.TrimSpace(entry), ":")
		if !named {
			name, number = names[0], name
		}
		port, err := strconv.ParseUint(number, 10, 16)
		if err != nil || port == 0 {
			return nil, errors.New("expected a port, or LISTENER:PORT between commas")
		}
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no listener %s; there is %s", name, strings.Join(names, ", "))
		}
		ports[name] = int(port)
	}
	return ports, nil
}

// gateways are the default gateways that the kernel's routing tables name; a
// table that cannot be read has none.
func gateways(v4, v6 string) []netip.Addr {
	var all []netip.Addr
	for _, table := range []struct {
		path string
		read func(io.Reader) []netip.Addr
	}{{v4, gateways4}, {v6, gateways6}} {
		file, err := os.Open(table.path)
		if err != nil {
			continue
		}
		all = append(all, table.read(file)...)
		file.Close()
	}
	return all
}

// gateways4 reads /proc/net/route: a line of names, then a route a line, with
// addresses as hexadecimal numbers in the machine's byte order.
func gateways4(r io.Reader) []netip.Addr {
	var all []netip.Addr
	for lines := bufio.NewScanner(r); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		gateway, err := strconv.ParseUint(f[2], 16, 32)
		if err != nil || gateway == 0 {
			continue
		}
		var ip [4]byte
		binary.NativeEndian.PutUint32(ip[:], uint32(gateway))
		all = append(all, netip.AddrFrom4(ip))
	}
	return all
}

// gateways6 reads /proc/net/ipv6_route: destination, its prefix's length, source
// and its length, next hop, and more.
func gateways6(r io.Reader) []netip.Addr {
	var all []netip.Addr
	for lines := bufio.NewScanner(r); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 5 || f[1] != "00" || strings.Trim(f[0], "0") != "" {
			continue
		}
		hop, err := hex.DecodeString(f[4])
		if ip, ok := netip.AddrFromSlice(hop); err == nil && ok && !ip.IsUnspecified() {
			all = append(all, ip)
		}
	}
	return all
}
