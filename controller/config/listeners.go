package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Listener is one address of a listener. A listener that was not configured may
// have two addresses, one for each IP version, and then comes up twice.
type Listener struct {
	Name       string // upper case
	Protocol   string // security protocol, as in listener.security.protocol.map
	Host       string // empty: every interface; for an advertised one: as connected to
	Port       int    // 0: any free port
	Controller bool   // named in controller.listener.names
}

func (l Listener) String() string {
	host := l.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return l.Name + "://" + host + ":" + strconv.Itoa(l.Port)
}

// Voter is one entry of controller.quorum.voters.
type Voter struct {
	ID   int32
	Host string
	Port int
}

// Address is one entry of controller.quorum.bootstrap.servers.
type Address struct {
	Host string
	Port int
}

// ParseVoters reads controller.quorum.voters.
func ParseVoters(list []string) ([]Voter, error) {
	const name = "controller.quorum.voters"
	var voters []Voter
	for _, entry := range list {
		id, address, ok := strings.Cut(entry, "@")
		if !ok {
			return nil, invalid(name, entry, "Each entry should be in the form `{id}@{host}:{port}`.")
		}
		n, err := strconv.ParseInt(id, 10, 32)
		if err != nil || n < 0 {
			return nil, invalid(name, entry, "Failed to parse voter ID as an integer from "+id)
		}
		host, port, ok := hostPort(address)
		if !ok {
			return nil, invalid(name, entry, "Each entry should be in the form `{id}@{host}:{port}`.")
		}
		for _, v := range voters {
			if v.ID == int32(n) {
				return nil, invalid(name, entry, fmt.Sprintf("Voter ID %d is given twice", n))
			}
		}
		voters = append(voters, Voter{ID: int32(n), Host: host, Port: port})
	}
	return voters, nil
}

// ParseBootstrapServers reads controller.quorum.bootstrap.servers.
func ParseBootstrapServers(list []string) ([]Address, error) {
	var servers []Address
	for _, entry := range list {
		host, port, ok := hostPort(entry)
		if !ok {
			return nil, invalid("controller.quorum.bootstrap.servers", entry, "Each entry should be in the form `{host}:{port}`.")
		}
		servers = append(servers, Address{Host: host, Port: port})
	}
	return servers, nil
}

// hostPort takes host:port with a host and a port from 1 up.
func hostPort(s string) (string, int, bool) {
	i := strings.LastIndexByte(s, ':')
	if i <= 0 {
		return "", 0, false
	}
	host := s[:i]
	if h, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(h, "]"); !ok {
			return "", 0, false
		}
	} else if strings.Contains(host, ":") {
		return "", 0, false
	}
	port, err := strconv.ParseUint(s[i+1:], 10, 16)
	return host, int(port), err == nil && port > 0 && host != ""
}

// parseListener takes NAME://host:port; the host may be missing.
func parseListener(s string) (Listener, bool) {
	name, rest, ok := strings.Cut(s, "://")
	i := strings.LastIndexByte(rest, ':')
	if !ok || i < 0 || name == "" {
		return Listener{}, false
	}
	host := strings.TrimSuffix(strings.TrimPrefix(rest[:i], "["), "]")
	for _, c := range host {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune("-%._:", c)) {
			return Listener{}, false
		}
	}
	port, err := strconv.ParseUint(rest[i+1:], 10, 16)
	if err != nil {
		return Listener{}, false
	}
	return Listener{Name: strings.ToUpper(name), Host: host, Port: int(port)}, true
}

var securityProtocols = []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}

// protocolMap reads listener.security.protocol.map.
func protocolMap(value string) (map[string]string, error) {
	const name = "listener.security.protocol.map"
	protocols := map[string]string{}
	for _, entry := range SplitList(value) {
		i := strings.LastIndexByte(entry, ':')
		if i <= 0 {
			return nil, invalid(name, value, "Each entry should be in the form `{listener}:{security protocol}`.")
		}
		listener, protocol := strings.ToUpper(entry[:i]), strings.ToUpper(entry[i+1:])
		if !contains(securityProtocols, protocol) {
			return nil, invalid(name, value, "No enum constant for the security protocol "+entry[i+1:])
		}
		protocols[listener] = protocol
	}
	return protocols, nil
}

// network is everything about addresses that a start needs.
type network struct {
	listeners   []Listener
	advertised  []Listener // nil: as connected to
	controllers []string
	interBroker string
	voters      []Voter
	bootstrap   []Address
}

func (s *Static) parseNetwork() (*network, error) {
	n := &network{}
	// First, as what is wrong with the file of a broker or a controller alone is what it is made for.
	if err := s.checkRoles(); err != nil {
		return nil, err
	}
	for _, c := range s.List("controller.listener.names") {
		n.controllers = append(n.controllers, strings.ToUpper(c))
	}
	protocols, err := s.protocols(n.controllers)
	if err != nil {
		return nil, err
	}
	if n.listeners, err = s.endpoints("listeners", protocols, n.controllers); err != nil {
		return nil, err
	}
	if n.advertised, err = s.endpoints("advertised.listeners", protocols, n.controllers); err != nil {
		return nil, err
	}
	if err := n.checkNames(); err != nil {
		return nil, err
	}
	if err := s.chooseInterBroker(n); err != nil {
		return nil, err
	}
	if n.voters, err = ParseVoters(s.List("controller.quorum.voters")); err != nil {
		return nil, err
	}
	if n.bootstrap, err = ParseBootstrapServers(s.List("controller.quorum.bootstrap.servers")); err != nil {
		return nil, err
	}
	return n, s.checkQuorum(n)
}

// protocols is listener.security.protocol.map; if it is not set, controller
// listeners are PLAINTEXT as long as no listener is named for SSL or SASL.
func (s *Static) protocols(controllers []string) (map[string]string, error) {
	protocols, err := protocolMap(s.String("listener.security.protocol.map"))
	if err != nil {
		return nil, err
	}
	if _, set := s.Set("listener.security.protocol.map"); set {
		return protocols, nil
	}
	for _, l := range s.List("listeners") {
		name, _, _ := strings.Cut(strings.ToUpper(l), "://")
		if name == "SSL" || name == "SASL_SSL" || name == "SASL_PLAINTEXT" {
			return protocols, nil
		}
	}
	for _, c := range controllers {
		if _, ok := protocols[c]; !ok {
			protocols[c] = "PLAINTEXT"
		}
	}
	return protocols, nil
}

func (s *Static) endpoints(key string, protocols map[string]string, controllers []string) ([]Listener, error) {
	var list []Listener
	value := s.String(key)
	for _, entry := range SplitList(value) {
		l, ok := parseListener(entry)
		if !ok {
			return nil, &Error{Message: fmt.Sprintf("Error creating broker listeners from '%s': Unable to parse %s to a broker endpoint: expected NAME://HOST:PORT", value, entry)}
		}
		if l.Protocol, ok = protocols[l.Name]; !ok {
			return nil, &Error{Message: fmt.Sprintf("Error creating broker listeners from '%s': No security protocol defined for listener %s", value, l.Name)}
		}
		if l.Protocol != "PLAINTEXT" {
			return nil, &Error{Message: fmt.Sprintf("%s: listener %s asks for %s, and protected listeners are not available", key, l.Name, l.Protocol)}
		}
		l.Controller = contains(controllers, l.Name)
		list = append(list, l)
	}
	_, set := s.Set(key)
	if !set {
		return list, nil
	}
	for i, a := range list {
		for _, b := range list[:i] {
			if a.Name == b.Name {
				return nil, &Error{Message: fmt.Sprintf("Each listener must have a different name, %s: %s", key, value)}
			}
			// Advertised listeners may share a port: they may differ in their host.
			if key == "listeners" && a.Port == b.Port && a.Port != 0 && !bothVersions(a.Host, b.Host) {
				return nil, &Error{Message: fmt.Sprintf("Each listener must have a different port unless exactly one listener has an IPv4 address and the other IPv6 address, %s: %s", key, value)}
			}
		}
	}
	return list, nil
}

// bothVersions says whether one is an IPv4 address and the other an IPv6 one (KIP-797).
func bothVersions(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	return errX == nil && errY == nil && x.Is4() != y.Is4()
}

// checkNames compares the names in listeners, advertised.listeners and
// controller.listener.names.
func (n *network) checkNames() error {
	names := listenerNames(n.listeners)
	if len(n.controllers) > 0 {
		found := false
		for _, c := range n.controllers {
			found = found || contains(names, c)
		}
		if !found {
			return &Error{Message: "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when running the KRaft controller role"}
		}
	}
	advertised := n.advertised
	if advertised == nil {
		advertised = n.listeners
	}
	brokers := 0
	for _, l := range advertised {
		if !contains(names, l.Name) {
			return &Error{Message: fmt.Sprintf("advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found %s. The valid options based on the current configuration are %s", strings.Join(listenerNames(advertised), ","), strings.Join(names, ","))}
		}
		if n.advertised != nil && (l.Host == "0.0.0.0" || l.Host == "::") {
			return &Error{Message: fmt.Sprintf("advertised.listeners cannot use the nonroutable meta-address %s. Use a routable IP address.", l.Host)}
		}
		if !l.Controller {
			brokers++
		}
	}
	if brokers == 0 {
		return &Error{Message: "There must be at least one broker advertised listener. Perhaps all listeners appear in controller.listener.names?"}
	}
	return nil
}

func listenerNames(list []Listener) []string {
	var names []string
	for _, l := range list {
		if !contains(names, l.Name) {
			names = append(names, l.Name)
		}
	}
	return names
}

func (s *Static) chooseInterBroker(n *network) error {
	name, named := s.Set("inter.broker.listener.name")
	if _, set := s.Set("security.inter.broker.protocol"); set && named {
		return &Error{Message: "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."}
	}
	if !named {
		name = s.String("security.inter.broker.protocol")
		if name != "PLAINTEXT" {
			return &Error{Message: "security.inter.broker.protocol: " + name + " is asked for, and protected listeners are not available"}
		}
	}
	name = strings.ToUpper(strings.TrimFunc(name, javaBlank))
	if contains(n.controllers, name) {
		return &Error{Message: fmt.Sprintf("The inter-broker listener %s must not be one of controller.listener.names", name)}
	}
	advertised := n.advertised
	if advertised == nil {
		advertised = n.listeners
	}
	var valid []string
	for _, l := range advertised {
		if !l.Controller && !contains(valid, l.Name) {
			valid = append(valid, l.Name)
		}
	}
	if !contains(valid, name) {
		return &Error{Message: fmt.Sprintf("inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options based on currently configured listeners are %s", strings.Join(valid, ","))}
	}
	n.interBroker = name
	return nil
}

// checkRoles refuses a node that is broker or controller alone.
func (s *Static) checkRoles() error {
	roles := s.List("process.roles")
	if !contains(roles, "broker") || !contains(roles, "controller") {
		return &Error{Message: fmt.Sprintf("process.roles=%s: a node is broker and controller at once here; set process.roles=broker,controller", strings.Join(roles, ","))}
	}
	return nil
}

// checkQuorum refuses what a lone node cannot be part of.
func (s *Static) checkQuorum(n *network) error {
	if len(n.voters) > 1 {
		return &Error{Message: fmt.Sprintf("controller.quorum.voters names %d controllers; a cluster has one node here", len(n.voters))}
	}
	if len(n.bootstrap) > 1 {
		return &Error{Message: fmt.Sprintf("controller.quorum.bootstrap.servers names %d controllers; a cluster has one node here", len(n.bootstrap))}
	}
	if len(n.voters) == 1 && n.voters[0].ID != s.NodeID() {
		return &Error{Message: fmt.Sprintf("If process.roles contains the 'controller' role, the node id %d must be included in the set of voters controller.quorum.voters=%s", s.NodeID(), s.String("controller.quorum.voters"))}
	}
	if len(n.voters)+len(n.bootstrap) > 0 && len(n.controllers) == 0 {
		return &Error{Message: "controller.listener.names must be set when a controller quorum is configured"}
	}
	if len(n.bootstrap) == 1 && !n.itself(n.bootstrap[0]) {
		return &Error{Message: fmt.Sprintf("controller.quorum.bootstrap.servers=%s names another node; a cluster has one node here", s.String("controller.quorum.bootstrap.servers"))}
	}
	return nil
}

// itself says whether an address is that of one of this node's controller
// listeners. Names are not resolved: a listener on every interface, or on
// loopback, is taken to be what its port says.
func (n *network) itself(a Address) bool {
	for _, l := range append(n.listeners[:len(n.listeners):len(n.listeners)], n.advertised...) {
		if !l.Controller || l.Port != a.Port && l.Port != 0 {
			continue
		}
		if strings.EqualFold(l.Host, a.Host) || l.Host == "" || l.Host == "0.0.0.0" || l.Host == "::" || loopback(l.Host) && loopback(a.Host) {
			return true
		}
	}
	return false
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback() || strings.EqualFold(host, "localhost")
}
